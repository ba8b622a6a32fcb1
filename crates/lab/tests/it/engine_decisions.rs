//! The engine's decisions on tiny states: which jobs start, move and end.

use hsched_engine::{
    Action, AfterStop, Answer, BackendKind, EarlyEnd, End, Event, Gpus, JobState, News, Observation, Outcome,
    Phase, QueueState, Rules, Sighting, Stage, Step, StopProgress, Submission, SubmissionRecord, apply, due,
    notice, step,
};
use hsched_lab::find_over_time;
use hsched_model::{Job, JobId, NodeName, Speed, Time};
use hsched_plan::throughput::SpeedKey;
use hsched_plan::{ExecutionMode, Moves, Parameters};
use sha2::{Digest, Sha256};

use hsched_fixtures::engine_states::{
    answered, attempt, cluster, gpu, heard, how, job, name, only, phase, planner, rules, running, state,
    stopping, take, words,
};

#[test]
fn free_gpus_go_to_jobs_that_wait() {
    let cluster = cluster(&[("v1", "v100", 4, 2, "mixed"), ("t1", "t4", 2, 0, "idle")]);
    let waiting = JobState::new(job("b", "{v100: 100, t4: 50}", ""), Time(0.0));
    let other = running(job("a", "{v100: 100}", ""), attempt("r", "v1", "v100", 2, 0), 3);
    let Step { state: then, actions, .. } =
        take(state(vec![other, waiting]), 1.0, &cluster, &how(Moves::Never));
    assert_eq!(words(&actions), ["submit b on 2 t4 + 2 v100"]);
    let attempt = only(&then.jobs[1].phase, "submitting");
    assert_eq!((attempt.run.as_str(), attempt.job_id), ("next", None));
    // On the next turn, the planned job has its GPUs, and no other job waits.
    assert_eq!(words(&take(then, 2.0, &cluster, &how(Moves::Never)).actions), [""; 0]);
}

#[test]
fn gpus_of_what_is_in_the_queue_are_promised() {
    let cluster = cluster(&[("v1", "v100", 2, 0, "idle"), ("v2", "v100", 2, 0, "idle")]);
    for stage in [Stage::Pending, Stage::Meant, stopping(0.0, AfterStop::Cancel, StopProgress::Killed)] {
        let first = JobState {
            phase: phase(attempt("r", "v1", "v100", 2, 0), stage),
            ..JobState::new(job("a", "{v100: 100}", ""), Time(0.0))
        };
        let waiting = JobState::new(job("b", "{v100: 100}", ""), Time(0.0));
        let done = take(state(vec![first, waiting]), 1.0, &cluster, &how(Moves::Never));
        assert_eq!(words(&done.actions), ["submit b on 2 v100"]);
        let attempt = only(&done.state.jobs[1].phase, "submitting");
        assert_eq!(attempt.gpus.0.keys().map(NodeName::as_str).collect::<Vec<_>>(), ["v2"]);
    }
}

#[test]
fn a_job_waits_for_its_moment_and_capacity_is_kept() {
    let cluster = cluster(&[("v1", "v100", 4, 0, "idle")]);
    let mut waiting = JobState::new(job("b", "{v100: 100}", ""), Time(0.0));
    waiting.phase = Phase::Waiting { not_before: Some(Time(50.0)), reason: String::new() };
    let early = take(state(vec![waiting]), 49.0, &cluster, &how(Moves::Never));
    assert_eq!(words(&early.actions), [""; 0]);
    let mut limited = how(Moves::Never);
    limited.rules.capacity.insert(gpu("v100"), 1);
    assert_eq!(words(&take(early.state, 50.0, &cluster, &limited).actions), ["submit b on 1 v100"]);
}

#[test]
fn shares_that_are_whole_samples_are_not_wrong() {
    let cluster = cluster(&[("v1", "v100", 3, 3, "allocated")]);
    let mut attempt = attempt("r", "v1", "v100", 3, 0);
    attempt.tells_shares = true;
    let shares = |first: u64, rest: u64| {
        let mut attempt = attempt.clone();
        attempt.ranks.iter_mut().for_each(|rank| rank.batch = rest);
        attempt.ranks[0].batch = first;
        let state = state(vec![running(job("a", "{v100: 100}", ", gpus: 3"), attempt, 1)]);
        words(&take(state, 1.0, &cluster, &how(Moves::Never)).actions)
    };
    assert_eq!(shares(34, 33), [""; 0]);
    assert_eq!(shares(40, 30), ["share a [34, 33, 33]"]);
}

