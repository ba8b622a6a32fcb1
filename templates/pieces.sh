# shellcheck shell=bash
# Runs a script that does not use hsched in pieces: each Slurm job runs it until the time limit, and the next one, which is
# pending in the meantime, runs it again. The script itself resumes from its saved state.
# The first part of the script sets the variables, and functions of other files use them:
# shellcheck disable=SC2154,SC2034

# $1: Slurm job id of the previous piece, if there is one.
hs_piece_main() {
  set -uo pipefail
  hs_terminated=0 hs_interrupted=0 hs_forwarded=0 hs_unhandled=0 hs_launch=batch
  hs_hostfile='' hs_epochs_before='' hs_saved='' hs_next='' hs_child='' hs_stopper='' hs_asked_at=0
  hs_follows=${1-}
  hs_id=${SLURM_JOB_ID-}
  [[ -n $hs_id ]] || hs_fail "this is a batch script: submit it with sbatch"
  hs_token=$hs_id.${SLURM_RESTART_COUNT:-0}.$(date +%s)
  hs_claim=$hs_report_dir/claim${hs_follows:+-after-$hs_follows}
  hs_report_dir_before=$hs_report_dir hs_fence=$hs_report_dir/fence
  trap hs_on_piece_exit EXIT
  hs_trap_signals
  (umask 077 && mkdir -p -- "$hs_report_dir") || hs_fail "cannot create the report directory"
  if [[ -n $hs_follows ]]; then
    hs_follow
    hs_refuse_standstill
  fi
  if [[ -e $hs_report_dir/cancelled ]]; then
    hs_say "the chain was cancelled"
    hs_end 0
  fi
  hs_claim_piece
  printf '%s\n' "$hs_id" >>"$hs_report_dir/started"
  hs_take_fence
  hs_note_begin
  hs_list_checkpoints >"$hs_report_dir/checkpoints-$hs_id"
  hs_queue_next
  if ((hs_stopping)); then
    hs_say "stop requested before the script started"
    hs_release_next
    hs_end 85
  fi
  hs_run_script
  if hs_is_superseded; then
    hs_say "a newer piece has started; this one ends and its results are ignored"
    trap - EXIT
    hs_clean_up
    exit 86
  fi
  hs_judge_piece
}

hs_on_piece_exit() {
  local status=$?
  trap - EXIT
  hs_leave "$status"
}

# Claims this piece for this Slurm job, or ends with status 0 if another one has the claim.
hs_claim_piece() {
  local winner
  winner=$(hs_take "$hs_id") || exit
  if [[ $winner != "$hs_id" ]]; then
    hs_say "job ${winner:-with another id} started first and trains; nothing is left to do"
    trap - EXIT
    exit 0
  fi
}

# Ends the chain if the previous piece was killed before it evaluated itself and changed no checkpoint. If an earlier
# piece has saved, allows a few such pieces in a row.
hs_refuse_standstill() {
  local before=$hs_report_dir/checkpoints-$hs_follows
  if [[ -n $(hs_word_of "$hs_follows") || ! -r $before ]]; then return; fi
  if hs_list_checkpoints | cmp -s - "$before" && ! hs_may_try_again; then
    hs_say "error: job $hs_follows, the previous piece, was killed, and no checkpoint changed in it: the chain ends"
    hs_end 1
  fi
}

# Counts a piece that was killed before it saved as failed; returns whether an earlier piece of the chain has saved, and
# only a few pieces have failed in a row since.
hs_may_try_again() {
  local failures=0 file=$hs_report_dir/failures
  grep -q ' saved$' "$hs_report_dir/ends" 2>/dev/null || return 1
  if [[ -r $file ]]; then read -r failures <"$file"; fi
  ((failures < hs_retries)) || return 1
  printf '%s\n' "$((failures + 1))" >"$file"
}

