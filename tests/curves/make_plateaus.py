#!/usr/bin/env python3
"""Trains small networks on made-up tasks, on many of which the loss has plateaus, and writes their learning curves.

    OMP_NUM_THREADS=1 python3 make_plateaus.py OUT.jsonl      # needs NumPy, takes a few minutes

Thirty tasks of ten settings each: seven optimisers, mostly at a constant rate, some with a warm-up, a cosine or a linear
decay. Parameters are chosen on the first twenty tasks and measured on the other ten (`data` says which). The grids are
written down as they were first drawn up; no curve was left out for what it looked like, except those that end before
six epochs.
"""

import itertools
import sys
import time

import numpy as np

from make_curves import record

OPTIMISERS = ("sgd", "momentum", "nesterov", "adam", "adamw", "rmsprop", "adagrad")
SCHEDULES = ("constant", "constant", "constant", "cosine", "constant", "constant", "warm-up", "constant", "linear", "constant")
RATES = {"sgd": 0.2, "momentum": 0.03, "nesterov": 0.03, "adam": 0.004, "adamw": 0.004, "rmsprop": 0.002, "adagrad": 0.03}
FACTORS = (1.0, 0.3, 2.0)
CHOSEN_ON = 20
EPOCHS = (40, 60, 80, 50, 100)


# ---------------------------------------------------------------- data: inputs, labels (whole numbers) or targets (columns)


def parity(rng, bits, of, count):
    x = rng.choice([-1.0, 1.0], (count, of))
    return x, (x[:, :bits].prod(1) > 0).astype(int)


def spirals(rng, turns, count):
    label = rng.integers(0, 2, count)
    along = rng.uniform(0.1, 1.0, count)
    angle = turns * 2 * np.pi * along + np.pi * label
    x = np.stack([along * np.cos(angle), along * np.sin(angle)], 1)
    return 2 * x + rng.normal(0, 0.05, x.shape), label


def blobs(rng, classes, wide, wrong, count, odds=None):
    centres = rng.normal(0, 1, (classes, 10))
    label = rng.choice(classes, count, p=odds)
    x = centres[label] + rng.normal(0, wide, (count, 10))
    return x, np.where(rng.random(count) < wrong, rng.integers(0, classes, count), label)


def modular(rng, base, count):
    a, b = rng.integers(0, base, (2, count))
    return np.hstack([np.eye(base)[a], np.eye(base)[b]]), (a + b) % base


def stages(rng, sizes, count):
    """A linear map whose parts are learnt one after the other."""
    x = rng.normal(0, 1, (count, 8))
    turn = np.linalg.qr(rng.normal(0, 1, (8, 8)))[0]
    strengths = np.array([*sizes, *[0.0] * (8 - len(sizes))])
    return x, x @ (turn * strengths) @ np.linalg.qr(rng.normal(0, 1, (8, 8)))[0]


def waves(rng, often, noise, count):
    x = rng.uniform(-1, 1, (count, 1))
    return x, np.sin(often * np.pi * x) + rng.normal(0, noise, x.shape)


def teacher(rng, width, noise, count):
    x = rng.normal(0, 1, (count, 6))
    y = np.tanh(x @ rng.normal(0, 1, (6, width))) @ rng.normal(0, 1, (width, 1))
    return x, y / y.std() + rng.normal(0, noise, y.shape)


def rings(rng, count):
    x = rng.uniform(-1.5, 1.5, (count, 2))
    return x, (np.hypot(*x.T) * 3).astype(int) % 3


def lookup(rng, places, count):
    """The letter at the place that the first letter names."""
    code = rng.integers(0, places, (count, places + 1))
    return np.eye(places)[code].reshape(count, -1), code[np.arange(count), code[:, 0] + 1]


def copies(rng, count):
    """Patterns to be squeezed through a narrow layer."""
    x = np.eye(16)[rng.integers(0, 16, count)] + rng.normal(0, 0.1, (count, 16))
    return x, x


def product(rng, noise, count):
    x = rng.normal(0, 1, (count, 5))
    return x, x[:, :1] * x[:, 1:2] + noise * rng.normal(0, 1, (count, 1))


def majority(rng, of, count):
    x = rng.choice([-1.0, 1.0], (count, of))
    return x, (x.sum(1) > 0).astype(int)


def clauses(rng, count):
    x = rng.integers(0, 2, (count, 9))
    return 2.0 * x - 1, x.reshape(count, 3, 3).any(2).all(1).astype(int)


def quadratic(rng, noise, count):
    x = rng.normal(0, 1, (count, 5))
    y = np.einsum("ni,ij,nj->n", x, rng.normal(0, 0.3, (5, 5)), x)[:, None]
    return x, y / y.std() + noise * rng.normal(0, 1, (count, 1))


def digits(rng, base, count):
    """The sum of two small whole numbers."""
    a, b = rng.integers(0, base, (2, count))
    return np.hstack([np.eye(base)[a], np.eye(base)[b]]), a + b


def steps(rng, often, count):
    x = rng.uniform(-1, 1, (count, 1))
    return x, np.floor(often * x) % 2 + rng.normal(0, 0.1, x.shape)


