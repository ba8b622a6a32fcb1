//! Failures that do not count because their node turns out to have been down.

use hsched_engine::{End, Event, JobState, News, Outcome, PastAttempt, Phase, apply};
use hsched_model::{Availability, JobName, NodeName, Time};

use hsched_fixtures::engine_states::{attempt, job, rules, running, state};
#[test]
fn all_tries_on_a_node_are_excused_that_failed_shortly_before_it_was_seen_to_be_down() {
    let mut tracked = running(job("a", "{v100: 100}", ", retries: 3"), attempt("r", "v1", "v100", 2, 0), 3);
    let past = |ended: f64, node: &str, end: End| PastAttempt {
        attempt: attempt("r0", node, "v100", 2, 0),
        ended: Time(ended),
        end,
        epochs: 0,
    };
    let failed = || End::Failed { exit: 1, signal: 0 };
    tracked.past = vec![
        past(100.0, "v1", failed()),
        past(900.0, "v1", failed()),
        past(950.0, "v2", failed()),
        past(960.0, "v1", End::TimedOut),
    ];
    tracked.failures = 3;
    let mut state = state(vec![tracked]);
    let down = Event::NodeDown {
        node: NodeName::new("v1").expect("a name"),
        state: Availability::Down,
        reason: None,
    };
    apply(&mut state, Time(1000.0), &down, &rules());
    let ends: Vec<&End> = state.jobs[0].past.iter().map(|past| &past.end).collect();
    assert_eq!(ends, [&failed(), &End::NodeFailed, &failed(), &End::TimedOut]);
    assert_eq!(state.jobs[0].failures, 2);
    assert!(state.jobs[0].phase.is_submitted(), "{:?}", state.jobs[0].phase);
}

#[test]
fn a_failure_on_a_reserved_node_counts_until_the_node_fails_too() {
    let node = || NodeName::new("v1").expect("a name");
    let down = |state| Event::NodeDown { node: node(), state, reason: None };
    let end = |reserved: &[Availability]| {
        let attempt = attempt("r", "v1", "v100", 2, 0);
        let of = attempt.key(&JobName::new("a").expect("a name"));
        let mut state = state(vec![running(job("a", "{v100: 100}", ", retries: 3"), attempt, 3)]);
        for availability in reserved {
            apply(&mut state, Time(10.0), &down(*availability), &rules());
        }
        let news = News::Ended { end: End::Failed { exit: 1, signal: 0 }, at: Time(20.0) };
        apply(&mut state, Time(20.0), &Event::News { of, news }, &rules());
        state.jobs[0].failures
    };
    assert_eq!(end(&[Availability::Reserved]), 1);
    assert_eq!(end(&[Availability::Reserved, Availability::Down]), 0);
}

/// Returns a job after node v1 is found down at 1000. The job failed at these times on these nodes; the last
/// failure ended it for good.
fn excused(retries: u32, added: f64, failures: u32, ends: &[(f64, &str)]) -> JobState {
    let spec = job("a", "{v100: 100}", &format!(", retries: {retries}"));
    let mut tracked = JobState::new(spec, Time(added));
    tracked.past = ends
        .iter()
        .map(|&(ended, node)| PastAttempt {
            attempt: attempt("r0", node, "v100", 2, 0),
            ended: Time(ended),
            end: End::Failed { exit: 1, signal: 0 },
            epochs: 0,
        })
        .collect();
    tracked.failures = failures;
    tracked.phase =
        Phase::Ended { at: Time(990.0), outcome: Outcome::Failed { reason: "no retries left".into() } };
    let mut state = state(vec![tracked]);
    let node = NodeName::new("v1").expect("a name");
    apply(
        &mut state,
        Time(1000.0),
        &Event::NodeDown { node, state: Availability::Down, reason: None },
        &rules(),
    );
    state.jobs.remove(0)
}

#[test]
fn a_failure_from_before_a_job_was_added_again_is_not_taken_back() {
    let tracked = excused(1, 950.0, 2, &[(900.0, "v1"), (960.0, "v2"), (990.0, "v2")]);
    assert_eq!(tracked.failures, 2);
    assert!(tracked.phase.is_over(), "{:?}", tracked.phase);
    // A failure on v1 itself, the last one, is not taken back either.
    let tracked = excused(0, 995.0, 1, &[(990.0, "v1")]);
    assert!(tracked.failures == 1 && tracked.phase.is_over(), "{:?}", tracked.phase);
}

#[test]
fn a_job_that_failed_waits_again_when_an_earlier_failure_is_excused() {
    let tracked = excused(1, 0.0, 2, &[(960.0, "v1"), (990.0, "v2")]);
    assert_eq!(tracked.failures, 1);
    assert!(matches!(tracked.phase, Phase::Waiting { .. }), "{:?}", tracked.phase);
    assert_eq!(tracked.last.1, "node v1 is down, so the failure there does not count; last retry");
    // With one more failure, one excuse is not enough.
    let tracked = excused(1, 0.0, 3, &[(960.0, "v1"), (970.0, "v2"), (990.0, "v2")]);
    assert_eq!(tracked.failures, 2);
    assert!(tracked.phase.is_over(), "{:?}", tracked.phase);
}
