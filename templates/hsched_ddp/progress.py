"""What this rank is doing, for whoever watches the training: its steps and its phase, in a small file on the node."""
from __future__ import annotations

import contextlib
import os
from typing import Iterator, Optional


class Progress:
    """Writes the number of steps and the phase into the file HSCHED_PROGRESS, of which the job script makes samples.

    Without that variable, and where the file cannot be written, nothing happens.
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
        """Begins a phase. Until the first step is done, waiting for data and computing are part of the start: it may compile."""
        self.phase = "start" if self.steps == 0 and phase in ("data", "step") else phase
        if self._file is not None:
            try:
                os.pwrite(self._file, b"%-31s\n" % ("%d %s" % (self.steps, self.phase)).encode(), 0)  # as long as the text before
            except OSError:  # a full disk must not end a training
                self._file = None

    def count_step(self) -> None:
        """Counts a step that is done."""
        self.steps += 1
        self.say("data")

    @contextlib.contextmanager
    def during(self, phase: str) -> Iterator[None]:
        """Has a phase for a while, and the one before again after it."""
        before = self.phase
        self.say(phase)
        try:
            yield
        finally:
            self.say(before)
