# shellcheck shell=bash
# The check before the first step, in at most 20 s: the rank's GPU answers, its memory is free, and the ranks can exchange data.
# A rank whose check fails writes its node and the reason to the file "unfit" in the report folder; the submission then ends
# with status 87. A node that cannot be checked counts as fit.
# The first part of the script, or a function in another place, sets the variables:
# shellcheck disable=SC2154,SC2034

# Ends this rank if the check fails, or if a stop was requested in the meantime.
hs_check_rank() {
  local hs_end_of_check=$((SECONDS + 20)) hs_reason=''
  hs_check_gpu
  if [[ -z $hs_reason ]]; then hs_check_links; fi
  if ((!hs_stopping && !hs_terminated)) && [[ -z $hs_reason ]]; then return; fi
  # This rank ends without having trained.
  rm -f -- "$hs_mark"
  if ((hs_stopping)); then hs_end_stopped; fi
  if ((hs_terminated)); then exit 143; fi
  # If several ranks fail, the first one records the reason.
  (set -o noclobber
   printf '{"node": "%s", "rank": %d, "why": "%s"}\n' "${hs_hosts[hs_node]}" "$hs_rank" "${hs_reason//[^A-Za-z0-9 .,:()%\/+-]/ }" >"$hs_report_dir/unfit") 2>/dev/null
  hs_mark_failed 87 "the check before the first step failed: $hs_reason"
  exit 87
}

# Sets hs_reason if the rank's GPU does not answer, or if others use its memory.
hs_check_gpu() {
  local device answer status used total
  local -a devices=()
  if [[ $hs_gpu_type == cpu || ${CUDA_VISIBLE_DEVICES-unset} == '' ]] || ! command -v nvidia-smi >/dev/null; then return; fi
  IFS=, read -r -a devices <<<"${CUDA_VISIBLE_DEVICES-}"
  device=${devices[hs_local_rank]:-$hs_local_rank}
  if [[ $device == MIG-* ]]; then return; fi   # nvidia-smi finds a slice only by the name of its GPU
  answer=$(timeout -k 1 8 nvidia-smi "--id=$device" --query-gpu=memory.used,memory.total --format=csv,noheader,nounits </dev/null 2>&1)
  status=$?
  if ((status == 124 || status == 137)); then
    hs_reason="GPU $device does not answer within 8 s"
  elif ((status != 0)); then
    hs_reason="GPU $device does not answer: ${answer%%$'\n'*}"
  elif [[ $answer =~ ^([0-9]+),\ ([0-9]+)$ ]]; then
    used=${BASH_REMATCH[1]} total=${BASH_REMATCH[2]}
    # Under "hsched run", jobs may share a GPU, and parked ones keep their memory.
    if [[ $hs_launch != local && $hs_launch != steps ]] && ((used > total / 10 + 1024)); then
      hs_reason="others use $used of $total MiB of GPU $device"
    fi
  fi
}

# Sets hs_reason if a small all-reduce of all ranks fails or does not end, or if the links of this node are far slower
# than the others.
# Needs the job's Python with torch; its last line shows how far it got.
hs_check_links() {
  local word python='' answer last left=$((hs_end_of_check - SECONDS - 1))
  if ((hs_world_size < 2 || left < 2)); then return; fi
  for word in "${hs_command[0]-}" "${hs_shell%%[[:space:]]*}" python3 python; do
    if [[ ${word##*/} =~ ^python[0-9.]*$ ]] && command -v -- "$word" >/dev/null; then python=$word; break; fi
  done
  if [[ -z $python ]]; then return; fi
  answer=$(timeout -k 1 "$left" "$python" - "$left" <"$hs_helper_dir/hsched_ddp/preflight.py" 2>/dev/null)
  last=${answer##*$'\n'}
  case $last in
    ok\ *) if ((hs_rank == 0)); then hs_say "checked: a ring of $hs_world_size ranks passes ${last#ok }"; fi ;;
    failed\ *) hs_reason=${last#failed } ;;
    joined) hs_reason="an all-reduce of ${#hs_hosts[@]} nodes does not end within $left s" ;;
  esac
}
