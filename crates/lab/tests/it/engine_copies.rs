//! Copies of a job: the effect of a plan with several placements on existing submissions, and the meaning of
//! their ends.

use hsched_engine::{
    Action, AfterStop, Answer, End, Event, JobState, News, Observation, Outcome, Phase, Piece, QueueState,
    Sighting, Stage, State, Step, StopProgress, Submission, SubmissionKey, SubmissionRecord, apply, notice,
    step,
};
use hsched_model::Time;
use hsched_plan::{Budget, Decision, Placement, Plan, Policy, PolicyError, Problem, Sharing, Slot};

use hsched_fixtures::engine_states::{
    attempt, cluster, job, look, name, planner, rules, sighting, state, words,
};

/// Places a copy of the only job on each of these nodes, with the given number of GPUs.
struct On(Vec<(usize, u32)>);

impl Policy for On {
    fn name(&self) -> &'static str {
        "on"
    }

    fn decide(&mut self, problem: &Problem, _: &Budget<'_>) -> Result<Plan, PolicyError> {
        let placement = |&(node, count): &(usize, u32)| {
            let slot = Slot { node, gpu_type: 0, count };
            Placement::new(problem, 0, &[slot], Sharing::Balanced).expect("a legal one")
        };
        let placements = self.0.iter().map(placement).collect();
        let decision = Decision::Place { placements, queued: false, why: "so it shall be".to_owned() };
        Ok(Plan { changes: vec![(0, decision)], ..Plan::default() })
    }
}

/// A job with a copy on one V100 of each of these nodes.
fn copies(nodes: &[&str]) -> State {
    let copy = |(copy, node): (u32, &&str)| {
        let attempt = SubmissionRecord { copy, started: Some(Time(0.0)), ..attempt("r", node, "v100", 1, 0) };
        Submission { attempt, stage: Stage::Running }
    };
    let phase = Phase::Submitted((0..).zip(nodes).map(copy).collect());
    state(vec![JobState { phase, epochs_done: 2, ..JobState::new(job("a", "{v100: 100}", ""), Time(0.0)) }])
}

fn of(copy: u32) -> SubmissionKey {
    SubmissionKey { copy, ..SubmissionKey::new(name("a"), "r") }
}

fn ends(state: &mut State, copy: u32, end: End) {
    let news = News::Ended { end, at: Time(50.0) };
    apply(state, Time(50.0), &Event::News { of: of(copy), news }, &rules());
}

fn take(state: State, nodes: &[(usize, u32)]) -> Step {
    let cluster = cluster(&[
        ("v1", "v100", 4, 1, "mixed"),
        ("v2", "v100", 4, 1, "mixed"),
        ("v3", "v100", 4, 0, "idle"),
    ]);
    let mut policy = On(nodes.to_vec());
    step(state, Time(60.0), &[], &cluster, &rules(), &mut planner(&mut policy))
}

fn stages(state: &State) -> Vec<(u32, &'static str)> {
    let iter = state.jobs[0].phase.submissions().iter();
    iter.map(|submission| (submission.attempt.copy, submission.stage.word())).collect()
}

#[test]
fn what_runs_where_it_shall_stays_and_what_is_new_is_submitted_beside_it() {
    let then = take(copies(&["v1", "v2"]), &[(2, 1), (0, 1), (1, 1)]);
    assert_eq!(words(&then.actions), ["submit a on 1 v100"]);
    assert_eq!(stages(&then.state), [(0, "running"), (1, "running"), (2, "submitting")]);
    assert_eq!(words(&take(copies(&["v1", "v2"]), &[(1, 1), (0, 1)]).actions), [""; 0]);
}

