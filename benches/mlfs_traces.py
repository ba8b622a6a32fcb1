#!/usr/bin/env python3
"""Writes made-up traces and a cluster for `hsched train-policy`.

    python3 benches/mlfs_traces.py FOLDER [COUNT]

COUNT (default: 25) traces of 40 jobs that together need all GPUs of 4 nodes with 4 GPUs: run times are spread as on
real clusters (half of them below 40 min, some a day), 1 to 4 GPUs, deadlines by the rule of the paper on MLFS,
urgencies from 0 to 10. Half of the GPUs are of a type on which jobs take 1.5 to 4 times as long.
"""

import json
import os
import random
import sys


def trace(seed):
    rng = random.Random(seed)
    jobs, work = [], 0.0
    for number in range(40):
        duration = min(86400, max(300, 2400 * rng.lognormvariate(0, 1.3)))
        gpus = rng.choice([1, 1, 1, 1, 2, 4])
        epochs = max(1, min(50, round(duration / 300)))
        slow = rng.uniform(1.5, 4)
        work += duration * gpus
        jobs.append({
            "name": f"j{number:02}", "epochs": epochs, "samples_per_epoch": max(gpus, round(duration * gpus * 100 / epochs)),
            "global_batch": 4 * gpus, "model_size": 0, "throughput": {"v100": 100, "t4": 100 / slow}, "gpus": gpus,
            "urgency": rng.randint(0, 10), "duration": duration})
    # Eight fast GPUs, and eight with about 0.4 of their speed.
    span = work / (8 + 8 * 0.4)
    at = sorted(rng.uniform(0, span) for _ in jobs)
    for job, arrival in zip(jobs, at):
        duration = job.pop("duration")
        job["arrival"] = arrival
        job["deadline"] = arrival + max(1.1 * duration, rng.uniform(0.5, 24) * 3600)
    return jobs


def main():
    folder = sys.argv[1]
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 25
    os.makedirs(f"{folder}/traces", exist_ok=True)
    os.makedirs(f"{folder}/clusters", exist_ok=True)
    for seed in range(count):
        with open(f"{folder}/traces/{seed:02}.json", "w") as file:
            json.dump({"jobs": trace(seed)}, file)
    with open(f"{folder}/clusters/lab.yaml", "w") as file:
        file.write("network_gbps: 10\nnodes:\n- {name: 'v[1-2]', gpus: {v100: 4}}\n- {name: 't[1-2]', gpus: {t4: 4}}\n")


if __name__ == "__main__":
    main()
