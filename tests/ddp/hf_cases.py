"""Hugging Face's Trainer with unequal shares: it trains as one process does, stops from inside `train`, and resumes on other ranks."""
import os
import signal
from typing import Any, Dict, List, Optional

os.environ["HF_HUB_OFFLINE"] = "1"
from framework_checks import Program, checked, corrected, notices
import moved
import hsched_ddp
import torch
import transformers
from torch.utils.data import Dataset


EPOCHS, SAMPLES = 4, 75


class Texts(Dataset):  # type: ignore[type-arg]
    """Made-up texts of different lengths: padding is no label."""

    def __init__(self, samples: int, seed: int = 7) -> None:
        draw = torch.Generator().manual_seed(seed)
        self.texts = [torch.randint(1, 30, (int(torch.randint(4, 11, (), generator=draw)),), generator=draw).tolist() for _ in range(samples)]

    def __len__(self) -> int:
        return len(self.texts)

    def __getitem__(self, index: int) -> Any:
        return self.texts[index]


def padded(rows: List[Any]) -> Dict[str, Any]:
    longest = max(map(len, rows))
    ids = torch.tensor([own + [0] * (longest - len(own)) for own in rows])
    return {"input_ids": ids, "attention_mask": (ids > 0).long(), "labels": ids.masked_fill(ids == 0, -100)}


class Counter(transformers.TrainerCallback):  # type: ignore[misc]
    """Counts the events of callbacks, and requests a stop."""

    def __init__(self, stop_at: int) -> None:
        self.stop_at, self.before, self.steps, self.epochs = stop_at, 0, [], []  # type: ignore[var-annotated]
        self.largest, self._begun = 0, 0

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        self.before += 1

    def on_step_end(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        self.steps.append(state.global_step)
        self.epochs.append(round(state.epoch, 9))
        if state.global_step == self.stop_at and int(os.environ["RANK"]) == int(os.environ["WORLD_SIZE"]) - 1:
            os.kill(os.getpid(), signal.SIGUSR1)


class Mixed(hsched_ddp.hf.Mixin, transformers.Trainer):  # type: ignore[misc]
    """The subclass of Trainer in a program."""


def language_model() -> Any:
    config = transformers.GPT2Config(vocab_size=32, n_positions=16, n_embd=16, n_layer=1, n_head=2, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0)
    return transformers.GPT2LMHeadModel(config)


def train(program: Program) -> None:
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    counter = Counter(program.stop_at)
    me = hsched_ddp.init()
    torch.manual_seed(3)
    model = language_model()
    if program.double:
        model.double()
    model.register_forward_pre_hook(lambda own, values, named: setattr(counter, "largest", max(counter.largest, len(named["input_ids"]) if own.training else 0)), with_kwargs=True)
    settings = transformers.TrainingArguments(
        output_dir=os.path.join(program.folder, "output"), per_device_train_batch_size=4, gradient_accumulation_steps=1 if program.plain else 3, num_train_epochs=1 if program.plain else EPOCHS,
        learning_rate=0.02 if program.double else 2e-4,  # gradients of key biases are rounding, which Adam scales up
        max_grad_norm=0.05, lr_scheduler_type="cosine", eval_strategy="epoch", save_strategy="no", report_to=[], disable_tqdm=True, use_cpu=True, logging_steps=5)
    kind = transformers.Trainer if program.plain else Mixed
    try:
        kind(model=model, args=settings, train_dataset=Texts(SAMPLES), eval_dataset=Texts(16, 9), data_collator=padded, callbacks=[counter]).train()
    finally:
        program.note(model, counter.before, counter.steps, counter.epochs, counter.largest)
    hsched_ddp.leave()


def transformers_float64() -> Optional[float]:
    return checked(train, True, EPOCHS, "eval_loss", 1e-8)  # its loss is in float32


def transformers_float32() -> Optional[float]:
    return checked(train, False, EPOCHS, "eval_loss")


def transformers_new_shares() -> Optional[float]:
    return corrected(train, EPOCHS, 1e-6)


def transformers_plain() -> Optional[float]:
    return notices(train, ["4 samples", "is 6", "is 2"])


def moved_fine_tuning() -> Optional[float]:
    return moved.compared("fine_tuning.py", 3, moved.forked)


CASES: List[Any] = [moved_fine_tuning, transformers_float64, transformers_float32, transformers_new_shares, transformers_plain]
