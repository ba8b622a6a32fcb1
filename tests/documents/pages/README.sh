# A Slurm with two idle nodes, a batch script and the jobs of the examples.
. "$DOCUMENTS/slurm.sh"
full_cluster
train_script
cp examples/jobs.yaml .
printf 'v1|gpu*|2-00:00:00|idle|gpu:v100:4|gpu:v100:0(IDX:N/A)|0/32/0/32|256000|256000||none\n' | records >"$PLACE/sinfo"
printf 'a1|gpu*|2-00:00:00|idle|gpu:a100:4|gpu:a100:0(IDX:N/A)|0/64/0/64|512000|512000||none\n' | records >>"$PLACE/sinfo"
