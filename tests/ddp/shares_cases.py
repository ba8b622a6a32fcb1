"""Shares that change while a training runs: the weights stay those of one process, and files that are wrong change nothing."""
import json
import os
import re
import shutil
import tempfile
import threading
from typing import Any, Callable, Dict, List, Optional

import fleet
from passes import data, network, plain
from world import difference
import hsched_ddp
import torch

EPOCHS, SAMPLES = 6, 43

Files = Callable[[str, int], None]
"""Writes the files of hsched into a folder during an epoch."""


def offer(folder: str, text: Any) -> None:
    """Puts new shares into place, as hsched does."""
    path = os.path.join(folder, "shares.json")
    with open(path + ".new", "w") as file:
        file.write(text if isinstance(text, str) else json.dumps(text))
    os.replace(path + ".new", path)


def shares(version: int, batches: List[int], micro: List[int], **other: Any) -> Dict[str, Any]:
    return dict({"schema": "hsched.shares/1", "run": "run", "version": version, "batches": batches, "micro": micro}, **other)


def train(folder: str, files: Files, stream: bool = False) -> List[Any]:
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)
    me = hsched_ddp.init()
    model = network()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.05)
    rows: Any = data(SAMPLES)
    if stream:
        from prepared import Stream
        rows = Stream(SAMPLES)
    training, loader = hsched_ddp.prepare(model, optimizer, rows)
    largest: List[int] = []
    model.register_forward_pre_hook(lambda own, inputs: largest.append(len(inputs[0])))
    passes = []
    for epoch in training.epochs():
        for step in training.steps(loader):
            plain(training, step, optimizer)
        if me.rank == 0:
            files(folder, epoch)
        passes.append(max(largest))
        largest.clear()
    try:
        hsched_ddp.leave()
    except SystemExit:
        return [[own.detach() for own in model.parameters()], passes]
    raise AssertionError("leave() returned")


def compared(files: Files, expected: Dict[int, Any], stream: bool = False) -> float:
    """Trains with shares 6,2, which files change; returns the difference from one process. `expected` has the epochs from which new shares apply: version, batches, micro."""
    folder = tempfile.mkdtemp(prefix="hsched-shares-")
    try:
        together, alone = os.path.join(folder, "together"), os.path.join(folder, "alone")
        os.makedirs(together)
        os.makedirs(alone)
        ended = fleet.run(lambda: train(together, files, stream), (6, 2), together, (3, 2), EPOCHS=EPOCHS, SHARES=os.path.join(together, "shares.json"))
        assert [own.status for own in ended] == [0, 0], ended
        one, = fleet.run(lambda: train(alone, lambda *unused: None, stream), (8,), alone, EPOCHS=EPOCHS)
        for rank in (0, 1):
            version, batches, micro = 0, [6, 2], [3, 2]
            for line, largest in zip(fleet.reports(together, rank), ended[rank].result[1]):
                version, batches, micro = expected.get(line["epoch"], (version, batches, micro))
                assert (line.get("shares", 0), line["batch"]) == (version, batches[rank]), line
                assert largest <= micro[rank] and line["compute_s"] > 0, (line, largest)
            assert len(fleet.reports(together, rank)) == EPOCHS
        said = ended[0].said
        assert len(re.findall("new shares", said)) == len(expected), said
        compared.said = said  # type: ignore[attr-defined]
        return difference(ended[0].result[0], one.result[0])
    finally:
        shutil.rmtree(folder)


def _two(folder: str, epoch: int) -> None:
    if epoch == 1:
        offer(folder, shares(1, [5, 3], [2, 3]))
    if epoch == 3:
        offer(folder, shares(7, [2, 6], [2, 4]))


def two_corrections() -> Optional[float]:
    """Shares 6,2, then 5,3, then 2,6: rank 0 need not have the largest."""
    return compared(_two, {2: (1, [5, 3], [2, 3]), 4: (7, [2, 6], [2, 4])})


def two_corrections_of_a_stream() -> Optional[float]:
    return compared(_two, {2: (1, [5, 3], [2, 3]), 4: (7, [2, 6], [2, 4])}, stream=True)


def wrong_shares() -> Optional[float]:
    """Incomplete, foreign and impossible files change nothing and are reported once each; older ones change nothing without a message."""
    wrong = [shares(2, [5, 3], [2, 3], run="other"), shares(2, [5, 3], [2, 3], schema="hsched.shares/2"), '{"schema": "hsched.sha', shares(2, [5, 4], [2, 3]),
             shares(2, [8, 0], [2, 3]), shares(2, [5, 3, 0], [2, 3]), shares(2, [5, 3], [2, 0]), shares(2, [5, 3], [2]), "[]", shares(True, [5, 3], [2, 3]),  # type: ignore[arg-type]
             shares(2, [5.5, 2.5], [2, 3])]  # type: ignore[list-item]
    worst = 0.0
    for begin in range(0, len(wrong), EPOCHS - 2):
        some = wrong[begin:begin + EPOCHS - 2]

        def files(folder: str, epoch: int) -> None:
            if epoch == 1:
                offer(folder, shares(2, [5, 3], [2, 3]))
            elif epoch - 2 < len(some):
                offer(folder, some[epoch - 2])
            else:
                offer(folder, shares(1, [4, 4], [4, 4]))  # older: no message
        worst = max(worst, compared(files, {2: (2, [5, 3], [2, 3])}))
        refusals = re.findall("were refused, and nothing changes: (.*)", compared.said)  # type: ignore[attr-defined]
        assert len(refusals) == len(some), (some, refusals)
    return worst


def shares_while_parked() -> Optional[float]:
    """New shares that come with the request to park are refused with a message, and adopted after the next epoch."""
    folder = tempfile.mkdtemp(prefix="hsched-shares-")
    gate = os.path.join(folder, "gate")

    def files(unused: str, epoch: int) -> None:
        if epoch == 1:
            offer(folder, shares(1, [5, 3], [5, 3]))
            wish(gate, 1, "park")

    def let_go() -> None:
        """Waits until both ranks are parked, and lets them continue."""
        bell = os.open(gate + ".bell", os.O_RDWR)
        while not all(state(gate, rank) == "parked" for rank in (0, 1)):
            os.read(bell, 1)
        wish(gate, 2, "go")
    try:
        os.mkfifo(gate + ".bell")
        helper = threading.Thread(target=let_go, daemon=True)
        helper.start()
        ended = fleet.run(lambda: train(folder, files), (6, 2), folder, EPOCHS=4, SHARES=os.path.join(folder, "shares.json"), GATE=gate)
        assert [own.status for own in ended] == [0, 0], ended
        assert ended[0].said.count("version 1: the training is parked") == 1, ended[0].said
        lines = [(line["batch"], line["shares"]) for line in fleet.reports(folder)]
        assert lines == [(6, 0), (6, 0), (5, 1), (5, 1)], lines
        return 0.0
    finally:
        shutil.rmtree(folder)


def wish(gate: str, number: int, want: str) -> None:
    with open(gate + ".new", "w") as file:
        json.dump({"number": number, "want": want}, file)
    os.replace(gate + ".new", gate)


def state(gate: str, rank: int) -> str:
    try:
        with open("%s.%d" % (gate, rank)) as file:
            return str(json.load(file)["state"])
    except FileNotFoundError:
        return ""


CASES: List[Any] = [shares_while_parked, two_corrections, two_corrections_of_a_stream, wrong_shares]
