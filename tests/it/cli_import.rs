//! `hsched import`: a batch script or a file of another tool becomes a job file, and `hsched plan` names its
//! missing values.

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
    note: the file does not contain samples_per_epoch, epochs, global_batch, model_size: replace each TODO
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
        global_batch: TODO   # samples per step over all ranks; the same for every placement
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
fn a_script_with_one_gpu_becomes_a_job_that_runs_as_it_is() {
    let script = SCRIPT.replace("-n2 --gres=gpu:v100:2", "-n1 --gres=gpu:1");
    let sandbox = Sandbox::new().file("train.sh", script);
    let told = sandbox.run("import train.sh -o own.yaml").exits(0);
    assert!(!told.stderr.contains("TODO"), "{}", told.stderr);
    assert_snapshot!(sandbox.text(&sandbox.work("own.yaml")), @r#"
    # Written by hsched import from train.sh.
    # Dropped or changed:
    #   line 3: --output=%j.out: the output goes to NAME.out in the workdir
    jobs:
      - name: train
        #epochs: 1   # total number of epochs, if the program reports them; line 5 has --epochs 5
        #throughput: {v100: 100}   # epochs/s on one GPU of each type; hsched plan and watch need them, run and submit --pack do not
        command: "python train.py --epochs 5"
        gpus: 1
        node_setup: ["module load python"]
        memory_per_gpu: "32GiB"
    "#);
    let plan = sandbox.run("run own.yaml --devices cpu:1 --dry-run").exits(0).stdout;
    assert!(plan.contains("train"), "{plan}");
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

/// Returns the job keys imported from a file of another tool, and the remarks on the rest.
fn foreign(name: &str, text: &str) -> (serde_json::Value, String) {
    let sandbox = Sandbox::new().file(name, text);
    let ran = sandbox.run(&format!("import {name} --format json")).exits(0);
    (ran.json()["jobs"][0].clone(), ran.stderr)
}

#[test]
fn a_sweep_of_weights_and_biases_becomes_a_search() {
    let text = "program: train.py\nname: demo\nmethod: random\nrun_cap: 30\nproject: p\nmetric: {goal: maximize, name: acc}\n\
                parameters:\n  lr: {min: 0.0001, max: 0.1}\n  batch: {values: [16, 32]}\n  model.depth: {min: 2, max: 4}\n  \
                wd: {distribution: log_uniform_values, min: 1.0e-5, max: 0.1}\n  fixed: {value: 3}\n  z: {distribution: normal, mu: 0, sigma: 1}\n";
    let (job, said) = foreign("w.yaml", text);
    assert_eq!(
        job["sweep"],
        serde_json::json!({ "lr": { "uniform": [0.0001, 0.1] }, "batch": [16, 32], "model_depth": [2, 3, 4], "wd": { "log_uniform": [1e-5, 0.1] } })
    );
    assert_eq!((&job["search"]["samples"], &job["target"]["mode"]), (&30.into(), &"max".into()));
    let command = job["command"].to_string();
    assert!(command.contains("--model.depth={model_depth}") && command.contains("--fixed=3"), "{command}");
    assert!(said.contains("w.yaml:13: z: not known") && said.contains("w.yaml:5: project"), "{said}");
    // The output is a valid job file once the missing values are filled in.
    let sandbox = Sandbox::new().file("cluster.yaml", CLUSTER).file("w.yaml", text);
    let yaml = sandbox.run("import w.yaml").exits(0).stdout;
    let filled = yaml
        .replace("size: TODO", "size: 4096B")
        .replace(": TODO", ": 4096")
        .replace("#throughput", "throughput");
    let plan =
        sandbox.file("own.yaml", filled).run("plan own.yaml --cluster cluster.yaml --format json").json();
    assert_eq!(plan["jobs"].as_array().map(Vec::len), Some(30));
}

#[test]
fn booleans_of_a_sweep_reach_the_program_as_from_wandb() {
    let text = |command: &str, values: &str| {
        format!(
            "method: grid\nprogram: train.py\ncommand:\n  - ${{interpreter}}\n  - ${{program}}\n  - \"{command}\"\n\
             parameters:\n  lr: {{values: [0.1, 0.2]}}\n  amp: {{values: {values}}}\n  seed: {{value: null}}\n  \
             fast: {{value: true}}\n  slow: {{value: false}}\n"
        )
    };
    let sweep = |command: &str, values: &str| foreign("w.yaml", &text(command, values));
    let (job, _) = sweep("${args}", "[true, false]");
    assert_eq!(job["sweep"]["amp"], serde_json::json!(["True", "False"]));
    assert_eq!(
        job["command"],
        serde_json::json!([
            "python",
            "train.py",
            "--amp={amp}",
            "--fast=True",
            "--lr={lr}",
            "--seed=None",
            "--slow=False"
        ])
    );
    let (job, _) = sweep("${args_no_boolean_flags}", "[true, false]");
    assert_eq!(
        job["command"],
        "python train.py $([ {amp} = True ] && echo --amp) --fast --lr={lr} --seed=None"
    );
    let (job, _) = sweep("${args_no_boolean_flags}", "[1, 2]");
    assert_eq!(
        job["command"],
        serde_json::json!(["python", "train.py", "--amp={amp}", "--fast", "--lr={lr}", "--seed=None"])
    );
    let (job, _) = sweep("${envvar:DATA}", "[1, 2]");
    assert_eq!(job["command"], "python train.py \"$DATA\"");
    for (command, values, why) in [
        ("${args_no_boolean_flags}", "[true, 1]", "and only some values of amp are booleans"),
        ("${args_json}", "[1]", "which hsched has nothing like"),
        ("${envvar:A;B}", "[1]", "which hsched has nothing like"),
    ] {
        let sandbox = Sandbox::new().file("w.yaml", text(command, values));
        let yaml = sandbox.run("import w.yaml").exits(0).stdout;
        assert!(yaml.contains(&format!("line 3 has {command}, {why}")), "{yaml}");
    }
}

#[test]
fn a_task_of_skypilot_becomes_a_job() {
    let text = "name: my-task\nnum_nodes: 2\nresources:\n  accelerators: A100:8\n  infra: aws\nenvs:\n  MODEL: 13b\nsetup: |\n  \
                module load python\nrun: |\n  torchrun --nproc_per_node=8 train.py --lr 1\n";
    let (job, said) = foreign("s.yaml", text);
    assert_eq!((&job["name"], &job["gpus"]), (&"my-task".into(), &16.into()));
    assert_eq!(job["gpu_types"], serde_json::json!(["a100"]));
    assert_eq!((&job["command"], &job["env"]["MODEL"]), (&"python train.py --lr 1".into(), &"13b".into()));
    assert_eq!(job["node_setup"], serde_json::json!(["module load python"]));
    assert!(
        said.contains("s.yaml:11: torchrun --nproc_per_node=8: dropped") && said.contains("s.yaml:5: infra"),
        "{said}"
    );
    assert!(!said.contains("no GPU"), "{said}");
}

#[test]
fn a_sweep_of_hydra_becomes_a_sweep() {
    let text = "hydra:\n  sweeper:\n    params:\n      db.lr: tag(log, interval(1e-4, 1))\n      n: range(1, 4)\n      model: small,large\n      q: glob(*)\n";
    let (job, said) = foreign("h.yaml", text);
    assert_eq!(
        job["sweep"],
        serde_json::json!({ "db_lr": { "log_uniform": [1e-4, 1.0] }, "n": [1, 2, 3], "model": ["small", "large"] })
    );
    assert_eq!(job["command"], "TODO");
    assert!(said.contains("h.yaml:7: q: glob(*)"), "{said}");
}

#[test]
fn other_yaml_is_no_batch_script() {
    let sandbox = Sandbox::new()
        .file("a.yaml", "a: [b")
        .file("b.yaml", "method: x\nparameters: [1]\n")
        .file("c.yaml", "run: 3\n");
    assert!(sandbox.run("import a.yaml").fails(78).contains("a.yaml is not YAML"));
    assert!(sandbox.run("import b.yaml").fails(78).contains("not a batch script"));
    assert!(sandbox.run("import c.yaml").fails(78).contains("not a batch script"));
}
