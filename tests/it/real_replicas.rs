//! The example of replicas of several GPUs on a real Slurm: FSDP and tensor parallelism over two node types.

use std::collections::BTreeSet;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::real_cluster::repository;
use crate::real_user::{Done, TestUser, job, user, wait_within};

/// Maximum wait for an epoch or for the end of a job; several ranks import torch at once.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(300);

/// Returns the Python with the newest torch that `tests/frameworks` installs; `None`, with a message, if there is none.
fn newest_torch() -> Option<String> {
    let variable = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let cache = variable("XDG_CACHE_HOME").or_else(|| variable("HOME").map(|home| home.join(".cache")));
    let folder =
        variable("HSCHED_FRAMEWORKS").or_else(|| cache.map(|cache| cache.join("hsched/frameworks")))?;
    let python = folder.join("bin/python");
    if !python.exists() {
        println!(
            "skipped: no torch that has fully_shard: tests/frameworks installs it in {}",
            folder.display()
        );
        return None;
    }
    Some(python.display().to_string())
}

fn words(python: &str, kind: &str, more: &[&str]) -> Vec<String> {
    let program = repository().join("examples/replicas/train.py").display().to_string();
    [python, &program, kind].iter().chain(more).map(|word| (*word).to_owned()).collect()
}

/// Runs the example on some nodes, on replicas of 2 V100 or of 1 T4, from the checkpoint if there is one.
///
/// `stop_after` is an epoch after which it is asked to stop. Returns the plan's replicas: GPUs and batch of each.
fn part(
    user: &TestUser<'_>,
    kind: &str,
    name: &str,
    nodes: &[&str],
    stop_after: Option<u64>,
) -> Vec<(u64, u64)> {
    let python = newest_torch().expect("looked at before");
    let mut job =
        job(name, 1, &shell_words::join(words(&python, kind, &["--samples", "700", "--sample-ms", "4"])));
    let keys = job.as_object_mut().expect("a job");
    keys.remove("min_gpus");
    keys.remove("max_gpus");
    job["samples_per_epoch"] = 700.into();
    job["epochs"] = 4.into();
    job["global_batch"] = 70.into();
    job["replica"] = json!({"gpus": {"v100": 2, "t4": 1}});
    job["throughput"] = json!({"v100": 300, "t4": 100});
    job["checkpoint"] = json!({"grace": "60s", "dir": format!("together-{kind}")});
    job["env"] = json!({"OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"});
    let plan = user.plan_over(nodes, &[job]);
    let id = &user.submit(&["plan.json"])[name];
    let said = || user.read(format!("{name}.out"));
    if let Some(epoch) = stop_after {
        let done = || reports(user, name).first()?.iter().any(|line| line["epoch"] == epoch).then_some(());
        wait_within(PATIENCE, done).unwrap_or_else(|| panic!("no epoch {epoch} of {name}: {}", said()));
        user.ask("scancel", &["--signal=USR1", "--batch", id]);
    }
    let ended = user.ended_within(PATIENCE, id);
    assert_eq!(ended.exit, if stop_after.is_some() { "85:0" } else { "0:0" }, "{name}: {}", said());
    let replicas = plan["jobs"][0]["replicas"].as_array().expect("replicas");
    check_reports(user, name, replicas);
    let count = |value: &Value| {
        value["gpus"].as_array().map_or(0, |gpus| gpus.iter().filter_map(|gpu| gpu["count"].as_u64()).sum())
    };
    replicas.iter().map(|replica| (count(replica), replica["batch"].as_u64().expect("a batch"))).collect()
}

/// Returns the reports of the ranks that write any, by rank.
fn reports(user: &TestUser<'_>, name: &str) -> Vec<Vec<Value>> {
    let folders: Vec<PathBuf> = user.runs().iter().map(|run| run.join("report").join(name)).collect();
    let rank = |rank: usize| -> Vec<Value> {
        let texts = folders.iter().map(|folder| user.read(folder.join(format!("rank-{rank}.jsonl"))));
        texts.collect::<String>().lines().map(|line| serde_json::from_str(line).expect("a report")).collect()
    };
    (0..16).map(rank).filter(|lines| !lines.is_empty()).collect()
}

/// Checks that one rank of each replica reported, with the replica's batch, and no other rank.
fn check_reports(user: &TestUser<'_>, name: &str, replicas: &[Value]) {
    let reports = reports(user, name);
    assert_eq!(reports.len(), replicas.len(), "{reports:?}");
    for (lines, replica) in reports.iter().zip(replicas) {
        assert!(
            lines
                .iter()
                .all(|line| line["replica"] == replica["replica"] && line["batch"] == replica["batch"]),
            "{lines:?}"
        );
    }
}

/// Trains on two types, stops, moves to other nodes with other replicas, stops, and ends on one replica.
fn trains_and_moves(kind: &'static str, name: &'static str) {
    let Some(python) = newest_torch() else { return };
    let Some(user) = user(name, "mech") else { return };
    let first = part(&user, kind, "first", &["b1 {v100: 4}", "a1 {t4: 1}"], Some(1));
    let sizes: BTreeSet<u64> = first.iter().map(|replica| replica.0).collect();
    let batches: BTreeSet<u64> = first.iter().map(|replica| replica.1).collect();
    assert_eq!((first.len(), sizes.len(), batches.len()), (3, 2, 2), "unequal replicas: {first:?}");
    let second = part(&user, kind, "second", &["b2 {v100: 2}", "a1 {t4: 3}"], Some(2));
    assert_eq!(second.len(), 4, "{second:?}");
    let third = part(&user, kind, "third", &["b1 {v100: 2}"], None);
    assert_eq!(third, [(2, 70)]);
    for name in ["second", "third"] {
        assert!(
            user.read(format!("{name}.out")).contains("resumes after step"),
            "{}",
            user.read(format!("{name}.out"))
        );
    }

    let mut alone = user.program(&python);
    alone
        .args(&words(&python, kind, &["--samples", "700", "--global-batch", "70", "--epochs", "4"])[1..])
        .env("PYTHONPATH", repository().join("templates"));
    let alone = Done::of(alone.env("HSCHED_CHECKPOINT_DIR", "alone").env("PYTHONDONTWRITEBYTECODE", "1"));
    assert_eq!(alone.code, Some(0), "{}", alone.stderr);
    let (together, alone) = (weights(&user.read("third.out")), weights(&alone.stdout));
    println!(
        "{kind}: replicas {first:?}, then {second:?}, then {third:?}; weights {together}, by one process {alone}"
    );
    assert!((together / alone - 1.0).abs() < 1e-6, "weights {together}, by one process {alone}");
}

/// Returns the checksum of all weights at the end.
fn weights(output: &str) -> f64 {
    let text = output.lines().find_map(|line| line.strip_prefix("weights ")).expect("the weights");
    text.parse().expect("a number")
}

#[test]
#[ignore = "a minute or more, with the newest torch: tests/long runs it"]
fn replicas_with_fsdp_train_over_two_types_and_move() {
    trains_and_moves("fsdp", "replicas-fsdp");
}

#[test]
#[ignore = "a minute or more, with the newest torch: tests/long runs it"]
fn replicas_with_tensor_parallelism_train_over_two_types_and_move() {
    trains_and_moves("tensor", "replicas-tensor");
}
