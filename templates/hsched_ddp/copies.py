"""Copies of one job that train separately for a round and are then merged: what `Training` does under HSCHED_COPY.

Copies communicate only through files (`rounds`); docs/copies.md has the protocol. There is no leader: the copy that
links the next `round-N.json` first decides what is merged and which copy does which steps, and all others follow.
"""
from __future__ import annotations

import copy
import json
import math
import os
import sys
import time
import warnings
from collections import deque
from typing import Any, Dict, Iterable, Iterator, List, Mapping, Optional, Tuple

import torch

from .checkpoint import FORMAT, new_file, read_plain, sha256
from .merge import MergeError, merge_states, merge_weights, read_safetensors, write_file, write_safetensors
from .ranges import Ranges, count, join, numbers, split, take
from .rounds import Folder
from .values import encode

_LOSSES = 20  # steps at the start and end of a round whose losses measure how good a copy is
_WORSE = 2  # bad merges in a row after which the training continues as one copy


class Copies:
    """This process as one of the copies of a training."""

    def __init__(self, training: Any, env: Mapping[str, str]) -> None:
        self.training = training
        self.number = int(env["HSCHED_COPY"])
        self.folder = Folder(env["HSCHED_ROUND_DIR"], self.number, int(env["HSCHED_COPIES"]), float(env.get("HSCHED_COPY_SILENCE_S", 60)))
        self.length_s = float(env.get("HSCHED_COPY_ROUND_S", 360))
        self.keeps = env.get("HSCHED_COPY_OPTIMIZER", "keep") != "reset"
        self.round: Dict[str, Any] = {}  # the round in which this copy trains
        self._base = ""  # the hash of the file of that round
        self._is_ahead = False  # whether this copy had to resume from the checkpoint of a later epoch than the program is in
        self._writes = False  # whether this copy decided on that round, and therefore writes the checkpoint at its start
        self._before: Dict[str, Dict[str, Any]] = {"schedulers": {}, "groups": {}}  # their states at the start of the round
        self._calls: Dict[str, int] = {}  # how far each scheduler advances in a step
        self._expected: Dict[str, int] = {}  # where each scheduler was before the step
        self._first: List[Any] = []
        self._last: Any = deque(maxlen=_LOSSES)
        self._after: Optional[List[float]] = None  # the merged model's loss, and its error

    def _say(self, text: str) -> None:
        print("hsched: copy %d: %s" % (self.number, text), file=sys.stderr, flush=True)

    def leave(self) -> None:
        """Tells the others not to wait for this copy."""
        self.folder.leave()

    # The rounds of an epoch

    def enter(self) -> None:
        """Waits until this copy is in a round and has the state with which the round starts."""
        self._writes = False
        while True:
            number, latest, base = self.folder.latest()
            if latest is None:
                self._propose(number, None, base, None)
                continue
            self._end_if_another_goes_on(latest)
            own = latest["members"].get(str(self.number))
            mine = own is not None and own["token"] == self.folder.token
            over = latest["epoch"] >= self.training.me.epochs
            busy = self.folder.living(waiting=False)
            others = [k for k, member in latest["members"].items() if int(k) != self.number and busy.get(int(k)) == member["token"]]
            if self._writes and (mine or over):
                self._begin(latest, base)
                return self.save()
            if (mine or over) and self._checkpointed() >= number:
                self.training.restore()
                return self._begin(latest, base)
            self.folder.wait(bool(others))
            if not others:  # all other copies are gone or also wait: resume from the last checkpoint
                self._propose(number, latest, base, None)
            else:
                self.training.pause(0.05)

    def rounds(self) -> Iterator[Ranges]:
        """Yields the steps of this copy, round by round, until the epoch is done; the copies are merged between rounds."""
        epoch = self.training.epoch
        while self.round["epoch"] == epoch:
            yield self._mine()
            self._merge()

    def _mine(self) -> Ranges:
        """Returns the steps of this copy in the round; none if there are too few for all copies, or if it missed the previous round."""
        return [list(own) for own in self.round["members"].get(str(self.number), {"ranges": []})["ranges"]]

    def time_is_up(self) -> bool:
        return time.monotonic() > self._end

    def before_step(self, done: int) -> None:
        """Advances the schedulers to where they would be if one process had done the steps of all copies so far."""
        self._observe(done)
        total = sum(count(member["ranges"]) for member in self.round["members"].values())
        for name, own in self._schedulers().items():
            position = self._calls.get(name, 0) * (done * total // max(1, count(self._mine())))
            _advance(own, self._before["schedulers"][name]["last_epoch"] + position)
            self._expected[name] = own.last_epoch

    def _observe(self, done: int) -> None:
        if done > 0:
            self._calls.update({name: own.last_epoch - self._expected[name] for name, own in self._schedulers().items()})

    def note_loss(self, loss: Any, counted: float) -> None:
        """Records the loss of a step, a sum over the counted items."""
        if counted > 0:
            self._last.append((loss, counted))
            if len(self._first) < _LOSSES:
                self._first.append((loss, counted))

    # The end of a round

    def hand_in(self, done: Ranges) -> None:
        """Writes the results of this copy for the merge; does nothing if the round has no steps for it."""
        if str(self.number) not in self.round["members"]:
            return
        done = join(done)
        self._observe(count(done))
        folder = self.folder.results(self.round["round"])
        os.makedirs(folder, exist_ok=True)
        path = os.path.join(folder, "copy-%d" % self.number)
        line: Dict[str, Any] = {"round": self.round["round"], "base": self._base, "token": self.folder.token, "steps": count(done), "ranges": done,
                                "busy_s": time.monotonic() - self._start, "calls": self._calls, "states": None, "weights": None,
                                "loss": self._measured() or _mean_loss(self._last), "after": self._after or _mean_loss(self._first)}
        if count(done):
            line["weights"] = write_safetensors(path + ".safetensors", self._weights())
            if self.keeps:
                with new_file(path + ".pt") as file:
                    states = {name: part.state_dict()["state"] for name, part in self._optimizers().items()}
                    torch.save(encode({"format": FORMAT, "states": states}, "its optimizers"), file)
                line["states"] = sha256(path + ".pt")
        write_file(path + ".json", [json.dumps(line).encode()])

    def _merge(self) -> None:
        """Waits for the others, decides or learns what is merged, and continues with the result."""
        number, grace = self.round["round"], max(1.0, 0.1 * self.round["length_s"])
        self._writes = False
        decided = self.folder.after(number, self.round, self._base)
        while decided is None:
            results = self.folder.handed_in(self.round, self._base)
            missing = [int(k) for k, own in self.round["members"].items() if int(k) not in results and self.folder.lives(int(k), own["token"])]
            if missing and time.monotonic() < self._end + grace:
                self.training.pause(0.02)
            elif self._is_behind(number):
                return self._enter_anew()
            else:
                for k in missing:
                    self._say("copy %d did not write a result for round %d in time; other copies repeat its steps" % (k, number))
                self._propose(number, self.round, self._base, results)
            decided = self.folder.after(number, self.round, self._base)
        latest, base = decided
        own = latest["members"].get(str(self.number))
        merged = self._merge_into(latest)
        self._end_if_another_goes_on(latest)
        is_this = own["token"] == self.folder.token if own else self.folder.living().get(self.number) == self.folder.token
        if not merged or latest["epoch"] < self.training.me.epochs and not is_this:
            return self._enter_anew()
        self._begin(latest, base)
        if latest["epoch"] == self.training.epoch:
            self.save()  # after an epoch, the program's work between epochs comes first

    def _is_behind(self, number: int) -> bool:
        """Returns whether the round of this copy has left the chain: its file was damaged, and another round was decided in its place."""
        last, _, base = self.folder.latest()
        if (last, base) == (number, self._base) or self.folder.after(number, self.round, self._base):
            return False
        self._say("round %d has changed since this copy read it; it resumes from the checkpoint" % number)
        return True

    def _enter_anew(self) -> None:
        epoch = self.training.epoch
        self.enter()
        self._is_ahead = self.training.epoch != epoch

    def _end_if_another_goes_on(self, latest: Mapping[str, Any]) -> None:
        if latest["alone"] not in (None, self.number):
            self._say("copy %d continues alone, because %s; this one exits" % (latest["alone"], latest["why"]))
            self.leave()
            self.training.leave(0)

    def save(self) -> None:
        """Writes the checkpoint at the start of a round, if this copy decided on the round."""
        if self._writes:
            self.training.save()
            self.folder.mark(self.round["round"], self._base)
            self._writes = False
            self.folder.forget(self.round["round"] - 2)

    def _checkpointed(self) -> int:
        """Returns the round at whose start the checkpoint resumes; 0 if there is none."""
        return self.folder.marked() if os.path.exists(self.training.path) else 0

    def finish(self) -> None:
        """Ensures that the last checkpoint exists, no matter which copy should have written it."""
        writer, token = self.round["by"]
        while self._checkpointed() < self.round["round"]:
            if self.folder.lives(writer, token):
                self.training.pause(0.05)
            else:
                self._writes = True
                self.save()
        self.leave()

    # Decisions

    def _propose(self, number: int, last: Optional[Dict[str, Any]], base: str, results: Optional[Mapping[int, Dict[str, Any]]]) -> None:
        """Decides on the round after round `number`, whose hash is `base`, unless another copy has.

        `last` and `results` are the decision about round `number` and its results. `last` is None before the first round;
        `results` is None if this copy did not take part in that round.
        """
        merged = self._acceptable(number, results or {})
        left, epoch = self._left(last, merged)
        missed = self._missed(last, results)
        living = self.folder.living(missed=missed)
        alone, why, worse = self._guard(last, merged)
        if epoch >= self.training.me.epochs or alone is not None:
            wanted = self.number if alone is None else alone
            living = {k: token for k, token in living.items() if k == wanted}
        speeds = dict((last or {}).get("speeds", {}))
        speeds.update({str(k): own["steps"] / max(1e-9, own["busy_s"]) for k, own in merged.items()})
        parts, known = split(count(left), [speeds.get(str(k)) for k in sorted(living)], self.length_s)
        content: Dict[str, Any] = {"round": number + 1, "before": base, "epoch": epoch, "by": [self.number, self.folder.token], "members": {}, "speeds": speeds,
                                   "length_s": self.length_s if known else self.length_s / 10, "alone": alone, "why": why, "worse": worse, "missed": missed,
                                   "calls": {name: calls for own in merged.values() for name, calls in own["calls"].items()}}
        for k, part in zip(sorted(living), parts):
            own, left = take(left, part)
            if own:
                content["members"][str(k)] = {"token": living[k], "ranges": own}
        kept = ("steps", "ranges", "weights", "states", "loss")
        content.update(left=left, merged={str(k): {key: own[key] for key in kept} for k, own in merged.items()})
        name = self.folder.decide(content, last)
        if name:
            self._writes = True
            if name != "round-%d.json" % (number + 1):
                self._say("round-%d.json is damaged or does not belong to this training; round %d is in %s" % (number + 1, number + 1, name))
            if alone is not None and (last or {}).get("alone") is None:
                self._say("copy %d continues alone: %s" % (alone, why))

    def _missed(self, last: Optional[Mapping[str, Any]], results: Optional[Mapping[int, Any]]) -> Dict[str, Dict[str, Any]]:
        """Returns the copies that delivered nothing for a round and have given no sign of life since, with the time of the last one.

        A killed copy looks alive for a while. It gets no steps until it gives a new sign of life.
        """
        if last is None:
            return {}
        silent = {key: own for key, own in last.get("missed", {}).items() if self.folder.seen(int(key)) <= own["seen"]}
        for key, own in last["members"].items() if results is not None else ():
            if int(key) not in results:  # type: ignore[operator]
                silent[key] = {"token": own["token"], "seen": self.folder.seen(int(key))}
        return silent

    def _acceptable(self, number: int, results: Mapping[int, Dict[str, Any]]) -> Dict[int, Dict[str, Any]]:
        """Returns the results that can be merged with each other: the first valid one, and those that match it."""
        accepted: Dict[int, Dict[str, Any]] = {}
        for key in sorted(k for k, own in results.items() if own["steps"]):
            try:
                self._merged(number, {str(k): own for k, own in {**accepted, key: results[key]}.items()})
                accepted[key] = results[key]
            except (MergeError, OSError, RuntimeError) as error:
                self._say("copy %d is left out of round %d, and other copies repeat its steps: %s" % (key, number, error))
        return accepted

    def _left(self, last: Optional[Mapping[str, Any]], merged: Mapping[int, Mapping[str, Any]]) -> Tuple[Ranges, int]:
        """Returns the steps to hand out, and their epoch; steps that no merged copy has done are handed out again.

        If nothing was merged, restores the checkpoint and returns the steps that are left there.
        """
        if last is None or not merged:
            self.training.restore()
            return join(self.training.left), self.training.epoch
        done = {step for own in merged.values() for step in numbers(own["ranges"])}
        handed = [step for member in last["members"].values() for step in numbers(member["ranges"])]
        left = join([[step, step + 1] for step in handed if step not in done] + [list(own) for own in last["left"]])
        return (left, last["epoch"]) if left else ([[0, self.training.sampler.steps]], last["epoch"] + 1)

    def _guard(self, last: Optional[Mapping[str, Any]], merged: Mapping[int, Mapping[str, Any]]) -> Tuple[Optional[int], str, int]:
        """Returns the copy that continues alone, if any, the reason, and the number of merges in a row that were worse than their best copy."""
        if last is None or last["alone"] is not None:
            return (None, "", 0) if last is None else (last["alone"], last["why"], 0)
        losses = {int(k): own["loss"] for k, own in last["merged"].items() if own["loss"]}
        after = merged[min(merged)]["after"] if merged else None
        if len(losses) < 2 or not after:
            return None, "", last["worse"]
        best = min(losses, key=lambda k: (losses[k][0], k))
        if after[0] <= losses[best][0] + 2 * math.hypot(after[1], losses[best][1]):
            return None, "", 0
        if last["worse"] + 1 < _WORSE:
            return None, "", last["worse"] + 1
        why = "the merged model was worse than the best copy %d times in a row (%.6g, that copy %.6g)" % (_WORSE, after[0], losses[best][0])
        return (best if best in self.folder.living() else self.number), why, 0

    # Merges

    def _merged(self, number: int, merged: Mapping[str, Any]) -> Tuple[Dict[str, Any], Any]:
        """Returns the merged weights and optimizer states of these copies, in their order.

        Raises MergeError if a file does not match what its copy recorded, or if the files do not match each other.
        """
        models, states = [], []
        keys = sorted(merged, key=int)
        for key in keys:
            path, own = os.path.join(self.folder.results(number), "copy-" + key), merged[key]
            if sha256(path + ".safetensors") != own["weights"] or self.keeps and sha256(path + ".pt") != own["states"]:
                raise MergeError("its files have changed since it wrote them")
            models.append(read_safetensors(path + ".safetensors"))
            states.append(_states(path + ".pt") if self.keeps else {})
        steps = [merged[key]["steps"] for key in keys]
        return merge_weights(models, steps), merge_states("state", states, [own / sum(steps) for own in steps])

    def _merge_into(self, latest: Mapping[str, Any]) -> bool:
        """Continues with the merged copies of a round; returns whether that is possible."""
        if not latest["merged"]:
            return False
        try:
            weights, states = self._merged(latest["round"] - 1, latest["merged"])
        except (MergeError, OSError, RuntimeError) as error:
            self._say("cannot merge, so it waits for the checkpoint: %s" % error)
            return False
        for name, part in self._modules().items():
            part.load_state_dict({key[len(name) + 1:]: own for key, own in weights.items() if key.startswith(name + ".")})
        for name, part in self._optimizers().items():
            state = states[name] if self.keeps else {}
            part.load_state_dict(dict(part.state_dict(), state=state, param_groups=self._before["groups"][name]))
        total = sum(own["steps"] for own in latest["merged"].values())
        for name, own in self._schedulers().items():
            own.load_state_dict(self._before["schedulers"][name])
            _advance(own, own.last_epoch + latest["calls"].get(name, 0) * total)
        return True

    def _begin(self, latest: Dict[str, Any], base: str) -> None:
        """Starts a round and its clock."""
        self.folder.wait(False)
        self.round, self._base = latest, base
        self.training.left = join([list(own) for member in latest["members"].values() for own in member["ranges"]] + [list(own) for own in latest["left"]])
        self._before = {"schedulers": {name: copy.deepcopy(own.state_dict()) for name, own in self._schedulers().items()},
                        "groups": {name: copy.deepcopy(own.state_dict()["param_groups"]) for name, own in self._optimizers().items()}}
        self._expected = {name: own.last_epoch for name, own in self._schedulers().items()}
        self._first, self._last = [], deque(maxlen=_LOSSES)
        self._after = self._measured()
        self._start = time.monotonic()
        self._end = self._start + latest["length_s"]

    def begin_epoch(self) -> None:
        """Starts the first round of an epoch, after the program's work between epochs."""
        if self._is_ahead:  # the checkpoint already includes that work
            self._is_ahead = False
            return self.enter()
        self.training.epoch = self.round["epoch"]
        self._begin(self.round, self._base)

    def _measured(self) -> Optional[List[float]]:
        measure = self.training.measure
        return [float(measure()), 0.0] if measure else None

    def _modules(self) -> Dict[str, Any]:
        return {name: part for name, part in self.training.stateful.items() if isinstance(part, torch.nn.Module)}

    def _optimizers(self) -> Dict[str, Any]:
        return {name: part for name, part in self.training.stateful.items() if isinstance(part, torch.optim.Optimizer)}

    def _schedulers(self) -> Dict[str, Any]:
        return {name: part for name, part in self.training.stateful.items() if hasattr(part, "last_epoch") and hasattr(part, "step")}

    def _weights(self) -> Dict[str, Any]:
        return {"%s.%s" % (name, key): own for name, part in self._modules().items() for key, own in part.state_dict().items()}


def _states(path: str) -> Any:
    """Returns the optimizer states that a copy wrote, which may be one of hsched 0.1.0."""
    saved = read_plain(path)
    states = saved.get("states") if "format" in saved else saved
    if not isinstance(states, dict):
        raise MergeError("%s has no optimizer states" % path)
    return states


def _advance(scheduler: Any, until: int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # schedulers expect an optimizer step before each step of their own
        while scheduler.last_epoch < until:
            scheduler.step()


def _mean_loss(losses: Iterable[Tuple[Any, float]]) -> Optional[List[float]]:
    """Returns the mean loss of some steps and its error; None for fewer than two steps."""
    own = [float(loss) / counted for loss, counted in losses]
    if len(own) < 2:
        return None
    mean = sum(own) / len(own)
    return [mean, math.sqrt(sum((loss - mean) ** 2 for loss in own) / (len(own) - 1) / len(own))]
