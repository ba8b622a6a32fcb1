# shellcheck shell=bash
# Functions of the batch shell and the ranks, and the work of a rank: it finds its line of the plan's table, prepares its
# node, orders its devices and runs the command.
# The first part of the script, or a function in another place, sets the variables:
# shellcheck disable=SC2154,SC2034,SC2016

hs_say() { printf 'hsched: %s\n' "$*" >&2; }

hs_fail() { hs_say "error: $*"; exit 1; }

# Runs the user's lines $2... in this shell, which keeps their exports. $1: name of the lines in messages.
# Stops at the first line that fails and returns its status, or 1 instead of 85 to 87.
hs_run_lines() {
  local hs_what=$1 hs_line hs_number=0 hs_status
  shift
  for hs_line in "$@"; do
    hs_number=$((hs_number + 1))
    set +u +o pipefail   # the lines were written for a plain shell (activate scripts trip over -u)
    eval "$hs_line"
    hs_status=$?
    set +e +f -u -o pipefail
    IFS=$' \t\n'
    if ((hs_status != 0)); then
      hs_match_plainly
      hs_say "error: $hs_what line $hs_number failed with status $hs_status on ${SLURMD_NODENAME:-this node}: $hs_line"
      return $((hs_status >= 85 && hs_status <= 87 ? 1 : hs_status))   # these mean that ranks saved, were lost or are not fit
    fi
  done
  hs_match_plainly   # only now: one line may set an option for the next
}

# Resets the pattern options that a user's line may have set.
hs_match_plainly() { shopt -u nullglob failglob dotglob nocaseglob nocasematch; }

# Exports the variables that are the same for all ranks, also for the lines of setup.
hs_export_common() {
  export WORLD_SIZE=$hs_world_size MASTER_ADDR=$hs_master_addr MASTER_PORT=$hs_master_port
  export HSCHED_JOB=$hs_job HSCHED_RUN=$hs_run HSCHED_PLAN=$hs_plan
  export HSCHED_GLOBAL_BATCH=$hs_global_batch HSCHED_BATCHES=$hs_batches
  export HSCHED_EPOCHS=$hs_epochs HSCHED_EPOCHS_DONE=$hs_epochs_done
  export HSCHED_CHECKPOINT_DIR=$hs_checkpoint_dir HSCHED_STOP_GRACE_S=$hs_grace
  export CUDA_DEVICE_ORDER=PCI_BUS_ID
}

# ---- In every rank ---------------------------------------------------------------------------------

