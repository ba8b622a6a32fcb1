//! `hsched import`: a batch script becomes a job file, whose gaps `hsched plan` names.

use insta::assert_snapshot;

use crate::sandbox::{CLUSTER, Sandbox};

const SCRIPT: &str = "\
#!/bin/bash
#SBATCH -N1 -n2 --gres=gpu:v100:2 --mem=32G
#SBATCH --output=%j.out
module load python
srun python train.py --epochs 5
";

#[test]
fn a_script_becomes_a_job_that_is_planned_once_its_gaps_are_filled() {
    let sandbox = Sandbox::new().file("cluster.yaml", CLUSTER).file("train.sh", SCRIPT);
    let shown = sandbox.run("import train.sh -o own.yaml --dry-run").exits(0).stdout;
    assert!(!sandbox.work("own.yaml").exists());
    let told = sandbox.run("import train.sh -o own.yaml").exits(0);
    assert_eq!(shown, sandbox.text(&sandbox.work("own.yaml")));
    assert!(sandbox.run("import train.sh -o own.yaml --dry-run").fails(1).contains("own.yaml"));
    assert_eq!(told.stdout, "");
    assert_snapshot!(told.stderr, @r"
    note: train.sh:3: --output=%j.out: the output goes to NAME.out in the workdir
    note: the script does not contain samples_per_epoch, epochs, global_batch, model_size: replace each TODO
    ");
    let yaml = sandbox.text(&sandbox.work("own.yaml"));
    assert_snapshot!(yaml, @r#"
    # Written by hsched import from train.sh.
    # Replace every TODO; hsched plan lists the remaining ones.
    # Dropped or changed:
    #   line 3: --output=%j.out: the output goes to NAME.out in the workdir
    jobs:
      - name: train
        samples_per_epoch: TODO   # training samples per epoch
        epochs: TODO   # total number of epochs; line 5 has --epochs 5
        global_batch: TODO   # samples per step over all ranks; never changes, whatever the placement
        model_size: TODO   # bytes that the ranks exchange after each step (4 per parameter in fp32), such as 46.8MB
        #throughput: {v100: 100}   # samples/s on one GPU of each type, if known; otherwise hsched probe measures them
        command: "python train.py --epochs 5"
        gpus: 2
        gpu_types: [v100]
        node_setup: ["module load python"]
        cpus_per_gpu: 1
        memory_per_gpu: "16GiB"
    "#);
    let gaps = sandbox.run("plan own.yaml --cluster cluster.yaml").fails(78);
    let named: Vec<&str> = gaps.lines().filter(|line| line.contains("TODO")).collect();
    assert_eq!((named.len(), gaps.contains("own.yaml:7")), (4, true), "{gaps}");
    for key in ["samples_per_epoch", "epochs", "global_batch", "model_size"] {
        assert!(named.iter().any(|line| line.contains(key)), "{key}: {gaps}");
    }
    let filled = yaml
        .replace("size: TODO", "size: 4096B")
        .replace(": TODO", ": 4096")
        .replace("#throughput", "throughput");
    let plan = sandbox.file("own.yaml", filled).run("plan own.yaml --cluster cluster.yaml").succeeds();
    assert!(plan.contains("2 v100"), "{plan}");
}

#[test]
fn what_is_there_is_not_overwritten_and_json_is_data() {
    let sandbox = Sandbox::new().file("train.sh", SCRIPT);
    assert_snapshot!(sandbox.run("import train.sh -o jobs.yaml").fails(1), @r"
    error: cannot write jobs.yaml: File exists (os error 17)
    hint: choose another file, or remove this one
    ");
    let value = sandbox.run_with_input("import - --format json", SCRIPT).exits(0).json();
    assert_eq!((&value["jobs"][0]["gpus"], &value["jobs"][0]["epochs"]), (&2.into(), &"TODO".into()));
    assert_eq!(sandbox.run("import nothing.sh --format json").exits(78).json()["error"]["code"], "bad_input");
}
