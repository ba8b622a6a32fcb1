#!/usr/bin/env python3
"""The experiments of the paper on Hadar and HadarE, as far as the paper gives their data; tables in Markdown.

python3 benches/hadar_papers.py HSCHED PHILLY_CSV GAVEL_CSV [jobs|mixes|network]. PHILLY_CSV has the columns submit_s, duration_s and num_gpus; GAVEL_CSV is
Gavel's table of steps per second.
"""
import csv
import json
import random
import subprocess
import sys
import tempfile
from typing import Any, Dict, List, Optional, Tuple

PAIR = ["--utility", "normalised", "--worth", "delay"]
# Classes of jobs by GPU-hours, as in the paper's table: the maximum GPU-hours of the class, and its kinds of jobs.
CLASSES = [(1.0, ["ResNet-18 (batch size 128)"]), (10.0, ["CycleGAN"]), (50.0, ["LM (batch size 80)"]),
           (float("inf"), ["ResNet-50 (batch size 64)", "Transformer (batch size 64)"])]
# Models that are trained on the five nodes: steps per second on a V100, and the relative speeds of T4 and K80. The
# values are invented, because the paper has none.
MODELS = [(9.0, 0.45, 0.16), (3.0, 0.35, 0.10), (6.0, 0.55, 0.22), (1.5, 0.40, 0.12), (4.0, 0.50, 0.18)]


def job(name: str, gpus: Optional[int], steps: float, speeds: Dict[str, float], size: str = "0B") -> str:
    rates = ", ".join("%s: %.9g" % (ty, 64 * rate) for ty, rate in speeds.items())  # batches of 64
    number = "gpus: %d, " % gpus if gpus else ""
    return "- {name: %s, %ssamples_per_epoch: %d, epochs: 10, global_batch: 64, model_size: %s, throughput: {%s}}\n" % (
        name, number, 64 * max(1, round(steps / 10)), size, rates)


def simulate(hsched: str, cluster: str, jobs: List[str], policies: List[str], *options: str) -> Tuple[Dict[str, Any], List[Dict[str, Any]]]:
    """Returns each policy's entry, and all events."""
    with tempfile.TemporaryDirectory() as folder:
        with open(folder + "/cluster.yaml", "w") as file:
            file.write(cluster)
        with open(folder + "/trace.yaml", "w") as file:
            file.write("jobs:\n" + "".join(jobs))
        said = subprocess.run([hsched, "simulate", "--trace", folder + "/trace.yaml", "--cluster", folder + "/cluster.yaml", "--policy", ",".join(policies), "--no-bound",
                               "--restart-cost", "10s", "--events", folder + "/events", "--format", "json", *options], stdout=subprocess.PIPE, check=True).stdout
        events = [json.loads(line) for line in open(folder + "/events")]
    return {own["policy"]: own for own in json.loads(said.decode())["policies"]}, events


def nodes(*groups: Tuple[str, str, int]) -> str:
    return "".join("- {name: '%s', gpus: {%s: %d}}\n" % (names, ty, count) for names, ty, count in groups)


def philly(hsched: str, jobs_csv: str, speeds_csv: str) -> None:
    speeds = {}
    for row in csv.DictReader(open(speeds_csv)):
        if row["table"] == "simulation" and row["scale_factor"] == "1":
            speeds[row["job_type"]] = {ty: float(row[ty]) for ty in ("v100", "p100", "k80") if float(row[ty]) > 0}
    jobs = []
    for number, row in enumerate(csv.DictReader(open(jobs_csv))):
        gpus, seconds = int(row["num_gpus"]), float(row["duration_s"])
        if 0 < gpus <= 20:
            kinds = next(kinds for most, kinds in CLASSES if gpus * seconds / 3600 <= most)
            own = speeds[kinds[number % len(kinds)]]
            jobs.append(job("j%d" % number, gpus, seconds * gpus * own["v100"], own))
    cluster = "network_gbps: 10\nintra_node_gbps: 300\nnodes:\n" + nodes(("v[1-5]", "v100", 4), ("p[1-5]", "p100", 4), ("k[1-5]", "k80", 4))
    results, events = {}, {}
    for name, policy, options in [("hadar", "hadar", []), ("hadar, normalised and delay", "hadar", PAIR)] + [(own, own, []) for own in ("horizon", "srsf", "las", "gavel-max-min", "yarn-cs")]:
        entries, own = simulate(hsched, cluster, jobs, [policy], "--round", "360s", *options)
        results[name], events[name] = entries[policy], own
        print("%d jobs: %s" % (len(jobs), name), file=sys.stderr, flush=True)
    print("| %d jobs at once | last job (h) | mean completion (h) | median (h) | GPUs that train | a decision (ms) | decisions that change anything |" % len(jobs))
    print("|---|---|---|---|---|---|---|")
    for name, own in results.items():
        changed = {line["t"] for line in events[name] if line["event"] in ("started", "moved", "stopped")}
        print("| %s | %.1f | %.1f | %.1f | %.2f | %.0f | %.0f %% |" % (
            name, own["makespan_s"] / 3600, own["mean_jct_s"] / 3600, own["p50_jct_s"] / 3600, own.get("gru", own["goodput"]),
            1000 * own["decision_s"] / own["decisions"], 100 * len(changed) / max(1, own["makespan_s"] / 360)))


