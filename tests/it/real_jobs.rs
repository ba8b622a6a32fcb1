//! Jobs of a real Slurm from the user's view: reports from inside, status, cancelling, adding again.

use std::fs;

use serde_json::Value;

use crate::real_user::{TestUser, job, user, wait_for};
use crate::sandbox::mode;

fn status(user: &TestUser<'_>) -> Value {
    let done = user.hsched(&["status", "--format", "json"]);
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    serde_json::from_str(&done.stdout).expect("JSON")
}

#[test]
fn reports_are_counted_and_a_cancelled_job_goes_on() {
    let Some(user) = user("owner", "mech") else { return };
    let hsched = env!("CARGO_BIN_EXE_hsched");
    let report = format!("{hsched} report --epoch $epoch --compute-s 0.5 --metric loss=0.7");
    let mut job =
        job("owner", 2, &format!("for epoch in 1 2 3; do {report} || exit 9; done; exec sleep 600"));
    job["epochs"] = 9.into();
    let plan = user.plan_over(&["b1 {v100: 1}", "a1 {t4: 1}"], &[job]);
    let id = user.submit(&["plan.json"])["owner"].clone();
    wait_for("three epochs", || (status(&user)["jobs"][0]["epochs_done"] == 3).then_some(()));

    wait_for("both ranks", || user.reports("owner").get(1).filter(|lines| lines.len() == 3).map(drop));
    let planned = &plan["jobs"][0]["ranks"];
    for (rank, lines) in user.reports("owner").iter().enumerate() {
        let line = &lines[2];
        assert_eq!((&line["epoch"], &line["rank"]), (&3.into(), &rank.into()), "{line}");
        assert_eq!([&line["samples"], &line["batch"]], [&planned[rank]["samples"], &planned[rank]["batch"]]);
        assert_eq!([&line["compute_s"], &line["metrics"]["loss"]], [0.5, 0.7], "{line}");
    }
    let run = fs::read_dir(user.folder.join("state/runs")).expect("runs").next().expect("one").expect("one");
    let modes = ["", "report", "report/owner"].map(|folder| mode(&run.path().join(folder)));
    assert_eq!(modes, [0o700; 3]);
    // The user's own files have the usual permissions.
    fs::create_dir(user.folder.join("own")).expect("a folder");
    assert_eq!(mode(&user.folder.join("checkpoints/owner")), mode(&user.folder.join("own")));
    user.running(&id);
    let done = user.hsched(&["cancel", "owner"]);
    assert_eq!(done.stdout, format!("owner: cancelling (job {id})\n"), "{}", done.stderr);
    let ended = user.ended(&id);
    assert!(ended.states.iter().all(|state| state == "CANCELLED"), "{ended:?}");

    assert_eq!(status(&user)["jobs"][0]["state"], "stopping", "nobody has asked Slurm since");
    let done = user.hsched(&["add", "jobs.yaml"]);
    assert!(
        done.stdout.starts_with("owner: added again (previous run: cancelled); resumes after epoch 3 of 9\n"),
        "{}",
        done.stdout
    );
    let job = &status(&user)["jobs"][0];
    assert_eq!((&job["state"], &job["epochs_done"]), (&"waiting".into(), &3.into()), "{job}");
}
