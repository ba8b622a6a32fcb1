# shellcheck shell=bash
# Samples of the activity of a node's ranks, one line a minute in the file samples/NODE.jsonl of the report folder: CPU
# time, state, steps and phase of the ranks and, if there is an nvidia-smi, GPU utilisation, memory and power.
# No process waits for the sampler, and its failure does not affect the ranks.
# The first part of the script, or a function in another place, sets the variables:
# shellcheck disable=SC2154,SC2034

# Starts the sampler, in the first rank of a node. The pipe to it closes when the shell of the rank ends for any reason.
# The number of slots is for this sampler alone: an hsched that the command starts has its own.
hs_start_sampler() {
  local slots=${HSCHED_SLOTS-}
  unset -v HSCHED_SLOTS
  hs_sampling=''
  export HSCHED_PROGRESS=$hs_report_dir/samples/progress-$hs_rank
  (umask 077 && mkdir -p -- "$hs_report_dir/samples" && rm -f -- "$HSCHED_PROGRESS") 2>/dev/null || unset -v HSCHED_PROGRESS
  if ((hs_local_rank == 0)); then exec {hs_sampling}> >(hs_sample_node "$slots"); fi
}

# Ends the sampler; it closes nvidia-smi by itself.
hs_end_sampler() {
  if [[ -n ${hs_sampling-} ]]; then exec {hs_sampling}>&-; fi
  hs_sampling=''
}

# Reads from the pipe; $1 is the number of slots of a GPU, if there are several. Checks the ranks every 5 s, and writes a
# sample every minute and whenever a rank is stopped or continued. Keeps no output open, because other processes wait for
# its end.
hs_sample_node() {
  trap '' USR1 TERM INT HUP
  exec {hs_alive}>&- >/dev/null 2>&1
  set +u
  umask 077
  local word interval=60 slice slots=$1 name=${hs_hosts[hs_node]} file ticks smi='' gpus='' part='' next=0 now
  local -A rank_of=() cpu=() state=() main=() use=() memory=() power=()
  if [[ $HSCHED_SAMPLE_S =~ ^[1-9][0-9]{0,4}$ ]]; then interval=$HSCHED_SAMPLE_S; fi
  slice=$((interval < 5 ? 1 : 5))
  [[ $name =~ ^[A-Za-z0-9._-]+$ ]] || name=node-$hs_node
  file=$hs_report_dir/samples/$name.jsonl
  ticks=$(getconf CLK_TCK)
  if [[ $slots =~ ^[1-9][0-9]?$ ]]; then slots=", \"slots\": $slots"; else slots=''; fi
  printf '{"schema": "hsched.samples/1", "node": "%s", "interval_s": %d%s}\n' "$name" "$interval" "$slots" >>"$file" || exit
  hs_open_gpus
  while :; do
    read -r -t "$slice" word
    if (($? <= 128)); then break; fi   # no timeout: the rank has ended
    printf -v now '%(%s)T' -1
    if ((now < next)) && ! hs_has_changed; then continue; fi
    next=$((now + interval))
    hs_read_gpus
    hs_find_processes
    hs_read_processes
    hs_write_sample >>"$file"
  done
  hs_close_gpus
}

# Starts nvidia-smi, if there is one and the ranks have GPUs. It prints a line for each GPU every $interval seconds.
hs_open_gpus() {
  part=''
  if [[ -n ${CUDA_VISIBLE_DEVICES+set} && -z $CUDA_VISIBLE_DEVICES ]] || ! command -v nvidia-smi; then return; fi
  exec {gpus}< <(exec nvidia-smi --query-gpu=index,uuid,utilization.gpu,memory.used,power.draw --format=csv,noheader,nounits \
    -l "$interval" </dev/null)
  smi=$!
}

# Kills nvidia-smi and, if it is a script, its children. It may ignore other signals, as this shell does.
hs_close_gpus() {
  local children=''
  if [[ -z $smi ]]; then return; fi
  read -r children <"/proc/$smi/task/$smi/children"
  # shellcheck disable=SC2086
  kill -KILL "$smi" $children
  exec {gpus}<&-
  # No separate wait, because a hanging driver would block this shell.
  for children in 1 2 3 4 5; do
    hs_state_of "$smi"
    if [[ $REPLY == Z ]]; then wait "$smi"; break; fi
    sleep 0.1
  done
  smi=''
}

# Sets use, memory and power of each GPU, by index and by UUID, to what was printed since the last sample. On a busy node,
# the time may be up within a line: its beginning is kept for the next sample.
hs_read_gpus() {
  local line status=0
  use=() memory=() power=()
  if [[ -z $smi ]]; then return; fi
  while IFS= read -r -t 0.2 -u "$gpus" line || { status=$?; part+=$line; false; }; do
    hs_note_gpu "$part$line"
    part=''
  done
  if ((status <= 128)); then   # it has ended, perhaps because it does not support "-l"
    hs_close_gpus
    hs_open_gpus
  fi
}

