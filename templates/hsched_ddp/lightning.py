"""Lightning: the parts that its Trainer needs to train with unequal shares.

    trainer = L.Trainer(**hsched_ddp.lightning.arguments(me), ...)
    trainer.fit(module, hsched_ddp.lightning.loader(dataset, me))

One batch of Lightning's loop is one step: this rank's micro-batches of one global batch. The strategy runs a pass for each.
"""
from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Dict, Iterator, Optional

from .core import Rank
from .driven import Loader, Part, numbered
from .optional import torch
from .step import Step
from .training import Training
from .values import Refused, encode

# pytorch_lightning if the program has imported it and not lightning.pytorch; otherwise lightning.pytorch.
_NAME = "pytorch_lightning" if "pytorch_lightning" in sys.modules and "lightning.pytorch" not in sys.modules else "lightning.pytorch"
pl: Any = importlib.import_module(_NAME)
environments: Any = importlib.import_module(_NAME + ".plugins.environments")
strategies: Any = importlib.import_module(_NAME + ".strategies")

_UNSET_EPOCHS = 1000  # Lightning's default number of epochs


def arguments(me: Rank, **options: Any) -> Dict[str, Any]:
    """Returns arguments for Lightning's Trainer; `options` are those of DistributedDataParallel."""
    return {"strategy": Strategy(me, **options)}


def loader(dataset: Any, me: Rank, **options: Any) -> Loader:
    """Returns the loader for `Trainer.fit`; the options are `count`, `collate_fn`, `seed`, `num_workers` and those of DataLoader."""
    return Loader(dataset, me, **options)


class Environment(environments.LightningEnvironment):  # type: ignore[misc]
    """The ranks as hsched started them, even inside a Slurm allocation."""

    def __init__(self, me: Rank) -> None:
        super().__init__()
        self._me = me

    @property
    def creates_processes_externally(self) -> bool:
        return True

    def world_size(self) -> int:
        return self._me.world_size

    def set_world_size(self, size: int) -> None:
        """Does nothing: Lightning computes the size as if all nodes had the same number of ranks."""

    def global_rank(self) -> int:
        return self._me.rank

    def set_global_rank(self, rank: int) -> None:
        """Does nothing, for the same reason."""

    def local_rank(self) -> int:
        return self._me.local_rank

    def node_rank(self) -> int:
        return int(os.environ.get("SLURM_NODEID", os.environ.get("GROUP_RANK", 0)))

    def teardown(self) -> None:
        """Does nothing: the variables stay."""


