#!/usr/bin/env python3
"""Trains small models of other kinds on other data and writes their learning curves, one JSON line each.

    python3 make_fresh.py OUT.jsonl FOLDER      # needs PyTorch and Pillow

FOLDER holds what the wheels of scikit-learn and statsmodels have under sklearn/datasets and statsmodels/datasets; the
texts are a licence that Debian ships and a module of Python. No parameter was chosen on these curves: they came after
BAND and the numbers of reports in a row (crates/plan/src/curve). The grids are those of the first draft.
"""

import csv
import inspect
import itertools
import sys
import time

import numpy as np
import torch
from PIL import Image
from torch import nn
from torch.nn import functional as F

from make_curves import record

torch.set_num_threads(1)
SEEDS = itertools.count(5001)


def fit(out, family, data, setting, metric, mode, epochs, build, steps=()):
    """Trains what `build` returns: an optimiser, a function that trains an epoch, and one that returns the metric."""
    seed = next(SEEDS)
    torch.manual_seed(seed)
    started, values = time.time(), []
    optimiser, epoch, measure = build()
    schedule = torch.optim.lr_scheduler.MultiStepLR(optimiser, list(steps), 0.1)
    for _ in range(epochs):
        loss = epoch(optimiser)
        schedule.step()
        with torch.no_grad():
            values.append(loss if metric == "train_loss" else measure())
    record(out, family, data, setting, metric, mode, epochs, values, started, seed, steps)


def passing(count, batch, loss):
    """Returns a function that trains an epoch: all items once, in random batches. `loss` takes the indices of items."""
    def epoch(optimiser):
        total = 0.0
        for part in torch.randperm(count).split(batch):
            optimiser.zero_grad()
            value = loss(part)
            value.backward()
            optimiser.step()
            total += value.item() * len(part)
        return total / count
    return epoch


def supervised(net, loss, train, test, rate, batch, adam=True, score=None):
    """Returns the argument `build` of `fit` for an ordinary training."""
    def build():
        own = net()
        kind = torch.optim.Adam if adam else lambda p, r: torch.optim.SGD(p, r, momentum=0.9)
        epoch = passing(len(train[0]), batch, lambda part: loss(own(train[0][part]), train[1][part]))
        return kind(own.parameters(), rate), epoch, lambda: (score or loss)(own(test[0]), test[1]).item()
    return build


# ---------------------------------------------------------------- data


def letters(text, length, count):
    """Returns windows of a text and the letter after each, to train and to test, and the size of the alphabet."""
    alphabet = {letter: number for number, letter in enumerate(sorted(set(text)))}
    codes = torch.tensor([alphabet[letter] for letter in text])
    rng = np.random.default_rng(0)
    starts = torch.tensor(rng.choice(len(codes) - length - 1, count, replace=False))
    x = torch.stack([codes[at:at + length] for at in starts])
    y = codes[starts + length]
    cut = count * 3 // 4
    return (x[:cut], y[:cut]), (x[cut:], y[cut:]), len(alphabet)


def table(path, target, columns=None):
    """Returns the rows of a table, scaled and split; the target is a column's name."""
    with open(path) as file:
        rows = list(csv.DictReader(file))
    names = [name for name in rows[0] if name != target and (columns is None or name in columns)]
    x = np.array([[float(row[name]) for name in names] for row in rows], dtype=np.float32)
    y = np.array([float(row[target]) for row in rows], dtype=np.float32)
    order = np.random.default_rng(0).permutation(len(x))[:3000]
    x, y = x[order], y[order]
    x = (x - x.mean(0)) / (x.std(0) + 1e-6)
    cut = len(x) * 3 // 4
    parts = [torch.tensor(part) for part in (x[:cut], y[:cut], x[cut:], y[cut:])]
    return (parts[0], parts[1]), (parts[2], parts[3])


def picture(path, size):
    image = Image.open(path).convert("RGB").resize((size, size))
    return torch.tensor(np.asarray(image), dtype=torch.float32) / 255


