# shellcheck shell=bash
# Jobs of other users on the running cluster, and programs that use its clock.
# shellcheck disable=SC2153 # dev-cluster sets the names in capitals

# Submits until it is stopped, or for --hours of the cluster's clock; `down` also ends it.
run_load() {
  "${IN_ROOT[@]}" which python3 >/dev/null || fail 'load needs python3'
  exec "${IN_ROOT[@]}" env "$MARKER=$DIR" python3 "$HERE/lib/load.py" \
    "$SPEED" "${SEED:-1}" "${LOAD:-0.95}" "${BACKLOG:-60}" "${HOURS:-0}" "$ACCOUNTING"
}

# Runs the command $@ with the cluster's clock. Durations that are not computed from dates, such as timeouts, stay real.
run_by_clock() {
  [[ $SPEED == 1 || -n $(daemon_pid clock || true) ]] || fail "the clock of $DIR has stopped: dev-cluster down, then up"
  read_clock
  ((${#CLOCK[@]} == 0)) || CLOCK+=(FAKETIME_DONT_FAKE_MONOTONIC=1)
  exec "${IN_ROOT[@]}" env "${CLOCK[@]}" "$@"
}
