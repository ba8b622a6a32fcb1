"""torch, if it is installed; otherwise `torch` is None, and only the functions that expect this can be used."""
from __future__ import annotations

try:
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel
except ModuleNotFoundError:
    torch = dist = DistributedDataParallel = None  # type: ignore[assignment,misc]

__all__ = ["DistributedDataParallel", "dist", "torch"]
