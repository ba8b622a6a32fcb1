"""The reports of a rank: lines of JSON, and the time of its forward and backward passes."""
from __future__ import annotations

import json
import math
import time
from collections import deque
from typing import Any, Deque, List, Mapping, Tuple

from .optional import torch


def append_line(path: str, line: Mapping[str, Any]) -> None:
    """Appends a JSON line to a file. Numbers that are not finite become null."""
    text = json.dumps(finite(dict(line))) + "\n"
    with open(path, "a") as file:
        file.write(text)  # a single write, so that readers see the whole line or none


def finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: finite(inner) for key, inner in value.items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value


class Timer:
    """Times forward and backward passes without waiting for the GPU; waits for other ranks do not count.

    A pass starts when its batch is handed out and ends when the next one is requested, or at a mark, which is made if the
    ranks exchange gradients before that. On GPUs, these are events in the stream, which are read once they have happened.
    """

    def __init__(self, device: Any) -> None:
        self._cuda = device.type == "cuda"
        self._begin: Any = None
        self._end: Any = None
        self._running: Deque[Tuple[Any, Any, int]] = deque()
        self.passes: List[Tuple[int, float]] = []  # samples and seconds of each finished pass

    def _now(self) -> Any:
        if not self._cuda:
            return time.perf_counter()
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def start(self) -> None:
        self._begin, self._end = self._now(), None

    def mark(self) -> None:
        self._end = self._now()

    def stop(self, samples: int) -> None:
        self._running.append((self._begin, self._now() if self._end is None else self._end, samples))
        while self._running and (not self._cuda or self._running[0][1].query()):
            self._collect()

    def flush(self) -> List[Tuple[int, float]]:
        """Waits for the passes since the last call, and returns them."""
        if self._cuda:
            torch.cuda.synchronize()
        while self._running:
            self._collect()
        passes, self.passes = self.passes, []
        return passes

    def _collect(self) -> None:
        begin, end, samples = self._running.popleft()
        self.passes.append((samples, begin.elapsed_time(end) / 1000 if self._cuda else end - begin))
