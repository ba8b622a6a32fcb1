# shellcheck shell=bash
# Starts the daemons one by one, waits until they answer, and prints their states.

# Prints every daemon that this cluster should have, in the order of starting.
expected_daemons() {
  local node
  ! is_rooted || echo root
  [[ $SPEED == 1 ]] || echo clock
  [[ $AUTH == none ]] || echo munged
  if [[ $ACCOUNTING == yes ]]; then printf '%s\n' mariadbd slurmdbd; fi
  echo slurmctld
  for node in "${NODE_NAMES[@]}"; do printf 'slurmd-%s\n' "$node"; done
}

# Starts missing daemons, and returns when every node is usable.
start_missing_daemons() {
  local daemon
  for daemon in $(expected_daemons); do
    [[ -z $(daemon_pid "$daemon" || true) ]] || continue
    case $daemon in
      root) start_root ;;
      clock) start_clock ;;
      munged) start_munged ;;
      mariadbd) start_mariadbd ;;
      slurmdbd) start_slurmdbd ;;
      slurmctld) start_slurmctld ;;
      slurmd-*) start_slurm_daemon "$daemon" slurmd -D -N "${daemon#slurmd-}" ;;
    esac
  done
  wait_for cluster_usable slurmctld
}

# Starts daemon $1 with the command that follows, in its own session, with a clean environment, signals and descriptors.
start_daemon() {
  local name=$1
  shift
  STARTED+=("$name")
  (
    close_descriptors
    cd /
    exec env -i --default-signal PATH="$PATH" HOME="$HOME" LANG=C.UTF-8 SLURM_CONF="$DIR/etc/slurm.conf" \
      MYSQL_UNIX_PORT="$DIR/sql/socket" "$MARKER=$DIR" setsid "$@"
  ) </dev/null >"$DIR/log/$name.out" 2>&1 &
  remember_process "$name" $!
  disown $!
}

# Starts daemon $1 with the command that follows, with the cluster's clock and its view of the host name.
start_slurm_daemon() {
  local name=$1
  shift
  read_clock
  start_daemon "$name" "${HOST_VIEW[@]}" env "${CLOCK[@]}" "$@"
}

# A daemon that kept a caller's pipe open would make the caller wait forever.
close_descriptors() {
  local descriptor
  for descriptor in /proc/self/fd/*; do
    descriptor=${descriptor##*/}
    if ((descriptor > 2)); then eval "exec $descriptor>&-"; fi
  done
}

# Seconds until a daemon that lives counts as hung, far more than a busy machine needs.
readonly PATIENCE=60

# Waits until the function $1 succeeds; ends the program when daemon $2 has died or hangs.
wait_for() {
  local deadline=$((SECONDS + PATIENCE))
  until "$1"; do
    [[ -n $(daemon_pid "$2" || true) ]] || give_up "$2 stopped" "$2"
    ((SECONDS <= deadline)) || give_up "$2 is not ready after $PATIENCE s" "$2"
    sleep 0.03
  done
}

# Ends the program with the last output of daemon $2.
give_up() {
  local log=$DIR/log/$2.out
  [[ -s $log ]] || log=$DIR/log/$2.log
  say "$1; the end of $log:"
  tail -n 15 "$log" >&2 || true
  exit 1
}

start_munged() {
  mkdir -p "$DIR/munge"
  chmod 755 "$DIR/munge"
  [[ -s $DIR/munge/key ]] || (umask 077; head -c 128 /dev/urandom >"$DIR/munge/key")
  rm -f "$DIR/munge/socket"
  start_daemon munged munged --foreground --force --num-threads=4 --key-file="$DIR/munge/key" \
    --socket="$DIR/munge/socket" --pid-file="$DIR/munge/pid" --seed-file="$DIR/munge/seed" \
    --log-file="$DIR/log/munged.log"
  wait_for munge_answers munged
}

munge_answers() { [[ -S $DIR/munge/socket ]] && munge --no-input --socket="$DIR/munge/socket" >/dev/null 2>&1; }

