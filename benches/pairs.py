#!/usr/bin/env python3
"""CPU time and memory of two versions of hsched, measured in pairs; a table in Markdown.

python3 benches/pairs.py [--runs 5] OLD NEW [CASE...]. OLD and NEW are binaries of hsched; with --turn and --replay,
also OLD,NEW binaries of the benches `turn` and `replay` (`cargo bench --no-run` prints where they are). The cases are
`plan`, `plan-large`, `simulate` and `bound`, and, if their binaries are given, `turn` and `replay`; without a CASE, all
of them run. The versions run alternately, and the table has the medians, because other work on the machine slows both
versions. Times are CPU seconds (user and system).
"""
import argparse
import os
import statistics
import subprocess
import tempfile
from typing import Dict, List, Tuple

TURNS = 200


def run(command: List[str], folder: str) -> Tuple[float, float]:
    """Returns the CPU seconds and the peak memory in MiB of a command."""
    child = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    if status != 0:
        raise SystemExit("%s failed" % " ".join(command))
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def prepare(hsched: str, folder: str) -> None:
    """Writes the inputs of all cases."""
    for name, gpus, jobs in [("k10", "10000", "1000"), ("k100", "100000", "10000")]:
        subprocess.run([hsched, "generate", name, "--gpus", gpus, "--gpus-per-node", "8", "--types", "6", "--jobs", jobs, "--seed", "1"],
                       cwd=folder, stdout=subprocess.DEVNULL, check=True)
    trace = subprocess.run([hsched, "generate", "trace", "--jobs", "480", "--mouldable", "--seed", "1", "--gap", "2h"], cwd=folder, stdout=subprocess.PIPE, check=True)
    with open(folder + "/trace.yaml", "wb") as file:
        file.write(trace.stdout)
    with open(folder + "/cluster.yaml", "w") as file:
        file.write("network_gbps: 10\nnodes:\n" + "".join('  - {name: "%s[1-3]", gpus: {%s: 4}}\n' % (gpu[0], gpu) for gpu in ["v100", "p100", "t4"]))


def plan(folder: str, budget: str) -> List[str]:
    return ["plan", folder + "/jobs.yaml", "--cluster", folder + "/cluster.yaml", "--policy", "optimal", "--budget", budget, "--format", "json"]


SIMULATE = ["simulate", "--trace", "trace.yaml", "--cluster", "cluster.yaml", "--format", "json", "--policy"]

# The arguments for `hsched`.
COMMANDS: Dict[str, List[str]] = {
    "plan": plan("k10", "10s"),
    "plan-large": plan("k100", "60s"),
    "simulate": SIMULATE + ["optimal", "--no-bound"],
    "bound": SIMULATE + ["fifo"],
}


def turn(bench: str, folder: str) -> Tuple[float, float]:
    """Returns the CPU seconds of one turn with 3200 waiting jobs, from the difference between many turns and one, and
    the peak memory in MiB."""
    def of(turns: int) -> Tuple[float, float]:
        return run([bench, "--bench", "decides::3200", "--sample-count", str(turns), "--sample-size", "1"], folder)
    many, one = of(TURNS + 1), of(1)
    return (many[0] - one[0]) / TURNS, many[1]


def measure(case: str, program: str, folder: str) -> Tuple[float, float]:
    if case == "turn":
        return turn(program, folder)
    if case == "replay":
        return run([program, "--bench", "las", "100000"], folder)
    return run([program] + COMMANDS[case], folder)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("old", metavar="OLD")
    parser.add_argument("new", metavar="NEW")
    parser.add_argument("cases", metavar="CASE", nargs="*")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--turn", metavar="OLD,NEW", help="binaries of the bench `turn`")
    parser.add_argument("--replay", metavar="OLD,NEW", help="binaries of the bench `replay`")
    args = parser.parse_args()
    programs = {case: [args.old, args.new] for case in COMMANDS}
    for case, given in [("turn", args.turn), ("replay", args.replay)]:
        if given:
            programs[case] = given.split(",")
    print("| case | before | now | memory before | now |\n|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        prepare(os.path.abspath(args.new), folder)
        for case in args.cases or programs:
            runs = [[measure(case, os.path.abspath(program), folder) for program in programs[case]] for _ in range(args.runs)]
            (old, old_memory), (new, new_memory) = [[statistics.median(column) for column in zip(*version)] for version in zip(*runs)]
            print("| %s | %.4g s | %.4g s | %.0f MiB | %.0f MiB |" % (case, old, new, old_memory, new_memory), flush=True)


if __name__ == "__main__":
    main()
