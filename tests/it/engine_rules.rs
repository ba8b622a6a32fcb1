//! The engine's rules on tiny states: what an event makes of a job, and what is done then.

use hsched::engine::{
    Action, Attempt, End, EpochReport, Event, Gpus, Moves, News, Observation, Outcome, PastAttempt, Phase,
    Planner, RankReport, Request, Rules, Sighting, Standing, State, Step, Then, Tracked, apply, notice, step,
};
use hsched::model::{
    BitRate, Cluster, GpuStock, GpuType, Job, JobDefaults, JobId, JobName, Node, NodeName, NodeState,
    PlacedRank, Seconds, Time,
};
use hsched::policy::{self, Objective, Parameters};
use hsched::throughput::SampleSource;

fn job(name: &str, rates: &str, more: &str) -> Job {
    let text = format!(
        "jobs: [{{name: {name}, samples_per_epoch: 1000, epochs: 10, global_batch: 100, model_size: 0, \
         throughput: {rates}, command: [x]{more}}}]"
    );
    hsched::spec::jobs::parse(&text).expect("a job").remove(0)
}

fn name(text: &str) -> JobName {
    JobName::new(text).expect("a name")
}

fn gpu(text: &str) -> GpuType {
    GpuType::new(text).expect("a type")
}

/// A cluster of nodes with GPUs: `(name, type, total, used, state)`.
fn cluster(nodes: &[(&str, &str, u32, u32, &str)]) -> Cluster {
    let node = |&(own, gpu_type, total, used, state): &(&str, &str, u32, u32, &str)| Node {
        state: NodeState::parse(state),
        gpus: vec![GpuStock { gpu_type: gpu(gpu_type), total, used, memory: None }],
        ..Node::new(NodeName::new(own).expect("a name"))
    };
    Cluster { nodes: nodes.iter().map(node).collect(), ..Cluster::default() }
}

/// Rules with short times.
pub fn rules(moves: Moves) -> Rules {
    let rate = BitRate::new(10.0).expect("a rate");
    Rules {
        moves,
        defaults: JobDefaults {
            time_margin: 1.3,
            grace: Seconds(10.0),
            het_steps: true,
            ..JobDefaults::default()
        },
        network: rate,
        intra_node: rate,
        capacity: std::collections::BTreeMap::new(),
        restart_cost: Seconds(5.0),
        retry_delay: Seconds(30.0),
        learning_rate: 0.3,
    }
}

/// An attempt on GPUs of one node, in shares of 100 samples a step.
fn attempt(run: &str, node: &str, gpu_type: &str, count: u32, done: u64) -> Attempt {
    let rank = |local_rank| PlacedRank {
        node: NodeName::new(node).expect("a name"),
        gpu_type: gpu(gpu_type),
        local_rank,
        batch: u64::from(100 / count),
        samples: u64::from(1000 / count),
    };
    let ranks: Vec<PlacedRank> = (0..count).map(rank).collect();
    Attempt { job_id: Some(JobId(7)), ..Attempt::new(run, ranks, Seconds(10.0), done, Time(0.0)) }
}

fn running(job: Job, attempt: Attempt, done: u64) -> Tracked {
    let attempt = Attempt { started: Some(Time(0.0)), ..attempt };
    Tracked { phase: Phase::Running(attempt), epochs_done: done, ..Tracked::new(job, Time(0.0)) }
}

fn state(jobs: Vec<Tracked>) -> State {
    State { jobs, ..State::default() }
}

fn take(state: State, at: f64, cluster: &Cluster, rules: &Rules) -> Step {
    let policy = policy::find("optimal", Parameters::default()).expect("a policy");
    let planner = Planner {
        policy: policy.as_ref(),
        objective: Objective::MeanJct,
        seed: 0,
        run: "next",
        begin: &|| (),
        stop: &|| false,
        queue_wait: &|_, _| None,
    };
    step(state, Time(at), &[], cluster, (rules, &planner))
}

/// What is done, in words: `submit a on 2 v100`.
fn words(actions: &[Action]) -> Vec<String> {
    let word = |action: &Action| match action {
        Action::Submit(batch) => {
            let one = |&job: &usize| {
                format!("submit {} on {}", batch.jobs[job].name, batch.gpus(job).expect("GPUs"))
            };
            batch.submitted.iter().map(one).collect::<Vec<_>>().join(", ")
        }
        Action::Stop { job, .. } => format!("stop {job}"),
        Action::Cancel { job, .. } => format!("cancel {job}"),
        Action::Wait { job, .. } => format!("{job} waits"),
        Action::Learn { job, .. } => format!("{job} teaches"),
    };
    actions.iter().map(word).collect()
}

