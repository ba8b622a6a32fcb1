#!/usr/bin/env python3
"""Plays the experiments of the paper on MLFS: 80 V100, jobs of a recorded trace, and MLF-H with and without its parts.

    python3 benches/mlfs_paper.py target/release/hsched philly_full.csv [NET]
    python3 benches/mlfs_paper.py target/release/hsched chronus_philly_mix1.csv [NET]

The CSV has submit_s, duration_s and num_gpus. Jobs of Philly get deadlines by the paper's rule: max(1.1 times the
duration, half an hour to a day). Chronus has its own deadlines (expect_time_list of the jobs whose job_type is strict).
For each of three seeds, 620 jobs are drawn (from one week if the trace is longer than 14 weeks), and their arrival
times are scaled so that the jobs need all GPUs; urgencies are drawn from 0 to 10, losses are made up. Prints mean
completion time, deadlines met (by all jobs and by the urgent ones, 8 to 10), the fraction of jobs that were stopped
early, and the cost of early stops: the mean of (loss at the stop - loss at the last epoch) / (total decrease of the
loss). NET is a file of hsched train-policy, for mlf-rl.
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


def read(path):
    """Returns rows (submit, duration, GPUs, deadline): the deadline counts from submission; it is 0 if the job has
    none, and None if the file has no deadlines."""
    rows = []
    with open(path) as file:
        for row in csv.DictReader(file):
            due = None
            if "expect_time_list" in row:
                due = float(row["expect_time_list"]) if row["job_type"] == "strict" else 0.0
            rows.append((float(row["submit_s"]), float(row["duration_s"]), int(row["num_gpus"]), due))
    return rows


def draw(rows, seed):
    rng = random.Random(seed)
    usable = [row for row in rows if row[1] >= 60 and 1 <= row[2] <= 32]
    if usable[-1][0] > 14 * WEEK:
        start = rng.choice(range(2, 13)) * WEEK
        usable = [row for row in usable if start <= row[0] < start + WEEK]
    own = sorted(rng.sample(usable, JOBS), key=lambda row: row[:3])
    work = sum(row[1] * row[2] for row in own)
    span = own[-1][0] - own[0][0]
    factor = work / GPUS / span
    jobs = []
    for number, (submit, duration, gpus, due) in enumerate(own):
        arrival = (submit - own[0][0]) * factor
        epochs = max(1, min(50, round(duration / 600))) if due is None else 30
        slope, end = rng.uniform(0.5, 2), rng.uniform(0.1, 1)
        job = {
            "name": f"j{number:03}", "epochs": epochs, "samples_per_epoch": max(gpus, round(duration * gpus * 100 / epochs)),
            "global_batch": gpus, "model_size": 0, "throughput": {"v100": 100}, "gpus": gpus, "arrival": arrival,
            "urgency": rng.randint(0, 10), "losses": [end + 2 * (1 + i) ** -slope for i in range(epochs)],
            "checkpoint": {"restart_cost": "60s"}}
        rule = max(1.1 * duration, rng.uniform(0.5, 24) * 3600)
        if due is None or due > 0:
            job["deadline"] = arrival + (rule if due is None else due)
        jobs.append(job)
    return jobs


def play(hsched, jobs, policies, net=None):
    with tempfile.NamedTemporaryFile("w", suffix=".json") as trace, tempfile.NamedTemporaryFile("w", suffix=".yaml") as cluster:
        json.dump({"jobs": jobs}, trace)
        trace.flush()
        cluster.write("network_gbps: 10\nnodes: [{name: 'n[1-20]', gpus: {v100: 4}}]\n")
        cluster.flush()
        line = [hsched, "simulate", "--trace", trace.name, "--cluster", cluster.name, "--policy", ",".join(policies), "--no-bound",
                "--format", "json"] + (["--network", net] if "mlf-rl" in policies else [])
        return json.loads(subprocess.run(line, check=True, capture_output=True, text=True).stdout)["policies"]


def met(jobs, ended, urgent):
    due = [(job, own) for job, own in zip(jobs, ended) if job["urgency"] >= urgent and "deadline" in job]
    return sum(own["completion_s"] is not None and own["completion_s"] <= job["deadline"] for job, own in due) / len(due)


def lost(jobs, ended):
    """Returns the part of the total decrease of the loss that early stops cost, on average over all jobs."""
    parts = []
    for job, own in zip(jobs, ended):
        losses = job["losses"]
        done = int(own.get("epochs_done", len(losses)))
        fall = losses[0] - losses[-1]
        parts.append((losses[done - 1] - losses[-1]) / fall if fall > 0 else 0.0)
    return statistics.mean(parts)


def variants(jobs):
    """Returns the jobs by variant: each variant lacks the data that one part of MLF-H uses, or adds MLF-C."""
    stop = {"target": {"metric": "loss", "mode": "min"}, "stop": {"when_busy": "best"}}
    return {
        "all equally urgent": [{**job, "urgency": 1} for job in jobs],
        "deadlines unknown": [{key: value for key, value in job.items() if key != "deadline"} for job in jobs],
        "losses unknown": [{key: value for key, value in job.items() if key != "losses"} for job in jobs],
        "and MLF-C": [{**job, **stop} for job in jobs],
    }


def main():
    hsched, path, *net = sys.argv[1:]
    rows = read(path)
    policies = POLICIES + (["mlf-rl"] if net else [])
    found = {}
    for seed in range(3):
        jobs = draw(rows, seed)

        def keep(name, own):
            figures = own["mean_jct_s"] / 3600, met(jobs, own["jobs"], 0), met(jobs, own["jobs"], 8), lost(jobs, own["jobs"]), own["stopped_early"] / JOBS
            found.setdefault(name, []).append(figures)

        for own in play(hsched, jobs, policies, *net):
            keep(own["policy"], own)
        for what, others in variants(jobs).items():
            played = ["mlf-h", "srtf", "horizon"] if what == "and MLF-C" else ["mlf-h"]
            for own in play(hsched, others, played):
                keep(f"{own['policy']}, {what}", own)
    for name, values in found.items():
        jct, deadlines, urgent, given, stopped = ([own[i] for own in values] for i in range(5))
        seeds = " / ".join(f"{value:.2f}" for value in jct)
        print(f"{name:25} mean JCT {statistics.mean(jct):6.2f} h ({seeds})  met {statistics.mean(deadlines):.3f} "
              f"({' / '.join(f'{value:.3f}' for value in deadlines)})  urgent {statistics.mean(urgent):.3f}  "
              f"stopped {statistics.mean(stopped):.2f}, of the fall lost {statistics.mean(given):.3f}")


if __name__ == "__main__":
    main()
