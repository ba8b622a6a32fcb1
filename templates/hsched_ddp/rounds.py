"""The folder in which copies of a training meet: who lives, who does which steps of a round, and what was handed in.

Files alone: no tensors. docs/copies.md says what each file holds.
"""
from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import math
import os
import secrets
import shutil
import stat
import threading
import time
from types import MappingProxyType
from typing import Any, Dict, Iterator, Mapping, Optional, Tuple

from .merge import read_json, write_file
from .ranges import Ranges, count, join, numbers

# What the files hold: {name: form} and more names, {"*": form} any names, [form] any number, (form, form) either.
_RANGES: Any = [[int]]
_MERGED = {"steps": int, "ranges": _RANGES, "weights": (str, None), "states": (str, None), "loss": ([float], None)}
_ALIVE = {"token": str, "gone": bool, "waits": bool}
_RESULT = dict(_MERGED, round=int, base=str, token=str, busy_s=float, calls={"*": float}, after=([float], None))
_MISSED = {"*": {"token": str, "seen": float}}
_ROUND = {"round": int, "epoch": int, "by": [(int, str)], "members": {"*": {"token": str, "ranges": _RANGES}}, "speeds": {"*": float}, "length_s": float,
          "alone": (int, None), "why": str, "worse": int, "calls": {"*": float}, "left": _RANGES, "merged": {"*": _MERGED}}


def fits(value: Any, form: Any) -> bool:
    """Returns whether something that was read has a form."""
    if isinstance(form, tuple):
        return any(fits(value, own) for own in form)
    if isinstance(form, list):
        return isinstance(value, list) and all(fits(inner, form[0]) for inner in value)
    if isinstance(form, dict):
        names = value if "*" in form else form
        return isinstance(value, dict) and all(name in value and fits(value[name], form.get("*", form.get(name))) for name in names)
    if form is None or form is str:
        return value is None if form is None else isinstance(value, str)
    return isinstance(value, bool) == (form is bool) and isinstance(value, (int, form))


def _are_steps(ranges: Ranges) -> bool:
    """Returns whether these are ranges of steps, of which none is in two."""
    try:
        return all(len(own) == 2 and 0 <= own[0] <= own[1] for own in ranges) and join(ranges) is not None
    except ValueError:
        return False


def _read(path: str) -> Optional[bytes]:
    """Returns what is in a round's place; None where there is nothing, and no bytes for what is no file of this user's."""
    try:
        if not stat.S_ISREG(os.lstat(path).st_mode):
            return b""
        with open(path, "rb") as file:
            return file.read()
    except FileNotFoundError:
        return None
    except PermissionError:
        return b""


