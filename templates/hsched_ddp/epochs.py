"""Epochs: the work before, between and after them, whether the loop belongs to the program or a framework."""
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
    """The epochs of a training."""

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
        self.metrics: Dict[str, float] = {}  # reported with the epoch, beside the loss; must be equal on all ranks
        # The epoch's loss so far on this rank, as a sum over the counted items, the count, and the samples.
        self.loss, self.counted, self._samples = 0.0, 0.0, 0
        self._so_far = [0.0, 0.0]  # on rank 0: the loss and count of all ranks when the epoch was saved before its end
        self._shares = SharesFile(os.environ["HSCHED_SHARES"]) if os.environ.get("HSCHED_SHARES") else None
        self._epoch_begun = 0.0  # in seconds of a monotonic clock

    def epochs(self) -> Iterator[int]:
        """Yields the remaining epochs, counted from 1. Reports after each one, and saves a checkpoint if one is due.

        Rank 0 reports last, after writing any checkpoint, because its line marks the epoch as done.
        """
        self.begin()
        while self.epoch < self.me.epochs:
            self.open_epoch()
            yield self.epoch + 1
            self.close_epoch()
        if self.copies:
            self.copies.finish()

    def begin(self) -> None:
        """Prepares the first epoch."""
        gate = self.me.gate
        self._check_states()
        if self.copies:
            self.copies.enter()
        if gate and self.epoch < self.me.epochs:
            gate.parks = True
            gate.say("running")

    def open_epoch(self) -> None:
        """Starts an epoch, or the rest of one."""
        (self.loss, self.counted), self._so_far = self._so_far, [0.0, 0.0]
        self._samples, self.metrics = 0, {}
        self._epoch_begun = time.monotonic()

    def close_epoch(self) -> None:
        """Ends an epoch: reports it, saves if a checkpoint is due, stops or waits if requested, and adopts new shares.

        All ranks must call this.
        """
        gate, epoch = self.me.gate, self.epoch + 1
        line = dict(self._line(time.monotonic() - self._epoch_begun), epoch=epoch)
        self._unreported = line
        if self.copies:
            self.copies.begin_epoch()
        else:
            self.begin_epoch(epoch)
        # Only rank 0 checks whether to wait, so that all ranks wait after the same epoch, with its checkpoint written.
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
        """Starts the epoch after `done` ones, divided for the current ranks."""
        self.sampler.cut(self.me.replicas)
        self.epoch, self.left = done, [[0, self.sampler.steps]]
        self.loss, self.counted = 0.0, 0.0

    def _line(self, epoch_s: float) -> Dict[str, Any]:
        """Returns the report of an epoch; times are in seconds."""
        passes, micro_batch = self.timer.flush(), evenly(self.me.batch, self.me.micro_batch)[0]
        whole = [seconds for samples, seconds in passes if samples == micro_batch]
        whole = whole[2:] or whole[1:] or whole  # the first pass warms up, and the second one still allocates memory
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
        if self.me.device is not None and self.me.device.type == "cuda":
            line["max_memory"] = torch.cuda.max_memory_reserved(self.me.device)
        if self._shares and not self.copies:  # even if 0, so that hsched sees that new shares would be adopted
            line["shares"] = self._shares.version
        return line

    # Shares that change

    def _offered(self, is_parking: bool) -> List[float]:
        """Returns the new shares that rank 0 has found, as numbers to be summed over ranks; zeros on other ranks and if there are none; empty if hsched writes none."""
        if not self._shares:
            return []
        found = None
        if self.me.rank == 0:
            busy = "copies train apart" if self.copies else "the training is parked" if is_parking else ""
            found = self._shares.read(self.me, self._needs_samples, busy)
        return found.numbers() if found else [0.0] * (1 + 2 * self.me.replicas)

    def _adopt(self, shares: Shares) -> None:
        """Adopts new shares from the coming epoch on."""
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
        """Waits until hsched resumes the training. The data on the device stay there, or move to the host's memory.

        A stop, or a wait that takes too long, ends the training, whose checkpoint is already written.
        """
        moved = Moved(self.me.device)

        def enter(state: str) -> None:
            if state == "offloaded":
                moved.take(tensors_in([part.state_dict() for part in self.stateful.values()]))
                moved.take(own for module in self._modules for own in (*module.buffers(), *(p.grad for p in module.parameters() if p.grad is not None)))
            elif state == "parked":
                moved.put_back()
                if self.me.device.type == "cuda":
                    torch.cuda.empty_cache()  # so that other processes can use the memory

        with self.progress.during("parked"):
            leaving = self.me.gate.hold(PARKED, enter)
        if self._sum([float(leaving)]) > 0:
            leave(SAVED)  # without moving the data back: another job may use the device
        moved.put_back()
        self.me.gate.say("running")
