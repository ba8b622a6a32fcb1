"""The samples that a rank takes of every global batch."""
from __future__ import annotations

import random
from typing import Any, Iterator, List, Optional, Sequence

from .accelerated import check_reader
from .core import Rank
from .optional import torch
from .ranges import Ranges, numbers


class BatchSampler:
    """This rank's samples of every global batch, for DataLoader(batch_sampler=...): lists of at most `micro_batch`.

    Global batches are consecutive blocks of one permutation of all samples, which depends only on the seed and the epoch,
    so the order of samples does not depend on the number of ranks or on their shares. All ranks take the same number of
    steps, and no sample is used twice. Each rank has at least one sample in every step, unless the epoch was divided into
    blocks for fewer ranks, which did not finish it.

    The samples that remain after the last whole global batch form a smaller block. If it has fewer samples than a
    quarter of a global batch, or than there are ranks, this block and the last whole one are divided evenly into two
    blocks. If these are still too small for every rank to get a sample, they form one block.
    """

    def __init__(self, samples: int, me: Rank, seed: int = 0, shuffle: bool = True, drop_last: bool = False) -> None:
        """`drop_last` leaves out the samples that remain after the last whole global batch."""
        self.samples, self.me, self.seed, self.shuffle, self.drop_last = samples, me, seed, shuffle, drop_last
        self.cut(me.replicas)
        if self.steps < 1:
            raise ValueError("%d samples are too few for one step of %d" % (samples, me.global_batch))
        fewest = min(map(self.block, range(max(0, self._whole - 1), self.steps)))
        if fewest < me.replicas:
            raise ValueError("%d samples are too few for %d %s" % (fewest, me.replicas, "replicas" if me.in_replicas else "ranks"))
        self.set_epoch(1)

    def cut(self, ranks: int) -> None:
        """Divides the epoch into blocks for a number of ranks. A new plan within an epoch must not divide the rest differently."""
        batch, self.ranks = self.me.global_batch, ranks
        self._whole, rest = divmod(self.samples, batch)  # blocks that are whole global batches
        self._last = [rest] if rest and not self.drop_last else []  # sizes of the blocks after those
        if self._last and self._whole and (4 * rest < batch or rest < ranks):
            both = batch + rest
            self._whole, self._last = self._whole - 1, [both] if both < 2 * ranks else [both - both // 2, both // 2]
        self.steps = self._whole + len(self._last)
        self._edges = {block: self.me.edges(block) for block in map(self.block, range(max(0, self._whole - 1), self.steps))}

    def set_epoch(self, epoch: int, first_step: int = 0, ranges: Optional[Ranges] = None) -> None:
        """Sets the epoch, which determines the permutation, and the first step, or the ranges of steps."""
        self.epoch, self.ranges = epoch, [[first_step, self.steps]] if ranges is None else ranges

    def block(self, step: int) -> int:
        """Returns the size of a step's block."""
        return self.me.global_batch if step < self._whole else self._last[step - self._whole]

    def parts(self, step: int) -> List[int]:
        """Returns the sizes of this rank's micro-batches of a step."""
        return evenly(self.sizes(step)[self.me.replica], self.me.micro_batch)

    def steps_before(self, epochs: int) -> int:
        """Returns the number of steps in some epochs."""
        return epochs * self.steps

    def note_steps(self, done: int) -> None:
        """Does nothing: unlike a stream, this sampler can compute the number of steps in finished epochs."""

    def has_block(self, step: int) -> bool:
        """Returns whether a step of the epoch has samples."""
        return step < self.steps

    def sizes(self, step: int) -> List[int]:
        """Returns the number of samples that each replica takes in a step; [replicas]."""
        edges = self._edges[self.block(step)]
        return [end - begin for begin, end in zip(edges, edges[1:])]

    def begin(self, step: int) -> int:
        """Returns the number of samples of the epoch before a step; for `steps`, the number of all used samples."""
        return min(step, self._whole) * self.me.global_batch + sum(self._last[:max(0, step - self._whole)])

    def samples_of(self, ranges: Ranges) -> Ranges:
        """Returns the samples of ranges of steps, as ranges of positions in the permutation."""
        return [[self.begin(first), self.begin(end)] for first, end in ranges]

    def steps_of(self, ranges: Ranges) -> Ranges:
        """Returns the steps of ranges of samples; raises ValueError if a range starts or ends within a step."""
        begins = {self.begin(step): step for step in range(max(0, self._whole - 1), self.steps + 1)}

        def step_at(place: int) -> int:
            step, rest = divmod(place, self.me.global_batch)
            if place in begins:
                return begins[place]
            if rest or step > self._whole:
                raise ValueError("no step begins at sample %d" % place)
            return step
        return [[step_at(first), step_at(end)] for first, end in ranges]

    def __len__(self) -> int:
        return sum(len(self.parts(step)) for step in numbers(self.ranges))

    def __iter__(self) -> Iterator[List[int]]:
        check_reader()
        return self._indices()

    def _indices(self) -> Iterator[List[int]]:
        order = permutation(self.samples, self.seed + self.epoch) if self.shuffle else range(self.samples)
        for first, end in self.ranges:
            for step in range(first, end):
                begin = self.begin(step) + self._edges[self.block(step)][self.me.replica]
                for size in self.parts(step):
                    yield [int(index) for index in order[begin:begin + size]]
                    begin += size


def evenly(samples: int, most: int) -> List[int]:
    """Divides samples into as few parts of at most `most` samples as possible and returns their sizes, nearly equal, larger ones first."""
    parts = -(-samples // most)  # 0 if there are no samples
    return [(samples + k) // parts for k in reversed(range(parts))]


def permutation(samples: int, seed: int) -> Sequence[Any]:
    if torch is None:
        return random.Random(seed).sample(range(samples), samples)
    # On the CPU, regardless of torch.set_default_device.
    return torch.randperm(samples, generator=torch.Generator().manual_seed(seed), device="cpu")  # type: ignore[return-value]
