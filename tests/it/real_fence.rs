//! A node that Slurm lost while its processes live on: the next submission ends them, and each epoch is trained once.

use std::fs;
use std::os::unix::fs::MetadataExt;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use crate::real_cluster::start;
use crate::real_desk::{Desk, wait_for};

const NODES: &str = "v[1-2] cpus=4 memory=8000 gpus=v100:1\npartition main default default_time=10\n";

const EPOCHS: usize = 40;

/// Trains, and goes on from what is there. It knows nothing of hsched.
const TRAIN: &str = r#"
import os, sys, time
path = "saved/epochs"
done = open(path).read().count("\n") if os.path.exists(path) else 0
while done < int(sys.argv[1]):
    time.sleep(0.4)
    done += 1
    with open(path, "a") as file:
        file.write("%d %d %.3f\n" % (done, os.getpid(), time.time()))
"#;

/// The epochs that were trained: each with its process and its time.
fn trained(desk: &Desk<'_>) -> Vec<(usize, i32, f64)> {
    let line = |line: &str| {
        let mut words = line.split(' ');
        Some((words.next()?.parse().ok()?, words.next()?.parse().ok()?, words.next()?.parse().ok()?))
    };
    desk.read("saved/epochs").lines().filter_map(line).collect()
}

#[test]
fn ranks_that_outlive_their_slurmd_end_when_the_next_submission_begins() {
    let nodes = tempfile::NamedTempFile::new().expect("a file");
    fs::write(nodes.path(), NODES).expect("writes");
    let Some(cluster) = start(nodes.path(), "3/3/1") else { return };
    let desk = Desk::new(&cluster, "fence", "");
    desk.write("train.py", TRAIN);
    let job = json!({
        "name": "train", "samples_per_epoch": 100, "epochs": EPOCHS, "global_batch": 10, "model_size": 0,
        "throughput": {"v100": 250}, "max_gpus": 1, "command": format!("python3 train.py {EPOCHS}"),
        "checkpoint": {"dir": "saved", "grace": "2s"},
    });
    desk.write("jobs.json", &json!({ "jobs": [job] }).to_string());
    let _ = desk.plan(&["jobs.json"]);
    let id = desk.submit(&["plan.json"])["train"].clone();
    wait_for("some epochs", || (trained(&desk).len() >= 3).then_some(()));
    let node = desk.field(&id, "NodeList").remove(0);
    let slurmd =
        fs::read_to_string(cluster.directory().join(format!("run/slurmd-{node}.pid"))).expect("a pid");
    let slurmd = slurmd.split_whitespace().next().and_then(|pid| pid.parse().ok()).expect("a number");
    kill(Pid::from_raw(slurmd), Signal::SIGKILL).expect("a slurmd");

    let fence =
        |number: u32| fs::symlink_metadata(desk.folder.join(format!("state/fences/train/{number}"))).ok();
    let begun = wait_for("the next submission", || {
        let done = desk.hsched_with(&[("HSCHED_RETRY_DELAY", "1s")], &["watch", "--once"]);
        assert!(done.code.is_some(), "{}", done.stderr);
        fence(2)
    });
    assert_eq!(desk.field(&id, "JobState"), ["NODE_FAIL"]);
    wait_for("its end", || {
        desk.hsched(&["watch", "--once"]);
        let status: Value =
            serde_json::from_str(&desk.hsched(&["status", "--format", "json"]).stdout).expect("JSON");
        (status["jobs"][0]["state"] == "completed").then_some(())
    });
    let trained = trained(&desk);
    // Each once, and the lost ones trained until the next submission began.
    assert_eq!(trained.iter().map(|own| own.0).collect::<Vec<_>>(), (1..=EPOCHS).collect::<Vec<_>>());
    let (old, begun) = (trained[0].1, f64::from(u32::try_from(begun.ctime()).expect("a time")));
    let last = trained.iter().rfind(|own| own.1 == old).expect("the first one's");
    let next = trained.iter().find(|own| own.1 != old).expect("the second one's");
    println!(
        "lost ranks trained until {:.1} s after the next began, which trained after {:.1} s",
        last.2 - begun,
        next.2 - begun
    );
    assert!(last.2 > begun - 1.0, "the lost ranks ended before: {trained:?}");
    let number = trained.iter().filter(|own| own.1 != old && own.1 != next.1).count();
    assert_eq!(number, 0, "{trained:?}");
}
