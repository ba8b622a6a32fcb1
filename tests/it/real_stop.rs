//! The stop protocol: every rank gets the signal and saves, and the job resumes where it stopped.

use serde_json::{Value, json};

use crate::real_user::{Ended, TestUser, job, stand_in, user, wait_for};

/// A rank that reports the signal, takes a while to save, and reports that it has saved.
const SAVER: &str = r#"exec bash -c 'trap "echo stopping >stopped/$HSCHED_JOB-$RANK; sleep 0.$RANK; exit 85" USR1
echo up >up/$HSCHED_JOB-$RANK; for i in $(seq 600); do sleep 0.1 & wait; done'"#;

fn count(user: &TestUser<'_>, folder: &str, job: &str) -> usize {
    let entries = std::fs::read_dir(user.folder.join(folder)).expect("the folder");
    let names = entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("UTF-8"));
    names.filter(|name| name.starts_with(job)).count()
}

fn stopped(components: usize) -> Ended {
    Ended { states: vec!["FAILED".to_owned(); components], exit: "85:0".to_owned() }
}

/// A job is stopped at its time limit; in the meantime, others are stopped by hand.
#[test]
fn a_stop_reaches_every_rank_and_the_training_goes_on_from_there() {
    let Some(user) = user("stop", "mech") else { return };
    for folder in ["up", "stopped"] {
        std::fs::create_dir(user.folder.join(folder)).expect("a folder");
    }
    let (mut limit, mut saver) = (job("limit", 2, SAVER), job("saver", 3, SAVER));
    // The limit is a minute, of which the last 40 s are for saving; Slurm checks only every half minute.
    limit["time"] = "60s".into();
    limit["checkpoint"]["grace"] = "40s".into();
    saver["samples_per_epoch"] = 60_000.into();
    let mut training = job("training", 3, "");
    training["command"] = stand_in(180).into();
    training["samples_per_epoch"] = 180.into();
    training["epochs"] = 22.into();
    let nodes = ["b1 {v100: 2}", "b2 {v100: 2}", "a1 {t4: 2}", "c1 {p100: 2}"];
    let _ = user.plan_over(&nodes, &[limit, saver, training]);
    let ids = user.submit(&["plan.json", "--run-id", "1"]);
    assert_eq!(user.field(&ids["limit"], "TimeLimit")[0], "00:01:00");

    wait_for("ranks of saver", || (count(&user, "up", "saver") == 3).then_some(()));
    user.ask("scancel", &["--signal=USR1", "--batch", &ids["saver"]]);
    stop_and_go_on(&user, &ids["training"]);

    let parts = user.field(&ids["saver"], "JobState").len();
    assert_eq!(user.ended(&ids["saver"]), stopped(parts), "{}", user.read("saver.out"));
    assert_eq!(count(&user, "stopped", "saver"), 3);
    let parts = user.field(&ids["limit"], "JobState").len();
    assert_eq!(user.ended(&ids["limit"]), stopped(parts), "{}", user.read("limit.out"));
    // Slurm may send the signal a whole minute early, before the ranks have started; the ranks then do not
    // start.
    assert_eq!(count(&user, "stopped", "limit"), count(&user, "up", "limit"));
    assert!(user.read("limit.out").contains("hsched: stop requested"), "{}", user.read("limit.out"));
    // The ranks report that they saved, but wrote no checkpoint.
    let said = "hsched: interrupted after epoch 0 of 1: it finished no epoch and wrote no checkpoint";
    assert!(user.read("saver.out").contains(said), "{}", user.read("saver.out"));
}

/// Stops a job after at least one epoch and submits it again; it resumes where it stopped.
fn stop_and_go_on(user: &TestUser<'_>, first: &str) {
    let epochs = || user.reports("training").first().map_or(0, Vec::len);
    wait_for("an epoch of training", || (epochs() > 0).then_some(()));
    user.ask("scancel", &["--signal=USR1", "--batch", first]);
    let parts = user.field(first, "JobState").len();
    assert_eq!(user.ended(first), stopped(parts), "{}", user.read("training.out"));
    let done = epochs();
    assert!((1..22).contains(&done), "{done} epochs");

    let id = user.submit(&["plan.json", "-j", "training", "--run-id", "again"])["training"].clone();
    let before = format!("hs_epochs_done={done}\n");
    assert!(user.read("state/runs/again/training.sbatch").contains(&before), "{done} epochs");
    let ended = user.ended(&id);
    assert!(ended.completed(), "{ended:?}: {}", user.read("training.out"));
    for (rank, lines) in user.reports("training").iter().enumerate() {
        let epochs: Vec<&Value> = lines.iter().map(|line| &line["epoch"]).collect();
        let all: Vec<Value> = (1..=22).map(|epoch| json!(epoch)).collect();
        assert_eq!(epochs, all.iter().collect::<Vec<_>>(), "rank {rank}: {}", user.read("training.out"));
    }
    let status = user.hsched(&["status", "training", "--format", "json"]);
    let status: Value = serde_json::from_str(&status.stdout).expect("JSON");
    let job = &status["jobs"][0];
    // Slurm has not been called since then, so the progress is from the reports on disk.
    assert_eq!((&job["state"], &job["epochs_done"]), (&json!("running"), &json!(22)), "{job}");
    assert_eq!([&job["runs"][0]["epochs_done"], &job["runs"][1]["epochs_done"]], [done, 22 - done], "{job}");
    assert_eq!(job["runs"][0]["end"], "saved a checkpoint", "{job}");
}
