# shellcheck shell=bash
# The batch shell of a job script: lists the nodes, starts the ranks with srun, forwards the stop signal and waits for
# the ranks to end.
# The first part of the script sets the variables, or one function sets them for others:
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

# Returns whether job $1, which has ended, was cancelled: it records the same status at its time limit. squeue shows
# ended jobs for some minutes, accounting for longer. If neither shows the job, it was not cancelled.
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
  # It lies among the reports of the race's first request, which may never have started. If this fails, the link fails.
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

# Cancels the other requests of the race, so that Slurm frees no GPUs for them. A request that starts anyway
# finds the claim.
hs_cancel_others() {
  local id comment
  trap - EXIT USR1 TERM
  while read -r id comment; do
    if [[ ${id%%+*} != "$hs_id" && $comment == *"\"run\":\"$hs_run\""* && $comment == *"\"job\":\"$hs_job\""* ]]; then
      scancel --state=PENDING "${id%%+*}"
    fi
  done < <(squeue --me --noheader --states=PENDING --format='%i %k')
}

hs_trap_signals() {
  trap hs_on_stop USR1
  # Slurm signals the ranks itself. This shell waits for them, because Slurm kills them when it exits.
  trap 'hs_interrupted=1 hs_terminated=1' TERM
}

# Records where the output of this submission begins in the file, after the output of earlier submissions.
hs_note_begin() {
  local size
  size=$(stat -L -c %s "/proc/$$/fd/1" 2>/dev/null)   # $$, because fd 1 of this subshell is the pipe
  if [[ $size =~ ^[0-9]+$ ]]; then printf '%s\n' "$size" >>"$hs_report_dir/begins"; fi
}

# Sets hs_hosts, indexed by the node numbers of the table, unless the plan names the nodes.
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

# If Slurm allocated other GPUs than planned, for example because the pending request was updated, uses their table.
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

# Rank 0 is on node 0. Its name may not resolve outside Slurm.
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
  # Below the ports that Linux uses for outgoing connections. The seed includes the run, because two clusters on one host
  # can have equal job ids. Two jobs on a node can still get the same port.
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

# A requeued job resumes after the last epoch that rank 0 reported, including reports of the previous submission. Like
# hsched, this ignores lines that are not JSON objects and epochs beyond those of the job.
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

# srun also reads options from the environment, which the user's shell may have set.
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

# Prints the script of a rank. It travels in the environment, because srun copies that to all nodes, but no files.
hs_rank_program() {
  declare -p hs_job hs_run hs_plan hs_world_size hs_global_batch hs_epochs hs_epochs_done hs_checkpoint_dir \
    hs_report_dir hs_helper_dir hs_grace hs_token hs_fence hs_ticket hs_master_addr hs_master_port hs_batches hs_ranks hs_hosts hs_device_order \
    hs_node_setup hs_command hs_shell hs_launch
  declare -f hs_say hs_fail hs_run_lines hs_match_plainly hs_export_common hs_rank_main hs_trap_rank_signals hs_mark_returned hs_end_done hs_has_last_epoch hs_end_stopped \
    hs_mark_done hs_mark_failed hs_find_row hs_is_superseded hs_end_superseded hs_enter_fence hs_guard_fence hs_list_processes \
    hs_open_node_directory hs_prepare_node hs_on_node_exit hs_print_environment hs_take_devices hs_order_devices hs_types_by_name \
    hs_name_has_type hs_types_by_order \
    hs_types_suffice hs_start_sampler hs_end_sampler hs_sample_node hs_open_gpus hs_close_gpus hs_read_gpus hs_has_changed \
    hs_state_of hs_find_processes hs_read_processes hs_write_sample hs_add hs_add_number
  if [[ -n ${hs_preflight-} ]]; then
    declare -p hs_preflight
    declare -f hs_check_rank hs_check_gpu hs_check_links
  fi
}