# The database listens only on a socket in a directory of the cluster and identifies its user by that socket. Its data
# may be lost in a crash of the machine, so it never waits for the disk.
start_mariadbd() {
  local -a options=(--no-defaults --user="$ME" --datadir="$DIR/sql/data" --skip-name-resolve --innodb-log-file-size=8M
    --innodb-flush-method=nosync --innodb-flush-log-at-trx-commit=0 --innodb-buffer-pool-size=64M)
  if [[ ! -e $DIR/sql/ready ]]; then
    rm -rf "$DIR/sql"
    mkdir -m 700 "$DIR/sql"
    mariadb-install-db "${options[@]}" --skip-test-db \
      --auth-root-authentication-method=socket --auth-root-socket-user="$ME" >"$DIR/log/mariadb-install.log" 2>&1 ||
      give_up 'no database could be made' mariadb-install
    touch "$DIR/sql/ready"
  fi
  start_daemon mariadbd mariadbd "${options[@]}" --socket="$DIR/sql/socket" --pid-file="$DIR/sql/pid" \
    --skip-networking --innodb-lock-wait-timeout=900 --log-error="$DIR/log/mariadbd.log"
  wait_for database_answers mariadbd
  mariadb --no-defaults --socket="$DIR/sql/socket" --user="$ME" -e 'create database if not exists slurm_acct_db' ||
    give_up 'no database slurm_acct_db' mariadbd
}

database_answers() {
  mariadb-admin --no-defaults --socket="$DIR/sql/socket" --user="$ME" ping >/dev/null 2>&1
}

start_slurmdbd() {
  start_slurm_daemon slurmdbd slurmdbd -D
  wait_for slurmdbd_listens slurmdbd
  printf '%s\n' 'add cluster dev' 'add account dev' "add user $ME account=dev" quit |
    sacctmgr --immediate >"$DIR/log/sacctmgr.log" 2>&1 || true
}

start_slurmctld() {
  local node pid
  start_slurm_daemon slurmctld slurmctld -D
  wait_for slurmctld_listens slurmctld
  # A new controller contacts the nodes only after five seconds; a slurmd that gets HUP registers at once.
  for node in "${NODE_NAMES[@]}"; do
    if pid=$(daemon_pid "slurmd-$node"); then kill -HUP "$pid"; fi
  done
}

slurmdbd_listens() { listens_on $((PORT + 1)); }
slurmctld_listens() { listens_on "$PORT"; }
listens_on() { listening_ports | grep -qx "$1"; }

# Prints "NODE|STATE|REASON" of every node, once. An asterisk marks the state of a node that does not answer.
node_states() {
  timeout 10 sinfo -h -N -o '%N|%T|%E' 2>/dev/null | sort -u
}

# Succeeds when every slurmd of this cluster listens and every node is ready; ends the program when a slurmd has died.
cluster_usable() {
  local node listening
  for node in "${NODE_NAMES[@]}"; do
    [[ -n $(daemon_pid "slurmd-$node" || true) ]] || give_up "slurmd of $node stopped" "slurmd-$node"
  done
  listening=$(listening_ports | grep -cxFf <(seq $((PORT + 2)) $((PORT + 1 + ${#NODE_NAMES[@]}))) || true)
  ((listening == ${#NODE_NAMES[@]})) && nodes_ready
}

# Succeeds when every node is ready for jobs. A node that was drained or set down by hand counts as ready.
nodes_ready() {
  local node state reason ready=0
  while IFS='|' read -r node state reason; do
    case $state in
      *'*' | *unknown* | inval*) ;;
      down*) [[ $reason == none || $reason == 'Not responding'* ]] || ready=$((ready + 1)) ;;
      *) ready=$((ready + 1)) ;;
    esac
  done < <(node_states)
  ((ready == ${#NODE_NAMES[@]}))
}

# Prints a line for each daemon; fails if one is missing.
show_daemons() {
  local daemon pid missing=0
  for daemon in $(expected_daemons); do
    if pid=$(daemon_pid "$daemon"); then
      printf '%-20s up    pid %s\n' "$daemon" "$pid"
    else
      printf '%-20s down\n' "$daemon"
      missing=$((missing + 1))
    fi
  done
  ((missing == 0))
}
