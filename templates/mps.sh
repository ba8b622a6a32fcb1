#!/bin/bash
# Starts NVIDIA's MPS daemon for the GPUs that this process sees, in a folder of its own; prints "ready FOLDER", or why
# it did not start. Ends the daemon when it gets SIGUSR1 or SIGTERM.
hs_program=nvidia-cuda-mps-control
if ! command -v "$hs_program" >/dev/null; then
  echo "$hs_program is not on PATH"
  exit 1
fi
if ! hs_folder=$(mktemp -d "${TMPDIR:-/tmp}/hsched-mps-XXXXXX"); then
  echo "no folder can be made for it in ${TMPDIR:-/tmp}"
  exit 1
fi
export CUDA_MPS_PIPE_DIRECTORY=$hs_folder/pipe CUDA_MPS_LOG_DIRECTORY=$hs_folder/log

hs_end() {
  trap '' USR1 TERM
  echo quit | timeout 10 "$hs_program" >/dev/null 2>&1
  rm -rf -- "$hs_folder"
}

trap hs_end EXIT
trap 'exit 0' USR1 TERM
mkdir -- "$CUDA_MPS_PIPE_DIRECTORY" "$CUDA_MPS_LOG_DIRECTORY"
if ! timeout 20 "$hs_program" -d </dev/null >"$hs_folder/started" 2>&1; then
  echo "$hs_program -d failed: $(tail -n 1 -- "$hs_folder/started")"
  exit 1
fi
echo "ready $hs_folder"
exec >/dev/null 2>&1
# In the background, so that a signal is handled at once.
while :; do sleep 3600 & wait "$!"; done
