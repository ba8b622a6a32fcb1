//! A member with failing writes: it still carries out its other tasks and reports the outcome of each claim.

use std::collections::BTreeSet;

use hsched_engine::pool::{Demand, Duty, Leader, PoolReport, PoolSighting, Worker};
use hsched_engine::{Answer, End, SubmissionKey};
use hsched_model::{JobId, Time};

use crate::pool::disk::{self, Fault, Files, WriteError};
use crate::pool::{id, key, order};

/// Returns a leader and a member with orders to start these submissions.
fn pool(ordered: &[&SubmissionKey]) -> (Leader<Files>, Worker<Files>) {
    disk::put(std::collections::BTreeMap::new(), None);
    let worker = Worker::join(Files, id(1), PoolReport::default()).expect("a member");
    let mut leader = Leader::new(Files).expect("a leader");
    for of in ordered {
        leader.order(&id(1), order(of)).expect("an order");
    }
    (leader, worker)
}

/// Makes a write fail, after this many writes.
fn fail_after(writes: u32) {
    disk::put(disk::take(), Some(Fault::Failure(writes)));
}

#[test]
fn a_claim_that_fails_keeps_a_member_from_nothing_else() {
    let (first, second) = (key(0, 0), key(1, 0));
    let (mut leader, mut worker) = pool(&[&first]);
    worker.duties().expect("a duty");
    worker.started(&first, JobId(1), Time(0.0)).expect("a report");
    leader.demand(&first, &id(1), Demand::Kill).expect("a demand");
    leader.order(&id(1), order(&second)).expect("an order");
    fail_after(0);
    assert_eq!(worker.duties(), Ok(vec![Duty::Kill(first)]));
    assert_eq!(worker.duties(), Ok(vec![Duty::Start(Box::new(order(&second)))]));
}

#[test]
fn a_claim_that_fails_is_an_error_if_there_is_nothing_else_to_do() {
    let of = key(0, 0);
    let (_, mut worker) = pool(&[&of]);
    fail_after(0);
    assert_eq!(worker.duties(), Err(WriteError::Failed));
    assert_eq!(worker.duties(), Ok(vec![Duty::Start(Box::new(order(&of)))]));
}

#[test]
fn a_member_says_that_it_does_not_start_what_it_has_claimed() {
    let check = |is_killed: bool| {
        let of = key(0, 0);
        let (mut leader, mut worker) = pool(&[&of]);
        // The submission is claimed but not started.
        worker.duties().expect("a duty");
        let running = PoolSighting::Running { job_id: None, since: None };
        assert_eq!(leader.sight(&of, &id(1), false), Ok(running));
        if is_killed {
            leader.demand(&of, &id(1), Demand::Kill).expect("a demand");
        } else {
            worker.ask_to_leave().expect("a report");
            leader.release(&id(1)).expect("an order");
        }
        assert_eq!(worker.duties(), Ok(vec![Duty::Decline(of.clone())]));
        worker.ended([(of.clone(), End::Interrupted, Time(1.0))]).expect("a report");
        let ended = PoolSighting::Ended { end: End::Interrupted, since: None, at: Time(1.0) };
        assert_eq!(leader.sight(&of, &id(1), false), Ok(ended));
        let leave = if is_killed { vec![] } else { vec![Duty::Leave] };
        assert_eq!(worker.duties(), Ok(leave));
    };
    check(true);
    check(false);
}

#[test]
fn the_start_of_a_run_is_known_after_its_end() {
    let of = key(0, 0);
    let (mut leader, mut worker) = pool(&[&of]);
    worker.duties().expect("a duty");
    worker.started(&of, JobId(7), Time(3.0)).expect("a report");
    worker.ended([(of.clone(), End::Completed, Time(4.0))]).expect("a report");
    let ended = PoolSighting::Ended { end: End::Completed, since: Some(Time(3.0)), at: Time(4.0) };
    assert_eq!(leader.sight(&of, &id(1), false), Ok(ended));
}

#[test]
fn a_member_says_why_it_could_not_start_what_it_has_claimed() {
    let of = key(0, 0);
    let (mut leader, mut worker) = pool(&[&of]);
    worker.duties().expect("a duty");
    let refusal = Answer::Refused { message: "no such directory".to_owned() };
    worker.refused(&of, refusal.clone(), Time(1.0)).expect("a report");
    assert_eq!(leader.sight(&of, &id(1), false), Ok(PoolSighting::Refused(refusal)));
    // The order and the report are removed after the state has recorded the end.
    leader.tidy(&BTreeSet::new()).expect("no order");
    assert_eq!(worker.duties(), Ok(vec![Duty::Forget(of)]));
    assert_eq!(worker.submissions(), []);
}

#[test]
fn a_silent_member_is_none_that_stays() {
    let (mut leader, _) = pool(&[]);
    assert_eq!(leader.another_stays(&id(0), |_| false), Ok(true));
    assert_eq!(leader.another_stays(&id(0), |member| *member == id(1)), Ok(false));
}

#[test]
fn a_member_says_nothing_of_what_it_has_not_claimed() {
    let of = key(0, 0);
    let (mut leader, mut worker) = pool(&[&of]);
    fail_after(0);
    worker.duties().expect_err("no claim");
    leader.demand(&of, &id(1), Demand::Kill).expect("a demand");
    assert_eq!(worker.duties(), Ok(vec![]));
    assert_eq!(leader.sight(&of, &id(1), false), Ok(PoolSighting::NeverStarted));
}
