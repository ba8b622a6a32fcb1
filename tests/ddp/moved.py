"""The examples of moved programs: whole programs as hsched starts them, with unequal shares, against one process."""
import os
import re
import subprocess
import sys
from typing import Any, Dict, List, Optional

from world import LIMIT_S, World, free_port

EXAMPLES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "examples", "moved")


def figures(folder: str, name: str, batches: List[int], micro: List[int], epochs: int) -> Dict[str, Any]:
    """Runs a program with these shares; returns the numbers that its first rank prints, by what is before them."""
    common = {"WORLD_SIZE": str(len(batches)), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "HSCHED_GLOBAL_BATCH": str(sum(batches)),
              "HSCHED_BATCHES": ",".join(map(str, batches)), "HSCHED_EPOCHS": str(epochs), "HSCHED_CHECKPOINT_DIR": os.path.join(folder, str(len(batches))),
              "PYTHONPATH": os.path.join(EXAMPLES, "..", "..", "templates")}
    ranks = []
    for rank, size in enumerate(micro):
        own = dict(os.environ, **common, RANK=str(rank), LOCAL_RANK=str(rank), HSCHED_MICRO_BATCH=str(size), HSCHED_REPORT=os.path.join(folder, "report-%d" % rank))
        ranks.append(subprocess.Popen([sys.executable, os.path.join(EXAMPLES, name)], env=own, stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True))
    said = [own.communicate(timeout=LIMIT_S) for own in ranks]
    assert all(own.returncode == 0 for own in ranks), said
    return {key: float(value) for key, value in re.findall(r"(.*?) ([0-9.]+)(?: of \d+)?$", said[0][0], re.MULTILINE)}


def compared(world: World, name: str, epochs: int) -> Optional[float]:
    together = figures(world.path("."), name, [24, 8], [7, 8], epochs)
    alone = figures(world.path("."), name, [32], [32], epochs)
    for key, value in alone.items():
        assert key == "weights" or "loss" in key or together[key] == value, (together, alone)
    error = abs(together["weights"] / alone["weights"] - 1)
    return error if error >= 1e-6 else 0.0  # they train in float32


def moved_images(world: World) -> Optional[float]:
    return compared(world, "images.py", 3)


def moved_text(world: World) -> Optional[float]:
    return compared(world, "text.py", 1)


CASES = [moved_images, moved_text]
