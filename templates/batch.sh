# shellcheck shell=bash
# The batch shell of a job script: takes part in races and chains, lists the nodes, and sets up the environment of the
# ranks.
# The first part of the script, or a function in another place, sets the variables:
# shellcheck disable=SC2154,SC2034,SC2016

hs_batch_main() {
  set -uo pipefail
  hs_terminated=0 hs_interrupted=0 hs_srun='' hs_forwarded=0 hs_hostfile='' hs_epochs_before='' hs_saved=''
  trap hs_on_exit EXIT
  hs_trap_signals
  case $hs_launch in
    local | steps) hs_id=$PPID ;;   # the guard of "hsched run"; an allocation has many of these scripts
    *) hs_id=${SLURM_JOB_ID-} ;;
  esac
  [[ -n $hs_id ]] || hs_fail "this is a batch script: submit it with sbatch"
  hs_token=$hs_id.${SLURM_RESTART_COUNT:-0}.$(date +%s)
  # Only the user may read the reports; checkpoints get the user's umask.
  (umask 077 && mkdir -p -- "$hs_report_dir") || hs_fail "cannot create the report directory"
  if [[ -n $hs_follows ]]; then hs_follow; fi
  if [[ -n $hs_claim ]]; then hs_race; fi
  hs_take_fence
  hs_check_path "$hs_checkpoint_dir"
  mkdir -p -- "$hs_checkpoint_dir" || hs_fail "cannot create the checkpoint directory"

  hs_note_begin

  hs_list_hosts
  if ((${#hs_choices[@]} > 0)); then hs_take_table; fi
  hs_find_master
  hs_count_epochs
  hs_join_batches
  # Built now, so that no line of setup can change it.
  local hs_program
  hs_program=$(hs_rank_program)

  hs_set_environment
  hs_export_common
  hs_run_lines setup ${hs_setup[@]+"${hs_setup[@]}"} || exit
  hs_trap_signals
  hs_clear_knobs
  if ((hs_stopping)); then
    hs_say "stop requested before the ranks started"
    hs_end 85
  fi
  hs_epochs_before=$hs_epochs_done hs_files_before=$(hs_checkpoint_files)
  hs_start_ranks "$hs_program"
  hs_await "$hs_srun"
  if hs_is_superseded; then
    hs_say "a newer submission of this job has started; this one ends and its results are ignored"
    trap - EXIT
    hs_clean_up   # without recording an end, which might be taken for that of a requeued run of this Slurm job
    exit 86   # uses no retry if hsched still follows it
  fi
  hs_judge
}

# Fails if another user could have redirected a path: with a symbolic link in a directory that other users can write to.
hs_check_path() {
  local path='' part owner above mode
  local -a parts
  IFS=/ read -r -a parts <<<"${1#/}"
  for part in "${parts[@]}"; do
    if [[ -L $path/$part ]]; then
      owner=$(stat -c %u -- "$path/$part")
      IFS=' ' read -r above mode <<<"$(stat -L -c '%u %a' -- "$path/")"
      if [[ $owner != "$UID" && $owner != 0 && $owner != "$above" ]] && ((8#$mode & 8#22)); then
        hs_fail "$path/$part is a symbolic link of user $owner, in a directory that other users can write to: remove it, or use another directory"
      fi
    fi
    path+=/$part
  done
}

# Continues the chain after Slurm job hs_follows, the previous submission: asks it to save and waits until it has ended.
hs_follow() {
  local status='' asked='' killed='' since=$SECONDS next=0
  while :; do
    status=$(hs_word_of "$hs_follows")
    if [[ -n $status ]]; then break; fi
    if ((SECONDS >= next)); then
      if hs_is_over "$hs_follows"; then
        status=$(hs_word_of "$hs_follows")
        break
      fi
      next=$((SECONDS + 5))
    fi
    if ((hs_stopping)); then hs_end 85; fi
    if [[ -z $asked ]]; then
      asked=1
      hs_say "asking job $hs_follows, the previous submission of this chain, to save and exit"
      scancel --me --state=RUNNING --signal=USR1 --batch "$hs_follows" 2>/dev/null
    elif [[ -z $killed ]] && ((SECONDS - since > hs_grace + 60)); then
      killed=1
      scancel --me "$hs_follows" 2>/dev/null
    elif ((SECONDS - since > hs_grace + 300)); then
      hs_say "error: job $hs_follows, the previous submission of this chain, does not exit"
      hs_end 1
    fi
    sleep 1
  done
  if [[ -z $killed && ${status:-143} == 143 ]] && hs_was_cancelled "$hs_follows"; then status=CANCELLED; fi
  case ${status:-85} in
    85 | 86 | 143) ;;
    *)
      # It completed, failed or was cancelled: the hsched that submitted it decides the consequence for the
      # job.
      hs_take "$hs_follows" >/dev/null
      hs_say "job $hs_follows, the previous submission of this chain, ended with status $status; nothing is left to do"
      trap - EXIT
      exit 0
      ;;
  esac
}

# Prints the status that Slurm job $1, the previous submission, recorded; prints nothing if it recorded none.
hs_word_of() {
  local id status word=''
  [[ -r $hs_report_dir_before/ends ]] || return 0
  while read -r id status _; do if [[ $id == "$1" ]]; then word=$status; fi; done <"$hs_report_dir_before/ends"
  printf '%s' "$word"
}

# Returns whether job $1 has left Slurm's queue. If Slurm does not answer, or does not show this running job
# either, job $1 counts as still in the queue.
hs_is_over() {
  local shown id own=''
  shown=$(squeue --noheader --all --jobs="$1,$hs_id" --format=%i 2>/dev/null) || return 1
  for id in $shown; do
    case ${id%%+*} in "$1") return 1 ;; "$hs_id") own=1 ;; esac
  done
  [[ -n $own ]]
}

