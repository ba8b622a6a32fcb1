"""Checks that a batch from a loader has the expected number of samples."""
from __future__ import annotations

from typing import Any, List, Mapping, Optional, Tuple

from .optional import torch


def check_size(batch: Any, samples: int) -> None:
    """Raises ValueError if a batch has a different number of samples; batches of unknown size pass."""
    sizes = sizes_of(batch)
    if sizes and samples not in sizes and not _is_time_first(batch, samples):
        raise ValueError("this rank's batch has %s samples, but its share is %d: the loader must yield exactly the samples of the sampler. If collate_fn drops "
                         "samples, drop them from the dataset before; if a batch does not show its samples (tokens in a row), count what the loss is "
                         "taken over with steps(loader, count=...)" % (" or ".join(map(str, sizes)), samples))


def sizes_of(batch: Any, depth: int = 3) -> List[int]:
    """Returns the possible numbers of samples in a batch, from the first dimensions of its tensors; empty if unknown."""
    own = _length(batch)
    if own is not None:
        return [own]
    if isinstance(batch, Mapping) or _is_row(batch):
        parts = list(batch.values()) if isinstance(batch, Mapping) else list(batch)
        inner = [size for part in parts if depth for size in sizes_of(part, depth - 1)]
        if not isinstance(batch, Mapping) and inner and (_are_alike(parts) or len(set(inner)) > 1):
            inner.append(len(parts))  # a list of samples
        return sorted(set(inner))
    return []


def _length(part: Any) -> Optional[int]:
    """Returns the first dimension of a tensor or an array."""
    shape = getattr(part, "shape", None)
    return int(shape[0]) if shape is not None and len(shape) > 0 else None


def _is_row(batch: Any) -> bool:
    return isinstance(batch, (list, tuple)) and len(batch) > 0


def _are_alike(parts: List[Any]) -> bool:
    """Returns whether these could be samples of the same form, rather than inputs and labels."""
    kinds: List[Tuple[Any, ...]] = [(type(part), getattr(part, "dtype", None), len(getattr(part, "shape", ()))) for part in parts]
    return len(set(kinds)) == 1


def _is_time_first(batch: Any, samples: int) -> bool:
    """Returns whether all tensors have the samples in their second dimension, as is common for recurrent networks."""
    parts = batch.values() if isinstance(batch, Mapping) else batch if isinstance(batch, (list, tuple)) else [batch]
    tensors = [part for part in parts if isinstance(part, torch.Tensor) and part.dim() > 0]
    return bool(tensors) and all(part.dim() > 1 and part.shape[1] == samples for part in tensors)
