# A cluster whose free GPUs another user's job waits for, and a batch script; a submitted job has ended by the next look.
. "$DOCUMENTS/slurm.sh"
full_cluster
train_script
for number in 157 158; do echo "epoch 1" >slurm-$number.out; done
program squeue <<'TEXT'
if [[ $1 == --all ]]; then cat "$PLACE/queue"; exit; fi
number=$(cat "$PLACE/number" 2>/dev/null) || exit 0
now=$(date +%Y-%m-%dT%H:%M:%S)
printf '%s\x1f' "$number" "$number" N/A N/A COMPLETED None gpu "$now" "$now" "$now" 1-00:00:00 1 16 0 0 a2 '' '' N/A train.sh
printf '%s\x1e\n' "$(cat "$PLACE/comment.$number")"
TEXT