/// Equal shares of four samples on three GPUs are not whole; those of a submission are.
#[test]
fn a_job_is_not_restarted_for_the_equal_shares_that_it_has() {
    let cluster = cluster(&[("v1", "v100", 3, 3, "allocated")]);
    let mut attempt = attempt("r", "v1", "v100", 3, 0);
    attempt.ranks.iter_mut().zip([2, 1, 1]).for_each(|(rank, batch)| rank.batch = batch);
    let small = Job { global_batch: 4, ..job("a", "{v100: 100}", ", gpus: 3") };
    let state = state(vec![running(small, attempt, 1)]);
    let parameters = Parameters { carrying: ExecutionMode::Alone, ..Parameters::default() };
    let mut policy = find_over_time("hadar", &parameters).expect("a policy");
    let mut planner = planner(policy.as_mut());
    let done = step(state, Time(1.0), &[], &cluster, &rules(), &mut planner);
    assert_eq!(words(&done.actions), [""; 0]);
}

#[test]
fn a_job_that_needs_more_gpus_than_any_job_gets_waits_with_the_reason() {
    let cluster = cluster(&[("v1", "v100", 2, 0, "idle")]);
    let jobs = [("a", ", gpus: 2"), ("b", "")];
    let jobs = jobs.map(|(name, more)| JobState::new(job(name, "{v100: 100}", more), Time(0.0)));
    let mut slots = how(Moves::Never);
    slots.rules.most_gpus = Some(1);
    let done = take(state(jobs.to_vec()), 1.0, &cluster, &slots);
    assert_eq!(words(&done.actions), ["a waits", "submit b on 1 v100"]);
    assert_eq!(done.state.jobs[0].last.1, "it needs 2 GPUs, and a slot is a fraction of one");
}

/// A turn at the end of each waiting time acts, and `due` names it, whatever other submissions wait for.
#[test]
fn every_waiting_time_at_whose_end_something_is_done_is_due() {
    let none_up = cluster(&[("v1", "v100", 1, 0, "down")]);
    let asked = |then| stopping(100.0, then, StopProgress::Asked);
    let new = JobState::new(job("a", "{v100: 100}", ""), Time(0.0));
    let early = EarlyEnd { why: "no better".to_owned(), allowed: true, epoch: Some(4) };
    let trained = JobState { early: Some(early), epochs_done: 9, ..new.clone() };
    let check = |tracked: &JobState, stage: Stage, end: f64| {
        let of = |run: &str, stage: Stage| Submission {
            attempt: SubmissionRecord { meant: Time(100.0), ..attempt(run, "v1", "v100", 1, 0) },
            stage,
        };
        let first = stopping(90.0, AfterStop::GoOn, StopProgress::Meant);
        let phase = Phase::Submitted(vec![of("r", first), of("s", stage)]);
        let then = state(vec![JobState { phase, ..tracked.clone() }]);
        assert_eq!(due(&then, &rules(), Time(100.0)), Some(Time(end)), "{stage:?}");
        let ends = |at: f64| {
            let actions = take(then.clone(), at, &none_up, &how(Moves::Never)).actions;
            actions.iter().any(|action| matches!(action, Action::Cancel { of, .. } if of.run == "s"))
        };
        assert_eq!([ends(end - 1.0), ends(end)], [false, true], "{stage:?}");
    };
    check(&new, stopping(100.0, AfterStop::GoOn, StopProgress::Killed), 220.0);
    check(&new, asked(AfterStop::GoOn), 140.0);
    check(&trained, asked(AfterStop::Finish), 105.0);
    check(&new, Stage::Pending, 160.0);
}

#[test]
fn what_was_asked_in_vain_is_decided_on_again_however_late_the_next_turn_is() {
    let cluster = cluster(&[("v1", "v100", 1, 0, "idle")]);
    let waiting = JobState::new(job("a", "{v100: 100}", ""), Time(0.0));
    let mut then = take(state(vec![waiting]), 1.0, &cluster, &how(Moves::Never)).state;
    let deferred = Answer::Deferred { message: "busy".to_owned() };
    apply(&mut then, Time(1.0), &answered("a", "next", deferred), &rules());
    // The delay is over, and the state is as it was at the decision.
    assert_eq!(words(&take(then, 100.0, &cluster, &how(Moves::Never)).actions), ["submit a on 1 v100"]);
}

