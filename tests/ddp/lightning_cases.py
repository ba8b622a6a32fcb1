"""Lightning with unequal shares: a program that trains as one process does, stops from inside `fit`, and resumes on other ranks."""
import os
import signal
import tempfile
from typing import Any, Dict, List, Optional

from framework_checks import Program, checked, corrected, notices
import moved
import hsched_ddp
import lightning as L
import torch
from torch import nn
from torch.nn import functional


EPOCHS, SAMPLES = 4, 75  # in each epoch, nine steps of eight samples and one of three


class Module(L.LightningModule):
    """A small network with what modules have: hooks, logs, a schedule, a validation."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 3))

    def on_before_batch_transfer(self, batch: Any, dataloader_idx: int) -> Any:
        return [batch[0] * 1.0, batch[1]]

    def training_step(self, batch: Any, batch_idx: int) -> Any:
        inputs, labels = batch
        loss = functional.cross_entropy(self.net(inputs), labels)
        self.log("seen", loss, on_epoch=True, on_step=False)
        return {"loss": loss, "more": 1}

    def validation_step(self, batch: Any, batch_idx: int) -> None:
        self.log("val_loss", functional.cross_entropy(self.net(batch[0]), batch[1]), sync_dist=True)

    def configure_optimizers(self) -> Any:
        optimizer = torch.optim.AdamW(self.parameters(), lr=0.02)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 50)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}


class Counter(L.Callback):
    """Counts the events of callbacks, and requests a stop."""

    def __init__(self, stop_at: int) -> None:
        self.stop_at, self.before, self.steps, self.epochs = stop_at, 0, [], []  # type: ignore[var-annotated]
        self.largest = 0

    def on_before_optimizer_step(self, trainer: Any, module: Any, optimizer: Any) -> None:
        self.before += 1

    def on_train_batch_end(self, trainer: Any, module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        self.steps.append(trainer.global_step)
        self.epochs.append(trainer.current_epoch)
        if trainer.global_step == self.stop_at and trainer.global_rank == trainer.world_size - 1:
            os.kill(os.getpid(), signal.SIGUSR1)


def train(program: Program) -> Dict[str, Any]:
    torch.set_num_threads(1)
    counter = Counter(program.stop_at)
    me = hsched_ddp.init()
    torch.manual_seed(3 + me.rank)  # as careless programs have it: the weights of rank 0 count
    module = Module()
    module.net.register_forward_pre_hook(lambda own, inputs: setattr(counter, "largest", max(counter.largest, len(inputs[0]) if own.training else 0)))
    settings: Dict[str, Any] = {"max_epochs": 1 if program.plain else EPOCHS, "accumulate_grad_batches": 3, "gradient_clip_val": 0.05, "precision": "64-true" if program.double else "32-true",
                                "callbacks": [counter], "logger": False, "enable_checkpointing": False, "enable_progress_bar": False, "enable_model_summary": False,
                                "accelerator": "cpu", "num_sanity_val_steps": 1, "default_root_dir": tempfile.gettempdir()}
    rows = program.data(SAMPLES)
    validation = torch.utils.data.DataLoader(program.data(16, 9), batch_size=4)
    batches: Any
    if program.plain:
        settings.update(strategy="ddp", devices=me.world_size)
        batches = torch.utils.data.DataLoader(rows, batch_size=4)
    else:
        settings.update(hsched_ddp.lightning.arguments(me))
        batches = hsched_ddp.lightning.loader(rows, me)
    try:
        L.Trainer(**settings).fit(module, batches, validation)
    finally:
        program.note(module.net, counter.before, counter.steps, counter.epochs, counter.largest)
    hsched_ddp.leave()
    return {}


def lightning_float64() -> Optional[float]:
    return checked(train, True, EPOCHS, "val_loss")


def lightning_float32() -> Optional[float]:
    return checked(train, False, EPOCHS, "val_loss")


def lightning_new_shares() -> Optional[float]:
    return corrected(train, EPOCHS)


def lightning_plain() -> Optional[float]:
    return notices(train, ["12 samples (3 passes of 4)", "is 6", "is 2"])


def moved_module() -> Optional[float]:
    return moved.compared("module.py", 3, moved.forked)


CASES: List[Any] = [moved_module, lightning_float64, lightning_float32, lightning_new_shares, lightning_plain]
