#!/usr/bin/env python3
"""Runs the cases of training with unequal ranks with this Python's torch; prints one JSON object.

`tests/frameworks` and `tests/it/training.rs` call it.
"""
import importlib
import importlib.metadata
import importlib.util
import json
import os
import sys
import traceback
from typing import Any, Callable, Dict, List, Optional

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import torch  # noqa: E402

import world  # noqa: E402

FILES = ["passes", "faults", "prepared", "moved"]
FRAMEWORKS = {"shares_cases": "torch", "replica_cases": "torch", "lightning_cases": "lightning", "hf_cases": "transformers", "accelerate_cases": "accelerate"}
"""Files of cases that start their ranks themselves, each with the package that it needs."""


def ranks(file: str, case: str) -> int:
    """Returns how many ranks to start for a case: one for whole programs, which start their ranks themselves."""
    if file == "moved":
        return 1
    return 6 if "6" in case else 4 if "4" in case else 3


def alone(case: Callable[[], Optional[float]]) -> Dict[str, Any]:
    """Runs a case in this process, from which it starts its ranks."""
    try:
        return {"name": case.__name__, "figure": case(), "problem": None}
    except Exception as error:  # pylint: disable=broad-except
        place = traceback.extract_tb(error.__traceback__)[-1]
        return {"name": case.__name__, "figure": None, "problem": "%s: %s (%s:%d)" % (type(error).__name__, error, place.filename, place.lineno or 0)}


def main() -> None:
    wanted = sys.argv[1:]
    answers: List[Dict[str, Any]] = []

    def add(answer: Dict[str, Any]) -> None:
        print("%s: %s" % (answer["name"], answer["problem"] or answer["figure"]), file=sys.stderr, flush=True)
        answers.append(answer)
    for name in FILES:
        for case in importlib.import_module(name).CASES:
            if not wanted or case.__name__ in wanted or name in wanted:
                add(world.run([case], ranks(name, case.__name__))[0])
    versions = {"torch": torch.__version__}
    for name, package in FRAMEWORKS.items():
        if importlib.util.find_spec(package) is None:
            continue
        versions[package] = importlib.metadata.version(package)
        for case in importlib.import_module(name).CASES:
            if not wanted or case.__name__ in wanted or name in wanted:
                add(alone(case))
    json.dump({"torch": torch.__version__, "versions": versions, "cases": answers}, sys.stdout)
    print()


if __name__ == "__main__":
    main()