#[test]
fn devices_that_are_still_in_use_are_asked_for_again_at_once() {
    let cluster = cluster(&[("v1", "v100", 1, 0, "idle")]);
    let waiting = JobState::new(job("a", "{v100: 100}", ""), Time(0.0));
    let then = take(state(vec![waiting]), 1.0, &cluster, &how(Moves::Never)).state;
    let next = |backend: BackendKind| {
        let (mut then, deferred) = (then.clone(), Answer::Deferred { message: "in use".to_owned() });
        apply(&mut then, Time(1.0), &answered("a", "next", deferred), &Rules { backend, ..rules() });
        let Phase::Waiting { not_before, .. } = then.jobs[0].phase else { panic!("it waits") };
        (not_before, then.jobs[0].fruitless)
    };
    assert_eq!(next(BackendKind::Devices), (Some(Time(2.0)), 0));
    assert_eq!(next(BackendKind::Queue), (Some(Time(1.0).after(rules().retry_delay)), 1));
}

#[test]
fn what_a_member_of_a_pool_could_not_start_was_refused_and_did_not_fail() {
    let running = running(job("a", "{v100: 100}", ", retries: 1"), attempt("r", "v1", "v100", 1, 0), 0);
    let before = state(vec![running]);
    let of = only(&before.jobs[0].phase, "running").key(&before.jobs[0].job.name);
    let answer = Answer::Refused { message: "no such directory".to_owned() };
    let sighting = Sighting {
        of: of.clone(),
        job_id: JobId(7),
        submit_time: None,
        state: QueueState::NotStarted(answer.clone()),
        reason: None,
    };
    let seen = Observation {
        sightings: vec![sighting],
        ..Observation::new(Time(1.0), cluster(&[("v1", "v100", 1, 0, "idle")]))
    };
    let events = notice(&before, &seen);
    assert_eq!(events, [Event::Answer { of, answer }]);
    let mut then = before;
    apply(&mut then, Time(1.0), &events[0], &Rules { backend: BackendKind::Devices, ..rules() });
    let Phase::Waiting { reason, .. } = &then.jobs[0].phase else { panic!("it is tried again") };
    assert!(reason.contains("no such directory"), "{reason}");
}

#[test]
fn a_full_cluster_is_waited_for_in_the_queue_where_that_is_wanted() {
    // Other users hold all of v1 and half of v2; one of our jobs has the other half.
    let cluster = cluster(&[("v1", "v100", 4, 4, "alloc"), ("v2", "v100", 4, 4, "alloc")]);
    let running_job = running(job("a", "{v100: 100}", ""), attempt("r", "v2", "v100", 2, 0), 3);
    let waiting = |name| JobState::new(job(name, "{v100: 100}", ", max_gpus: 4"), Time(0.0));
    let jobs = state(vec![running_job, waiting("b"), waiting("c")]);
    assert_eq!(words(&take(jobs.clone(), 1.0, &cluster, &how(Moves::Never)).actions), ["b waits", "c waits"]);
    let mut queue = how(Moves::Never);
    queue.replanning.queue = true;
    let queued = take(jobs.clone(), 1.0, &cluster, &queue);
    assert_eq!(words(&queued.actions), ["submit b on 3 v100, submit c on 3 v100"]);
    assert_eq!(words(&take(queued.state, 2.0, &cluster, &queue).actions), [""; 0]);
    let mut limited = queue.clone();
    limited.rules.capacity.insert(gpu("v100"), 4);
    assert_eq!(
        words(&take(jobs, 1.0, &cluster, &limited).actions),
        ["submit b on 1 v100, submit c on 1 v100"]
    );
    // Free GPUs are used first.
    let free = hsched_fixtures::engine_states::cluster(&[
        ("v1", "v100", 4, 4, "alloc"),
        ("v2", "v100", 4, 3, "mixed"),
    ]);
    assert_eq!(words(&take(state(vec![waiting("b")]), 1.0, &free, &queue).actions), ["submit b on 1 v100"]);
}

