# A sweep that has run here, and a waiting trial.
. "$DOCUMENTS/sweep.sh"
cat >job.yaml <<'TEXT'
jobs:
  - {name: NAME, samples_per_epoch: 10, epochs: 1, global_batch: 10, model_size: 0MB, max_gpus: 1, throughput: {cpu: 100}, command: "true"}
TEXT
echo '{"trial": 7, "parameters": {"lr": 0.1}}' | hsched ask job.yaml >log