#[test]
fn a_copy_too_many_is_stopped_and_a_move_waits_for_the_end() {
    let fewer = take(copies(&["v1", "v2"]), &[(1, 1)]);
    assert_eq!(words(&fewer.actions), ["stop a"]);
    assert_eq!(stages(&fewer.state), [(0, "stopping"), (1, "running")]);
    let mut moved = take(copies(&["v1", "v2"]), &[(1, 1), (2, 2)]);
    assert_eq!(words(&moved.actions), ["stop a"]);
    ends(&mut moved.state, 0, End::Saved);
    assert_eq!(stages(&moved.state), [(1, "running")]);
    // A free copy number is reused, but with another run.
    let then = take(moved.state, &[(1, 1), (2, 2)]);
    assert_eq!(words(&then.actions), ["submit a on 2 v100"]);
    assert_eq!(stages(&then.state), [(1, "running"), (0, "submitting")]);
}

#[test]
fn a_copy_that_fails_costs_no_retry_while_others_are_left() {
    let mut state = copies(&["v1", "v2"]);
    ends(&mut state, 0, End::Failed { exit: 1, signal: 0 });
    assert_eq!((stages(&state), state.jobs[0].failures), (vec![(1, "running")], 0));
    assert_eq!(state.jobs[0].last.1, "one of its submissions failed with exit status 1");
    ends(&mut state, 1, End::Failed { exit: 1, signal: 0 });
    assert!(matches!(state.jobs[0].phase, Phase::Waiting { .. }), "{:?}", state.jobs[0].phase);
    assert_eq!((state.jobs[0].failures, state.jobs[0].past.len()), (1, 2));
}

#[test]
fn the_first_copy_to_complete_ends_the_job_once_the_others_are_gone() {
    let mut state = copies(&["v1", "v2"]);
    ends(&mut state, 1, End::Completed);
    let left = state.jobs[0].phase.submissions();
    let done = Stage::Stopping {
        since: Time(50.0),
        then: AfterStop::Done(Time(50.0)),
        request: StopProgress::Meant,
    };
    assert_eq!(left.iter().map(|submission| submission.stage).collect::<Vec<_>>(), [done]);
    // The other copies are cancelled regardless of the policy's decision.
    let then = take(state, &[(0, 1), (1, 1)]);
    assert_eq!(words(&then.actions), ["cancel a"]);
    let mut state = then.state;
    apply(&mut state, Time(61.0), &Event::Answer { of: of(0), answer: Answer::Killed }, &rules());
    ends(&mut state, 0, End::Failed { exit: 1, signal: 0 });
    let completed = Phase::Ended { at: Time(50.0), outcome: Outcome::Completed };
    assert_eq!((&state.jobs[0].phase, state.jobs[0].failures), (&completed, 0));
}

#[test]
fn all_copies_are_cancelled_with_their_job() {
    let mut state = copies(&["v1", "v2"]);
    apply(&mut state, Time(55.0), &Event::CancelAsked { job: name("a") }, &rules());
    let mut then = take(state, &[(0, 1), (1, 1)]);
    assert_eq!(words(&then.actions), ["cancel a", "cancel a"]);
    ends(&mut then.state, 0, End::Cancelled);
    assert_eq!(then.state.jobs[0].phase.word(), "stopping");
    ends(&mut then.state, 1, End::Cancelled);
    assert!(matches!(then.state.jobs[0].phase, Phase::Ended { outcome: Outcome::Cancelled, .. }));
}

#[test]
fn a_copy_that_turns_up_after_its_job_has_ended_is_cancelled() {
    let mut state = copies(&["v1", "v2"]);
    let Phase::Submitted(submissions) = &mut state.jobs[0].phase else { panic!("two copies") };
    submissions[1].stage = Stage::Meant;
    (submissions[1].attempt.job_id, submissions[1].attempt.started) = (None, None);
    ends(&mut state, 0, End::Completed);
    let mut see = |at: f64, strays: Vec<Sighting>| {
        for event in notice(&state, &Observation { strays, ..look(at, vec![]) }) {
            apply(&mut state, Time(at), &event, &rules());
        }
        state.clone()
    };
    see(50.0, vec![]);
    let completed = Phase::Ended { at: Time(50.0), outcome: Outcome::Completed };
    assert_eq!(see(110.0, vec![]).jobs[0].phase, completed);
    // A submission of another run is ignored; the job's own one, which Slurm shows late, is cancelled.
    let late = |run: &str| Sighting {
        of: SubmissionKey { copy: 1, ..SubmissionKey::new(name("a"), run) },
        ..sighting(9, QueueState::Pending)
    };
    assert_eq!(see(111.0, vec![late("of-somebody")]).jobs[0].phase, completed);
    let mut found = take(see(111.0, vec![late("r")]), &[(0, 1)]);
    assert_eq!(words(&found.actions), ["cancel a"]);
    ends(&mut found.state, 1, End::Cancelled);
    assert_eq!(found.state.jobs[0].phase, completed);
}

