#!/usr/bin/env python3
"""How near the optimum `hsched plan --policy optimal` is proven to be on large clusters, and what that costs; tables in Markdown.

python3 benches/proven_gap.py [--seeds 20] [--runs 1] [--size GPUS,JOBS,BUDGET]... [--replicas MOST]... HSCHED
[HSCHED...]. Each problem is solved by one program after the other, --runs times, and the table has the medians: other
work on the machine then slows all programs alike. Times are CPU seconds of the whole command, reading and printing
included; memory is its peak. Problems have 6 GPU types in nodes of 8; jobs all differ, or are alike in 12 classes.

With --replicas MOST, jobs all differ and synchronise at every step, and nodes have MOST GPUs. Each problem is planned with single GPUs, and with replicas of 1 to MOST GPUs, a random
number for each job; the table shows the gap with replicas, and how much longer the command takes than with single GPUs.
"""
import argparse
import json
import os
import random
import re
import statistics
import subprocess
import tempfile
from typing import Dict, List, NamedTuple, Tuple

CLASSES = 12
SIZES = ["10000,1000,1s", "100000,10000,10s"]


class Run(NamedTuple):
    gap: float
    seconds: float
    mebibytes: float


def generate(hsched: str, folder: str, gpus: int, jobs: int, sync: str, seed: int, node: int = 8) -> None:
    subprocess.run([hsched, "generate", folder, "--gpus", str(gpus), "--gpus-per-node", str(node), "--types", "6", "--jobs", str(jobs), "--sync", sync, "--seed", str(seed)],
                   stdout=subprocess.DEVNULL, check=True)


def make_alike(folder: str) -> None:
    """Makes all jobs copies of the first few."""
    head, rest = open(folder + "/jobs.yaml").read().split("jobs:\n", 1)
    blocks = [block for block in re.split(r"(?m)^(?=  - name:)", rest) if block.strip()]
    with open(folder + "/jobs.yaml", "w") as file:
        file.write(head + "jobs:\n")
        for number in range(len(blocks)):
            file.write(re.sub(r"name: \S+", "name: job%06d" % number, blocks[number % CLASSES], count=1))


def give_replicas(folder: str, most: int, seed: int) -> None:
    """Writes the jobs with replicas of 1 to `most` GPUs, each as fast as the same number of single GPUs, to
    replicas.yaml."""
    sizes = random.Random(seed)
    with open(folder + "/jobs.yaml") as file, open(folder + "/replicas.yaml", "w") as out:
        for line in file:
            if line.startswith("    command:"):
                out.write("    replica: {gpus: %d, efficiency: 1}\n" % sizes.randint(1, most))
            out.write(line)


def measure(hsched: str, folder: str, budget: str, jobs: str = "jobs.yaml") -> Run:
    """Plans, and measures the whole command."""
    plan = folder + "/plan.json"
    command = [hsched, "plan", folder + "/" + jobs, "--cluster", folder + "/cluster.yaml", "--policy", "optimal", "--budget", budget, "--format", "json"]
    with open(plan, "w") as out:
        child = subprocess.Popen(command, stdout=out)
        _, status, usage = os.wait4(child.pid, 0)
    if status != 0:
        raise SystemExit("%s failed" % " ".join(command))
    with open(plan) as file:
        gap = json.load(file)["gap"]
    return Run(gap, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


def median(runs: List[Run]) -> Run:
    return Run(*(statistics.median(values) for values in zip(*runs)))


def row(programs: List[str], size: Tuple[int, int, str], kind: str, sync: str, seeds: int, runs: int) -> None:
    gpus, jobs, budget = size
    found: Dict[str, List[Run]] = {program: [] for program in programs}
    for seed in range(seeds):
        with tempfile.TemporaryDirectory() as folder:
            generate(programs[0], folder, gpus, jobs, sync, seed)
            if kind == "alike":
                make_alike(folder)
            taken: Dict[str, List[Run]] = {program: [] for program in programs}
            for _ in range(runs):
                for program in programs:
                    taken[program].append(measure(program, folder, budget))
            for program in programs:
                found[program].append(median(taken[program]))
    for program in programs:
        gaps = [run.gap for run in found[program]]
        seconds = [run.seconds for run in found[program]]
        print("| %s | %d, %d | %s | every %s | %s | %.4f %% | %.4f %% | %.2f s | %.2f s | %.0f MiB |" % (
            os.path.basename(program), gpus, jobs, kind, sync, budget, 100 * statistics.median(gaps), 100 * max(gaps),
            statistics.median(seconds), max(seconds), max(run.mebibytes for run in found[program])), flush=True)


def replica_row(programs: List[str], size: Tuple[int, int, str], most: int, seeds: int, runs: int) -> None:
    gpus, jobs, budget = size
    found: Dict[str, List[Tuple[Run, Run]]] = {program: [] for program in programs}
    for seed in range(seeds):
        with tempfile.TemporaryDirectory() as folder:
            generate(programs[0], folder, gpus, jobs, "step", seed, most)
            give_replicas(folder, most, seed)
            for program in programs:
                taken = [(measure(program, folder, budget), measure(program, folder, budget, "replicas.yaml")) for _ in range(runs)]
                found[program].append((median([single for single, _ in taken]), median([replicas for _, replicas in taken])))
    for program in programs:
        gaps = [replicas.gap for _, replicas in found[program]]
        times = [replicas.seconds for _, replicas in found[program]]
        ratios = [replicas.seconds / single.seconds for single, replicas in found[program]]
        print("| %s | %d, %d | 1 to %d | %s | %.4f %% | %.4f %% | %.2f s | %.2f | %.2f |" % (
            os.path.basename(program), gpus, jobs, most, budget, 100 * statistics.median(gaps), 100 * max(gaps), statistics.median(times), statistics.median(ratios), max(ratios)), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("programs", metavar="HSCHED", nargs="+")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--size", action="append", help="GPUs, jobs and budget, such as 10000,1000,1s")
    parser.add_argument("--replicas", type=int, action="append", metavar="MOST", help="compare replicas of 1 to MOST GPUs with single GPUs")
    args = parser.parse_args()
    if args.replicas:
        print("| program | GPUs, jobs | GPUs a replica | budget | gap, median | worst | CPU time, median | × single GPUs, median | worst |")
        print("|---|---|---|---|---|---|---|---|---|")
        for size in args.size or SIZES[:1]:
            gpus, jobs, budget = size.split(",")
            for most in args.replicas:
                replica_row([os.path.abspath(program) for program in args.programs], (int(gpus), int(jobs), budget), most, args.seeds, args.runs)
        return
    print("| program | GPUs, jobs | jobs | synchronising | budget | gap, median | worst | CPU time, median | worst | memory, worst |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for size in args.size or SIZES:
        gpus, jobs, budget = size.split(",")
        for kind in ["different", "alike"]:
            for sync in ["step", "epoch"]:
                row([os.path.abspath(program) for program in args.programs], (int(gpus), int(jobs), budget), kind, sync, args.seeds, args.runs)


if __name__ == "__main__":
    main()
