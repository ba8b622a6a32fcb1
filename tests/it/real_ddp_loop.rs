//! The loop with a real training program: hsched learns speeds from the ranks' reports, and the ranks get correct
//! shares while they run.

use std::fs;

use serde_json::{Value, json};

use crate::python;
use crate::real_cluster::{STEADY, repository, start};
use crate::real_user::{Done, TestUser};

/// Two nodes with two GPU types.
const NODES: &str = "partition gpu default default_time=30\n\
    v1 cpus=4 memory=8000 gpus=v100:2\nt1 cpus=4 memory=8000 gpus=t4:2\n";

/// Time of a sample on a V100 in milliseconds, and its multiple on a T4. Almost all of a step is sleep,
/// so that a busy machine has little effect.
const SAMPLE_MS: f64 = 20.0;
const SLOWER: f64 = 3.0;

const SAMPLES: u32 = 640;
const EPOCHS: u64 = 6;

/// Returns the number of samples per second that all GPUs can process together.
fn limit() -> f64 {
    let rate = 1000.0 / SAMPLE_MS;
    2.0 * rate + 2.0 * rate / SLOWER
}

/// Returns the job file: it states equal speeds for both types, so that the first shares are equal.
fn jobs(python: &str) -> String {
    let program = repository().join("examples/ddp/train.py").display().to_string();
    let (samples, sample, slow) = (SAMPLES.to_string(), SAMPLE_MS.to_string(), format!("t4={SLOWER}"));
    let command = [python, &program, "--samples", &samples, "--sample-ms", &sample, "--slow", &slow];
    let job = json!({
        "name": "ddp", "samples_per_epoch": SAMPLES, "epochs": EPOCHS, "global_batch": 128, "model_size": "5.4kB",
        "throughput": {"v100": 25, "t4": 25}, "env": {"OMP_NUM_THREADS": "1"}, "command": command,
        "checkpoint": {"grace": "20s", "restart_cost": "1s"},
    });
    json!({ "jobs": [job] }).to_string()
}

#[test]
fn a_training_planned_with_wrong_speeds_gets_the_right_shares() {
    train(|_, equal, found| {
        assert!(found < 0.8 * equal, "{equal} s an epoch in equal shares, then {found} s");
    });
}

#[test]
#[ignore = "a timed test: it needs a machine that does nothing else (tests/long)"]
fn a_training_planned_with_wrong_speeds_comes_to_the_limit() {
    train(|user, equal, found| {
        let best = f64::from(SAMPLES) / limit();
        println!("{best:.3} s at the limit");
        assert!(found >= 0.99 * best && found <= 1.05 * best, "{found} s an epoch, {best} s at the limit");
        assert!(equal >= 1.9 * best, "{equal} s an epoch in equal shares");
        check_speeds(user);
    });
}

