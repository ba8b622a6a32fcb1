"""Objects prepared by Hugging Face accelerate, which would divide batches, losses and schedules among ranks a second time."""
from __future__ import annotations

import sys
from typing import Any


def is_of_accelerate(part: Any) -> bool:
    return type(part).__module__.split(".")[0] == "accelerate"


def check_loader(loader: Any) -> None:
    """Raises ValueError for a loader that accelerate has prepared; a loader from `prepare()` is accepted."""
    is_ours = getattr(loader, "_is_hsched", False)
    if is_of_accelerate(loader) or getattr(loader, "_is_accelerate_prepared", False) and not is_ours:
        raise ValueError("accelerate has prepared this loader and would divide its batches again: pass the "
                         "original DataLoader to steps(), without preparing it")


def check_reader() -> None:
    """Raises ValueError if accelerate requested the batches of this rank from the caller."""
    name = sys._getframe(2).f_globals.get("__name__", "")
    if name.split(".")[0] == "accelerate":
        raise ValueError("accelerate has prepared the loader of these batches and would divide them among the ranks again, so most samples would be lost: "
                         "do not pass this loader to accelerator.prepare()")


def mark(loader: Any) -> Any:
    """Returns a loader that `accelerator.prepare` does not change."""
    loader._is_accelerate_prepared = loader._is_hsched = True
    return loader


def check_scheduler(name: str, part: Any) -> None:
    """Raises ValueError for a scheduler that accelerate has prepared."""
    if type(part).__name__ == "AcceleratedScheduler":
        raise ValueError("accelerate would step %s once for each rank: pass the scheduler itself, without preparing it" % name)


def take_over_accumulation() -> None:
    """Keeps `accelerator.backward` from dividing losses by its number of accumulation steps: they are weighted already."""
    state = sys.modules.get("accelerate.state")
    if state is not None and state.GradientState._shared_state:
        state.GradientState().plugin_kwargs["num_steps"] = 1
