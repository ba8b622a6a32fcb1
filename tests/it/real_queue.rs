//! `watch --queue` on a real Slurm: a pending job is changed in place and uses the shares for its actual GPUs, even if
//! hsched is killed.

use std::fs;
use std::path::Path;

use serde_json::json;

use crate::real_cluster::{STEADY, repository, start, start_fast};
use crate::real_user::{Done, TestUser, wait_for};
use crate::sandbox::write_program;

const NODES: &str =
    "partition gpu default max_time=infinite default_time=60\nv1 cpus=16 memory=8000 gpus=v100:4\n";

/// Submits a Slurm job that holds two GPUs until the file exists; returns its id.
fn other(user: &TestUser<'_>, file: &str) -> String {
    let wait = format!("while [[ ! -e {file} ]]; do sleep 0.1; done");
    let wrap = format!("--wrap=bash -c '{wait}'");
    let words = ["--parsable", "--gres=gpu:v100:2", "-n1", "-t", "60", "-o", "/dev/null", &wrap];
    user.ask("sbatch", &words).trim().to_owned()
}

/// Returns a `PATH` with an `scontrol` that calls the real one and, after an update, kills hsched before the
/// answer arrives.
fn killer(user: &TestUser<'_>) -> String {
    let folder = user.folder.join("killer");
    fs::create_dir(&folder).expect("a folder");
    let real = user.ask("sh", &["-c", "command -v scontrol"]);
    let text =
        format!("#!/bin/bash\n{} \"$@\"\nif [[ $1 == update ]]; then kill -9 $PPID; fi\n", real.trim());
    write_program(&folder.join("scontrol"), &text);
    user.path_after(&folder)
}

#[test]
fn a_pending_job_is_changed_in_place_and_trains_on_what_it_got() {
    let folder = tempfile::tempdir().expect("a folder");
    let nodes = folder.path().join("queue.nodes");
    fs::write(&nodes, NODES).expect("written");
    let Some(cluster) = start(Path::new(&nodes), STEADY) else { return };
    let user = TestUser::new(&cluster, "queue", "");
    let others = [other(&user, "first"), other(&user, "second")];
    let running = || user.ask("squeue", &["-h", "-t", "R", "-o", "%i"]).lines().count() == 2;
    wait_for("the others", || running().then_some(()));
    // The job is expected to take eight hours on one GPU.
    let job = json!({
        "name": "train", "samples_per_epoch": 28800, "epochs": 1, "global_batch": 120, "model_size": 0,
        "throughput": {"v100": 1}, "max_gpus": 4, "retries": 0,
        "command": "echo \"$RANK of $WORLD_SIZE: $HSCHED_BATCHES\" >>trained",
    });
    user.write("jobs.json", &json!({ "jobs": [job] }).to_string());
    assert_eq!(user.hsched(&["add", "jobs.json"]).code, Some(0));
    let asks = || {
        user.ask("squeue", &["-h", "-n", "train", "-o", "%T %b %l"]).trim().replace("gres/gpu", "gres:gpu")
    };
    // All four GPUs are free within the hour.
    let done = user.hsched(&["watch", "--queue", "--once"]);
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    assert_eq!(asks(), "PENDING gres:gpu:v100:4 2:30:00", "{}{}", done.stdout, done.stderr);
    let id = user.ask("squeue", &["-h", "-n", "train", "-o", "%i"]);
    // Two of the GPUs are not free after all.
    user.ask("scontrol", &["update", &format!("JobId={}", others[1]), "TimeLimit=2000"]);
    user.write("first", "");
    wait_for("two free GPUs", || {
        let left = user.ask("squeue", &["-h", "-t", "R,CG", "-o", "%i"]);
        (left.lines().count() == 1).then_some(())
    });
    for answer in ["squeue", "sinfo"] {
        fs::remove_file(user.folder.join(format!("state/queue/{answer}.json"))).expect("a cached answer");
    }
    let path = killer(&user);
    let said = user.hsched(&["watch", "--queue", "--once", "--dry-run"]);
    assert!(
        said.stdout.contains("train: changing its request to 2 v100, limit"),
        "{}{}",
        said.stdout,
        said.stderr
    );
    assert_eq!(asks(), "PENDING gres:gpu:v100:4 2:30:00");
    let killed = user.hsched_with(&[("PATH", &path)], &["watch", "--queue", "--once"]);
    assert_eq!(killed.code, None, "{}{}", killed.stdout, killed.stderr);
    // Slurm has received the request and starts the job; the state still contains only the intent.
    wait_for("its end", || asks().is_empty().then_some(()));
    let mut trained: Vec<String> = user.read("trained").lines().map(str::to_owned).collect();
    trained.sort();
    assert_eq!(trained, ["0 of 2: 60,60", "1 of 2: 60,60"]);
    let done = user.hsched(&["watch", "--queue", "--once"]);
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    let status = user.hsched(&["status", "--format", "json"]).stdout;
    assert!(status.contains("\"completed\""), "{status}");
    assert!(user.read("train.out").contains("using the shares for these GPUs"), "{}", user.read("train.out"));
    assert_eq!(user.ask("squeue", &["-h", "-n", "train"]), "");
    assert!(!id.trim().is_empty());
}

