# A Slurm made of fixed texts for the documents: a busy cluster of eight A100 and four V100 GPUs, with past runs of
# train.sh and a pending job of another user. Sourced by the scripts of pages; programs are written to $PLACE/bin.

# Makes a program from the lines of its input.
program() {
  { printf '#!/bin/bash\nPATH=/usr/bin:/bin\nPLACE=%q\n' "$PLACE"; cat; } >"$PLACE/bin/$1"
  chmod +x "$PLACE/bin/$1"
}

# Prints the time in this number of minutes, in Slurm's format.
moment() { date -d "$1 minutes" +%Y-%m-%dT%H:%M:%S; }

# Converts records with bars between the fields to the separators that hsched requests from Slurm.
records() { sed -z 's/|/\x1f/g; s/\n/\x1e\n/g'; }

# A cluster with free GPUs for which a large job of another user waits.
full_cluster() {
  records >"$PLACE/sinfo" <<'TEXT'
a1|gpu*|2-00:00:00|mixed|gpu:a100:4|gpu:a100:4(IDX:0-3)|32/32/0/64|512000|256000||none
a2|gpu*|2-00:00:00|idle|gpu:a100:4|gpu:a100:0(IDX:N/A)|0/64/0/64|512000|512000||none
v1|gpu*|2-00:00:00|mixed|gpu:v100:4|gpu:v100:4(IDX:0-3)|16/16/0/32|256000|128000||none
TEXT
  {
    running 11 a1 a100 4 -300 12:00:00
    running 14 v1 v100 4 -420 10:00:00
    echo "21|PENDING|eve|bio|normal|gpu|900|$(moment -90)|N/A|20:00:00|2|16|16|cpu=16,node=2|gres:gpu:a100:4|N/A|N/A|N/A||(null)|(null)|OK|Resources"
  } | records >"$PLACE/queue"
  : >"$PLACE/mine"
  program sinfo <<'TEXT'
cat "$PLACE/sinfo"
TEXT
  program squeue <<'TEXT'
case $1 in --all) cat "$PLACE/queue";; *) cat "$PLACE/mine";; esac
TEXT
  program sbatch <<'TEXT'
[[ $1 == --version ]] && { echo "slurm 24.11.5"; exit; }
number=$(($(cat "$PLACE/number" 2>/dev/null || echo 156) + 1))
echo $number >"$PLACE/number"
for word in "$@"; do [[ $word == --comment=* ]] && printf '%s' "${word#--comment=}" >"$PLACE/comment.$number"; done
echo $number
TEXT
  program scontrol <<'TEXT'
case "$*" in
ping) echo "Slurmctld(primary) at north is UP";;
"show config") printf '%s\n' "ClusterName = north" "SLURM_VERSION = 24.11.5" "SchedulerType = sched/backfill" "SelectType = select/cons_tres" \
  "AccountingStorageType = accounting_storage/slurmdbd" "PriorityType = priority/multifactor";;
"-o show partition") echo "PartitionName=gpu Default=YES MaxTime=2-00:00:00 PriorityTier=1 State=UP Nodes=a[1-2],v1";;
"-o show reservation") echo "No reservations in the system";;
"-o show job "*) cat "$PLACE/job" 2>/dev/null || { echo "slurm_load_jobs error: Invalid job id specified" >&2; exit 1; };;
update*) exit 0;;
*) exit 9;;
esac
TEXT
  for hours in 2 3 3 4 4; do
    echo "$((100 + hours))|COMPLETED|$((hours * 3600 - 900))|billing=16,cpu=16,gres/gpu:a100=4,gres/gpu=4,mem=64G,node=1|1|a1|1|50000M|gpu"
  done | sed 's/|/\x1f/g' >"$PLACE/past"
  program sacct <<'TEXT'
now=$(date +%Y-%m-%dT%H:%M:%S)
for word in "$@"; do
  case $word in
  --name=*) [[ $* != *ElapsedRaw* ]] || cat "$PLACE/past" ;;
  --jobs=*) # every job has ended well
    for id in $(tr , ' ' <<<"${word#--jobs=}"); do
      printf '%s\x1f' "$id" "$id" COMPLETED 0:0 0:0 "$now" "$now" "$now" gpu a2 x
      cat "$PLACE/comment.$id"
      echo
    done ;;
  esac
done
TEXT
  program sshare <<'TEXT'
echo "bio|$USER|1|0|0.5"
TEXT
  program scancel <<'TEXT'
exit 0
TEXT
  program sacctmgr <<'TEXT'
exit 0
TEXT
}

# Prints a running job: id, node, type, GPUs, start in minutes from now, limit.
running() {
  echo "$1|RUNNING|man|bio|normal|gpu|9|$(moment $(($5 - 30)))|$(moment "$5")|$6|1|8|8|cpu=8,node=1|gres:gpu:$3:$4|N/A|N/A|N/A|$2|(null)|(null)|OK|None"
}

# A batch script that requests more than it needs.
train_script() {
  cat >train.sh <<'TEXT'
#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --gres=gpu:a100:4
#SBATCH --cpus-per-task=16 --mem=64G
srun python train.py
TEXT
}
