#!/usr/bin/env python3
"""Runs the cases of training with unequal ranks with this Python's torch; prints one JSON object. `tests/frameworks` calls it."""
import importlib
import json
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import torch  # noqa: E402

import world  # noqa: E402

FILES = ["passes", "faults", "prepared", "moved"]


def main() -> None:
    wanted = sys.argv[1:]
    answers = []
    for name in FILES:
        for case in importlib.import_module(name).CASES:
            if not wanted or case.__name__ in wanted or name in wanted:
                answer, = world.run([case], 6 if "6" in case.__name__ else 4 if "4" in case.__name__ else 3)
                print("%s: %s" % (case.__name__, answer["problem"] or answer["figure"]), file=sys.stderr, flush=True)
                answers.append(answer)
    json.dump({"torch": torch.__version__, "cases": answers}, sys.stdout)
    print()


if __name__ == "__main__":
    main()
