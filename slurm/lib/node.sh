# shellcheck shell=bash
# Sets one node of the running cluster down, brings it back, or kills it as if its machine lost power.
# shellcheck disable=SC2153 # dev-cluster and nodes.sh set the names in capitals

# Sets node $1 down, as an administrator does: Slurm ends its jobs, and it stays down until `node up`.
node_down() { scontrol update nodename="$1" state=down reason=dev-cluster; }

# Brings node $1 back from any state, and returns when it accepts jobs.
node_up() {
  local pid
  # Resumes the node before the slurmd registers; a node that is resumed later waits for the controller's next ping.
  case $(node_state "$1") in
    *down* | *drain* | *fail*) scontrol update nodename="$1" state=resume ;;
  esac
  if pid=$(daemon_pid "slurmd-$1"); then
    kill -HUP "$pid"
  else
    prepare_host_view
    start_slurm_daemon "slurmd-$1" slurmd -D -N "$1"
  fi
  AWAITED=$1
  wait_for awaited_node_ready "slurmd-$1"
}

# Ends all processes on node $1 at once; Slurm has to detect it by itself.
node_kill() {
  local round pids
  for ((round = 0; round < 40; round++)); do
    pids=$(node_processes "$1")
    [[ -n $pids ]] || break
    # All are stopped before the first one is killed, so that none can react.
    signal_all STOP "$pids"
    signal_all KILL "$pids"
    sleep 0.02
  done
  [[ -z $pids ]] || fail "node $1: still running: ${pids//$'\n'/ }"
  rm -f "$DIR/run/slurmd-$1.pid"
}

# Prints the state of node $1 with its flags, such as `drained*`.
node_state() { node_states | awk -F'|' -v node="$1" '$1 == node { print $2; exit }'; }

awaited_node_ready() {
  case $(node_state "$AWAITED") in
    '' | *'*' | *unknown* | inval* | *down* | *drain* | *fail*) return 1 ;;
  esac
}
