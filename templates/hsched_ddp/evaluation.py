"""Evaluation on all ranks: each takes a part of a data set, and sums cover all ranks."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, Iterator, List, Optional, Sequence

from .core import Rank
from .optional import torch
from .progress import Progress

if TYPE_CHECKING:
    from .training import Training


class Evaluation:
    """The evaluation functions of a training."""

    me: Rank
    progress: Progress

    def evaluate(self, dataset: Any, batch_size: Optional[int] = None, collate_fn: Optional[Callable[[List[Any]], Any]] = None,
                 num_workers: int = 0) -> Iterator[Any]:
        """Yields this rank's batches of a data set, in order; each sample is on exactly one rank (or replica).

        The parts follow the ranks' shares, so that all take about the same time. A rank may have fewer batches than another
        one, or none, so call `sum` after the loop; forward passes exchange nothing. All ranks of a replica have the same
        batches. Batches have at most `batch_size` samples, by default the micro-batch. The program itself must call
        `model.eval()` and `torch.no_grad()`.
        """
        if not hasattr(dataset, "__len__"):
            raise ValueError("evaluate() needs a data set with a length; of a stream, evaluate as many samples on each rank as you like, and use sum()")
        if batch_size is not None and batch_size < 1:
            raise ValueError("batch_size must be at least 1, not %d" % batch_size)
        edges = self.me.edges(len(dataset))
        part = torch.utils.data.Subset(dataset, range(edges[self.me.replica], edges[self.me.replica + 1]))
        # A separate generator: a loader draws a random number when it starts, and must not draw it from the training's.
        loader = torch.utils.data.DataLoader(part, batch_size=batch_size or self.me.micro_batch, collate_fn=collate_fn, num_workers=num_workers,
                                             generator=torch.Generator())
        with self.progress.during("evaluate"):
            yield from loader

    def sum(self: Training, values: Sequence[Any]) -> List[float]:  # type: ignore[misc]
        """Returns the sums of some numbers over all ranks, in order; of each replica, only the first rank counts.

        All ranks must call this, with the same number of values.
        """
        return [float(value) for value in self._sum_once([float(value) for value in values]).tolist()]
