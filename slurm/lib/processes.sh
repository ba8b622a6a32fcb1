# shellcheck shell=bash
# Finds, records and stops the processes of one cluster, and never those of another.
#
# A daemon is identified by its pid and start time, and by the marker in its environment. A slurmstepd overwrites its
# environment, but keeps files below DIR open. A job's process has this cluster's SLURM_CONF and a SLURMD_NODENAME.

readonly MARKER=HSCHED_DEV_CLUSTER_OF

# Prints "STATE START" of the process $1; fails if there is none.
process_stat() {
  local text
  { read -r text <"/proc/$1/stat"; } 2>/dev/null || return 1
  local -a fields
  read -ra fields <<<"${text##*) }"
  printf '%s %s\n' "${fields[0]}" "${fields[19]}"
}

# Records that daemon $1 is process $2.
remember_process() {
  local state start
  read -r state start <<<"$(process_stat "$2")" || true
  printf '%s %s\n' "$2" "$start" >"$DIR/run/$1.pid"
}

# Prints the pid of daemon $1 if it is alive; a zombie is not (PID 1 may reap it late).
daemon_pid() {
  local pid start state now
  { read -r pid start <"$DIR/run/$1.pid"; } 2>/dev/null || return 1
  read -r state now <<<"$(process_stat "$pid")" || return 1
  [[ -n $now && $now == "$start" && $state != [ZX] ]] || return 1
  printf '%s\n' "$pid"
}

# Prints every process of this cluster, one pid a line, but not this script and its ancestors.
cluster_processes() {
  { recorded_processes; marked_processes; steps "$DIR/*"; job_processes; } | sort -un | with_descendants | without_ancestors
}

recorded_processes() {
  local file name
  for file in "$DIR"/run/*.pid; do
    name=${file##*/}
    daemon_pid "${name%.pid}" || true
  done
}

marked_processes() {
  { grep -lzxF -- "$MARKER=$DIR" /proc/[0-9]*/environ 2>/dev/null || true; } | pids_of_paths
}

# Prints every process that runs on node $1: its slurmd, the steps that the slurmd started, and their ranks.
node_processes() {
  {
    daemon_pid "slurmd-$1" || true
    steps "$DIR/log/slurmd-$1.log"
    with_configuration | with_variable "SLURMD_NODENAME=$1"
  } | sort -un | with_descendants | without_ancestors
}

# Prints Slurm's processes that keep a file open whose path is like $1.
steps() {
  local pid name
  { find /proc/[0-9]*/fd -lname "$1" 2>/dev/null || true; } | pids_of_paths | sort -u | while read -r pid; do
    { read -r name <"/proc/$pid/comm"; } 2>/dev/null || continue
    case $name in slurm*) printf '%s\n' "$pid" ;; esac
  done
}

# A user's shell has SLURM_CONF as well, but no SLURMD_NODENAME.
job_processes() { with_configuration | with_variable 'SLURMD_NODENAME=.*'; }

# Prints the pids from stdin whose environment has a variable like $1.
with_variable() {
  local pid
  while read -r pid; do
    if grep -qzx -- "$1" "/proc/$pid/environ" 2>/dev/null; then printf '%s\n' "$pid"; fi
  done
}

# Prints the commands that wait for this cluster's jobs; they would hang without its controller.
waiting_commands() {
  local pid name
  with_configuration | while read -r pid; do
    { read -r name <"/proc/$pid/comm"; } 2>/dev/null || continue
    case $name in srun | sbatch) printf '%s\n' "$pid" ;; esac
  done | without_ancestors
}

with_configuration() {
  { grep -lzxF -- "SLURM_CONF=$DIR/etc/slurm.conf" /proc/[0-9]*/environ 2>/dev/null || true; } | pids_of_paths
}

pids_of_paths() { sed -n 's|^/proc/\([0-9]*\)/.*|\1|p'; }

# Adds all descendants of the pids on stdin, and removes zombies.
with_descendants() {
  { sed 's/^/root /'; grep -H -e ^State -e ^PPid /proc/[0-9]*/status 2>/dev/null || true; } | awk '
    $1 == "root" { wanted[$2] = 1; next }
    { split($1, path, "/"); pid = path[3] }
    $1 ~ /State:$/ && $2 ~ /[ZX]/ { dead[pid] = 1 }
    $1 ~ /PPid:$/ { parent[pid] = $2 }
    END {
      do {
        found = 0
        for (pid in parent) if (!(pid in wanted) && (parent[pid] in wanted)) { wanted[pid] = 1; found = 1 }
      } while (found)
      for (pid in wanted) if ((pid in parent) && !(pid in dead)) print pid
    }'
}

# Removes this script and its ancestors from the pids on stdin.
without_ancestors() {
  local pid=$$ own=" $$ "
  while pid=$(sed -n 's/^PPid:[[:space:]]*//p' "/proc/$pid/status" 2>/dev/null) && ((pid > 1)); do own+="$pid "; done
  while read -r pid; do
    [[ $own == *" $pid "* ]] || printf '%s\n' "$pid"
  done
}

# Stops the whole cluster and returns when no process is left; fails if a process survives for a second.
stop_cluster() {
  local round pids waiting
  for ((round = 0; round < 40; round++)); do
    pids=$(cluster_processes) waiting=$(waiting_commands)
    [[ -n $pids$waiting ]] || return 0
    # srun and sbatch get time to restore the terminal.
    signal_all "$( ((round < 2)) && echo TERM || echo KILL)" "$waiting"
    signal_all KILL "$pids"
    sleep 0.02
  done
  say "still running: $(tr '\n' ' ' <<<"$pids $waiting")"
  return 1
}

signal_all() { # SIGNAL PIDS
  local pid
  for pid in $2; do kill -s "$1" "$pid" 2>/dev/null || true; done
}

# Stops only daemon $1.
stop_daemon() {
  local pid round
  for ((round = 0; round < 50; round++)); do
    pid=$(daemon_pid "$1") || break
    kill -KILL "$pid" 2>/dev/null || true
    sleep 0.02
  done
  rm -f "$DIR/run/$1.pid"
}
