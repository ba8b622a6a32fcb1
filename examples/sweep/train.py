#!/usr/bin/env python3
"""A small real training for sweeps: a network with one hidden layer learns to read noisy digits.

Plain Python is enough; if torch is installed, torch trains it. Runs in a job of hsched or by hand; without torch, on one device.
"""
import argparse
import json
import math
import os
import random
import sys
import time
from operator import mul
from typing import Any, Dict, List, Tuple

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.join(HERE, "..", "..", "templates"))  # by hand; in a job, hsched's own copy comes first
import hsched_ddp  # noqa: E402
from digits import SIDE, Picture, draw  # noqa: E402

Layer = List[List[float]]  # a row of weights for each output; the last weight of a row is for the constant 1
TRAINING, HELD_OUT = draw(1200, seed=1), draw(400, seed=2)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--lr", type=float, default=0.1, help="learning rate")
    parser.add_argument("--seed", type=int, default=1, help="of the first weights, and of the order of samples")
    parser.add_argument("--hidden", type=int, default=24, help="size of the hidden layer")
    parser.add_argument("--global-batch", type=int, default=20, help="used if hsched does not set it")
    parser.add_argument("--epochs", type=int, default=12, help="used if hsched does not set it")
    return parser.parse_args()


class Network:
    """The network and its gradient, in plain Python."""

    def __init__(self, hidden: int, seed: int) -> None:
        dice = random.Random(seed)
        sizes = [(SIDE * SIDE, hidden), (hidden, 10)]
        self.layers: List[Layer] = [
            [[dice.gauss(0, size ** -0.5) for _ in range(size)] + [0.0] for _ in range(outputs)] for size, outputs in sizes]

    def forward(self, picture: Picture) -> Tuple[List[float], List[float]]:
        """Returns the output of the hidden layer, with the constant 1, and the probability of each digit."""
        first, last = self.layers
        pixels = picture + [1.0]
        hidden = [math.tanh(sum(map(mul, row, pixels))) for row in first] + [1.0]
        scores = [sum(map(mul, row, hidden)) for row in last]
        exponentials = [math.exp(score - max(scores)) for score in scores]
        return hidden, [value / sum(exponentials) for value in exponentials]

    def step(self, batch: List[Tuple[Picture, int]], lr: float) -> float:
        """Goes one step down the gradient of the mean loss; returns the sum of the losses."""
        first, last = self.layers
        loss, changes = 0.0, [[[0.0] * len(row) for row in layer] for layer in self.layers]
        for picture, digit in batch:
            hidden, odds = self.forward(picture)
            loss -= math.log(max(odds[digit], 1e-300))
            wrong = [odd - (own == digit) for own, odd in enumerate(odds)]
            back = [sum(error * row[unit] for error, row in zip(wrong, last)) * (1 - value * value)
                    for unit, value in enumerate(hidden[:-1])]
            for layer, errors, inputs in ((0, back, picture + [1.0]), (1, wrong, hidden)):
                for row, error in zip(changes[layer], errors):
                    row[:] = [change + error * value for change, value in zip(row, inputs)]
        pace = lr / len(batch)
        for layer, change in zip(self.layers, changes):
            for row, own in zip(layer, change):
                row[:] = [weight - pace * value for weight, value in zip(row, own)]
        return loss


