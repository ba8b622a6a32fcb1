"""Saving and resuming of a training: on all ranks or none; the number of ranks may change in between."""
from __future__ import annotations

import contextlib
import os
import random
import sys
from typing import Any, Callable, Dict, List, Optional, Tuple

from .checkpoint import FORMAT, WITHOUT_FOLDER, Damage, Files, read_plain
from .core import Rank
from .optional import dist, torch
from .process import check_fence
from .progress import Progress
from .ranges import Ranges, count
from .sampler import BatchSampler
from .sharded import ShardedFolders
from .values import Refused, encode

_BOTH = "to start over, remove it or set another checkpoint directory"


class Saving:
    """The checkpoints of a training."""

    me: Rank
    sampler: BatchSampler
    epoch: int
    left: Ranges
    stateful: Dict[str, Any]
    _sum: Callable[..., Any]
    _sum_once: Callable[..., Any]
    _group: Any
    _unreported: Optional[Dict[str, Any]]
    loss: Any
    counted: float
    copies: Any
    progress: Progress
    _folders: Optional[ShardedFolders]
    _so_far: List[float]

    def _begin_saving(self) -> None:
        self.path = os.path.join(self.me.checkpoint_dir, "hsched-ddp.pt")
        self._files = Files(self.path)
        if self.me.rank == 0:
            self._files.remove_left()

    def save(self) -> None:
        """Replaces the checkpoint atomically, on all ranks or none. All ranks must call this, between steps."""
        with self.progress.during("save"):
            self._save()

    def _save(self) -> None:
        so_far = [0.0, 0.0] if self.copies else self._sum_once([float(self.loss), self.counted]).tolist()
        own_states: List[Any] = [None] * self.me.world_size
        dist.all_gather_object(own_states, random_state(self.me.device) if self.me.replica_rank == 0 else None, group=self._group)
        states = [own for own in own_states if own is not None]  # one for each replica
        problem: Optional[Exception] = None
        folder = self._folders.save(self.global_step) if self._folders else None  # type: ignore[attr-defined]
        if self.me.rank == 0:
            try:
                marks = {"format": FORMAT, "sharded": folder} if folder else {"format": WITHOUT_FOLDER}
                saved = dict(self._position(), **marks, epoch=self.epoch, left=self.sampler.samples_of(self.left), ranks=self.sampler.ranks,
                             global_step=self.global_step, plan=self.me.plan,  # type: ignore[attr-defined]
                             **encode({"unreported": self._unreported, "random": states, "so_far": so_far}, "it"), state=self._states())
                os.makedirs(self.me.checkpoint_dir, exist_ok=True)
                self._files.write(saved, check_fence)
                if self._folders and folder:
                    self._folders.keep(folder)
            except Exception as error:  # of the disk, or of a value that cannot be saved
                problem = error
        if self._sum([float(problem is not None)]) > 0:
            raise RuntimeError("rank 0 cannot write the checkpoint %s: %s" % (self.path, problem or "see the output of rank 0")) from problem

    def resume(self) -> bool:
        """Resumes from the checkpoint and returns whether there was one. All ranks must call this; their number may have changed.

        If the checkpoint is damaged, resumes from the previous one and prints a message.
        """
        saved: Dict[str, Any] = {"global_step": -1}
        problem: Optional[Exception] = None
        place = 0.0
        if self.me.rank == 0:
            try:
                saved, place = self._first_whole()
            except Refused as error:
                problem = error
        if self._sum([float(problem is not None)]) == 0:
            place = float(self._sum([place]))
            try:
                if self.me.rank != 0 and place > 0:
                    saved = self._read(self._files.paths[int(place) - 1])
            except Refused as error:
                problem = error
        if self._sum([float(problem is not None)]) > 0:
            raise RuntimeError("the checkpoint %s; %s" % (problem or "was refused by another rank", _BOTH)) from None
        if self._sum([float(saved["global_step"])]) != saved["global_step"] * self.me.world_size:
            raise RuntimeError("the ranks read different checkpoints: %s must be on a file system that all nodes share" % self.path)
        if place == 0:
            return False
        self._take(saved)
        return True

    def _first_whole(self) -> Tuple[Dict[str, Any], float]:
        """Returns the checkpoint and 1, or the previous one and 2 if the checkpoint is damaged; the number is 0 if there is none.

        Raises Refused if neither can be used, or if the checkpoint is refused for a reason other than damage.
        """
        if not os.path.exists(self.path):
            return {"global_step": -1}, 0.0
        try:
            self._files.check(self.path)
            return self._read(self.path), 1.0
        except Damage as damage:
            if not os.path.exists(self._files.before):
                raise
            try:
                self._files.check(self._files.before)
                saved = self._read(self._files.before)
            except Refused as error:
                raise Refused("%s, and the one before cannot be used either: %s" % (damage, error)) from None
            self._files.is_damaged = True
            print("hsched: the checkpoint %s; resuming from the one before, %s (epoch %d, %d steps done in all)"
                  % (damage, self._files.before, saved["epoch"] + 1, saved["global_step"]), file=sys.stderr, flush=True)
            return saved, 2.0

    def _read(self, path: str) -> Dict[str, Any]:
        saved: Dict[str, Any] = read_plain(path)
        place = ("left", "ranks") if saved.get("format", 1) > 2 else ("step",)
        lacking = [key for key in (*self._position(), "epoch", *place, "global_step", "random", "state") if key not in saved]
        if lacking:
            raise Damage("%s was refused: it lacks %s" % (path, ", ".join(lacking)))
        return saved

    def _take(self, saved: Dict[str, Any]) -> None:
        """Restores the saved state; raises ValueError if the checkpoint is of a different training."""
        if ("sharded" in saved) != (self._folders is not None):
            raise ValueError("%s is of a training %s; %s" % (self.path, "whose replicas have several ranks, and this one has no checkpoint=..." if "sharded" in saved
                                                            else "without replicas of several ranks, and this one has them", _BOTH))
        for key, value in self._position().items():
            if saved[key] != value:
                raise ValueError("%s was written with %s %s, but this training has %s; %s" % (self.path, key, saved[key], value, _BOTH))
        lacking = [name for name, _ in self._parts() if name not in saved["state"]]
        if lacking:
            raise ValueError("%s has no state of %s, which the program has added since: leave it out; %s" % (self.path, ", ".join(lacking), _BOTH))
        self.sampler.cut(saved["ranks"] if "ranks" in saved else len(saved["random"]))
        if "ranks" in saved:
            self.left = self.sampler.steps_of(saved["left"])
        else:  # a format that counted steps
            self.left = saved.get("left", [[saved["step"], self.sampler.steps]])
        if self._folders:
            self._folders.load(saved["sharded"])
        for name, part in self._parts():
            part.load_state_dict(saved["state"][name])
        self.epoch = saved["epoch"]
        if self.me.rank == 0:
            self._so_far = saved.get("so_far", [0.0, 0.0])
        self.sampler.note_steps(saved["global_step"] - (self.sampler.steps - count(self.left)))
        if self.left == [[0, self.sampler.steps]]:
            self.sampler.cut(self.me.replicas)
            self.left = [[0, self.sampler.steps]]
        if self.me.replica < len(saved["random"]):
            set_random_state(saved["random"][self.me.replica], self.me.device)
        if self.me.rank == 0 and saved.get("unreported") and self.epoch > self.me.epochs_done:
            self.me.report(saved["unreported"])  # rank 0 may have ended between the checkpoint and the report

    def restore(self) -> None:
        """Returns to the last checkpoint and discards later progress. Without a checkpoint, only the position returns to the start."""
        if not self.resume():
            self.sampler.cut(self.me.replicas)
            self.sampler.note_steps(0)
            self.epoch, self.left = 0, [[0, self.sampler.steps]]

    def _states(self) -> Dict[str, Any]:
        """Returns the states of all parts as stored in a checkpoint."""
        return {name: self._encoded(name, part.state_dict()) for name, part in self._parts()}

    def _parts(self) -> List[Tuple[str, Any]]:
        """Returns the parts in the checkpoint itself: the program saves models and optimizers of replicas of several ranks in a folder."""
        kinds = (torch.nn.Module, torch.optim.Optimizer)
        return [(name, part) for name, part in self.stateful.items() if not (self._folders and isinstance(part, kinds))]

    def _encoded(self, name: str, state: Any) -> Any:
        try:
            return encode(state, "its state")
        except Refused as error:
            raise Refused("%s cannot be saved in a checkpoint: %s; change its state_dict() to return only these" % (name, error)) from None

    def _check_states(self) -> None:
        """Raises Refused before the first epoch for values that could not be saved after it."""
        for name, part in self._parts():
            state = None  # unchanged if the part is not ready; it may be when it is saved
            if not isinstance(part, torch.nn.Module):
                with contextlib.suppress(Exception):
                    state = part.state_dict()
            self._encoded(name, state)

    def _position(self) -> Dict[str, Any]:
        """Returns the values that must not change for a position in the epoch to stay valid."""
        names = ("samples", "seed", "shuffle", "drop_last")
        return dict({name: getattr(self.sampler, name) for name in names}, global_batch=self.me.global_batch)