class Strategy(strategies.DDPStrategy):  # type: ignore[misc]
    """DistributedDataParallel with steps of unequal shares, and the reports, checkpoints and stops of hsched_ddp."""

    def __init__(self, me: Rank, **options: Any) -> None:
        super().__init__(parallel_devices=[me.device], cluster_environment=Environment(me), **options)
        self._me = me
        self.training: Optional[Training] = None
        self._step: Optional[Step] = None  # the step, from its first forward pass until `backward` is called
        self._passes: Iterator[Any] = iter(())
        self._more: Any = ()  # the arguments of training_step after the batch

    @property
    def root_device(self) -> Any:
        return self._me.device

    @property
    def num_processes(self) -> int:
        return self._me.local_world_size

    @property
    def distributed_sampler_kwargs(self) -> Dict[str, Any]:
        return {"num_replicas": self._me.world_size, "rank": self._me.rank}

    # Start and end of a training

    def setup(self, trainer: Any) -> None:
        if trainer.state.fn != "fit":
            return super().setup(trainer)  # type: ignore[no-any-return]
        if not self.lightning_module.automatic_optimization:
            raise ValueError("the module optimizes manually, so hsched_ddp cannot divide its batches: use hsched_ddp.Training (docs/training.md)")
        source = trainer.fit_loop._data_source
        batches = source.dataloader()
        if not isinstance(batches, Loader):
            raise ValueError("the ranks' shares are unequal, and the training loader is a %s: pass hsched_ddp.lightning.loader(dataset, me)" % type(batches).__name__)
        source.instance = batches
        trainer.accumulate_grad_batches = 1
        if "HSCHED_EPOCHS" in os.environ or trainer.fit_loop.max_epochs == _UNSET_EPOCHS and self._me.epochs > 1:
            trainer.fit_loop.max_epochs = self._me.epochs
        super().setup(trainer)
        self._keep_steps_whole()
        most = trainer.fit_loop.max_epochs
        me = replace(self._me, epochs=most if most >= 0 else 1 << 40)
        parts = {**numbered("optimizer", self.optimizers), **numbered("scheduler", [own.scheduler for own in self.lr_scheduler_configs]),
                 "precision": Part(self.precision_plugin.state_dict, self.precision_plugin.load_state_dict), "lightning": _progress(trainer)}
        self.training = Training(me, batches.places, self.model, **parts)
        self.training.resume()
        batches.attach(self.training, lambda: self._take_metrics(trainer))

    def _keep_steps_whole(self) -> None:
        """Hides steps from hooks of the program, which get the micro-batches instead."""
        module = self.lightning_module
        call = module._call_batch_hook
        module._call_batch_hook = lambda name, batch, *rest: batch if isinstance(batch, Step) else call(name, batch, *rest)

    def _take_metrics(self, trainer: Any) -> None:
        """Puts the logged values of the program into the report of the epoch; `loss` is that of all samples."""
        metrics = {name: float(value) for name, value in trainer.callback_metrics.items() if name != "loss"}
        self.training.metrics.update(metrics)  # type: ignore[union-attr]

    def on_train_end(self) -> None:
        trainer = self.lightning_module.trainer
        trainer.fit_loop._data_source.instance.close(trainer.fit_loop.epoch_progress.current.processed > self.training.epoch)  # type: ignore[union-attr]

    def teardown(self) -> None:
        self.lightning_module.__dict__.pop("_call_batch_hook", None)
        super().teardown()

    # The passes of a step

    def batch_to_device(self, batch: Any, device: Any = None, dataloader_idx: int = 0) -> Any:
        return batch if isinstance(batch, Step) else super().batch_to_device(batch, device, dataloader_idx)

    def training_step(self, *arguments: Any, **named: Any) -> Any:
        """Runs the first forward pass of a step. Lightning then clears the gradients, so the other passes follow in `backward`."""
        step, *self._more = (*arguments, *named.values())
        self._step, self._passes = step, iter(step)
        if step.samples == 0:
            return torch.zeros((), device=self.root_device, requires_grad=True)
        return self._forward(next(self._passes))

    def _forward(self, batch: Any) -> Any:
        trainer = self.lightning_module.trainer
        batch = self.precision_plugin.convert_input(batch)
        batch = self.lightning_module._on_before_batch_transfer(batch, dataloader_idx=0)
        batch = super().batch_to_device(batch, self.root_device)
        trainer._results.batch, trainer._results.batch_size = batch, None  # for the means of the values that training_step logs
        output = super().training_step(batch, *self._more)
        if output is None:
            raise ValueError("training_step returned None: the ranks cannot leave a batch out, return a loss")
        return output

    def backward(self, closure_loss: Any, optimizer: Any, *arguments: Any, **named: Any) -> Any:
        """Runs the backward pass of the first micro-batch, and both passes of all others; afterwards, the gradients are those of the global batch."""
        step, self._step = self._step, None
        if step is None:
            return super().backward(closure_loss, optimizer, *arguments, **named)
        if step.samples > 0:
            super().backward(step.scale(closure_loss), optimizer, *arguments, **named)
        for batch in self._passes:
            output = self._forward(batch)
            loss = output["loss"] if isinstance(output, Mapping) else output
            super().backward(step.scale(loss), optimizer, *arguments, **named)
        return closure_loss


def _progress(trainer: Any) -> Part:
    """Returns the progress of Lightning's loops and the states of its callbacks, as a part of the checkpoint."""
    def get() -> Dict[str, Any]:
        callbacks = {}
        for own in trainer.callbacks:
            state = own.state_dict()
            try:
                encode(state, "its state")
                callbacks[own.state_key] = state
            except Refused as error:
                if trainer.is_global_zero:
                    print("hsched: the state of %s is not in the checkpoint: %s" % (type(own).__name__, error), file=sys.stderr, flush=True)
        return {"loops": trainer.fit_loop.state_dict(), "callbacks": {key: state for key, state in callbacks.items() if state}}

    def put(state: Dict[str, Any]) -> None:
        trainer.fit_loop.load_state_dict(state["loops"])
        for own in trainer.callbacks:
            if own.state_key in state["callbacks"]:
                own.load_state_dict(state["callbacks"][own.state_key])
    return Part(get, put)