def patches(image, side, count):
    rng = np.random.default_rng(1)
    corners = rng.integers(0, len(image) - side, (count, 2))
    all_ = torch.stack([image[a:a + side, b:b + side].mean(2).reshape(-1) for a, b in corners])
    return all_[:count * 3 // 4], all_[count * 3 // 4:]


def series(values, length):
    values = np.asarray(values, dtype=np.float32)
    values = torch.tensor((values - values.mean()) / values.std())
    x = torch.stack([values[at:at + length] for at in range(len(values) - length)])
    y = values[length:]
    cut = len(x) * 3 // 4
    return (x[:cut], y[:cut]), (x[cut:], y[cut:])


# ---------------------------------------------------------------- models


class Language(nn.Module):
    """The next letter from those before: a window, a gated recurrence, dilated convolutions, or attention."""

    def __init__(self, kind, alphabet, length, width):
        super().__init__()
        self.kind, self.place = kind, nn.Parameter(torch.zeros(length, width))
        self.embed, self.last = nn.Embedding(alphabet, width), nn.Linear(width, alphabet)
        if kind == "window":
            self.body = nn.Sequential(nn.Flatten(), nn.Linear(length * width, width), nn.Tanh())
        elif kind == "gru":
            self.body = nn.GRU(width, width, batch_first=True)
        elif kind == "dilated":
            self.body = nn.Sequential(nn.Conv1d(width, width, 2), nn.ReLU(), nn.Conv1d(width, width, 2, dilation=2), nn.ReLU())
        else:
            self.body = nn.TransformerEncoderLayer(width, 2, 2 * width, dropout=0.0, batch_first=True)

    def forward(self, x):
        x = self.embed(x)
        if self.kind == "window":
            x = self.body(x)
        elif self.kind == "gru":
            x = self.body(x)[0][:, -1]
        elif self.kind == "dilated":
            x = self.body(x.transpose(1, 2))[:, :, -1]
        else:
            x = self.body(x + self.place)[:, -1]
        return self.last(x)


class Waves(nn.Module):
    """A picture from coordinates, with sines of random frequencies."""

    def __init__(self, scale, width):
        super().__init__()
        self.register_buffer("waves", torch.randn(2, 16) * scale)
        self.net = nn.Sequential(nn.Linear(32, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 3))

    def forward(self, x):
        x = x @ self.waves
        return self.net(torch.cat([x.sin(), x.cos()], 1))


def variational(train, test, width, rate):
    """A variational autoencoder of patches."""
    def build():
        size = train.shape[1]
        into, out = nn.Linear(size, 2 * width), nn.Sequential(nn.Linear(width, 64), nn.ReLU(), nn.Linear(64, size))
        both = nn.ModuleList([into, out])
        def loss(x):
            mean, spread = into(x).chunk(2, 1)
            again = out(mean + torch.randn_like(mean) * (spread / 2).exp())
            return F.mse_loss(again, x, reduction="sum") / len(x) * 10 + 0.5 * (mean ** 2 + spread.exp() - 1 - spread).sum(1).mean()
        epoch = passing(len(train), 64, lambda part: loss(train[part]))
        return torch.optim.Adam(both.parameters(), rate), epoch, lambda: loss(test).item()
    return build


def skipgram(text, width, rate):
    """Embeddings of words by their neighbours, against words drawn at random."""
    words = text.lower().split()
    vocabulary = {word: number for number, word in enumerate(sorted(set(words)))}
    codes = torch.tensor([vocabulary[word] for word in words])
    pairs = torch.cat([torch.stack([codes[:-gap], codes[gap:]], 1) for gap in (1, 2)])
    def build():
        one, other = nn.Embedding(len(vocabulary), width), nn.Embedding(len(vocabulary), width)
        both = nn.ModuleList([one, other])
        def loss(part):
            noise = codes[torch.randint(len(codes), (len(part), 4))]
            near = (one(part[:, 0]) * other(part[:, 1])).sum(1)
            far = (one(part[:, 0])[:, None] * other(noise)).sum(2)
            return -F.logsigmoid(near).mean() - F.logsigmoid(-far).sum(1).mean()
        epoch = passing(len(pairs), 512, lambda part: loss(pairs[part]))
        return torch.optim.Adam(both.parameters(), rate), epoch, lambda: loss(pairs).item()
    return build


def accuracy(p, t):
    return (p.argmax(1) == t).float().mean()


def main(path, folder):
    texts = {"licence": open("/usr/share/common-licenses/GPL-3").read(), "python": inspect.getsource(__import__("argparse"))[:40000]}
    with open(path, "w") as out:
        for name, text in texts.items():
            train, test, alphabet = letters(text, 12, 4000)
            grid = [("window", 16, 3e-3, 40, "val_loss"), ("window", 32, 1e-3, 60, "val_accuracy"), ("gru", 32, 3e-3, 30, "val_loss"),
                    ("gru", 16, 1e-2, 40, "train_loss"), ("attention", 32, 2e-3, 30, "val_accuracy"), ("attention", 16, 5e-3, 40, "train_loss"),
                    ("dilated", 24, 3e-3, 50, "val_loss"), ("dilated", 16, 1e-2, 40, "val_accuracy")]
            for kind, width, rate, epochs, metric in grid:
                fit(out, f"letters, {kind}", name, f"width {width}, rate {rate}", metric, "max" if "accuracy" in metric else "min", epochs,
                    supervised(lambda: Language(kind, alphabet, 12, width), F.cross_entropy, train, test, rate, 64,
                               score=accuracy if "accuracy" in metric else None))
            for width, rate, steps, epochs in ((32, 1e-2, (20, 32), 40), (24, 3e-2, (15,), 36)):
                fit(out, "letters, steps", name, f"width {width}, rate {rate}", "val_loss", "min", epochs,
                    supervised(lambda: Language("window", alphabet, 12, width), F.cross_entropy, train, test, rate, 64, adam=True), steps)
            for width, rate, epochs in ((8, 1e-2, 40), (24, 3e-3, 60)):
                fit(out, "word embeddings", name, f"width {width}, rate {rate}", "train_loss", "min", epochs, skipgram(text[:20000], width, rate))
        for name in ("china", "flower"):
            image = picture(f"{folder}/sklearn/datasets/images/{name}.jpg", 48)
            grid = torch.stack(torch.meshgrid(torch.linspace(-1, 1, 48), torch.linspace(-1, 1, 48), indexing="ij"), 2).reshape(-1, 2)
            colours, order = image.reshape(-1, 3), torch.tensor(np.random.default_rng(2).permutation(48 * 48))
            (a, b) = order[:1728], order[1728:]
            for scale, width, rate, epochs, metric in ((3, 32, 3e-3, 50, "val_loss"), (8, 64, 1e-3, 60, "train_loss"), (1, 32, 1e-2, 80, "val_loss")):
                fit(out, "picture from coordinates", name, f"scale {scale}, width {width}, rate {rate}", metric, "min", epochs,
                    supervised(lambda: Waves(scale, width), F.mse_loss, (grid[a], colours[a]), (grid[b], colours[b]), rate, 64))
            train, test = patches(picture(f"{folder}/sklearn/datasets/images/{name}.jpg", 128), 8, 3000)
            for width, rate, epochs, metric in ((4, 3e-3, 40, "val_loss"), (8, 1e-3, 60, "train_loss")):
                fit(out, "variational autoencoder", name, f"width {width}, rate {rate}", metric, "min", epochs, variational(train, test, width, rate))
            for width, noise, epochs, metric in ((64, 0.1, 50, "val_loss"), (32, 0.3, 40, "train_loss")):
                noisy, noisy_test = train + noise * torch.randn_like(train), test + noise * torch.randn_like(test)
                fit(out, "denoising", name, f"width {width}, noise {noise}", metric, "min", epochs,
                    supervised(lambda: nn.Sequential(nn.Linear(64, width), nn.GELU(), nn.Linear(width, 64)), F.mse_loss,
                               (noisy, train), (noisy_test, test), 2e-3, 64))
        tables = {"visits": (f"{folder}/statsmodels/datasets/randhie/randhie.csv", "mdvis"),
                  "affairs": (f"{folder}/statsmodels/datasets/fair/fair.csv", "rate_marriage")}
        poisson = lambda p, t: F.poisson_nll_loss(p[:, 0], t)
        huber = lambda p, t: F.smooth_l1_loss(p[:, 0], t)
        for name, (file, target) in tables.items():
            train, test = table(file, target)
            size = train[0].shape[1]
            for rate, adam, epochs, metric in ((1e-3, True, 60, "val_loss"), (1e-3, False, 40, "train_loss"), (3e-2, True, 40, "val_loss"),
                                               (3e-2, False, 40, "train_loss")):
                fit(out, "poisson regression", name, f"rate {rate}, adam {adam}", metric, "min", epochs,
                    supervised(lambda: nn.Linear(size, 1), poisson, train, test, rate, 64, adam))
            for width, rate, epochs, metric in ((16, 1e-3, 60, "val_loss"), (64, 3e-3, 50, "train_loss"), (32, 3e-2, 40, "val_loss")):
                fit(out, "robust regression", name, f"width {width}, rate {rate}", metric, "min", epochs,
                    supervised(lambda: nn.Sequential(nn.Linear(size, width), nn.SiLU(), nn.Linear(width, 1)), huber, train, test, rate, 64))
        with open(f"{folder}/statsmodels/datasets/sunspots/sunspots.csv") as file:
            spots = [float(row["SUNACTIVITY"]) for row in csv.DictReader(file)]
        with open(f"{folder}/statsmodels/datasets/elnino/elnino.csv") as file:
            warmth = [float(value) for row in csv.reader(file) if row[0].isdigit() for value in row[1:]]
        for name, values in (("sunspots", spots), ("sea warmth", warmth)):
            train, test = series(values, 16)
            square = lambda p, t: F.mse_loss(p[:, 0], t)
            for rate, epochs, metric in ((1e-3, 80, "val_loss"), (1e-2, 50, "train_loss")):
                fit(out, "forecast, linear", name, f"rate {rate}", metric, "min", epochs,
                    supervised(lambda: nn.Linear(16, 1), square, train, test, rate, 16))
            for width, rate, epochs, metric in ((8, 3e-3, 60, "val_loss"), (32, 1e-3, 90, "train_loss"), (16, 1e-2, 50, "val_loss")):
                fit(out, "forecast, convolution", name, f"width {width}, rate {rate}", metric, "min", epochs,
                    supervised(lambda: nn.Sequential(nn.Unflatten(1, (1, 16)), nn.Conv1d(1, width, 5), nn.ReLU(), nn.Flatten(), nn.Linear(12 * width, 1)),
                               square, train, test, rate, 16))
            # This rate is too high.
            fit(out, "forecast, too fast", name, "rate 0.3", "train_loss", "min", 40,
                supervised(lambda: nn.Linear(16, 1), square, train, test, 0.3, 16, False))


if __name__ == "__main__":
    main(*sys.argv[1:])
