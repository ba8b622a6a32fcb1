//! `hsched gpus`, and what other names of GPUs do in `inventory` and `plan`.

use insta::assert_snapshot;

use crate::sandbox::Sandbox;

/// Types as Slurm's detection of devices spells them.
const DETECTED: &str = "nodes:\n  - {name: a, gpus: {nvidia_a100_80gb_pcie: 2, tesla_v100-sxm2-32gb: 2}}\n  - {name: b, gpus: {t4: 2}}\n";

#[test]
fn the_table_fits_a_terminal() {
    let table = Sandbox::new().run("gpus").succeeds();
    let long: Vec<&str> = table.lines().filter(|line| line.chars().count() > 80).collect();
    assert!(long.is_empty(), "{long:?}");
    let all = Sandbox::new().run("gpus --format json").json();
    let count = all["gpus"].as_array().expect("a list").len();
    assert_eq!(table.lines().count(), count + 1, "a GPU takes more than a line:\n{table}");
}

#[test]
fn a_name_is_explained() {
    assert_snapshot!(Sandbox::new().run("gpus nvidia_a100_1g.5gb v100l").succeeds(), @"");
    let value = Sandbox::new().run("gpus a100_3g.20gb --format json").json();
    assert_eq!(value["schema"], "hsched.gpus/1");
    assert_eq!(value["names"][0]["means"], "3g.20gb of a100 40 GB");
    assert_eq!(value["names"][0]["slice"]["compute_slices"], 3);
    assert_eq!(value["names"][0]["gpus"][0]["name"], "a100-pcie-40gb");
}

#[test]
fn an_unknown_name_gets_the_nearest() {
    let ran = Sandbox::new().run("gpus a100 a10o").exits(2);
    assert_snapshot!(ran.stdout + &ran.stderr, @"");
    assert_snapshot!(Sandbox::new().run("gpus titan").exits(2).stderr, @"");
    assert_eq!(Sandbox::new().run("gpus x --format json").exits(2).json()["error"]["code"], "usage");
}

#[test]
fn the_inventory_says_what_a_type_is() {
    let sandbox = Sandbox::new().file("cluster.yaml", DETECTED);
    assert_snapshot!(sandbox.run("inventory --cluster cluster.yaml").succeeds(), @"");
    let value = sandbox.run("inventory --cluster cluster.yaml --format json").json();
    assert_eq!(value["gpus"]["nvidia_a100_80gb_pcie"]["model"], "a100 80 GB");
}

#[test]
fn a_plan_says_which_names_and_types_it_used() {
    let jobs = "jobs:\n  - {name: a, samples_per_epoch: 100000, epochs: 20, global_batch: 512, model_size: 0,\n     \
        precision: bf16, throughput: {a100: 2400, v100: 600, t5: 1}, gpu_types: [a100, v100], max_batch: {a100: 64}, command: train}\n";
    let sandbox = Sandbox::new().file("cluster.yaml", DETECTED).file("jobs.yaml", jobs);
    assert_snapshot!(sandbox.run("plan jobs.yaml --cluster cluster.yaml").succeeds(), @"");
    // The plan file is checked against the same names when it is read.
    sandbox.run("plan jobs.yaml --cluster cluster.yaml --output plan.json").exits(0);
    sandbox.run("submit plan.json --cluster cluster.yaml --dry-run").exits(0);
}
