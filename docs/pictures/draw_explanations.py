#!/usr/bin/env python3
"""Draws the pictures of the pages that explain: shares.svg, bound.svg, futures.svg and turn.svg.

usage: docs/pictures/draw_explanations.py    (writes into its own folder)
"""

from pathlib import Path

FOLDER = Path(__file__).parent
BLUE, ORANGE, GREEN, GREY, TEXT = "#4c78a8", "#f58518", "#54a24b", "#ddd", "#333"


def svg(name, width, height, parts):
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="sans-serif" font-size="12">'
    lines = [head, '<rect width="100%" height="100%" fill="white"/>', *parts, "</svg>"]
    (FOLDER / name).write_text("\n".join(lines) + "\n")


def text(x, y, words, anchor="start", fill=TEXT):
    return f'<text x="{x:.0f}" y="{y:.0f}" text-anchor="{anchor}" fill="{fill}">{words}</text>'


def box(x, y, width, height, fill, rounded=4):
    return f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" rx="{rounded}" fill="{fill}"/>'


def line(points, colour=TEXT, dashes=""):
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.5" stroke-dasharray="{dashes}"/>'


def arrow(x1, y, x2):
    tip = f'<polygon points="{x2},{y} {x2 - 7},{y - 4} {x2 - 7},{y + 4}" fill="{TEXT}"/>'
    return line([(x1, y), (x2 - 6, y)]) + tip


def shares():
    """One step of resnet18 of the examples: five V100, two P100 and two T4 share a batch of 512."""
    speeds = {"V100": 644, "P100": 420, "T4": 275}
    parts = []
    for place, (title, batches) in enumerate(
        [("equal local batches", {"V100": 57, "P100": 57, "T4": 57}), ("local batches in proportion to speed", {"V100": 72, "P100": 46, "T4": 30})]
    ):
        top = 34 + place * 128
        parts.append(text(12, top - 12, title))
        last = max(batches[name] / speeds[name] for name in speeds)
        for row, (name, speed) in enumerate(speeds.items()):
            y, time = top + row * 28, batches[name] / speed
            parts += [text(56, y + 16, name, "end"), box(64, y, time * 2000, 22, BLUE), box(64 + time * 2000, y, (last - time) * 2000, 22, GREY)]
            parts.append(text(72, y + 15, f"{batches[name]} samples", fill="white"))
        x = 64 + last * 2000
        parts += [line([(x, top - 6), (x, top + 84)], ORANGE), text(x + 6, top + 46, f"step: {last * 1000:.0f} ms")]
    parts.append(text(64, 278, "blue: computes; grey: waits for the all-reduce"))
    svg("shares.svg", 600, 290, parts)


def bound():
    """What a plan, its bound and the gap between them say."""
    parts = [line([(40, 70), (560, 70)])]
    for x, name, colour in [(170, "bound", GREEN), (230, "best plan", GREY), (310, "plan found", BLUE), (470, "another policy", GREY)]:
        parts += [box(x - 4, 58, 8, 24, colour, 2), text(x, 48, name, "middle")]
    parts += [
        text(560, 100, "mean completion time", "end"),
        line([(170, 92), (170, 106), (310, 106), (310, 92)], ORANGE),
        text(240, 124, "gap: at most this far from the best plan", "middle"),
        text(40, 26, "no plan is here"),
        line([(40, 70), (166, 70)], ORANGE, "4 4"),
    ]
    svg("bound.svg", 600, 140, parts)


def futures():
    """Many futures of one queue, and the estimate that they make."""
    parts = [text(12, 22, "futures: each running job ends, and new jobs arrive, as in the past")]
    starts = [120, 150, 155, 185, 205, 240, 250, 310]
    for row, start in enumerate(starts):
        y = 34 + row * 18
        parts += [box(60, y, start - 60, 12, GREY, 2), box(start, y, 150, 12, BLUE, 2)]
    y = 196
    parts += [
        box(starts[0], y, starts[-2] - starts[0], 12, "#f5c58e", 2),
        box(190, y, 3, 12, ORANGE, 1),
        text(12, y + 11, "start"),
        text(starts[-2] + 10, y + 11, "median and 80 % interval of the starts"),
        text(12, y + 40, "grey: pending; blue: running. Past estimates and starts correct the interval."),
    ]
    svg("futures.svg", 600, 250, parts)


def turn():
    """A turn of watch, and where it can be killed."""
    steps = [("look", "squeue, sinfo, reports"), ("decide", "policy, no side effects"), ("write", "intents, to disk"), ("act", "sbatch, scancel"), ("write", "answers, to disk")]
    parts = []
    for place, (name, what) in enumerate(steps):
        x = 12 + place * 150
        parts += [box(x, 30, 124, 48, GREEN if name == "write" else BLUE), text(x + 62, 51, name, "middle", "white"), text(x + 62, 68, what, "middle", "white")]
        if place:
            parts.append(arrow(x - 26, 54, x))
    parts += [
        text(12, 104, "killed before the first write: nothing has happened"),
        text(312, 104, "killed after it: the next turn searches the queue for each intent by its comment"),
        text(12, 20, "one turn"),
    ]
    svg("turn.svg", 770, 116, parts)


shares()
bound()
futures()
turn()
