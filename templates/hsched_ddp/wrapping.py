"""Models as programs wrap them: in DistributedDataParallel (DDP), in torch.compile, or in both."""
from __future__ import annotations

from typing import Any, List, Mapping

from .core import Rank
from .optional import DistributedDataParallel, torch


def uncompiled(model: Any) -> Any:
    """Returns the model inside a compiled one."""
    return getattr(model, "_orig_mod", model)


def checked_models(models: List[Any], stateful: Mapping[str, Any], world_size: int) -> List[Any]:
    """Returns models without torch.compile; raises ValueError for models that ranks cannot train together."""
    if not models:
        raise ValueError("Training needs a model, or several models as models=[...]")
    whole = [uncompiled(own) for own in models]
    if world_size > 1 and any(not isinstance(own, DistributedDataParallel) for own in whole):
        kinds = ", ".join(type(own).__name__ for own in whole)
        raise ValueError("with several ranks, wrap the model in DistributedDataParallel (got %s)" % kinds)
    inner = {"model": uncompiled(own.module) if isinstance(own, DistributedDataParallel) else own for own in whole}
    for name, part in dict(stateful, **inner).items():
        if has_ddp(part):
            raise ValueError("%s contains a DistributedDataParallel model: pass that model in models=[...], "
                             "or give %s its .module; otherwise the ranks would hang" % (name, name))
    for own in whole:
        if isinstance(own, DistributedDataParallel):
            _keep_hook(own)
    return whole


def checked_replicas(models: List[Any], me: Rank, checkpoint: Any, comm_hook: Any) -> List[Any]:
    """Returns models without torch.compile; raises ValueError for options that replicas of several ranks do not support."""
    if not models:
        raise ValueError("Training needs a model, or several models as models=[...]")
    if not me.in_replicas:
        raise ValueError("checkpoint=... is for replicas of several ranks: set replica in the job file, or replica_size=... of hsched_ddp.init()")
    if checkpoint is None:
        raise ValueError("the ranks of a replica hold the model together, so the program itself must save it: pass checkpoint=... with the methods save(folder) "
                         "and load(folder), as in examples/replicas")
    if comm_hook is not None:
        raise ValueError("comm_hook is for models in DistributedDataParallel, which replicas of several ranks do not use")
    return [uncompiled(own) for own in models]


def _keep_hook(model: Any) -> None:
    """Occupies the place of a communication hook in DDP, which would never be called; raises ValueError if there is one."""
    if getattr(model, "_hsched_exchange", None) is None:
        if getattr(model, "_comm_hooks", None):
            raise ValueError("the model has a communication hook: pass it as comm_hook=... instead of registering it")

        def unused(state, bucket):  # type: ignore[no-untyped-def]  # DDP accepts no type annotations except its own
            raise RuntimeError("hsched_ddp exchanges the gradients of this model")
        model.register_comm_hook(None, unused)


def has_ddp(part: Any, depth: int = 2) -> bool:
    """Returns whether an object, its attributes or its items contain a model in DDP."""
    if isinstance(part, torch.nn.Module) and any(isinstance(inner, DistributedDataParallel) for inner in part.modules()):
        return True
    held = part if isinstance(part, (list, tuple)) else (part if isinstance(part, dict) else getattr(part, "__dict__", {})).values()
    return depth > 0 and any(has_ddp(own, depth - 1) for own in held)
