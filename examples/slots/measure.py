#!/usr/bin/env python3
"""Measures what slots gain: nine runs of train.py on one device, one at a time and then three, with wall time and CPU time.

usage: examples/slots/measure.py [HSCHED]    takes a minute, and needs a core without other work
"""
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HSCHED = os.path.abspath(sys.argv[1]) if len(sys.argv) > 1 else "hsched"
TRAIN = Path(__file__).resolve().with_name("train.py")
JOBS = """jobs:
  - name: run
    samples_per_epoch: 1
    epochs: 1
    global_batch: 1
    model_size: 0
    max_gpus: 1
    command: python3 %s
    sweep: {i: [1, 2, 3, 4, 5, 6, 7, 8, 9]}
"""


def measure(slots: int) -> float:
    """Runs all jobs with this number of slots, prints the times, and returns the wall time."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "jobs.yaml").write_text(JOBS % TRAIN, encoding="utf-8")
        env = dict(os.environ, HSCHED_STATE_DIR=os.path.join(folder, "state"))
        begin, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
        run = [HSCHED, "run", "jobs.yaml", "--devices", "cpu:1x%d" % slots]
        subprocess.run(run, cwd=folder, env=env, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wall_s, after = time.monotonic() - begin, resource.getrusage(resource.RUSAGE_CHILDREN)
    user_s, system_s = after.ru_utime - before.ru_utime, after.ru_stime - before.ru_stime
    print("%d runs at a time: wall %5.1f s, CPU %5.1f s (user %.1f s, system %.1f s)" % (slots, wall_s, user_s + system_s, user_s, system_s), flush=True)
    return wall_s


def main() -> None:
    one, three = measure(1), measure(3)
    print("three at a time take %.2f of the wall time" % (three / one))


if __name__ == "__main__":
    main()