# Submits the next piece, which becomes eligible half a time limit before the end of this one, so that this one has time to
# save and the next one has time to wait. If the previous piece was stopped before it saved, this one keeps its whole limit.
# This needs no hsched and survives the end of this job.
hs_queue_next() {
  local wait=$((hs_limit / 2)) answer
  local -a command=(sbatch --parsable)
  if [[ -n $hs_follows ]] && grep -q -x -F -- "$hs_follows 85 interrupted" "$hs_report_dir/ends" 2>/dev/null; then wait=$hs_limit; fi
  command+=("--begin=now+$wait")
  if [[ -e $hs_report_dir/cancelled ]]; then return; fi
  if ((hs_depends)); then command+=(--dependency=); fi   # the first piece has already waited for the dependency
  if ! answer=$("${command[@]}" -- "$hs_wrapper" "$hs_id" 2>&1); then
    hs_say "warning: cannot submit the next piece, so the chain ends with this one: ${answer##*$'\n'}"
    hs_say "to resume, submit it by hand: sbatch $(printf '%q' "$hs_wrapper") $hs_id"
    return
  fi
  answer=${answer##*$'\n'}
  hs_next=${answer%%;*}
  printf '%s\n' "$hs_next" >>"$hs_report_dir/queued"
  hs_say "job $hs_next is the next piece"
}

# Lets the next piece start as soon as there is room.
hs_release_next() {
  if [[ -n $hs_next ]]; then scontrol update "JobId=$hs_next" StartTime=now >/dev/null 2>&1; fi
}

hs_cancel_next() {
  if [[ -n $hs_next ]]; then scancel --state=PENDING "$hs_next" 2>/dev/null; fi
}

# Sets hs_status to the exit status of the script. The script and its guard each have their own process group.
hs_run_script() {
  hs_mark=$hs_fence/$hs_ticket.rank-0
  : >"$hs_mark"
  set -m
  coproc hs_watcher { hs_guard_script; }   # its pipe is open in no other process, so it closes when this shell ends
  HSCHED_PIECE=$hs_report_dir/$hs_token "$hs_script" </dev/null &
  hs_child=$!
  set +m
  if ((hs_stopping)); then hs_forward; fi
  hs_await "$hs_child"
  # A shell may die before the program that it started has saved.
  if [[ -n $hs_stopper ]]; then wait "$hs_stopper" 2>/dev/null; fi
}

# Kills the processes of the script when this shell has ended for any reason, or when a newer piece has started. Slurm also
# kills them, unless it has lost the node or does not find them. The next piece waits until the mark is removed (hs_take_fence).
hs_guard_script() {
  trap '' USR1 TERM INT HUP
  exec >/dev/null 2>&1
  local word pid name step
  until hs_is_superseded; do
    touch -c -- "$hs_mark"
    read -r -t 4 word
    if (($? <= 128)); then break; fi   # no timeout: the shell has ended
  done
  for step in 1 2 3 4 5; do
    word=$(hs_list_script)
    if [[ -z $word ]]; then break; fi
    while read -r pid name; do kill -KILL "$pid"; done <<<"$word"
    sleep 0.2
  done
  rm -f -- "$hs_mark"
}

# Stops the script; called once a stop is requested.
hs_forward() {
  if ((hs_forwarded)) || [[ -z $hs_child ]]; then return; fi
  hs_forwarded=1 hs_asked_at=$SECONDS
  hs_stop_script &
  hs_stopper=$!
}

# Sends the signal on which the script saves, if any, and waits up to hs_grace seconds until its processes have ended; then
# kills those that are left.
hs_stop_script() {
  trap - EXIT
  trap '' USR1 TERM
  local signal step until=$((SECONDS + hs_grace))
  signal=$(hs_signal_to_save)
  if [[ -n $signal ]]; then
    : >"$hs_report_dir/.asked.$hs_token"
    hs_say "sending SIG$signal to the script: it has $hs_grace s to save"
    hs_signal_processes "$signal"
    while hs_has_processes && ((SECONDS < until)); do sleep 0.5; done
  fi
  for step in TERM wait wait wait wait wait wait wait wait wait wait KILL; do
    if ! hs_has_processes; then return; fi
    if [[ $step == wait ]]; then sleep 1; else kill "-$step" -- "-$hs_child" 2>/dev/null; fi
  done
}

hs_has_processes() { kill -0 -- "-$hs_child" 2>/dev/null; }

# Prints the signal in the script's option --signal, or else USR1 or TERM if one of its processes handles it. Prints nothing
# otherwise: such a script saves regularly.
hs_signal_to_save() {
  local pid name takes_term=''
  if [[ -n $hs_signal ]]; then
    if [[ $hs_signal == [0-9]* ]]; then kill -l "$hs_signal" 2>/dev/null; else printf '%s' "$hs_signal"; fi
    return
  fi
  while read -r pid name; do
    if hs_is_launcher "$name"; then continue; fi
    if hs_handles "$pid" 10; then
      printf 'USR1'
      return
    fi
    if hs_handles "$pid" 15; then takes_term=1; fi
  done < <(hs_list_script)
  if [[ -n $takes_term ]]; then printf 'TERM'; fi
}

# Sends signal $1 to the processes that handle it, except the tasks of srun: srun forwards it to them, on this node and others.
hs_signal_processes() {
  local pid name number forwards='' listed
  number=$(kill -l "$1") || return 1
  listed=$(hs_list_script)
  if [[ $listed$'\n' == *' srun'$'\n'* ]]; then forwards=1; fi
  while read -r pid name; do
    if [[ -z $pid ]] || ! hs_handles "$pid" "$number"; then continue; fi
    if [[ -n $forwards && $name != srun ]] && grep -q -z '^SLURM_STEP_ID=' "/proc/$pid/environ" 2>/dev/null; then continue; fi
    kill "-$1" "$pid" 2>/dev/null
  done <<<"$listed"
}

hs_is_launcher() {
  case $1 in
    srun | mpirun | mpiexec | orterun | prterun | mpiexec.hydra) return 0 ;;
    *) return 1 ;;
  esac
}

