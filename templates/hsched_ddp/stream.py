"""Streams of samples without an index: every rank reads the same stream and takes its part of each global batch."""
from __future__ import annotations

import contextlib
import itertools
import zlib
from types import SimpleNamespace
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional

from .core import Rank
from .optional import dist, torch
from .ranges import Ranges
from .sampler import evenly
from .saving import random_state, seeded_state, set_random_state

_CPU = SimpleNamespace(type="cpu")  # the device of a stream's random numbers
_ENDLESS = 1 << 40  # steps of an epoch of unknown length


class StreamSampler:
    """The counterpart of `BatchSampler` for streams. An incomplete global batch at the end of the stream is dropped."""

    samples, seed, shuffle, drop_last = None, 0, False, True

    def __init__(self, dataset: Any, me: Rank, num_workers: int) -> None:
        self.me, self.epoch, self.steps, self.ranks = me, 1, _ENDLESS, me.replicas
        self._done_before = 0  # steps of the epochs before this one
        self._dataset, self._workers = dataset, num_workers
        self._tells = num_workers == 0 and hasattr(dataset, "state_dict") and hasattr(dataset, "load_state_dict")
        self._first = 0  # the first remaining step of this epoch
        self._samples: Iterator[Any] = iter(())
        self._state: Any = None  # the stream's position after the last block that was read
        self._resumes_at: Any = None  # the same, from a checkpoint
        self._block: List[Any] = []  # this rank's samples of the step
        self._random: Any = None  # the states of the stream's random numbers, equal on all ranks
        self._is_new = False  # whether nothing has been read since it was opened
        if num_workers > 1:
            raise ValueError("a stream is read by one worker at most (num_workers=1): of several, each would read all of it or a part that nobody knows")
        if getattr(dataset, "_distributed", None) is not None:
            raise ValueError("the stream is split by nodes already (split_dataset_by_node): pass the whole one, each rank takes its part of it")
        self.cut(me.replicas)

    # The interface of BatchSampler

    def cut(self, ranks: int) -> None:
        """Starts to count the steps of an epoch."""
        self._done_before += self.steps if self.steps < _ENDLESS else 0
        self.steps = _ENDLESS
        edges = self.me.edges(self.me.global_batch)
        self._sizes = [end - begin for begin, end in zip(edges, edges[1:])]

    def steps_before(self, epochs: int) -> int:
        return self._done_before

    def note_steps(self, done: int) -> None:
        self._done_before = done

    def set_epoch(self, epoch: int, first_step: int = 0, ranges: Optional[Ranges] = None) -> None:
        """Sets the epoch and its first remaining step."""
        self.epoch, self._first = epoch, ranges[0][0] if ranges else first_step

    def block(self, step: int) -> int:
        return self.me.global_batch

    def parts(self, step: int) -> List[int]:
        return evenly(self.me.batch, self.me.micro_batch)

    def sizes(self, step: int) -> List[int]:
        return self._sizes

    def samples_of(self, ranges: Ranges) -> List[List[Optional[int]]]:
        """Returns the remaining samples of an epoch: those from a position on, or none."""
        return [[first * self.me.global_batch, None] for first, _ in ranges]

    def steps_of(self, ranges: List[List[Any]]) -> Ranges:
        return [[first // self.me.global_batch, self.steps] for first, _ in ranges]

    # The stream

    def open(self) -> None:
        """Starts to read the stream of this epoch at the position where the training resumes."""
        if hasattr(self._dataset, "set_epoch"):
            self._dataset.set_epoch(self.epoch)
        skipped = self._first * self.me.global_batch
        self._random = seeded_state(self.seed + self.epoch)
        if self._resumes_at is not None and skipped:
            place, self._random = self._resumes_at
            self._dataset.load_state_dict(place)
            skipped = 0
        self._resumes_at = self._state = None
        loader: Any = torch.utils.data.DataLoader(self._dataset, batch_size=None, collate_fn=_as_it_is, num_workers=self._workers,
                                                  generator=torch.Generator().manual_seed(self.seed + self.epoch))
        with self._own_random():
            self._samples = itertools.islice(iter(loader), skipped, None)
        self._is_new = True

    @contextlib.contextmanager
    def _own_random(self) -> Iterator[None]:
        """Makes the stream draw random numbers that are equal on all ranks, without changing those of the training."""
        outside = random_state(_CPU)
        set_random_state(self._random, _CPU)
        try:
            yield
        finally:
            self._random = random_state(_CPU)
            set_random_state(outside, _CPU)

    def has_block(self, step: int) -> bool:
        """Reads the samples of a step; returns whether they fill a global batch."""
        edges = self.me.edges(self.me.global_batch)
        with self._own_random():
            block = list(itertools.islice(self._samples, self.me.global_batch))
        if self._is_new:
            self._check_equal(block)
        self._block = block[edges[self.me.replica]:edges[self.me.replica + 1]]
        if len(block) < self.me.global_batch:
            self.steps, self._state = step, None
            return False
        if self._tells:
            self._state = [self._dataset.state_dict(), self._random]
        return True

    def _check_equal(self, block: List[Any]) -> None:
        """Raises ValueError on all ranks if they do not read the same samples."""
        self._is_new = False
        digests: List[Any] = [None] * self.me.world_size
        dist.all_gather_object(digests, [digest(sample) for sample in block], group=self.me.group if self.me.control is None else self.me.control)
        other = next((rank for rank, own in enumerate(digests) if own != digests[0]), None)
        if other is not None:
            raise ValueError("the ranks read different streams (rank 0 and rank %d differ in the first %d samples): each must read all samples in the same order, of which it "
                             "takes its part. Remove what splits the stream by ranks or nodes, and seed what shuffles it" % (other, self.me.global_batch))

    def taken(self) -> List[Any]:
        """Returns this rank's samples of the step."""
        return self._block

    def state_dict(self) -> Dict[str, Any]:
        return {"place": self._state}

    def load_state_dict(self, state: Dict[str, Any]) -> None:
        place = state["place"]
        is_pair = isinstance(place, list) and len(place) == 2  # a checkpoint of an earlier version has only the position
        self._resumes_at = place if self._tells and is_pair else None


class StreamLoader:
    """Yields the micro-batches of a rank, as DataLoader does for data sets with a length."""

    def __init__(self, sampler: StreamSampler, collate_fn: Optional[Callable[[List[Any]], Any]]) -> None:
        self.batch_sampler = sampler
        self._collate = collate_fn or torch.utils.data.default_collate

    def __iter__(self) -> Iterator[Any]:
        self.batch_sampler.open()
        return self._micro_batches()

    def _micro_batches(self) -> Iterator[Any]:
        while True:
            samples = iter(self.batch_sampler.taken())
            for size in self.batch_sampler.parts(0):
                yield self._collate(list(itertools.islice(samples, size)))


def digest(sample: Any) -> int:
    """Returns a checksum of a sample's values: of a tensor, the first 4096; of an unknown object, only the type."""
    if isinstance(sample, Mapping):
        own = [(key, digest(value)) for key, value in sample.items() if not str(key).startswith("__")]  # for example, the file of a sample
        return zlib.crc32(repr(own).encode())
    if isinstance(sample, (list, tuple)):
        return zlib.crc32(repr([digest(value) for value in sample]).encode())
    if isinstance(sample, torch.Tensor):
        return zlib.crc32(repr(sample.flatten()[:4096].tolist()).encode())
    if hasattr(sample, "tobytes"):
        return zlib.crc32(sample.tobytes())
    known = isinstance(sample, (bool, int, float, str, bytes)) or sample is None
    return zlib.crc32((repr(sample) if known else type(sample).__name__).encode())


def _as_it_is(sample: Any) -> Any:
    """Returns a sample. A named function, because a loader's workers have to pickle it."""
    return sample