def train_plainly(me: Any, arguments: argparse.Namespace) -> None:
    """Trains without torch; shows what a program must do to be stopped, resumed and measured."""
    if me.world_size > 1:
        sys.exit("without torch this program trains on one device: write max_gpus: 1 in the job file")
    sampler = hsched_ddp.BatchSampler(len(TRAINING), me, seed=arguments.seed)
    network = Network(arguments.hidden, arguments.seed)
    path = os.path.join(me.checkpoint_dir, "digits.json")
    kind = {name: getattr(arguments, name) for name in ("lr", "seed", "hidden")}
    saved: Dict[str, Any] = {"epoch": 0}
    if os.path.exists(path):
        with open(path) as file:
            saved = json.load(file)
        if saved["kind"] != kind:
            sys.exit("%s is of another training, %s: remove it to start over" % (path, saved["kind"]))
        network.layers = saved["layers"]
        if saved["epoch"] > me.epochs_done:
            me.report(saved["line"])  # the end came between the checkpoint and the report
    for epoch in range(saved["epoch"] + 1, me.epochs + 1):
        begin = time.monotonic()
        sampler.set_epoch(epoch)
        loss = sum(network.step([TRAINING[index] for index in batch], arguments.lr) for batch in sampler) / len(TRAINING)
        compute_s = round(time.monotonic() - begin, 6)
        right = sum(odds.index(max(odds)) == digit for odds, digit in ((network.forward(picture)[1], digit) for picture, digit in HELD_OUT))
        metrics = {"loss": loss, "accuracy": right / len(HELD_OUT)}
        line = {"epoch": epoch, "rank": 0, "samples": len(TRAINING), "compute_s": compute_s,
                "epoch_s": round(time.monotonic() - begin, 6), "batch": me.batch, "metrics": metrics}
        save(path, {"kind": kind, "epoch": epoch, "layers": network.layers, "line": line})
        me.report(line)  # after the checkpoint: an epoch that is reported is never done again
        say(epoch, me, metrics)
        if hsched_ddp.stop_requested() and epoch < me.epochs:
            sys.exit(hsched_ddp.SAVED)


def save(path: str, state: Dict[str, Any]) -> None:
    """Replaces the checkpoint as a whole, so that a crash leaves the old one."""
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    with open(path + ".tmp", "w") as file:
        json.dump(state, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(path + ".tmp", path)


def train_with_torch(me: Any, arguments: argparse.Namespace) -> None:
    """Trains the same network with torch; hsched_ddp does the rest."""
    import torch
    from torch.utils.data import DataLoader, TensorDataset

    def tensors(pictures: List[Tuple[Picture, int]]) -> Any:
        return TensorDataset(torch.tensor([picture for picture, _ in pictures]), torch.tensor([digit for _, digit in pictures]))

    torch.manual_seed(arguments.seed)
    data, held_out = tensors(TRAINING), tensors(HELD_OUT)
    model = torch.nn.Sequential(torch.nn.Linear(SIDE * SIDE, arguments.hidden), torch.nn.Tanh(), torch.nn.Linear(arguments.hidden, 10))
    model = torch.nn.parallel.DistributedDataParallel(model.to(me.device))
    optimizer = torch.optim.SGD(model.parameters(), lr=arguments.lr)
    sampler = hsched_ddp.BatchSampler(len(data), me, seed=arguments.seed)
    loader = DataLoader(data, batch_sampler=sampler)
    training = hsched_ddp.Training(me, sampler, model, optimizer=optimizer)
    training.resume()
    for epoch in training.epochs():
        for step in training.steps(loader):
            for pictures, digits in step:
                step.scale(torch.nn.functional.cross_entropy(model(pictures.to(me.device)), digits.to(me.device))).backward()
            optimizer.step()
            optimizer.zero_grad()
        with torch.no_grad():
            guesses = model.module(held_out.tensors[0].to(me.device)).argmax(dim=1).cpu()
        training.metrics["accuracy"] = float((guesses == held_out.tensors[1]).double().mean())
        say(epoch, me, training.metrics)
    hsched_ddp.leave()


def say(epoch: int, me: Any, metrics: Dict[str, float]) -> None:
    if me.rank == 0:
        print("epoch %d of %d: accuracy %.4f" % (epoch, me.epochs, metrics["accuracy"]), flush=True)


def main() -> None:
    arguments = parse_arguments()
    me = hsched_ddp.init(arguments.global_batch, arguments.epochs)
    if hsched_ddp.torch is None:
        train_plainly(me, arguments)
    else:
        train_with_torch(me, arguments)


if __name__ == "__main__":
    main()
