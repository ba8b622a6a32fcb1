# Two jobs for `hsched run` that end at once.
cat >jobs.yaml <<'TEXT'
jobs:
  - {name: a, samples_per_epoch: 10, epochs: 1, global_batch: 10, model_size: 0MB, max_gpus: 1, throughput: {v100: 100, k80: 50}, command: "true"}
  - {name: b, samples_per_epoch: 10, epochs: 1, global_batch: 10, model_size: 0MB, max_gpus: 1, throughput: {v100: 100, k80: 50}, command: "true"}
TEXT
