# A full cluster and a batch script, which has printed something.
. "$DOCUMENTS/slurm.sh"
full_cluster
train_script
echo "epoch 1" >slurm-157.out
