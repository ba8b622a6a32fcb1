//! Mistakes of new users: each message names the remedy, and nothing wrong reaches Slurm.

use insta::assert_snapshot;

use crate::sandbox::{CLUSTER, Sandbox, THREE};

/// Returns a job file with one job, which has these additional keys.
fn job(more: &str) -> String {
    format!(
        "jobs:\n  - {{name: vit, samples_per_epoch: 100, epochs: 2, global_batch: 10, model_size: 1MB, command: train,\n     \
         throughput: {{v100: 10}}, {more}}}\n"
    )
}

#[test]
fn a_probe_of_a_job_that_fits_no_gpu_type_says_so() {
    let nodes = ["n1|gpu*|1:00:00|idle|gpu:v100:4|gpu:v100:0|0/8/0/8|64000|0|(null)|none"];
    let sandbox = Sandbox::with_slurm().printing("sinfo", &nodes).file("one.yaml", job("gpu_types: [h100]"));
    let two = job("gpu_types: [h100]") + &job("").replace("jobs:\n", "").replace("name: vit", "name: bert");
    let sandbox = sandbox.file("two.yaml", two);
    assert_snapshot!(sandbox.run("probe one.yaml").fails(3), @"error: cannot measure anything: vit: no h100 here: the cluster has v100");
    let ran = sandbox.run("probe two.yaml --all --dry-run").exits(3);
    assert_eq!(ran.stderr, "warning: vit: no h100 here: the cluster has v100\n");
    assert!(ran.stdout.contains("bert"), "{}", ran.stdout);
    assert!(sandbox.calls("sbatch").is_empty());
}

