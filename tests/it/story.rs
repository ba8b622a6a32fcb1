//! The story of three jobs that the real cluster and the simulated one play: wrong speeds, an end, a failure, a node
//! that dies.

use std::collections::BTreeMap;

use serde_json::{Value, json};

/// Samples per second on one GPU, in truth, by job and GPU type.
pub const TRUE_SPEEDS: [(&str, &[(&str, f64)]); 3] =
    [("short", &[("v100", 300.0)]), ("flaky", &[("t4", 100.0)]), ("long", &[("v100", 300.0), ("t4", 100.0)])];

/// The epoch of `long` after which its node dies.
pub const FATAL_EPOCH: u64 = 9;

/// The node that dies.
pub const FATAL_NODE: &str = "v2";

/// The epoch in which `flaky` fails, the first time.
pub const FAILS_AT: u64 = 6;

/// The nodes, as `dev-cluster` takes them.
pub const NODES: &str = "partition gpu default max_time=infinite default_time=10\n\
    v[1-2] cpus=8 memory=16000 gpus=v100:2 partitions=gpu\n\
    t1     cpus=8 memory=16000 gpus=t4:4   partitions=gpu\n";

/// Returns the job file, with speeds that are wrong; `command` gives a job's command.
pub fn jobs(command: &dyn Fn(&str, u64) -> Value) -> Value {
    let job = |name: &str, samples: u64, epochs: u64, limits: (u32, u32), throughput: Value| {
        json!({
            "name": name, "samples_per_epoch": samples, "epochs": epochs, "global_batch": 60, "model_size": 0,
            "min_gpus": limits.0, "max_gpus": limits.1, "throughput": throughput,
            "checkpoint": {"grace": "10s", "restart_cost": "2s"}, "command": command(name, samples),
        })
    };
    json!({ "jobs": [
        job("short", 600, 14, (2, 2), json!({"v100": 150})),
        job("flaky", 400, 8, (2, 2), json!({"t4": 160})),
        job("long", 1800, 14, (2, 4), json!({"v100": 200, "t4": 90})),
    ]})
}

/// Returns what a journal says was done: submissions with their GPUs, stops and cancellations, in order.
pub fn deeds(journal: &str) -> Vec<String> {
    let lines = journal.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let deed = |line: Value| {
        let (action, job) = (line["action"].as_str()?, line["job"].as_str()?);
        match action {
            "submit" => Some(format!("submit {job} on {}", line["gpus"].as_str()?)),
            "stop" | "cancel" => Some(format!("{action} {job}")),
            _ => None,
        }
    };
    lines.filter_map(deed).collect()
}

/// What is to be done, wherever the story is played.
pub const DEEDS: [&str; 9] = [
    "submit short on 2 v100",
    "submit flaky on 2 t4",
    "submit long on 2 t4 + 2 v100",
    // The speeds of its job file were wrong, and so were its ranks' shares.
    "stop long",
    "submit long on 2 t4 + 2 v100",
    // It failed once.
    "submit flaky on 2 t4",
    // The short job has ended: its GPUs serve the long one better.
    "stop long",
    "submit long on 4 v100",
    // The node has died.
    "submit long on 2 t4 + 2 v100",
];

/// Returns when each job ended, in seconds since the first was added, as a journal says.
pub fn ends(journal: &str) -> BTreeMap<String, f64> {
    let lines: Vec<Value> = journal.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let begin = lines.first().and_then(|line| line["at"].as_f64()).expect("a first line");
    let end = |line: &Value| {
        let ended = line["event"] == "ended" && line["end"] == "completed";
        Some((line["job"].as_str()?.to_owned(), line["end_time"].as_f64()? - begin)).filter(|_| ended)
    };
    lines.iter().filter_map(end).collect()
}
