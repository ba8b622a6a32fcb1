//! State directories of earlier versions are migrated, or refused if they are damaged.

use std::fs;

use hsched_engine::store::StateDir;
use hsched_engine::{AfterStop, Keeper, Stage, StopProgress};
use hsched_model::{JobId, Time};
use tempfile::TempDir;

use crate::damage::{files, flip, peek, submitted};
use crate::state_round_trip::{anonymous, rules};
use hsched_fixtures::engine_states::only;

/// A state directory of the first version: one job is being submitted; hsched was killed after Slurm's answer
/// and, once before that, in the middle of a line.
fn before() -> TempDir {
    let folder = tempfile::tempdir().expect("a directory");
    let state = r#"{"schema": "hsched.state/1", "seq": 3, "cluster": "north", "decided": 8371240117412073, "nodes_down": ["t1"],
  "jobs": [{
    "spec": {"name": "a", "command": "train", "epochs": 5, "global_batch": 8, "samples_per_epoch": 100, "model_size": "0B",
             "throughput": {"v100": 3.5}, "workdir": "/home/me"},
    "phase": "meant",
    "attempt": {"run": "r1", "job_id": null, "submit_time": null, "meant": 1790000000.5, "started": null, "missing": null,
                "reason": null, "odd": null, "epoch_s": 28.5, "communication_s": 0.0, "epochs_before": 0,
                "ranks": [{"node": "v1", "type": "v100", "local_rank": 0, "batch": 8, "samples": 100}],
                "gpus": {"v1": {"v100": 1}}},
    "epochs_done": 0, "failures": 0, "fruitless": 0, "epoch_s": null, "epoch_at": null, "added": 1790000000.5,
    "last": [1790000000.5, "to be submitted on 1 v100"], "stray": null, "past": []
  }]
}
"#;
    let journal = r#"{"seq":1,"at":1790000000.5,"event":"added","job":"a","restart":false}
{"seq":2,"at":1790000000.5,"action":"sub
{"seq":2,"at":1790000000.5,"event":"node_down","node":"t1","reason":null}
{"seq":3,"at":1790000000.5,"action":"submit","gpus":"1 v100","job":"a","run":"r1"}
{"seq":4,"at":1790000001.5,"event":"submitted","job":"a","job_id":17,"run":"r1"}
{"seq":5,"at":1790000002.5,"event":"sto"#;
    for (name, text) in [("state.json", state), ("journal", journal)] {
        fs::write(folder.path().join(name), text).expect("a file");
    }
    folder
}

#[test]
fn a_state_of_the_version_before_is_taken_over() {
    let folder = before();
    let root = folder.path();
    let (state, troubles) = peek(root).expect("reads");
    assert_eq!((troubles, state.decided), (Vec::new(), None));
    let attempt = only(&state.jobs[0].phase, "pending");
    assert_eq!((attempt.job_id, state.nodes_down.len()), (Some(JobId(17)), 1));
    let text = fs::read(root.join("state.json")).expect("a file");
    // Read-only commands see the state without changing it.
    assert_eq!(files(root)["state.json"], text);

    let directory = StateDir::open(root).expect("opens");
    let (read, mut ledger) = directory.ledger(&rules(), Time(3.0)).expect("reads");
    assert_eq!((anonymous(read), ledger.repaired()), (state.clone(), &[] as &[String]));
    ledger.claim(Time(3.0), &state, "north").expect("the same cluster");
    ledger.claim(Time(3.0), &state, "south").expect_err("another one");
    drop(ledger);
    assert_eq!(peek(root).expect("reads"), (state.clone(), Vec::new()));
    assert_eq!(files(root)["state.json.old"], text);
    assert!(String::from_utf8_lossy(&files(root)["journal.old"]).contains("\"job_id\":17"));
    flip(&root.join("state.json"), |bit| {
        let (recovered, troubles) = peek(root).expect("recovers");
        assert_eq!((&recovered, troubles.len()), (&state, 1), "bit {bit}: {troubles:?}");
    });
}

#[test]
fn a_dry_run_reads_the_same_and_stores_nothing() {
    let folder = before();
    let root = folder.path();
    // Except in a dry run, the first claim of a state without a known cluster is stored.
    let text = fs::read_to_string(root.join("state.json")).expect("a file");
    fs::write(root.join("state.json"), text.replace(r#""cluster": "north", "#, "")).expect("a file");
    fs::write(root.join("throughput.json"), "{").expect("a file");
    let (seen, troubles) = peek(root).expect("reads");
    let directory = StateDir::open(root).expect("opens");
    let files_before = files(root);
    let (mut state, mut ledger) = directory.dry_ledger(&rules()).expect("reads");
    assert_eq!((anonymous(state.clone()), ledger.repaired()), (seen, &troubles[..]));
    assert_eq!(troubles.len(), 1);
    ledger.claim(Time(3.0), &state, "north").expect("the first one");
    ledger.claim(Time(3.0), &state, "south").expect_err("another one");
    state.jobs.clear();
    ledger.keep(Time(3.0), &state, &[], &[]).expect("does nothing");
    ledger.add(Time(3.0), &submitted("a", 18)).expect("does nothing");
    ledger.take(Time(3.0), &state, &[], &[]).expect("does nothing");
    assert_eq!(files(root), files_before);
}

#[test]
fn what_the_version_before_left_damaged_is_refused() {
    let folder = before();
    let root = folder.path();
    fs::write(root.join("state.json"), "{").expect("a file");
    let error = peek(root).expect_err("nothing to go by").to_string();
    assert!(error.contains("\n  journal is damaged (line 1 does not match its checksum, line 2 "), "{error}");
}

/// A job in the format of the version without copies.
fn job_before(name: &str, phase: &str) -> String {
    format!(
        r#"{{"spec": {{"name": "{name}", "command": "train", "epochs": 5, "global_batch": 8, "samples_per_epoch": 100, "model_size": "0B",
                 "throughput": {{"v100": 3.5}}, "workdir": "/home/me"}},
        {phase},
        "attempt": {{"run": "r1", "job_id": 17, "submit_time": "2026-09-21T10:00:00", "meant": 1790000000.5, "started": 1790000009.5,
                    "missing": null, "epoch_s": 28.5, "epochs_before": 0,
                    "ranks": [{{"node": "v1", "type": "v100", "local_rank": 0, "batch": 8, "samples": 100}}],
                    "gpus": {{"v1": {{"v100": 1}}}}}},
        "epochs_done": 1, "failures": 0, "fruitless": 0, "epoch_s": 28.5, "added": 1790000000.5, "last": [1790000009.5, "x"], "past": []}}"#
    )
}

