//! `hare`, `hlas` and `hlas-p` if jobs hold all their GPUs at once: accumulation, turns, and the order of
//! waiting jobs.

use hsched_lab::find_over_time;
use hsched_lab::replay::{EventKind, Hooks, Options, ReplayEvent, ReplayRecord, Trace, TraceJob, replay};
use hsched_model::{Seconds, Time};
use hsched_plan::{
    Budget, Decision, ExecutionMode, HeldPlacement, HoldStage, JobModel, Parameters, Policy, Problem, Rounds,
    Slot, TypeLimit,
};

use hsched_problems::problems;

/// A job whose epochs take 100 s on one GPU with rate 100 and have `scale` tasks each.
fn job(name: &str, epochs: u64, scale: u64, rates: &[f64]) -> JobModel {
    let rounds = Rounds { scale, ..Rounds::default() }.into();
    JobModel { rounds, ..problems::job(name, epochs, 10_000, 0.0, rates) }
}

fn play(
    mut problem: Problem,
    jobs: Vec<(f64, JobModel)>,
    cost: f64,
    policy: &mut dyn Policy,
) -> (ReplayRecord, Vec<ReplayEvent>) {
    problem.jobs.clear();
    let entry = |(place, (arrival, model)): (usize, (f64, JobModel))| TraceJob {
        model,
        arrival: Time(arrival),
        restart_cost: None,
        saves: true,
        retries: 3,
        after: Vec::new(),
        place,
        early: None,
        begun: None,
        copies: None,
    };
    let trace = Trace::of_entries(problem, jobs.into_iter().enumerate().map(entry).collect());
    let options = Options { restart_cost: Some(Seconds(cost)), ..Options::default() };
    let mut events = Vec::new();
    let hooks =
        Hooks { event: &mut |event| events.push(event.clone()), progress: &mut |_| (), elapsed: &|| 0.0 };
    let record = replay(&trace, &options, policy, hooks).expect("a replay");
    (record, events)
}

fn policy(name: &str, parameters: &Parameters) -> Box<dyn Policy> {
    find_over_time(name, parameters).expect("a policy")
}

fn hare() -> Box<dyn Policy> {
    policy("hare", &Parameters::default())
}

fn one_gpu() -> Problem {
    problems::problem(&["v100"], &[&[1]], Vec::new())
}

fn ends(record: &ReplayRecord) -> Vec<f64> {
    let end = |job: &hsched_lab::replay::ReplayedJob| job.completed.expect("an end").0;
    record.jobs.iter().map(|job| (end(job) * 1e6).round() / 1e6).collect()
}

#[test]
fn fewer_gpus_than_tasks_accumulate_and_more_are_left_alone() {
    let (record, _) = play(one_gpu(), vec![(0.0, job("a", 4, 2, &[100.0]))], 0.0, hare().as_mut());
    assert_eq!(ends(&record), [400.0]);
    let four = problems::problem(&["v100"], &[&[4]], Vec::new());
    let (record, events) = play(four, vec![(0.0, job("a", 4, 2, &[100.0]))], 0.0, hare().as_mut());
    assert_eq!(ends(&record), [200.0]);
    let started = events.iter().find(|event| event.kind == EventKind::Started).expect("a start");
    assert_eq!(started.slots.iter().map(|slot| slot.count).sum::<u32>(), 2);
}

#[test]
fn a_job_gets_its_minimum_of_gpus_even_with_fewer_tasks() {
    let four = || problems::problem(&["v100"], &[&[4]], Vec::new());
    for name in ["hare", "hlas", "hlas-p"] {
        let wide = JobModel { min_gpus: 3, max_gpus: 4, ..job("a", 3, 1, &[100.0]) };
        let mut policy = policy(name, &Parameters::default());
        let (record, _) = play(four(), vec![(0.0, wide)], 0.0, policy.as_mut());
        assert_eq!(ends(&record), [100.0], "{name}");
    }
}

#[test]
fn hlas_says_that_too_few_gpus_are_idle() {
    let mut problem = one_gpu();
    problem.jobs = vec![JobModel { min_gpus: 3, max_gpus: 4, ..job("a", 3, 1, &[100.0]) }];
    let plan = policy("hlas", &Parameters::default()).decide(&problem, &Budget::until(&|| false));
    let why = "fewer than 3 GPUs that it can use are idle".to_owned();
    assert_eq!(plan.expect("a plan").changes, [(0, Decision::Defer { why })]);
}

#[test]
fn hlas_keeps_idle_gpus_for_a_job_of_the_first_level_where_turns_end() {
    // From 50 s on, the turns of small jobs never end at the same time.
    let small = |number: u32| (50.0 * f64::from(number), job(&format!("small{number}"), 1, 1, &[100.0]));
    let gang_start = |carrying: ExecutionMode| {
        let two = problems::problem(&["v100"], &[&[2]], Vec::new());
        let gang = JobModel { min_gpus: 2, max_gpus: 2, ..job("gang", 1, 1, &[100.0]) };
        let jobs = (0..20).map(small).chain([(10.0, gang)]).collect();
        let mut policy = policy("hlas", &Parameters { carrying, ..Parameters::default() });
        let (record, _) = play(two, jobs, 0.0, policy.as_mut());
        // The jobs of a trace are in the order of their arrivals.
        record.jobs[1].started.expect("a start").0
    };
    assert_eq!(gang_start(ExecutionMode::AtOnce), 100.0);
    assert_eq!(gang_start(ExecutionMode::Alone), 100.0);
    assert_eq!(gang_start(ExecutionMode::Shared), 1050.0);
}

