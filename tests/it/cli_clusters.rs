//! One state directory under two clusters, as with a shared home directory.

use std::fs;

use insta::assert_snapshot;
use serde_json::json;

use crate::sandbox::{Sandbox, THREE};

const SUBMIT: &str = "submit jobs.yaml --cluster cluster.yaml";

/// The programs that show or change jobs.
const ASKED: [&str; 3] = ["squeue", "sbatch", "scancel"];

/// Returns a line of a queue that shows job `id` of run r1 as pending.
fn line(id: u32, job: &str) -> String {
    format!(
        "{id}|{id}|N/A|N/A|PENDING|x|gpu|a|N/A|N/A|1:00|1|1|0|0||||x|{job}|{{\"hsched\":1,\"run\":\"r1\",\"job\":\"{job}\"}}"
    )
}

/// Switches Slurm to another cluster.
fn on(cluster: &str, sandbox: Sandbox) -> Sandbox {
    let config =
        format!("echo 'Configuration data as of 2026-11-21T06:13:16'; echo 'ClusterName = {cluster}'");
    sandbox.program("scontrol", &format!("case \"$*\" in 'show config') {config};; *) exit 1;; esac"))
}

/// Returns a sandbox with jobs 1 and 2 in the queue of cluster `north`; its Slurm may omit the cluster's
/// name.
fn submitted(named: bool) -> Sandbox {
    let sandbox = Sandbox::with_slurm().file("cluster.yaml", THREE).program("scancel", ":");
    let sandbox = if named { on("north", sandbox) } else { sandbox };
    sandbox.run(&format!("{SUBMIT} --run-id r1")).succeeds();
    sandbox.printing("squeue", &[&line(1, "resnet18"), &line(2, "vgg19")])
}

#[test]
fn the_jobs_of_another_cluster_are_left_alone() {
    let sandbox = submitted(true);
    assert_eq!(sandbox.snapshot()["cluster"], "north");
    let before = (sandbox.snapshot(), sandbox.journal());
    let sandbox = on("south", sandbox).printing("squeue", &[]);
    let calls = ASKED.map(|program| sandbox.calls(program).len());
    assert_snapshot!(sandbox.run("watch").fails(78), @r#"
    error: the jobs in ROOT/home/.local/state/hsched are on cluster north, but this Slurm is cluster south
    hint: run hsched watch and hsched cancel for them on cluster north
    hint: for jobs here, use another state directory: HSCHED_STATE_DIR=DIR, or the setting state_dir
    hint: if this is the same cluster with a new name, remove the key "cluster" from ROOT/home/.local/state/hsched/state.json and set its "sha256" to "edited"
    "#);
    for command in ["watch --once", "watch --dry-run", "cancel --all", "add jobs.yaml", SUBMIT] {
        let stderr = sandbox.run(command).fails(78);
        assert!(stderr.contains("are on cluster north, but this Slurm is cluster south"), "{stderr}");
    }
    assert_eq!((sandbox.snapshot(), sandbox.journal()), before);
    assert_eq!(ASKED.map(|program| sandbox.calls(program).len()), calls);
    sandbox.run("add jobs.yaml --set state_dir=south").succeeds();

    let sandbox = on("North", sandbox).printing("squeue", &[&line(1, "resnet18"), &line(2, "vgg19")]);
    let asked = sandbox.calls("scontrol").len();
    sandbox.run("cancel --all").succeeds();
    assert_eq!(sandbox.calls("scontrol").len(), asked + 1);
}

#[test]
fn a_cluster_by_a_new_name_is_taken_when_its_user_says_so() {
    let sandbox = on("south", submitted(true));
    sandbox.run("watch --once").fails(78);
    let path = sandbox.state("state.json");
    let text = fs::read_to_string(&path).expect("a state");
    let (rest, checksum) = text.rsplit_once("\"sha256\": ").expect("a checksum");
    let edited = format!("{}\"sha256\": \"edited\"\n}}\n", rest.replace("\"cluster\": \"north\",", ""));
    assert!(checksum.len() > 64 && edited.len() + 64 < text.len(), "{edited}");
    fs::write(&path, edited).expect("a file");
    assert_eq!(sandbox.run("watch --once").exits(0).stderr, "");
    assert_eq!(sandbox.snapshot()["cluster"], "south");
    // The edited cluster is stored as usual, so later damage can be repaired.
    fs::remove_file(&path).expect("a file");
    fs::remove_file(sandbox.state("state.json.old")).expect("a file");
    sandbox.run("cancel --all").exits(0);
    assert_eq!(sandbox.snapshot()["cluster"], "south");
}

#[test]
fn a_state_without_a_name_takes_it_over_before_anything_is_seen() {
    let sandbox = submitted(false);
    assert_eq!(sandbox.snapshot().get("cluster"), None);
    // Takes a turn without any event.
    sandbox.run("watch --once").exits(0);
    let sandbox = on("north", sandbox);
    sandbox.run("watch --once").exits(0);
    assert_eq!(sandbox.snapshot()["cluster"], "north");
    on("south", sandbox).run("watch --once").fails(78);
}

#[test]
fn a_state_whose_jobs_have_ended_goes_to_the_next_cluster() {
    let sandbox = on("north", Sandbox::with_slurm());
    sandbox.run("add jobs.yaml").succeeds();
    let sandbox = on("south", sandbox);
    // The waiting jobs were intended for the other cluster.
    sandbox.run("watch --once").fails(78);
    let sandbox = on("north", sandbox);
    sandbox.run("cancel --all").succeeds();
    let sandbox = on("south", sandbox);
    sandbox.run("add jobs.yaml").succeeds();
    assert_eq!(sandbox.snapshot()["cluster"], "south");
}

#[test]
fn a_slurm_that_does_not_tell_its_name_is_used_all_the_same() {
    let sandbox = submitted(true).program("scontrol", "exit 1");
    sandbox.run("cancel vgg19").succeeds();
    assert_eq!((&sandbox.snapshot()["cluster"], sandbox.calls("scancel").len()), (&json!("north"), 1));
}
