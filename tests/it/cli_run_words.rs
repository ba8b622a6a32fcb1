//! Messages of `hsched run` about devices, speeds and failures.

use std::fs;

use crate::cli_run::{Bench, job};
use crate::sandbox::Sandbox;

#[test]
fn a_dry_run_starts_nothing_and_json_has_a_line_for_each_thing_that_happens() {
    let bench = Bench::new(&[job("a", 1, "")]);
    let text = bench.run("run jobs.yaml --devices cpu:1 --dry-run").exits(0).stdout;
    assert!(text.contains(" a: to be started on 1 cpu; its speed is not known yet\n"), "{text}");
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
fn jobs_of_an_earlier_file_are_said_to_go_on() {
    let bench = Bench::new(&[job("old", 2, "retries: 0").replace("[bash, train.sh]", "exit 3")]);
    let failed = bench.run("run jobs.yaml --devices cpu:1").exits(1).stderr;
    assert!(!failed.contains("earlier file"), "{failed}");
    // A job that has ended does not continue, unlike one that was interrupted.
    bench.write("other.yaml", &[job("new", 1, "")]);
    let alone = bench.run("run other.yaml --devices cpu:1").exits(0).stderr;
    assert!(!alone.contains("earlier file"), "{alone}");
    bench.write("more.yaml", &[job("waits", 1, "")]);
    bench.run("add more.yaml").exits(0);
    let ran = bench.run("run other.yaml --devices cpu:1 --restart").exits(0);
    let note = ran.stderr.replace(&bench.sandbox.state("").display().to_string(), "STATE/");
    assert!(note.contains("note: waits from an earlier file continues, too: "), "{note}");
    assert!(
        note.contains("hsched cancel ends a job, and another HSCHED_STATE_DIR keeps files apart"),
        "{note}"
    );
    bench.did_each_epoch_once("waits", 1);
}

#[test]
fn a_retry_says_when_it_starts() {
    let once = "if [[ ! -e died ]]; then touch died; exit 3; fi; exec bash train.sh";
    let bench = Bench::new(&[job("a", 1, "retries: 1").replace("[bash, train.sh]", &format!("{once:?}"))]);
    let told = bench.run("run jobs.yaml --devices cpu:1 --set retry_delay=2s").exits(0).stdout;
    assert!(
        told.contains("failed with exit status 3, last retry; starts over, in 2 s at the earliest"),
        "{told}"
    );
}

#[test]
fn values_of_init_that_were_not_replaced_are_not_run() {
    let sandbox = Sandbox::new();
    sandbox.run("init --force").exits(0);
    let told = sandbox.run("run jobs.yaml --devices cpu:1").fails(78);
    assert!(told.contains(": epochs still has the example value of hsched init"), "{told}");
    assert!(told.contains("replace the example values; to keep one, remove its comment # REPLACE"), "{told}");
    assert!(!sandbox.state("state.json").exists());
    let dry = sandbox.run("run jobs.yaml --devices cpu:1 --dry-run").exits(0).stderr;
    assert!(dry.contains("still have the example values of hsched init; run refuses them"), "{dry}");
    sandbox.run("init --local --force").exits(0);
    let one = sandbox.run("run jobs.yaml --devices cpu:1 --dry-run").exits(0).stderr;
    assert!(one.contains("command still has the example value of hsched init; run refuses it"), "{one}");
}

#[test]
fn two_types_without_speeds_are_measured_by_running() {
    let bench = Bench::new(&[job("a", 4, "")]);
    let ran = bench.run("run jobs.yaml --devices v100:1,t4:1 --simulated --notify 'cat >>told'").exits(0);
    let told = fs::read_to_string(bench.sandbox.work("told")).expect("it was told");
    assert_eq!(told.lines().filter(|line| line.starts_with("a: completed")).count(), 1, "{told}");
    assert_eq!(told.lines().count(), 1, "the short runs are no jobs of the user: {told}");
    assert!(!ran.stdout.contains("job file"), "they have no speed of the job file: {}", ran.stdout);
    assert!(ran.stderr.contains("measuring first: a on t4, a on v100"), "{}", ran.stderr);
    assert!(!ran.stderr.contains("hsched assumes equal speeds"), "{}", ran.stderr);
    // The measurements are stored, and the short runs have left no job behind.
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
    let error = bench.sandbox.run("run jobs.yaml --gpus 4").fails(2);
    assert!(
        error.contains("unexpected argument '--gpus <GPUS>' found") && error.contains("exists: '--devices'"),
        "{error}"
    );
}

#[test]
fn a_script_with_windows_line_ends_is_named() {
    let bench = Bench::new(&["  - {name: a, command: bash run.sh}\n".to_owned()]);
    std::fs::write(bench.sandbox.work("run.sh"), "#!/bin/sh\r\nstart\r\n").expect("a file");
    let ran = bench.run("run jobs.yaml --devices cpu:1").exits(1);
    assert!(
        ran.stdout.contains("; run.sh has Windows line ends: sed -i 's/\\r$//' run.sh"),
        "{}",
        ran.stdout
    );
}

/// GPUs are simulated only if there are none, or on request.
#[test]
fn devices_that_are_not_here_are_refused_where_there_are_gpus_and_simulated_where_there_are_none() {
    let jobs = "jobs:\n  - name: a\n    command: \"true\"\n";
    let run = |gres: Option<&str>, words: &str| {
        let sandbox = Sandbox::new().file("jobs.yaml", jobs);
        let sandbox = match gres {
            None => sandbox,
            Some(gres) => {
                let lines = format!(
                    "JobId=7\n  StartTime=2026-01-01T00:00:00 EndTime=2099-01-01T00:00:00\n  Nodes=n1 CPU_IDs=0-7 Mem=0 GRES={gres}"
                );
                sandbox.program("scontrol", &format!("echo '{lines}'")).variable("SLURM_JOB_ID", "7")
            }
        };
        sandbox.run(&format!("run jobs.yaml --dry-run --devices {words}"))
    };
    let four = Some("gpu:a100:4(IDX:0-3)");
    let ran = run(four, "a100:2").exits(0);
    assert!(
        ran.stdout.contains("a: to be started on 1 a100") && !ran.stderr.contains("simulated"),
        "{ran:?}"
    );
    for absent in ["a100:5", "v100:4", "a10:2,foo:1"] {
        let refusal = format!(
            "error: --devices {absent} asks for GPUs that are not here; there are a100:4\n\
             hint: to use all of these: --devices a100:4\n\
             hint: to simulate the devices, so that programs see no GPU, add --simulated\n"
        );
        assert_eq!(run(four, absent).fails(2), refusal);
        assert!(!run(four, &format!("{absent} --simulated")).exits(0).stderr.contains("warning"));
    }
    assert_eq!(run(four, "cpu:2").exits(0).stderr, "");
    let ran = run(Some(""), "v100:2").exits(0);
    let warning = "warning: v100:2 are simulated devices, and programs see no GPU: the current Slurm job 7 has no GPUs\n";
    assert_eq!(ran.stderr, warning);
    let ran = run(None, "v100:2").exits(0);
    let warning = "warning: v100:2 are simulated devices, and programs see no GPU: no NVIDIA GPUs found: ";
    assert!(ran.stderr.starts_with(warning) && ran.stderr.lines().count() == 1, "{}", ran.stderr);
}

#[test]
fn speeds_and_types_of_a_job_file_hold_for_devices_with_longer_names() {
    let job = |more: &str| {
        let jobs = format!(
            "jobs:\n  - name: a\n    samples_per_epoch: 4000\n    epochs: 1\n    global_batch: 8\n    model_size: 0\n    {more}\n    command: \"true\"\n"
        );
        let sandbox = Sandbox::new().file("jobs.yaml", jobs);
        sandbox.run("run jobs.yaml --devices nvidia_h100_80gb_hbm3:1 --simulated --dry-run").succeeds()
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
