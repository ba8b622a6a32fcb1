"""A training: its parts, and the loop over steps."""
from __future__ import annotations

import functools
import os
import time
from typing import Any, Callable, Dict, Iterable, Iterator, List, Optional, Tuple, Union

from .accelerated import check_loader, check_scheduler, is_of_accelerate, take_over_accumulation
from .batches import check_size
from .core import Rank
from .epochs import Epochs
from .evaluation import Evaluation
from .exchange import Exchange
from .losses import LossCheck
from .noticing import stop as stop_looking
from .optional import DistributedDataParallel, dist, torch
from .process import SAVED, leave, stop_requested
from .progress import Progress
from .ranges import Ranges, after, numbers, without
from .replica_exchange import ReplicaExchange
from .report import Timer
from .sampler import BatchSampler, evenly
from .saving import Saving, random_state, seed_by_rank, set_random_state
from .sharded import ShardedFolders
from .step import Pass, Step
from .wrapping import checked_models, checked_replicas, uncompiled


class Training(Epochs, Saving, Evaluation):
    """The loop over epochs and steps: weights losses, measures speeds, reports, saves checkpoints and stops on request."""

    def __init__(self, me: Rank, sampler: BatchSampler, model: Any = None, comm_hook: Optional[Callable[[Any, Any], Any]] = None,
                 save_every: int = 1, models: Iterable[Any] = (), checkpoint: Any = None, **stateful: Any) -> None:
        """`model` is a DistributedDataParallel model, compiled or not; with one rank, it may be any module. If
        several models are trained together, as in a GAN, pass all of them in `models`.

        In a job whose replicas have several ranks, `model` is the model as shared by the ranks of a replica, with
        `fully_shard` or `parallelize_module` and `mesh=me.replica_mesh`, or in another way; this class averages its gradients
        between replicas. `checkpoint` then saves models and optimizers: `checkpoint.save(folder)` is called on all ranks
        of the first replica, `checkpoint.load(folder)` on all ranks, whose number may have changed.

        `stateful` (optimizer=..., scheduler=..., scaler=...) contains everything else that belongs in a checkpoint,
        each with `state_dict` and `load_state_dict`. A checkpoint is written every `save_every` epochs, at a stop,
        before the training is parked, and at the end. `comm_hook` is a communication hook of DDP, with None as its
        state, that replaces the all-reduce of gradients.

        With several ranks, random numbers differ between ranks from here on; ranks of one replica have the same ones.
        """
        stop_looking()
        self.models = [own for own in (model, *(other for other in models if other is not model)) if own is not None]
        self.me, self.sampler, self.save_every = me, sampler, save_every
        in_replicas = me.shares_model or checkpoint is not None
        whole = checked_replicas(self.models, me, checkpoint, comm_hook) if in_replicas else checked_models(self.models, stateful, me.world_size)
        self.model = self.models[0]
        self.timer = Timer(me.device)
        self.progress = Progress()
        self._group = me.group if me.control is None else me.control
        self.epoch = 0  # epochs done
        self.left: Ranges = [[0, sampler.steps]]  # the remaining steps of the next epoch
        self.measure: Optional[Callable[[], float]] = None  # the quality of a model, lower is better; for copies
        self._unreported: Optional[Dict[str, Any]] = None  # the line of an epoch between its end and its report
        self._begin_epochs()
        self.loss_check: Optional[LossCheck] = None  # None if the program counts the items in its losses
        self._modules = [uncompiled(own.module) if isinstance(own, DistributedDataParallel) else own for own in whole]
        names = ["model"] + ["model %d" % number for number in range(2, len(whole) + 1)]
        self.stateful = dict(stateful, **dict(zip(names, self._modules)))
        self._needs_samples = any(isinstance(inner, torch.nn.SyncBatchNorm) for own in self._modules for inner in own.modules())
        self._begin_saving()
        self._folders = ShardedFolders(me, checkpoint, self._sum) if in_replicas else None
        if self._needs_samples and me.world_size > 1:
            self._check_passes()
        self._asked = self._sum([0.0], later=True)
        self.exchange: Union[Exchange, ReplicaExchange] = (
            ReplicaExchange(me, whole) if in_replicas else Exchange(me, [own for own in whole if isinstance(own, DistributedDataParallel)], comm_hook))
        for name, part in stateful.items():
            check_scheduler(name, part)
            if isinstance(part, torch.optim.Optimizer):
                _call_before_step(part.optimizer if is_of_accelerate(part) else part, self._before_optimizer)
        seed_by_rank(me)
        self.copies: Any = None  # the copies of this training, if it has several
        if os.environ.get("HSCHED_COPY"):
            if me.world_size > 1:
                raise ValueError("a copy of a training must be one process, but there are %d ranks" % me.world_size)
            if sampler.samples is None:
                raise ValueError("copies of a training need a data set with a length, and this is a stream")
            from .copies import Copies
            self.copies = Copies(self, os.environ)

    def _check_passes(self) -> None:
        """Raises ValueError if ranks would make unequal numbers of passes through layers that synchronise ranks."""
        passes = len(evenly(self.me.batch, self.me.micro_batch))
        total, squares = self._sum([float(passes), float(passes * passes)]).tolist()
        if squares * self.me.world_size != total * total:
            raise ValueError("SyncBatchNorm lets all ranks meet in every pass, but they make unequal numbers of passes (%d on rank %d): do not set max_batch, "
                             "or use BatchNorm" % (passes, self.me.rank))

    @property
    def step(self) -> int:
        """Number of steps of the current epoch so far; within the loop over `steps`, the current one counts as finished."""
        return self.sampler.steps - sum(end - first for first, end in self.left)

    @step.setter
    def step(self, done: int) -> None:
        self.left = [[done, self.sampler.steps]]

    @property
    def global_step(self) -> int:
        """Number of steps in all epochs so far, counted like `step`."""
        return self.sampler.steps_before(self.epoch) + self.step

    # End

    def pause(self, seconds: float) -> None:
        """Sleeps while this copy waits for others. Exits if a stop was requested."""
        if stop_requested():
            self.leave(SAVED)
        time.sleep(seconds)

    def leave(self, status: int) -> None:
        """Exits without waiting for other copies."""
        if self.copies:
            self.copies.leave()
        leave(status)

    # Steps

    def steps(self, loader: Iterable[Any], count: Optional[Callable[[Any], float]] = None, keep: bool = False) -> Iterator[Step]:
        """Yields the remaining steps of the epoch. `loader` must use the sampler of this training.

        `count` returns the number of items in the loss of a micro-batch if they are not samples, for example tokens with
        a label.
        With `keep`, you can iterate over a step several times, for example to train models in turn. Without `keep`
        and `count`, each micro-batch is loaded when it is needed. If a rank receives the stop signal, all ranks save
        after the same step and exit with status 85; a copy writes its results instead of a checkpoint.
        """
        check_loader(loader)
        take_over_accumulation()
        if isinstance(getattr(loader, "dataset", None), torch.utils.data.IterableDataset) and self.sampler.samples is not None:
            raise ValueError("the loader reads a stream, of which each rank would take samples of its own: pass the IterableDataset to hsched_ddp.prepare()")
        if getattr(loader, "batch_sampler", self.sampler) is not self.sampler:
            raise ValueError("the loader has a different sampler: create it with batch_sampler=sampler")
        if count:
            self.loss_check = None
        elif self.loss_check is None:
            self.loss_check = LossCheck(is_quiet=self.me.rank != 0)
        for ranges in self.copies.rounds() if self.copies else [self.left]:
            self.progress.say("data")
            yield from self._steps_of(ranges, loader, count, keep)
        self.progress.say("between")

    def _steps_of(self, ranges: Ranges, loader: Iterable[Any], count: Optional[Callable[[Any], float]], keep: bool) -> Iterator[Step]:
        """Yields the steps of some ranges."""
        self.sampler.set_epoch(self.epoch + 1, ranges=ranges)
        state, rest = random_state(self.me.device), ranges
        batches = iter(loader)
        if self.step > 0:  # a loader draws a random number when it starts; it was already drawn before the stop
            set_random_state(state, self.me.device)
        for done, number in enumerate(numbers(ranges)):
            if self._stop_agreed():
                if self.copies:
                    self.copies.hand_in(without(ranges, rest))
                else:
                    self.save()
                self.leave(SAVED)
            if not self.sampler.has_block(number):  # the stream has ended
                self.left = []
                return
            if self.copies:
                self.copies.before_step(done)
                loss, counted = self.loss + 0.0, self.counted
            if self._needs_samples and min(self.sampler.sizes(number)) == 0:
                raise ValueError("SyncBatchNorm needs a sample on every rank in each step, but this epoch was begun by %d ranks, and its step %d has %d samples: "
                                 "resume on as few ranks until the epoch has ended" % (self.sampler.ranks, number + 1, self.sampler.block(number)))
            passes: Iterable[Pass] = self._passes(batches, self.sampler.parts(number), count)
            if count or keep:
                passes = list(passes)
            total = float(self._sum_once([sum(own for _, _, own in passes)])) if count else float(self.sampler.block(number))
            self._samples, rest = self._samples + sum(self.sampler.parts(number)), after(rest, number)
            self.left = after(self.left, number)
            yield Step(self, number, passes, total)
            self.exchange.abandon()
            for _ in passes:  # consumes the rest of the step, so that the next step starts with its own passes
                pass
            self.progress.count_step()
            if self.copies:
                self.copies.note_loss(self.loss - loss, self.counted - counted)
                if self.copies.time_is_up():
                    break
        if self.copies:
            self.copies.hand_in(without(ranges, rest))

    def _passes(self, batches: Iterator[Any], sizes: List[int], count: Optional[Callable[[Any], float]]) -> Iterator[Pass]:
        """Yields the passes of a step as their micro-batches are loaded."""
        missing = object()
        for size in sizes:
            self.progress.say("data")
            batch = next(batches, missing)
            self.progress.say("step")
            if batch is missing:
                raise ValueError("the loader ended before the end of the epoch (%d steps)" % self.sampler.steps)
            if count is None:
                check_size(batch, size)
            yield batch, size, float(count(batch) if count else size)

    def _before_optimizer(self) -> None:
        self.timer.mark()
        self.exchange.before_optimizer()

    def probe(self, loss_of: Callable[[Any], Any], loader: Any, times: int = 3) -> List[Tuple[int, float]]:
        """Times passes at two batch sizes, the micro-batch and half of it, and reports them: (samples, seconds) pairs.

        `loss_of` returns the loss of a batch from the loader. Gradients, buffers and random states are restored, so
        that the training does not change. Call it on all ranks, before the first epoch. Under `hsched probe`, exits afterwards.
        """
        if self.sampler.samples is None:
            raise ValueError("probe() needs a data set with an index, and this is a stream")
        state = random_state(self.me.device)
        parameters = [parameter for module in self._modules for parameter in module.parameters()]
        buffers = [buffer for module in self._modules for buffer in module.buffers()]
        # On the host, because a GPU may not have room for a second copy of its buffers.
        gradients, before = [parameter.grad for parameter in parameters], [buffer.to("cpu", copy=True) for buffer in buffers]
        pairs = []
        self.exchange.off(True)
        # Even if the two sizes are equal, every rank runs both, because some layers exchange statistics in every pass.
        for size in (max(1, self.me.micro_batch // 2), self.me.micro_batch):
            batch = loader.collate_fn([loader.dataset[k % self.sampler.samples] for k in range(size)])
            for again in range(times + 1):
                for parameter in parameters:
                    parameter.grad = None
                self.timer.flush()
                self.timer.start()
                loss_of(batch).backward()
                self.timer.stop(size)
                pairs += [(size, round(seconds, 9)) for _, seconds in self.timer.flush()[:again]]  # the first one warms up
        self.exchange.off(False)
        for parameter, gradient in zip(parameters, gradients):
            parameter.grad = gradient
        for buffer, value in zip(buffers, before):
            buffer.copy_(value)
        set_random_state(state, self.me.device)
        self.me.report({"probe": pairs, "rank": self.me.rank})
        self._sum([0.0])  # so that no epoch starts with a wait for a slower rank's probe
        if os.environ.get("HSCHED_PROBE"):
            leave()  # hsched probe needs nothing else
        return pairs

    def _sum(self, values: List[float], later: bool = False) -> Any:
        """Returns the sums over all ranks as a tensor, for which all ranks wait. With `later`, returns the running operation and the tensor instead, without waiting."""
        sums = torch.tensor(values, dtype=torch.float64, device="cpu")  # a GPU would have to finish all its work first
        work = dist.all_reduce(sums, group=self._group, async_op=later)
        return (work, sums) if later else sums

    def _sum_once(self, values: List[float]) -> Any:
        """Returns the sums over all replicas; all ranks of a replica have the same values."""
        return self._sum(values if self.me.replica_rank == 0 else [0.0] * len(values))

    def _stop_agreed(self) -> bool:
        """Returns whether any rank was asked to stop before the previous step: the answer takes one step, and no rank waits for it."""
        (work, asked), self._asked = self._asked, self._sum([float(stop_requested())], later=True)
        work.wait()
        return bool(asked > 0)


def _call_before_step(optimizer: Any, call: Callable[[], None]) -> None:
    """Registers a function to call before each step of an optimizer."""
    if hasattr(optimizer, "register_step_pre_hook"):  # since torch 2.0
        optimizer.register_step_pre_hook(lambda *unused: call())
        return
    step = optimizer.step

    @functools.wraps(step)  # schedulers read its attributes
    def called(*arguments: Any, **options: Any) -> Any:
        call()
        return step(*arguments, **options)

    optimizer.step = called
