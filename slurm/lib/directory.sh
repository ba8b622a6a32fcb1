# shellcheck shell=bash
# The cluster's directory: its path, owner, stored options and ports, and its view of the host name.

readonly LAYOUT=2 LONGEST_DIRECTORY=70 FIRST_PORT=10000 LAST_PORT=19900 PORT_STEP=64

# Sets DIR to the absolute path of the given or the default directory.
resolve_directory() {
  local wanted=$1 runtime=${XDG_RUNTIME_DIR:-/tmp}
  if [[ -z $wanted ]]; then
    [[ -d $runtime && -w $runtime ]] || runtime=/tmp
    wanted=$runtime/hsched-dev-cluster-$(id -u)
  fi
  DIR=$(realpath -m -- "$wanted")
  [[ $DIR =~ ^[A-Za-z0-9._/@+-]+$ ]] ||
    misuse "--dir '$DIR': only letters, digits and . _ / @ + - (Slurm's files allow no blanks and the like)"
  ((${#DIR} <= LONGEST_DIRECTORY)) ||
    misuse "--dir $DIR has ${#DIR} characters; at most $LONGEST_DIRECTORY (unix sockets have short names)"
  [[ ! -e $DIR || -d $DIR ]] || misuse "--dir $DIR is not a directory"
  [[ ! -d $DIR || -O $DIR ]] || fail "$DIR belongs to somebody else"
}

# Takes the lock that up, down and node share for one directory; the file is beside DIR, because DIR itself is removed.
lock_directory() {
  mkdir -p "$(dirname "$DIR")"
  while true; do
    exec 9>>"$DIR.lock" || fail "cannot write $DIR.lock"
    flock --wait 60 9 || fail "another dev-cluster works on $DIR"
    # If the previous holder has removed the lock file, the lock is of no use.
    [[ $DIR.lock -ef /proc/self/fd/9 ]] && break
    exec 9>&-
  done
  LOCKED=yes
}

# Releases the lock and removes its file; a waiting process notices that and creates a new one.
unlock_directory() {
  [[ $LOCKED == yes ]] || return 0
  rm -f "$DIR.lock"
  exec 9>&-
  LOCKED=no
}

# Refuses a directory with other content.
refuse_foreign_directory() {
  if [[ ! -e $DIR/.dev-cluster ]]; then
    [[ ! -d $DIR || -z $(ls -A "$DIR") ]] || fail "$DIR is not empty and holds no dev-cluster"
    return 0
  fi
  [[ $(<"$DIR/.dev-cluster") == "$LAYOUT" ]] || fail "$DIR was made by another version: use that one's down"
}

claim_directory() {
  mkdir -p "$DIR"
  printf '%s\n' "$LAYOUT" >"$DIR/.dev-cluster"
  chmod 755 "$DIR"
}

# Removes the directory, except the logs if $1 is "keep".
remove_directory() {
  [[ -e $DIR/.dev-cluster ]] || return 0
  if [[ $1 == keep ]]; then
    find "$DIR" -mindepth 1 -maxdepth 1 ! -name log ! -name .dev-cluster -exec rm -rf {} +
  else
    rm -rf "$DIR"
  fi
}

# The options of a cluster are stored from its start until it is stopped.
is_remembered() { [[ -e $DIR/etc/options ]]; }

remember_options() {
  mkdir -p "$DIR/etc"
  printf '%s\n' "$NODES_TEXT" >"$DIR/etc/nodes"
  printf '%s %s %s %s %s %s %s %s\n' \
    "$PORT" "$AUTH" "$ACCOUNTING" "$LIMITS" "$TIMEOUTS" "$SPEED" "$SLURM" "$VERSION" >"$DIR/etc/options"
}

# Sets the options and the node arrays to those with which the cluster was started.
recall_options() {
  read -r PORT AUTH ACCOUNTING LIMITS TIMEOUTS SPEED SLURM VERSION <"$DIR/etc/options"
  SLURM=${SLURM:-system}
  use_wrappers
  read_nodes "$DIR/etc/nodes"
}

# Refuses options on the command line that differ from those of the cluster in DIR.
refuse_other_options() {
  local port auth accounting limits timeouts speed slurm differ=''
  read -r port auth accounting limits timeouts speed slurm _ <"$DIR/etc/options"
  [[ -z $PORT || $PORT == "$port" ]] || differ+=" --port $port"
  [[ -z $AUTH || $AUTH == "$auth" ]] || differ+=" --auth $auth"
  [[ -z $ACCOUNTING || $ACCOUNTING == "$accounting" ]] || differ+=" no --accounting"
  [[ -z $LIMITS || $LIMITS == "$limits" ]] || differ+=" no --limits"
  [[ -z $TIMEOUTS || $TIMEOUTS == "$timeouts" ]] || differ+=" --timeouts $timeouts"
  [[ -z $SPEED || $SPEED == "$speed" ]] || differ+=" --speed $speed"
  [[ -z $SLURM || $SLURM == "${slurm:-system}" ]] || differ+=" --slurm $slurm"
  [[ -z $NODES || $(<"$NODES") == "$(<"$DIR/etc/nodes")" ]] || differ+=" other nodes"
  [[ -z $differ ]] || fail "the cluster in $DIR was started with:$differ; first: dev-cluster down --dir $DIR"
}

# Sets PORT to the first port of a free block; a given block must be free.
choose_ports() {
  local count=$((2 + ${#NODE_NAMES[@]})) blocks=$(((LAST_PORT - FIRST_PORT) / PORT_STEP)) try taken
  if [[ -n $PORT ]]; then
    ((PORT + count <= 65536)) || misuse "--port $PORT leaves no room for $count ports"
    taken=$(taken_port "$PORT" "$count")
    [[ -z $taken ]] || fail "port $taken is taken; --port $PORT needs $PORT to $((PORT + count - 1))"
    return
  fi
  for ((try = 0; try < 50; try++)); do
    PORT=$((FIRST_PORT + PORT_STEP * (RANDOM % blocks)))
    [[ -n $(taken_port "$PORT" "$count") ]] || return 0
  done
  fail "no $count free ports in a row from $FIRST_PORT to $LAST_PORT"
}

# Prints the first port of $1 … $1+$2-1 that is in use.
taken_port() {
  listening_ports | awk -v first="$1" -v count="$2" '$1 >= first && $1 < first + count { print; exit }'
}

# Prints the port of every TCP listener of this host, one a line.
listening_ports() {
  local port
  cat /proc/net/tcp /proc/net/tcp6 2>/dev/null | awk '$4 == "0A" { n = split($2, a, ":"); print a[n] }' | sort -u |
    while read -r port; do printf '%d\n' "0x$port"; done
}

# Prints the address to which Slurm's programs resolve this host's name.
host_address() { "$@" getent ahostsv4 "$(uname -n)" | awk '{ print $1; exit }' || true; }

# Sets HOST_VIEW to the command in front of a daemon that gives it a host name on 127.0.0.1; empty if it has one.
#
# srun listens only on the host name's address, and the nodes connect to it on 127.0.0.1. If the two differ, the
# daemons, and with them all jobs, get a private mount namespace with their own /etc/hosts. A root has its own in any
# case.
prepare_host_view() {
  local address
  HOST_VIEW=()
  if is_rooted; then
    HOST_VIEW=("${IN_ROOT[@]}")
    return
  fi
  address=$(host_address)
  [[ $address != 127.0.0.1 ]] || return 0
  private_hosts >"$DIR/etc/hosts"
  HOST_VIEW=(unshare --mount --propagation slave)
  # shellcheck disable=SC2016 # the inner shell expands these
  local script='mount --bind "$1" /etc/hosts && shift && exec "$@"'
  if ((EUID != 0)); then
    HOST_VIEW=(unshare --user --map-current-user --keep-caps --mount --propagation slave)
    # shellcheck disable=SC2016
    script='mount --bind "$1" /etc/hosts && shift && exec setpriv --ambient-caps=-all --inh-caps=-all -- "$@"'
  fi
  HOST_VIEW+=(bash -c "$script" bash "$DIR/etc/hosts")
  if [[ $(host_address "${HOST_VIEW[@]}" 2>/dev/null) == 127.0.0.1 ]]; then
    say "$(uname -n) is ${address:-unknown}, not 127.0.0.1: the daemons and jobs get a private /etc/hosts;" \
      'srun and salloc work inside jobs only'
    return
  fi
  fail "$(uname -n) must be 127.0.0.1 (it is ${address:-unknown}), and no private /etc/hosts can be mounted here;" \
    "remedy: make '127.0.0.1 $(uname -n)' the first line of /etc/hosts, and the only one with that name"
}

# Prints /etc/hosts with this host's names moved to 127.0.0.1.
private_hosts() {
  printf '127.0.0.1 %s %s localhost\n' "$(uname -n)" "$HOST"
  awk -v full="$(uname -n)" -v short="$HOST" '
    { sub(/#.*/, ""); line = $1; n = 0
      for (i = 2; i <= NF; i++) if ($i != full && $i != short) { line = line " " $i; n++ }
      if (n) print line }' /etc/hosts
}