# Starts srun in the background: bash runs a trap only while it waits.
hs_start_ranks() {
  local k nodes per_node cpus variable
  # No --gpu-bind: without it, every rank sees all GPUs of its node; "none" would unset CUDA_VISIBLE_DEVICES.
  local -a command=(srun) common=(--kill-on-bad-exit=1 --wait=0 --export=ALL --input=none --mpi=none --mem=0)
  local -a rank=(bash -c '
    hs_stopping=0; trap "hs_stopping=1" USR1
    hs_program=
    for ((hs_part = 0; hs_part < HSCHED_PROGRAM_PARTS; hs_part++)); do
      hs_name=HSCHED_PROGRAM_$hs_part; hs_program+=${!hs_name}; unset -v "$hs_name"
    done
    unset -v HSCHED_PROGRAM_PARTS; eval "$hs_program"; hs_rank_main "$@"' hsched-rank)

  hs_export_program "$1"
  if [[ $hs_launch == local ]]; then
    hs_local_step "${rank[@]}" &
    hs_srun=$!
    if ((hs_stopping)); then hs_forward; fi
    return
  fi
  for k in "${!hs_components[@]}"; do
    IFS=' ' read -r nodes per_node cpus <<<"${hs_components[k]}"
    if [[ $hs_launch == steps ]]; then
      # One step over all nodes, next to the steps of other jobs. Slurm would bind all of them to the same cores.
      hs_write_hostfile
      command+=("${common[@]}" --overlap --cpu-bind=none "--cpus-per-task=$cpus")
      command+=(--distribution=arbitrary "--ntasks=$hs_world_size" "${rank[@]}" "$cpus")
      break
    fi
    if ((k > 0)); then command+=(:); fi
    variable=SLURM_CPUS_PER_TASK
    if [[ $hs_launch == het ]]; then
      command+=("--het-group=$k")
      variable+=_HET_GROUP_$k
    fi
    # Since 22.05, srun does not inherit this from sbatch.
    if [[ $cpus == - ]]; then cpus=${!variable-}; fi
    command+=("${common[@]}" ${cpus:+"--cpus-per-task=$cpus"})
    if [[ $hs_launch == hostfile ]]; then
      hs_write_hostfile
      command+=(--distribution=arbitrary "--ntasks=$hs_world_size")
    else
      command+=(--distribution=block "--nodes=$nodes" "--ntasks=$((nodes * per_node))" "--ntasks-per-node=$per_node")
    fi
    command+=("${rank[@]}" "$cpus")
  done
  "${command[@]}" &
  hs_srun=$!
  hs_started=$SECONDS
  if ((hs_stopping)); then hs_forward; fi
}

# Writes the node of each rank to a file for srun, which since 24.11 does not accept --nodes with such a file.
hs_write_hostfile() {
  local place
  hs_hostfile=$(mktemp) || hs_fail "cannot write a temporary file"
  for place in "${hs_ranks[@]}"; do printf '%s\n' "${hs_hosts[${place%% *}]}"; done >"$hs_hostfile"
  export SLURM_HOSTFILE=$hs_hostfile
}

# Exports the script in parts, because the kernel limits a variable to 128 KiB.
hs_export_program() {
  local program=$1 k=0
  while [[ -n $program ]]; do
    export "HSCHED_PROGRAM_$k=${program:0:30000}"   # characters, of up to 4 bytes
    program=${program:30000}
    k=$((k + 1))
  done
  export HSCHED_PROGRAM_PARTS=$k
}

# Does the work of srun for ranks on this machine: each rank gets its own process group, and if one fails, the others are
# killed. $@: command that starts a rank. Sets no traps: bash may miss the end of a process while it runs a trap.
hs_local_step() {
  trap - EXIT USR1 TERM
  local k cpus pid own status=0
  local -a pids=()
  IFS=' ' read -r _ _ cpus <<<"${hs_components[0]}"
  # These variables of a surrounding allocation do not apply to these ranks.
  unset -v SLURM_PROCID SLURM_LOCALID SLURMD_NODENAME SLURM_STEP_NUM_TASKS
  set -m
  for k in "${!hs_ranks[@]}"; do
    hs_local_rank "$@" "${cpus#-}" "$k" </dev/null &
    pids+=($!)
    printf '%s\n' "$!" >>"$hs_report_dir/.groups.$hs_token"
  done
  set +m
  # A rank that failed before the last one started could not signal all ranks.
  if [[ -e $hs_report_dir/.ended.$hs_token ]]; then hs_signal_ranks TERM; fi
  for pid in "${pids[@]}"; do
    wait "$pid"
    own=$?
    if ((own == 138)) && [[ -e $hs_report_dir/.stop.$hs_token ]]; then hs_mark_stopped; own=0; fi
    if ((status == 0)); then status=$own; fi
  done
  exit "$status"
}

# A rank that the signal killed before it set its trap has nothing to save.
hs_local_rank() {
  trap : USR1 TERM
  "$@"
  local status=$?
  if ((status == 138)) && [[ -e $hs_report_dir/.stop.$hs_token ]]; then
    hs_mark_stopped
    exit 0
  fi
  if ((status != 0)); then
    : >>"$hs_report_dir/.ended.$hs_token"
    hs_signal_ranks TERM
    (sleep 10; hs_signal_ranks KILL) &
  fi
  exit "$status"
}

hs_mark_stopped() { : >>"$hs_report_dir/.stopped.$hs_token" || exit 85; }

hs_signal_ranks() {
  local group
  [[ -e $hs_report_dir/.groups.$hs_token ]] || return 0
  while read -r group; do kill "-$1" -- "-$group" 2>/dev/null; done <"$hs_report_dir/.groups.$hs_token"
}

hs_on_stop() {
  hs_interrupted=1
  if ((hs_stopping)); then return; fi
  hs_stopping=1
  hs_say "stop requested"
  hs_forward
}

# srun forwards the signal to every rank of every component, except on nodes that have not yet reported that their tasks
# run. Ranks that start later see the file.
hs_forward() {
  if ((hs_forwarded)) || [[ -z $hs_srun ]]; then return; fi
  hs_forwarded=1
  : >"$hs_report_dir/.stop.$hs_token"
  if [[ $hs_launch == local ]]; then
    hs_signal_ranks USR1
    return
  fi
  if ((SECONDS - hs_started < 5)); then sleep $((5 - SECONDS + hs_started)); fi
  if [[ $(jobs -pr) == *"$hs_srun"* ]]; then kill -USR1 "$hs_srun"; fi
}

# Sets hs_status to the exit status of process $1. "wait" also returns when a trap has run.
hs_await() {
  local again
  hs_interrupted=0
  wait "$1"
  hs_status=$?
  while ((hs_interrupted)); do
    hs_interrupted=0
    wait "$1"
    again=$?
    if ((again != 127)); then hs_status=$again; fi   # 127: the previous status is the real one
  done
}
