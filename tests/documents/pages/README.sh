# A full cluster, a batch script and the jobs of the examples.
. "$DOCUMENTS/slurm.sh"
full_cluster
train_script
cp examples/jobs.yaml .