#[test]
fn a_file_of_another_kind_names_the_command_that_reads_it() {
    let script = "#!/bin/bash\n#SBATCH --gres=gpu:1\nmodule purge\npython train.py\n";
    let sandbox = Sandbox::new()
        .file("vit.sh", script)
        .file("base.yaml", job(""))
        .file("cluster.yaml", CLUSTER)
        .file("plain.sh", "module purge\npython train.py\n");
    for command in [
        "plan vit.sh --cluster cluster.yaml",
        "run vit.sh --devices cpu:1",
        "plan plain.sh --cluster cluster.yaml",
    ] {
        let file = command.split(' ').nth(1).expect("a file");
        assert_eq!(
            sandbox.run(command).fails(78),
            format!(
                "error: {file} is a script, not a job file\nhint: `hsched import {file}` makes a job file from a batch script\n"
            )
        );
    }
    assert_snapshot!(sandbox.run("import base.yaml").fails(78), @r#"
    error: base.yaml is YAML or JSON, not a batch script
    hint: `hsched plan base.yaml` reads a job file; `hsched plan JOBS --cluster base.yaml` reads a cluster file
    "#);
    assert_snapshot!(sandbox.run("run base.yaml --devices v100").fails(2), @r#"
    error: invalid value 'v100' for '--devices <TYPE:COUNT[xSLOTS],…>': "v100" has no count: write v100:1

    For more information, try '--help'.
    "#);
    assert_snapshot!(sandbox.run("run base.yaml --devices v100:2x0").fails(2), @r#"
    error: invalid value 'v100:2x0' for '--devices <TYPE:COUNT[xSLOTS],…>': "v100:2x0": the number after x, of runs that share a device, must be at least 1

    For more information, try '--help'.
    "#);
    let empty = Sandbox::new();
    std::fs::remove_file(empty.work("jobs.yaml")).expect("a file");
    assert_snapshot!(empty.run("run jobs.yaml").fails(78), @r"
    error: jobs.yaml: cannot be read: No such file or directory (os error 2)
    hint: hsched init writes a job file to start from
    ");
    let told = sandbox.run("when vit.sh").fails(69);
    assert!(
        told.ends_with("hint: to see what it asks for, without Slurm: hsched when vit.sh --request\n"),
        "{told}"
    );
    let told = sandbox.run("submit base.yaml --together --gpus v100:4 --time -2h").fails(2);
    assert!(told.contains("'--time <TIME>': must not be negative, got \"-2h\""), "{told}");
    let told = sandbox.run("when vit.sh --apply first").fails(2);
    assert!(told.contains("it must be the number of a change in the list, such as 1"), "{told}");
    assert_snapshot!(sandbox.run("watch --interval 5").fails(2), @r#"
    error: invalid value '5' for '--interval <TIME>': has no unit: "5"; write 5s, 5m or 5h

    For more information, try '--help'.
    "#);
}

#[test]
fn a_plan_says_which_name_is_wrong() {
    let other = "  - {name: prepare, samples_per_epoch: 100, epochs: 2, global_batch: 10, model_size: 1MB, command: train,\n     \
                 throughput: {v100: 10}}\n";
    let sandbox = Sandbox::new()
        .file("cluster.yaml", THREE)
        .file("after.yaml", job("after: prepre") + other)
        .file("types.yaml", job("gpu_types: [h100]"));
    let plan = |file: &str| sandbox.run(&format!("plan {file} --cluster cluster.yaml"));
    assert_snapshot!(plan("after.yaml").stdout, @r"
    optimal: 1 of 2 jobs on 3 of 3 GPUs
    mean completion time 6.67 s, makespan 6.67 s, fairness 1.000
    the mean completion time is proven optimal for the jobs placed

    JOB      GPUS      BATCHES   EPOCH  COMM  DONE IN
    prepare  3 v100 a  4, 2x3   3.33 s   0 %   6.67 s

    vit: waits: depends on prepre: hsched watch submits it once it has completed
    vit depends on prepre, which is not in this file; did you mean prepare?
    ");
    assert_snapshot!(plan("types.yaml").stdout, @r"
    optimal: 0 of 1 job on 0 of 3 GPUs

    vit: rejected: cannot use any available GPU type (v100: not among the job's
      gpu_types)
    vit: no h100 here: the cluster has v100
    ");
    assert_snapshot!(sandbox.run("run after.yaml --devices v100:1 --simulated --dry-run").fails(78), @r#"
    error: vit depends on prepre, but there is no job of that name; did you mean prepare?
    hint: add prepre first, or put both jobs in one file; hsched status lists the jobs
    "#);
}

#[test]
fn values_that_nobody_replaced_never_reach_slurm() {
    let sandbox = Sandbox::with_slurm().file("cluster.yaml", THREE);
    sandbox.run("init new --cluster cluster.yaml").succeeds();
    let jobs = sandbox.text(&sandbox.work("new/jobs.yaml"));
    let sandbox = sandbox.file("jobs.yaml", &jobs);
    let told = sandbox.run("submit jobs.yaml --cluster cluster.yaml").fails(78);
    assert_snapshot!(told, @r#"
    error: jobs.yaml:8: samples_per_epoch still has the example value of hsched init
    jobs.yaml:9: epochs still has the example value of hsched init
    jobs.yaml:10: global_batch still has the example value of hsched init
    jobs.yaml:11: model_size still has the example value of hsched init
    jobs.yaml:12: throughput still has the example value of hsched init
    jobs.yaml:14: command still has the example value of hsched init
    hint: replace the example values; to keep one, remove its comment # REPLACE
    "#);
    for command in ["add jobs.yaml", "probe jobs.yaml", "submit --together jobs.yaml --gpus v100:1 --time 1h"]
    {
        let told = sandbox.run(command).fails(78);
        assert!(
            told.contains("jobs.yaml:9: epochs still has the example value of hsched init"),
            "{command}: {told}"
        );
    }
    let plan = sandbox.run("plan jobs.yaml --cluster cluster.yaml -o plan.json").exits(0);
    let words = plan.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("command still have the example values of hsched init"), "{}", plan.stdout);
    let told = sandbox.run("submit plan.json").fails(78);
    assert!(told.contains("plan.json: example still has the example command of hsched init"), "{told}");
    sandbox.run("submit jobs.yaml --cluster cluster.yaml --dry-run").exits(0);
    assert!(sandbox.calls("sbatch").is_empty());
    // A user who has checked the values removes the marks.
    let sandbox =
        sandbox.file("jobs.yaml", jobs.replace("# REPLACE", "#").replace("'echo rank", "'python rank"));
    sandbox.run("submit jobs.yaml --cluster cluster.yaml").exits(0);
    assert_eq!(sandbox.calls("sbatch").len(), 1);
}

#[test]
fn an_account_that_slurm_does_not_list_is_refused() {
    let with = |enforce: &str| {
        Sandbox::with_slurm()
            .file("cluster.yaml", THREE)
            .file("jobs.yaml", job("account: typo"))
            .program("scontrol", &format!("echo 'AccountingStorageType = accounting_storage/slurmdbd'\necho 'AccountingStorageEnforce = {enforce}'"))
            .program("sacctmgr", "printf 'c|def-me|\\nc|rrg-lab|\\n'")
    };
    let sandbox = with("associations,limits");
    for command in ["submit jobs.yaml --cluster cluster.yaml", "add jobs.yaml"] {
        assert_eq!(
            sandbox.run(command).fails(78),
            "error: vit: you cannot use account \"typo\"; your accounts are def-me, rrg-lab\n\
             hint: set `account` in the job file or in the settings\n",
            "{command}"
        );
    }
    assert!(sandbox.calls("sbatch").is_empty() && !sandbox.state("state.json").exists());
    // A Slurm that does not enforce accounts accepts any, and charges the default one.
    let sandbox = with("none");
    let ran = sandbox.run("submit jobs.yaml --cluster cluster.yaml").exits(0);
    assert!(
        ran.stderr.contains("your accounts are def-me, rrg-lab; this Slurm accepts it"),
        "{}",
        ran.stderr
    );
    assert_eq!(sandbox.calls("sbatch").len(), 1);
}
