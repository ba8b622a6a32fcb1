# A job for this machine.
cat >jobs.yaml <<'TEXT'
jobs:
  - {name: vit, samples_per_epoch: 50000, epochs: 90, global_batch: 256, model_size: 86MB, max_gpus: 1, command: "python train.py --epochs 90"}
TEXT
