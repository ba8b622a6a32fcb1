"""The requirement for each framework: training on unequal ranks, stopped and resumed on others, equals that of one process."""
import os
import re
import shutil
import tempfile
from typing import Any, Callable, Dict, List, Optional, Sequence

import torch
from torch.utils.data import TensorDataset

import fleet
from shares_cases import offer, shares
from world import difference
import hsched_ddp


class Program:
    """The parameters of a program's training, and its records in a file of each rank."""

    def __init__(self, folder: str, double: bool = True, stop_at: int = -1, plain: bool = False) -> None:
        self.folder, self.double, self.stop_at, self.plain = folder, double, stop_at, plain

    def data(self, samples: int, seed: int = 7) -> TensorDataset:
        draw = torch.Generator().manual_seed(seed)
        inputs = torch.randn(samples, 6, generator=draw, dtype=torch.float64 if self.double else torch.float32)
        return TensorDataset(inputs, torch.randint(0, 3, (samples,), generator=draw))

    def note(self, model: Any, before: int, steps: List[int], epochs: List[int], largest: int) -> None:
        """Notes the weights, the number of calls before an optimizer step, the step and epoch after each, and the samples of the largest pass."""
        noted = {"weights": [own.detach() for own in model.parameters()], "before": before, "steps": steps, "epochs": epochs, "largest": largest}
        torch.save(noted, os.path.join(self.folder, "noted-%s" % os.environ["RANK"]))

    def noted(self, rank: int = 0) -> Dict[str, Any]:
        return torch.load(os.path.join(self.folder, "noted-%d" % rank))  # type: ignore[no-any-return]


Train = Callable[[Program], Any]


def trained(train: Train, folder: str, double: bool, batches: Sequence[int], micro: Sequence[int], epochs: int, stop_at: int = -1, status: int = 0,
            **variables: Any) -> Program:
    """Trains on ranks, which must end with a status."""
    program = Program(folder, double, stop_at)
    ended = fleet.run(lambda: train(program), batches, folder, micro, EPOCHS=epochs, **variables)
    assert [own.status for own in ended] == [status] * len(batches), [(own.status, own.said[-2000:]) for own in ended]
    assert not any("its share of the global batch is" in own.said for own in ended), ended
    largest = [program.noted(rank)["largest"] for rank in range(len(batches))]
    assert all(own <= most for own, most in zip(largest, micro)), (largest, micro)
    return program


def checked(train: Train, double: bool, epochs: int, metric: str, limit: float = 1e-12) -> Optional[float]:
    """Trains with shares 6,2, stops in the third epoch, resumes with 5,2,1; returns the difference of the weights from those of one process.

    Returns 0 for a difference that `limit` (1e-6 in float32) allows but that is not below 1e-12.
    """
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
    """Checks that ranks have reported each epoch that they ended, with their share and the loss over all samples."""
    expected, own = fleet.reports(alone), [fleet.reports(together, rank) for rank in range(3)]
    assert [line["epoch"] for line in expected] == [line["epoch"] for line in own[0]] == list(range(1, epochs + 1)), own[0]
    assert [line["batch"] for line in own[0]] == [6, 6] + [5] * (epochs - 2) and [line["batch"] for line in own[2]] == [1] * (epochs - 2), own
    for line, other in zip(own[0], expected):
        assert line["compute_s"] > 0 and metric in line["metrics"], line
        assert abs(line["metrics"]["loss"] - other["metrics"]["loss"]) < limit, (line, other)


def corrected(train: Train, epochs: int, limit: float = 1e-12) -> float:
    """Trains with shares 6,2, which become 5,3 and then 2,6 during the run; returns the difference from one process.

    Returns 0 for a difference that `limit` allows but that is not below 1e-12.
    """
    folder = tempfile.mkdtemp(prefix="hsched-framework-")
    together, alone = os.path.join(folder, "together"), os.path.join(folder, "alone")
    close = hsched_ddp.epochs.Epochs.close_epoch

    def close_epoch(training: Any) -> None:
        """Ends an epoch; in two of the epochs, hsched has written new shares."""
        if training.me.rank == 0 and training.epoch in (0, 2):
            first = training.epoch == 0
            offer(together, shares(1, [5, 3], [2, 3]) if first else shares(2, [2, 6], [2, 2]))
        close(training)
    try:
        os.makedirs(together)
        os.makedirs(alone)
        hsched_ddp.epochs.Epochs.close_epoch = close_epoch
        program = trained(train, together, True, (6, 2), (3, 3), epochs, SHARES=os.path.join(together, "shares.json"))
        hsched_ddp.epochs.Epochs.close_epoch = close
        whole = trained(train, alone, True, (8,), (8,), epochs).noted()
        lines = [[(line["batch"], line["shares"]) for line in fleet.reports(together, rank)] for rank in (0, 1)]
        assert lines == [[(6, 0), (5, 1), (5, 1), (2, 2)], [(2, 0), (3, 1), (3, 1), (6, 2)]], lines
        figure = difference(program.noted()["weights"], whole["weights"])
        assert figure < limit, figure
        return figure if figure < 1e-12 else 0.0
    finally:
        hsched_ddp.epochs.Epochs.close_epoch = close
        shutil.rmtree(folder)


def notices(train: Train, sizes: Sequence[str]) -> float:
    """Checks that a plain program of the framework gets a warning under unequal shares, and none under equal ones.

    Under unequal shares, its weights differ from those of one process.
    """
    folder = tempfile.mkdtemp(prefix="hsched-plain-")
    try:
        for batches, expected in ((6, 2), True), ((4, 4), False):
            program = Program(folder, plain=True)
            ended = fleet.run(lambda: train(program), batches, folder, EPOCHS=1)
            lines = [line for own in ended for line in own.said.splitlines() if re.search("its share of the global batch is", line)]
            assert bool(lines) == expected, (batches, [(own.status, own.said[-2000:]) for own in ended])
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
