"""Pictures of digits, drawn by a random number generator: the same for every run, and nothing to download."""
import random
from typing import List, Tuple

SIDE = 8  # pixels
GLYPHS = """
.###. ..#.. .###. ####. ...#. ##### .###. ##### .###. .###.
#...# .##.. #...# ....# ..##. #.... #.... ....# #...# #...#
#..## ..#.. ....# ....# .#.#. ####. #.... ...#. #...# #...#
#.#.# ..#.. ..##. .###. #..#. ....# ####. ..#.. .###. .####
##..# ..#.. .#... ....# ##### ....# #...# ..#.. #...# ....#
#...# ..#.. #.... ....# ...#. #...# #...# ..#.. #...# ....#
.###. .###. ##### ####. ...#. .###. .###. ..#.. .###. .###.
"""

Picture = List[float]


def draw(samples: int, seed: int, noise: float = 0.25) -> List[Tuple[Picture, int]]:
    """Returns pictures with their digits: glyphs at random positions, fainter or darker, in noise."""
    rows = [line.split() for line in GLYPHS.split("\n") if line]
    dice = random.Random(seed)
    pictures = []
    for _ in range(samples):
        digit, left, top, ink = dice.randrange(10), dice.randrange(2), dice.randrange(2), dice.uniform(0.6, 1.2)
        picture = [dice.gauss(0, noise) for _ in range(SIDE * SIDE)]
        for y, row in enumerate(rows):
            for x, pixel in enumerate(row[digit]):
                picture[SIDE * (top + y) + left + x] += ink * (pixel == "#")
        pictures.append((picture, digit))
    return pictures
