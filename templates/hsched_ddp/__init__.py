"""Training with unequal local batches: everything that a PyTorch program needs under hsched, in one package.

hsched gives every rank its own share of each global batch. DistributedDataParallel averages gradients over ranks as if
all shares were equal, so the loss must be weighted; this package does that. It also gives each rank its samples, reports
speeds, saves checkpoints, and stops on SIGUSR1. See docs/training.md of hsched.

It also works under torchrun and as a single process; the shares are then equal. Without torch, a program can use
`init`, `BatchSampler`, `Rank.report`, `stop_requested` and `leave`, but not `Training`. Needs Python 3.8 or later and, if
torch is used, torch 1.13 or later. You may copy this folder freely.
"""
import importlib
from dataclasses import replace
from typing import Any

from .checkpoint import FORMAT, new_file, read_plain
from .core import Rank, init, read_rank
from .gate import Gate
from .losses import scale_loss
from .optional import torch
from .prepare import prepare
from .process import SAVED, leave, stop_requested
from .report import Timer
from .sampler import BatchSampler
from .step import Step
from .training import Training
from .values import Refused, decode, encode

__all__ = ["FORMAT", "SAVED", "BatchSampler", "Gate", "Rank", "Refused", "Step", "Timer", "Training", "decode", "encode", "init", "leave", "new_file",
           "prepare", "read_plain", "read_rank", "replace", "scale_loss", "stop_requested", "torch"]


def __getattr__(name: str) -> Any:
    """Imports the module for a framework on first use, because it needs that framework."""
    if name in ("hf", "lightning"):
        return importlib.import_module("." + name, __name__)
    raise AttributeError("module %r has no attribute %r" % (__name__, name))
