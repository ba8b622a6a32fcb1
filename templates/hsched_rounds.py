"""The folder in which copies of a training meet: who lives, who does which steps of a round, and what was handed in.

Files alone, and the arithmetic of steps: no tensors. docs/copies.md says what each file holds.
"""
from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
import secrets
import shutil
import threading
import time
from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple

from hsched_merge import Refused, read_json, write_file

Ranges = List[List[int]]  # steps of an epoch, each [first, end)


def count(ranges: Ranges) -> int:
    return sum(end - begin for begin, end in ranges)


def numbers(ranges: Ranges) -> Iterator[int]:
    for begin, end in ranges:
        yield from range(begin, end)


def take(ranges: Ranges, most: int) -> Tuple[Ranges, Ranges]:
    """Returns the first steps of some, and the rest."""
    taken, rest = [], []
    for begin, end in ranges:
        own = min(end - begin, most)
        most -= own
        taken += [[begin, begin + own]] if own else []
        rest += [[begin + own, end]] if begin + own < end else []
    return taken, rest


def join(ranges: Ranges) -> Ranges:
    """Returns the same steps in order, in as few ranges as possible; no step may be in two."""
    joined: Ranges = []
    for begin, end in sorted(ranges):
        if joined and begin < joined[-1][1]:
            raise Refused("step %d is in two ranges" % begin)
        if joined and begin == joined[-1][1]:
            joined[-1][1] = end
        elif begin < end:
            joined.append([begin, end])
    return joined


def split(left: int, speeds: Sequence[Optional[float]], time_s: float) -> Tuple[List[int], bool]:
    """Returns the steps of each copy, and whether any speed is known: without, all do as many.

    As in `hsched simulate --policy hadare`: as many as each can do in the time, or, where that is more than there are, in
    proportion to speed. A copy whose speed is not known is taken to be as fast as the others on average.
    """
    known = [speed for speed in speeds if speed]
    own = [speed or (sum(known) / len(known) if known else 1.0) for speed in speeds]
    most = [max(1, math.floor(speed * time_s + 1e-9)) for speed in own]
    if known and sum(most) <= left:
        return most, True
    exact = [left * speed / sum(own) for speed in own]
    parts = [math.floor(part + 1e-9) for part in exact]
    order = sorted(range(len(parts)), key=lambda k: (-round(exact[k] - parts[k], 9), k))
    for k in order[:left - sum(parts)]:
        parts[k] += 1
    return parts, bool(known)


class Folder:
    """HSCHED_ROUND_DIR as one copy sees it; while this exists, the copy lives."""

    def __init__(self, path: str, number: int, most: int, silence_s: float = 60.0) -> None:
        self.path, self.number, self.most = path, number, most
        self.silence_s = silence_s  # without a sign of life for so long, a copy is dead
        self.token = secrets.token_hex(8)  # of this process: a copy that was started again is another one
        self._waits = False  # whether it can do nothing until somebody else has written a checkpoint
        os.makedirs(path, exist_ok=True)
        self._beat()
        threading.Thread(target=self._live, daemon=True).start()

    # Who lives

    def _beat(self, gone: bool = False) -> None:
        write_file(self._alive(self.number), [json.dumps({"token": self.token, "gone": gone, "waits": self._waits}).encode()])

    def _live(self) -> None:
        pause = min(5.0, self.silence_s / 4)
        while self.silence_s < math.inf:
            time.sleep(pause)
            with contextlib.suppress(OSError):
                os.utime(self._alive(self.number))

    def _alive(self, number: int) -> str:
        return os.path.join(self.path, "alive-%d.json" % number)

    def wait(self, waits: bool) -> None:
        """Tells the others whether this copy waits for a checkpoint."""
        if waits != self._waits:
            self._waits = waits
            self._beat()

    def leave(self) -> None:
        """Tells the others not to wait for this copy."""
        self.silence_s = math.inf
        self._beat(gone=True)

    def living(self, waiting: bool = True) -> Dict[int, str]:
        """Returns the tokens of all copies that live, by the clock of the file system, which all of them share; without those that wait if these do not count."""
        os.utime(self._alive(self.number))
        now, living = os.stat(self._alive(self.number)).st_mtime, {}
        for number in range(1, self.most + 1):
            with contextlib.suppress(OSError):
                own = read_json(self._alive(number))
                if own and not own["gone"] and (waiting or not own["waits"]) and now - os.stat(self._alive(number)).st_mtime < self.silence_s:
                    living[number] = str(own["token"])
        return living

    def lives(self, number: int, token: str) -> bool:
        return self.living().get(number) == token

    # The rounds

    def _round(self, number: int) -> str:
        return os.path.join(self.path, "round-%d.json" % number)

    def is_decided(self, number: int) -> bool:
        return os.path.exists(self._round(number))

    def read(self, number: int) -> Tuple[Dict[str, Any], str]:
        """Returns what was decided about a round, and the hash of the file that says so."""
        with open(self._round(number), "rb") as file:
            text = file.read()
        return json.loads(text), hashlib.sha256(text).hexdigest()

    def latest(self) -> Tuple[int, Optional[Dict[str, Any]], str]:
        """Returns the number of the latest round, what was decided about it, and its hash; 0 and nothing before the first."""
        rounds = [int(name[6:-5]) for name in os.listdir(self.path) if name.startswith("round-") and name.endswith(".json")]
        if not rounds:
            return 0, None, ""
        return (max(rounds), *self.read(max(rounds)))

    def decide(self, content: Mapping[str, Any]) -> bool:
        """Decides on a round, unless somebody else has; returns whether it was this copy."""
        temporary = os.path.join(self.path, self.token + ".tmp")
        write_file(temporary, [json.dumps(content).encode()])
        try:
            os.link(temporary, self._round(content["round"]))
            return True
        except FileExistsError:
            return False
        finally:
            os.unlink(temporary)

    # What was handed in, and the checkpoint

    def results(self, number: int) -> str:
        """Returns the folder of what the copies have trained in a round."""
        return os.path.join(self.path, "round-%d" % number)

    def handed_in(self, current: Mapping[str, Any], base: str) -> Dict[int, Dict[str, Any]]:
        """Returns what the copies of a round have written for it; nothing of another round, base or process."""
        results = {}
        for key, own in current["members"].items():
            line = read_json(os.path.join(self.results(current["round"]), "copy-%s.json" % key))
            if line and (line["round"], line["base"], line["token"]) == (current["round"], base, own["token"]):
                results[int(key)] = line
        return results

    def forget(self, number: int) -> None:
        """Removes what was trained in a round."""
        with contextlib.suppress(OSError):
            shutil.rmtree(self.results(number))

    def _mark(self) -> str:
        return os.path.join(self.path, "checkpoint.json")

    def mark(self, number: int) -> None:
        """Says that the checkpoint goes on with the begin of a round."""
        write_file(self._mark(), [json.dumps({"round": number}).encode()])

    def marked(self) -> int:
        """Returns the round with whose begin the checkpoint goes on; 0 where nothing says so."""
        return int((read_json(self._mark()) or {"round": 0})["round"])