#[test]
fn a_turn_is_not_cut_and_costs_little_beside_its_restart() {
    // A turn takes 60 s / 0.05, which is twelve epochs.
    let heavy = JobModel { weight: 9.0, ..job("b", 4, 1, &[100.0]) };
    let jobs = vec![(0.0, job("a", 40, 1, &[100.0])), (100.0, heavy)];
    let (record, events) = play(one_gpu(), jobs, 60.0, hare().as_mut());
    assert_eq!(ends(&record), [4460.0, 1600.0]);
    // Consecutive turns on the same GPU are not moves; job a moves once, when it continues after job b.
    assert_eq!([record.jobs[0].moves, record.jobs[1].moves], [1, 0]);
    let stopped = events.iter().find(|event| event.kind == EventKind::Stopped).expect("a stop");
    assert!(stopped.why.starts_with("scheduled in about 7 min"), "{}", stopped.why);
}

#[test]
fn a_job_waits_for_a_fast_gpu_only_if_nobody_ahead_of_it_stays_there() {
    // The jobs are four times as fast on the V100, which the heavy job keeps until its end.
    let two = problems::problem(&["k80", "v100"], &[&[1, 0], &[0, 1]], Vec::new());
    let heavy = JobModel { weight: 9.0, max_gpus: 1, ..job("heavy", 10, 1, &[25.0, 100.0]) };
    let light = JobModel { max_gpus: 1, ..job("light", 4, 1, &[25.0, 100.0]) };
    let (record, events) = play(two, vec![(0.0, heavy), (0.0, light)], 0.0, hare().as_mut());
    let started: Vec<f64> = record.jobs.iter().map(|job| job.started.expect("a start").0).collect();
    assert_eq!(started, [0.0, 0.0], "{events:?}");
    assert!(ends(&record)[0] <= 1000.0 && ends(&record)[1] < 1400.0, "{:?}", ends(&record));
}

#[test]
fn hlas_takes_turns_of_an_epoch_where_restarts_cost_nothing() {
    let jobs = || {
        let mut last = job("c", 4, 1, &[100.0]);
        std::sync::Arc::make_mut(&mut last.rounds).predicted = 3;
        vec![(0.0, job("a", 2, 1, &[100.0])), (0.0, job("b", 3, 1, &[100.0])), (0.0, last)]
    };
    let ends_of = |name: &str| {
        let mut policy = policy(name, &Parameters::default().with("thresholds", "100s,200s,300s"));
        ends(&play(one_gpu(), jobs(), 0.0, policy.as_mut()).0)
    };
    assert_eq!(ends_of("hlas"), [400.0, 700.0, 900.0]);
    assert_eq!(ends_of("hlas-p"), [300.0, 500.0, 900.0]);
}

#[test]
fn what_they_remember_is_taken_up_as_it_was() {
    for name in ["hare", "hlas", "hlas-p"] {
        let mut problem = one_gpu();
        problem.jobs = vec![job("a", 4, 2, &[100.0]), job("b", 3, 1, &[100.0])];
        let mut first = policy(name, &Parameters::default());
        let plan = first.decide(&problem, &Budget::until(&|| false)).expect("a plan");
        assert_eq!(plan.changes.len(), 2, "{name}: one starts, one waits");
        let memory = first.memory().expect("a memory");
        let mut second = policy(name, &Parameters::default());
        assert_ne!(second.memory().map(|memory| memory.text), Some(memory.text.clone()), "{name}");
        second.remember(&memory);
        assert_eq!(second.memory(), Some(memory), "{name}");
    }
}

#[test]
fn under_a_limit_a_job_keeps_the_gpu_that_it_has() {
    for name in ["hare", "hlas"] {
        let model = JobModel { max_gpus: 1, ..job("a", 4, 1, &[100.0]) };
        let mut problem = problems::problem(&["v100"], &[&[1], &[1]], vec![model]);
        problem.limits = vec![TypeLimit { gpu_types: vec![0], most: 1 }];
        let slots = vec![Slot { node: 1, gpu_type: 0, count: 1 }];
        let stage = HoldStage::Running { epoch: 100.0, under_way: 0.0, movable: true, busy_until: Time(0.0) };
        let progress = &mut problem.jobs[0].progress;
        progress.started = Some(Time(0.0));
        progress.holds = vec![HeldPlacement { slots, since: Time(0.0), epoch: 100.0, stage }];
        let mut policy = policy(name, &Parameters::default());
        let plan = policy.decide(&problem, &Budget::until(&|| false)).expect("a plan");
        assert!(plan.changes.is_empty(), "{name}: {:?}", plan.changes);
        assert_eq!(plan.wake, Some(Time(100.0)), "{name}");
    }
}
