"""The folder that the copies of a job share: which copies live, which steps of a round each does, and their results.

This module handles only files, no tensors. docs/copies.md describes each file.
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

# The forms of the files: {name: form} and more names, {"*": form} any names, [form] any number, (form, form) either.
_RANGES: Any = [[int]]
_MERGED = {"steps": int, "ranges": _RANGES, "weights": (str, None), "states": (str, None), "loss": ([float], None)}
_ALIVE = {"token": str, "gone": bool, "waits": bool}
_RESULT = dict(_MERGED, round=int, base=str, token=str, busy_s=float, calls={"*": float}, after=([float], None))
_MISSED = {"*": {"token": str, "seen": float}}
_ROUND = {"round": int, "epoch": int, "by": [(int, str)], "members": {"*": {"token": str, "ranges": _RANGES}}, "speeds": {"*": float}, "length_s": float,
          "alone": (int, None), "why": str, "worse": int, "calls": {"*": float}, "left": _RANGES, "merged": {"*": _MERGED}}


def fits(value: Any, form: Any) -> bool:
    """Returns whether a value has a form."""
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
    """Returns whether these are ranges of steps that do not overlap."""
    try:
        return all(len(own) == 2 and 0 <= own[0] <= own[1] for own in ranges) and join(ranges) is not None
    except ValueError:
        return False


def _read(path: str) -> Optional[bytes]:
    """Returns the content of a round's file; None if there is none, no bytes unless it is a readable regular file."""
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
    """Returns the decision about a round; None if the text does not contain one, for example because it is cut off."""
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
    """HSCHED_ROUND_DIR as one copy sees it; the copy counts as living until it leaves or its process ends."""

    def __init__(self, path: str, number: int, most: int, silence_s: float = 60.0) -> None:
        self.path, self.number, self.most = path, number, most
        self.silence_s = silence_s  # time without a sign of life after which a copy counts as dead
        self.token = secrets.token_hex(8)  # of this process: a restarted copy has a new one
        self._waits = False  # whether it is blocked until another copy has written a checkpoint
        os.makedirs(path, exist_ok=True)
        self._beat()
        threading.Thread(target=self._live, daemon=True).start()

    # Signs of life

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
        """Returns the time of a copy's last sign of life, by the clock of the file system; 0 if there was none."""
        try:
            return os.stat(self._alive(number)).st_mtime
        except OSError:
            return 0.0

    def living(self, waiting: bool = True, missed: Mapping[str, Mapping[str, Any]] = MappingProxyType({})) -> Dict[int, str]:
        """Returns the tokens of all living copies, by the clock of the file system, which all copies share.

        If `waiting` is false, copies that wait are left out. Copies in `missed` are left out until they are restarted.
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

    # Rounds

    def _names(self, number: int) -> Iterator[str]:
        """Yields the possible file names of a round, in order: each is used if the files before it are damaged or not of this chain."""
        yield os.path.join(self.path, "round-%d.json" % number)
        for again in itertools.count(2):
            yield os.path.join(self.path, "round-%d.%d.json" % (number, again))

    def _whole(self, number: int) -> Iterator[Tuple[str, Optional[Dict[str, Any]], str]]:
        """Yields the files of a round: name, decision and hash; the decision is None if the file is not a round."""
        for path in self._names(number):
            text = _read(path)
            if text is None:
                return
            yield os.path.basename(path), _round(text, number), hashlib.sha256(text).hexdigest()

    def after(self, number: int, last: Optional[Mapping[str, Any]], base: str) -> Optional[Tuple[Dict[str, Any], str]]:
        """Returns the decision about the round after the one with this hash, and the hash of its file; None if there is none.

        A round contains the hash of the previous one. Rounds of hsched 0.1.0 do not; such a round counts only as the
        first one or after another such round.
        """
        unnamed = number == 0 or last is not None and "before" not in last
        for _, content, own in self._whole(number + 1):
            if content is not None and (content["before"] == base if "before" in content else unnamed):
                return content, own
        return None

    def latest(self) -> Tuple[int, Optional[Dict[str, Any]], str]:
        """Returns the number of the last round of the chain, the decision about it, and its hash; 0 and nothing before the first.

        The chain starts with the round of the checkpoint, of which perhaps only the hash is left.
        """
        number, base = self._marked()
        last: Optional[Dict[str, Any]] = None
        if base:
            last = next((content for _, content, own in self._whole(number) if own == base), None)
        else:  # there is no checkpoint, or one of hsched 0.1.0
            number = 0
        while True:
            following = self.after(number, last, base)
            if following is None:
                return number, last, base
            number, (last, base) = number + 1, following

    def decide(self, content: Mapping[str, Any], last: Optional[Mapping[str, Any]]) -> Optional[str]:
        """Decides on the round after the last one, unless another copy has; returns the name of its file if this copy decided."""
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

    # Results and the checkpoint

    def results(self, number: int) -> str:
        """Returns the folder with the results of a round."""
        return os.path.join(self.path, "round-%d" % number)

    def handed_in(self, current: Mapping[str, Any], base: str) -> Dict[int, Dict[str, Any]]:
        """Returns the results of the copies of a round, without those for another round, base or process, or for other steps."""
        results = {}
        for key, own in current["members"].items():
            line = read_json(os.path.join(self.results(current["round"]), "copy-%s.json" % key))
            if line and fits(line, _RESULT) and (line["round"], line["base"], line["token"]) == (current["round"], base, own["token"]):
                are_its = _are_steps(line["ranges"]) and line["steps"] == count(line["ranges"]) <= count(own["ranges"])
                if are_its and set(numbers(line["ranges"])) <= set(numbers(own["ranges"])) and math.isfinite(line["busy_s"]):
                    results[int(key)] = line
        return results

    def forget(self, number: int) -> None:
        """Removes the results of a round."""
        with contextlib.suppress(OSError):
            shutil.rmtree(self.results(number))

    def _mark(self) -> str:
        return os.path.join(self.path, "checkpoint.json")

    def mark(self, number: int, base: str) -> None:
        """Records that the checkpoint resumes at the start of a round."""
        write_file(self._mark(), [json.dumps({"round": number, "hash": base}).encode()])

    def _marked(self) -> Tuple[int, str]:
        own = read_json(self._mark())
        return (own["round"], own.get("hash", "")) if own and fits(own, {"round": int}) and fits(own.get("hash", ""), str) else (0, "")

    def marked(self) -> int:
        """Returns the round at whose start the checkpoint resumes; 0 if none is recorded."""
        return self._marked()[0]