/// What becomes of a job that ends: running since epoch 2, with `done` epochs behind it.
fn after(end: End, done: u64, failures: u32) -> Tracked {
    let tracked = running(job("a", "{v100: 100}", ", retries: 1"), attempt("r", "v1", "v100", 1, 2), done);
    let mut state = state(vec![Tracked { failures, ..tracked }]);
    let news = News::Ended { end, at: Time(50.0) };
    let event = Event::Attempt { job: name("a"), run: "r".into(), news };
    apply(&mut state, Time(60.0), &event, &rules(Moves::Never));
    state.jobs.remove(0)
}

fn not_before(tracked: &Tracked) -> Option<f64> {
    match &tracked.phase {
        Phase::Waiting { not_before, .. } => not_before.map(|time| time.0),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_run_that_saved_with_progress_goes_on_at_once_and_uses_no_retry() {
    for end in [End::Saved, End::TimedOut] {
        let went_on = after(end.clone(), 5, 0);
        assert_eq!((went_on.failures, not_before(&went_on)), (0, None));
        let fruitless = after(end, 2, 0);
        assert_eq!((fruitless.failures, not_before(&fruitless)), (1, Some(90.0)));
    }
}

#[test]
fn what_fails_uses_retries_until_none_is_left() {
    for end in [End::Failed { exit: 3, signal: 0 }, End::OutOfMemory, End::Deadline, End::Other("ODD".into())]
    {
        let again = after(end.clone(), 5, 0);
        assert_eq!((again.failures, not_before(&again), again.epochs_done), (1, Some(90.0), 5), "{end}");
        let over = after(end.clone(), 5, 1);
        assert!(matches!(&over.phase, Phase::Ended { outcome: Outcome::Failed { .. }, .. }), "{end}");
    }
}

#[test]
fn what_the_job_is_not_to_blame_for_uses_no_retry() {
    for end in [End::NodeFailed, End::BootFailed, End::Preempted, End::Vanished] {
        let again = after(end.clone(), 5, 1);
        assert_eq!((again.failures, again.fruitless, not_before(&again)), (1, 1, Some(90.0)), "{end}");
    }
}

#[test]
fn a_completed_or_cancelled_job_is_over() {
    assert!(matches!(after(End::Completed, 10, 0).phase, Phase::Ended { outcome: Outcome::Completed, .. }));
    assert!(matches!(after(End::NodeFailed, 10, 0).phase, Phase::Ended { outcome: Outcome::Completed, .. }));
    assert!(matches!(after(End::Cancelled, 5, 0).phase, Phase::Ended { outcome: Outcome::Cancelled, .. }));
    // A program that reports nothing is believed when it says that it is done.
    let silent = running(job("a", "{v100: 100}", ""), attempt("r", "v1", "v100", 1, 0), 0);
    let mut state = state(vec![silent]);
    let news = News::Ended { end: End::Completed, at: Time(1.0) };
    apply(
        &mut state,
        Time(1.0),
        &Event::Attempt { job: name("a"), run: "r".into(), news },
        &rules(Moves::Never),
    );
    assert!(
        state.is_over() && state.jobs[0].last.1.contains("reported no epoch"),
        "{:?}",
        state.jobs[0].last
    );
}

#[test]
fn waits_double_while_no_epoch_is_done() {
    let rules = rules(Moves::Never);
    let delays: Vec<f64> = [0, 1, 2, 3, 7, 60].map(|count| rules.delay(count).0).to_vec();
    assert_eq!(delays, [0.0, 30.0, 60.0, 120.0, 1800.0, 1800.0]);
}

#[test]
fn news_of_another_run_and_of_a_job_that_has_ended_change_nothing() {
    let tracked = running(job("a", "{v100: 100}", ""), attempt("r", "v1", "v100", 1, 0), 3);
    let ended = Tracked {
        phase: Phase::Ended { at: Time(1.0), outcome: Outcome::Completed },
        ..Tracked::new(job("b", "{v100: 100}", ""), Time(0.0))
    };
    let before = state(vec![tracked, ended]);
    let epoch = EpochReport { epoch: 4, at: Time(9.0), length: Some(Seconds(2.0)), ranks: Vec::new() };
    for (job, run) in [("a", "other"), ("b", "r"), ("c", "r")] {
        for news in [News::Epoch(epoch.clone()), News::Ended { end: End::Saved, at: Time(9.0) }, News::Killed]
        {
            let mut after = before.clone();
            let event = Event::Attempt { job: name(job), run: run.into(), news };
            assert_eq!(apply(&mut after, Time(9.0), &event, &rules(Moves::Never)), None);
            assert_eq!(after, before);
        }
    }
}

#[test]
fn an_epoch_counts_once_and_teaches() {
    let tracked = running(job("a", "{v100: 500}", ""), attempt("r", "v1", "v100", 2, 0), 0);
    let mut state = state(vec![tracked]);
    let rank =
        |rank| RankReport { rank, samples: 500, compute: Seconds(5.0), step: None, probes: Vec::new() };
    let report = EpochReport {
        epoch: 1,
        at: Time(9.0),
        length: Some(Seconds(6.0)),
        ranks: vec![rank(0), rank(1), rank(9)],
    };
    let event = Event::Attempt { job: name("a"), run: "r".into(), news: News::Epoch(report) };
    let learnt = apply(&mut state, Time(9.0), &event, &rules(Moves::Never));
    let Some(Action::Learn { samples, .. }) = learnt else { panic!("{learnt:?}") };
    // 500 samples in 5 s, 50 at a time: half a second a step, by what was computed and not by what was waited.
    assert_eq!(samples.iter().map(|own| (own.batch, own.seconds)).collect::<Vec<_>>(), [(50, 0.5)]);
    let measured = state.cache.estimate(&samples[0].key).expect("a speed");
    assert!((measured.speed.step(50, None) - 0.5).abs() < 1e-9);
    assert_eq!(apply(&mut state, Time(9.0), &event, &rules(Moves::Never)), None);
    assert_eq!(state.jobs[0].epochs_done, 1);
}

/// What is learnt from `news` of a run of `job` on the ranks of `attempt`: type, batch and seconds of a step.
fn learnt(job: Job, attempt: Attempt, past: usize, news: News) -> Vec<(String, u64, f64)> {
    let done = attempt.epochs_before;
    let ended = PastAttempt { attempt: attempt.clone(), ended: Time(0.0), end: End::Saved, epochs: done };
    let tracked = Tracked { past: vec![ended; past], ..running(job, attempt, done) };
    let mut state = state(vec![tracked]);
    let event = Event::Attempt { job: name("a"), run: "r".into(), news };
    let action = apply(&mut state, Time(9.0), &event, &rules(Moves::Never));
    let Some(Action::Learn { samples, .. }) = action else { return Vec::new() };
    assert!(samples.iter().all(|own| own.source == SampleSource::Epoch), "{samples:?}");
    samples.into_iter().map(|own| (own.key.gpu_type.to_string(), own.batch, own.seconds)).collect()
}

/// Rank 0's word that an epoch is done, and nothing else.
fn bare_epoch(epoch: u64, length: Option<f64>) -> News {
    News::Epoch(EpochReport { epoch, at: Time(9.0), length: length.map(Seconds), ranks: Vec::new() })
}

fn own(gpu_type: &str, batch: u64, seconds: f64) -> (String, u64, f64) {
    (gpu_type.to_owned(), batch, seconds)
}

#[test]
fn a_bare_epoch_teaches_by_its_length() {
    let job = |more: &str| job("a", "{v100: 100, t4: 25}", more);
    let talking = |done| Attempt { communication: Seconds(2.0), ..attempt("r", "v1", "v100", 2, done) };
    // 12 s, of which the exchange takes 2 s: ten steps of 1 s, over 50 samples each.
    assert_eq!(learnt(job(""), talking(0), 0, bare_epoch(1, Some(12.0))), [own("v100", 50, 1.0)]);
    // The same in three micro-batches.
    let small = job(", max_batch: {v100: 20}");
    assert_eq!(learnt(small, talking(0), 0, bare_epoch(1, Some(32.0))), [own("v100", 17, 1.0)]);
    assert_eq!(learnt(job(""), talking(0), 0, bare_epoch(1, None)), []);
    assert_eq!(learnt(job(""), talking(0), 0, bare_epoch(1, Some(1.5))), []);
    // The first epoch after a stop may be the rest of one; the second is whole.
    assert_eq!(learnt(job(""), talking(3), 1, bare_epoch(4, Some(12.0))), []);
    assert_eq!(learnt(job(""), talking(3), 1, bare_epoch(5, Some(12.0))), [own("v100", 50, 1.0)]);
}

#[test]
fn a_bare_epoch_of_several_types_scales_what_was_thought_of_them() {
    let mixed = |fast: u64| {
        let mut attempt = attempt("r", "v1", "v100", 2, 0);
        attempt.ranks[1].gpu_type = gpu("t4");
        (attempt.ranks[0].batch, attempt.ranks[1].batch) = (fast, 100 - fast);
        attempt
    };
    let job = job("a", "{v100: 100, t4: 25}", "");
    // Thought: 0.8 s of each. Seen: steps of 1.2 s.
    let even = learnt(job.clone(), mixed(80), 0, bare_epoch(1, Some(12.0)));
    assert_eq!(even.iter().map(|(_, batch, _)| *batch).collect::<Vec<_>>(), [20, 80]);
    assert!(even.iter().all(|(.., seconds)| (seconds - 1.2).abs() < 1e-12), "{even:?}");
    // Thought: 0.5 s, and 2 s for the T4, which the others wait for. Seen: 1 s.
    let waiting = learnt(job, mixed(50), 0, bare_epoch(1, Some(10.0)));
    assert_eq!(waiting, [own("t4", 50, 1.0), own("v100", 50, 0.25)]);
}

#[test]
fn a_silent_job_teaches_by_its_length_once_it_is_over() {
    let ended_at = |at: f64, end| News::Ended { end, at: Time(at) };
    let ended = |end| ended_at(1000.0, end);
    let job = || job("a", "{v100: 100}", "");
    let whole = || attempt("r", "v1", "v100", 2, 0);
    // Ten epochs of ten steps in 1000 s.
    assert_eq!(learnt(job(), whole(), 0, ended(End::Completed)), [own("v100", 50, 10.0)]);
    // Of a short one too much may be its start.
    assert_eq!(learnt(job(), whole(), 0, ended_at(599.0, End::Completed)), []);
    assert_eq!(learnt(job(), whole(), 0, ended(End::TimedOut)), []);
    assert_eq!(learnt(job(), whole(), 1, ended(End::Completed)), []);
    assert_eq!(learnt(job(), attempt("r", "v1", "v100", 2, 4), 0, ended(End::Completed)), []);
}

#[test]
fn free_gpus_go_to_jobs_that_wait() {
    let cluster = cluster(&[("v1", "v100", 4, 2, "mixed"), ("t1", "t4", 2, 0, "idle")]);
    let waiting = Tracked::new(job("b", "{v100: 100, t4: 50}", ""), Time(0.0));
    let other = running(job("a", "{v100: 100}", ""), attempt("r", "v1", "v100", 2, 0), 3);
    let Step { state: then, actions } =
        take(state(vec![other, waiting]), 1.0, &cluster, &rules(Moves::Never));
    assert_eq!(words(&actions), ["submit b on 2 t4 + 2 v100"]);
    let Phase::Meant(attempt) = &then.jobs[1].phase else { panic!("{:?}", then.jobs[1].phase) };
    assert_eq!((attempt.run.as_str(), attempt.job_id), ("next", None));
    // The same again: what is meant has its GPUs, and nobody else waits.
    assert_eq!(words(&take(then, 2.0, &cluster, &rules(Moves::Never)).actions), [""; 0]);
}

#[test]
fn gpus_of_what_is_in_the_queue_are_promised() {
    let cluster = cluster(&[("v1", "v100", 2, 0, "idle"), ("v2", "v100", 2, 0, "idle")]);
    for phase in [Phase::Pending, Phase::Meant] {
        let first = Tracked {
            phase: phase(attempt("r", "v1", "v100", 2, 0)),
            ..Tracked::new(job("a", "{v100: 100}", ""), Time(0.0))
        };
        let waiting = Tracked::new(job("b", "{v100: 100}", ""), Time(0.0));
        let done = take(state(vec![first, waiting]), 1.0, &cluster, &rules(Moves::Never));
        assert_eq!(words(&done.actions), ["submit b on 2 v100"]);
        let Phase::Meant(attempt) = &done.state.jobs[1].phase else { panic!() };
        assert_eq!(attempt.gpus.0.keys().map(NodeName::as_str).collect::<Vec<_>>(), ["v2"]);
    }
}

#[test]
fn a_job_waits_for_its_moment_and_capacity_is_kept() {
    let cluster = cluster(&[("v1", "v100", 4, 0, "idle")]);
    let mut waiting = Tracked::new(job("b", "{v100: 100}", ""), Time(0.0));
    waiting.phase = Phase::Waiting { not_before: Some(Time(50.0)), reason: String::new() };
    let early = take(state(vec![waiting]), 49.0, &cluster, &rules(Moves::Never));
    assert_eq!(words(&early.actions), [""; 0]);
    let mut limited = rules(Moves::Never);
    limited.capacity.insert(gpu("v100"), 1);
    assert_eq!(words(&take(early.state, 50.0, &cluster, &limited).actions), ["submit b on 1 v100"]);
}

#[test]
fn a_running_job_moves_where_that_pays() {
    let cluster = cluster(&[("v1", "v100", 2, 0, "idle"), ("t1", "t4", 2, 2, "alloc")]);
    let slow = |epochs: u64, done: u64| {
        let job = job("a", "{v100: 100, t4: 20}", ", max_gpus: 2");
        running(Job { epochs, ..job }, attempt("r", "t1", "t4", 2, 0), done)
    };
    let check = |tracked: Tracked, moves, expected: &[&str]| {
        assert_eq!(words(&take(state(vec![tracked]), 1.0, &cluster, &rules(moves)).actions), expected);
    };
    let auto = Moves::Auto { margin: 0.5 };
    check(slow(10, 1), auto, &["stop a"]);
    check(slow(10, 1), Moves::Never, &[]);
    // An epoch saves 20 s of 25 s, a restart costs 5 s: with the margin too much for so little.
    check(slow(10, 10), auto, &[]);
    check(slow(10, 9), Moves::Auto { margin: 4.0 }, &[]);
    check(slow(10, 9), auto, &["stop a"]);
    // Nobody knows yet how it does where it is.
    check(slow(10, 0), auto, &[]);
    // One epoch is left, and that is nearly done: what it would lose is more than it would gain.
    let late = |begun: f64| Tracked { epoch_at: Some(Time(begun)), ..slow(10, 9) };
    let now = |tracked| take(state(vec![tracked]), 100.0, &cluster, &rules(Moves::Auto { margin: 0.5 }));
    assert_eq!(words(&now(late(100.0)).actions), ["stop a"]);
    let step = now(late(74.0));
    // It is thought about again when that epoch is done.
    assert_eq!((words(&step.actions), step.state.decided), (vec![], None));
}

#[test]
fn jobs_wait_while_another_gives_its_gpus_back() {
    let cluster = cluster(&[("v1", "v100", 4, 2, "mixed")]);
    let stopping = Tracked {
        phase: Phase::Stopping {
            attempt: attempt("r", "v1", "v100", 2, 0),
            since: Time(0.0),
            then: Then::GoOn,
            request: Request::Asked,
        },
        ..Tracked::new(job("a", "{v100: 100}", ""), Time(0.0))
    };
    let waiting = Tracked::new(job("b", "{v100: 100}", ""), Time(0.0));
    let then = take(state(vec![stopping, waiting]), 1.0, &cluster, &rules(Moves::Auto { margin: 0.5 }));
    assert_eq!(words(&then.actions), ["b waits"]);
    // Its grace of 10 s and half a minute more are over: Slurm ends it.
    let late = take(then.state, 41.0, &cluster, &rules(Moves::Never));
    assert_eq!(words(&late.actions), ["cancel a", "b waits"]);
}

#[test]
fn what_can_never_start_is_taken_back() {
    let up = cluster(&[("v1", "v100", 2, 0, "down*"), ("t1", "t4", 2, 0, "idle")]);
    let pending = Tracked {
        phase: Phase::Pending(attempt("r", "v1", "v100", 2, 0)),
        ..Tracked::new(job("a", "{v100: 100, t4: 50}", ""), Time(0.0))
    };
    // A node may come back in a moment, and a cluster that shows no node at all was not seen.
    assert_eq!(words(&take(state(vec![pending.clone()]), 59.0, &up, &rules(Moves::Never)).actions), [""; 0]);
    assert_eq!(
        words(&take(state(vec![pending.clone()]), 60.0, &cluster(&[]), &rules(Moves::Never)).actions),
        [""; 0]
    );
    let mut then = take(state(vec![pending]), 60.0, &up, &rules(Moves::Never));
    assert_eq!(words(&then.actions), ["cancel a"]);
    // The intent is written down: whatever becomes of the request, this end is none for good.
    assert!(matches!(
        then.state.jobs[0].phase,
        Phase::Stopping { then: Then::GoOn, request: Request::Meant, .. }
    ));
    for news in [News::Killed, News::Ended { end: End::Cancelled, at: Time(2.0) }] {
        let event = Event::Attempt { job: name("a"), run: "r".into(), news };
        apply(&mut then.state, Time(2.0), &event, &rules(Moves::Never));
    }
    assert_eq!(words(&take(then.state, 63.0, &up, &rules(Moves::Never)).actions), ["submit a on 2 t4"]);
}

#[test]
fn who_waits_long_in_the_queue_takes_what_is_free() {
    let nodes = |used| cluster(&[("v1", "v100", 2, used, "mixed"), ("t1", "t4", 2, 0, "idle")]);
    let check = |at: f64, used: u32, t4: &str, expected: &[&str]| {
        let pending = Tracked {
            phase: Phase::Pending(attempt("r", "v1", "v100", 2, 0)),
            ..Tracked::new(job("a", &format!("{{v100: 100, t4: {t4}}}"), ""), Time(0.0))
        };
        let done = take(state(vec![pending]), at, &nodes(used), &rules(Moves::Never));
        assert_eq!(words(&done.actions), expected, "{at} {used} {t4}");
    };
    // An epoch was to take 10 s; on 2 t4 of 50 samples a second it takes as long, on slower ones 50 s.
    check(600.0, 2, "50", &["cancel a"]);
    check(599.0, 2, "50", &[]);
    check(600.0, 2, "10", &[]);
    check(600.0, 0, "50", &[]);
}

#[test]
fn what_ended_long_ago_is_forgotten() {
    let ended = Tracked {
        phase: Phase::Ended { at: Time(0.0), outcome: Outcome::Completed },
        ..Tracked::new(job("a", "{v100: 100}", ""), Time(0.0))
    };
    let left = |days: f64| {
        let at = days * 86_400.0;
        take(state(vec![ended.clone()]), at, &cluster(&[]), &rules(Moves::Never)).state.jobs.len()
    };
    assert_eq!((left(29.9), left(30.1)), (1, 0));
}

#[test]
fn a_cancelled_job_is_never_submitted_again() {
    let cluster = cluster(&[("v1", "v100", 2, 0, "idle")]);
    let asked = Event::CancelAsked { job: name("a") };
    let mut waiting = state(vec![Tracked::new(job("a", "{v100: 100}", ""), Time(0.0))]);
    apply(&mut waiting, Time(1.0), &asked, &rules(Moves::Never));
    assert!(waiting.is_over());
    let mut active = state(vec![running(job("a", "{v100: 100}", ""), attempt("r", "v1", "v100", 2, 0), 3)]);
    apply(&mut active, Time(1.0), &asked, &rules(Moves::Never));
    let then = take(active, 2.0, &cluster, &rules(Moves::Never));
    assert_eq!(words(&then.actions), ["cancel a"]);
    for end in [End::Saved, End::Cancelled, End::NodeFailed, End::Failed { exit: 1, signal: 0 }] {
        let mut over = then.state.clone();
        let news = News::Ended { end, at: Time(3.0) };
        apply(
            &mut over,
            Time(3.0),
            &Event::Attempt { job: name("a"), run: "r".into(), news },
            &rules(Moves::Never),
        );
        assert!(over.is_over(), "{:?}", over.jobs[0].phase);
        assert_eq!(words(&take(over, 4.0, &cluster, &rules(Moves::Never)).actions), [""; 0]);
    }
}

fn look(at: f64, sightings: Vec<Sighting>) -> Observation {
    Observation {
        at: Time(at),
        cluster: Cluster::default(),
        sightings,
        strays: Vec::new(),
        epochs: Vec::new(),
        notes: Vec::new(),
    }
}

fn sighting(job_id: u32, standing: Standing) -> Sighting {
    let submit_time = Some("2026-11-21T06:13:16".to_owned());
    Sighting { job: name("a"), run: "r".into(), job_id: JobId(job_id), submit_time, standing }
}

#[test]
fn a_submission_without_an_answer_is_found_or_made_again() {
    let meant = Attempt { job_id: None, ..attempt("r", "v1", "v100", 1, 0) };
    let tracked =
        Tracked { phase: Phase::Meant(meant), ..Tracked::new(job("a", "{v100: 100}", ""), Time(0.0)) };
    let mut state = state(vec![tracked]);
    let mut see = |at: f64, sightings: Vec<Sighting>| {
        let events = notice(&state, &look(at, sightings));
        for event in &events {
            apply(&mut state, Time(at), event, &rules(Moves::Never));
        }
        state.jobs[0].phase.clone()
    };
    assert!(matches!(see(1.0, vec![]), Phase::Meant(_)));
    assert!(matches!(see(60.0, vec![]), Phase::Meant(_)));
    let found = see(60.5, vec![sighting(9, Standing::Pending)]);
    let Phase::Pending(attempt) = found else { panic!("{found:?}") };
    assert_eq!((attempt.job_id, attempt.missing), (Some(JobId(9)), None));
    // Known, then gone: a minute later it counts as lost, and is tried again without blame.
    assert!(matches!(see(70.0, vec![]), Phase::Pending(_)));
    assert!(matches!(see(129.0, vec![]), Phase::Pending(_)));
    assert!(matches!(see(130.0, vec![]), Phase::Waiting { .. }));
}

#[test]
fn epochs_come_before_the_end_that_follows_them() {
    let tracked = running(job("a", "{v100: 100}", ""), attempt("r", "v1", "v100", 1, 0), 1);
    let report = |epoch| {
        (name("a"), "r".to_owned(), EpochReport { epoch, at: Time(9.0), length: None, ranks: Vec::new() })
    };
    let end = Standing::Ended { end: End::Saved, at: Some(Time(8.0)) };
    let seen =
        Observation { epochs: vec![report(1), report(2), report(3)], ..look(9.0, vec![sighting(7, end)]) };
    let word = |event: Event| match event {
        Event::Attempt { news: News::Epoch(report), .. } => format!("epoch {}", report.epoch),
        Event::Attempt { news: News::Ended { .. }, .. } => "ended".to_owned(),
        Event::Attempt { news: News::Queued { .. }, .. } => "queued".to_owned(),
        other => panic!("{other:?}"),
    };
    let words: Vec<String> = notice(&state(vec![tracked]), &seen).into_iter().map(word).collect();
    assert_eq!(words, ["queued", "epoch 2", "epoch 3", "ended"]);
}

#[test]
fn nodes_that_go_and_come_are_noticed_once() {
    let mut known = State::default();
    let see = |node_state: &str| {
        let cluster = cluster(&[("v1", "v100", 2, 0, node_state)]);
        let seen = Observation { cluster, ..look(1.0, vec![]) };
        let events = notice(&known, &seen);
        for event in &events {
            apply(&mut known, Time(1.0), event, &rules(Moves::Never));
        }
        events.len()
    };
    assert_eq!(["idle", "down*", "down", "drained", "idle", "mixed"].map(see), [0, 1, 0, 0, 1, 0]);
}

#[test]
fn gpus_print_by_type() {
    let attempt = attempt("r", "v1", "v100", 2, 0);
    assert_eq!((attempt.gpus.to_string(), Gpus::default().to_string()), ("2 v100".to_owned(), String::new()));
}

#[test]
fn a_failure_on_a_node_that_is_down_is_a_lost_node() {
    let on_node = || running(job("a", "{v100: 100}", ", retries: 0"), attempt("r", "v1", "v100", 2, 0), 3);
    let down = Event::NodeDown { node: NodeName::new("v1").expect("a name"), reason: None };
    let news = News::Ended { end: End::Failed { exit: 233, signal: 0 }, at: Time(10.0) };
    let failed = Event::Attempt { job: name("a"), run: "r".into(), news };
    // Whichever is noticed first.
    for events in [[&down, &failed], [&failed, &down]] {
        let mut state = state(vec![on_node()]);
        for event in events {
            apply(&mut state, Time(12.0), event, &rules(Moves::Never));
        }
        let tracked = &state.jobs[0];
        assert!(matches!(tracked.phase, Phase::Waiting { .. }), "{:?}", tracked.phase);
        assert_eq!((tracked.failures, &tracked.past[0].end), (0, &End::NodeFailed));
    }
    // One that is noticed much later has nothing to do with it.
    let mut state = state(vec![on_node()]);
    apply(&mut state, Time(12.0), &failed, &rules(Moves::Never));
    apply(&mut state, Time(400.0), &down, &rules(Moves::Never));
    assert!(state.is_over());
}

#[test]
fn a_program_that_fails_after_its_last_epoch_has_failed_and_is_not_run_again() {
    let end = End::Failed { exit: 7, signal: 0 };
    let over = after(end, 10, 0);
    let Phase::Ended { outcome: Outcome::Failed { reason }, .. } = &over.phase else {
        panic!("{:?}", over.phase)
    };
    assert!(reason.contains("all epochs are done"), "{reason}");
}

#[test]
fn a_submission_that_was_given_up_is_found_again_and_others_stand_in_the_way() {
    let meant = Attempt { job_id: None, ..attempt("r", "v1", "v100", 1, 0) };
    let tracked =
        Tracked { phase: Phase::Meant(meant), ..Tracked::new(job("a", "{v100: 100}", ""), Time(0.0)) };
    let mut state = state(vec![tracked]);
    let mut see = |at: f64, strays: Vec<Sighting>| {
        let seen = Observation { strays, ..look(at, vec![]) };
        for event in notice(&state, &seen) {
            apply(&mut state, Time(at), &event, &rules(Moves::Never));
        }
        state.clone()
    };
    see(0.0, vec![]);
    assert!(matches!(see(61.0, vec![]).jobs[0].phase, Phase::Waiting { .. }));
    let cluster = cluster(&[("v1", "v100", 2, 0, "idle")]);
    let run = |run: &str| Sighting { run: run.into(), ..sighting(9, Standing::Pending) };
    let blocked = see(500.0, vec![run("of-somebody")]);
    assert_eq!(words(&take(blocked, 500.0, &cluster, &rules(Moves::Never)).actions), [""; 0]);
    let free = see(501.0, vec![]);
    assert_eq!(words(&take(free, 501.0, &cluster, &rules(Moves::Never)).actions), ["submit a on 2 v100"]);
    let found = see(502.0, vec![run("r")]);
    let Phase::Pending(attempt) = &found.jobs[0].phase else { panic!("{:?}", found.jobs[0].phase) };
    assert_eq!((attempt.job_id, attempt.ranks.len(), found.jobs[0].past.len()), (Some(JobId(9)), 1, 0));
}

#[test]
fn a_request_that_got_lost_is_made_again_and_one_that_was_refused_is_taken_back() {
    let cluster = cluster(&[("v1", "v100", 2, 0, "idle"), ("t1", "t4", 2, 2, "alloc")]);
    let slow = || {
        let job = job("a", "{v100: 100, t4: 20}", ", max_gpus: 2");
        running(job, attempt("r", "t1", "t4", 2, 0), 1)
    };
    let auto = rules(Moves::Auto { margin: 0.5 });
    let first = take(state(vec![slow()]), 1.0, &cluster, &auto);
    assert_eq!(words(&first.actions), ["stop a"]);
    // Cut short before the answer: the next turn asks again.
    assert_eq!(words(&take(first.state.clone(), 2.0, &cluster, &auto).actions), ["stop a"]);
    let hear = |news| {
        let mut state = first.state.clone();
        let event = Event::Attempt { job: name("a"), run: "r".into(), news };
        apply(&mut state, Time(2.0), &event, &auto);
        state
    };
    assert_eq!(words(&take(hear(News::Stopped), 3.0, &cluster, &auto).actions), [""; 0]);
    let refused = hear(News::NotStopped { message: "no".into() });
    assert!(matches!(refused.jobs[0].phase, Phase::Running(_)) && refused.decided.is_none());
}

#[test]
fn groups_that_share_nodes_do_not_share_gpus() {
    let mut cluster = cluster(&[("v1", "v100", 2, 0, "idle")]);
    cluster.nodes[0].partitions = ["long", "short"].map(str::to_owned).into();
    let jobs = ["long", "short"]
        .map(|own| Tracked::new(job(own, "{v100: 100}", &format!(", partition: {own}")), Time(0.0)));
    let done = take(state(jobs.to_vec()), 1.0, &cluster, &rules(Moves::Never));
    assert_eq!(words(&done.actions), ["submit long on 2 v100", "short waits"]);
}
