//! The meaning of stops and time limits on tiny states: the ends that cost a retry, the next time limit, and
//! the ends that are accepted.

use hsched_engine::{
    AfterStop, Answer, BackendKind, End, JobState, News, PastAttempt, Rules, Stage, StopProgress,
    SubmissionRecord, apply,
};
use hsched_model::{Seconds, Time};

use hsched_fixtures::engine_states::{answered, attempt, heard, job, phase, rules, running, state};

/// Lets runs of a job with one retry end in these ways, one after the other and without an epoch; returns the
/// job, and its used retries after each run.
fn after(ends: &[End]) -> (JobState, Vec<u32>) {
    let mut state = state(vec![JobState::new(job("a", "{v100: 100}", ", retries: 1"), Time(0.0))]);
    let used = ends.iter().enumerate().map(|(number, end)| {
        let run = format!("r{number}");
        state.jobs[0].phase = phase(attempt(&run, "v1", "v100", 1, 0), Stage::Running);
        let news = News::Ended { end: end.clone(), at: Time(50.0) };
        apply(&mut state, Time(60.0), &heard("a", &run, news), &rules());
        state.jobs[0].failures
    });
    let used = used.collect();
    (state.jobs.remove(0), used)
}

#[test]
fn three_limit_cuts_without_an_epoch_use_no_retry_and_each_further_one_does() {
    for end in [End::Saved, End::TimedOut, End::Cut, End::Unhandled] {
        let (tracked, used) = after(&vec![end.clone(); 5]);
        assert_eq!(used, [0, 0, 0, 1, 2], "{end}");
        assert_eq!(tracked.last.1, "failed: stopped 5 times without finishing an epoch");
    }
    // The end of hsched is no fault of the job.
    assert_eq!(after(&[const { End::Interrupted }; 9]).1, [0; 9]);
}

#[test]
fn a_failure_ends_a_row_of_limit_cuts_and_is_the_reason_that_is_given() {
    let failed = || End::Failed { exit: 1, signal: 0 };
    let (tracked, used) = after(&[End::Cut, End::Cut, End::Cut, failed(), failed()]);
    assert_eq!(used, [0, 0, 0, 1, 2]);
    assert_eq!(tracked.last.1, "failed with exit status 1 (2 failures, no retries left)");
    let (_, used) = after(&[End::Cut, End::Cut, failed(), End::Cut, End::Cut, End::Cut]);
    assert_eq!(used, [0, 0, 1, 1, 1, 1]);
}

#[test]
fn a_refused_start_after_a_limit_cut_is_the_reason_that_is_given() {
    let mut state = state(vec![after(&[End::Cut]).0]);
    for run in ["s", "t"] {
        state.jobs[0].phase = phase(attempt(run, "v1", "v100", 1, 0), Stage::Meant);
        let refused = Answer::Refused { message: "no such directory".to_owned() };
        apply(&mut state, Time(70.0), &answered("a", run, refused), &rules());
    }
    let expected = "failed: refused by Slurm: no such directory (2 failures, no retries left)";
    assert_eq!(state.jobs[0].last.1, expected);
}

#[test]
fn a_run_that_was_asked_to_stop_teaches_no_speed() {
    let learns = |stage: Stage, tells_stops: bool, ended: f64| {
        let limit = Some(Seconds(3600.0));
        let submission = SubmissionRecord {
            started: Some(Time(0.0)),
            tells_stops,
            limit,
            ..attempt("r", "v1", "v100", 1, 0)
        };
        let tracked = JobState {
            phase: phase(submission, stage),
            ..JobState::new(job("a", "{v100: 100}", ""), Time(0.0))
        };
        let mut state = state(vec![tracked]);
        let news = News::Ended { end: End::Completed, at: Time(ended) };
        let learnt = apply(&mut state, Time(ended), &heard("a", "r", news), &rules());
        (learnt.is_some(), state.jobs[0].phase.word())
    };
    let asked = Stage::Stopping { since: Time(690.0), then: AfterStop::GoOn, request: StopProgress::Asked };
    assert_eq!(learns(Stage::Running, true, 700.0), (true, "completed"));
    assert_eq!(learns(asked, true, 700.0), (false, "waiting"));
    // Scripts of 0.1.0 also returned 0 when a limit ended them; this one ended long before its limit.
    assert_eq!(learns(Stage::Running, false, 700.0), (true, "completed"));
    assert_eq!(learns(Stage::Running, false, 3550.0), (false, "waiting"));
    assert_eq!(learns(Stage::Running, true, 3550.0), (true, "completed"));
}

