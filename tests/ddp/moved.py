"""The examples of adapted programs: whole programs as hsched starts them, with unequal shares, compared with one process."""
import contextlib
import io
import os
import re
import runpy
import subprocess
import sys
import tempfile
from typing import Any, Callable, Dict, List, Optional

import fleet
from world import LIMIT_S, World, free_port

EXAMPLES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "examples", "moved")


def figures(folder: str, name: str, batches: List[int], micro: List[int], epochs: int) -> Dict[str, Any]:
    """Runs a program with these shares; returns the numbers that its first rank prints, by the text before them."""
    common = {"WORLD_SIZE": str(len(batches)), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "HSCHED_GLOBAL_BATCH": str(sum(batches)),
              "HSCHED_BATCHES": ",".join(map(str, batches)), "HSCHED_EPOCHS": str(epochs), "HSCHED_CHECKPOINT_DIR": os.path.join(folder, str(len(batches))),
              "PYTHONPATH": os.path.join(EXAMPLES, "..", "..", "templates")}
    ranks = []
    for rank, size in enumerate(micro):
        own = dict(os.environ, **common, RANK=str(rank), LOCAL_RANK=str(rank), HSCHED_MICRO_BATCH=str(size), HSCHED_REPORT=os.path.join(folder, "report-%d" % rank))
        ranks.append(subprocess.Popen([sys.executable, os.path.join(EXAMPLES, name)], env=own, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True))
    said = [own.communicate(timeout=LIMIT_S) for own in ranks]
    assert all(own.returncode == 0 for own in ranks), said
    return numbers(said[0][0])


Run = Callable[[str, str, List[int], List[int], int], Dict[str, Any]]


def forked(folder: str, name: str, batches: List[int], micro: List[int], epochs: int) -> Dict[str, Any]:
    """Does the same as `figures`, in processes that have imported what this one has."""
    def program() -> str:
        os.chdir(folder)
        with contextlib.redirect_stdout(io.StringIO()) as said, contextlib.suppress(SystemExit):
            runpy.run_path(os.path.join(EXAMPLES, name), run_name="__main__")
        return said.getvalue()
    ended = fleet.run(program, batches, os.path.join(folder, str(len(batches))), micro, EPOCHS=epochs)
    assert all(own.status == 0 for own in ended), ended
    return numbers(ended[0].result)


def numbers(said: str) -> Dict[str, Any]:
    """Returns the numbers that a program has printed, by the text before them."""
    return {key: float(value) for key, value in re.findall(r"(.*?) ([0-9.]+)(?: of \d+)?$", said, re.MULTILINE)}


def compared(name: str, epochs: int, run: Run = figures) -> Optional[float]:
    with tempfile.TemporaryDirectory(prefix="hsched-moved-") as folder:
        together, alone = run(folder, name, [24, 8], [7, 8], epochs), run(folder, name, [32], [32], epochs)
    for key, value in alone.items():
        assert key == "weights" or "loss" in key or together[key] == value, (together, alone)
    error = abs(together["weights"] / alone["weights"] - 1)
    return error if error >= 1e-6 else 0.0  # they train in float32


def moved_images(world: World) -> Optional[float]:
    return compared("images.py", 3)


def moved_text(world: World) -> Optional[float]:
    return compared("text.py", 1)


CASES = [moved_images, moved_text]