# Returns whether job $1, which has ended, was cancelled. Its recorded status does not show this: a job that
# reaches its time limit records the same one. squeue shows ended jobs for some minutes, sacct for longer. If
# neither shows the job, it counts as not cancelled.
hs_was_cancelled() {
  local state='' try
  for ((try = 0; try < 24; try++)); do
    state=$(squeue --noheader --states=all --jobs="$1" --format=%T 2>/dev/null)
    case $state in
      CANCELLED) return 0 ;;
      RUNNING | COMPLETING) sleep 5 ;;
      ?*) return 1 ;;
      *) break ;;
    esac
  done
  state=$(sacct --allocations --noheader --parsable2 --jobs="$1" --format=State 2>/dev/null)
  [[ ${state##*$'\n'} == CANCELLED* ]]
}

# Claims the job for this Slurm job, or ends with status 0 if another request of the race has claimed it. Only the winner
# may train, even if it dies. A requeued Slurm job already has the claim.
hs_race() {
  local winner
  winner=$(hs_take "$hs_id") || exit
  if [[ $winner != "$hs_id" ]]; then
    hs_say "job ${winner:-with another id} started first and trains; nothing is left to do"
    trap - EXIT
    exit 0
  fi
  hs_cancel_others </dev/null >/dev/null 2>&1 &
}

# Records that job $1 claims the training, unless another job has, and prints the job that has the claim.
hs_take() {
  # The claim lies among the reports of the race's first request, which may never have started. If
  # the directory cannot be created, neither can the link.
  (umask 077 && mkdir -p -- "${hs_claim%/*}")
  # Creating a symbolic link is atomic, even on file systems without hard links.
  ln -s -T -- "$1" "$hs_claim" 2>/dev/null
  if [[ -L $hs_claim ]]; then
    readlink -- "$hs_claim"
  elif [[ -s $hs_claim ]]; then
    cat -- "$hs_claim"   # written by hsched 0.1.0
  else
    hs_fail "cannot create the symbolic link $hs_claim"
  fi
}

# Cancels the other requests of the race, so that Slurm frees no GPUs for them: those of its first run, and those that
# joined it later. A request that starts anyway finds the claim, which lies in the folder of the first run.
hs_cancel_others() {
  local id comment race=${hs_claim%/report/*}
  race=${race##*/}
  trap - EXIT USR1 TERM
  while read -r id comment; do
    if [[ ${id%%+*} == "$hs_id" || $comment != *"\"job\":\"$hs_job\""* ]]; then continue; fi
    if [[ $comment == *"\"run\":\"$race\""* || $comment == *"\"race\":\"$race\""* ]]; then
      scancel --state=PENDING "${id%%+*}"
    fi
  done < <(squeue --me --noheader --states=PENDING --format='%i %k')
}

hs_trap_signals() {
  trap hs_on_stop USR1
  # Slurm signals the ranks itself. This shell waits for them, because Slurm kills them when it exits.
  trap 'hs_interrupted=1 hs_terminated=1' TERM
}

# Records where in the output file the output of this submission begins, after the output of earlier submissions.
hs_note_begin() {
  local size
  size=$(stat -L -c %s "/proc/$$/fd/1" 2>/dev/null)   # $$, because fd 1 of this subshell is the pipe
  if [[ $size =~ ^[0-9]+$ ]]; then printf '%s\n' "$size" >>"$hs_report_dir/begins"; fi
}

# Sets hs_hosts, indexed by the node numbers of the table. If the plan names the nodes, fails unless Slurm
# allocated all of them.
hs_list_hosts() {
  local k nodes variable name
  local -a found=()
  if [[ $hs_launch == local ]]; then return; fi
  for k in "${!hs_components[@]}"; do
    variable=SLURM_JOB_NODELIST
    if [[ $hs_launch == het ]]; then variable+=_HET_GROUP_$k; fi
    nodes=$(scontrol show hostnames "${!variable-}") || hs_fail "cannot list the nodes of \$$variable"
    while read -r name; do found+=("$name"); done <<<"$nodes"
  done
  if ((${#hs_hosts[@]} == 0)); then
    hs_hosts=("${found[@]}")
    return
  fi
  for name in "${hs_hosts[@]}"; do
    [[ " ${found[*]} " == *" $name "* ]] || hs_fail "the plan names node $name, but Slurm allocated: ${found[*]}"
  done
}

# If Slurm allocated other GPUs than planned, for example because the pending request was updated, uses the table
# for these GPUs; fails if there is none.
hs_take_table() {
  local given planned known k=0 cpus row
  local -a rows
  given=$(hs_given_gpus)
  planned=$(hs_gpus_of "${hs_ranks[@]}")
  # If Slurm does not show the GPUs, assume the requested ones.
  if [[ -z $given || ${given,,} == "${planned,,}" ]]; then return; fi
  known=$planned
  while hs_choice "$k"; do
    planned=$(hs_gpus_of "${rows[@]}")
    if [[ ${given,,} == "${planned,,}" ]]; then
      hs_ranks=("${rows[@]}")
      hs_world_size=${#rows[@]}
      IFS=' ' read -r _ _ cpus <<<"${hs_components[0]}"
      row=$((hs_world_size / ${#hs_hosts[@]}))
      # An update of the GPUs does not always update the CPUs.
      if [[ $cpus != - && ${SLURM_CPUS_ON_NODE-} =~ ^[0-9]+$ ]] && ((cpus * row > SLURM_CPUS_ON_NODE)); then
        cpus=$((SLURM_CPUS_ON_NODE / row > 0 ? SLURM_CPUS_ON_NODE / row : 1))
      fi
      hs_components=("${#hs_hosts[@]} $row $cpus")
      hs_say "Slurm allocated $given: using the shares for these GPUs"
      return
    fi
    known+="; $planned"
    k=$((k + 1))
  done
  hs_fail "Slurm allocated $given, but the script has shares only for: $known"
}

# Sets rows to table number $1; fails if there is none.
hs_choice() {
  local line
  rows=()
  for line in "${hs_choices[@]}"; do
    if [[ $line == "$1 "* ]]; then rows+=("${line#* }"); fi
  done
  ((${#rows[@]} > 0))
}

# Prints the GPUs of the ranks $@, such as "2 nodes with 4 v100", which are the same on each node.
hs_gpus_of() {
  local row node type nodes=0
  local -A count=()
  for row in "$@"; do
    IFS=' ' read -r node _ _ _ _ type <<<"$row"
    if ((node >= nodes)); then nodes=$((node + 1)); fi
    if [[ $node == 0 ]]; then count[$type]=$((${count[$type]-0} + 1)); fi
  done
  hs_write_gpus "$nodes"
}

# Prints the GPUs that Slurm allocated in the same format; prints nothing if it does not show their types, or if the
# nodes differ.
hs_given_gpus() {
  local line gres part nodes=${#hs_hosts[@]} first=''
  local -A count=()
  while IFS= read -r line; do
    [[ $line =~ GRES=([^[:space:]]*) ]] || continue
    gres=${BASH_REMATCH[1]}
    # The numbers of the devices differ from node to node.
    while [[ $gres =~ (.*)\([^\)]*\)(.*) ]]; do gres=${BASH_REMATCH[1]}${BASH_REMATCH[2]}; done
    if [[ -n $first && $gres != "$first" ]]; then return; fi
    first=$gres
  done < <(scontrol --details --oneliner show job "$hs_id" 2>/dev/null | grep -o ' Nodes=[^ ]* CPU_IDs=[^ ]* Mem=[^ ]* GRES=[^ ]*')
  for part in ${first//,/ }; do
    if [[ $part =~ ^gpu:([^:]+):([0-9]+)$ ]]; then count[${BASH_REMATCH[1]}]=${BASH_REMATCH[2]}; fi
  done
  if ((${#count[@]} > 0)); then hs_write_gpus "$nodes"; fi
}

# Prints the caller's counts of GPUs by type, for $1 nodes.
hs_write_gpus() {
  local type list=''
  for type in $(printf '%s\n' "${!count[@]}" | sort); do list+=${list:+ and }"${count[$type]} $type"; done
  if (($1 == 1)); then printf '1 node with %s\n' "$list"; else printf '%d nodes with %s\n' "$1" "$list"; fi
}

# Sets the address and the port of rank 0, which is on node 0. The name of the node may not resolve
# outside Slurm.
hs_find_master() {
  local try seed
  hs_master_addr=${hs_hosts[0]}
  if [[ $hs_launch == local ]]; then
    hs_master_addr=127.0.0.1
  elif command -v getent >/dev/null && ! getent hosts "$hs_master_addr" >/dev/null; then
    if [[ $(scontrol show node "$hs_master_addr") =~ NodeAddr=([^[:space:]]+) ]]; then
      hs_master_addr=${BASH_REMATCH[1]}
    fi
  fi
  # The port is below those that Linux uses for outgoing connections. The seed includes the run, because two clusters on
  # one host can have equal job ids. Two jobs on a node can still get the same port.
  seed=$(cksum <<<"$hs_run $hs_id")
  seed=${seed%% *}
  if [[ $hs_launch == local ]]; then seed=$hs_id; fi   # all jobs are on this machine, and their ids differ
  hs_master_port=$((20000 + seed % 12000))
  if [[ $hs_launch == local || ${SLURMD_NODENAME-} == "${hs_hosts[0]}" ]]; then
    for ((try = 0; try < 50; try++)); do
      (exec 3<>"/dev/tcp/127.0.0.1/$hs_master_port") 2>/dev/null || break
      hs_master_port=$((20000 + (seed + 997 * (try + 1)) % 12000))
    done
  fi
}

# Raises hs_epochs_done to the highest epoch that rank 0 has reported in the previous submission or in this one, also
# before a requeue. Like hsched, this ignores lines that are not JSON objects and epochs beyond those of the job.
hs_count_epochs() {
  local report line epoch pattern='"epoch"[[:space:]]*:[[:space:]]*([0-9]{1,9})(\.0*)?[[:space:]]*[,}]'
  for report in "$hs_report_dir_before" "$hs_report_dir"; do
    report+=/rank-0.jsonl
    [[ -r $report ]] || continue
    while IFS= read -r line; do   # a last line without a newline was truncated by a crash
      [[ $line =~ ^[[:space:]]*\{(.*\})[[:space:]]*$ ]] || continue
      line=${BASH_REMATCH[1]}
      while [[ $line =~ ^(.*)\{[^{}]*\}(.*\})$ ]]; do line=${BASH_REMATCH[1]}0${BASH_REMATCH[2]}; done   # nested objects
      [[ $line =~ $pattern ]] || continue
      epoch=$((10#${BASH_REMATCH[1]}))
      if ((epoch > hs_epochs_done && epoch <= hs_epochs)); then hs_epochs_done=$epoch; fi
    done <"$report"
  done
}

hs_join_batches() {
  local row batch
  hs_batches=
  for row in "${hs_ranks[@]}"; do
    IFS=' ' read -r _ _ batch _ <<<"$row"
    hs_batches+=,$batch
  done
  hs_batches=${hs_batches#,}
}

hs_set_environment() {
  local hs_pair
  for hs_pair in ${hs_environment[@]+"${hs_environment[@]}"}; do
    [[ ${hs_pair%%=*} =~ ^[A-Za-z_][A-Za-z0-9_]*$ && $hs_pair != hs_* ]] || hs_fail "invalid variable name: ${hs_pair%%=*}"
    # shellcheck disable=SC2163
    export "$hs_pair" || hs_fail "cannot set ${hs_pair%%=*}"
  done
  IFS=$' \t\n'
}

# Unsets the variables from which srun reads options: the user's shell may have set them.
hs_clear_knobs() {
  local name
  for name in $(compgen -e); do
    case $name in
      SRUN_* | SLURM_HOSTFILE | SLURM_DISTRIBUTION | SLURM_EXPORT_ENV | SLURM_GRES | SLURM_STEP_GRES | SLURM_TRES_PER_TASK | \
        SLURM_GPUS | SLURM_GPUS_PER_* | SLURM_GPU_BIND | SLURM_NTASKS_PER_* | SLURM_MEM_PER_* | \
        SLURM_CPUS_PER_GPU | SLURM_CPUS_PER_TASK | SLURM_EXCLUSIVE | SLURM_EXACT | SLURM_OVERCOMMIT | SLURM_OVERLAP | SLURM_WHOLE | \
        SLURM_SPREAD_JOB | SLURM_USE_MIN_NODES | SLURM_MULTI_PROG | SLURM_RELATIVE | SLURM_REMOTE_CWD | SLURM_WORKING_DIR | \
        SLURM_STDINMODE | SLURM_STDOUTMODE | SLURM_STDERRMODE | SLURM_OPEN_MODE | SLURM_WAIT | SLURM_KILL_BAD_EXIT | \
        SLURM_MPI_TYPE | SLURM_NO_KILL | SLURM_IMMEDIATE | SLURM_EXIT_* | SLURM_TIMELIMIT | SLURM_DEPENDENCY | \
        SLURM_CONSTRAINT | SLURM_CLUSTER_CONSTRAINT | SLURM_NODELIST | SLURM_NNODES | SLURM_NPROCS | SLURM_NTASKS | SLURM_TASKS_PER_NODE | \
        SLURM_RESV_PORTS | SLURM_THREADS | SLURM_CONTAINER | SLURM_BCAST*)
        unset -v "$name"
        ;;
    esac
  done
}
