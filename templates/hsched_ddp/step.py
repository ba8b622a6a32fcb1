"""One step of the optimizer: this rank's micro-batches, and the weights of their losses."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any, Iterable, Iterator, Tuple

from .losses import scale_loss

if TYPE_CHECKING:
    from .training import Training

Pass = Tuple[Any, int, float]  # a micro-batch, its samples, and the number of items in its loss


class Step:
    """One step of the optimizer. Iterate over it for this rank's micro-batches; after the last one the ranks exchange gradients."""

    def __init__(self, training: Training, number: int, passes: Iterable[Pass], total: float) -> None:
        sampler = training.sampler
        self.size = sampler.block(number)  # samples that all ranks take in this step
        self.is_last = number + 1 == sampler.steps  # whether it is the last step of the epoch; false for streams
        self.total = total  # the number of items in the losses of all ranks: samples, or the sum of the counts
        self._sizes = sampler.sizes(number)  # samples of each replica
        self.samples = self._sizes[training.me.replica]  # samples that this rank takes
        self._training, self._passes, self._last = training, passes, len(sampler.parts(number)) - 1
        self.count = 0.0  # the number of items in the loss of the current micro-batch
        self._batch, self._samples, self._begun = None, 0, False

    def __iter__(self) -> Iterator[Any]:
        if self._begun and not isinstance(self._passes, list):
            raise RuntimeError("the micro-batches of this step are no longer available; to iterate over them again, use steps(..., keep=True)")
        self._begun, timer, exchange = True, self._training.timer, self._training.exchange
        exchange.begin(self._sizes)
        for k, (self._batch, self._samples, self.count) in enumerate(self._passes):
            exchange.begin_pass(is_last=k == self._last)
            timer.start()
            yield self._batch
            timer.stop(self._samples)
        exchange.end()

    def scale(self, loss: Any, reduction: str = "mean") -> Any:
        """Returns the loss of the current micro-batch, weighted so that the averaged gradient is correct."""
        training = self._training
        if training.loss_check:
            training.loss_check.look(loss, reduction, self._samples, self._batch)
        scaled = scale_loss(loss, training.me, self.count, self.total, reduction)
        if self.count > 0:  # the mean over zero items is NaN
            training.loss += scaled.detach().double() * self.total / training.me.replicas
            training.counted += self.count
        return scaled
