"""torch, where it is installed: without it, `torch` is None, and only what says so works."""
from __future__ import annotations

try:
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel
except ModuleNotFoundError:
    torch = dist = DistributedDataParallel = None  # type: ignore[assignment,misc]

__all__ = ["DistributedDataParallel", "dist", "torch"]