/// A job with two racing submissions: copy 0 runs, copy 1 is pending.
fn race() -> State {
    let mut state = copies(&["v1", "v2"]);
    let Phase::Submitted(submissions) = &mut state.jobs[0].phase else { panic!("submitted") };
    for submission in submissions.iter_mut() {
        submission.attempt.race = true;
    }
    submissions[1].stage = Stage::Pending;
    submissions[1].attempt.started = None;
    submissions[1].attempt.job_id = Some(hsched_model::JobId(8));
    state
}

#[test]
fn what_loses_a_race_leaves_no_trace_and_the_winner_decides() {
    let mut state = race();
    ends(&mut state, 1, End::Yielded);
    assert_eq!((stages(&state), state.jobs[0].past.len()), (vec![(0, "running")], 0));
    ends(&mut state, 0, End::Completed);
    assert!(matches!(state.jobs[0].phase, Phase::Ended { outcome: Outcome::Completed, .. }));
    let mut state = race();
    ends(&mut state, 0, End::Completed);
    ends(&mut state, 1, End::Yielded);
    assert!(matches!(state.jobs[0].phase, Phase::Ended { outcome: Outcome::Completed, .. }));
}

#[test]
fn a_winner_that_dies_takes_the_others_along_and_the_job_is_tried_again_once() {
    let mut state = race();
    ends(&mut state, 0, End::Failed { exit: 9, signal: 0 });
    // A pending submission would end as soon as it starts.
    let then = take(state, &[(0, 1)]);
    assert_eq!(words(&then.actions), ["cancel a"]);
    let Action::Cancel { why, .. } = &then.actions[0] else { panic!() };
    assert_eq!(why, "the run before it failed with exit status 9");
    let mut state = then.state;
    ends(&mut state, 1, End::Yielded);
    let job = &state.jobs[0];
    assert!(matches!(job.phase, Phase::Waiting { not_before: Some(_), .. }), "{:?}", job.phase);
    assert_eq!((job.failures, job.past.len()), (1, 1));
}

#[test]
fn a_request_that_fails_before_it_takes_the_job_leaves_it_to_the_others_of_its_race() {
    let failed = End::Failed { exit: 1, signal: 0 };
    let mut state = race();
    ends(&mut state, 0, End::Untaken(Box::new(failed.clone())));
    assert_eq!(stages(&state), [(1, "pending")]);
    assert_eq!(words(&take(state.clone(), &[(1, 1)]).actions), [""; 0]);
    let job = &state.jobs[0];
    assert_eq!((job.failures, &job.past[0].end), (0, &failed));
    // When the last submission also fails, that counts as a failure of the job.
    ends(&mut state, 1, End::Untaken(Box::new(failed)));
    let job = &state.jobs[0];
    assert!(matches!(job.phase, Phase::Waiting { not_before: Some(_), .. }), "{:?}", job.phase);
    assert_eq!((job.failures, job.past.len()), (1, 2));
}

