"""How a process is asked to stop, and how it ends."""
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

SAVED = 85  # the exit status of a rank that saved its state and wants to be continued

_asked_to_stop = False
_left: Optional[int] = None  # the status with which `leave` ended this program


def on_stop(number: int, frame: Any) -> None:
    global _asked_to_stop
    _asked_to_stop = True


def stop_requested() -> bool:
    """Returns whether this process received the stop signal. Without `Training`, the ranks must agree on it."""
    return _asked_to_stop or signal.SIGUSR1 in signal.sigpending()


def check_fence() -> None:
    """Raises where a newer submission of this job has begun (HSCHED_FENCE): the checkpoint is that one's."""
    folder, _, own = os.environ.get("HSCHED_FENCE", "").rpartition("/")
    with contextlib.suppress(OSError, ValueError):  # who cannot look goes on
        if not any(name.isdigit() and int(name) > int(own) for name in os.listdir(folder)):
            return
        raise RuntimeError("a newer submission of this job has started from the last checkpoint")


def leave(status: int = 0) -> None:
    """Exits cleanly: raises SystemExit. All ranks must call it."""
    global _left
    if torch is not None and dist.is_initialized():
        on_gpu = dist.get_backend() == "nccl"  # which otherwise warns that it has to guess the device
        dist.barrier(device_ids=[torch.cuda.current_device()] if on_gpu else None)  # nobody's end breaks what another one still exchanges
        dist.destroy_process_group()
        _left = status
    sys.exit(status)


@atexit.register
def _end() -> None:
    """Ends a process that left in order before the interpreter is taken down.

    DistributedDataParallel keeps gloo's threads alive. One of them that is still about to drop a tensor would find no
    interpreter any more and abort the process. Registered on import, so that what the program registers comes before.
    """
    if _left is None or getattr(sys, "last_value", None) is not None:  # or an exception came on the way out
        return
    multiprocessing.util._exit_function()  # type: ignore[attr-defined]  # a loader's workers and what they shared
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(_left)
