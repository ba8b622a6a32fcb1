//! Three jobs on a real Slurm under `watch`, and under `simulate`: they end at the same times.

use std::collections::BTreeMap;
use std::fs;

use serde_json::{Value, json};

use crate::real_cluster::{repository, start};
use crate::real_user::TestUser;
use crate::story::{NODES, ends};

/// The cluster of `NODES` for `simulate`.
const CLUSTER: &str = "nodes: [{name: 'v[1-2]', gpus: {v100: 2}}, {name: t1, gpus: {t4: 4}}]\n";

/// Returns two jobs of fixed size, and one that gets the GPUs of the first when that ends.
fn jobs() -> Value {
    let program = repository().join("examples/stand-in/train.py");
    let job = |name: &str, samples: u64, epochs: u64, gpus: (u32, u32), (gpu_type, speed): (&str, u64)| {
        json!({
            "name": name, "samples_per_epoch": samples, "epochs": epochs, "global_batch": 60, "model_size": 0,
            "min_gpus": gpus.0, "max_gpus": gpus.1, "throughput": {gpu_type: speed},
            "checkpoint": {"grace": "10s", "restart_cost": "2s"},
            "command": format!("python3 {} --samples-per-epoch {samples} --speed {gpu_type}={speed}", program.display()),
        })
    };
    json!({ "jobs": [
        job("short", 600, 20, (2, 2), ("v100", 300)),
        job("middle", 400, 16, (2, 2), ("t4", 100)),
        job("long", 1800, 24, (2, 4), ("v100", 300)),
    ]})
}

/// Returns the mean time of the completed submissions of `short` and `middle` in addition to their epochs, in
/// seconds: queueing, start and end. A replay has none of these, so the test adds this time to the ends of
/// its jobs and uses it as the cost of a restart.
fn latency(journal: &str) -> f64 {
    let lines: Vec<Value> = journal.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let number = |line: &Value, key: &str| line[key].as_f64().expect("a number");
    let around = |ended: &Value| {
        let is_same = |line: &&Value| line["run"] == ended["run"] && line["job"] == ended["job"];
        let of =
            |event: &'static str| lines.iter().filter(is_same).filter(move |line| line["event"] == event);
        let epochs: f64 = of("epoch").map(|line| number(line, "epoch_s")).sum();
        number(ended, "end_time") - number(of("submitted").next().expect("a submission"), "at") - epochs
    };
    let whole = lines.iter().filter(|line| line["end"] == "completed" && line["job"] != "long");
    let all: Vec<f64> = whole.map(around).collect();
    assert_eq!(all.len(), 2, "{journal}");
    all.iter().sum::<f64>() / 2.0
}

#[test]
#[ignore = "a timed test: it needs a machine that does nothing else (tests/long)"]
fn three_jobs_end_when_the_replay_says() {
    let nodes = tempfile::NamedTempFile::new().expect("a file");
    fs::write(nodes.path(), NODES).expect("writes");
    let Some(cluster) = start(nodes.path(), "3/3/1") else { return };
    let user = TestUser::new(&cluster, "replayed", "gpu");
    user.write("jobs.json", &jobs().to_string());
    user.write("cluster.yaml", CLUSTER);
    assert_eq!(user.hsched(&["add", "jobs.json"]).code, Some(0));
    let watched = user.hsched(&["watch", "--moves", "auto", "--policy", "horizon", "--interval", "0.5s"]);
    assert_eq!(watched.code, Some(0), "{}{}", watched.stdout, watched.stderr);
    assert!(
        watched.stdout.contains("long: stopping to move: on 4 v100 instead of 2 v100"),
        "{}",
        watched.stdout
    );
    let journal = user.read("state/journal");
    let latency = latency(&journal);
    let restart = format!("{latency:.3}s");
    let files =
        ["simulate", "--trace", "jobs.json", "--cluster", "cluster.yaml", "--format", "json", "--no-bound"];
    let options = ["--policy", "horizon", "--queue-wait", "0s", "--restart-cost", &restart];
    let replayed = user.hsched(&[&files[..], &options].concat());
    let replayed: Value = serde_json::from_str(&replayed.stdout).expect("JSON");
    let jobs = replayed["policies"][0]["jobs"].as_array().expect("jobs").iter();
    let end = |job: &Value| Some((job["name"].as_str()?.to_owned(), job["completion_s"].as_f64()? + latency));
    let (replayed, real): (BTreeMap<String, f64>, _) = (jobs.filter_map(end).collect(), ends(&journal));
    assert_eq!(real.len(), 3);
    println!("ends in seconds, real {real:.1?}, replayed {replayed:.1?}, latency {latency:.2}");
    for (job, end) in &real {
        // Slurm's times are whole seconds.
        assert!((end - replayed[job]).abs() <= 0.05 * end + 0.5, "{job}: {real:?}, replayed {replayed:?}");
    }
}