/// A job whose continuation, copy 1, has taken over. The predecessor ended in this way after `ran` of the
/// 1000 seconds of its limit.
fn chain(end: End, ran: f64) -> State {
    let mut state = race();
    let Phase::Submitted(submissions) = &mut state.jobs[0].phase else { panic!("submitted") };
    submissions[0].attempt.limit = Some(hsched_model::Seconds(1000.0));
    submissions[0].attempt.started = Some(Time(50.0 - ran));
    (submissions[0].attempt.epochs_before, submissions[1].attempt.epochs_before) = (2, 2);
    let job_id = submissions[0].attempt.job_id.expect("its number");
    submissions[1].attempt.follows = Some(Piece { of: of(0), job_id });
    submissions[1].attempt.started = Some(Time(40.0));
    submissions[1].stage = Stage::Running;
    ends(&mut state, 0, end);
    state
}

#[test]
fn a_continuation_that_runs_goes_on_whether_the_run_before_it_did_an_epoch_or_not() {
    for (end, ran) in [(End::Saved, 45.0), (End::Cut, 45.0), (End::Cut, 990.0), (End::TimedOut, 1000.0)] {
        let state = chain(end.clone(), ran);
        assert_eq!(stages(&state), [(1, "running")], "{end:?}");
        assert_eq!(words(&take(state, &[(1, 1)]).actions), [""; 0], "{end:?}");
    }
    let failed = take(chain(End::Failed { exit: 1, signal: 0 }, 45.0), &[(1, 1)]);
    assert_eq!(words(&failed.actions), ["stop a"]);
    let Action::Stop { why, .. } = &failed.actions[0] else { panic!() };
    assert_eq!(why, "the run before it failed with exit status 1");
}

#[test]
fn a_continuation_that_waits_is_given_up_if_its_limit_is_too_short_for_an_epoch() {
    let waits = |end: End, ran: f64| {
        let mut state = chain(End::Saved, 1.0);
        let mut before = race();
        let Phase::Submitted(submissions) = &mut before.jobs[0].phase else { panic!("submitted") };
        let mut first = submissions.remove(0);
        first.attempt.limit = Some(hsched_model::Seconds(1000.0));
        first.attempt.started = Some(Time(50.0 - ran));
        first.attempt.epochs_before = 2;
        let Phase::Submitted(submissions) = &mut state.jobs[0].phase else { panic!("submitted") };
        submissions[0].stage = Stage::Pending;
        submissions[0].attempt.started = None;
        submissions.insert(0, first);
        ends(&mut state, 0, end);
        stages(&state)
    };
    assert_eq!(waits(End::Cut, 45.0), [(1, "pending")]);
    assert_eq!(waits(End::Cut, 990.0), [(1, "stopping")]);
    assert_eq!(waits(End::TimedOut, 1000.0), [(1, "stopping")]);
}

#[test]
fn runs_that_take_over_without_an_epoch_are_stopped_at_the_fourth() {
    let mut state = race();
    for count in 0..4 {
        let mut next = chain(End::Saved, 1.0);
        std::mem::swap(&mut next.jobs[0].cuts, &mut state.jobs[0].cuts);
        assert_eq!(next.jobs[0].cuts, count);
        let mut first = race().jobs[0].phase.submissions()[0].clone();
        first.attempt.epochs_before = 2;
        let Phase::Submitted(submissions) = &mut next.jobs[0].phase else { panic!("submitted") };
        submissions.insert(0, first);
        ends(&mut next, 0, End::Cut);
        assert_eq!(stages(&next), [(1, if count < 3 { "running" } else { "stopping" })]);
        state = next;
    }
}

#[test]
fn a_race_that_nobody_won_is_run_again() {
    let mut state = race();
    ends(&mut state, 0, End::Yielded);
    ends(&mut state, 1, End::Yielded);
    let job = &state.jobs[0];
    assert!(matches!(job.phase, Phase::Waiting { not_before: None, .. }) && job.failures == 0);
    let mut state = race();
    apply(&mut state, Time(40.0), &Event::CancelAsked { job: name("a") }, &rules());
    ends(&mut state, 0, End::Saved);
    ends(&mut state, 1, End::Yielded);
    assert!(matches!(state.jobs[0].phase, Phase::Ended { outcome: Outcome::Cancelled, .. }));
}
