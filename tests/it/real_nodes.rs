//! Stopped ranks, slow nodes and nodes that fail their check, on a real Slurm.

use std::fs;
use std::process::{Child, Stdio};
use std::sync::LazyLock;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use crate::real_cluster::{Cluster, STEADY, started, try_start};
use crate::real_user::{TestUser, job, wait_for};
use crate::sandbox::write_program;

/// Each test has its own nodes.
const NODES: &str = "partition slow default default_time=10\npartition unfit default_time=10\n\
    partition stop default_time=10\n\
    v[1-3] cpus=4 memory=8000 gpus=v100:1 partitions=slow\n\
    w[1-2] cpus=4 memory=8000 gpus=v100:1 partitions=unfit\n\
    s1 cpus=4 memory=8000 gpus=v100:2 partitions=stop\n";

static CLUSTER: LazyLock<Result<Cluster, String>> = LazyLock::new(|| {
    let folder = tempfile::tempdir().expect("a folder");
    let nodes = folder.path().join("nodes");
    fs::write(&nodes, NODES).expect("a file");
    try_start(&nodes, STEADY)
});

/// Returns a user of the nodes of one test; `None` if there is no Slurm.
fn user(partition: &'static str) -> Option<TestUser<'static>> {
    started(&CLUSTER).map(|cluster| TestUser::new(cluster, partition, partition))
}

fn add(user: &TestUser<'_>, jobs: &[Value]) {
    user.write("jobs.yaml", &json!({ "jobs": jobs }).to_string());
    let added = user.hsched(&["add", "jobs.yaml"]);
    assert_eq!(added.code, Some(0), "{}", added.stderr);
}

/// Watches until all jobs have ended; returns the output of `watch`.
fn watch(user: &TestUser<'_>) -> String {
    let watched = user.hsched(&["watch", "--interval", "1s", "--set", "retry_delay=1s"]);
    assert_eq!(watched.code, Some(0), "{}{}", watched.stdout, watched.stderr);
    watched.stdout + &watched.stderr
}

fn json_of(user: &TestUser<'_>, command: &str) -> Value {
    serde_json::from_str(&user.hsched(&[command, "--format", "json"]).stdout).expect("JSON")
}

/// Returns the runs of a job, the oldest first.
fn runs(status: &Value, name: &str) -> Vec<Value> {
    let job = status["jobs"].as_array().expect("jobs").iter().find(|job| job["name"] == name);
    job.expect("the job")["runs"].as_array().expect("runs").clone()
}

/// A running `watch`, which ends with the test.
struct Watch(Child);

impl Drop for Watch {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_node_that_is_slowed_is_named_and_avoided() {
    let Some(user) = user("slow") else { return };
    let command = "for ((epoch = 1; epoch <= 3; epoch++)); do
        seconds=0.4; if [[ $SLURMD_NODENAME == v2 ]]; then seconds=0.5; fi
        sleep $seconds
        echo '{\"epoch\": '$epoch', \"rank\": 0, \"samples\": 600, \"compute_s\": '$seconds'}' >>$HSCHED_REPORT
    done";
    let new = |name: &str, avoid_slow: bool| {
        let mut job = job(name, 1, command);
        for (key, value) in [("model", json!("m")), ("epochs", json!(3)), ("avoid_slow", json!(avoid_slow))] {
            job[key] = value;
        }
        job
    };
    add(&user, &["a1", "a2", "a3"].map(|name| new(name, true)));
    let said = watch(&user);
    assert_eq!(said.matches("note: node v2 is slow").count(), 1, "{said}");
    for command in ["status", "history"] {
        let slow = json_of(&user, command)["slow_nodes"].clone();
        assert_eq!((slow.as_array().map(Vec::len), &slow[0]["node"]), (Some(1), &json!("v2")), "{slow}");
        assert!((slow[0]["slower"].as_f64().expect("a number") - 0.25).abs() < 1e-9, "{slow}");
    }
    // Of four jobs on three nodes, one of the three that avoid the node has to wait, and the one that does
    // not avoid it uses it.
    add(&user, &[new("b1", true), new("b2", true), new("b3", true), new("c1", false)]);
    let _ = watch(&user);
    let status = json_of(&user, "status");
    for (name, excluded) in [("b1", "v2"), ("b2", "v2"), ("b3", "v2"), ("c1", "(null)")] {
        let runs = runs(&status, name);
        let id = runs[0]["job_id"].as_str().expect("an id");
        assert_eq!(user.field(id, "ExcNodeList"), [excluded], "{name}");
        assert_eq!(runs[0]["gpus"][0]["node"] == "v2", name == "c1", "{runs:?}");
    }
}

#[test]
fn a_node_whose_gpu_hangs_fails_its_check_and_the_job_goes_elsewhere() {
    let Some(user) = user("unfit") else { return };
    let bin = user.folder.join("bin");
    fs::create_dir(&bin).expect("a folder");
    let program = "#!/bin/bash\nif [[ $SLURMD_NODENAME == w1 ]]; then exec sleep 600; fi\necho '12, 16384'\n";
    write_program(&bin.join("nvidia-smi"), program);
    let mut job = job("checked", 1, "echo $SLURMD_NODENAME >>began");
    for (key, value) in [("preflight", json!(true)), ("retries", json!(0))] {
        job[key] = value;
    }
    job["env"] = json!({"PATH": user.path_after(&bin)});
    add(&user, &[job]);
    let said = watch(&user);
    let failed = "failed its check on node w1: GPU 0 does not answer within 8 s";
    assert!(said.contains(&format!("checked: {failed}; starts over")), "{said}");
    let status = json_of(&user, "status");
    assert_eq!(
        (&status["jobs"][0]["failures"], &status["jobs"][0]["state"]),
        (&json!(0), &json!("completed"))
    );
    let runs = runs(&status, "checked");
    let ends: Vec<_> = runs.iter().map(|run| (&run["gpus"][0]["node"], &run["end"])).collect();
    assert_eq!(ends, [(&json!("w1"), &json!(failed)), (&json!("w2"), &json!("completed"))]);
    assert_eq!(user.read("began"), "w2\n");
    let exits: Vec<_> =
        runs.iter().map(|run| user.ended(run["job_id"].as_str().expect("an id")).exit).collect();
    assert_eq!(exits, ["87:0", "0:0"]);
}

#[test]
fn a_rank_that_is_stopped_is_told_and_that_it_gets_on_again() {
    let Some(user) = user("stop") else { return };
    add(&user, &[job("stopped", 2, "echo $$ >pid-$RANK; exec sleep 600")]);
    let log = fs::File::create(user.folder.join("watch.log")).expect("a file");
    let mut program = user.program(env!("CARGO_BIN_EXE_hsched"));
    program.args(["watch", "--interval", "1s"]).stdout(log.try_clone().expect("a file"));
    let _watch = Watch(program.stderr(Stdio::from(log)).spawn().expect("starts"));
    let rank = wait_for("rank 1", || user.read("pid-1").trim().parse().ok());
    wait_for("a sample of both ranks", || {
        let samples = user.only_run()?.join("report/stopped/samples/s1.jsonl");
        user.read(samples).contains(r#""state": ["S", "S"]"#).then_some(())
    });
    kill(Pid::from_raw(rank), Signal::SIGSTOP).expect("is there");
    let said = |text: &str| wait_for(text, || user.read("watch.log").contains(text).then_some(()));
    said("stopped: rank 1 was stopped by a signal");
    assert_eq!(json_of(&user, "status")["jobs"][0]["stall"]["kind"], "stopped");
    kill(Pid::from_raw(rank), Signal::SIGCONT).expect("is there");
    said("stopped: makes progress again");
}
