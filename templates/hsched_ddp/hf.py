"""Hugging Face transformers: a mixin for Trainer that trains with unequal shares.

    class MyTrainer(hsched_ddp.hf.Mixin, transformers.Trainer): ...

Call `hsched_ddp.init()` first, and `hsched_ddp.leave()` at the end. One batch of Trainer's loop is one step: this rank's
micro-batches of one global batch.
"""
from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from typing import Any, Dict, List, Optional, Tuple

from transformers import TrainerCallback

from . import core
from .driven import Loader, Part
from .optional import torch
from .step import Step
from .training import Training


class Mixin:
    """The changes to transformers.Trainer: its loader, the weights of its losses, its checkpoints, reports and stops."""

    args: Any
    model: Any
    state: Any
    optimizer: Any
    lr_scheduler: Any
    accelerator: Any
    train_dataset: Any
    callback_handler: Any
    training: Optional[Training] = None
    _loader: Optional[Loader] = None
    _prepared: Tuple[Any, Any]

    def get_train_dataloader(self) -> Any:
        """Returns the loader of this rank's shares."""
        me = core.started
        if me is None:
            raise ValueError("the ranks and their shares are not known yet: call hsched_ddp.init() at the beginning of the program")
        if self.train_dataset is None:
            raise ValueError("Trainer needs a train_dataset to train")
        args, dataset, collate = self.args, self.train_dataset, self.data_collator  # type: ignore[attr-defined]
        _check(args)
        if "HSCHED_EPOCHS" in os.environ:
            args.num_train_epochs = me.epochs
        args.gradient_accumulation_steps, args.average_tokens_across_devices = 1, False  # a step is one batch, and its losses are weighted here
        if type(dataset).__module__.split(".")[0] == "datasets":
            dataset = self._remove_unused_columns(dataset, description="training")  # type: ignore[attr-defined]
        else:
            collate = self._get_collator_with_removed_columns(collate, description="training")  # type: ignore[attr-defined]
        seed = args.seed if args.data_seed is None else args.data_seed
        self._loader = Loader(dataset, me, count=self._items, collate_fn=collate, seed=seed, num_workers=args.dataloader_num_workers,
                              pin_memory=args.dataloader_pin_memory and me.device.type == "cuda")
        return self._loader

    def _items(self, batch: Any) -> float:
        """Returns the number of items that the loss of a micro-batch is a mean over: labels (of samples or tokens), or else samples."""
        labels = batch.get("shift_labels", batch.get("labels")) if isinstance(batch, Mapping) else None
        if not isinstance(labels, torch.Tensor) or labels.is_floating_point() or labels.dim() == 0:
            values = batch.values() if isinstance(batch, Mapping) else batch
            return float(next(len(own) for own in values if isinstance(own, torch.Tensor) and own.dim() > 0))
        if "shift_labels" not in batch and getattr(self, "_loss_shifts_labels", False):
            labels = labels[..., 1:]
        return float(labels.ne(-100).sum())

    # Start and end of a training

    def _init_training_state(self, max_steps: int, *arguments: Any, **named: Any) -> Tuple[int, int]:
        """Wraps the model before the loop starts, and resumes from the checkpoint; returns the number of finished epochs, and 0 as the steps to skip."""
        super()._init_training_state(max_steps, *arguments, **named)  # type: ignore[misc]
        loader = self._loader
        assert loader is not None and core.started is not None
        self._prepared = super()._prepare_for_training(max_steps, loader, None)  # type: ignore[misc]
        me = dataclasses.replace(core.started, epochs=-(-max_steps // len(loader)))
        scaler = getattr(self.accelerator, "scaler", None)
        parts = {"optimizer": self.optimizer, "scheduler": self.lr_scheduler, "transformers": self._progress(), **({"scaler": scaler} if scaler else {})}
        self.training = Training(me, loader.places, self._prepared[0], **parts)
        self.training.resume()
        loader.attach(self.training, self._take_metrics)
        self.callback_handler.callbacks.insert(0, _Place(self.training))
        return self.training.epoch, 0

    def _prepare_for_training(self, *arguments: Any, **named: Any) -> Tuple[Any, Any]:
        return self._prepared

    def _finalize_training(self, *arguments: Any, **named: Any) -> Any:
        loader, training = self._loader, self.training
        assert loader is not None and training is not None
        loader.close(is_whole=not training.left)
        handler = self.callback_handler
        handler.callbacks = [own for own in handler.callbacks if not isinstance(own, _Place)]
        return super()._finalize_training(*arguments, **named)  # type: ignore[misc]

    def _progress(self) -> Part:
        """Returns Trainer's progress as a part of the checkpoint, without values that follow from the program."""
        own = ("epoch", "global_step", "num_input_tokens_seen", "total_flos", "log_history", "best_metric", "best_global_step", "best_model_checkpoint")

        def get() -> Dict[str, Any]:
            return {name: _plain(getattr(self.state, name)) for name in own if hasattr(self.state, name)}

        def put(state: Dict[str, Any]) -> None:
            for name in own:
                if name in state:
                    setattr(self.state, name, state[name])
        return Part(get, put)

    def _take_metrics(self) -> None:
        """Puts the evaluations after the current step into the report of the epoch."""
        training = self.training
        assert training is not None
        for line in self.state.log_history:
            if line.get("step") == self.state.global_step:
                training.metrics.update({name: float(value) for name, value in line.items() if name.startswith("eval_") and isinstance(value, (int, float))})

    # The passes of a step

    def get_batch_samples(self, epoch_iterator: Any, num_batches: int, device: Any) -> Tuple[List[Any], Any]:
        step = next(epoch_iterator, None)
        return ([] if step is None else [step]), None

    def training_step(self, model: Any, inputs: Any, num_items_in_batch: Any = None) -> Any:
        """Runs the passes of all micro-batches of a step; afterwards, the gradients are those of the global batch."""
        if not isinstance(inputs, Step):
            return super().training_step(model, inputs, num_items_in_batch)  # type: ignore[misc]
        accelerator, backward = self.accelerator, self.accelerator.backward
        losses = [torch.zeros((), device=self.args.device)]

        def weighted(loss: Any, **named: Any) -> None:
            scaled = inputs.scale(loss)
            losses.append(scaled.detach())
            backward(scaled, **named)
        accelerator.backward = weighted
        try:
            for batch in inputs:
                self._count(batch)
                items = torch.tensor(max(1.0, inputs.count), device=self.args.device)
                super().training_step(model, batch, items)  # type: ignore[misc]
        finally:
            del accelerator.backward
        return sum(losses)

    def _count(self, batch: Any) -> None:
        self.current_flos += float(super().floating_point_ops(batch))  # type: ignore[misc]
        super()._track_num_input_tokens(batch)  # type: ignore[misc]

    def floating_point_ops(self, inputs: Any) -> Any:
        return 0 if isinstance(inputs, Step) else super().floating_point_ops(inputs)  # type: ignore[misc]

    def _track_num_input_tokens(self, inputs: Any) -> None:
        if not isinstance(inputs, Step):
            super()._track_num_input_tokens(inputs)  # type: ignore[misc]


class _Place(TrainerCallback):  # type: ignore[misc]
    """Tells other callbacks the position in the epoch after each step, because Trainer does not count the steps before a stop."""

    def __init__(self, training: Training) -> None:
        self._training = training

    def on_step_end(self, args: Any, state: Any, control: Any, **named: Any) -> None:
        training = self._training
        state.epoch = training.epoch + training.step / training.sampler.steps


def _check(args: Any) -> None:
    """Raises ValueError for options that do not work with shares."""
    if args.auto_find_batch_size:
        raise ValueError("auto_find_batch_size does not go with shares: hsched says how many samples a pass has")
    if getattr(args, "fsdp", None) or getattr(args, "deepspeed", None):
        raise ValueError("FSDP and DeepSpeed shard by equal batches: docs/training.md says what works with them")
    if args.include_num_input_tokens_seen not in ("no", False) and core.started is not None and core.started.world_size > 1:
        raise ValueError("include_num_input_tokens_seen lets all ranks meet in every pass, and they make unequal numbers of passes: leave it out")
    if args.n_gpu > 1:
        raise ValueError("this rank sees %d GPUs, and Trainer would use all of them: it must be one process for each" % args.n_gpu)


def _plain(value: Any) -> Any:
    """Returns the values of a log as plain numbers and strings."""
    if isinstance(value, Mapping):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(inner) for inner in value]
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return float(value) if hasattr(value, "__float__") else str(value)


__all__ = ["Mixin"]
