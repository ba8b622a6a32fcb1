//! Slurm has lost a node whose processes are still alive: the next submission ends them, and each epoch is
//! trained once.

use std::fs;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use crate::real_cluster::start;
use crate::real_user::{TestUser, wait_for};

const NODES: &str = "v[1-2] cpus=4 memory=8000 gpus=v100:1\npartition main default default_time=10\n";

const EPOCHS: usize = 120;

/// Trains, and resumes from its saved state. It does not use hsched. The lost training never ends by itself,
/// so that the load of the machine does not affect the result.
const TRAIN: &str = r#"
import os, sys, time
path = "saved/epochs"
done = open(path).read().count("\n") if os.path.exists(path) else 0
second = os.path.lexists("state/fences/train/2")
while done < int(sys.argv[1]):
    while done >= 100 and not second:
        time.sleep(0.1)
    time.sleep(0.02 if second else 0.4)
    done += 1
    with open(path, "a") as file:
        file.write("%d %d\n" % (done, os.getpid()))
"#;

/// Returns the epochs that were trained, in the order in which they ended, each with its process.
fn trained(user: &TestUser<'_>) -> Vec<(usize, i32)> {
    let line = |line: &str| {
        let (epoch, process) = line.split_once(' ')?;
        Some((epoch.parse().ok()?, process.parse().ok()?))
    };
    user.read("saved/epochs").lines().filter_map(line).collect()
}

#[test]
fn ranks_that_outlive_their_slurmd_end_when_the_next_submission_begins() {
    let nodes = tempfile::NamedTempFile::new().expect("a file");
    fs::write(nodes.path(), NODES).expect("writes");
    let Some(cluster) = start(nodes.path(), "3/3/1") else { return };
    let user = TestUser::new(&cluster, "fence", "");
    user.write("train.py", TRAIN);
    let job = json!({
        "name": "train", "samples_per_epoch": 100, "epochs": EPOCHS, "global_batch": 10, "model_size": 0,
        "throughput": {"v100": 250}, "max_gpus": 1, "command": format!("python3 train.py {EPOCHS}"),
        "checkpoint": {"dir": "saved", "grace": "2s"},
    });
    user.write("jobs.json", &json!({ "jobs": [job] }).to_string());
    let _ = user.plan(&["jobs.json"]);
    let id = user.submit(&["plan.json"])["train"].clone();
    wait_for("some epochs", || (trained(&user).len() >= 3).then_some(()));
    let node = user.field(&id, "NodeList").remove(0);
    let slurmd =
        fs::read_to_string(cluster.directory().join(format!("run/slurmd-{node}.pid"))).expect("a pid");
    let slurmd = slurmd.split_whitespace().next().and_then(|pid| pid.parse().ok()).expect("a number");
    kill(Pid::from_raw(slurmd), Signal::SIGKILL).expect("a slurmd");

    wait_for("Slurm's word", || (user.field(&id, "JobState") == ["NODE_FAIL"]).then_some(()));
    let known = trained(&user).len();
    wait_for("an epoch of the lost ranks", || (trained(&user).len() > known).then_some(()));
    wait_for("the next submission", || {
        let done = user.hsched_with(&[("HSCHED_RETRY_DELAY", "1s")], &["watch", "--once"]);
        assert!(done.code.is_some(), "{}", done.stderr);
        fs::symlink_metadata(user.folder.join("state/fences/train/2")).ok()
    });
    wait_for("its end", || {
        user.hsched(&["watch", "--once"]);
        let status: Value =
            serde_json::from_str(&user.hsched(&["status", "--format", "json"]).stdout).expect("JSON");
        (status["jobs"][0]["state"] == "completed").then_some(())
    });
    let trained = trained(&user);
    // Each epoch was trained once: the lost ranks trained no epoch after the first one of the next
    // submission.
    assert_eq!(trained.iter().map(|entry| entry.0).collect::<Vec<_>>(), (1..=EPOCHS).collect::<Vec<_>>());
    let mut processes: Vec<i32> = trained.iter().map(|trained| trained.1).collect();
    processes.dedup();
    assert_eq!(processes.len(), 2, "{trained:?}");
}
