# shellcheck shell=bash
# A clock that runs faster than that of the machine, for slurmctld, the slurmds and slurmdbd (libfaketime).
#
# The daemon `clock` holds the shared memory with the start time of the clock, and frees the lock of that memory if a
# program dies while it holds the lock. Jobs do not inherit the clock.
# shellcheck disable=SC2153 # dev-cluster sets the names in capitals

# Starts the clock; its child writes the variables of the clock for programs to DIR/etc/clock.
start_clock() {
  rm -f "$DIR/etc/clock"
  # shellcheck disable=SC2016 # the inner shell expands these
  start_daemon clock faketime -m -f "+0 x$SPEED" bash -c \
    'env | grep -E "^(LD_PRELOAD|FAKETIME|FAKETIME_SHARED)=" >"$1.new" && mv "$1.new" "$1" &&
      exec env -u LD_PRELOAD python3 "$2" "${FAKETIME_SHARED%% *}"' \
    bash "$DIR/etc/clock" "$HERE/lib/clock.py"
  wait_for clock_is_shared clock
}

clock_is_shared() { [[ -s $DIR/etc/clock ]]; }

# Sets CLOCK to the variables that make a program use the cluster's clock; empty if that is the machine's clock.
read_clock() {
  CLOCK=()
  [[ $SPEED == 1 ]] || mapfile -t CLOCK <"$DIR/etc/clock"
}

# Prints a message if the clock's lock had to be freed.
tell_freed_locks() {
  local count
  [[ -s $DIR/log/clock.out ]] || return 0
  count=$(grep -c ' freed the clock' "$DIR/log/clock.out") || return 0
  say "programs that were killed or stopped held the clock's lock; it was freed ($count): $DIR/log/clock.out"
}

# Removes the shared memory of a killed clock.
remove_clock() {
  local variable name
  [[ -s $DIR/etc/clock ]] || return 0
  while IFS= read -r variable; do
    [[ $variable == FAKETIME_SHARED=* ]] || continue
    for name in ${variable#*=}; do rm -f "/dev/shm$name" "/dev/shm/sem.${name#/}"; done
  done <"$DIR/etc/clock"
}

# Additional settings for a fast clock: an answer that takes a second of real time takes minutes of the cluster's time.
# Without a database, ended jobs stay visible for eight minutes of real time.
fast_settings() {
  cat <<END
SchedulerParameters=bf_interval=120,bf_max_time=3600,bf_continue,bf_window=5760,bf_resolution=60,bf_max_job_test=2000,default_queue_depth=1000
PreemptType=preempt/none
PreemptMode=OFF
MinJobAge=$((500 * SPEED))
MaxJobCount=20000
JobAcctGatherFrequency=task=0
PriorityWeightAge=10000
PriorityMaxAge=2-0
PriorityWeightPartition=100000
PriorityCalcPeriod=5
END
  [[ $ACCOUNTING != yes ]] || printf 'PriorityWeightFairshare=20000\n'
}
