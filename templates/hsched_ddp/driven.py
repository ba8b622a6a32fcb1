"""Training loops of a framework: the loader for such a loop, with one iteration per epoch and one batch per step."""
from __future__ import annotations

from typing import Any, Callable, Dict, Iterator, List, Optional

from .core import Rank
from .optional import torch
from .sampler import BatchSampler
from .training import Training


class Loader:
    """Yields the steps of a training, each with this rank's micro-batches of a global batch."""

    def __init__(self, dataset: Any, me: Rank, *, count: Optional[Callable[[Any], float]] = None, collate_fn: Optional[Callable[[List[Any]], Any]] = None,
                 seed: int = 0, num_workers: int = 0, **options: Any) -> None:
        """`count` is the argument of `Training.steps`; `options` are those of torch's DataLoader."""
        if me.shares_model:
            raise ValueError("replicas of several ranks are for programs with a loop of their own: use init(), BatchSampler and Training, as in examples/replicas")
        if isinstance(dataset, torch.utils.data.DataLoader):
            raise ValueError("loader() takes a data set, not a DataLoader: pass loader.dataset, and its collate_fn")
        if isinstance(dataset, torch.utils.data.IterableDataset) or not hasattr(dataset, "__len__"):
            raise ValueError("loader() takes a data set with a length, not a %s: streams need hsched_ddp.prepare()" % type(dataset).__name__)
        wrong = {"batch_size", "shuffle", "sampler", "batch_sampler", "drop_last"} & set(options)
        if wrong:
            raise ValueError("loader() chooses %s itself: the shares say which samples this rank takes" % ", ".join(sorted(wrong)))
        self.dataset, self.count, self.places = dataset, count, BatchSampler(len(dataset), me, seed=seed)
        more: Dict[str, Any] = {"persistent_workers": num_workers > 0, "pin_memory": me.device.type == "cuda", **options}
        self.batches = torch.utils.data.DataLoader(dataset, batch_sampler=self.places, collate_fn=collate_fn, num_workers=num_workers, **more)
        self.training: Optional[Training] = None
        self._before_close: Callable[[], None] = lambda: None
        self._is_open = False  # whether an epoch has started and not ended

    def attach(self, training: Training, before_close: Callable[[], None]) -> None:
        """Starts the training that these steps belong to; `before_close` is called before each epoch's report."""
        self.training, self._before_close, self._is_open = training, before_close, False
        training.begin()

    def __len__(self) -> int:
        """Returns the number of steps in an epoch."""
        return self.places.steps

    def __iter__(self) -> Iterator[Any]:
        return self._steps()

    def _steps(self) -> Iterator[Any]:
        if self.training is None:
            raise RuntimeError("this loader belongs to the training that hsched_ddp makes for its framework, and none has begun")
        # At this point, the framework has finished its work after an epoch, such as evaluations and
        # schedules.
        self.close()
        self._is_open = True
        self.training.open_epoch()
        yield from self.training.steps(self.batches, self.count)

    def close(self, is_whole: bool = True) -> None:
        """Ends the current epoch, if there is one; if it is not whole, saves its finished steps instead. All ranks must call this."""
        if not self._is_open or self.training is None:
            return
        self._is_open = False
        if is_whole:
            self._before_close()
            self.training.close_epoch()
        else:
            self.training.save()

    # Loops call these methods of a loader to resume; its position is in the checkpoint of the training.

    def state_dict(self) -> Dict[str, Any]:
        return {}

    def load_state_dict(self, state: Dict[str, Any]) -> None:
        """Does nothing: there is nothing to load."""


def numbered(name: str, parts: List[Any]) -> Dict[str, Any]:
    """Returns parts of a checkpoint by name: NAME, NAME 2, and so on."""
    return {name if number == 1 else "%s %d" % (name, number): part for number, part in enumerate(parts, 1)}


class Part:
    """A part of a checkpoint, made of two functions; the check for models in DDP does not see what they refer to."""

    def __init__(self, get: Callable[[], Dict[str, Any]], put: Callable[[Dict[str, Any]], None]) -> None:
        self.state_dict, self.load_state_dict = get, put