def mixes(hsched: str) -> None:
    cluster = "network_gbps: 10\nintra_node_gbps: 300\nnodes:\n" + nodes(("v1", "v100", 1), ("k[1-2]", "k80", 1), ("t[1-2]", "t4", 1))
    policies = ["gavel-max-min", "hadar", "hadare", "hadare, makespan"]
    sums = {name: [0.0, 0.0, 0.0] for name in policies}
    counts = [1, 2, 3, 4, 5, 8, 10, 12]
    for count in counts:
        dice = random.Random(count)
        jobs = []
        for number in range(count):
            rate, t4, k80 = MODELS[number % len(MODELS)]
            jobs.append(job("m%d" % number, 1, rate * dice.uniform(1800, 10800), {"v100": rate, "t4": rate * t4, "k80": rate * k80}))
        options = ["--round", "360s", "--overhead", "10s"]
        entries, _ = simulate(hsched, cluster, jobs, ["gavel-max-min", "hadar", "hadare"], *options)
        entries["hadare, makespan"] = simulate(hsched, cluster, jobs, ["hadare"], "--objective", "makespan", *options)[0]["hadare"]
        for name in policies:
            own, base = entries[name], entries["gavel-max-min"]
            busy = own["goodput"] / base["goodput"]
            for k, value in enumerate((busy, base["makespan_s"] / own["makespan_s"], base["mean_jct_s"] / own["mean_jct_s"])):
                sums[name][k] += value / len(counts)
    print("| five nodes, mixes of %s jobs | nodes in use | last job | mean completion |" % ", ".join(map(str, counts)))
    print("|---|---|---|---|")
    for name, values in sums.items():
        print("| %s | %.2f | %.2f | %.2f |" % (name, *values))


def network(hsched: str) -> None:
    """ResNet-50 on four nodes of one GPU each, with links as fast as inside a node and with links a hundred times
    slower."""
    print("| jobs, network | `horizon` (one training on any GPUs) | `hadare`, 10 s a merge | ratio |")
    print("|---|---|---|---|")
    for count in (1, 2, 4):
        for network in (300, 3):
            cluster = "network_gbps: %d\nintra_node_gbps: 300\nnodes:\n" % network + nodes(("v1", "v100", 1), ("t[1-2]", "t4", 1), ("p1", "p100", 1))
            jobs = [job("n%d" % k, None, 40000 * (k + 1), {"v100": 5.0, "p100": 3.0, "t4": 2.2}, "102MB") for k in range(count)]
            entries, _ = simulate(hsched, cluster, jobs, ["horizon", "hadare"], "--overhead", "10s")
            plain, copies = (entries[name]["makespan_s"] / 3600 for name in ("horizon", "hadare"))
            print("| %d, %d Gbit/s | %.2f h | %.2f h | %.2f |" % (count, network, plain, copies, plain / copies))


def main() -> None:
    hsched, jobs_csv, speeds_csv = sys.argv[1:4]
    for name, play in (("mixes", lambda: mixes(hsched)), ("network", lambda: network(hsched)), ("jobs", lambda: philly(hsched, jobs_csv, speeds_csv))):
        if name in sys.argv[4:] or not sys.argv[4:]:
            play()
            print(flush=True)


if __name__ == "__main__":
    main()
