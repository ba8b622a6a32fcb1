"""The progress of this rank, for monitoring: its steps and its phase, in a small file on the node."""
from __future__ import annotations

import contextlib
import os
from typing import Iterator, Optional


class Progress:
    """Writes the number of steps and the phase to the file HSCHED_PROGRESS, which the job script samples.

    Does nothing without that variable, or if the file cannot be written.
    """

    def __init__(self) -> None:
        self.steps, self.phase = 0, "start"
        self._file: Optional[int] = None
        path = os.environ.get("HSCHED_PROGRESS")
        if path:
            with contextlib.suppress(OSError):
                self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self.say("start")

    def say(self, phase: str) -> None:
        """Starts a phase. Until the first step is done, `data` and `step` count as `start`: models may be compiled."""
        self.phase = "start" if self.steps == 0 and phase in ("data", "step") else phase
        if self._file is not None:
            try:
                os.pwrite(self._file, b"%-31s\n" % ("%d %s" % (self.steps, self.phase)).encode(), 0)  # constant length
            except OSError:  # a full disk must not end the training
                self._file = None

    def count_step(self) -> None:
        """Counts a finished step."""
        self.steps += 1
        self.say("data")

    @contextlib.contextmanager
    def during(self, phase: str) -> Iterator[None]:
        """Sets a phase, and restores the previous one at the end."""
        before = self.phase
        self.say(phase)
        try:
            yield
        finally:
            self.say(before)
