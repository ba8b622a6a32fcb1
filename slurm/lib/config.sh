# shellcheck shell=bash
# Writes the files of the daemons: slurm.conf, gres.conf, cgroup.conf, slurmdbd.conf and the fake devices.
# shellcheck disable=SC2153 # dev-cluster and nodes.sh set the names in capitals

# Writes the daemons' files in DIR/etc and DIR/dev, from the parsed node file and the options; removes earlier logs.
write_config() {
  rm -rf "$DIR/log"
  mkdir -p "$DIR"/{etc,dev,state,run,log}
  write_devices_and_gres
  cgroup_settings >"$DIR/etc/cgroup.conf"
  { common_settings; accounting_settings; node_lines; partition_lines; } >"$DIR/etc/slurm.conf"
  if [[ $ACCOUNTING == yes ]]; then (umask 077; slurmdbd_settings >"$DIR/etc/slurmdbd.conf"); fi
}

# Slurm 20.11 has only the plugin cgroup/v1, and refuses the key CgroupPlugin.
cgroup_settings() {
  ! slurm_is_since 22.05 || printf 'CgroupPlugin=cgroup/v1\n'
  printf 'CgroupAutomount=no\n'
}

# Slurm sets CUDA_VISIBLE_DEVICES only for character devices; links to /dev/null count as such.
write_devices_and_gres() {
  local node entry type count first index
  for node in "${NODE_NAMES[@]}"; do
    mkdir -p "$DIR/spool/$node"
    [[ -n ${NODE_GPUS[$node]} ]] || continue
    mkdir -p "$DIR/dev/$node"
    first=0
    for entry in ${NODE_GPUS[$node]//,/ }; do
      count=${entry##*:} type=''
      [[ $entry == *:* ]] && type=" Type=${entry%:*}"
      for ((index = first; index < first + count; index++)); do
        ln -s /dev/null "$DIR/dev/$node/nvidia$index"
      done
      printf 'NodeName=%s Name=gpu%s File=%s/dev/%s/nvidia[%d-%d]\n' \
        "$node" "$type" "$DIR" "$node" "$first" "$((first + count - 1))"
      first=$((first + count))
    done
  done >"$DIR/etc/gres.conf"
}

common_settings() {
  cat <<END
# Written by dev-cluster; lost with its \`down\`.
ClusterName=dev
SlurmctldHost=$HOST(127.0.0.1)
SlurmctldPort=$PORT
SlurmUser=$ME
SlurmdUser=$ME
$(auth_settings)
StateSaveLocation=$DIR/state
SlurmdSpoolDir=$DIR/spool/%n
SlurmctldPidFile=$DIR/run/slurmctld.own
SlurmdPidFile=$DIR/run/slurmd-%n.own
SlurmctldLogFile=$DIR/log/slurmctld.log
SlurmdLogFile=$DIR/log/slurmd-%n.log
SlurmctldDebug=info
SlurmdDebug=info
# Without this, listeners would be open to the network.
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/linux
MpiDefault=none
SwitchType=switch/none
SlurmdParameters=config_overrides
ReturnToService=1
GresTypes=gpu
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
DefMemPerCPU=100
SchedulerType=sched/backfill
PriorityType=priority/multifactor
JobRequeue=1
KillWait=3
CompleteWait=0
InactiveLimit=0
SlurmctldTimeout=30
$(timeout_settings)
$(if [[ $SPEED == 1 ]]; then usual_settings; else fast_settings; fi)
END
}

usual_settings() {
  cat <<END
# Heterogeneous jobs start in half a second instead of half a minute.
SchedulerParameters=bf_interval=1,batch_sched_delay=0
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
MinJobAge=300
JobAcctGatherFrequency=task=1
END
}

# While one node does not answer, newer controllers do not ping the others for MessageTimeout and
# some seconds: with a shorter SlurmdTimeout, they would then set all nodes down.
timeout_settings() {
  local slurmd message tcp
  IFS=/ read -r slurmd message tcp <<<"$TIMEOUTS"
  if slurm_is_since 23.02 && ((slurmd > 0 && slurmd < message + 7)); then slurmd=$((message + 7)); fi
  printf 'SlurmdTimeout=%d\nMessageTimeout=%d\nTCPTimeout=%d\n' "$slurmd" "$message" "$tcp"
}

auth_settings() {
  # Without this setting, a credential is valid for two minutes of the cluster's clock.
  if [[ $AUTH == munge ]]; then
    printf 'AuthType=auth/munge\nAuthInfo=socket=%s/munge/socket,cred_expire=%d\nCredType=cred/munge\n' "$DIR" $((120 * SPEED))
  else
    printf 'AuthType=auth/none\nCredType=cred/none\n'
  fi
}

accounting_settings() {
  if [[ $ACCOUNTING != yes ]]; then
    printf 'AccountingStorageType=accounting_storage/none\n'
    printf 'JobCompType=jobcomp/filetxt\nJobCompLoc=%s/log/jobcomp.txt\n' "$DIR"
    return
  fi
  printf 'AccountingStorageType=accounting_storage/slurmdbd\n'
  printf 'AccountingStorageHost=127.0.0.1\nAccountingStoragePort=%d\n' "$((PORT + 1))"
  [[ $LIMITS != yes ]] || printf 'AccountingStorageEnforce=associations,limits,qos\n'
  # Towards slurmdbd this names the munge socket; AuthInfo is not used there.
  [[ $AUTH == none ]] || printf 'AccountingStoragePass=%s/munge/socket\n' "$DIR"
  printf 'AccountingStorageTRES=gres/gpu%s\n' "$(gpu_types | sed 's|^|,gres/gpu:|' | tr -d '\n')"
  if slurm_is_since 21.08; then
    printf 'AccountingStoreFlags=job_comment,job_env,job_script\n'
  else
    printf 'AccountingStoreJobComment=YES\n'
  fi
}

node_lines() {
  local node port=$((PORT + 2)) gres entry
  for node in "${NODE_NAMES[@]}"; do
    gres=''
    for entry in ${NODE_GPUS[$node]//,/ }; do gres+=${gres:+,}gpu:$entry; done
    printf 'NodeName=%s NodeHostname=%s NodeAddr=127.0.0.1 Port=%d CPUs=%d RealMemory=%d%s%s\n' \
      "$node" "$HOST" "$port" "${NODE_CPUS[$node]}" "${NODE_MEMORY[$node]}" \
      "${gres:+ Gres=$gres}" "${NODE_FEATURES[$node]:+ Feature=${NODE_FEATURES[$node]}}"
    port=$((port + 1))
  done
}

partition_lines() {
  local partition
  for partition in "${PARTITION_NAMES[@]}"; do
    printf 'PartitionName=%s Nodes=%s State=UP OverSubscribe=NO%s\n' \
      "$partition" "${PARTITION_NODES[$partition]}" "${PARTITION_SETTINGS[$partition]}"
  done
}

# StorageHost=localhost makes the client library use MYSQL_UNIX_PORT, which start_slurmdbd sets.
slurmdbd_settings() {
  auth_settings | grep -v ^CredType
  cat <<END
DbdAddr=127.0.0.1
DbdHost=$HOST
DbdPort=$((PORT + 1))
CommunicationParameters=NoInAddrAny
SlurmUser=$ME
DebugLevel=info
LogFile=$DIR/log/slurmdbd.log
PidFile=$DIR/run/slurmdbd.own
StorageType=accounting_storage/mysql
StorageHost=localhost
StorageUser=$ME
StorageLoc=slurm_acct_db
END
}
