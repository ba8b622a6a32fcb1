"""The weights of losses, and warnings about losses that the weights do not suit."""
from __future__ import annotations

import os
import sys
import warnings
from typing import Any, Iterator, Mapping, Optional, Set

from .core import Rank
from .optional import torch

_MEAN, _SUM = 1, 2  # torch's numbers for reductions
_ARITHMETIC = ("Add", "Sub", "Mul", "Div", "Mean", "Sum", "Neg", "ToCopy", "View", "Squeeze", "Unsqueeze", "Select", "MaskedFill", "Reshape", "Alias", "Clone")
_MOST_NODES = 64  # maximum number of nodes of a loss's graph to inspect


def scale_loss(loss: Any, me: Rank, count: float, total: float, reduction: str = "mean") -> Any:
    """Returns the loss weighted so that the gradient that DDP averages is that of the whole batch.

    `count` is the number of items in the loss of this rank (samples, or tokens with a label), and `total` is the sum
    of the counts of all micro-batches of all ranks in this step. With W ranks (or replicas), a mean loss gets the weight W * count
    / total and a summed loss gets W / total, because DDP divides by W. If a count can be 0, use a sum: the mean of
    nothing is NaN.
    """
    if reduction not in ("mean", "sum"):
        raise ValueError("reduction must be mean or sum, not %r" % reduction)
    share = count if reduction == "mean" else float(count > 0)
    return loss * (me.replicas * share / max(total, 1e-300))


class LossCheck:
    """Finds reductions in the graph of a loss for which the number of samples is the wrong weight, and warns of each once.

    Computations of the program's own, such as dividing by a mask, cannot be recognised in the graph.
    """

    def __init__(self, is_quiet: bool) -> None:
        """`is_quiet` says whether this rank leaves warnings to another one."""
        self._is_quiet = is_quiet
        self._said: Set[str] = set()
        self._flags: Any = None  # on a GPU: whether a label was ignored; not read yet
        self._ignored = 0  # the label of `_flags`
        self._items: Optional[float] = None  # items in the loss for each sample, in the first pass

    def look(self, loss: Any, reduction: str, samples: int, batch: Any) -> None:
        """Checks the loss of a pass over `samples` samples against the reduction that the program states."""
        if self._is_quiet:
            return
        top: Any = getattr(loss, "grad_fn", None)
        knows = False
        for node in _losses_of(top):
            is_mean = node._saved_reduction == _MEAN
            if node is top and is_mean != (reduction == "mean") and node._saved_reduction in (_MEAN, _SUM):
                self._warn("reduction", "the loss is a %s, but step.scale() took it for a %s: call step.scale(loss, reduction=%r)"
                           % (("mean", "sum", "mean") if is_mean else ("sum", "mean", "sum")))
            if hasattr(node, "_saved_ignore_index"):
                knows = True
                if is_mean:
                    self._look_at_labels(node, samples)
        if reduction == "mean" and type(top).__name__.startswith("SumBackward") and not _has_mean(top):
            self._warn("reduction", "the loss is a sum, but step.scale() took it for a mean: call step.scale(loss, reduction='sum')")
        if not knows and reduction == "mean" and has_label(batch, -100):
            self._warn_of_ignored(-100)

    def _look_at_labels(self, node: Any, samples: int) -> None:
        """Checks a mean over labels: it is a mean over samples only if every label counts, and counts once."""
        labels, ignored = node._saved_target, node._saved_ignore_index
        ignored = ignored - (1 << 64) if ignored >= 1 << 63 else ignored  # torch stores it unsigned
        weight = getattr(node, "_saved_weight", None)
        if weight is not None:
            self._warn("weight", "the loss has class weights, but hsched weights ranks by their number of samples: sum the weights of the "
                       "labels with steps(loader, count=lambda batch: float(weight[batch[1]].sum()))")
        items = labels.numel() / samples if samples else 0.0
        self._items = items if self._items is None else self._items
        if items != self._items:
            self._warn("tokens", "the loss is a mean over %g labels for each sample here and %g before, but hsched weights ranks by their number of "
                       "samples: count the labels with steps(loader, count=...)" % (items, self._items))
        flag = (labels == ignored).any()
        if flag.device.type == "cpu":
            if flag:
                self._warn_of_ignored(ignored)
        else:  # without waiting for the GPU
            self._flags, self._ignored = flag if self._flags is None else self._flags | flag, ignored

    def end_epoch(self) -> None:
        """Reads the flags that were left on the GPU."""
        if self._flags is not None and bool(self._flags):
            self._warn_of_ignored(self._ignored)
        self._flags = None

    def _warn_of_ignored(self, label: int) -> None:
        self._warn("ignored", "some labels are %d, which the loss ignores, but hsched weights ranks by their number of samples: count the "
                   "labels with steps(loader, count=lambda batch: int((batch[1] != %d).sum())), with the ignore_index of your loss" % (label, label))

    def _warn(self, kind: str, text: str) -> None:
        if kind not in self._said:
            self._said.add(kind)
            warnings.warn(text, stacklevel=_lines_to_program())


def _lines_to_program() -> int:
    """Returns the number of calls between the caller and the program, so that warnings name a line of the program."""
    frame, count = sys._getframe(1), 1
    while frame.f_back is not None and os.path.dirname(frame.f_code.co_filename) == os.path.dirname(__file__):
        frame, count = frame.f_back, count + 1
    return count


def _losses_of(top: Any) -> Iterator[Any]:
    """Yields the nodes of a graph that are losses of torch with only arithmetic above them."""
    waiting, seen = [top], 0
    while waiting and seen < _MOST_NODES:
        node = waiting.pop()
        seen += 1
        if hasattr(node, "_saved_reduction"):
            yield node
        elif type(node).__name__.startswith(_ARITHMETIC):
            waiting += [inner for inner, _ in node.next_functions]


def _has_mean(top: Any) -> bool:
    """Returns whether a sum is one of means over samples, or of values that were stacked, which may be means."""
    waiting, seen = [top], 0
    while waiting and seen < _MOST_NODES:
        node = waiting.pop()
        seen += 1
        name = type(node).__name__
        if getattr(node, "_saved_reduction", None) == _MEAN or name.startswith(("Stack", "Cat")) or name.startswith("Mean") and _is_of_samples(node):
            return True
        if name.startswith(_ARITHMETIC):
            waiting += [inner for inner, _ in node.next_functions]
    return False


def _is_of_samples(mean: Any) -> bool:
    """Returns whether a mean is taken over the first dimension, which is that of the samples."""
    dims = getattr(mean, "_saved_dim", ())
    sizes = getattr(mean, "_saved_self_sym_sizes", None) or getattr(mean, "_saved_self_sizes", ())
    signed = [dim - (1 << 64) if dim >= 1 << 63 else dim for dim in dims]  # torch stores them unsigned
    return not signed or 0 in signed or -len(sizes) in signed


def has_label(batch: Any, label: int) -> bool:
    """Returns whether a batch on the CPU has such a label."""
    if isinstance(batch, torch.Tensor):
        return batch.dtype == torch.int64 and batch.device.type == "cpu" and bool((batch == label).any())
    values = batch.values() if isinstance(batch, Mapping) else batch if isinstance(batch, (list, tuple)) else ()
    return any(has_label(inner, label) for inner in values)
