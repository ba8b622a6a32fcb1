# A batch script that may run in pieces.
. "$DOCUMENTS/slurm.sh"
full_cluster
train_script
