# A Slurm that accepts allocations, and jobs for this machine.
. "$DOCUMENTS/slurm.sh"
full_cluster
cat >jobs.yaml <<'TEXT'
jobs:
  - {name: a, samples_per_epoch: 10, epochs: 1, global_batch: 10, model_size: 0MB, max_gpus: 1, throughput: {cpu: 100, v100: 100, t4: 50}, command: "true"}
  - {name: b, samples_per_epoch: 10, epochs: 1, global_batch: 10, model_size: 0MB, max_gpus: 1, throughput: {cpu: 100, v100: 100, t4: 50}, command: "true"}
TEXT
cat >sweep.yaml <<'TEXT'
jobs:
  - name: lr
    samples_per_epoch: 10
    epochs: 1
    global_batch: 10
    model_size: 0MB
    max_gpus: 1
    throughput: {v100: 100, t4: 50}
    command: "true"
    sweep: {lr: [1, 2, 3], seed: [1, 2, 3, 4]}
TEXT
