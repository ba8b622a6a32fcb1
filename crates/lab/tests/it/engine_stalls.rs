//! The handling of stuck jobs: they are reported once and ended if the user requests it; harmless pauses
//! are remembered.

use hsched_engine::{
    Action, AfterStop, End, Event, News, Observation, Outcome, Phase, QueueState, Stage, Stall, StallKind,
    State, apply, notice,
};
use hsched_model::{Cluster, Seconds, Time};

use hsched_engine::JobState;
use hsched_fixtures::engine_states::{
    attempt, heard, job, key, look, phase, planner, policy, rules, sighting, state,
};
use hsched_plan::Moves;

fn stall(kind: StallKind, seen: f64) -> Stall {
    Stall { kind, since: Time(100.0), seen: Time(seen), ranks: vec![0], cause: None }
}

/// A running job with this rule.
fn stuck(rule: &str) -> State {
    let keys = format!(", retries: 1, stuck: {rule}");
    let mut record = attempt("r", "v1", "v100", 2, 0);
    record.started = Some(Time(1.0));
    record.job_id = Some(hsched_model::JobId(7));
    let tracked = JobState {
        phase: phase(record, Stage::Running),
        ..JobState::new(job("a", "{v100: 100}", &keys), Time(0.0))
    };
    state(vec![tracked])
}

/// Observes a stall or none; returns the stalls in the new events.
fn seen(state: &State, at: f64, stall: Option<Stall>) -> Vec<Option<Stall>> {
    let running = QueueState::Running { since: Some(Time(1.0)), gpus: None };
    let stalls = stall.map(|stall| (key("a", "r"), stall)).into_iter().collect();
    let seen = Observation { stalls, ..look(at, vec![sighting(7, running)]) };
    let stalled = |event: Event| match event {
        Event::News { news: News::Stalled(stall), .. } => Some(stall),
        _ => None,
    };
    notice(state, &seen).into_iter().filter_map(stalled).collect()
}

#[test]
fn a_stall_is_news_when_it_begins_and_when_it_ends() {
    let mut state = stuck("warn");
    let idle = |at| Some(stall(StallKind::Idle, at));
    assert_eq!(seen(&state, 700.0, None), []);
    assert_eq!(seen(&state, 700.0, idle(700.0)), [idle(700.0)]);
    let news = heard("a", "r", News::Stalled(idle(700.0)));
    apply(&mut state, Time(700.0), &news, &rules());
    assert_eq!(seen(&state, 730.0, idle(730.0)), []);
    assert_eq!(seen(&state, 730.0, Some(stall(StallKind::NoStep, 730.0))).len(), 1);
    assert_eq!(seen(&state, 760.0, None), [None]);
    apply(&mut state, Time(760.0), &heard("a", "r", News::Stalled(None)), &rules());
    // A later pause of the same length is harmless.
    assert_eq!(state.jobs[0].pause, Some(Seconds(660.0)));
}

#[test]
fn the_rule_of_a_job_says_what_becomes_of_it() {
    for (rule, ends) in [("warn", None), ("stop", Some("failed")), ("restart", Some("waiting"))] {
        let before = stuck(rule);
        let news = heard("a", "r", News::Stalled(Some(stall(StallKind::NoStep, 820.0))));
        let mut policy = policy(Moves::Never);
        let step = hsched_engine::step(
            before,
            Time(820.0),
            &[news],
            &Cluster::default(),
            &rules(),
            &mut planner(policy.as_mut()),
        );
        let stops: Vec<&String> = step
            .actions
            .iter()
            .filter_map(|action| if let Action::Stop { why, .. } = action { Some(why) } else { None })
            .collect();
        let Some(word) = ends else {
            assert_eq!(stops, Vec::<&String>::new());
            continue;
        };
        assert_eq!(stops, ["no step for 12 min: hangs in all-reduce?"]);
        let mut after = step.state;
        let stage = after.jobs[0].phase.submissions()[0].stage;
        assert!(matches!(stage, Stage::Stopping { then: AfterStop::Stalled, .. }), "{stage:?}");
        let ended = News::Ended { end: End::Cut, at: Time(900.0) };
        apply(&mut after, Time(900.0), &heard("a", "r", ended), &rules());
        let tracked = &after.jobs[0];
        assert_eq!((tracked.phase.word(), tracked.failures), (word, u32::from(rule == "restart")));
        if let Phase::Ended { outcome, .. } = &tracked.phase {
            let reason = "stopped: no step for 12 min: hangs in all-reduce?".to_owned();
            assert_eq!(*outcome, Outcome::Failed { reason });
        }
    }
}
