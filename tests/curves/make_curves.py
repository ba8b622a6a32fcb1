#!/usr/bin/env python3
"""Trains small models on the data that scikit-learn ships and writes their learning curves, one JSON line each.

    python3 make_curves.py classic OUT.jsonl    # needs scikit-learn; also writes OUT.npz with the data, scaled and split
    python3 make_curves.py nets OUT.jsonl       # appends; needs PyTorch and the OUT.npz of the first command

Each curve has a different model, data set, schedule or size; no two differ only in the seed. The grids are written down
here as they were first drawn up. No curve was left out for what it looked like, except those that diverge before the
sixth value.
"""

import itertools
import json
import math
import sys
import time
import warnings

import numpy as np

warnings.filterwarnings("ignore")


def record(out, family, data, setting, metric, mode, epochs, values, started, seed, steps=()):
    """Writes a curve of at least six values. A value that is not finite or is beyond 1e9 or -1e9 ends it (the training diverged)."""
    kept = []
    for value in values:
        if not math.isfinite(value) or abs(value) > 1e9:
            break
        kept.append(float(f"{value:.6g}"))
    if len(kept) < 6:
        return
    line = {"family": family, "data": data, "setting": setting, "seed": seed, "metric": metric, "mode": mode,
            "epochs": epochs, "steps": list(steps), "epoch_s": float(f"{(time.time() - started) / epochs:.3g}"),
            "diverged": len(kept) < epochs or values[-1] > 1.2 * values[0] and mode == "min", "values": kept}
    out.write(json.dumps(line) + "\n")
    out.flush()


# ---------------------------------------------------------------- models of scikit-learn


def classic(path):
    from sklearn import datasets
    from sklearn.model_selection import train_test_split
    from sklearn.preprocessing import StandardScaler

    tasks = {}
    for name in ("digits", "wine", "iris", "breast_cancer", "diabetes"):
        x, y = getattr(datasets, f"load_{name}")(return_X_y=True)
        stratify = None if name == "diabetes" else y
        a, b, ya, yb = train_test_split(x, y, test_size=0.3, random_state=0, stratify=stratify)
        scale = StandardScaler().fit(a)
        if name == "diabetes":
            mean, spread = ya.mean(), ya.std()
            ya, yb = (ya - mean) / spread, (yb - mean) / spread
        tasks[name] = scale.transform(a), scale.transform(b), ya, yb
    np.savez_compressed(path.replace(".jsonl", ".npz"),
                        **{f"{name}_{part}": value for name, own in tasks.items() for part, value in zip("abyz", own)})
    seeds = itertools.count(1)
    with open(path, "w") as out:
        for name, task in tasks.items():
            if name == "diabetes":
                regressors(out, task, seeds)
            else:
                classifiers(out, name, task, seeds)


