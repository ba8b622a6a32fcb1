# shellcheck shell=bash
# Functions of the batch shell for jobs whose replicas have several GPUs: ranks of a replica are adjacent in the table and share its
# batch. Inserted after the other functions: it replaces hs_join_batches and extends hs_export_common.
# The first part of the script sets the variables, and the ranks read what is set here:
# shellcheck disable=SC2154,SC2034,SC2016

# Sets hs_batches to one batch for each replica, and sets the replica of every rank, its position there, and the replica's size.
hs_join_batches() {
  local row batch gpu_type entry replica=-1 place=0 size=0 rows=
  hs_batches=
  for row in "${hs_ranks[@]}"; do
    IFS=' ' read -r _ _ batch _ _ gpu_type <<<"$row"
    if ((place == size)); then
      replica=$((replica + 1)) place=0 size=1
      for entry in "${hs_replica_sizes[@]}"; do
        if [[ ${entry% *} == "$gpu_type" ]]; then size=${entry##* }; fi
      done
      hs_batches+=,$batch
    fi
    rows+=" '$replica $place $size'"
    place=$((place + 1))
  done
  hs_batches=${hs_batches#,}
  hs_append hs_export_common "
    if [[ -n \${hs_rank-} ]]; then
      local -a hs_replicas=($rows)
      IFS=' ' read -r HSCHED_REPLICA HSCHED_REPLICA_RANK HSCHED_REPLICA_SIZE <<<\"\${hs_replicas[hs_rank]}\"
      export HSCHED_REPLICA HSCHED_REPLICA_RANK HSCHED_REPLICA_SIZE
    fi"
}

# Adds lines $2 at the end of function $1.
hs_append() { eval "$(declare -f "$1" | sed '$d')
$2
}"; }
