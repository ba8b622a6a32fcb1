"""Two lines for a program in plain torch: everything from the process group to the checkpoint, with the usual defaults."""
from __future__ import annotations

from typing import Any, Callable, Iterable, List, Optional, Tuple

from . import core
from .accelerated import mark
from .core import Rank
from .optional import DistributedDataParallel, dist, torch
from .sampler import BatchSampler
from .stream import StreamLoader, StreamSampler
from .training import Training
from .wrapping import has_ddp


def prepare(model: Any, optimizer: Any, dataset: Any, *, global_batch: Optional[int] = None, epochs: int = 1, scheduler: Any = None,
            collate_fn: Optional[Callable[[List[Any]], Any]] = None, seed: int = 0, num_workers: int = 0, **stateful: Any) -> Tuple[Training, Iterable[Any]]:
    """Initialises this rank, wraps the model, and resumes; returns the training and the loader for `training.steps`.

    The model moves to the rank's device and is `training.model` in DistributedDataParallel. `global_batch` and `epochs`
    apply only if neither hsched nor an earlier `init` has set them. `dataset` has a length, or is an IterableDataset that
    yields samples in the same order on all ranks. `stateful` contains further parts of the checkpoint, and options of
    `Training`.

    Raises ValueError, with the reason, for programs that it cannot prepare. In that case, use `init`, `BatchSampler` and `Training`.
    """
    if torch is None:
        raise RuntimeError("prepare() needs torch; without it, use init(), BatchSampler and Rank.report()")
    _check(model, optimizer, dataset)
    me = _rank(global_batch, epochs)
    if me.shares_model:
        raise ValueError("replicas of several ranks hold the model together as the program says: use init(), BatchSampler and Training, as in examples/replicas")
    model.to(me.device)
    if optimizer.state:  # this moves the state to the device of the parameters
        optimizer.load_state_dict(optimizer.state_dict())
    sampler, loader = _data(dataset, me, collate_fn, seed, num_workers, stateful)
    if scheduler is not None:
        stateful["scheduler"] = scheduler
    training = Training(me, sampler, DistributedDataParallel(model), optimizer=optimizer, **stateful)
    training.resume()
    return training, loader


def _check(model: Any, optimizer: Any, dataset: Any) -> None:
    """Raises ValueError for objects that cannot be prepared."""
    if isinstance(model, (list, tuple, dict)):
        raise ValueError("prepare() takes one model: wrap each of several in DistributedDataParallel, and pass them as Training(..., models=[...])")
    if not isinstance(model, torch.nn.Module):
        raise ValueError("prepare() takes a torch.nn.Module, not a %s" % type(model).__name__)
    if has_ddp(model):
        raise ValueError("the model is in DistributedDataParallel already: pass the model itself, prepare() wraps it")
    kinds = {type(own).__name__ for own in model.modules()}
    for kind in kinds & {"DataParallel", "FullyShardedDataParallel", "FSDPModule", "DeepSpeedEngine"}:
        raise ValueError("the model is in %s, which shares the model or its batches out itself: pass the model itself" % kind)
    if any(isinstance(own, torch.nn.parameter.UninitializedParameter) for own in model.parameters()):
        raise ValueError("the model has lazy layers without parameters: run it on one sample first")
    if not any(own.requires_grad for own in model.parameters()):
        raise ValueError("the model has no parameters to train")
    if not isinstance(optimizer, torch.optim.Optimizer):
        raise ValueError("prepare() takes a torch.optim.Optimizer, not a %s%s" % (
            type(optimizer).__name__, ": with several optimizers, use Training" if isinstance(optimizer, (list, tuple, dict)) else ""))
    own = set(map(id, model.parameters()))
    if any(id(parameter) not in own for group in optimizer.param_groups for parameter in group["params"]):
        raise ValueError("the optimizer has parameters that are not the model's: create it from model.parameters(), or use Training")
    if isinstance(dataset, torch.utils.data.DataLoader):
        raise ValueError("prepare() takes a data set, not a DataLoader: pass loader.dataset, and its collate_fn")
    if not isinstance(dataset, torch.utils.data.IterableDataset) and not (hasattr(dataset, "__len__") and hasattr(dataset, "__getitem__")):
        raise ValueError("prepare() takes a data set with a length and an index, or an IterableDataset, not a %s" % type(dataset).__name__)


def _rank(global_batch: Optional[int], epochs: int) -> Rank:
    """Returns this rank, initialised now or earlier."""
    if core.started is not None:
        return core.started
    if dist.is_initialized():
        raise ValueError("the program has initialised a process group: remove init_process_group, prepare() does it (or call hsched_ddp.init() before what does, such as Accelerator())")
    return core.init(global_batch, epochs)


def _data(dataset: Any, me: Rank, collate_fn: Any, seed: int, num_workers: int, stateful: Any) -> Tuple[Any, Iterable[Any]]:
    """Returns the sampler and the loader of a data set; the position in a stream becomes part of the checkpoint."""
    if isinstance(dataset, torch.utils.data.IterableDataset):
        stream = StreamSampler(dataset, me, num_workers)
        stateful["stream"] = stream
        return stream, StreamLoader(stream, collate_fn)
    sampler = BatchSampler(len(dataset), me, seed=seed)
    return sampler, mark(torch.utils.data.DataLoader(dataset, batch_sampler=sampler, collate_fn=collate_fn, num_workers=num_workers,
                                                     persistent_workers=num_workers > 0, pin_memory=me.device.type == "cuda"))