/// Trains; calls `check` with the lengths of an epoch in equal shares and in those learnt.
fn train(check: impl Fn(&TestUser<'_>, f64, f64)) {
    let Some(python) = python::with_torch() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let nodes = folder.path().join("nodes");
    fs::write(&nodes, NODES).expect("a file");
    let Some(cluster) = start(&nodes, STEADY) else { return };
    let user = TestUser::new(&cluster, "loop", "");
    user.write("jobs.yaml", &jobs(&python));
    user.submit(&["jobs.yaml"]);
    let mut watch = user.program("timeout");
    watch.args(["600", env!("CARGO_BIN_EXE_hsched"), "watch", "--moves", "auto", "--interval", "1s"]);
    let watched = Done::of(&mut watch);
    let told = || format!("{}{}\n{}", watched.stdout, watched.stderr, user.read("ddp.out"));
    assert_eq!(watched.code, Some(0), "{}", told());

    let runs = runs(&user);
    assert_eq!(runs.len(), 1, "it was never stopped: {}", told());
    let lines = &runs[0];
    let count = lines[0].len();
    assert_eq!(shares(lines, 0), ([32; 4].to_vec(), 0), "{}", told());
    let (mut last, version) = shares(lines, count - 1);
    last.sort_unstable();
    // On a busy machine, the measured speeds are off by some percent.
    let right =
        last.iter().zip([16_u64, 16, 48, 48]).all(|(candidate, ideal)| candidate.abs_diff(ideal) <= 4);
    assert!(right && version > 0, "{last:?}, version {version}: {}", told());
    let numbers = lines[0].iter().filter_map(|line| line["epoch"].as_u64());
    assert_eq!(numbers.collect::<Vec<_>>(), (1..=EPOCHS).collect::<Vec<_>>(), "every epoch once");
    assert!(watched.stdout.contains("new batch shares while it runs"), "{}", told());
    assert!(watched.stdout.contains("done with its new batch shares"), "{}", told());

    let (equal, found) = (epoch_time(lines, 0), epoch_time(lines, version));
    // For people who run cargo test -- --nocapture.
    println!("{}epoch: {equal:.3} s in equal shares, {found:.3} s in those learnt", told());
    check(&user, equal, found);
}

/// Returns the reports of the ranks of each run, by rank, in the order of the runs.
fn runs(user: &TestUser<'_>) -> Vec<Vec<Vec<Value>>> {
    let entries = fs::read_dir(user.folder.join("state/runs")).expect("runs");
    let reports = entries.map(|entry| entry.expect("an entry").path().join("report/ddp"));
    let rank = |folder: &std::path::Path, rank: usize| -> Vec<Value> {
        let text = user.read(folder.join(format!("rank-{rank}.jsonl")));
        text.lines().map(|line| serde_json::from_str(line).expect("a report")).collect()
    };
    let mut runs: Vec<Vec<Vec<Value>>> =
        reports.map(|folder| (0..4).map(|number| rank(&folder, number)).collect()).collect();
    // A run that was stopped again before its first epoch ended has no reports.
    runs.retain(|run| run.iter().all(|rank| !rank.is_empty()));
    runs.sort_by_key(|run| run[0][0]["epoch"].as_u64());
    runs
}

/// Returns the ranks' shares of a global batch in an epoch, and their version.
fn shares(run: &[Vec<Value>], number: usize) -> (Vec<u64>, u64) {
    let batches = run.iter().filter_map(|rank| rank[number]["batch"].as_u64()).collect();
    (batches, version(&run[0][number]))
}

fn version(line: &Value) -> u64 {
    line["shares"].as_u64().unwrap_or(0)
}

/// Returns the median length of the epochs with shares of a version.
fn epoch_time(run: &[Vec<Value>], wanted: u64) -> f64 {
    let lines = run[0].iter().filter(|line| version(line) == wanted);
    let mut lengths: Vec<f64> = lines.filter_map(|line| line["epoch_s"].as_f64()).collect();
    lengths.sort_by(f64::total_cmp);
    lengths[lengths.len() / 2]
}

/// Checks that the learnt speeds of both types are within 5 % of the truth, at the final batches.
fn check_speeds(user: &TestUser<'_>) {
    let done = user.hsched(&["cache", "show", "ddp", "--format", "json"]);
    let shown: Value = serde_json::from_str(&done.stdout).expect("JSON");
    for (gpu_type, batch, factor) in [("v100", 48.0, 1.0), ("t4", 16.0, SLOWER)] {
        let speeds = shown["speeds"].as_array().expect("speeds");
        let speed = speeds.iter().find(|speed| speed["gpu_type"] == gpu_type).expect("a speed");
        assert_eq!(speed["source"], "report");
        let number = |key: &str| speed[key].as_f64().unwrap_or(0.0);
        let learnt = speed["samples_per_s"]
            .as_f64()
            .map_or_else(|| number("alpha_s") + number("beta_s") * batch, |rate| batch / rate);
        let truth = SAMPLE_MS / 1000.0 * factor * batch;
        println!("{gpu_type}: {learnt:.3} s a step of {batch}, in truth {truth:.3} s");
        assert!((learnt / truth - 1.0).abs() <= 0.05, "{speed:#}");
    }
}