#[test]
fn a_running_job_moves_where_that_pays() {
    let cluster = cluster(&[("v1", "v100", 2, 0, "idle"), ("t1", "t4", 2, 2, "alloc")]);
    let slow = |epochs: u64, done: u64| {
        let job = job("a", "{v100: 100, t4: 20}", ", max_gpus: 2");
        running(Job { epochs, ..job }, attempt("r", "t1", "t4", 2, 0), done)
    };
    let check = |tracked: JobState, moves, expected: &[&str]| {
        assert_eq!(words(&take(state(vec![tracked]), 1.0, &cluster, &how(moves)).actions), expected);
    };
    let auto = Moves::Auto { margin: 0.5 };
    check(slow(10, 1), auto, &["stop a"]);
    check(slow(10, 1), Moves::Never, &[]);
    // An epoch would take 5 s instead of 25 s. A restart costs 5 s plus the margin: too much without
    // remaining epochs, and for one remaining epoch with the larger margin.
    check(slow(10, 10), auto, &[]);
    check(slow(10, 9), Moves::Auto { margin: 4.0 }, &[]);
    check(slow(10, 9), auto, &["stop a"]);
    // The job's speed at its current place is unknown.
    check(slow(10, 0), auto, &[]);
    // The last epoch is almost complete, so a move would lose more than it gains.
    let late = |begun: f64| JobState { epoch_at: Some(Time(begun)), ..slow(10, 9) };
    let now = |tracked| take(state(vec![tracked]), 100.0, &cluster, &how(Moves::Auto { margin: 0.5 }));
    assert_eq!(words(&now(late(100.0)).actions), ["stop a"]);
    let step = now(late(74.0));
    // The decision is made again at the end of that epoch.
    assert_eq!((words(&step.actions), step.state.decided), (vec![], None));
}

#[test]
fn a_job_whose_small_batch_is_divided_as_well_as_can_be_stays() {
    // Five samples on four GPUs take as long as two on one, not as five quarters.
    let cluster = cluster(&[("v1", "v100", 4, 4, "alloc")]);
    let mut submission = attempt("r", "v1", "v100", 4, 0);
    for (rank, batch) in submission.ranks.iter_mut().zip([2, 1, 1, 1]) {
        rank.batch = batch;
    }
    let mut tracked = running(job("a", "{v100: 100}", ", max_gpus: 4"), submission, 1);
    let job = Job { epochs: 1000, global_batch: 5, ..(*tracked.job).clone() };
    tracked.job = job.into();
    let done = take(state(vec![tracked]), 1.0, &cluster, &how(Moves::Auto { margin: 0.5 }));
    assert_eq!(words(&done.actions), [""; 0]);
}

#[test]
fn a_decision_is_known_again_by_the_checksum_of_what_it_depends_on() {
    let cluster = cluster(&[("v1", "v100", 4, 2, "mixed"), ("t1", "t4", 2, 0, "idle")]);
    let other = running(job("a", "{v100: 100}", ""), attempt("r", "v1", "v100", 2, 0), 3);
    let mut waiting = JobState::new(job("b", "{v100: 100, t4: 50}", ""), Time(0.0));
    waiting.phase = Phase::Waiting { not_before: Some(Time(50.0)), reason: String::new() };
    let mut limited = how(Moves::Never);
    limited.rules.capacity.extend([(gpu("t4"), 8), (gpu("v100"), 9)]);
    let mut state = state(vec![other, waiting]);
    let key = SpeedKey { model: "b".to_owned(), gpu_type: gpu("t4"), precision: None, gpus: 1 };
    state.cache.set(&key, Speed::rate(50.0).expect("a rate"), 0.0, "me");
    let decided = take(state, 1.0, &cluster, &limited).state.decided;
    // The checksum is stored and compared by other builds, so its text is fixed: one item per line, speeds
    // rounded to steps of about 5 %.
    let seen = "optimal (no moves, free GPUs) mean-jct 0\njob a running movable - r\njob b waiting\n\
                limit t4 8\nlimit v100 9\nnode v1 4 for 4\nnode t1 2 for 2\nspeed 100 b t4 - 14\n";
    let digest = Sha256::digest(seen);
    assert_eq!(decided, digest.first_chunk().map(|bytes| u64::from_be_bytes(*bytes)));
}

#[test]
fn jobs_wait_while_another_gives_its_gpus_back() {
    let cluster = cluster(&[("v1", "v100", 4, 2, "mixed")]);
    let stage = stopping(0.0, AfterStop::GoOn, StopProgress::Asked);
    let stopping = JobState {
        phase: phase(attempt("r", "v1", "v100", 2, 0), stage),
        ..JobState::new(job("a", "{v100: 100}", ""), Time(0.0))
    };
    let waiting = JobState::new(job("b", "{v100: 100}", ""), Time(0.0));
    let then = take(state(vec![stopping, waiting]), 1.0, &cluster, &how(Moves::Auto { margin: 0.5 }));
    assert_eq!(words(&then.actions), ["b waits"]);
    // The grace period of 10 s and another half minute are over: Slurm ends the job.
    let late = take(then.state, 41.0, &cluster, &how(Moves::Never));
    assert_eq!(words(&late.actions), ["cancel a"]);
    assert_eq!(late.state.jobs[1].last, (Time(1.0), "waiting for a to release its GPUs".to_owned()));
}

