# Saved accounting of twenty runs that request ten hours and take one.
. "$DOCUMENTS/slurm.sh"
full_cluster
{
  echo 'JobIDRaw|JobName|Partition|State|ExitCode|Submit|Start|End|Timelimit|ReqTRES|AllocTRES|NNodes|NTasks|ReqMem|MaxRSS|TotalCPU|TRESUsageInAve'
  for day in $(seq -w 1 20); do
    tres='billing=8,cpu=8,gres/gpu:a100=4,gres/gpu=4,mem=64G,node=1' date=$(date -d "$((10#$day + 2)) days ago" +%Y-%m-%d)
    echo "$day|train|gpu|COMPLETED|0:0|${date}T08:00:00|${date}T10:00:00|${date}T11:00:00|10:00:00|$tres|$tres|1||64Gn||07:00:00|"
    echo "$day.batch|batch||COMPLETED|0:0|${date}T10:00:00|${date}T10:00:00|${date}T11:00:00||$tres|$tres|1|1|64Gn|58G|07:00:00|gres/gpuutil=390"
  done
} >sacct.txt
cp sacct.txt "$PLACE/all"
program sacct <<'TEXT'
cat "$PLACE/all"
TEXT
