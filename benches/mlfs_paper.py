#!/usr/bin/env python3
"""Plays the experiment of the paper on MLFS: 80 V100, jobs of the Philly trace, deadlines by the paper's rule.

    python3 benches/mlfs_paper.py target/release/hsched philly_full.csv

The CSV has submit_s, duration_s and num_gpus. For each of three seeds, 620 jobs of one week are drawn and their arrivals moved together until they
ask for all GPUs; urgencies are drawn from 0 to 10, losses are made up. Prints mean completion time and deadlines met by policy, of all jobs and of the
urgent ones (8 to 10), with urgencies and without.
"""

import csv
import json
import random
import statistics
import subprocess
import sys
import tempfile

GPUS, JOBS, WEEK = 80, 620, 7 * 86400
POLICIES = ["mlf-h", "horizon", "srtf", "las", "fifo"]


def draw(rows, seed):
    rng = random.Random(seed)
    start = rng.choice(range(2, 13)) * WEEK
    week = [row for row in rows if start <= row[0] < start + WEEK and row[1] >= 60 and 1 <= row[2] <= 32]
    own = sorted(rng.sample(week, JOBS))
    work = sum(duration * gpus for _, duration, gpus in own)
    span = own[-1][0] - own[0][0]
    factor = work / GPUS / span
    jobs = []
    for number, (submit, duration, gpus) in enumerate(own):
        arrival = (submit - own[0][0]) * factor
        epochs = max(1, min(50, round(duration / 600)))
        slope, end = rng.uniform(0.5, 2), rng.uniform(0.1, 1)
        jobs.append({
            "name": f"j{number:03}", "epochs": epochs, "samples_per_epoch": max(gpus, round(duration * gpus * 100 / epochs)),
            "global_batch": gpus, "model_size": 0, "throughput": {"v100": 100}, "gpus": gpus, "arrival": arrival,
            "deadline": arrival + max(1.1 * duration, rng.uniform(0.5, 24) * 3600), "urgency": rng.randint(0, 10),
            "losses": [end + 2 * (1 + i) ** -slope for i in range(epochs)],
            "checkpoint": {"restart_cost": "60s"}})
    return jobs


def play(hsched, jobs, policies):
    with tempfile.NamedTemporaryFile("w", suffix=".json") as trace, tempfile.NamedTemporaryFile("w", suffix=".yaml") as cluster:
        json.dump({"jobs": jobs}, trace)
        trace.flush()
        cluster.write("network_gbps: 10\nnodes: [{name: 'n[1-20]', gpus: {v100: 4}}]\n")
        cluster.flush()
        line = [hsched, "simulate", "--trace", trace.name, "--cluster", cluster.name, "--policy", ",".join(policies), "--no-bound",
                "--format", "json"]
        return json.loads(subprocess.run(line, check=True, capture_output=True, text=True).stdout)["policies"]


def met(jobs, ended, urgent):
    due = [(job, own) for job, own in zip(jobs, ended) if job["urgency"] >= urgent]
    return sum(own["completion_s"] is not None and own["completion_s"] <= job["deadline"] for job, own in due) / len(due)


def main():
    hsched, path = sys.argv[1:]
    with open(path) as file:
        rows = [(float(row["submit_s"]), float(row["duration_s"]), int(row["num_gpus"])) for row in csv.DictReader(file)]
    found = {}
    for seed in range(3):
        jobs = draw(rows, seed)
        for own in play(hsched, jobs, POLICIES):
            found.setdefault(own["policy"], []).append((own["mean_jct_s"] / 3600, met(jobs, own["jobs"], 0), met(jobs, own["jobs"], 8)))
        plain = [{**job, "urgency": 1} for job in jobs]
        for own in play(hsched, plain, ["mlf-h"]):
            found.setdefault("mlf-h, all as urgent", []).append((own["mean_jct_s"] / 3600, met(jobs, own["jobs"], 0), met(jobs, own["jobs"], 8)))
    for policy, values in found.items():
        jct, deadlines, urgent = ([own[i] for own in values] for i in range(3))
        seeds = " / ".join(f"{value:.2f}" for value in jct)
        print(f"{policy:22} mean JCT {statistics.mean(jct):6.2f} h ({seeds})  met {statistics.mean(deadlines):.3f}  "
              f"urgent {statistics.mean(urgent):.3f}  by seed " + " / ".join(f"{value:.3f}" for value in deadlines))


if __name__ == "__main__":
    main()