def seed_by_rank(me: Rank) -> None:
    """Gives each of several ranks different random numbers, derived from its current ones; all ranks of a replica get the same ones.

    Programs use the same seed on all ranks, so that they build the same model, but dropout and augmentation must differ.
    """
    if me.replicas == 1:
        return
    base = int(torch.randint(1 << 62, (), device="cpu")) + me.replica
    torch.manual_seed(base)  # of all devices
    random.seed(base)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(base % (1 << 32))


def random_state(device: Any) -> Dict[str, Any]:
    """Returns the states of this process's random numbers."""
    state: Dict[str, Any] = {"python": random.getstate(), "torch": torch.get_rng_state()}
    if "numpy" in sys.modules:
        kind, key, *rest = sys.modules["numpy"].random.get_state()
        state["numpy"] = (kind, key.tolist(), *rest)  # not as an array, because NumPy 1 cannot read arrays of NumPy 2
    if device.type == "cuda":
        state["cuda"] = torch.cuda.get_rng_state(device)
    return state


def seeded_state(seed: int) -> Dict[str, Any]:
    """Returns the states of the random numbers on the CPU after seeding."""
    state: Dict[str, Any] = {"python": random.Random(seed).getstate(), "torch": torch.Generator().manual_seed(seed).get_state()}
    if "numpy" in sys.modules:
        kind, key, *rest = sys.modules["numpy"].random.RandomState(seed).get_state()
        state["numpy"] = (kind, key.tolist(), *rest)
    return state


def set_random_state(state: Dict[str, Any], device: Any) -> None:
    """Sets the states of this process's random numbers."""
    random.setstate(state["python"])
    torch.set_rng_state(state["torch"])
    if "numpy" in state and "numpy" in sys.modules:
        sys.modules["numpy"].random.set_state(state["numpy"])
    if "cuda" in state and device.type == "cuda":
        torch.cuda.set_rng_state(state["cuda"], device)
