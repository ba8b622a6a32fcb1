#!/usr/bin/env python3
"""A small training whose replicas have several ranks: FSDP or tensor parallelism inside a replica, data parallelism between replicas.

Runs on CPUs (gloo) and GPUs (NCCL), in a job of hsched, under torchrun, or alone. Nothing is downloaded. Needs torch 2.6.
"""
import argparse
import time
import warnings
from typing import Any

import torch
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Replicate
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.utils.data import DataLoader, TensorDataset

import hsched_ddp


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("parallel", choices=["fsdp", "tensor"], help="what the ranks of a replica do together")
    parser.add_argument("--samples", type=int, default=640, help="samples in an epoch")
    parser.add_argument("--global-batch", type=int, default=64, help="used if hsched does not set it")
    parser.add_argument("--epochs", type=int, default=3, help="used if hsched does not set it")
    parser.add_argument("--replica-size", type=int, default=2, help="ranks of a replica; used if hsched does not set it")
    parser.add_argument("--double", action="store_true", help="train in float64")
    parser.add_argument("--sample-ms", type=float, default=0.0, help="time to sleep for every sample, for GPUs that are not there")
    return parser.parse_args()


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.widen, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        outputs: torch.Tensor = inputs + self.narrow(torch.nn.functional.gelu(self.widen(inputs)))
        return outputs


def network() -> nn.Sequential:
    torch.manual_seed(2)
    return nn.Sequential(nn.Linear(16, 32), Block(32), Block(32), nn.Linear(32, 4))


def make_data(samples: int) -> TensorDataset:
    """Returns the same data on every rank and in every run."""
    torch.manual_seed(1)
    teacher, inputs = nn.Sequential(nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 4)), torch.randn(samples, 16)
    with torch.no_grad():
        return TensorDataset(inputs, teacher(inputs).argmax(dim=1))


def shard(model: nn.Sequential, parallel: str, mesh: Any) -> None:
    """Divides the model among the ranks of a replica."""
    if parallel == "fsdp":
        for layer in model:
            fully_shard(layer, mesh=mesh)
        fully_shard(model, mesh=mesh)
        return
    whole = ColwiseParallel(output_layouts=Replicate())
    plan = {"0": whole, "3": whole}
    for block in ("1", "2"):
        plan.update({block + ".widen": ColwiseParallel(), block + ".narrow": RowwiseParallel()})
    parallelize_module(model, mesh, plan)


class Checkpoint:
    """The program's own distributed checkpoint: hsched_ddp says where, and when it is valid."""

    def __init__(self, model: nn.Module, optimizer: torch.optim.Optimizer, group: Any) -> None:
        self.model, self.optimizer, self.group = model, optimizer, group

    def save(self, folder: str) -> None:
        """Runs on the ranks of the first replica."""
        model, optimizer = get_state_dict(self.model, self.optimizer)
        dcp.save({"model": model, "optimizer": optimizer}, checkpoint_id=folder, process_group=self.group)

    def load(self, folder: str) -> None:
        """Runs on all ranks, whose number may have changed; each reads what it holds."""
        model, optimizer = get_state_dict(self.model, self.optimizer)
        state = {"model": model, "optimizer": optimizer}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the warning that each rank reads by itself
            dcp.load(state, checkpoint_id=folder, no_dist=True)
        set_state_dict(self.model, self.optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"])


def main() -> None:
    arguments = parse_arguments()
    if arguments.double:
        torch.set_default_dtype(torch.float64)
    me = hsched_ddp.init(arguments.global_batch, arguments.epochs, replica_size=arguments.replica_size)
    print("rank %d of %d: number %d of %d in replica %d of %d; %s, batch %d of %d in micro-batches of %d" % (
        me.rank, me.world_size, me.replica_rank, me.replica_size, me.replica, me.replicas, me.gpu_type or me.device, me.batch,
        me.global_batch, me.micro_batch), flush=True)

    data = make_data(arguments.samples)
    sampler = hsched_ddp.BatchSampler(len(data), me)
    loader = DataLoader(data, batch_sampler=sampler)
    model = network().to(me.device)
    shard(model, arguments.parallel, me.replica_mesh)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.002)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)
    training = hsched_ddp.Training(me, sampler, model, optimizer=optimizer, schedule=schedule,
                                   checkpoint=Checkpoint(model, optimizer, me.replica_group))
    if training.resume() and me.rank == 0:
        print("resumes after step %d" % training.global_step, flush=True)
    for epoch in training.epochs():
        for step in training.steps(loader):
            optimizer.zero_grad()
            for inputs, labels in step:  # the same on all ranks of a replica
                outputs = model(inputs.to(me.device))
                step.scale(nn.functional.cross_entropy(outputs, labels.to(me.device))).backward()
                time.sleep(arguments.sample_ms / 1000 * len(inputs))
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
        schedule.step()
        if me.rank == 0:
            print("epoch %d of %d" % (epoch, me.epochs), flush=True)
    norms = [float(own.detach().full_tensor().double().norm()) for own in model.parameters()]  # type: ignore[attr-defined]
    if me.rank == 0:
        print("weights %.9f" % sum(norms), flush=True)
    hsched_ddp.leave()


if __name__ == "__main__":
    main()