def classifiers(out, name, task, seeds):
    from sklearn.ensemble import AdaBoostClassifier, ExtraTreesClassifier, GradientBoostingClassifier
    from sklearn.kernel_approximation import RBFSampler
    from sklearn.linear_model import SGDClassifier
    from sklearn.metrics import accuracy_score, log_loss
    from sklearn.naive_bayes import GaussianNB
    from sklearn.neural_network import MLPClassifier

    a, b, y, z = task
    classes = np.unique(y)

    def online(family, setting, model, epochs, metric, x=a, xt=b, seed=0):
        started, values, rng = time.time(), [], np.random.default_rng(seed)
        for _ in range(epochs):
            order = rng.permutation(len(x))
            model.partial_fit(x[order], y[order], classes=classes)
            values.append(log_loss(z, model.predict_proba(xt), labels=classes) if metric == "val_loss"
                          else accuracy_score(z, model.predict(xt)))
        record(out, family, name, setting, metric, "min" if metric == "val_loss" else "max", epochs, values, started, seed)

    for alpha, rate, epochs in ((1e-4, 0.01, 60), (1e-2, 0.001, 90)):
        seed = next(seeds)
        model = SGDClassifier(loss="log_loss", alpha=alpha, learning_rate="constant", eta0=rate, random_state=seed)
        online("logistic regression", f"alpha {alpha}, rate {rate}", model, epochs, "val_loss", seed=seed)
    for alpha, epochs in ((1e-3, 40), (1e-1, 80)):
        seed = next(seeds)
        model = SGDClassifier(loss="hinge", alpha=alpha, random_state=seed)
        online("linear svm", f"alpha {alpha}, optimal", model, epochs, "val_accuracy", seed=seed)
    for width, solver, rate, metric, epochs in (
            ((32,), "adam", 1e-3, "val_loss", 60), ((64, 64), "adam", 3e-3, "val_accuracy", 40),
            ((16,), "sgd", 0.02, "val_loss", 100), ((128, 32), "sgd", 0.05, "val_accuracy", 50),
            ((8, 8, 8), "adam", 1e-2, "val_loss", 80)):
        seed = next(seeds)
        model = MLPClassifier(width, solver=solver, learning_rate_init=rate, random_state=seed, batch_size=32)
        family = "mlp, adam" if solver == "adam" else "mlp, momentum"
        online(family, f"{width}, rate {rate}", model, epochs, metric, seed=seed)
    for gamma, parts in ((0.02, 200), (0.1, 400)):
        seed = next(seeds)
        features = RBFSampler(gamma=gamma, n_components=parts, random_state=seed).fit(a)
        model = SGDClassifier(loss="log_loss", learning_rate="invscaling", eta0=0.1, power_t=0.3, random_state=seed)
        online("random features", f"gamma {gamma}, {parts}", model, 60, "val_loss", features.transform(a),
               features.transform(b), seed)
    for rate, depth, trees in ((0.1, 2, 80), (0.03, 3, 120), (0.5, 1, 60)):
        seed, started = next(seeds), time.time()
        model = GradientBoostingClassifier(learning_rate=rate, max_depth=depth, n_estimators=trees, subsample=0.7,
                                           random_state=seed).fit(a, y)
        values = [log_loss(z, p, labels=classes) for p in model.staged_predict_proba(b)]
        record(out, "gradient boosting", name, f"rate {rate}, depth {depth}", "val_loss", "min", trees, values, started, seed)
    seed, started = next(seeds), time.time()
    model = AdaBoostClassifier(n_estimators=60, learning_rate=0.5, random_state=seed).fit(a, y)
    values = [accuracy_score(z, p) for p in model.staged_predict(b)]
    values += [values[-1]] * (60 - len(values))
    record(out, "adaboost", name, "rate 0.5", "val_accuracy", "max", 60, values, started, seed)
    for depth in (3, 8):
        seed, started, values = next(seeds), time.time(), []
        model = ExtraTreesClassifier(n_estimators=1, max_depth=depth, warm_start=True, random_state=seed)
        for trees in range(1, 61):
            model.set_params(n_estimators=trees).fit(a, y)
            values.append(log_loss(z, model.predict_proba(b), labels=classes))
        record(out, "extra trees", name, f"depth {depth}", "val_loss", "min", 60, values, started, seed)
    # Each step adds a block of samples: a learning curve over data, as seen by online learners.
    seed, started, values = next(seeds), time.time(), []
    order, model = np.random.default_rng(seed).permutation(len(a)), GaussianNB(var_smoothing=1e-2)
    for block in np.array_split(order, 40):
        model.partial_fit(a[block], y[block], classes=classes)
        values.append(accuracy_score(z, model.predict(b)))
    record(out, "naive bayes, online", name, "40 blocks", "val_accuracy", "max", 40, values, started, seed)


def regressors(out, task, seeds):
    from sklearn.ensemble import ExtraTreesRegressor, GradientBoostingRegressor
    from sklearn.linear_model import SGDRegressor
    from sklearn.metrics import mean_squared_error
    from sklearn.neural_network import MLPRegressor

    a, b, y, z = task

    def online(family, setting, model, epochs, seed):
        started, values, rng = time.time(), [], np.random.default_rng(seed)
        for _ in range(epochs):
            order = rng.permutation(len(a))
            model.partial_fit(a[order], y[order])
            predicted = model.predict(b)
            values.append(mean_squared_error(z, predicted) if np.isfinite(predicted).all() else math.inf)
        record(out, family, "diabetes", setting, "val_mse", "min", epochs, values, started, seed)

    # The last three rates are too high: these trainings diverge slowly or fast.
    for rate, epochs in ((1e-4, 90), (1e-3, 60), (1e-2, 60), (0.06, 40), (0.1, 40), (0.2, 40)):
        seed = next(seeds)
        model = SGDRegressor(learning_rate="constant", eta0=rate, random_state=seed, max_iter=1)
        online("linear regression", f"rate {rate}", model, epochs, seed)
    for width, solver, rate, epochs in (((32,), "adam", 1e-3, 60), ((64, 64), "adam", 1e-3, 40),
                                        ((16,), "sgd", 1e-3, 100), ((64, 16), "sgd", 1e-2, 60)):
        seed = next(seeds)
        model = MLPRegressor(hidden_layer_sizes=width, solver=solver, learning_rate_init=rate, random_state=seed, batch_size=32, alpha=0.1)
        online("mlp, adam" if solver == "adam" else "mlp, momentum", f"{width}, rate {rate}", model, epochs, seed)
    for rate, depth, trees in ((0.1, 2, 80), (0.03, 3, 120), (0.3, 1, 60), (0.02, 4, 150)):
        seed, started = next(seeds), time.time()
        model = GradientBoostingRegressor(learning_rate=rate, max_depth=depth, n_estimators=trees, subsample=0.7,
                                          random_state=seed).fit(a, y)
        values = [mean_squared_error(z, p) for p in model.staged_predict(b)]
        record(out, "gradient boosting", "diabetes", f"rate {rate}, depth {depth}", "val_mse", "min", trees, values, started, seed)
    for depth in (3, 6, 12):
        seed, started, values = next(seeds), time.time(), []
        model = ExtraTreesRegressor(n_estimators=1, max_depth=depth, warm_start=True, random_state=seed)
        for trees in range(1, 61):
            model.set_params(n_estimators=trees).fit(a, y)
            values.append(mean_squared_error(z, model.predict(b)))
        record(out, "extra trees", "diabetes", f"depth {depth}", "val_mse", "min", 60, values, started, seed)


