# A full cluster, a batch script, and jobs for two GPU types.
. "$DOCUMENTS/slurm.sh"
full_cluster
train_script
sed 's/account: .*/account: bio/; /partition:/d' examples/queue.yaml >jobs.yaml
