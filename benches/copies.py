#!/usr/bin/env python3
"""Accuracy of a small training as one process, as 2 and as 4 copies of unequal speed: equal work, several seeds.

Run from the top of the checkout with a Python that has torch: python3 benches/copies.py [SEEDS [EPOCHS]]. Prints a row for each number of copies:
accuracy with its standard error, and the mean difference from one process with the same seed. Checks that every step
was merged exactly once.
"""
import glob
import json
import math
import os
import subprocess
import sys
import tempfile
from typing import List

SEEDS, EPOCHS = [int(own) for own in (sys.argv[1:] + ["8", "12"][len(sys.argv) - 1:])]
PROGRAM = [sys.executable, "examples/sweep/copies.py", "--epochs", str(EPOCHS), "--step-ms", "4"]
SLOW = {1: [], 2: ["t2=3"], 4: ["t2=2", "t3=3", "t4=4"]}


def accuracy(copies: int, seed: int) -> float:
    """Trains once; returns the accuracy after the last epoch."""
    with tempfile.TemporaryDirectory() as folder:
        processes = []
        for number in range(1, copies + 1):
            env = dict(os.environ, PYTHONPATH="templates", HSCHED_CHECKPOINT_DIR=folder, HSCHED_GPU_TYPE="t%d" % number, OMP_NUM_THREADS="1")
            if copies > 1:
                env.update(HSCHED_COPY=str(number), HSCHED_COPIES=str(copies), HSCHED_ROUND_DIR=folder + "/rounds")
            slow = [word for own in SLOW[copies] for word in ("--slow", own)]
            processes.append(subprocess.Popen(PROGRAM + ["--seed", str(seed)] + slow, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE))
        said = [process.communicate() for process in processes]
        if any(process.returncode for process in processes):
            raise RuntimeError(said)
        last = {out.decode().splitlines()[-1] for out, _ in said}
        if len(last) > 1:
            raise RuntimeError("the copies ended with different models: %s" % last)
        if copies > 1:
            check_steps(folder)
        return float(last.pop().split("accuracy ")[1].split(",")[0])


def check_steps(folder: str) -> None:
    names = sorted(glob.glob(folder + "/rounds/round-*.json"), key=lambda name: int(name.rsplit("-", 1)[1][:-5]))
    rounds = [json.load(open(name)) for name in names]
    done = [(before["epoch"], step) for before, own in zip(rounds, rounds[1:]) for merged in own["merged"].values()
            for begin, end in merged["ranges"] for step in range(begin, end)]
    if sorted(done) != [(epoch, step) for epoch in range(EPOCHS) for step in range(57)]:
        raise RuntimeError("a step was not done once")
    members = [len(own["merged"]) for own in rounds if own["merged"]]
    print("    %d merges of %.2f copies" % (len(members), sum(members) / len(members)), file=sys.stderr, flush=True)


def row(name: str, values: List[float], alone: List[float]) -> str:
    def error(own: List[float]) -> float:
        mean = sum(own) / len(own)
        return math.sqrt(sum((value - mean) ** 2 for value in own) / max(1, len(own) - 1) / len(own))
    differences = [value - other for value, other in zip(values, alone)]
    return "%-10s %.2f +- %.2f   %+.2f +- %.2f" % (name, sum(values) / len(values), error(values), sum(differences) / len(differences), error(differences))


def main() -> None:
    results = {copies: [100 * accuracy(copies, seed) for seed in range(SEEDS)] for copies in (1, 2, 4)}
    print("copies     accuracy        difference (points)")
    for copies, values in results.items():
        print(row(str(copies), values, results[1]))


if __name__ == "__main__":
    main()
