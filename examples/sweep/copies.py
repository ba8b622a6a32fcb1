#!/usr/bin/env python3
"""A small real training for copies: a convolutional network with BatchNorm learns to tell digits apart.

Nothing is downloaded: 1797 pictures of 8 by 8 pixels for training and 2000 for the test are drawn. Runs in a job of hsched, as several
copies or as one process, and alone.
"""
import argparse
import time
from typing import Any, Tuple

import torch
from torch.utils.data import DataLoader, TensorDataset

import hsched_ddp
from digits import SIDE, draw


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--global-batch", type=int, default=32, help="used if hsched does not set it")
    parser.add_argument("--epochs", type=int, default=12, help="used if hsched does not set it")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--lr", type=float, default=0.05)
    parser.add_argument("--optimizer", choices=["sgd", "adam"], default="sgd")
    parser.add_argument("--step-ms", type=float, default=0.0, help="time to sleep in every step, for GPUs that are not there")
    parser.add_argument("--slow", action="append", default=[], metavar="TYPE=FACTOR", help="a GPU type that sleeps longer by this factor")
    return parser.parse_args()


def images(count: int, seed: int) -> Tuple[torch.Tensor, torch.Tensor]:
    pictures = draw(count, seed, noise=0.5)
    pixels = torch.tensor([picture for picture, _ in pictures]).reshape(count, 1, SIDE, SIDE)
    return pixels, torch.tensor([label for _, label in pictures])


def network() -> torch.nn.Module:
    return torch.nn.Sequential(
        torch.nn.Conv2d(1, 16, 3, padding=1), torch.nn.BatchNorm2d(16), torch.nn.ReLU(), torch.nn.MaxPool2d(2),
        torch.nn.Conv2d(16, 32, 3, padding=1), torch.nn.BatchNorm2d(32), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(512, 10))


def main() -> None:
    arguments = parse_arguments()
    me = hsched_ddp.init(arguments.global_batch, arguments.epochs)
    torch.set_num_threads(1)
    slow = dict(own.split("=") for own in arguments.slow)
    sleep_s = arguments.step_ms / 1000 * float(slow.get(me.gpu_type, 1))

    data, test = TensorDataset(*images(1797, 1)), images(2000, 2)
    sampler = hsched_ddp.BatchSampler(len(data), me, seed=arguments.seed)
    loader = DataLoader(data, batch_sampler=sampler)
    torch.manual_seed(arguments.seed)
    model = network()
    if arguments.optimizer == "adam":
        optimizer: Any = torch.optim.Adam(model.parameters(), lr=arguments.lr)
    else:
        optimizer = torch.optim.SGD(model.parameters(), lr=arguments.lr, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, sampler.steps * me.epochs)
    training = hsched_ddp.Training(me, sampler, model, optimizer=optimizer, scheduler=scheduler)
    if training.resume():
        print("resumes after step %d" % training.global_step, flush=True)
    for epoch in training.epochs():
        model.train()
        for step in training.steps(loader):
            for inputs, labels in step:
                step.scale(torch.nn.functional.cross_entropy(model(inputs), labels)).backward()
            time.sleep(sleep_s)
            optimizer.step()
            optimizer.zero_grad()
            scheduler.step()
        model.eval()
        with torch.no_grad():
            right = (model(test[0]).argmax(dim=1) == test[1]).float().mean()
        training.metrics["accuracy"] = float(right)
        print("epoch %d of %d: accuracy %.4f, rate %.6f" % (epoch, me.epochs, right, scheduler.get_last_lr()[0]), flush=True)
    hsched_ddp.leave()


if __name__ == "__main__":
    main()