/// Runs hsched by the clock of a fast cluster.
fn by_its_clock(user: &TestUser<'_>, cluster: &Path, arguments: &[&str]) -> Done {
    let script = repository().join("slurm/dev-cluster");
    let mut command = user.program(&script.display().to_string());
    command.args(["clock", "--dir"]).arg(cluster).args(["--", env!("CARGO_BIN_EXE_hsched")]);
    Done::of(command.args(arguments))
}

#[test]
fn on_a_full_cluster_a_job_is_foretold_submitted_and_looked_after() {
    let Some(cluster) = start_fast(&repository().join("slurm/nodes/busy.nodes")) else { return };
    let (user, folder) = (TestUser::new(&cluster, "full", ""), cluster.directory());
    let script = repository().join("slurm/dev-cluster").display().to_string();
    let others =
        ["load", "--dir", &folder.display().to_string(), "--seed", "3", "--backlog", "60", "--hours", "0.1"];
    user.ask(&script, &others);
    let job = json!({
        "name": "train", "samples_per_epoch": 36000, "epochs": 10, "global_batch": 120, "model_size": 0,
        "throughput": {"a100": 10, "v100": 6, "t4": 2.5}, "max_gpus": 4, "partition": ["gpu", "short"],
        "command": "sleep 600",
    });
    user.write("jobs.json", &json!({ "jobs": [job] }).to_string());
    let done = by_its_clock(&user, &folder, &["when", "jobs.json", "--format", "json", "--futures", "10"]);
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    let told: serde_json::Value = serde_json::from_str(&done.stdout).expect("JSON");
    let job = &told["jobs"][0];
    let chosen = usize::try_from(job["chosen"].as_u64().expect("a choice")).expect("small");
    let starts = |value: &serde_json::Value| value["start"]["q90_s"].as_f64();
    let latest = job["options"].as_array().expect("options").iter().filter_map(starts).fold(0.0, f64::max);
    assert!(starts(&job["options"][chosen]).is_some() && latest > 600.0, "the cluster is not full: {told}");
    assert_eq!(user.hsched(&["add", "jobs.json"]).code, Some(0));
    let done = by_its_clock(&user, &folder, &["watch", "--queue", "--once"]);
    assert!(
        done.code == Some(0) && done.stdout.contains("train: submitted as job"),
        "{}{}",
        done.stdout,
        done.stderr
    );
    let again = by_its_clock(&user, &folder, &["watch", "--queue", "--once"]);
    assert_eq!(again.code, Some(0), "{}", again.stderr);
    assert!(!user.ask("squeue", &["-h", "--me", "-n", "train,train.c1"]).is_empty());
}
