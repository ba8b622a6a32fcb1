//! What stops and time limits mean for a job on tiny states: which cost a retry, which limit comes next, and which ends are believed.

use hsched::engine::{Attempt, End, News, PastAttempt, Realm, Request, Rules, Stage, Then, Tracked, apply};
use hsched::model::{Seconds, Time};

use crate::engine_states::{attempt, heard, job, phase, rules, running, state};

/// The retries that a job with one has used after each of so many limit cuts without a new epoch.
fn retries_used(end: &End, rules: &Rules, cuts: usize) -> Vec<u32> {
    let mut state = state(vec![Tracked::new(job("a", "{v100: 100}", ", retries: 1"), Time(0.0))]);
    let cut = |number: usize| {
        let run = format!("r{number}");
        state.jobs[0].phase = phase(attempt(&run, "v1", "v100", 1, 0), Stage::Running);
        let news = News::Ended { end: end.clone(), at: Time(50.0) };
        apply(&mut state, Time(60.0), &heard("a", &run, news), rules);
        state.jobs[0].failures
    };
    (0..cuts).map(cut).collect()
}

#[test]
fn three_limit_cuts_without_an_epoch_use_no_retry_and_each_further_one_does() {
    for end in [End::Saved, End::TimedOut, End::Interrupted] {
        assert_eq!(retries_used(&end, &rules(), 5), [0, 0, 0, 1, 2], "{end}");
    }
    let here = Rules { realm: Realm::Devices, ..rules() };
    assert_eq!(retries_used(&End::Interrupted, &here, 9), [0; 9]);
}

#[test]
fn a_limit_that_cut_a_job_before_an_epoch_is_doubled_and_kept_until_its_epochs_are_known() {
    let past = |end: End, minutes: f64, epochs: u64| PastAttempt {
        attempt: Attempt { limit: Some(Seconds(60.0 * minutes)), ..attempt("r", "v1", "v100", 1, 0) },
        ended: Time(50.0),
        end,
        epochs,
    };
    let least = |past: Vec<PastAttempt>, epoch: Option<f64>| {
        let epoch = epoch.map(Seconds);
        let tracked = Tracked { past, epoch, ..Tracked::new(job("a", "{v100: 100}", ""), Time(9.0)) };
        tracked.least_limit().map(|limit| limit.0 / 60.0)
    };
    let cut = || past(End::Interrupted, 15.0, 0);
    assert_eq!(least(vec![], None), None);
    assert_eq!(least(vec![cut()], None), Some(30.0));
    assert_eq!(least(vec![cut(), past(End::TimedOut, 30.0, 0)], Some(5.0)), Some(60.0));
    assert_eq!(least(vec![past(End::Failed { exit: 1, signal: 0 }, 15.0, 0)], None), None);
    // It got ahead in 30 min, though not so far that the length of an epoch is known.
    assert_eq!(least(vec![cut(), past(End::Saved, 30.0, 1)], None), Some(30.0));
    assert_eq!(least(vec![cut(), past(End::Saved, 30.0, 2)], Some(600.0)), None);
    // What was before the job was added again is another job's.
    let before = PastAttempt { ended: Time(8.0), ..cut() };
    assert_eq!(least(vec![before], None), None);
}

#[test]
fn exit_status_0_of_a_run_that_was_asked_to_stop_proves_nothing_without_the_last_epoch() {
    let asked = |request: Request, then: Then, done: u64| {
        let stage = Stage::Stopping { since: Time(40.0), then, request };
        let attempt = attempt("r", "v1", "v100", 1, 0);
        let tracked = Tracked {
            phase: phase(attempt, stage),
            ..running(job("a", "{v100: 100}", ""), self::attempt("r", "v1", "v100", 1, 0), done)
        };
        let mut state = state(vec![tracked]);
        let news = News::Ended { end: End::Completed, at: Time(50.0) };
        apply(&mut state, Time(60.0), &heard("a", "r", news), &rules());
        let job = state.jobs.remove(0);
        (job.phase.word(), job.past.last().expect("an attempt").end.clone())
    };
    for request in [Request::Asked, Request::Killed] {
        assert_eq!(asked(request, Then::GoOn, 9), ("waiting", End::Interrupted));
        assert_eq!(asked(request, Then::Cancel, 0), ("cancelled", End::Interrupted));
        assert_eq!(asked(request, Then::GoOn, 10), ("completed", End::Completed));
    }
    // Slurm has not heard the request yet.
    assert_eq!(asked(Request::Meant, Then::GoOn, 0), ("completed", End::Completed));
}
