"""Epochs: what a training does before, between and after them, whoever has the loop."""
from __future__ import annotations

import math
import os
import sys
import time
from dataclasses import replace
from typing import Any, Callable, Dict, Iterator, List, Optional, Union

from . import core
from .core import Rank
from .exchange import Exchange
from .gate import PARKED, Moved, tensors_in
from .losses import LossCheck
from .optional import torch
from .process import SAVED, leave, stop_requested
from .progress import Progress
from .ranges import Ranges
from .replica_exchange import ReplicaExchange
from .report import Timer
from .sampler import BatchSampler, evenly
from .shares import Shares, SharesFile, of_numbers


class Epochs:
    """What a training does with its epochs."""

    me: Rank
    sampler: BatchSampler
    exchange: Union[Exchange, ReplicaExchange]
    timer: Timer
    progress: Progress
    loss_check: Optional[LossCheck]
    epoch: int
    left: Ranges
    save_every: int
    copies: Any
    stateful: Dict[str, Any]
    save: Callable[[], None]
    leave: Callable[[int], None]
    _check_states: Callable[[], None]
    _sum: Callable[..., Any]
    _sum_once: Callable[..., Any]
    _modules: List[Any]
    _needs_samples: bool
    _samples: int
    _unreported: Optional[Dict[str, Any]]

    def _begin_epochs(self) -> None:
        self.metrics: Dict[str, float] = {}  # reported with the epoch, beside the loss; the same on all ranks, please
        # The epoch's loss so far on this rank, as a sum over what is counted, the count, and the samples.
        self.loss, self.counted, self._samples = 0.0, 0.0, 0
        self._so_far = [0.0, 0.0]  # the epoch's loss and count when it was saved and left, over all ranks; on rank 0
        self._shares = SharesFile(os.environ["HSCHED_SHARES"]) if os.environ.get("HSCHED_SHARES") else None
        self._epoch_begun = 0.0  # seconds of a clock

    def epochs(self) -> Iterator[int]:
        """Yields the remaining epochs, counted from 1. Saves a checkpoint and reports after each one.

        Rank 0 reports last, after the checkpoint is written: its line marks the epoch as done.
        """
        self.begin()
        while self.epoch < self.me.epochs:
            self.open_epoch()
            yield self.epoch + 1
            self.close_epoch()
        if self.copies:
            self.copies.finish()

    def begin(self) -> None:
        """Does what comes before the first epoch."""
        gate = self.me.gate
        self._check_states()
        if self.copies:
            self.copies.enter()
        if gate and self.epoch < self.me.epochs:
            gate.parks = True
            gate.say("running")

    def open_epoch(self) -> None:
        """Begins an epoch, or what is left of one."""
        (self.loss, self.counted), self._so_far = self._so_far, [0.0, 0.0]
        self._samples, self.metrics = 0, {}
        self._epoch_begun = time.monotonic()

    def close_epoch(self) -> None:
        """Ends an epoch: saves and reports it, stops or waits if that is wanted, and takes new shares. All ranks must call this."""
        gate, epoch = self.me.gate, self.epoch + 1
        line = dict(self._line(time.monotonic() - self._epoch_begun), epoch=epoch)
        self._unreported = line
        if self.copies:
            self.copies.begin_epoch()
        else:
            self.begin_epoch(epoch)
        # Rank 0 alone looks whether to wait: all ranks do so after the same epoch, with its checkpoint written.
        number, want = gate.read() if gate and self.me.rank == 0 else (0, "go")
        asked = self._sum([float(stop_requested()), float(want in PARKED), float(number), *self._offered(want in PARKED)]).tolist()
        stopping, parking = asked[0] > 0, asked[1] > 0 and self.epoch < self.me.epochs
        if self.copies:
            self.copies.save()
        elif stopping or parking or self.epoch % self.save_every == 0 or self.epoch == self.me.epochs:
            self.save()
        if self.me.rank != 0:
            self.me.report(line)
        self._sum([0.0])
        if self.me.rank == 0:
            self.me.report(line)
        self._unreported = None
        if stopping and self.epoch < self.me.epochs:
            self.leave(SAVED)
        if len(asked) > 3 and asked[3] > 0:
            self._adopt(of_numbers(asked[3:]))
        if parking:
            self._park()
        elif gate and asked[2] != gate.number:
            gate.number = int(asked[2])
            gate.say("running")

    def begin_epoch(self, done: int) -> None:
        """Begins the epoch after so many, cut for the ranks that there are."""
        self.sampler.cut(self.me.replicas)
        self.epoch, self.left = done, [[0, self.sampler.steps]]
        self.loss, self.counted = 0.0, 0.0

    def _line(self, epoch_s: float) -> Dict[str, Any]:
        """Returns the report of an epoch; times in seconds."""
        passes, micro_batch = self.timer.flush(), evenly(self.me.batch, self.me.micro_batch)[0]
        whole = [seconds for samples, seconds in passes if samples == micro_batch]
        whole = whole[2:] or whole[1:] or whole  # the first one warms up, in the second one memory is still allocated
        if self.loss_check:
            self.loss_check.end_epoch()
        loss, count = self._sum_once([float(self.loss), self.counted]).tolist()
        metrics = dict({"loss": loss / count if count else math.nan}, **self.metrics)
        line = {"epoch": self.epoch + 1, "rank": self.me.rank, "samples": self._samples,
                "compute_s": round(sum(seconds for _, seconds in passes), 6), "epoch_s": round(epoch_s, 6), "batch": self.me.batch,
                "micro_batch": micro_batch, "step_s": round(sum(whole) / len(whole), 9) if whole else None,
                "metrics": {name: float(value) for name, value in metrics.items()}}
        if self.me.in_replicas:
            line["replica"] = self.me.replica
        if self._shares and not self.copies:  # from 0: hsched sees that others would be taken
            line["shares"] = self._shares.version
        return line

    # Shares that change

    def _offered(self, is_parking: bool) -> List[float]:
        """Returns the shares that rank 0 has found, as numbers to be summed up over ranks: zeros on all others, nothing if hsched writes none."""
        if not self._shares:
            return []
        found = None
        if self.me.rank == 0:
            busy = "copies train apart" if self.copies else "the training is parked" if is_parking else ""
            found = self._shares.read(self.me, self._needs_samples, busy)
        return found.numbers() if found else [0.0] * (1 + 2 * self.me.replicas)

    def _adopt(self, shares: Shares) -> None:
        """Takes new shares from the epoch that begins on."""
        assert self._shares is not None
        self._shares.version = shares.version
        self.me = replace(self.me, batches=tuple(shares.batches), micro_batch=shares.micro[self.me.replica])
        self.sampler.me = self.exchange.me = self.me
        if core.started is not None:
            core.started = self.me
        self.begin_epoch(self.epoch)
        if self.me.rank == 0 and self.epoch < self.me.epochs:
            print("hsched: new shares (version %d) from epoch %d on: %s samples by %s" % (
                shares.version, self.epoch + 1, ", ".join(map(str, shares.batches)), "replica" if self.me.in_replicas else "rank"), file=sys.stderr, flush=True)

    # Parking

    def _park(self) -> None:
        """Waits until hsched lets the training go on. What is on the device stays there, or goes to the host's memory.

        A stop, or a wait that takes too long, ends the training: its checkpoint is written.
        """
        moved = Moved(self.me.device)

        def enter(state: str) -> None:
            if state == "offloaded":
                moved.take(tensors_in([part.state_dict() for part in self.stateful.values()]))
                moved.take(own for module in self._modules for own in (*module.buffers(), *(p.grad for p in module.parameters() if p.grad is not None)))
            elif state == "parked":
                moved.put_back()
                if self.me.device.type == "cuda":
                    torch.cuda.empty_cache()  # what no tensor needs between epochs

        with self.progress.during("parked"):
            leaving = self.me.gate.hold(PARKED, enter)
        if self._sum([float(leaving)]) > 0:
            leave(SAVED)  # without what was moved: the device may have another user
        moved.put_back()
        self.me.gate.say("running")
