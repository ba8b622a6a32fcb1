//! Jobs of scripts: observations and their meaning.

use std::collections::BTreeSet;

use hsched_engine::{
    Answer, End, Event, News, Observation, Outcome, QueueState, Rules, ScriptFacts, ScriptJob,
    ScriptSighting, ScriptSubmission, Sighting, State, apply, notice,
};
use hsched_fixtures::engine_states::{look, rules};
use hsched_model::{JobId, JobName, Time};

/// Returns a state with a script that is about to be submitted.
fn state() -> State {
    let name = JobName::new("train.sh").expect("a name");
    let script = ScriptJob {
        slurm_name: name.to_string(),
        script: "/home/ann/train.sh".into(),
        submitted_in: "/home/ann".into(),
        workdir: "/home/ann".into(),
        options: Vec::new(),
        comment: None,
        outputs: vec!["slurm-%j.out".into()],
        tasks: None,
        may: BTreeSet::new(),
        added: Time(0.0),
        last: (Time(0.0), String::new()),
        submission: ScriptSubmission::new("r", Time(0.0)),
        end: None,
        next: None,
        name,
    };
    State { scripts: vec![script], ..State::default() }
}

fn answer(state: &mut State, answer: Answer) {
    let of = state.scripts[0].key();
    apply(state, Time(0.0), &Event::Answer { of, answer }, &rules());
}

/// Applies an observation of the script, or of its absence; returns its state as one word.
fn see(state: &mut State, at: f64, queue_state: impl Into<Option<QueueState>>) -> &'static str {
    let of = state.scripts[0].key();
    let sighting = |state| Sighting { of, job_id: JobId(7), submit_time: None, state, reason: None };
    let scripts = queue_state
        .into()
        .map(|state| ScriptSighting { sighting: sighting(state), facts: ScriptFacts::default() });
    let seen = Observation { scripts: scripts.into_iter().collect(), ..look(at, Vec::new()) };
    for event in notice(state, &seen) {
        apply(state, Time(at), &event, &rules());
    }
    state.scripts[0].word()
}

fn running() -> QueueState {
    QueueState::Running { since: Some(Time(5.0)), gpus: None }
}

fn ended(end: End) -> QueueState {
    QueueState::Ended { end, at: Some(Time(9.0)), since: None }
}

#[test]
fn a_submission_without_an_answer_is_looked_for_and_found_later() {
    let mut state = state();
    answer(&mut state, Answer::Unclear { message: "timed out".into() });
    assert_eq!(see(&mut state, 1.0, None), "submitting");
    assert_eq!(see(&mut state, 1.0 + Rules::UNCLEAR.0, None), "failed");
    let reason = "Slurm never received it; submit it again".to_owned();
    assert_eq!(
        state.scripts[0].end.as_ref().map(|end| end.outcome.clone()),
        Some(Outcome::Failed { reason })
    );
    // Slurm lists the job after all.
    assert_eq!(see(&mut state, 200.0, QueueState::Pending), "pending");
    assert_eq!(state.scripts[0].submission.job_id, Some(JobId(7)));
}

#[test]
fn a_job_that_slurm_forgets_has_not_completed() {
    let mut state = state();
    answer(&mut state, Answer::Submitted { job_id: JobId(7) });
    assert_eq!(see(&mut state, 1.0, running()), "running");
    assert_eq!(see(&mut state, 2.0, None), "running");
    assert_eq!(see(&mut state, 2.0 + Rules::VANISHED.0, None), "failed");
    assert_eq!(state.scripts[0].last.1, "failed: is no longer known to Slurm");
}

#[test]
fn slurm_says_how_it_ended() {
    let failed = End::Failed { exit: 86, signal: 0 };
    for (end, word) in [
        (End::Completed, "completed"),
        (failed, "failed"),
        (End::TimedOut, "failed"),
        (End::Cancelled, "cancelled"),
    ] {
        let mut state = state();
        answer(&mut state, Answer::Submitted { job_id: JobId(7) });
        assert_eq!(see(&mut state, 9.0, ended(end)), word);
        // An ended job stays ended.
        assert_eq!(see(&mut state, 10.0, running()), word);
    }
}

