#!/usr/bin/env python3
"""A small real training for hsched: a network learns what another one, drawn at random, makes of random numbers.

Runs on CPUs (gloo) and GPUs (NCCL), in a job of hsched, under torchrun, or alone. Nothing is downloaded.
"""
import argparse
import time
from typing import Any, Dict, Tuple

import torch
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset

import hsched_ddp


def factor(text: str) -> Tuple[str, float]:
    """Reads TYPE=FACTOR."""
    name, equals, number = text.partition("=")
    try:
        if equals and float(number) > 0:
            return name, float(number)
    except ValueError:
        pass
    raise argparse.ArgumentTypeError("expected TYPE=FACTOR, not %r" % text)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--samples", type=int, default=6000, help="samples in an epoch")
    parser.add_argument("--global-batch", type=int, default=64, help="used if hsched does not set it")
    parser.add_argument("--epochs", type=int, default=3, help="used if hsched does not set it")
    parser.add_argument("--lr", type=float, default=0.1)
    parser.add_argument("--probe", action="store_true", help="time two batch sizes before the first epoch")
    parser.add_argument("--sample-ms", type=float, default=0.0, help="time to sleep for every sample, for GPUs that are not there")
    parser.add_argument("--slow", action="append", default=[], type=factor, metavar="TYPE=FACTOR",
                        help="a GPU type that sleeps FACTOR times as long for a sample; may be given several times")
    return parser.parse_args()


def network() -> torch.nn.Module:
    return torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.ReLU(), torch.nn.Linear(64, 4))


def make_data(samples: int) -> TensorDataset:
    """Returns the same data on every rank and in every run."""
    torch.manual_seed(1)
    teacher, inputs = network(), torch.randn(samples, 16)
    with torch.no_grad():
        return TensorDataset(inputs, teacher(inputs).argmax(dim=1))


def main() -> None:
    arguments = parse_arguments()
    me = hsched_ddp.init(arguments.global_batch, arguments.epochs)
    slow: Dict[str, float] = dict(arguments.slow)
    sleep_s = arguments.sample_ms / 1000 * slow.get(me.gpu_type, 1.0)
    print("rank %d of %d: %s, batch %d of %d in micro-batches of %d" % (
        me.rank, me.world_size, me.gpu_type or me.device, me.batch, me.global_batch, me.micro_batch), flush=True)

    data = make_data(arguments.samples)
    sampler = hsched_ddp.BatchSampler(len(data), me)
    loader = DataLoader(data, batch_sampler=sampler)
    torch.manual_seed(2)
    model = DistributedDataParallel(network().to(me.device))
    optimizer = torch.optim.SGD(model.parameters(), lr=arguments.lr, momentum=0.9)
    training = hsched_ddp.Training(me, sampler, model, optimizer=optimizer)

    def loss_of(batch: Any) -> torch.Tensor:
        inputs, labels = (part.to(me.device) for part in batch)
        outputs = model(inputs)
        time.sleep(sleep_s * len(inputs))  # after the forward pass, at whose start DDP sometimes synchronises the ranks
        return torch.nn.functional.cross_entropy(outputs, labels)

    if training.resume() and me.rank == 0:
        print("resumes after step %d" % training.global_step, flush=True)
    if arguments.probe:
        training.probe(loss_of, loader)
    for epoch in training.epochs():
        begin = time.monotonic()
        for step in training.steps(loader):
            for batch in step:
                step.scale(loss_of(batch)).backward()
            optimizer.step()
            optimizer.zero_grad()
        if me.rank == 0:
            print("epoch %d of %d took %.3f s" % (epoch, me.epochs, time.monotonic() - begin), flush=True)
    if me.rank == 0:
        print("weights %.9f" % sum(float(parameter.detach().double().norm()) for parameter in model.parameters()), flush=True)
    hsched_ddp.leave()


if __name__ == "__main__":
    main()