def _round(text: bytes, number: int) -> Optional[Dict[str, Any]]:
    """Returns what was decided about a round; None where that is not what the text says, as when it is cut off."""
    try:
        own = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not fits(own, _ROUND) or own["round"] != number or not fits(own.get("before", ""), str) or not fits(own.get("missed", {}), _MISSED):
        return None
    copies = [*own["members"], *own["merged"]]
    ranges = [steps for member in own["members"].values() for steps in member["ranges"]] + own["left"]
    is_one = len(own["by"]) == 2 and fits(own["by"][0], int) and fits(own["by"][1], str)
    is_one &= 0 < own["length_s"] < math.inf and all(0 <= speed < math.inf for speed in own["speeds"].values())
    return own if is_one and all(key.isdecimal() for key in copies) and _are_steps(ranges) else None


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

    def seen(self, number: int) -> float:
        """Returns when a copy gave its last sign of life, by the clock of the file system; 0 if it never did."""
        try:
            return os.stat(self._alive(number)).st_mtime
        except OSError:
            return 0.0

    def living(self, waiting: bool = True, missed: Mapping[str, Mapping[str, Any]] = MappingProxyType({})) -> Dict[int, str]:
        """Returns the tokens of all copies that live, by the clock of the file system, which all of them share.

        Without those that wait if these do not count, and without those that missed a round and were not seen since.
        """
        os.utime(self._alive(self.number))
        now, living = os.stat(self._alive(self.number)).st_mtime, {}
        for number in range(1, self.most + 1):
            with contextlib.suppress(OSError):
                own = read_json(self._alive(number))
                if own and fits(own, _ALIVE) and not own["gone"] and (waiting or not own["waits"]) and now - os.stat(self._alive(number)).st_mtime < self.silence_s:
                    if missed.get(str(number), {}).get("token") != own["token"]:
                        living[number] = own["token"]
        return living

    def lives(self, number: int, token: str) -> bool:
        return self.living().get(number) == token

    # The rounds

    def _names(self, number: int) -> Iterator[str]:
        """Yields where a round may be, in order: each name after the first is for a damaged file in the place before."""
        yield os.path.join(self.path, "round-%d.json" % number)
        for again in itertools.count(2):
            yield os.path.join(self.path, "round-%d.%d.json" % (number, again))

    def _whole(self, number: int) -> Iterator[Tuple[str, Optional[Dict[str, Any]], str]]:
        """Yields the files in a round's places: name, what was decided, and hash; without what was decided where it is no round."""
        for path in self._names(number):
            text = _read(path)
            if text is None:
                return
            yield os.path.basename(path), _round(text, number), hashlib.sha256(text).hexdigest()

    def after(self, number: int, last: Optional[Mapping[str, Any]], base: str) -> Optional[Tuple[Dict[str, Any], str]]:
        """Returns what was decided about the round after one with this hash, and the hash of that; None where nothing was.

        A round names the hash of the one before. Those of hsched 0.1.0 do not, and count as long as none before does.
        """
        unnamed = number == 0 or last is not None and "before" not in last
        for _, content, own in self._whole(number + 1):
            if content is not None and (content["before"] == base if "before" in content else unnamed):
                return content, own
        return None

    def latest(self) -> Tuple[int, Optional[Dict[str, Any]], str]:
        """Returns the number of the last round of the chain, what was decided about it, and its hash; 0 and nothing before the first.

        The chain begins with the round of the checkpoint, of which perhaps nothing but the hash is known any more.
        """
        number, base = self._marked()
        last: Optional[Dict[str, Any]] = None
        if base:
            last = next((content for _, content, own in self._whole(number) if own == base), None)
        else:  # no checkpoint yet, or one of hsched 0.1.0
            number = 0
        while True:
            following = self.after(number, last, base)
            if following is None:
                return number, last, base
            number, (last, base) = number + 1, following

    def decide(self, content: Mapping[str, Any], last: Optional[Mapping[str, Any]]) -> Optional[str]:
        """Decides on a round after the last one, unless somebody else has; returns the name of its file if it was this copy."""
        temporary = os.path.join(self.path, self.token + ".tmp")
        write_file(temporary, [json.dumps(content).encode()])
        try:
            for path in self._names(content["round"]):
                with contextlib.suppress(FileExistsError):
                    os.link(temporary, path)
                    return os.path.basename(path)
                if self.after(content["round"] - 1, last, content["before"]):
                    return None
        finally:
            os.unlink(temporary)
        return None

    # What was handed in, and the checkpoint

    def results(self, number: int) -> str:
        """Returns the folder of what the copies have trained in a round."""
        return os.path.join(self.path, "round-%d" % number)

    def handed_in(self, current: Mapping[str, Any], base: str) -> Dict[int, Dict[str, Any]]:
        """Returns what the copies of a round have written for it; nothing of another round, base or process, nor of other steps."""
        results = {}
        for key, own in current["members"].items():
            line = read_json(os.path.join(self.results(current["round"]), "copy-%s.json" % key))
            if line and fits(line, _RESULT) and (line["round"], line["base"], line["token"]) == (current["round"], base, own["token"]):
                are_its = _are_steps(line["ranges"]) and line["steps"] == count(line["ranges"]) <= count(own["ranges"])
                if are_its and set(numbers(line["ranges"])) <= set(numbers(own["ranges"])) and math.isfinite(line["busy_s"]):
                    results[int(key)] = line
        return results

    def forget(self, number: int) -> None:
        """Removes what was trained in a round."""
        with contextlib.suppress(OSError):
            shutil.rmtree(self.results(number))

    def _mark(self) -> str:
        return os.path.join(self.path, "checkpoint.json")

    def mark(self, number: int, base: str) -> None:
        """Says that the checkpoint goes on with the begin of a round."""
        write_file(self._mark(), [json.dumps({"round": number, "hash": base}).encode()])

    def _marked(self) -> Tuple[int, str]:
        own = read_json(self._mark())
        return (own["round"], own.get("hash", "")) if own and fits(own, {"round": int}) and fits(own.get("hash", ""), str) else (0, "")

    def marked(self) -> int:
        """Returns the round with whose begin the checkpoint goes on; 0 where nothing says so."""
        return self._marked()[0]
