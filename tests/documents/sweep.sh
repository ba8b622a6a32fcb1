# A sweep that has run here, with losses that depend on the parameters. Sourced by the scripts of pages.
cat >sweep.yaml <<'TEXT'
jobs:
  - name: lr
    samples_per_epoch: 10
    epochs: 1
    global_batch: 10
    model_size: 0MB
    max_gpus: 1
    throughput: {cpu: 100}
    command: 'echo "{\"epoch\": 1, \"metrics\": {\"val_loss\": 1$SEED.$LR}}" >>"$HSCHED_REPORT"'
    sweep: {lr: [2, 1], seed: [1, 2]}
TEXT
hsched run sweep.yaml --devices cpu:4 >log