#[test]
fn a_job_that_slurm_requeues_is_pending_again() {
    let mut state = state();
    answer(&mut state, Answer::Submitted { job_id: JobId(7) });
    assert_eq!(see(&mut state, 5.0, running()), "running");
    assert_eq!(see(&mut state, 6.0, QueueState::Pending), "pending");
    assert_eq!(state.scripts[0].submission.started, None);
    assert_eq!(see(&mut state, 7.0, running()), "running");
}

#[test]
fn a_submission_that_was_cancelled_for_another_one_is_followed_by_it_only_if_it_never_ran() {
    let pending = || {
        let mut state = state();
        answer(&mut state, Answer::Submitted { job_id: JobId(7) });
        assert_eq!(see(&mut state, 1.0, QueueState::Pending), "pending");
        state.scripts[0].submit_again(Time(2.0), vec!["-p".into(), "short".into()]);
        state
    };
    let mut state = pending();
    assert_eq!(see(&mut state, 9.0, ended(End::Cancelled)), "submitting");
    assert!(state.scripts[0].is_between() && !state.is_over());
    state.scripts[0].begin_next("s", Time(10.0));
    assert_eq!((state.scripts[0].key().run.as_str(), state.scripts[0].options.len()), ("s", 2));
    // The submission has started or ended before the request to cancel it arrived.
    for ends in [vec![running()], vec![ended(End::Completed)], vec![running(), ended(End::Cancelled)]] {
        let mut state = pending();
        for queue_state in ends {
            see(&mut state, 9.0, queue_state);
        }
        assert!(!state.scripts[0].is_between() && state.scripts[0].next.is_none());
    }
    // The user cancels the script in the meantime.
    let mut state = pending();
    let job = state.scripts[0].name.clone();
    apply(&mut state, Time(3.0), &Event::CancelAsked { job }, &rules());
    assert_eq!(state.scripts[0].due_cancel(), Some(JobId(7)));
    assert_eq!(see(&mut state, 9.0, ended(End::Cancelled)), "cancelled");
    assert!(state.is_over());
}

#[test]
fn a_cancelled_script_that_slurm_does_not_show_ends_when_it_appears() {
    let mut state = state();
    let job = state.scripts[0].name.clone();
    apply(&mut state, Time(1.0), &Event::CancelAsked { job }, &rules());
    assert_eq!((see(&mut state, 2.0, None), state.scripts[0].due_cancel()), ("stopping", None));
    assert_eq!(see(&mut state, 3.0, QueueState::Pending), "stopping");
    assert_eq!(state.scripts[0].due_cancel(), Some(JobId(7)));
    answer(&mut state, Answer::Killed);
    assert_eq!(state.scripts[0].due_cancel(), None);
    assert_eq!(see(&mut state, 4.0, ended(End::Cancelled)), "cancelled");
}

#[test]
fn estimates_of_a_start_that_hardly_differ_are_no_news() {
    let mut state = state();
    answer(&mut state, Answer::Submitted { job_id: JobId(7) });
    let mut events = |expected_start: f64| {
        let of = state.scripts[0].key();
        let facts = ScriptFacts { expected_start: Some(Time(expected_start)), ..ScriptFacts::default() };
        let sighting =
            Sighting { of, job_id: JobId(7), submit_time: None, state: QueueState::Pending, reason: None };
        let seen = Observation { scripts: vec![ScriptSighting { sighting, facts }], ..look(1.0, Vec::new()) };
        let events = notice(&state, &seen);
        for event in &events {
            apply(&mut state, Time(1.0), event, &rules());
        }
        events.iter().filter(|event| matches!(event, Event::News { news: News::Facts(_), .. })).count()
    };
    assert_eq!([events(1000.0), events(1030.0), events(1100.0)], [1, 0, 1]);
}
