# shellcheck shell=bash
# Reads a node file into arrays and reports every bad line as file:line. It writes nothing to disk.
# shellcheck disable=SC2034 # config.sh reads the arrays

declare -a NODE_NAMES=() PARTITION_NAMES=()
declare -A NODE_CPUS=() NODE_MEMORY=() NODE_GPUS=() NODE_FEATURES=()
declare -A PARTITION_SETTINGS=() PARTITION_NODES=() PARTITION_LINE=()
NODES_FILE='' NODES_TEXT='' NODES_LINE=0 NODES_BAD=0 DEFAULT_PARTITION=''
readonly MOST_NODES=256 MOST_GPUS=64

# Reads the node file $1 into the arrays; ends the program with 2 when a line is bad.
read_nodes() {
  NODES_FILE=$1
  [[ -r $NODES_FILE && ! -d $NODES_FILE ]] || misuse "no node file at $NODES_FILE"
  NODES_TEXT=$(<"$NODES_FILE")
  parse_nodes
  ((NODES_BAD == 0)) || misuse "$NODES_FILE: $NODES_BAD bad line(s)"
}

# Parses NODES_TEXT: partitions first, because node lines may name a partition that is declared below them.
parse_nodes() {
  local line wanted
  local -a words
  for wanted in partition node; do
    NODES_LINE=0
    while IFS= read -r line; do
      NODES_LINE=$((NODES_LINE + 1))
      read -ra words <<<"${line%%#*}"
      ((${#words[@]} > 0)) || continue
      case $wanted:${words[0]} in
        partition:partition) parse_partition "${words[@]:1}" ;;
        partition:* | node:partition) ;;
        *) parse_node "${words[@]}" ;;
      esac
    done <<<"$NODES_TEXT"
  done
  check_whole_file
}

