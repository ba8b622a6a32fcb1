"""Stop requests to a process, and its end."""
from __future__ import annotations

import atexit
import contextlib
import logging
import multiprocessing.util
import os
import signal
import sys
from typing import Any, Optional

from .optional import dist, torch

SAVED = 85  # the exit status of a rank that saved its state and should be resumed

_asked_to_stop = False
_left: Optional[int] = None  # the exit status that `leave` used


def on_stop(number: int, frame: Any) -> None:
    global _asked_to_stop
    _asked_to_stop = True


def stop_requested() -> bool:
    """Returns whether this process received the stop signal. Without `Training`, the ranks must agree on it."""
    return _asked_to_stop or signal.SIGUSR1 in signal.sigpending()


def check_fence() -> None:
    """Raises if a newer submission of this job has started (HSCHED_FENCE) and now owns the checkpoint."""
    folder, _, own = os.environ.get("HSCHED_FENCE", "").rpartition("/")
    with contextlib.suppress(OSError, ValueError):  # a rank that cannot read it continues
        if not any(name.isdigit() and int(name) > int(own) for name in os.listdir(folder)):
            return
        raise RuntimeError("a newer submission of this job has started from the last checkpoint")


def leave(status: int = 0) -> None:
    """Exits cleanly: raises SystemExit. All ranks must call it."""
    global _left
    if torch is not None and dist.is_initialized():
        on_gpu = dist.get_backend() == "nccl"  # without a device, the barrier would warn that it has to guess one
        dist.barrier(device_ids=[torch.cuda.current_device()] if on_gpu else None)  # no rank ends while others still exchange data
        dist.destroy_process_group()
        _left = status
    sys.exit(status)


@atexit.register
def _end() -> None:
    """Ends the process before the interpreter shuts down, if it has called `leave` without a later exception.

    DistributedDataParallel keeps gloo's threads alive. A thread that frees a tensor after the interpreter is gone would
    abort the process. Registered on import, so that handlers of the program run first.
    """
    if _left is None or getattr(sys, "last_value", None) is not None:  # no `leave`, or an exception after it
        return
    multiprocessing.util._exit_function()  # type: ignore[attr-defined]  # ends a loader's workers and frees their shared memory
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(_left)
