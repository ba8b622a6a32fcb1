# A full cluster, and one of the user's jobs that waits for a begin time.
. "$DOCUMENTS/slurm.sh"
full_cluster
me=$(id -un)
echo "123|PENDING|$me|bio|normal|gpu|100|$(moment -60)|N/A|1:00:00|1|1|1|cpu=1,node=1|gres:gpu:v100:2|N/A|N/A|N/A||(null)|(null)|OK|BeginTime" |
  records >>"$PLACE/queue"
echo "JobId=123 JobName=bert UserId=$me(0) Account=bio QOS=normal Partition=gpu JobState=PENDING Reason=BeginTime Priority=100 TimeLimit=01:00:00 \
SubmitTime=$(moment -60) EligibleTime=$(moment 600) StartTime=$(moment 600) NumNodes=1 NumCPUs=1 ReqTRES=cpu=1,node=1,gres/gpu:v100=2 TresPerNode=gres:gpu:v100:2" >"$PLACE/job"
echo "123|123|N/A|N/A|PENDING|BeginTime|gpu|$(moment -60)|$(moment 600)|N/A|1:00:00|1|1|0|0||||N/A|bert|(null)" | records >"$PLACE/mine"
