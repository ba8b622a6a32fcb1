#!/usr/bin/env python3
"""Prints the answers of run.py for several versions of torch as one table; exits with 1 if a case was wrong."""
import json
import sys
from typing import Any, Dict, List

LIMIT = 1e-12
"""The largest difference that rounding makes in these small networks, in float64."""


def word(case: Dict[str, Any]) -> str:
    if case["problem"]:
        return "WRONG"
    return "-" if case["figure"] is None else "%.0e" % case["figure"] if case["figure"] else "0"


def main() -> int:
    runs: List[Dict[str, Any]] = []
    for path in sys.argv[1:]:
        with open(path) as file:
            runs.append(json.load(file))
    rows = [["case"] + [run["torch"].split("+")[0] for run in runs]]
    problems: List[str] = []
    names = list(dict.fromkeys(case["name"] for run in runs for case in run["cases"]))
    for name in names:
        own = [next((case for case in run["cases"] if case["name"] == name), None) for run in runs]
        rows.append([name] + [word(one) if one else "-" for one in own])
        for run, one in zip(runs, own):
            if one is None:
                continue
            if one["problem"] or (one["figure"] or 0.0) > LIMIT:
                problems.append("%s with torch %s: %s" % (one["name"], run["torch"], one["problem"] or "off by %.1e" % one["figure"]))
    widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip())
    for run in runs:
        print("versions: " + ", ".join("%s %s" % own for own in run["versions"].items()))
    for problem in problems:
        print("wrong: " + problem)
    return int(bool(problems))


if __name__ == "__main__":
    sys.exit(main())
