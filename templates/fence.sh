# shellcheck shell=bash
# Processes may survive on a node that Slurm considers lost. Each submission of a job therefore takes the next number in
# the directory hs_fence when it starts: a symbolic link, which only one submission can create. Processes with a lower
# number exit and must not save. A running rank has a file NUMBER.rank-RANK there, whose time its guard updates.
# The first part of the script, or a function in another place, sets the variables:
# shellcheck disable=SC2154,SC2034

# ---- In the batch shell ----------------------------------------------------------------------------

# Takes the next number of the job's fence, which ends the ranks of earlier submissions. Waits for their end, for at
# most 12 s, because they write checkpoints.
hs_take_fence() {
  local name newest=0 own=0 holder until=$((SECONDS + 12))
  (umask 077 && mkdir -p -- "$hs_fence") || hs_fail "cannot create $hs_fence"
  for name in "$hs_fence"/*; do
    name=${name##*/}
    if [[ ! $name =~ ^[1-9][0-9]*$ ]]; then continue; fi
    if ((name > newest)); then newest=$name; fi
    if ((${SLURM_RESTART_COUNT:-0} > 0 && name > own)) && [[ $(readlink -- "$hs_fence/$name") == "$hs_id" ]]; then own=$name; fi
  done
  # If this requeued job has a number, a newer submission has started since. If it has none, because
  # it had not started before, it may be the oldest or the newest: it leaves the training to the
  # holder of the newest number only while that runs. Not under "hsched run", where ids are reused.
  if ((${SLURM_RESTART_COUNT:-0} > 0 && own < newest)) && [[ $hs_launch != local && $hs_launch != steps ]]; then
    holder=$(readlink -- "$hs_fence/$newest")
    if ((own > 0)) || hs_is_running "$holder"; then
      hs_say "job $holder has taken over this training; this job exits"
      hs_end 85
    fi
  fi
  hs_ticket=$((newest + 1))
  until ln -s -T -- "$hs_id" "$hs_fence/$hs_ticket" 2>/dev/null; do
    [[ -L $hs_fence/$hs_ticket ]] || hs_fail "cannot create a symbolic link in $hs_fence"
    hs_ticket=$((hs_ticket + 1))
  done
  # On this machine, the guard of "hsched run" has already killed the old ranks.
  while [[ $hs_launch != local ]] && hs_has_ranks && ((SECONDS < until && hs_stopping == 0)); do sleep 0.5; done
  hs_remove_old_tickets
}

# Returns whether Slurm shows job $1 as running or suspended; false if Slurm does not answer.
hs_is_running() {
  [[ -n $1 && -n $(squeue --me --noheader --all --states=RUNNING,SUSPENDED --jobs="$1" --format=%i 2>/dev/null) ]]
}

# Returns whether ranks of earlier submissions may still run. The guard of a rank updates the time of its mark
# every 4 s. A mark that was not updated in the 30 s before this submission started no longer has a guard.
hs_has_ranks() {
  local name begun time
  begun=$(stat -c %Y -- "$hs_fence/$hs_ticket") || return 0
  for name in "$hs_fence"/*.rank-*; do
    if [[ ! -e $name ]]; then continue; fi
    { : <"$name"; } 2>/dev/null   # opening the file makes a network file system fetch its current time
    if ! time=$(stat -c %Y -- "$name" 2>/dev/null) || ((time > begun - 30)); then return 0; fi
  done
  return 1
}

# Removes the marks of earlier ranks, and old numbers. The newest numbers are kept for requeued jobs.
hs_remove_old_tickets() {
  local name number
  for name in "$hs_fence"/*; do
    number=${name##*/}
    number=${number%%.*}
    if [[ ! $number =~ ^[1-9][0-9]*$ ]] || ((number >= hs_ticket)); then continue; fi
    if [[ $name == *.rank-* ]] || ((number < hs_ticket - 20)); then rm -f -- "$name"; fi
  done
}

# ---- In every rank ---------------------------------------------------------------------------------

# Returns whether a newer submission of the job has started. Lists the directory, because a lookup by name may
# return cached results of a network file system. If the file system does not answer, the result is no.
hs_is_superseded() {
  local name
  for name in "$hs_fence"/*; do
    name=${name##*/}
    if [[ $name =~ ^[1-9][0-9]*$ ]] && ((name > hs_ticket)); then return 0; fi
  done
  return 1
}

# Ends this rank if a newer submission has started. The rank counts neither as stopped nor as failed; only its mark is
# removed.
hs_end_superseded() {
  if ! hs_is_superseded; then return; fi
  hs_say "rank $hs_rank: a newer submission of this job has started; this rank ends"
  if [[ -n ${hs_guard-} ]]; then wait "$hs_guard"; fi 2>/dev/null
  rm -f -- "$hs_mark"
  exit 1
}

# Runs in the subshell that execs the command.
hs_enter_fence() {
  hs_end_sampler   # closes this subshell's end of the pipe to the sampler
  exec {hs_alive}>&-
  export HSCHED_FENCE=$hs_fence/$hs_ticket
}

# Reads from a pipe that closes when the shell of the rank ends. If a newer submission starts, kills the processes of the
# rank. Keeps no output open, because other processes wait for its end.
hs_guard_fence() {
  trap '' USR1 TERM INT HUP
  exec >/dev/null 2>&1
  set +u
  local word self=$BASHPID step
  local -a left=()
  until hs_is_superseded; do
    touch -c -- "$hs_mark"
    read -r -t 4 word
    if (($? <= 128)); then exit; fi   # no timeout: the rank has ended
  done
  for step in TERM wait wait KILL wait KILL; do
    mapfile -t left < <(hs_list_processes "$self" "${left[@]}")
    if ((${#left[@]} == 0)); then exit; fi
    if [[ $step == wait ]]; then sleep 1; else kill "-$step" "${left[@]}"; fi
  done
}

# Prints the processes of this submission on this node, except $1: those with its variable, those found before ($2...),
# and descendants of this rank's shell or of any of these.
hs_list_processes() {
  local pid parent more=1 self=$1
  local -A parents=() ours=(["$$"]=1)
  shift
  while read -r pid parent; do parents[$pid]=$parent; done < <(ps -e -o pid= -o ppid=)
  while IFS=/ read -r _ _ pid _; do
    ours[$pid]=1
  done < <(grep -l -z -x -F -- "HSCHED_FENCE=$hs_fence/$hs_ticket" /proc/[0-9]*/environ)
  for pid in "$@"; do if [[ -n ${parents[$pid]-} ]]; then ours[$pid]=1; fi; done
  while ((more)); do
    more=0
    for pid in "${!parents[@]}"; do
      if [[ $pid == "$self" || -n ${ours[$pid]-} || -z ${ours[${parents[$pid]}]-} ]]; then continue; fi
      ours[$pid]=1 more=1
    done
  done
  unset "ours[$$]"
  for pid in "${!ours[@]}"; do printf '%s\n' "$pid"; done
}
