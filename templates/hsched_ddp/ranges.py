"""Arithmetic on ranges of steps of an epoch: the remaining ones, the finished ones, and their division among copies."""
from __future__ import annotations

import math
from typing import Iterator, List, Optional, Sequence, Tuple

Ranges = List[List[int]]  # steps of an epoch, each [first, end)


def count(ranges: Ranges) -> int:
    return sum(end - begin for begin, end in ranges)


def numbers(ranges: Ranges) -> Iterator[int]:
    for begin, end in ranges:
        yield from range(begin, end)


def after(ranges: Ranges, step: int) -> Ranges:
    """Returns the ranges without one step."""
    cut = [part for first, end in ranges for part in ([first, min(step, end)], [max(step + 1, first), end])]
    return [[first, end] for first, end in cut if first < end]


def without(ranges: Ranges, rest: Ranges) -> Ranges:
    """Returns the steps of ranges that are not in `rest`."""
    left = set(numbers(rest))
    return [[step, step + 1] for step in numbers(ranges) if step not in left]


def take(ranges: Ranges, most: int) -> Tuple[Ranges, Ranges]:
    """Returns the first `most` steps of ranges (all if there are fewer), and the rest."""
    taken, rest = [], []
    for begin, end in ranges:
        own = min(end - begin, most)
        most -= own
        taken += [[begin, begin + own]] if own else []
        rest += [[begin + own, end]] if begin + own < end else []
    return taken, rest


def join(ranges: Ranges) -> Ranges:
    """Returns the same steps in order, in as few ranges as possible; the ranges must not overlap."""
    joined: Ranges = []
    for begin, end in sorted(ranges):
        if joined and begin < joined[-1][1]:
            raise ValueError("step %d is in two ranges" % begin)
        if joined and begin == joined[-1][1]:
            joined[-1][1] = end
        elif begin < end:
            joined.append([begin, end])
    return joined


def split(left: int, speeds: Sequence[Optional[float]], time_s: float) -> Tuple[List[int], bool]:
    """Returns the steps of each copy, and whether any speed is known; if none is, all copies do the same number.

    As in `hsched simulate --policy hadare`: each copy gets as many steps as it can do in the time or, if there are not that
    many, a number in proportion to its speed. A copy with unknown speed is assumed to have the others' average speed.
    """
    known = [speed for speed in speeds if speed]
    own = [speed or (sum(known) / len(known) if known else 1.0) for speed in speeds]
    most = [max(1, math.floor(speed * time_s + 1e-9)) for speed in own]
    if known and sum(most) <= left:
        return most, True
    exact = [left * speed / sum(own) for speed in own]
    parts = [math.floor(part + 1e-9) for part in exact]
    order = sorted(range(len(parts)), key=lambda k: (-round(exact[k] - parts[k], 9), k))
    for k in order[:left - sum(parts)]:
        parts[k] += 1
    return parts, bool(known)
