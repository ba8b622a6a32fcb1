# Logs of a training, in the three forms.
mkdir -p reports
echo epoch,val_loss,val_acc >log.csv
for epoch in $(seq 1 30); do
  echo "$epoch,0.$((900 - epoch * 15)),0.$((400 + epoch * 12))" >>log.csv
  echo "{\"epoch\": $epoch, \"rank\": 0, \"metrics\": {\"val_acc\": 0.$((400 + epoch * 12))}}" >>reports/rank-0.jsonl
done