# ---------------------------------------------------------------- nets of PyTorch


def nets(path):
    import torch
    from torch import nn
    from torch.nn import functional as F

    torch.set_num_threads(1)
    saved = np.load(path.replace(".jsonl", ".npz"))
    seeds = itertools.count(1001)

    class Rows(nn.Module):
        """Reads a picture row by row."""

        def __init__(self, cell, width, classes):
            super().__init__()
            self.cell, self.last = cell(8, width, batch_first=True), nn.Linear(width, classes)

        def forward(self, x):
            return self.last(self.cell(x.reshape(-1, 8, 8))[0][:, -1])

    class Attention(nn.Module):
        def __init__(self, width, classes):
            super().__init__()
            self.first, self.place = nn.Linear(8, width), nn.Parameter(torch.zeros(8, width))
            layer = nn.TransformerEncoderLayer(width, 2, 2 * width, dropout=0.1, batch_first=True)
            self.layers, self.last = nn.TransformerEncoder(layer, 1), nn.Linear(width, classes)

        def forward(self, x):
            return self.last(self.layers(self.first(x.reshape(-1, 8, 8)) + self.place).mean(1))

    def mlp(inputs, width, depth, classes, dropout=0.0, norm=False):
        layers, size = [], inputs
        for _ in range(depth):
            layers += [nn.Linear(size, width)] + ([nn.BatchNorm1d(width)] if norm else []) + [nn.ReLU(), nn.Dropout(dropout)]
            size = width
        return nn.Sequential(*layers, nn.Linear(size, classes))

    def conv(width, classes):
        return nn.Sequential(nn.Unflatten(1, (1, 8, 8)), nn.Conv2d(1, width, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
                             nn.Conv2d(width, 2 * width, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
                             nn.Linear(8 * width, classes))

    class Copies(nn.Module):
        """An autoencoder: reproduces its input through a narrow layer."""

        def __init__(self, inputs, width):
            super().__init__()
            self.net = nn.Sequential(nn.Linear(inputs, width), nn.Tanh(), nn.Linear(width, inputs))

        def forward(self, x):
            return self.net(x)

    def copies(out, name, width, rate, epochs, metric):
        seed = next(seeds)
        torch.manual_seed(seed)
        a, b, _, _ = tensors(name)
        net = Copies(a.shape[1], width)
        optimiser = torch.optim.Adam(net.parameters(), rate)
        started, values = time.time(), []
        for _ in range(epochs):
            total = 0.0
            for part in torch.randperm(len(a)).split(32):
                optimiser.zero_grad()
                loss = F.mse_loss(net(a[part]), a[part])
                loss.backward()
                optimiser.step()
                total += loss.item() * len(part)
            with torch.no_grad():
                values.append(total / len(a) if metric == "train_loss" else F.mse_loss(net(b), b).item())
        record(out, "autoencoder", name, f"width {width}, rate {rate}", metric, "min", epochs, values, started, seed)

    def tensors(name):
        a, b, y, z = (torch.tensor(saved[f"{name}_{part}"]) for part in "abyz")
        kind = torch.float32 if name == "diabetes" else torch.int64
        return a.float(), b.float(), y.to(kind), z.to(kind)

    def train(out, family, name, setting, build, epochs, metric, rate=0.05, steps=(), cosine=False, adam=False, decay=0.0, warm=0):
        seed = next(seeds)
        torch.manual_seed(seed)
        a, b, y, z = tensors(name)
        regression = name == "diabetes"
        net = build(a.shape[1], 1 if regression else int(y.max()) + 1)
        loss_of = (lambda p, t: F.mse_loss(p[:, 0], t)) if regression else F.cross_entropy
        optimiser = (torch.optim.Adam(net.parameters(), rate, weight_decay=decay) if adam
                     else torch.optim.SGD(net.parameters(), rate, momentum=0.9, weight_decay=decay))
        schedule = (torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, epochs) if cosine
                    else torch.optim.lr_scheduler.LinearLR(optimiser, 0.05, 1.0, warm) if warm
                    else torch.optim.lr_scheduler.MultiStepLR(optimiser, list(steps), 0.1))
        started, values = time.time(), []
        for _ in range(epochs):
            net.train()
            total = 0.0
            for part in torch.randperm(len(a)).split(32):
                if len(part) < 2:
                    continue
                optimiser.zero_grad()
                loss = loss_of(net(a[part]), y[part])
                loss.backward()
                optimiser.step()
                total += loss.item() * len(part)
            schedule.step()
            net.eval()
            with torch.no_grad():
                p = net(b)
                values.append({"train_loss": total / len(a), "val_loss": loss_of(p, z).item(),
                               "val_accuracy": 0.0 if regression else (p.argmax(1) == z).float().mean().item()}[metric])
        mode = "max" if metric == "val_accuracy" else "min"
        record(out, family, name, setting, metric, mode, epochs, values, started, seed, steps)

    with open(path, "a") as out:
        for width, rate, metric, epochs in ((4, 0.01, "val_loss", 40), (8, 0.03, "val_accuracy", 30), (4, 0.003, "train_loss", 60),
                                            (8, 0.005, "val_accuracy", 60), (16, 0.002, "val_loss", 30)):
            train(out, "convolution", "digits", f"width {width}, rate {rate}", lambda i, c: conv(width, c), epochs, metric, rate)
        for cell in (nn.RNN, nn.GRU, nn.LSTM):
            for width, rate, metric, epochs in ((16, 3e-3, "val_loss", 50), (32, 1e-3, "val_accuracy", 60), (8, 5e-3, "train_loss", 70)):
                train(out, "recurrent", "digits", f"{cell.__name__} {width}, rate {rate}", lambda i, c: Rows(cell, width, c),
                      epochs, metric, rate, adam=True)
        for width, rate, metric in ((16, 2e-3, "val_loss"), (32, 1e-3, "val_accuracy"), (32, 3e-3, "train_loss"), (8, 3e-3, "val_accuracy")):
            train(out, "attention", "digits", f"width {width}, rate {rate}", lambda i, c: Attention(width, c), 50, metric, rate, adam=True)
        for name in ("digits", "wine", "iris", "breast_cancer", "diabetes"):
            score = "val_loss" if name == "diabetes" else "val_accuracy"
            for width, rate, steps, epochs, metric in (
                    (32, 0.02, (30, 45), 60, "val_loss"), (16, 0.1, (20,), 40, "train_loss"), (64, 0.05, (40, 60), 80, score),
                    (24, 0.2, (15, 30), 45, "train_loss")):
                train(out, "step schedule", name, f"width {width}, rate {rate}", lambda i, c: mlp(i, width, 1, c), epochs, metric,
                      rate, steps)
            for width, rate, epochs, metric in ((32, 0.05, 50, "val_loss"), (16, 0.02, 80, "train_loss"), (48, 0.1, 30, score)):
                train(out, "cosine schedule", name, f"width {width}, rate {rate}", lambda i, c: mlp(i, width, 2, c), epochs, metric,
                      rate, cosine=True)
            for width, rate, epochs, metric in ((64, 1e-3, 60, "val_loss"), (32, 3e-3, 90, "train_loss"), (64, 2e-3, 50, score)):
                train(out, "dropout", name, f"width {width}, rate {rate}", lambda i, c: mlp(i, width, 2, c, 0.4), epochs, metric,
                      rate, adam=True)
            for width, rate, epochs, metric in ((32, 0.01, 40, "val_loss"), (64, 0.003, 60, "train_loss"), (16, 0.05, 70, score)):
                train(out, "batch norm", name, f"width {width}, rate {rate}", lambda i, c: mlp(i, width, 2, c, norm=True), epochs, metric,
                      rate)
            for width, decay, epochs, metric in ((32, 0.01, 60, "val_loss"), (64, 0.05, 40, score)):
                train(out, "weight decay", name, f"width {width}, decay {decay}", lambda i, c: mlp(i, width, 1, c), epochs, metric,
                      0.02, decay=decay)
            copies(out, name, 3, 3e-3, 60, "val_loss")
            copies(out, name, 6, 1e-3, 90, "train_loss")
            for width, rate, epochs, metric in ((32, 0.05, 50, "train_loss"), (64, 0.02, 70, score)):
                train(out, "warm-up", name, f"width {width}, rate {rate}", lambda i, c: mlp(i, width, 2, c), epochs, metric,
                      rate, warm=10)
            # These rates are too high: the training becomes unstable, sometimes permanently.
            for rate, metric in ((0.9, "train_loss"), (1.5, "val_loss"), (4.0, "train_loss")):
                train(out, "rate too high", name, f"rate {rate}", lambda i, c: mlp(i, 16, 2, c), 40, metric, rate)


if __name__ == "__main__":
    {"classic": classic, "nets": nets}[sys.argv[1]](sys.argv[2])
