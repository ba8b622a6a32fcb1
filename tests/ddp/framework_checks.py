"""What each framework is held to: a training on unequal ranks, stopped and resumed on others, is that of one process."""
import os
import re
import shutil
import tempfile
from typing import Any, Callable, Dict, List, Optional, Sequence

import torch
from torch.utils.data import TensorDataset

import fleet
from world import difference


class Program:
    """How a program is to train, and what it notes of that in a file of each rank."""

    def __init__(self, folder: str, double: bool = True, stop_at: int = -1, plain: bool = False) -> None:
        self.folder, self.double, self.stop_at, self.plain = folder, double, stop_at, plain

    def data(self, samples: int, seed: int = 7) -> TensorDataset:
        draw = torch.Generator().manual_seed(seed)
        inputs = torch.randn(samples, 6, generator=draw, dtype=torch.float64 if self.double else torch.float32)
        return TensorDataset(inputs, torch.randint(0, 3, (samples,), generator=draw))

    def note(self, model: Any, before: int, steps: List[int], epochs: List[int], largest: int) -> None:
        """Notes the weights, the calls before an optimizer step, the step and epoch after each, and the samples of the largest pass."""
        noted = {"weights": [own.detach() for own in model.parameters()], "before": before, "steps": steps, "epochs": epochs, "largest": largest}
        torch.save(noted, os.path.join(self.folder, "noted-%s" % os.environ["RANK"]))

    def noted(self, rank: int = 0) -> Dict[str, Any]:
        return torch.load(os.path.join(self.folder, "noted-%d" % rank))  # type: ignore[no-any-return]


Train = Callable[[Program], Any]


def trained(train: Train, folder: str, double: bool, shares: Sequence[int], micro: Sequence[int], epochs: int, stop_at: int = -1, status: int = 0) -> Program:
    """Trains on ranks, which must end with a status."""
    program = Program(folder, double, stop_at)
    ended = fleet.run(lambda: train(program), shares, folder, micro, EPOCHS=epochs)
    assert [own.status for own in ended] == [status] * len(shares), [(own.status, own.said[-2000:]) for own in ended]
    assert not any("noticed" in own.said or "its share is" in own.said for own in ended), ended
    largest = [program.noted(rank)["largest"] for rank in range(len(shares))]
    assert all(own <= most for own, most in zip(largest, micro)), (largest, micro)
    return program


def checked(train: Train, double: bool, epochs: int, metric: str, limit: float = 1e-12) -> Optional[float]:
    """Trains by shares 6,2, stops in the third epoch, goes on by 5,2,1; returns how far the weights are from those of one process."""
    folder = tempfile.mkdtemp(prefix="hsched-framework-")
    try:
        return _checked(train, double, epochs, metric, os.path.join(folder, "together"), os.path.join(folder, "alone"), limit)
    finally:
        shutil.rmtree(folder)


def _checked(train: Train, double: bool, epochs: int, metric: str, together: str, alone: str, limit: float) -> float:
    os.makedirs(together)
    os.makedirs(alone)
    whole = trained(train, alone, double, (8,), (8,), epochs).noted()
    in_epoch = len(whole["steps"]) // epochs
    assert len(whole["steps"]) >= 30 and whole["steps"] == list(range(1, len(whole["steps"]) + 1)), whole["steps"]
    stop_at = 2 * in_epoch + 3
    first = trained(train, together, double, (6, 2), (3, 2), epochs, stop_at, 85).noted()
    assert stop_at <= first["steps"][-1] <= stop_at + 2, (stop_at, first["steps"])
    second = trained(train, together, double, (5, 2, 1), (2, 2, 1), epochs).noted()
    assert first["steps"] + second["steps"] == whole["steps"], (first["steps"], second["steps"])
    assert first["epochs"] + second["epochs"] == whole["epochs"], (first["epochs"], second["epochs"])
    assert (first["before"], second["before"]) == (len(first["steps"]), len(second["steps"]))
    figure = difference(second["weights"], whole["weights"])
    assert figure < (limit if double else 1e-6), figure
    _check_reports(together, alone, epochs, metric, 1e-7 if double else 1e-5)
    return figure if figure < 1e-12 else 0.0


def _check_reports(together: str, alone: str, epochs: int, metric: str, limit: float) -> None:
    """Each rank has reported each epoch that it ended, with its share, its time, and the loss over all samples of the epoch."""
    expected, own = fleet.reports(alone), [fleet.reports(together, rank) for rank in range(3)]
    assert [line["epoch"] for line in expected] == [line["epoch"] for line in own[0]] == list(range(1, epochs + 1)), own[0]
    assert [line["batch"] for line in own[0]] == [6, 6] + [5] * (epochs - 2) and [line["batch"] for line in own[2]] == [1] * (epochs - 2), own
    for line, other in zip(own[0], expected):
        assert line["compute_s"] > 0 and metric in line["metrics"], line
        assert abs(line["metrics"]["loss"] - other["metrics"]["loss"]) < limit, (line, other)


def notices(train: Train, sizes: Sequence[str]) -> float:
    """A plain program of the framework is told so under unequal shares, trains otherwise than one process; under equal shares nothing is said."""
    folder = tempfile.mkdtemp(prefix="hsched-plain-")
    try:
        for shares, expected in ((6, 2), True), ((4, 4), False):
            program = Program(folder, plain=True)
            ended = fleet.run(lambda: train(program), shares, folder, EPOCHS=1)
            lines = [line for own in ended for line in own.said.splitlines() if re.search("its share (of the global batch )?is", line)]
            assert bool(lines) == expected, (shares, [(own.status, own.said[-2000:]) for own in ended])
            said = " ".join(lines)
            if expected:
                alone = os.path.join(folder, "alone")
                os.makedirs(alone)
                own, whole = program.noted(), trained(train, alone, True, (8,), (8,), 1).noted()
                assert difference(own["weights"], whole["weights"]) > 1e-6, "a plain program trains as one process does"
            assert not expected or len(lines) == 2 and all(size in said for size in sizes), lines
    finally:
        shutil.rmtree(folder)
    return 0.0
