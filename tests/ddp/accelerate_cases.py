"""Accelerate beside hsched_ddp: its mixed precision, clipping and backward pass, with steps of unequal shares."""
import os
import signal
from typing import Any, List, Optional

from framework_checks import Program, checked, notices
import accelerate
import hsched_ddp
import torch
from torch.nn import functional
from torch.utils.data import DataLoader

from faults import refused
from passes import network

EPOCHS, SAMPLES = 4, 75


def train(program: Program) -> None:
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64 if program.double else torch.float32)
    me = hsched_ddp.init()
    model, rows = network(), program.data(SAMPLES)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.02)
    before, steps, epochs, largest = 0, [], [], [0]
    model.register_forward_pre_hook(lambda own, inputs: largest.append(len(inputs[0])))
    accelerator = accelerate.Accelerator(cpu=True, gradient_accumulation_steps=3)
    if program.plain:
        model, optimizer, loader = accelerator.prepare(model, optimizer, DataLoader(rows, batch_size=4))
        for inputs, labels in loader:
            with accelerator.accumulate(model):
                accelerator.backward(functional.cross_entropy(model(inputs), labels))
                optimizer.step()
                optimizer.zero_grad()
        program.note(model, 0, [], [], 0)
        hsched_ddp.leave()
    optimizer = accelerator.prepare(optimizer)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 50)
    training, loader = hsched_ddp.prepare(model, optimizer, rows, scheduler=schedule)
    loader = accelerator.prepare(loader)  # left as it is
    try:
        for _ in training.epochs():
            for step in training.steps(loader):
                optimizer.zero_grad()
                for inputs, labels in step:
                    accelerator.backward(step.scale(functional.cross_entropy(training.model(inputs), labels)))
                accelerator.clip_grad_norm_(training.model.parameters(), 0.05)
                before += 1
                optimizer.step()
                schedule.step()
                steps.append(training.global_step)
                epochs.append(training.epoch)
                if training.global_step == program.stop_at and me.rank == me.world_size - 1:
                    os.kill(os.getpid(), signal.SIGUSR1)
            seen = [float(functional.cross_entropy(training.model(inputs), labels, reduction="sum")) for inputs, labels in training.evaluate(program.data(16, 9))]
            training.metrics["val_loss"] = training.sum([sum(seen)])[0] / 16
    finally:
        program.note(model, before, steps, epochs, max(largest))
    hsched_ddp.leave()


def accelerate_float64() -> Optional[float]:
    return checked(train, True, EPOCHS, "val_loss")


def accelerate_float32() -> Optional[float]:
    return checked(train, False, EPOCHS, "val_loss")


def accelerate_plain() -> Optional[float]:
    return notices(train, ["12 samples (3 passes of 4)", "is 6", "is 2"])


CASES: List[Any] = [accelerate_float64, accelerate_float32, accelerate_plain]
