# A trace, its cluster, jobs for a Slurm cluster, and a job that has run here.
. "$DOCUMENTS/slurm.sh"
full_cluster
cp examples/cluster.yaml lab.yaml
hsched generate trace --jobs 12 --seed 1 >week.yaml
cat >jobs.yaml <<'TEXT'
jobs:
  - {name: a, samples_per_epoch: 10, epochs: 1, global_batch: 10, model_size: 0MB, max_gpus: 1, throughput: {cpu: 100, a100: 200, v100: 100}, command: "true"}
TEXT
hsched run jobs.yaml --devices cpu:1 >log