#[test]
fn a_state_with_one_submission_a_job_goes_on() {
    let stopping = r#""phase": "stopping", "since": 1790000050.5"#;
    let jobs = [
        job_before("a", r#""phase": "meant""#),
        job_before("b", r#""phase": "pending""#),
        job_before("c", r#""phase": "running""#),
        job_before("d", &format!(r#"{stopping}, "cancel": true, "request": "killed""#)),
        job_before("e", &format!(r#"{stopping}, "cancel": false, "request": "asked""#)),
        job_before("f", &format!(r#"{stopping}, "cancel": false, "finish": true, "request": "meant""#)),
    ];
    let jobs = jobs.join(",\n");
    let folder = tempfile::tempdir().expect("a directory");
    let text = format!(
        "{{\"schema\": \"hsched.state/2\", \"seq\": 3, \"decided\": 12, \"nodes_down\": [],\n\"jobs\": [{jobs}],\n\"sha256\": \"edited\"\n}}\n"
    );
    fs::write(folder.path().join("state.json"), text).expect("a file");
    let (state, _) = peek(folder.path()).expect("reads");
    let stages = state.jobs.iter().map(|job| only(&job.phase, job.phase.word()).job_id.expect("an id"));
    assert_eq!(stages.collect::<Vec<JobId>>(), [JobId(17); 6]);
    let since = Time(1_790_000_050.5);
    let stopping = |then, request| Stage::Stopping { since, then, request };
    let stages: Vec<Stage> = state.jobs.iter().map(|job| job.phase.submissions()[0].stage).collect();
    assert_eq!(
        stages,
        [
            Stage::Meant,
            Stage::Pending,
            Stage::Running,
            stopping(AfterStop::Cancel, StopProgress::Killed),
            stopping(AfterStop::GoOn, StopProgress::Asked),
            stopping(AfterStop::Finish, StopProgress::Meant),
        ]
    );
    let directory = StateDir::open(folder.path()).expect("opens");
    let (read, mut ledger) = directory.ledger(&rules(), Time(3.0)).expect("reads");
    ledger.keep(Time(3.0), &read, &[], &[]).expect("keeps");
    drop(ledger);
    assert_eq!(peek(folder.path()).expect("reads").0, state);
}
