//! `submit --race` on a real Slurm: of several requests that start in the same second, only one trains, even if it dies
//! at once.

use std::path::Path;

use serde_json::{Value, json};

use crate::real_cluster::{STEADY, start};
use crate::real_user::{TestUser, wait_for};

/// Nodes with room for several requests of each job at once.
const NODES: &str = "partition gpu default default_time=30\n\
    v[1-3] cpus=16 memory=8000 gpus=v100:4\nt[1-3] cpus=16 memory=8000 gpus=t4:4\n";

fn job(name: &str, then: &str) -> Value {
    json!({
        "name": name, "samples_per_epoch": 600, "epochs": 1, "global_batch": 60, "model_size": 0,
        "throughput": {"v100": 300, "t4": 250}, "min_gpus": 2, "max_gpus": 4, "retries": 0,
        "command": format!("if [[ $RANK == 0 ]]; then echo {name} >>trained; fi; {then}"),
    })
}

#[test]
fn requests_that_start_at_once_train_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let nodes = folder.path().join("race.nodes");
    std::fs::write(&nodes, NODES).expect("written");
    let Some(cluster) = start(Path::new(&nodes), STEADY) else { return };
    let user = TestUser::new(&cluster, "race", "");
    let jobs = [job("one", "true"), job("two", "true"), job("dies", "exit 9")];
    user.write("jobs.json", &json!({ "jobs": jobs }).to_string());
    let done = user.hsched(&["submit", "jobs.json", "--race", "3", "--", "--hold"]);
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    let queued = user.ask("squeue", &["-h", "-o", "%i"]);
    let ids: Vec<&str> = queued.split_whitespace().collect();
    assert_eq!(ids.len(), 9, "{queued}");
    user.ask("scontrol", &["release", &ids.join(",")]);
    wait_for("an empty queue", || user.ask("squeue", &["-h"]).trim().is_empty().then_some(()));
    // Each job trained once, in any one of its requests.
    let trained = user.read("trained");
    let mut trained: Vec<&str> = trained.lines().collect();
    trained.sort_unstable();
    assert_eq!(trained, ["dies", "one", "two"]);
    let done = user.hsched(&["watch", "--once"]);
    assert!(done.code.is_some(), "{}", done.stderr);
    let status = user.hsched(&["status", "--format", "json"]);
    let status: Value = serde_json::from_str(&status.stdout).expect("JSON");
    let states: Vec<&str> =
        status["jobs"].as_array().expect("jobs").iter().filter_map(|job| job["state"].as_str()).collect();
    assert_eq!(states, ["completed", "completed", "failed"], "{status}");
}