# $1: CPUs per rank of this component, if known. $2: number of the rank, if Slurm does not set it.
hs_rank_main() {
  set -uo pipefail
  # Slurm signals every process of a task. This shell stays to report how the command ended.
  hs_terminated=0
  hs_trap_rank_signals
  local hs_status

  hs_find_row "${2-}"
  if ((${#hs_node_setup[@]} > 0)); then hs_prepare_node; fi
  hs_export_common
  export RANK=$hs_rank LOCAL_RANK=$hs_local_rank LOCAL_WORLD_SIZE=$hs_local_world_size
  export HSCHED_GPU_TYPE=$hs_gpu_type HSCHED_LOCAL_BATCH=$hs_batch
  export HSCHED_MICRO_BATCH=$hs_micro_batch HSCHED_ACCUMULATION=$hs_accumulation
  export HSCHED_REPORT=$hs_report_dir/rank-$hs_rank.jsonl HSCHED_SHARES=$hs_report_dir/shares.json
  # The helper's directory comes last, so that it does not hide modules of the user.
  export PYTHONPATH=${PYTHONPATH:+$PYTHONPATH:}$hs_helper_dir
  # In a heterogeneous job, Slurm sets this to the value of the last component in every rank.
  if [[ -n $1 ]]; then export SLURM_CPUS_PER_TASK=$1; fi
  if [[ -n ${HSCHED_LEASE-} ]]; then hs_take_devices; else hs_order_devices; fi

  # The file covers a stop request that came before this task could receive the signal.
  if ((hs_stopping)) || [[ -e $hs_report_dir/.stop.$hs_token ]]; then hs_end_stopped; fi
  local hs_mark=$hs_fence/$hs_ticket.rank-$hs_rank hs_alive hs_guard
  : 2>/dev/null >"$hs_mark"
  hs_end_superseded
  # The pipe to the guard closes when this shell ends for any reason.
  exec {hs_alive}> >(hs_guard_fence)
  hs_guard=$!
  hs_start_sampler
  if [[ -n ${hs_preflight-} ]]; then hs_check_rank; fi
  if [[ -n $hs_shell ]]; then
    # The trap keeps the shell of the line alive while its programs save; they do not inherit it. With pipefail, a
    # failure or a status 85 before a pipe becomes the status of the line.
    (hs_enter_fence; exec bash -c $'trap : USR1\nset -o pipefail\n'"$hs_shell")
  else
    (hs_enter_fence; exec -- "${hs_command[@]}")
  fi
  hs_status=$?
  if ((hs_status == 0)); then hs_mark_returned; fi
  hs_end_sampler
  exec {hs_alive}>&-
  hs_end_superseded
  rm -f -- "$hs_mark"

  if ((hs_status == 85)); then hs_end_stopped; fi
  # Slurm may signal the command before this shell.
  if ((hs_status == 138)) && { ((hs_stopping)) || [[ -e $hs_report_dir/.stop.$hs_token ]]; }; then
    hs_say "rank $hs_rank was killed by SIGUSR1 before it saved: its command does not handle the signal, or had not installed its handler yet"
    hs_end_stopped unhandled
  fi
  if ((hs_status == 0)); then hs_end_done; fi
  hs_mark_failed "$hs_status" "the command failed"
  exit "$hs_status"
}

# Records that the command returned 0 by itself. On this machine, a stop request signals this shell and the command at once,
# so if this shell got no signal, the command got none. Slurm signals processes one by one, after the file of the request.
hs_mark_returned() {
  if ((hs_stopping || hs_terminated)) || [[ $hs_launch != local && -e $hs_report_dir/.stop.$hs_token ]]; then return; fi
  : 2>/dev/null >"$hs_report_dir/.returned.$hs_token.$hs_rank"
}

# Ends a rank whose command returned 0. After a stop request, the batch shell decides by the reported epochs.
hs_end_done() {
  # Slurm signals the processes one by one, and this shell may be the last.
  if ((hs_rank == 0 && !hs_stopping && !hs_terminated)) && ! hs_has_last_epoch; then sleep 1; fi
  if ((hs_stopping || hs_terminated)); then : >>"$hs_report_dir/.asked.$hs_token" || exit 85; fi
  hs_mark_done
  exit 0
}

# Returns whether this rank has reported the last epoch.
hs_has_last_epoch() {
  [[ $(tail -n 3 -- "$HSCHED_REPORT" 2>/dev/null) =~ \"epoch\"[[:space:]]*:[[:space:]]*${hs_epochs}(\.0*)?[[:space:]]*[,}] ]]
}

hs_trap_rank_signals() {
  trap 'hs_stopping=1' USR1
  trap 'hs_terminated=1' TERM INT QUIT   # bash survives the last two even without a trap
}

# A rank that saved must return 0 to srun, which would otherwise kill ranks that still save. The mark shows the batch
# shell that the rank stopped; if it cannot be written, the rank exits with 85, or the run would count as finished.
# $1: unhandled, if the signal killed the rank's command.
hs_end_stopped() {
  : >>"$hs_report_dir/.${1:-stopped}.$hs_token" || exit 85
  exit 0
}

# Records that this rank is done. The batch shell requires this mark of every rank. Each rank has its own file, because
# on network file systems, appends from several nodes overwrite each other.
hs_mark_done() { : >"$hs_report_dir/.done.$hs_token.$hs_rank" || hs_fail "rank $hs_rank cannot record that it is done"; }

# Records the status of the first failure: srun also reports the ranks that it kills afterwards.
hs_mark_failed() {
  if ((hs_terminated)); then return; fi
  (set -o noclobber
   printf '%s rank %s on %s\n' "$1" "$hs_rank" "${SLURMD_NODENAME:-this node}" >"$hs_report_dir/.failed.$hs_token") 2>/dev/null
  hs_say "rank $hs_rank on ${SLURMD_NODENAME:-this node}: $2 (status $1)"
}

# Finds this task's line of the table by its node and local id. The task number is only a first guess, because Slurm may
# number tasks in a different order from the plan.
hs_find_row() {
  local procid=${1:-${SLURM_PROCID-}} name=${SLURMD_NODENAME-} place=${SLURM_LOCALID-} ordinal=-1 k
  local node local_rank rest
  [[ $procid =~ ^[0-9]+$ ]] || hs_fail "SLURM_PROCID is not set: ranks must be started by srun"
  if [[ -n ${SLURM_STEP_NUM_TASKS-} && $SLURM_STEP_NUM_TASKS != "$hs_world_size" ]]; then
    hs_fail "Slurm started $SLURM_STEP_NUM_TASKS tasks, but the plan has $hs_world_size ranks"
  fi
  hs_rank=$procid
  if [[ -n $name && -n $place ]]; then
    for k in "${!hs_hosts[@]}"; do
      if [[ ${hs_hosts[k]} == "$name" ]]; then ordinal=$k; break; fi
    done
    ((ordinal >= 0)) || hs_fail "node $name is not among the nodes of this job: ${hs_hosts[*]}"
    IFS=' ' read -r node local_rank rest <<<"${hs_ranks[hs_rank]-}"
    if [[ $node != "$ordinal" || $local_rank != "$place" ]]; then
      hs_rank=-1
      for k in "${!hs_ranks[@]}"; do
        if [[ ${hs_ranks[k]} == "$ordinal $place "* ]]; then hs_rank=$k; break; fi
      done
    fi
  fi
  if ((hs_rank < 0)) || [[ -z ${hs_ranks[hs_rank]-} ]]; then
    hs_fail "no rank is planned for task $procid (node ${name:-?}, local id ${place:-?})"
  fi
  IFS=' ' read -r hs_node hs_local_rank hs_batch hs_micro_batch hs_accumulation hs_gpu_type <<<"${hs_ranks[hs_rank]}"
  hs_node_types=()
  for k in "${!hs_ranks[@]}"; do
    if [[ ${hs_ranks[k]} == "$hs_node "* ]]; then
      IFS=' ' read -r _ _ _ _ _ rest <<<"${hs_ranks[k]}"
      hs_node_types+=("$rest")
    fi
  done
  hs_local_world_size=${#hs_node_types[@]}
}

# The first rank of the node that gets the lock runs the lines and saves its environment; the other ranks load it. The
# last one removes the directory.
hs_prepare_node() {
  local hs_lock hs_status hs_seen
  hs_open_node_directory
  exec {hs_lock}>>"$hs_dir/lock" || hs_fail "cannot write in $hs_dir"
  until flock "$hs_lock"; do
    ((hs_stopping)) && hs_end_stopped
    command -v flock >/dev/null || hs_fail "flock (util-linux) is missing"
    sleep 0.1
  done

  # The directory is gone if a rank failed here.
  if [[ ! -d $hs_dir || -e $hs_report_dir/.failed.$hs_token ]]; then exit 1; fi
  if [[ ! -e $hs_dir/environment ]]; then
    hs_seen=$(compgen -e)
    trap 'hs_on_node_exit' EXIT
    hs_run_lines node_setup "${hs_node_setup[@]}"
    hs_status=$?
    trap - EXIT
    hs_trap_rank_signals
    if ((hs_status != 0)); then
      # The stop signal also kills the programs of a line.
      ((hs_stopping)) && hs_end_stopped
      hs_mark_failed "$hs_status" "node_setup failed"
      rm -rf -- "$hs_dir"
      exit "$hs_status"
    fi
    hs_print_environment "$hs_seen" >"$hs_dir/environment.new" || hs_fail "cannot write in $hs_dir"
    mv -- "$hs_dir/environment.new" "$hs_dir/environment" || hs_fail "cannot write in $hs_dir"
  else
    # shellcheck source=/dev/null
    . "$hs_dir/environment" || hs_fail "cannot load the environment of node_setup"
  fi

  printf . >>"$hs_dir/seen"
  if (($(stat -c %s -- "$hs_dir/seen") >= hs_local_world_size)); then rm -rf -- "$hs_dir"; fi
  flock -u "$hs_lock"   # closing is not enough: a background process of a line may hold it open
  exec {hs_lock}>&-
}

# Sets hs_dir to a directory of this node for the ranks of this submission. Its name is random; the first rank publishes
# it in a directory that only this user can write to.
hs_open_node_directory() {
  local base name=$hs_report_dir/.node.$hs_token.${SLURMD_NODENAME:-node}
  if [[ ! -L $name ]]; then
    for base in "${SLURM_TMPDIR-}" "${TMPDIR-}" /tmp; do
      if [[ -n $base && -d $base && -w $base ]]; then break; fi
    done
    hs_dir=$(mktemp -d -- "$base/hsched-XXXXXXXXXXXX") || hs_fail "cannot create a directory in $base"
    ln -s -T -- "$hs_dir" "$name" 2>/dev/null || rmdir -- "$hs_dir"
  fi
  hs_dir=$(readlink -- "$name") || hs_fail "cannot write in $hs_report_dir"
  if [[ -d $hs_dir && ! -L $hs_dir && -O $hs_dir ]]; then return; fi
  if [[ -e $hs_report_dir/.failed.$hs_token ]]; then exit 1; fi
  hs_fail "$hs_dir, which the ranks of this node share, was removed"
}

# Runs if a line of node_setup calls "exit", which must not look like a finished rank.
hs_on_node_exit() {
  trap - EXIT
  hs_mark_failed 1 "a line of node_setup ended the shell"
  rm -rf -- "$hs_dir"
  exit 1
}

# Prints a script that sets the exported variables and functions and the directory of this shell in another rank, without
# the variables that Slurm or hsched set for this task. $1: names that were exported before the lines ran.
hs_print_environment() {
  local hs_name
  for hs_name in $1; do
    [[ -n ${!hs_name+set} && $(declare -p "$hs_name") =~ ^declare\ -[a-zA-Z]*x ]] || printf 'unset -v %s\n' "$hs_name"
  done
  for hs_name in $(compgen -e); do
    case $hs_name in
      SLURM_TMPDIR) ;;
      SLURM_* | SLURMD_* | PMI_* | PMI2_* | PMIX_* | HSCHED_* | PWD | OLDPWD | SHLVL | _ | CUDA_VISIBLE_DEVICES) continue ;;
    esac
    [[ $(declare -p "$hs_name") =~ ^declare\ -[a-zA-Z]*r ]] || printf 'export %s=%q\n' "$hs_name" "${!hs_name}"
  done
  while read -r _ _ hs_name; do
    declare -f "$hs_name" && printf 'export -f %q\n' "$hs_name"
  done < <(declare -Fx)
  printf 'umask %s\ncd -- %q\n' "$(umask)" "$PWD"
}

# Under "hsched run", HSCHED_LEASE has a line for every node: its name, and the devices of this job in the order of their
# ranks. In an allocation, these are indices into the devices that Slurm shows. With simulated devices, the list is
# empty, and programs must not find any GPU.
hs_take_devices() {
  local name list place
  local -a shown=() own=()
  while IFS=' ' read -r name list; do
    if [[ $name != "${hs_hosts[hs_node]}" ]]; then continue; fi
    if [[ $hs_launch == steps ]]; then
      IFS=, read -r -a shown <<<"${CUDA_VISIBLE_DEVICES-}"
      for place in ${list//,/ }; do own+=("${shown[place]-}"); done
      list=$(IFS=,; printf '%s' "${own[*]-}")
    fi
    export CUDA_VISIBLE_DEVICES=$list
  done <<<"$HSCHED_LEASE"
  unset -v HSCHED_LEASE
}

# On a node with several GPU types, orders CUDA_VISIBLE_DEVICES so that device LOCAL_RANK has the
# planned type. All GPUs stay visible: peer-to-peer copies need that.
hs_order_devices() {
  local -a devices types ordered=()
  local type k d
  IFS=, read -r -a devices <<<"${CUDA_VISIBLE_DEVICES-}"
  for type in "${hs_node_types[@]}"; do
    if [[ $type != "${hs_node_types[0]}" ]]; then k=several; fi
  done
  if [[ -z ${k-} || ${#devices[@]} -eq 0 ]]; then return; fi

  if ! hs_types_by_name && ! hs_types_by_order; then
    hs_say "warning: cannot determine the GPU types of devices ${CUDA_VISIBLE_DEVICES-} on ${SLURMD_NODENAME-}; their order is unchanged"
    return
  fi
  for type in "${hs_node_types[@]}"; do
    for d in "${!devices[@]}"; do
      if [[ ${types[d]} == "$type" ]]; then
        ordered+=("${devices[d]}")
        unset "devices[d]"
        break
      fi
    done
  done
  ordered+=(${devices[@]+"${devices[@]}"})
  CUDA_VISIBLE_DEVICES=$(IFS=,; printf '%s' "${ordered[*]}")
  export CUDA_VISIBLE_DEVICES
}

# Sets types[] of devices[] from nvidia-smi. Fails unless every device and every planned type matches.
hs_types_by_name() {
  local line found type d
  local -A names=()
  types=()
  command -v nvidia-smi >/dev/null || return 1
  while IFS= read -r line; do
    if [[ $line =~ ^GPU\ ([0-9]+):\ (.*)\ \(UUID:\ ([^\)]*)\) ]]; then
      names[${BASH_REMATCH[1]}]=${BASH_REMATCH[2]}
      names[${BASH_REMATCH[3]}]=${BASH_REMATCH[2]}
    fi
  done < <(nvidia-smi -L 2>/dev/null)
  for d in "${!devices[@]}"; do
    found=
    for type in "${hs_node_types[@]}"; do
      # Take the longest matching type: "rtx2080" also matches the name of a 2080 Ti.
      if ((${#type} > ${#found})) && hs_name_has_type "${names[${devices[d]}]-}" "$type"; then found=$type; fi
    done
    [[ -n $found ]] || return 1
    types[d]=$found
  done
  hs_types_suffice
}

# Returns whether whole words of the device name $1 spell the type $2: "Tesla V100-SXM2-16GB" contains v100, but an A100
# is not an a10.
hs_name_has_type() {
  local -a words
  local wanted=${2,,} joined i j
  wanted=${wanted//[^a-z0-9]/}
  joined=${1,,}
  IFS=' ' read -r -a words <<<"${joined//[^a-z0-9]/ }"
  for ((i = 0; i < ${#words[@]}; i++)); do
    joined=
    for ((j = i; j < ${#words[@]}; j++)); do
      joined+=${words[j]}
      if [[ $joined == "$wanted" ]]; then return 0; fi
    done
  done
  return 1
}

# Sets types[] of devices[] from the device order recorded for this node. The indices count the job's devices if Slurm
# hides the others, and otherwise all devices of the node; the order is the same.
hs_types_by_order() {
  local entry type name d i=0
  local -a order=() sorted=()
  types=()
  for entry in ${hs_device_order[@]+"${hs_device_order[@]}"}; do
    IFS=' ' read -r name entry <<<"$entry"
    if [[ $name == "${hs_hosts[hs_node]-}" ]]; then IFS=' ' read -r -a order <<<"$entry"; fi
  done
  ((${#order[@]} > 0)) || return 1
  for d in "${devices[@]}"; do [[ $d =~ ^[0-9]+$ ]] || return 1; done
  if ((${#devices[@]} == hs_local_world_size)); then
    # Only the planned devices are visible: a block for each type, with as many devices as ranks.
    while read -r d; do sorted[d]=; done < <(printf '%s\n' "${devices[@]}")
    local -A by_number=()
    local -a numbers=("${!sorted[@]}") done_types=()
    for type in "${order[@]}"; do
      [[ " ${done_types[*]-} " == *" $type "* ]] && continue
      done_types+=("$type")
      for name in "${hs_node_types[@]}"; do
        if [[ $name == "$type" ]]; then by_number[${numbers[i]-none}]=$type; i=$((i + 1)); fi
      done
    done
    for d in "${!devices[@]}"; do types[d]=${by_number[${devices[d]}]-}; done
  else
    for d in "${!devices[@]}"; do types[d]=${order[${devices[d]}]-}; done
  fi
  hs_types_suffice
}

# Returns whether types[] has a device for every rank of this node.
hs_types_suffice() {
  local type
  local -A count=()
  for type in "${types[@]}"; do if [[ -n $type ]]; then count[$type]=$((${count[$type]-0} + 1)); fi; done
  for type in "${hs_node_types[@]}"; do
    count[$type]=$((${count[$type]-0} - 1))
    ((count[$type] >= 0)) || return 1
  done
}