# Reports errors that involve several lines.
check_whole_file() {
  local partition
  ((NODES_BAD == 0)) || return 0
  ((${#PARTITION_NAMES[@]} > 0)) || bad_line 'no partition line in this file'
  ((${#NODE_NAMES[@]} > 0)) || bad_line 'no node line in this file'
  ((${#NODE_NAMES[@]} <= MOST_NODES)) || bad_line "${#NODE_NAMES[@]} nodes; at most $MOST_NODES"
  ((NODES_BAD == 0)) || return 0
  for partition in "${PARTITION_NAMES[@]}"; do
    [[ -n ${PARTITION_NODES[$partition]-} ]] && continue
    NODES_LINE=${PARTITION_LINE[$partition]}
    bad_line "partition $partition has no node"
  done
}

bad_line() {
  NODES_BAD=$((NODES_BAD + 1))
  printf '%s:%d: %s\n' "$NODES_FILE" "$NODES_LINE" "$1" >&2
}

# partition NAME [default] [max_time=T] [default_time=T] [priority_tier=N]
parse_partition() {
  local name=${1-} word value settings=''
  local time='^(infinite|unlimited|([0-9]+-)?[0-9]+(:[0-9][0-9]){0,2})$'
  is_name "$name" || { bad_line "bad partition name '$name'"; return 0; }
  [[ -z ${PARTITION_LINE[$name]-} ]] || { bad_line "partition $name is declared twice"; return 0; }
  PARTITION_NAMES+=("$name")
  PARTITION_LINE[$name]=$NODES_LINE
  for word in "${@:2}"; do
    value=${word#*=}
    case $word in
      default)
        [[ -z $DEFAULT_PARTITION ]] || bad_line "partition $DEFAULT_PARTITION is already the default"
        DEFAULT_PARTITION=$name
        settings+=' Default=YES' ;;
      max_time=*)
        [[ $value =~ $time ]] || bad_line "bad time '$value'"
        settings+=" MaxTime=$value" ;;
      default_time=*)
        [[ $value =~ $time ]] || bad_line "bad time '$value'"
        settings+=" DefaultTime=$value" ;;
      priority_tier=*)
        is_count "$value" 0 65533 || bad_line "bad priority_tier '$value': 0 to 65533"
        settings+=" PriorityTier=$value" ;;
      *) bad_line "unknown setting '$word': default, max_time=, default_time=, priority_tier=" ;;
    esac
  done
  PARTITION_SETTINGS[$name]=$settings
}

# NAMES [cpus=N] [memory=MB] [gpus=TYPE:N,…|N] [features=A,…] [partitions=P,…]
parse_node() {
  local word name partition
  local -a names=()
  local -A setting=([cpus]=16 [memory]=64000 [gpus]='' [features]='' [partitions]='')
  expand_names "$1" || { bad_line "bad node name '$1': like v1, v[1-4] or v[01-04,7]"; return 0; }
  for word in "${@:2}"; do
    if is_node_setting "${word%%=*}" "${word#*=}"; then
      setting[${word%%=*}]=${word#*=}
    else
      bad_line "bad setting '$word': cpus=N memory=MEGABYTES gpus=TYPE:N,TYPE:N or gpus=N features=A,B partitions=P,Q"
    fi
  done
  for partition in ${setting[partitions]//,/ }; do
    [[ -n ${PARTITION_LINE[$partition]-} ]] || bad_line "partition $partition is not declared"
  done
  for name in "${names[@]}"; do
    [[ -z ${NODE_CPUS[$name]-} ]] || { bad_line "node $name is declared twice"; continue; }
    NODE_NAMES+=("$name")
    NODE_CPUS[$name]=${setting[cpus]} NODE_MEMORY[$name]=${setting[memory]}
    NODE_GPUS[$name]=${setting[gpus]} NODE_FEATURES[$name]=${setting[features]}
    [[ -n ${setting[partitions]} ]] || setting[partitions]=${PARTITION_NAMES[*]}
    for partition in ${setting[partitions]//,/ }; do
      PARTITION_NODES[$partition]+=${PARTITION_NODES[$partition]:+,}$name
    done
  done
}

is_node_setting() { # KEY VALUE
  case $1 in
    cpus) is_count "$2" 1 4096 ;;
    memory) is_count "$2" 1 99999999 ;;
    gpus) is_gpu_list "$2" ;;
    features | partitions) is_word_list "$2" ;;
    *) return 1 ;;
  esac
}

# Sets the caller's `names` to the node names of the pattern $1; fails if the pattern is wrong.
expand_names() {
  local range ranges first last number prefix
  [[ $1 =~ ^([A-Za-z][A-Za-z0-9_-]*)(\[([0-9,-]+)\])?$ ]] || return 1
  prefix=${BASH_REMATCH[1]} ranges=${BASH_REMATCH[3]-}
  is_name "$prefix" || return 1
  [[ $1 == *]* ]] || { names=("$prefix"); return 0; }
  for range in ${ranges//,/ }; do
    [[ $range =~ ^([0-9]{1,6})(-([0-9]{1,6}))?$ ]] || return 1
    first=${BASH_REMATCH[1]} last=${BASH_REMATCH[3]:-${BASH_REMATCH[1]}}
    ((10#$first <= 10#$last && 10#$last - 10#$first < MOST_NODES)) || return 1
    for ((number = 10#$first; number <= 10#$last; number++)); do
      names+=("$prefix$(printf '%0*d' "${#first}" "$number")")
    done
  done
  ((${#names[@]} > 0))
}

is_name() {
  [[ $1 =~ ^[A-Za-z][A-Za-z0-9_-]{0,31}$ && ${1,,} != all && ${1,,} != default ]]
}

is_count() { # VALUE LEAST MOST
  [[ $1 =~ ^(0|[1-9][0-9]{0,8})$ ]] && (($1 >= $2 && $1 <= $3))
}

is_word_list() {
  [[ $1 =~ ^[A-Za-z0-9_.:/-]+(,[A-Za-z0-9_.:/-]+)*$ ]]
}

is_gpu_list() {
  local entry seen=,
  is_count "$1" 1 "$MOST_GPUS" && return 0
  [[ $1 =~ ^[^,]+(,[^,]+)*$ ]] || return 1
  for entry in ${1//,/ }; do
    [[ $entry =~ ^([A-Za-z][A-Za-z0-9_.-]*):([0-9]+)$ && $seen != *,"${BASH_REMATCH[1]}",* ]] || return 1
    seen+=${BASH_REMATCH[1]},
    is_count "${BASH_REMATCH[2]}" 1 "$MOST_GPUS" || return 1
  done
}

# Prints the GPU types of all nodes, one a line, without repeats.
gpu_types() {
  local name entry
  for name in "${NODE_NAMES[@]}"; do
    for entry in ${NODE_GPUS[$name]//,/ }; do
      [[ $entry == *:* ]] && printf '%s\n' "${entry%:*}"
    done
  done | sort -u
}
