"""Checks whether a program with unequal shares uses them, from the first batch that a rank trains without this package's loop."""
from __future__ import annotations

import sys
from typing import Any, List, Optional

from .batches import sizes_of
from .optional import DistributedDataParallel, torch

_forward: Any = None  # DistributedDataParallel's own, while this module intercepts its calls


def look(share: int, rank: int) -> None:
    """Checks the first batch that DistributedDataParallel gets before a `Training`, and warns if it is not the rank's share."""
    global _forward
    if _forward is not None:
        return
    _forward = DistributedDataParallel.forward
    seen: List[Optional[int]] = []  # samples of each pass so far of the first step; None if a batch does not show them

    def forward(model: Any, *inputs: Any, **named: Any) -> Any:
        if model.module.training and torch.is_grad_enabled():
            sizes = {size for part in (*inputs, *named.values()) for size in sizes_of(part)}
            seen.append(sizes.pop() if len(sizes) == 1 else None)
            if model.require_backward_grad_sync:
                stop()
                _judge(seen, share, rank)
        return original(model, *inputs, **named)

    original = _forward
    DistributedDataParallel.forward = forward  # type: ignore[method-assign]


def stop() -> None:
    """Stops checking."""
    global _forward
    if _forward is not None:
        DistributedDataParallel.forward = _forward  # type: ignore[method-assign]
    _forward = None


def _judge(seen: List[Optional[int]], share: int, rank: int) -> None:
    total = 0 if None in seen else sum(own for own in seen if own)
    if total and total != share:
        passes = " (%d passes of %s)" % (len(seen), ", ".join(map(str, sorted(set(seen))))) if len(seen) > 1 else ""  # type: ignore[type-var]
        print("hsched: rank %d trains a batch of %d samples%s, but its share of the global batch is %d: this program does not use the shares, so its gradients are not those "
              "of the global batch; use prepare, lightning, hf or Training of hsched_ddp" % (rank, total, passes, share), file=sys.stderr, flush=True)
