#!/usr/bin/env python3
"""Draws a plan as SVG: the GPUs of each node, coloured by job, with the batch of each rank.

usage: hsched plan JOBS --cluster FILE --format json | docs/pictures/draw_plan.py >plan.svg
"""

import json
import sys

COLOURS = ["#4c78a8", "#f58518", "#54a24b", "#b279a2", "#e45756", "#72b7b2"]
SIZE, GAP, LEFT, TOP = 46, 6, 90, 34


def main():
    plan = json.load(sys.stdin)
    jobs = {job["name"]: (COLOURS[place % len(COLOURS)], job) for place, job in enumerate(plan["jobs"])}
    ranks = {}
    for name, (_, job) in jobs.items():
        for rank in job["ranks"]:
            ranks.setdefault((rank["node"], rank["type"]), []).append((name, rank["batch"]))
    rows, widest = [], 0
    for node in plan["nodes"]:
        cells = []
        for gpus in node["gpus"]:
            taken = ranks.get((node["name"], gpus["type"]), [])
            cells += [(gpus["type"], *cell) for cell in taken + [("", "")] * (gpus["count"] - len(taken))]
        rows.append((node["name"], cells))
        widest = max(widest, len(cells))
    width = LEFT + widest * (SIZE + GAP) + 250
    height = TOP + len(rows) * (SIZE + GAP) + 16
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="sans-serif" font-size="12">',
             '<rect width="100%" height="100%" fill="white"/>',
             f'<text x="{LEFT}" y="20" fill="#333">each square is a GPU: its type, and its part of every global batch</text>']
    for row, (name, cells) in enumerate(rows):
        y = TOP + row * (SIZE + GAP)
        lines.append(f'<text x="{LEFT - 12}" y="{y + SIZE / 2 + 4}" text-anchor="end" fill="#333">node {name}</text>')
        for place, (gpu_type, job, batch) in enumerate(cells):
            x = LEFT + place * (SIZE + GAP)
            fill = jobs[job][0] if job else "#ddd"
            lines.append(f'<rect x="{x}" y="{y}" width="{SIZE}" height="{SIZE}" rx="5" fill="{fill}"/>')
            lines.append(f'<text x="{x + SIZE / 2}" y="{y + 18}" text-anchor="middle" fill="white">{gpu_type}</text>')
            lines.append(f'<text x="{x + SIZE / 2}" y="{y + 36}" text-anchor="middle" fill="white" font-weight="bold" font-size="14">{batch}</text>')
    x = LEFT + widest * (SIZE + GAP) + 20
    for place, (name, (colour, job)) in enumerate(jobs.items()):
        y = TOP + place * (SIZE + GAP)
        lines.append(f'<rect x="{x}" y="{y + 4}" width="14" height="14" rx="3" fill="{colour}"/>')
        lines.append(f'<text x="{x + 22}" y="{y + 16}" fill="#333" font-weight="bold">{name}</text>')
        done = f'{job["epoch_s"]:.2f} s per epoch, done in {job["jct_s"]:.1f} s'
        lines.append(f'<text x="{x + 22}" y="{y + 33}" fill="#333">{done}</text>')
    y = TOP + len(jobs) * (SIZE + GAP) + 16
    proof = "proven optimal" if plan["proven_optimal"] else f'at most {plan["gap"]:.1%} above the optimum'
    lines.append(f'<text x="{x}" y="{y}" fill="#333">mean completion time {plan["mean_jct_s"]:.1f} s,</text>')
    lines.append(f'<text x="{x}" y="{y + 17}" fill="#333">{proof}</text>')
    print("\n".join([*lines, "</svg>"]))


main()
