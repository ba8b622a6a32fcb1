# A full cluster and a batch script.
. "$DOCUMENTS/slurm.sh"
full_cluster
train_script