# Notes the values in line $1 of nvidia-smi.
hs_note_gpu() {
  local IFS=, index
  local -a field
  set -f
  # shellcheck disable=SC2206
  field=($1)
  set +f
  for index in "${field[0]}" "${field[1]# }"; do
    if [[ -z $index ]]; then continue; fi   # the shell would end
    use[$index]=${field[2]# } memory[$index]=${field[3]# } power[$index]=${field[4]# }
  done
}

# Returns whether the main process of a rank was stopped or continued since the last sample.
hs_has_changed() {
  local rank now
  for rank in "${!main[@]}"; do
    hs_state_of "${main[$rank]}"
    now=$REPLY
    if [[ $now == T && ${state[$rank]} != T || $now != T && ${state[$rank]} == T ]]; then return 0; fi
  done
  return 1
}

# Sets REPLY to the letter of the state of process $1.
hs_state_of() {
  REPLY=''
  IFS= read -r REPLY <"/proc/$1/stat"
  REPLY=${REPLY##*) }
  REPLY=${REPLY%% *}
}

# Sets rank_of[] of the processes of this submission on this node, by their environment.
hs_find_processes() {
  local pid word
  rank_of=()
  while IFS=/ read -r _ _ pid _; do
    while IFS= read -r -d '' word; do
      if [[ $word =~ ^RANK=(0|[1-9][0-9]{0,8})$ ]]; then
        if [[ ${hs_ranks[BASH_REMATCH[1]]} == "$hs_node "* ]]; then rank_of[$pid]=${BASH_REMATCH[1]}; fi
        break
      fi
    done <"/proc/$pid/environ"
  done < <(grep -l -s -z -x -F -- "HSCHED_FENCE=$hs_fence/$hs_ticket" /proc/[0-9]*/environ)
}

# Sets the CPU time of each rank, in ticks, and its main process with its state: the process with the most CPU time, or the
# oldest of several.
hs_read_processes() {
  local pid rank line own
  local -a field
  local -A most=() begun=()
  cpu=() state=() main=()
  set -f
  for pid in "${!rank_of[@]}"; do
    IFS= read -r line <"/proc/$pid/stat" || continue
    # shellcheck disable=SC2206
    field=(${line##*) })
    rank=${rank_of[$pid]}
    # The time of children counts once the parent has waited for them.
    cpu[$rank]=$((${cpu[$rank]:-0} + field[11] + field[12] + field[13] + field[14]))
    own=$((field[11] + field[12]))
    if ((own > ${most[$rank]:--1} || own == ${most[$rank]:--1} && field[19] < begun[$rank])); then
      most[$rank]=$own begun[$rank]=${field[19]} main[$rank]=$pid state[$rank]=${field[0]}
    fi
  done
  set +f
}

# Prints the line of a sample: a list for each quantity, with an entry for each rank of this node.
hs_write_sample() {
  local rank device seconds steps phase word
  local -A list=()
  local -a devices=()
  IFS=, read -r -a devices <<<"$CUDA_VISIBLE_DEVICES"
  for rank in "${!hs_ranks[@]}"; do
    if [[ ${hs_ranks[rank]} != "$hs_node "* ]]; then continue; fi
    IFS=' ' read -r _ device _ <<<"${hs_ranks[rank]}"
    device=${devices[device]:-$device}
    hs_add ranks "$rank"
    hs_add state "${state[$rank]:+\"${state[$rank]}\"}"
    seconds=''
    if [[ -n ${cpu[$rank]} ]]; then printf -v seconds '%d.%02d' $((cpu[$rank] / ticks)) $((cpu[$rank] % ticks * 100 / ticks)); fi
    hs_add cpu_s "$seconds"
    hs_add_number gpu "${use[$device]}"
    hs_add_number memory_mib "${memory[$device]}"
    hs_add_number power_w "${power[$device]}"
    steps='' phase=''
    IFS=' ' read -r steps phase _ <"$hs_report_dir/samples/progress-$rank"
    if [[ ! $phase =~ ^[a-z]+$ ]]; then steps='' phase=''; fi
    hs_add_number steps "$steps"
    hs_add phase "${phase:+\"$phase\"}"
  done
  if ((${#use[@]} == 0)); then unset 'list[gpu]' 'list[memory_mib]' 'list[power_w]'; fi
  if [[ ! ${list[steps]} =~ [0-9] ]]; then unset 'list[steps]' 'list[phase]'; fi
  printf '{"at": %d' "$now"
  for word in ranks state cpu_s gpu memory_mib power_w steps phase; do
    if [[ -n ${list[$word]} ]]; then printf ', "%s": [%s]' "$word" "${list[$word]}"; fi
  done
  printf '}\n'
}

# Adds $2 to the list named $1; null if it is empty.
hs_add() { list[$1]=${list[$1]:+${list[$1]}, }${2:-null}; }

# Adds a number, or null for anything else, such as "[N/A]".
hs_add_number() {
  if [[ $2 =~ ^(0|[1-9][0-9]*)(\.[0-9]+)?$ ]]; then hs_add "$1" "$2"; else hs_add "$1" ''; fi
}
