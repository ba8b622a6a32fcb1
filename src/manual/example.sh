cat >cluster.yaml <<'END'
network_gbps: 10
nodes:
  - {name: "v[1-2]", gpus: {v100: 4}}
  - {name: t1, gpus: {t4: 4}}
END
cat >jobs.yaml <<'END'
jobs:
  - name: resnet18
    samples_per_epoch: 1281167
    epochs: 90
    global_batch: 512
    model_size: 46.8MB
    throughput: {v100: 644, t4: 275}
    command: [python, train.py]
END
hsched plan jobs.yaml --cluster cluster.yaml --output plan.json
hsched plan jobs.yaml --cluster cluster.yaml --compare all
hsched submit plan.json --dry-run
