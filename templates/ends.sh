# shellcheck shell=bash
# The end of a submission: the batch shell evaluates its ranks and records the status in the file "ends".
# The first part of the script, or a function in another place, sets the variables:
# shellcheck disable=SC2154,SC2034

# Returns whether every rank has recorded that its command returned 0. The status of srun is not enough: it is also 0
# after nodes are lost.
hs_all_done() {
  local try
  local -a marks
  for ((try = 0; try < (hs_terminated ? 1 : 10); try++)); do   # a network file system may show a new file late
    if ((try > 0)); then sleep 1; fi
    marks=("$hs_report_dir/.done.$hs_token."*)
    if [[ ! -e ${marks[0]-} ]]; then marks=(); fi
    if ((${#marks[@]} >= hs_world_size)); then return 0; fi
  done
  hs_say "error: only ${#marks[@]} of $hs_world_size ranks have finished; the others were lost with their nodes"
  return 1
}

# Returns whether the commands of all ranks had returned 0 before they were asked to stop. Other nodes may see the file of
# that request late, so this is known only for ranks on this node.
hs_have_returned() {
  local -a marks=("$hs_report_dir/.returned.$hs_token."*)
  [[ $hs_launch == local && -e ${marks[0]-} ]] && ((!hs_terminated && hs_status == 0 && ${#marks[@]} >= hs_world_size))
}

# Returns whether Slurm can still start a step on every node: ranks fail long before Slurm detects that a node is lost.
hs_nodes_answer() {
  local size=${#hs_hosts[@]}
  local -a command=(srun --overlap "--nodes=$size" "--ntasks=$size" --ntasks-per-node=1 --kill-on-bad-exit=1 --mem=0)
  unset -v SLURM_HOSTFILE
  command+=("--nodelist=$(IFS=,; printf '%s' "${hs_hosts[*]}")" --gres=none --cpu-bind=none --input=none --mpi=none true)
  if timeout 30 "${command[@]}" 2>/dev/null; then return 0; fi
  hs_say "error: the ranks ended with status $hs_status, and Slurm cannot start a step on their nodes: ${hs_hosts[*]}"
  return 1
}

hs_judge() {
  local file asked=0 stopped=0 failure='' who
  if ((hs_stopping || hs_terminated)); then asked=1; fi
  # Lists the directory, because a lookup by name may return cached results of a network file system.
  for file in "$hs_report_dir"/.{stopped,unhandled}."$hs_token"*; do if [[ -e $file ]]; then stopped=1; fi; done
  for file in "$hs_report_dir/.failed.$hs_token"*; do
    if [[ -e $file ]]; then IFS=' ' read -r failure who <"$file"; fi
  done
  # If a rank fails, Slurm signals the others, so a signal counts as a stop request only if no rank failed.
  for file in "$hs_report_dir/.asked.$hs_token"*; do if [[ -e $file && -z $failure ]]; then asked=1; fi; done
  hs_count_epochs
  if ((asked && hs_epochs_done < hs_epochs)) && ! hs_have_returned; then hs_end_unfinished; fi
  if ((hs_status == 0 && stopped)); then
    hs_say_stopped
    hs_end 85
  fi
  if ((hs_status == 0)) && ! hs_all_done; then hs_end $((hs_terminated ? 143 : 86)); fi
  if ((hs_status == 0)); then hs_end 0; fi
  if ((hs_terminated)); then hs_end 143; fi
  if [[ $hs_launch == steps ]] && ((!hs_stopping)) && ! hs_nodes_answer; then hs_end 86; fi
  if [[ $failure =~ ^[1-9][0-9]*$ ]]; then
    hs_say "$who failed first, with status $failure"
    hs_end_of_command "$failure"
  fi
  # The signal came early and killed srun or the shell of a rank, so there was nothing to save.
  if ((hs_status == 138)); then hs_end 85; fi
  hs_end_of_command "$hs_status"
}

# Ends with the status of a command. Ends with 1 if this is the status reserved for lost nodes, or the one for
# failed checks although no check failed.
hs_end_of_command() {
  if (($1 == 86)) || { (($1 == 87)) && [[ ! -e $hs_report_dir/unfit ]]; }; then hs_end 1; fi
  hs_end "$1"
}

# Ends a submission that was asked to stop before its last epoch. The status of its commands does not matter: if the
# signal kills one command of a shell line, the line continues with the next one and exits with 0.
hs_end_unfinished() {
  hs_say_stopped
  if ((hs_stopping)) || ! ((hs_terminated)); then hs_end 85; fi
  hs_end 143
}

hs_say_stopped() {
  if hs_has_saved; then
    hs_say "stopped after epoch $hs_epochs_done of $hs_epochs; the training can resume"
  elif ((hs_unhandled)); then
    hs_say "interrupted after epoch $hs_epochs_done of $hs_epochs: its command does not handle SIGUSR1 and wrote no checkpoint into $hs_checkpoint_dir"
  else
    hs_say "interrupted after epoch $hs_epochs_done of $hs_epochs: it finished no epoch and wrote no checkpoint into $hs_checkpoint_dir"
  fi
}

hs_end() {
  trap - EXIT
  hs_leave "$1"
}

# Runs after hs_fail, a failed line of setup, or an "exit" in such a line, which must not look like success.
hs_on_exit() {
  local status=$?
  trap - EXIT
  hs_match_plainly
  if ((hs_stopping)); then hs_leave 85; fi   # the signal kills the programs of a line of setup
  ((status != 0)) || hs_say "error: a command of setup exited the script"
  hs_leave $((status == 0 ? 1 : status))
}

# Records how this submission ended: Slurm may forget it, and the exit status does not show whether the training saved.
hs_leave() {
  local word=''
  if (($1 == 85 || ($1 == 143 && hs_terminated))); then
    if hs_has_saved; then word=' saved'; else word=' interrupted'; fi
    if ((!hs_saved && hs_unhandled)); then word+=' unhandled'; fi
  fi
  hs_clean_up
  if [[ -n ${hs_id-} && -d $hs_report_dir ]]; then printf '%s %s%s\n' "$hs_id" "$1" "$word" >>"$hs_report_dir/ends"; fi
  exit "$1"
}

# Returns whether the training can resume after this submission: it wrote a checkpoint, or it reported a new epoch and the
# signal did not just kill its commands. Called after the ranks have ended; the result is cached, because a checkpoint directory
# may be large.
hs_has_saved() {
  if [[ -z ${hs_saved-} ]]; then
    hs_saved=0 hs_unhandled=0
    if [[ -n $hs_epochs_before ]]; then   # otherwise its ranks never started
      hs_count_epochs
      # A rank that stopped by itself (.stopped) suffices: if only one rank saves, the signal may kill the others, and its
      # checkpoint may be on another node, where hs_checkpoint_files does not see it.
      if [[ -e $hs_report_dir/.unhandled.$hs_token && ! -e $hs_report_dir/.stopped.$hs_token ]]; then hs_unhandled=1; fi
      if ((!hs_unhandled && hs_epochs_done > hs_epochs_before)) || [[ $(hs_checkpoint_files) != "$hs_files_before" ]]; then hs_saved=1; fi
    fi
  fi
  ((hs_saved))
}

# Prints a checksum of the names, sizes and times of the files in the checkpoint directory. Two checksums are compared,
# because the clocks of this node and of the file server may differ.
hs_checkpoint_files() {
  find -H "$hs_checkpoint_dir" -type f -printf '%P %s %T@\n' 2>/dev/null | LC_ALL=C sort | cksum
}

hs_clean_up() {
  if [[ -n $hs_hostfile ]]; then rm -f -- "$hs_hostfile"; fi
  if [[ -n ${hs_token-} ]]; then
    rm -f -- "$hs_report_dir"/.{stop,stopped,unhandled,asked,failed,groups,ended}."$hs_token" "$hs_report_dir"/.{done,node}."$hs_token".*
  fi
}
