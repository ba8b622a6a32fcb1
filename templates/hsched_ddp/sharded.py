"""The program's checkpoints of a model that several ranks hold together: folders beside `hsched-ddp.pt`, which names the valid one."""
from __future__ import annotations

import contextlib
import os
import random
import shutil
from typing import Any, Callable, Optional

from .core import Rank
from .process import check_fence

_PREFIX = "sharded-"


class ShardedFolders:
    """Folders in which the program saves models and optimizers. Each has a unique name; the checkpoint names the valid one."""

    def __init__(self, me: Rank, own: Any, sum_over_ranks: Callable[..., Any]) -> None:
        """`own` belongs to the program: `save(folder)` runs on all ranks of the first replica, `load(folder)` on all ranks."""
        for name in ("save", "load"):
            if not callable(getattr(own, name, None)):
                raise ValueError("checkpoint=%s has no method %s(folder): save(folder) writes what the ranks of a replica hold of models and optimizers, "
                                 "and load(folder) reads it on any number of ranks" % (type(own).__name__, name))
        self._me, self._own, self._sum = me, own, sum_over_ranks
        self._before: Optional[str] = None  # the folder named in the current checkpoint

    def save(self, global_step: int) -> str:
        """Saves to a new folder and returns its name; raises RuntimeError on all ranks or none. All ranks must call this."""
        token = self._sum([float(random.SystemRandom().getrandbits(48)) if self._me.rank == 0 else 0.0])
        name = "%s%d-%012x" % (_PREFIX, global_step, int(token))
        problem: Optional[Exception] = None
        if self._me.replica == 0:
            try:
                os.makedirs(self._path(name), exist_ok=True)
                self._own.save(self._path(name))
            except Exception as error:
                problem = error
        if self._sum([float(problem is not None)]) > 0:
            self._remove(name)
            raise RuntimeError("the program's checkpoint cannot be written to %s: %s" % (self._path(name), problem or "see the output of the other ranks")) from problem
        return name

    def load(self, name: str) -> None:
        """Loads a folder; raises RuntimeError on all ranks or none. All ranks must call this."""
        problem: Optional[Exception] = None
        try:
            if not os.path.isdir(self._path(name)):
                raise FileNotFoundError("there is no such folder")
            self._own.load(self._path(name))
        except Exception as error:
            problem = error
        if self._sum([float(problem is not None)]) > 0:
            raise RuntimeError("the program's checkpoint %s cannot be read: %s" % (self._path(name), problem or "see the output of the other ranks")) from problem
        self._before = name

    def keep(self, name: str) -> None:
        """Removes all folders except this one, which the new checkpoint names, and that of the previous checkpoint. Only the first rank calls it."""
        with contextlib.suppress(OSError, RuntimeError):
            check_fence()
            for entry in os.listdir(self._me.checkpoint_dir):
                if entry.startswith(_PREFIX) and entry not in (name, self._before):
                    self._remove(entry)
        self._before = name

    def _remove(self, name: str) -> None:
        if self._me.rank == 0:
            shutil.rmtree(self._path(name), ignore_errors=True)

    def _path(self, name: str) -> str:
        return os.path.join(self._me.checkpoint_dir, name)
