# Logs of a training, in two forms, and jobs with deadlines.
mkdir -p reports
echo epoch,val_loss,val_acc >log.csv
for epoch in $(seq 1 30); do
  echo "$epoch,0.$((900 - epoch * 15)),0.$((400 + epoch * 12))" >>log.csv
  echo "{\"epoch\": $epoch, \"rank\": 0, \"metrics\": {\"val_acc\": 0.$((400 + epoch * 12))}}" >>reports/rank-0.jsonl
done
cat >jobs.yaml <<'TEXT'
jobs:
  - {name: main, samples_per_epoch: 360000, epochs: 10, global_batch: 100, model_size: 0MB, throughput: {v100: 200, t4: 60}, deadline: 6h, command: "python main.py"}
  - {name: ablation, samples_per_epoch: 360000, epochs: 4, global_batch: 100, model_size: 0MB, throughput: {v100: 200, t4: 60}, deadline: 5h, command: "python ablation.py"}
TEXT
printf 'nodes:\n- {name: a, gpus: {v100: 2, t4: 2}}\n' >cluster.yaml
