//! `hsched probe` on a real Slurm: its measurements, the files that it does not touch, and Ctrl-C.

use std::fs;
use std::process::Stdio;
use std::sync::LazyLock;

use serde_json::{Value, json};

use crate::python;
use crate::real_cluster::{Cluster, STEADY, repository, started, try_start};
use crate::real_user::{TestUser, wait_for};

/// One GPU of each type, so that jobs of several models take turns.
const NODES: &str = "partition gpu default default_time=30\n\
    v1 cpus=4 memory=8000 gpus=v100:1\nt1 cpus=4 memory=8000 gpus=t4:1\n";

static CLUSTER: LazyLock<Result<Cluster, String>> = LazyLock::new(|| {
    let folder = tempfile::tempdir().expect("a folder");
    let nodes = folder.path().join("nodes");
    fs::write(&nodes, NODES).expect("a file");
    try_start(&nodes, STEADY)
});

/// Returns the cluster that the tests here share; `None`, with a message from each test, if it cannot exist.
fn cluster() -> Option<&'static Cluster> {
    started(&CLUSTER)
}

/// Returns a job without speeds.
fn unknown(name: &str, command: &[&str]) -> Value {
    json!({
        "name": name, "samples_per_epoch": 240, "epochs": 9, "global_batch": 60, "model_size": 0,
        "command": command, "checkpoint": {"dir": "mine"},
    })
}

fn write(user: &TestUser<'_>, job: &Value) {
    user.write("jobs.yaml", &json!({ "jobs": [job] }).to_string());
}

/// Returns the fixed time and the time per sample of a step from the cache.
fn known(user: &TestUser<'_>, gpu_type: &str) -> (f64, f64) {
    let done = user.hsched(&["cache", "show", "--format", "json"]);
    let shown: Value = serde_json::from_str(&done.stdout).expect("JSON");
    let speeds = shown["speeds"].as_array().expect("speeds");
    let speed = speeds.iter().find(|speed| speed["gpu_type"] == gpu_type).expect("a speed");
    assert_eq!((&speed["source"], &speed["batches"]), (&json!("probe"), &json!(2)), "{speed:#}");
    // If noise hides the fixed time, the speed is a plain rate.
    match speed["samples_per_s"].as_f64() {
        Some(rate) => (0.0, rate.recip()),
        None => (speed["alpha_s"].as_f64().expect("a number"), speed["beta_s"].as_f64().expect("a number")),
    }
}

fn is_near(found: f64, truth: f64, error: f64) -> bool {
    (found / truth - 1.0).abs() <= error
}

/// Checks that nothing is left: no followed job, no checkpoint, no run.
fn check_traces(user: &TestUser<'_>) {
    assert!(!user.folder.join("mine").exists(), "the job's own checkpoints");
    assert_eq!(fs::read_dir(user.folder.join("state/runs")).expect("runs").count(), 0);
    let watched = user.hsched(&["watch", "--once", "--dry-run"]);
    assert_eq!((watched.code, watched.stdout.as_str()), (Some(0), ""), "{}", watched.stderr);
}

