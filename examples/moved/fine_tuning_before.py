"""A fine-tuning with Hugging Face's Trainer, of a tiny model from its configuration."""

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments


def make_data(samples, seed):
    draw = torch.Generator().manual_seed(seed)
    return [
        {"input_ids": text, "labels": text}
        for text in torch.randint(0, 32, (samples, 12), generator=draw)
    ]


def make_model():
    torch.manual_seed(1)
    config = GPT2Config(vocab_size=32, n_positions=12, n_embd=16, n_layer=1, n_head=2)
    config.resid_pdrop = config.embd_pdrop = config.attn_pdrop = 0.0
    return GPT2LMHeadModel(config)


def main():
    model = make_model()
    arguments = TrainingArguments(
        output_dir="fine-tuned",
        num_train_epochs=3,
        per_device_train_batch_size=32,
        learning_rate=2e-4,
        eval_strategy="epoch",
        save_strategy="no",
        report_to=[],
        disable_tqdm=True,
        use_cpu=not torch.cuda.is_available(),
    )
    trainer = Trainer(
        model=model,
        args=arguments,
        train_dataset=make_data(200, 1),
        eval_dataset=make_data(32, 2),
    )
    trainer.train()
    print("weights %.9f" % sum(float(own.norm()) for own in model.parameters()))


if __name__ == "__main__":
    main()
