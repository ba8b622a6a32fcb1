//! `hsched generate`: files that `hsched plan` takes, the same for the same seed, and never over others.

use insta::assert_snapshot;

use crate::sandbox::Sandbox;

#[test]
fn what_is_made_can_be_planned_as_it_is() {
    let sandbox = Sandbox::new();
    for options in [
        "--gpus 30 --jobs 4",
        "--gpus 23 --jobs 5 --mixed --sync epoch --seed 3",
        "--gpus 64 --gpus-per-node 8 --jobs 9 --types 6 --rich --seed 18446744073709551615",
        "--gpus 1 --jobs 1 --types rtx/4090+x=1.6 --network-gbps 0.5",
    ] {
        sandbox.run(&format!("generate made {options} --force")).exits(0);
        sandbox.run("plan made/jobs.yaml --cluster made/cluster.yaml").exits(0);
    }
}

#[test]
fn the_files_say_how_to_make_them_again() {
    let sandbox = Sandbox::new();
    let options = "--gpus 4 --gpus-per-node 2 --jobs 1 --types v100,l40s=1.4 --seed 7";
    let text = sandbox.run(&format!("generate --dry-run {options}")).succeeds();
    assert_snapshot!(text, @r#"
    # A cluster, made up by:
    # hsched generate --gpus 4 --gpus-per-node 2 --types v100,l40s=1.4 --jobs 1 --sync step --network-gbps 25 --intra-node-gbps 300 --seed 7
    network_gbps: 25
    intra_node_gbps: 300
    nodes:
      - name: g1
        gpus: {v100: 2}
        gpu_memory: {v100: 32GiB}
      - name: g2
        gpus: {l40s: 2}
    ---
    # Jobs, made up by:
    # hsched generate --gpus 4 --gpus-per-node 2 --types v100,l40s=1.4 --jobs 1 --sync step --network-gbps 25 --intra-node-gbps 300 --seed 7
    jobs:
      - name: job1
        samples_per_epoch: 526413
        epochs: 152
        global_batch: 256
        model_size: 84.7MB
        throughput: {l40s: 1007, v100: 887.6}
        command: [sleep, "60"]
    "#);
    let command = text.lines().nth(1).and_then(|line| line.strip_prefix("# hsched ")).expect("a command");
    assert_eq!(sandbox.run(&format!("{command} --dry-run")).succeeds(), text);
}

#[test]
fn files_that_are_there_stay_unless_forced() {
    let sandbox = Sandbox::new();
    let before = sandbox.text(&sandbox.work("jobs.yaml"));
    assert_snapshot!(sandbox.run("generate").fails(1), @r"
    error: cluster.yaml already exists; nothing was written
    hint: name another directory, or overwrite with --force
    ");
    assert_eq!(sandbox.text(&sandbox.work("jobs.yaml")), before);
    assert_snapshot!(sandbox.run("generate new/folder --gpus 24 --types 1 --jobs 1").succeeds(), @r"
    new/folder/cluster.yaml: 24 GPUs of 1 type in 5 nodes
    new/folder/jobs.yaml: 1 job
    ");
    assert_snapshot!(sandbox.run("generate --force").succeeds(), @r"
    cluster.yaml: 30 GPUs of 3 types in 6 nodes
    jobs.yaml: 4 jobs
    ");
    assert_ne!(sandbox.text(&sandbox.work("jobs.yaml")), before);
}

#[test]
fn json_names_the_files_and_holds_them_in_a_dry_run() {
    let sandbox = Sandbox::new();
    let written = sandbox.run("generate new --format json").exits(0).json();
    assert_eq!(written["schema"], "hsched.generate/1");
    assert_eq!(written["files"][0], serde_json::json!({ "path": "new/cluster.yaml", "text": null }));
    let dry = sandbox.run("generate new --format json --dry-run").exits(0).json();
    assert_eq!(dry["files"][1]["text"], sandbox.text(&sandbox.work("new/jobs.yaml")));
}

#[test]
fn what_cannot_be_made_is_said() {
    let sandbox = Sandbox::new();
    let said = |options: &str| sandbox.run(&format!("generate new {options}")).fails(2).replace("\n\n", "\n");
    assert_snapshot!(said("--gpus 10"), @r"
    error: 10 GPUs make 2 nodes of up to 5, too few for 3 GPU types
    hint: more --gpus, fewer --types or a smaller --gpus-per-node
    ");
    assert_snapshot!(said("--types 7"), @r"
    error: invalid value '7' for '--types <N|NAMES>': give a number from 1 to 6, or names; give unknown types a speed
    For more information, try '--help'.
    ");
    assert_snapshot!(said("--types v100,k80"), @r#"
    error: invalid value 'v100,k80' for '--types <N|NAMES>': the speed of "k80" is not known; write k80=SPEED, or use one of v100, p100, t4, a100, h100, a10
    For more information, try '--help'.
    "#);
    assert_snapshot!(said("--types v100,"), @r"
    error: invalid value 'v100,' for '--types <N|NAMES>': a name is missing between commas
    For more information, try '--help'.
    ");
    assert_snapshot!(said("--types v100,v100=2"), @r"
    error: invalid value 'v100,v100=2' for '--types <N|NAMES>': v100 is named twice
    For more information, try '--help'.
    ");
    assert_snapshot!(said("--types x=nan"), @r"
    error: invalid value 'x=nan' for '--types <N|NAMES>': x: a speed is a multiple of a V100's, from 0.001 to 1000
    For more information, try '--help'.
    ");
    assert_snapshot!(said("--network-gbps 0"), @r"
    error: invalid value '0' for '--network-gbps <RATE>': must be above 0 and finite
    For more information, try '--help'.
    ");
    assert!(!sandbox.work("new").exists());
}