#[test]
fn both_parts_of_a_step_are_learnt_from_whole_epochs_of_two_sizes() {
    let Some(cluster) = cluster() else { return };
    let user = TestUser::new(cluster, "epochs", "");
    let program = repository().join("examples/stand-in/train.py").display().to_string();
    let speeds = ["--speed", "v100=20ms+5ms", "--speed", "t4=40ms+10ms", "--samples-per-epoch", "240"];
    write(&user, &unknown("a", &[&["python3", &program][..], &speeds[..]].concat()));

    let planned = user.hsched(&["probe", "jobs.yaml", "--dry-run", "--format", "json"]);
    let planned: Value = serde_json::from_str(&planned.stdout).expect("JSON");
    let wanted: Vec<_> = planned["probes"].as_array().expect("probes").iter().collect();
    assert_eq!(wanted.iter().map(|probe| &probe["gpu_type"]).collect::<Vec<_>>(), ["t4", "v100"]);
    assert!(wanted.iter().all(|probe| probe["batches"] == json!([60, 15]) && probe["speed"].is_null()));

    let done = user.hsched(&["probe", "jobs.yaml"]);
    assert_eq!(done.code, Some(0), "{}{}", done.stdout, done.stderr);
    for name in ["a.probe-v100-60", "a.probe-v100-15", "a.probe-t4-60", "a.probe-t4-15"] {
        assert!(done.stderr.contains(&format!("{name}: submitted as job")), "{}", done.stderr);
    }
    for (gpu_type, alpha, beta) in [("v100", 0.02, 0.005), ("t4", 0.04, 0.01)] {
        let found = known(&user, gpu_type);
        assert!(is_near(found.0, alpha, 0.02) && is_near(found.1, beta, 0.02), "{gpu_type}: {found:?}");
    }
    check_traces(&user);
    let again = user.hsched(&["probe", "jobs.yaml"]);
    assert_eq!((again.code, again.stdout.as_str()), (Some(0), "Nothing to measure: all speeds are known.\n"));
}

#[test]
fn the_helpers_trial_steps_show_both_sizes_in_one_run() {
    let Some(python) = python::with_torch() else { return };
    let Some(cluster) = cluster() else { return };
    let user = TestUser::new(cluster, "trials", "");
    let program = repository().join("examples/ddp/train.py").display().to_string();
    let words = [&python, &program, "--samples", "240", "--probe", "--sample-ms", "10", "--slow", "t4=2"];
    write(&user, &unknown("b", &words));
    let done = user.hsched(&["probe", "jobs.yaml", "--format", "json"]);
    assert_eq!(done.code, Some(0), "{}{}", done.stdout, done.stderr);
    assert!(!done.stderr.contains("-15"), "one size is enough: {}", done.stderr);
    for (gpu_type, step) in [("v100", 0.6), ("t4", 1.2)] {
        let (alpha, beta) = known(&user, gpu_type);
        // Other load on the machine makes real training steps longer.
        assert!(is_near(alpha + 60.0 * beta, step, 0.5), "{gpu_type}: {alpha} {beta}");
    }
    check_traces(&user);
}

#[test]
fn an_interrupt_cancels_the_probes() {
    let Some(cluster) = cluster() else { return };
    let user = TestUser::new(cluster, "interrupt", "");
    write(&user, &unknown("c", &["sh", "-c", "touch runs-$HSCHED_GPU_TYPE; sleep 600"]));
    let mut probe = user.program(env!("CARGO_BIN_EXE_hsched"));
    probe.args(["probe", "jobs.yaml"]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let probe = probe.spawn().expect("starts");
    for gpu_type in ["v100", "t4"] {
        wait_for("a probe", || user.folder.join(format!("runs-{gpu_type}")).exists().then_some(()));
    }
    user.ask("kill", &["-INT", &probe.id().to_string()]);
    let output = probe.wait_with_output().expect("ends");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(130), "{said}");
    let list = said.split("cancelled: jobs ").nth(1).expect("the jobs").trim().to_owned();
    for id in list.split(' ') {
        assert_eq!(user.ended(id).states, ["CANCELLED"], "job {id}");
    }
}

#[test]
fn a_report_without_samples_is_no_speed_and_says_what_it_lacks() {
    let Some(cluster) = cluster() else { return };
    let user = TestUser::new(cluster, "lacks", "");
    write(&user, &unknown("d", &["sh", "-c", "echo '{\"epoch\": 1, \"compute_s\": 1.5}' >>$HSCHED_REPORT"]));
    let done = user.hsched(&["probe", "jobs.yaml"]);
    let said = format!("{}{}", done.stdout, done.stderr);
    assert!(said.contains("its report has no samples; a speed needs both samples and compute_s"), "{said}");
    assert!(!said.contains("ended without a report"), "{said}");
}