def order(rng, count):
    """Which of three numbers is the middle one."""
    x = rng.normal(0, 1, (count, 3))
    return x, x.argsort(1)[:, 1]


def checkers(rng, side, count):
    x = rng.uniform(0, side, (count, 2))
    return x - side / 2, np.floor(x).sum(1).astype(int) % 2


def shifted(rng, count):
    """One of two patterns, anywhere on a ring."""
    label, place = rng.integers(0, 2, count), rng.integers(0, 12, count)
    pattern = np.array([[1, 1, 0, 1], [1, 0, 1, 1]])[label]
    x = rng.normal(0, 0.4, (count, 12))
    for part in range(4):
        x[np.arange(count), (place + part) % 12] += pattern[:, part]
    return x, label


def sparse(rng, of, count):
    x = rng.normal(0, 1, (count, of))
    return x, (x[:, 0] + x[:, 1] - x[:, 2] + rng.normal(0, 0.5, count) > 0).astype(int)


def decay(rng, noise, count):
    """The value of a damped oscillation."""
    x = rng.uniform(0, 1, (count, 3))
    y = np.exp(-2 * x[:, 0]) * np.cos(6 * x[:, 1] * x[:, 2])
    return x - 0.5, (y + noise * rng.normal(0, 1, count))[:, None]


def mixture(rng, count):
    """One of two linear maps; the last input says which."""
    x, which = rng.normal(0, 1, (count, 4)), rng.choice([-1.0, 1.0], (count, 1))
    return np.hstack([x, which]), which * (x @ np.array([[1.0], [-1.0], [0.5], [0.0]]))


# Name, data, hidden layers, activation, scale of the initial weights.
TASKS = (
    ("parity of 2", lambda r: parity(r, 2, 8, 500), (16,), "tanh", 1.0),
    ("parity of 3", lambda r: parity(r, 3, 8, 900), (32,), "relu", 1.0),
    ("deep linear", lambda r: stages(r, (3.0, 1.5, 0.7), 400), (8, 8), "linear", 0.25),
    ("linear", lambda r: stages(r, (2.0, 1.0, 0.5, 0.2), 300), (8,), "linear", 0.1),
    ("spirals", lambda r: spirals(r, 1.0, 500), (24, 24), "tanh", 1.0),
    ("spirals, long", lambda r: spirals(r, 1.6, 600), (32, 32), "relu", 1.0),
    ("blobs, wrong labels", lambda r: blobs(r, 5, 1.2, 0.2, 300), (48,), "relu", 1.0),
    ("blobs, wide", lambda r: blobs(r, 8, 1.0, 0.0, 500), (24,), "tanh", 1.0),
    ("sums modulo 7", lambda r: modular(r, 7, 500), (48,), "relu", 1.0),
    ("sums modulo 11", lambda r: modular(r, 11, 800), (64,), "relu", 1.0),
    ("waves", lambda r: waves(r, 2.0, 0.1, 300), (32,), "tanh", 1.0),
    ("waves, steep", lambda r: waves(r, 4.0, 0.1, 500), (32, 16), "tanh", 1.0),
    ("teacher", lambda r: teacher(r, 3, 0.1, 500), (16,), "tanh", 0.5),
    ("teacher, noisy", lambda r: teacher(r, 6, 0.7, 300), (48,), "relu", 1.0),
    ("rings", lambda r: rings(r, 600), (32, 16), "relu", 1.0),
    ("lookup", lambda r: lookup(r, 4, 800), (48,), "tanh", 1.0),
    ("copies", lambda r: copies(r, 300), (5,), "tanh", 0.3),
    ("product", lambda r: product(r, 0.1, 500), (24,), "tanh", 0.3),
    ("blobs, rare classes", lambda r: blobs(r, 4, 1.0, 0.05, 400, (0.85, 0.07, 0.05, 0.03)), (16,), "tanh", 0.5),
    ("majority", lambda r: majority(r, 15, 400), (32, 16), "relu", 0.5),
    # These tasks were added after all parameters had been chosen on the tasks above.
    ("and of ors", lambda r: clauses(r, 700), (24,), "relu", 1.0),
    ("quadratic", lambda r: quadratic(r, 0.2, 400), (32,), "relu", 1.0),
    ("two sums", lambda r: digits(r, 5, 600), (32, 16), "tanh", 0.7),
    ("steps", lambda r: steps(r, 5, 400), (32, 16), "tanh", 1.0),
    ("order", lambda r: order(r, 600), (32,), "tanh", 0.5),
    ("checkers", lambda r: checkers(r, 3, 800), (48, 24), "relu", 1.0),
    ("shifted patterns", lambda r: shifted(r, 500), (32,), "relu", 1.0),
    ("few features of many", lambda r: sparse(r, 60, 250), (16,), "tanh", 1.0),
    ("decay", lambda r: decay(r, 0.05, 400), (16, 8), "tanh", 0.4),
    ("mixture", lambda r: mixture(r, 500), (24,), "tanh", 0.3),
)