# Returns whether process $1 has a handler for signal number $2. Each return has an explicit status, because in a trap the
# default is the status of the command before the trap.
hs_handles() {
  local key mask
  while read -r key mask; do
    if [[ $key != SigCgt: ]]; then continue; fi
    if (((16#$mask >> ($2 - 1)) & 1)); then return 0; else return 1; fi
  done 2>/dev/null <"/proc/$1/status"
  return 1
}

# Prints the processes of the script on this node, each with its name. The environment of each, even under srun, names its piece.
hs_list_script() {
  local pid name
  while IFS=/ read -r _ _ pid _; do
    { read -r name <"/proc/$pid/comm"; } 2>/dev/null || continue
    printf '%s %s\n' "$pid" "$name"
  done < <(grep -l -z -x -F -- "HSCHED_PIECE=$hs_report_dir/$hs_token" /proc/[0-9]*/environ 2>/dev/null)
}

# Decides whether the chain continues. It ends if the script has ended by itself with status 0, if no checkpoint has
# changed although the piece had time to save, or if the script has failed in too many pieces in a row.
hs_judge_piece() {
  local failures=0 file=$hs_report_dir/failures
  if ((hs_status == 0)) && [[ ! -e $hs_report_dir/.asked.$hs_token ]]; then
    hs_cancel_next
    hs_end 0
  fi
  if hs_list_checkpoints | cmp -s - "$hs_report_dir/checkpoints-$hs_id"; then hs_saved=0; else hs_saved=1; fi
  if ((hs_terminated && !hs_stopping)); then
    hs_release_next   # which ends without training if this job was cancelled
    hs_end 143
  fi
  # This piece had too little time to save, so the next one keeps its whole limit.
  if ((!hs_saved && hs_stopping && hs_asked_at * 10 < (hs_limit - hs_grace) * 9)); then
    hs_say "no checkpoint changed before the early end of this piece: the next piece runs the script again"
    hs_release_next
    hs_end 85
  fi
  if ((!hs_saved && !hs_stopping && hs_status == 137)) && [[ -n $hs_next ]] && hs_may_try_again; then
    hs_say "the script was killed before it saved: the next piece resumes from what an earlier one has saved"
    hs_release_next
    hs_end 85
  fi
  if ((!hs_saved)); then
    hs_say "the script ended with status $hs_status, and no checkpoint changed in this piece: the chain ends"
    hs_say "if it does save, name the files: hsched submit --checkpoint PATTERN"
    hs_end_chain
  fi
  if ((!hs_stopping)); then
    if [[ -r $file ]]; then read -r failures <"$file"; fi
    failures=$((failures + 1))
    if ((failures > hs_retries)); then
      hs_say "the script failed with status $hs_status, in $failures pieces in a row: the chain ends"
      hs_end_chain
    fi
    if [[ -n $hs_next ]]; then
      hs_say "the script failed with status $hs_status; a checkpoint changed, so the next piece resumes"
    else
      hs_say "the script failed with status $hs_status; a checkpoint changed, but no next piece could be submitted"
    fi
  fi
  printf '%s\n' "$failures" >"$file"
  hs_release_next
  hs_end 85
}

# Cancels the next piece and ends with the script's status. A status that would continue the chain becomes 1, and so does
# any failure after a request to stop.
hs_end_chain() {
  hs_cancel_next
  if ((hs_stopping && hs_status != 0)); then hs_status=1; fi
  case $hs_status in 85 | 86 | 143) hs_status=1 ;; esac
  hs_end "$hs_status"
}

# Prints the names, sizes and times of the checkpoints: the files that match hs_patterns, or else, below the working
# directory, files with well-known names and files of more than 1 MB that are not logs.
hs_list_checkpoints() {
  local pattern
  local -a found=()
  if ((${#hs_patterns[@]} > 0)); then
    shopt -s globstar nullglob
    local IFS=
    # shellcheck disable=SC2206  # the pattern must be expanded
    for pattern in "${hs_patterns[@]}"; do found+=($pattern); done
    shopt -u globstar nullglob
    if ((${#found[@]} == 0)); then return; fi
    for pattern in "${!found[@]}"; do if [[ ${found[pattern]} == -* ]]; then found[pattern]=./${found[pattern]}; fi; done
    find -H "${found[@]}" -type f -printf '%p %s %T@\n' 2>/dev/null | LC_ALL=C sort
    return 0
  fi
  find -H . -xdev \( -name .git -o -name wandb -o -name __pycache__ \) -prune -o -type f \
    \( -name '*.ckpt' -o -name '*.pt' -o -name '*.pth' -o -name '*.safetensors' -o -path '*/checkpoint-*/*' -o -size +1000000c \) \
    ! -name '*.out' ! -name '*.err' ! -name '*.log' ! -name 'events.out.tfevents*' \
    -printf '%p %s %T@\n' 2>/dev/null | LC_ALL=C sort
  return 0   # find fails for directories that it may not read
}
