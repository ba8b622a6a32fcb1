//! Jobs on a real Slurm that are asked to stop before they are done, and whose commands return 0 anyway.

use serde_json::Value;

use crate::real_user::{job, user, wait_for};

/// The ways in which Slurm asks a job to stop: a signal to the batch shell alone, as at a time limit; a
/// signal to its ranks alone, as by `scancel --signal`; and SIGTERM to the ranks, as in the grace time of a
/// preemption.
const WAYS: [(&str, &[&str]); 3] =
    [("batch", &["--signal=USR1", "--batch"]), ("ranks", &["--signal=USR1"]), ("term", &["--signal=TERM"])];

#[test]
fn a_job_that_is_asked_to_stop_in_any_way_waits_again_and_is_not_completed() {
    let Some(user) = user("interrupted", "mech") else { return };
    let silent = |(name, _): &(&str, &[&str])| {
        let mut job =
            job(name, 1, &format!("trap : TERM; bash -c ': >up-{name}; exec sleep 600'; echo evaluated"));
        (job["epochs"], job["retries"]) = (20.into(), 0.into());
        job.as_object_mut().expect("a job").remove("checkpoint");
        job
    };
    let _ = user.plan_over(&["b1 {v100: 2}", "a1 {t4: 2}"], &WAYS.iter().map(silent).collect::<Vec<_>>());
    let ids = user.submit(&["plan.json"]);
    for (name, options) in WAYS {
        wait_for("the command", || user.folder.join(format!("up-{name}")).exists().then_some(()));
        user.ask("scancel", &[options, &[&ids[name]]].concat());
        let ended = user.ended(&ids[name]);
        assert_eq!((ended.states[0].as_str(), ended.exit.as_str()), ("FAILED", "85:0"), "{name}");
        let output = user.read(format!("{name}.out"));
        assert!(
            output.contains("evaluated\n") && output.contains("hsched: interrupted after epoch 0 of 20"),
            "{output}"
        );
    }
    let turn = user.hsched(&["watch", "--once", "--format", "json", "--set", "retry_delay=1h"]);
    assert_eq!(turn.code, Some(0), "{}{}", turn.stdout, turn.stderr);
    let status = user.hsched(&["status", "--format", "json"]);
    assert!(!turn.stdout.contains("completed"), "{}", turn.stdout);
    let status: Value = serde_json::from_str(&status.stdout).expect("JSON");
    for job in status["jobs"].as_array().expect("jobs") {
        assert_eq!((&job["state"], &job["failures"]), (&"waiting".into(), &0.into()), "{job}");
        assert_eq!(job["runs"][0]["end"], "was interrupted", "{job}");
        assert!(!job.to_string().contains("completed"), "{job}");
    }
}