# ---------------------------------------------------------------- training


def forward(weights, x, kind):
    """Returns the outputs of each layer."""
    layers = [x]
    for number, (w, b) in enumerate(weights):
        out = layers[-1] @ w + b
        if number < len(weights) - 1 and kind != "linear":
            out = np.tanh(out) if kind == "tanh" else np.maximum(out, 0)
        layers.append(out)
    return layers


def loss_of(out, y):
    """Returns the mean loss and its derivative: cross-entropy of labels, the squared error of targets."""
    if y.ndim == 2:
        off = out - y
        return (off ** 2).mean(), 2 * off / off.size
    out = out - out.max(1, keepdims=True)
    logs = out - np.log(np.exp(out).sum(1, keepdims=True))
    rows = np.arange(len(y))
    slope = np.exp(logs)
    slope[rows, y] -= 1
    return -logs[rows, y].mean(), slope / len(y)


def gradients(weights, x, y, kind):
    layers = forward(weights, x, kind)
    loss, slope = loss_of(layers[-1], y)
    own = []
    for number in reversed(range(len(weights))):
        own.append((layers[number].T @ slope, slope.sum(0)))
        slope = slope @ weights[number][0].T
        if number and kind == "tanh":
            slope = slope * (1 - layers[number] ** 2)
        elif number and kind == "relu":
            slope = slope * (layers[number] > 0)
    return loss, own[::-1]


def step(name, w, g, memory, rate, at):
    """Changes an array by one step of the optimiser; `memory` is its state."""
    first, second = memory
    if name == "sgd":
        w -= rate * g
    elif name in ("momentum", "nesterov"):
        first *= 0.9
        first += g
        w -= rate * (g + 0.9 * first if name == "nesterov" else first)
    elif name == "adagrad":
        second += g * g
        w -= rate * g / (np.sqrt(second) + 1e-8)
    elif name == "rmsprop":
        second *= 0.99
        second += 0.01 * g * g
        w -= rate * g / (np.sqrt(second) + 1e-8)
    else:
        first *= 0.9
        first += 0.1 * g
        second *= 0.999
        second += 0.001 * g * g
        if name == "adamw":
            w -= rate * 0.05 * w
        w -= rate * (first / (1 - 0.9 ** at)) / (np.sqrt(second / (1 - 0.999 ** at)) + 1e-8)


def at_epoch(schedule, epoch, epochs):
    """Returns the factor of the learning rate in an epoch, counted from 0."""
    part = epoch / epochs
    return {"constant": 1.0, "cosine": (1 + np.cos(np.pi * part)) / 2, "linear": 1 - part,
            "warm-up": min(1.0, (epoch + 1) / 5)}[schedule]


def train(out, number, setting, seed):
    name, data, hidden, kind, scale = TASKS[number]
    rng = np.random.default_rng(seed)
    optimiser = OPTIMISERS[(setting + 3 * number) % len(OPTIMISERS)]
    schedule, epochs = SCHEDULES[setting], EPOCHS[(setting + number) % len(EPOCHS)]
    rate = RATES[optimiser] * FACTORS[(setting + number) % len(FACTORS)]
    batch = (16, 32, 64)[(setting // 3) % 3]
    x, y = data(rng)
    cut = len(x) * 2 // 3
    metric = "val_accuracy" if y.ndim == 1 and setting % 3 == 1 else "train_loss" if setting % 5 == 3 else "val_loss"
    widths = [x.shape[1], *hidden, y.shape[1] if y.ndim == 2 else y.max() + 1]
    weights = [(rng.normal(0, scale / np.sqrt(a), (a, b)), np.zeros(b)) for a, b in itertools.pairwise(widths)]
    memory = [[(np.zeros_like(own), np.zeros_like(own)) for own in pair] for pair in weights]
    values, started, at = [], time.time(), 0
    for epoch in range(epochs):
        now, total = rate * at_epoch(schedule, epoch, epochs), 0.0
        order = rng.permutation(cut)
        for rows in np.split(order, range(batch, cut, batch)):
            loss, slopes = gradients(weights, x[rows], y[rows], kind)
            total += loss * len(rows)
            at += 1
            for pair, slope, kept in zip(weights, slopes, memory):
                for w, g, own in zip(pair, slope, kept):
                    step(optimiser, w, g, own, now, at)
        result = forward(weights, x[cut:], kind)[-1]
        value = (total / cut if metric == "train_loss" else loss_of(result, y[cut:])[0] if metric == "val_loss"
                 else (result.argmax(1) == y[cut:]).mean())
        values.append(float(f"{value:.4g}"))
    record(out, name, "choose" if number < CHOSEN_ON else "measure", f"{optimiser}, {schedule}, rate {rate:g}, batch {batch}", metric,
           "max" if metric == "val_accuracy" else "min", epochs, values, started, seed)


def main():
    np.seterr(all="ignore")
    with open(sys.argv[1], "w") as out:
        for setting, number in itertools.product(range(10), range(len(TASKS))):
            train(out, number, setting, 7001 + number + 100 * setting)


if __name__ == "__main__":
    main()