#[test]
fn a_limit_that_cut_a_job_before_an_epoch_is_doubled_and_kept_until_its_epochs_are_known() {
    let past = |end: End, minutes: f64, epochs: u64| PastAttempt {
        attempt: SubmissionRecord {
            limit: Some(Seconds(60.0 * minutes)),
            meant: Time(9.0),
            started: Some(Time(0.0)),
            ..attempt("r", "v1", "v100", 1, 0)
        },
        ended: Time(60.0 * minutes),
        end,
        epochs,
    };
    let least = |past: Vec<PastAttempt>, epoch: Option<f64>| {
        let epoch = epoch.map(Seconds);
        let tracked = JobState { past, epoch, ..JobState::new(job("a", "{v100: 100}", ""), Time(9.0)) };
        tracked.least_limit().map(|limit| limit.0 / 60.0)
    };
    let cut = || past(End::Cut, 15.0, 0);
    assert_eq!(least(vec![], None), None);
    assert_eq!(least(vec![cut()], None), Some(30.0));
    assert_eq!(least(vec![cut(), past(End::TimedOut, 30.0, 0)], Some(5.0)), Some(60.0));
    assert_eq!(least(vec![past(End::Failed { exit: 1, signal: 0 }, 15.0, 0)], None), None);
    // A job that was stopped to move gives no information about its limit.
    assert_eq!(least(vec![PastAttempt { ended: Time(10.0), ..past(End::Cut, 15.0, 0) }], None), None);
    // The job made progress in 30 min, but not enough to know the length of an epoch.
    assert_eq!(least(vec![cut(), past(End::Saved, 30.0, 1)], None), Some(30.0));
    assert_eq!(least(vec![cut(), past(End::Saved, 30.0, 2)], Some(600.0)), None);
    // Attempts before the job was added again belong to another job.
    let mut before = cut();
    before.attempt.meant = Time(8.0);
    assert_eq!(least(vec![before], None), None);
}

#[test]
fn exit_status_0_of_a_run_that_was_asked_to_stop_proves_nothing_without_the_last_epoch() {
    let asked_under = |backend: BackendKind, request: StopProgress, then: AfterStop, done: u64| {
        let stage = Stage::Stopping { since: Time(40.0), then, request };
        let attempt = attempt("r", "v1", "v100", 1, 0);
        let tracked = JobState {
            phase: phase(attempt, stage),
            ..running(job("a", "{v100: 100}", ""), self::attempt("r", "v1", "v100", 1, 0), done)
        };
        let mut state = state(vec![tracked]);
        let news = News::Ended { end: End::Completed, at: Time(50.0) };
        apply(&mut state, Time(60.0), &heard("a", "r", news), &Rules { backend, ..rules() });
        let job = state.jobs.remove(0);
        (job.phase.word(), job.past.last().expect("an attempt").end.clone())
    };
    let asked = |request, then, done| asked_under(BackendKind::Queue, request, then, done);
    for request in [StopProgress::Asked, StopProgress::Killed] {
        assert_eq!(asked(request, AfterStop::GoOn, 9), ("waiting", End::Cut));
        assert_eq!(asked(request, AfterStop::Cancel, 0), ("cancelled", End::Cut));
        assert_eq!(asked(request, AfterStop::GoOn, 10), ("completed", End::Completed));
    }
    // On local devices, the job script knows whether the commands had returned before the request.
    let local = asked_under(BackendKind::Devices, StopProgress::Asked, AfterStop::GoOn, 0);
    assert_eq!(local, ("completed", End::Completed));
    // Slurm has not received the request yet.
    assert_eq!(asked(StopProgress::Meant, AfterStop::GoOn, 0), ("completed", End::Completed));
}
