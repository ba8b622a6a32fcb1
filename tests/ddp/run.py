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


def ranks(file: str, case: str) -> int:
    """Returns how many ranks a case needs: whole programs start theirs themselves, while no rank waits for them."""
    if file == "moved":
        return 1
    return 6 if "6" in case else 4 if "4" in case else 3


def main() -> None:
    wanted = sys.argv[1:]
    answers = []
    for name in FILES:
        for case in importlib.import_module(name).CASES:
            if not wanted or case.__name__ in wanted or name in wanted:
                answer, = world.run([case], ranks(name, case.__name__))
                print("%s: %s" % (case.__name__, answer["problem"] or answer["figure"]), file=sys.stderr, flush=True)
                answers.append(answer)
    json.dump({"torch": torch.__version__, "cases": answers}, sys.stdout)
    print()


if __name__ == "__main__":
    main()