#[test]
fn what_can_never_start_is_taken_back() {
    let up = cluster(&[("v1", "v100", 2, 0, "down*"), ("t1", "t4", 2, 0, "idle")]);
    let pending = JobState {
        phase: phase(attempt("r", "v1", "v100", 2, 0), Stage::Pending),
        ..JobState::new(job("a", "{v100: 100, t4: 50}", ""), Time(0.0))
    };
    // A node may come back soon, and an observation without any nodes is not used.
    assert_eq!(words(&take(state(vec![pending.clone()]), 59.0, &up, &how(Moves::Never)).actions), [""; 0]);
    assert_eq!(
        words(&take(state(vec![pending.clone()]), 60.0, &cluster(&[]), &how(Moves::Never)).actions),
        [""; 0]
    );
    let mut then = take(state(vec![pending]), 60.0, &up, &how(Moves::Never));
    assert_eq!(words(&then.actions), ["cancel a"]);
    // The intent is recorded: regardless of the result of the request, this end is not final.
    assert!(matches!(
        then.state.jobs[0].phase.submissions()[0].stage,
        Stage::Stopping { then: AfterStop::GoOn, request: StopProgress::Meant, .. }
    ));
    let ended = News::Ended { end: End::Cancelled, at: Time(2.0) };
    for event in [answered("a", "r", Answer::Killed), heard("a", "r", ended)] {
        apply(&mut then.state, Time(2.0), &event, &rules());
    }
    assert_eq!(words(&take(then.state, 63.0, &up, &how(Moves::Never)).actions), ["submit a on 2 t4"]);
}

#[test]
fn who_waits_long_in_the_queue_takes_what_is_free() {
    let nodes = |used| cluster(&[("v1", "v100", 2, used, "mixed"), ("t1", "t4", 2, 0, "idle")]);
    let check = |at: f64, used: u32, t4: &str, expected: &[&str]| {
        let pending = JobState {
            phase: phase(attempt("r", "v1", "v100", 2, 0), Stage::Pending),
            ..JobState::new(job("a", &format!("{{v100: 100, t4: {t4}}}"), ""), Time(0.0))
        };
        let done = take(state(vec![pending]), at, &nodes(used), &how(Moves::Never));
        assert_eq!(words(&done.actions), expected, "{at} {used} {t4}");
    };
    // The planned epoch time is 10 s; it is the same on 2 T4 with 50 samples/s, and 50 s on slower T4.
    check(600.0, 2, "50", &["cancel a"]);
    check(599.0, 2, "50", &[]);
    check(600.0, 2, "10", &[]);
    check(600.0, 0, "50", &[]);
}

#[test]
fn what_ended_long_ago_is_forgotten() {
    let ended = JobState {
        phase: Phase::Ended { at: Time(0.0), outcome: Outcome::Completed },
        ..JobState::new(job("a", "{v100: 100}", ""), Time(0.0))
    };
    let left = |days: f64| {
        let at = days * 86_400.0;
        take(state(vec![ended.clone()]), at, &cluster(&[]), &how(Moves::Never)).state.jobs.len()
    };
    assert_eq!((left(29.9), left(30.1)), (1, 0));
}

#[test]
fn a_cancelled_job_is_never_submitted_again() {
    let cluster = cluster(&[("v1", "v100", 2, 0, "idle")]);
    let asked = Event::CancelAsked { job: name("a") };
    let mut waiting = state(vec![JobState::new(job("a", "{v100: 100}", ""), Time(0.0))]);
    apply(&mut waiting, Time(1.0), &asked, &rules());
    assert!(waiting.is_over());
    let mut active = state(vec![running(job("a", "{v100: 100}", ""), attempt("r", "v1", "v100", 2, 0), 3)]);
    apply(&mut active, Time(1.0), &asked, &rules());
    let then = take(active, 2.0, &cluster, &how(Moves::Never));
    assert_eq!(words(&then.actions), ["cancel a"]);
    for end in [End::Saved, End::Cancelled, End::NodeFailed, End::Failed { exit: 1, signal: 0 }] {
        let mut over = then.state.clone();
        let news = News::Ended { end, at: Time(3.0) };
        apply(&mut over, Time(3.0), &heard("a", "r", news), &rules());
        assert!(over.is_over(), "{:?}", over.jobs[0].phase);
        assert_eq!(words(&take(over, 4.0, &cluster, &how(Moves::Never)).actions), [""; 0]);
    }
}

#[test]
fn gpus_print_by_type() {
    let attempt = attempt("r", "v1", "v100", 2, 0);
    assert_eq!((attempt.gpus.to_string(), Gpus::default().to_string()), ("2 v100".to_owned(), String::new()));
}
