//! Messages of `hsched run` about devices, speeds and failures.

use crate::cli_run::{Bench, job};
use crate::sandbox::Sandbox;

#[test]
fn a_dry_run_starts_nothing_and_json_has_a_line_for_each_thing_that_happens() {
    let bench = Bench::new(&[job("a", 1, "")]);
    let text = bench.run("run jobs.yaml --devices cpu:1 --dry-run").exits(0).stdout;
    assert!(text.contains("a: would") || text.contains("a: "), "{text}");
    assert!(bench.sandbox.runs().is_empty());
    let text = bench.run("run jobs.yaml --devices cpu:1 --format json").exits(0).stdout;
    let topics: Vec<String> = text
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).expect("JSON")["topic"].to_string())
        .collect();
    for topic in ["submission", "start", "epoch", "completed"] {
        assert!(topics.contains(&format!("{topic:?}")), "{topics:?}");
    }
}

#[test]
fn two_types_without_speeds_are_measured_by_running() {
    let bench = Bench::new(&[job("a", 4, "")]);
    let ran = bench.run("run jobs.yaml --devices v100:1,t4:1").exits(0);
    assert!(ran.stderr.contains("measuring first: a on t4, a on v100"), "{}", ran.stderr);
    assert!(!ran.stderr.contains("no known speed"), "{}", ran.stderr);
    // The next call knows the measurements, and the short runs have left no job behind.
    let speeds = bench.sandbox.run("cache show").succeeds();
    assert!(speeds.contains("t4") && speeds.contains("v100"), "{speeds}");
    let status = bench.sandbox.run("status").succeeds();
    assert!(!status.contains("probe"), "{status}");
    bench.did_each_epoch_once("a", 4);
}

#[test]
fn a_machine_without_gpus_and_a_wrong_list_of_devices_are_said_to_be_such() {
    let bench = Bench::new(&[job("a", 4, "")]);
    let error = bench.sandbox.run("run jobs.yaml --devices cpu").fails(2);
    assert!(error.contains("\"cpu\" has no count: write cpu:1"), "{error}");
}

#[test]
fn speeds_and_types_of_a_job_file_hold_for_devices_with_longer_names() {
    let job = |more: &str| {
        let jobs = format!(
            "jobs:\n  - name: a\n    samples_per_epoch: 4000\n    epochs: 1\n    global_batch: 8\n    model_size: 0\n    {more}\n    command: \"true\"\n"
        );
        let sandbox = Sandbox::new().file("jobs.yaml", jobs);
        sandbox.run("run jobs.yaml --devices nvidia_h100_80gb_hbm3:1 --dry-run").succeeds()
    };
    let told = job("throughput: {h100: 1000}");
    assert!(told.contains("on 1 nvidia_h100_80gb_hbm3; predicted 4.00 s per epoch"), "{told}");
    let told = job("gpu_types: [h100]");
    assert!(told.contains("on 1 nvidia_h100_80gb_hbm3"), "{told}");
    let told = job("gpu_types: [a100]");
    assert!(told.contains("too few of the GPUs that it can use"), "{told}");
}

#[test]
fn a_run_that_fails_says_with_which_exception() {
    let raises = "echo epoch 1; printf \"Traceback (most recent call last):\\n[rank0]: ValueError: no such optimiser: sgdd\\n\"; exit 1";
    let jobs = format!(
        "jobs:\n  - name: a\n    samples_per_epoch: 10\n    epochs: 1\n    global_batch: 1\n    model_size: 0\n    retries: 0\n    command: '{raises}'\n"
    );
    let sandbox = Sandbox::new().file("jobs.yaml", jobs).variable("PATH", "/usr/local/bin:/usr/bin:/bin");
    let told = sandbox.run("run jobs.yaml --devices cpu:1").exits(1);
    assert!(told.stdout.contains("; last error: ValueError: no such optimiser: sgdd\n"), "{}", told.stdout);
}
