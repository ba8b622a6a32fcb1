#!/usr/bin/env python3
"""Trains all samples of search.yaml to the end, then again with halving, and prints what that saves and whether it finds the best.

usage: examples/sweep/compare.py [HSCHED]    from the root of the repository; takes twenty minutes on an idle machine
"""
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Dict, List

HSCHED = os.path.abspath(sys.argv[1]) if len(sys.argv) > 1 else "hsched"
TRAIN = os.path.abspath("examples/sweep/train.py")


def search(rule: str, folder: Path) -> List[Dict[str, Any]]:
    """Runs the search with a stop rule in a separate folder; returns its runs as printed by `hsched results`."""
    text = Path("examples/sweep/search.yaml").read_text(encoding="utf-8")
    text = re.sub("rule: halving", "rule: " + rule, text).replace("examples/sweep/train.py", TRAIN)
    (folder / "search.yaml").write_text(text, encoding="utf-8")
    env = dict(os.environ, HSCHED_STATE_DIR=str(folder / "state"))
    begin, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
    run = [HSCHED, "run", "search.yaml", "--devices", "cpu:2"]
    subprocess.run(run, cwd=folder, env=env, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    shown = subprocess.run([HSCHED, "results", "digits", "--sort", "loss", "--format", "json"], cwd=folder, env=env, check=True, stdout=subprocess.PIPE)
    runs: List[Dict[str, Any]] = json.loads(shown.stdout)["runs"]
    epochs = sum(own["epoch"] for own in runs)
    print("%-8s %5d epochs, %4.0f s, CPU %4.0f s; best %s with loss %.5f" %
          (rule, epochs, time.monotonic() - begin, cpu_s, runs[0]["name"], runs[0]["best"]), flush=True)
    return runs


def main() -> None:
    with tempfile.TemporaryDirectory() as place:
        folders = [Path(place, rule) for rule in ("epochs", "halving")]
        for folder in folders:
            folder.mkdir()
        whole, halved = [search(folder.name, folder) for folder in folders]
    part = sum(own["epoch"] for own in halved) / sum(own["epoch"] for own in whole)
    is_found = whole[0]["name"] == halved[0]["name"]
    print("halving trained %.1f %% of the epochs and %s the best of %d" % (100 * part, "found" if is_found else "missed", len(whole)))
    sys.exit(0 if is_found else 1)


if __name__ == "__main__":
    main()
