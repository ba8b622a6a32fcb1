#!/usr/bin/env python3
"""The experiments of the papers on Hare and HLAS as ratios: python3 benches/hare_papers.py HSCHED [EXPERIMENT ...]

Makes traces with `hsched generate trace --rules hare` and plays them with `hsched simulate`. The papers report relative
results, and this script prints ratios of the same values: the sum of weight times completion time (from arrival) for
Hare, the mean completion time for HLAS.
"""
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

SEEDS = (0, 1, 2)
# Sched_Homo has no counterpart in hsched. These policies give each job one GPU per task of an epoch.
BASELINES = "gavel-fifo,srtf,srsf,allox,fifo"


def cluster(gpus, gbps=25):
    """Returns a cluster file; each node has up to four GPUs, all of one type. `gpus` is the number of GPUs by type:
    {"v100": 8, ...}."""
    lines = [f"network_gbps: {gbps}", "intra_node_gbps: 125", "nodes:"]
    for name, count in gpus.items():
        lines += [f"- {{name: {name}-{n}, gpus: {{{name}: {min(4, count - 4 * n)}}}}}" for n in range(-(-count // 4))]
    return "\n".join(lines) + "\n"


def even(gpus, types=("v100", "t4", "k80", "m60")):
    return {name: gpus // len(types) for name in types}


class Bench:
    def __init__(self, hsched, folder):
        self.hsched, self.folder = hsched, Path(folder)

    def run(self, *words):
        done = subprocess.run([self.hsched, *map(str, words)], check=True, cwd=self.folder, stdout=subprocess.PIPE)
        return done.stdout.decode()

    def trace(self, nodes, jobs, load, seed, predicted=0.0, mouldable=False):
        """Writes cluster and trace; `predicted` is the part of their epochs that jobs are expected to train."""
        (self.folder / "cluster.yaml").write_text(nodes)
        how = ["--load", load] if load else ["--gap", "1s"]
        text = self.run("generate", "trace", "--rules", "hare", "--jobs", jobs, "--seed", seed, "--cluster", "cluster.yaml",
                        *how, *["--mouldable"] * mouldable)
        if predicted:
            expect = lambda found: f"{found[0]}\n    predicted_epochs: {round(predicted * int(found[1]))}"
            text = re.sub(r"    epochs: (\d+)", expect, text)
        (self.folder / "trace.yaml").write_text(text)

    def play(self, policies, *options):
        """Returns (mean completion time, sum of weight times completion time) by policy, and for the key "POLICY gap"
        the gap and the weighted completion time."""
        text = self.run("simulate", "--trace", "trace.yaml", "--cluster", "cluster.yaml", "--policy", policies, "--no-bound",
                        "--format", "json", *options)
        weights = self.weights()
        result = {}
        for entry in json.loads(text)["policies"]:
            flow = sum(weights[job["name"]] * job["jct_s"] for job in entry["jobs"])
            result[entry["policy"]] = (entry["mean_jct_s"], flow)
            result[entry["policy"] + " gap"] = (entry.get("gap"), entry["weighted_completion_s"])
        return result

    def weights(self):
        text = (self.folder / "trace.yaml").read_text()
        jobs = re.split(r"\n  - ", text)[1:]
        weight = lambda job: float((re.search(r"\n    weight: (\S+)", job) or [0, 1])[1])
        return {re.match(r"name: (\S+)", job)[1]: weight(job) for job in jobs}


def mean(values):
    values = list(values)
    return sum(values) / len(values)


def over_seeds(rows):
    """Returns, as text, the ratio of each policy to the first policy, averaged over the seeds."""
    first = next(iter(rows[0]))
    ratios = {name: mean(row[name] / row[first] for row in rows) for name in rows[0]}
    return "  ".join(f"{name} {ratio:.2f}" for name, ratio in ratios.items())


def hare_rows(bench, nodes, jobs, load):
    rows = []
    for seed in SEEDS:
        bench.trace(nodes, jobs, load, seed)
        row = {"hare": bench.play("hare")["hare"][1]}
        for assign in ("insert", "available"):
            row[assign] = bench.play("hare", "--assign", assign)["hare"][1]
        rest = bench.play(BASELINES, "--restart-cost", "0s")
        row.update({name: rest[name][1] for name in BASELINES.split(",")})
        rows.append(row)
    return over_seeds(rows)


def testbed(bench):
    nodes = cluster({"v100": 8, "t4": 4, "k80": 1, "m60": 2})
    for load in (0.8, 1.5, 3):
        print(f"testbed, 100 jobs, load {load}: {hare_rows(bench, nodes, 100, load)}", flush=True)


def gpus(bench):
    for count in (100, 140, 180):
        print(f"200 jobs at once, {count} GPUs: {hare_rows(bench, cluster(even(count)), 200, None)}", flush=True)


def jobs(bench):
    for count in (100, 200, 300):
        print(f"{count} jobs at once, 160 GPUs: {hare_rows(bench, cluster(even(160)), count, None)}", flush=True)


def types(bench):
    for names in (("v100",), ("v100", "k80"), ("v100", "t4", "k80", "m60")):
        line = hare_rows(bench, cluster(even(160, names)), 200, None)
        print(f"200 jobs at once, 160 GPUs of {'+'.join(names)}: {line}", flush=True)


def network(bench):
    found = []
    for gbps in (10, 25):
        values = []
        for seed in SEEDS:
            bench.trace(cluster(even(160), gbps), 200, None, seed)
            values.append(bench.play("hare")["hare"][1])
        found.append(mean(values))
    print(f"hare at 25 instead of 10 Gbit/s: {100 * (found[1] / found[0] - 1):+.1f} %", flush=True)


def hlas(bench):
    nodes = cluster(even(32))
    for load in (0.8, 1.5):
        rows = []
        for seed in SEEDS:
            row = {}
            bench.trace(nodes, 200, load, seed)
            row["hlas"] = bench.play("hlas")["hlas"][0]
            row["8 equal groups"] = bench.play("hlas", "--groups", "8")["hlas"][0]
            row["groups of a node"] = bench.play("hlas", "--groups", "nodes")["hlas"][0]
            rest = bench.play("las,fifo,yarn-cs", "--restart-cost", "0s")
            row.update({name: rest[name][0] for name in ("las", "fifo", "yarn-cs")})
            for part in (1.0, 0.5):
                bench.trace(nodes, 200, load, seed, predicted=part)
                row[f"hlas-p, {part:.0%} known"] = bench.play("hlas-p")["hlas-p"][0]
            print(f"  seed {seed}: " + "  ".join(f"{name} {value:.0f}" for name, value in row.items()), flush=True)
            rows.append(row)
        print(f"mean completion time, 32 GPUs, 200 jobs, load {load}: {over_seeds(rows)}", flush=True)


def gangs(bench):
    nodes = cluster({"v100": 8, "t4": 4, "k80": 1, "m60": 2})
    for load in (0.8, 1.5):
        for cost in ("0s", "60s"):
            rows = []
            for seed in SEEDS:
                bench.trace(nodes, 100, load, seed, mouldable=True)
                names = "hare,horizon,srsf,gavel-fifo,hlas,las,fifo"
                found = bench.play(names, "--execution", "gangs", "--restart-cost", cost)
                rows.append({name: found[name][1] for name in names.split(",")})
            print(f"gangs, load {load}, restart {cost}: {over_seeds(rows)}", flush=True)


def main():
    hsched, *wanted = sys.argv[1:]
    known = {"testbed": testbed, "gpus": gpus, "jobs": jobs, "types": types, "network": network, "hlas": hlas, "gangs": gangs}
    with tempfile.TemporaryDirectory() as folder:
        for name in wanted or known:
            known[name](Bench(Path(hsched).resolve(), folder))


if __name__ == "__main__":
    main()
