# shellcheck shell=bash
# The start of the ranks with srun, or without it on this machine; requests to stop are passed on to them.
# The first part of the script, or a function in another place, sets the variables:
# shellcheck disable=SC2154,SC2034,SC2016

# Prints the script of a rank. It travels in the environment, because srun copies that to all nodes, but no files.
hs_rank_program() {
  declare -p hs_job hs_run hs_plan hs_world_size hs_global_batch hs_epochs hs_epochs_done hs_checkpoint_dir \
    hs_report_dir hs_helper_dir hs_grace hs_token hs_fence hs_ticket hs_master_addr hs_master_port hs_batches hs_ranks hs_hosts hs_device_order \
    hs_node_setup hs_command hs_shell hs_launch
  declare -f hs_say hs_fail hs_run_lines hs_match_plainly hs_export_common hs_rank_main hs_trap_rank_signals hs_mark_returned hs_end_done hs_has_last_epoch hs_end_stopped \
    hs_mark_done hs_mark_failed hs_find_row hs_is_superseded hs_end_superseded hs_enter_fence hs_guard_fence hs_list_processes \
    hs_open_node_directory hs_prepare_node hs_on_node_exit hs_print_environment hs_take_devices hs_order_devices hs_types_by_name \
    hs_name_has_type hs_types_by_order \
    hs_types_suffice hs_start_sampler hs_end_sampler hs_sample_node hs_open_gpus hs_close_gpus hs_read_gpus hs_note_gpu hs_has_changed \
    hs_state_of hs_find_processes hs_read_processes hs_write_sample hs_add hs_add_number
  if [[ -n ${hs_preflight-} ]]; then
    declare -p hs_preflight
    declare -f hs_check_rank hs_check_gpu hs_check_links
  fi
}

# Starts srun in the background: bash runs no trap before a command in the foreground has ended.
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

# Runs a rank; if it fails, kills the others. A rank that the signal killed before it set its trap
# has nothing to save and counts as stopped.
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

# Passes a request to stop on to the ranks, once. srun forwards the signal to every rank of every component, except on
# nodes that have not yet reported that their tasks run. Ranks that start later see the file.
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
