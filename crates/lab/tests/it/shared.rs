//! Policies over time on a shared cluster: no job is stopped only to wait, and promised GPUs are kept.

use std::collections::BTreeMap;

use hsched_lab::registry;
use hsched_lab::replay::{Figures, Hooks, Options, Trace, TraceJob, replay};
use hsched_lab::{find, find_over_time};
use hsched_model::{Seconds, Time};
use hsched_plan::{
    Budget, Decision, Eligibility, ExecutionMode, HeldPlacement, HoldStage, JobModel, Memory, Moves,
    Parameters, Placement, Plan, Policy, Problem, Replanning, Sharing, Slot, TypeLimit, WaitForecast, verify,
};
use proptest::prelude::*;

use hsched_problems::problems;

/// The parameters of `watch --moves auto` and `simulate --queue-wait`.
fn parameters() -> Parameters {
    let replanning = Replanning { moves: Moves::Auto { margin: 0.5 }, ..Replanning::default() };
    Parameters { replanning, carrying: ExecutionMode::Shared, ..Parameters::default() }
}

fn horizon() -> Box<dyn Policy> {
    find("horizon", &parameters()).expect("a policy")
}

pub fn decide(policy: &mut dyn Policy, problem: &Problem) -> Plan {
    policy.decide(problem, &Budget::until(&|| false)).expect("a plan")
}

/// Two nodes with one GPU each: a T4, and a V100 that is four times as fast.
pub fn two_gpus(jobs: Vec<JobModel>) -> Problem {
    problems::problem(&["t4", "v100"], &[&[1, 0], &[0, 1]], jobs)
}

/// A job of one GPU that takes a number of hours on a V100; saving and restarting takes a minute.
pub fn job(name: &str, hours: u64) -> JobModel {
    let mut job = JobModel { max_gpus: 1, ..problems::job(name, hours * 36, 10_000, 0.0, &[25.0, 100.0]) };
    job.progress.restart_cost = Seconds(60.0);
    job
}

pub const T4: Slot = Slot { node: 0, gpu_type: 0, count: 1 };
pub const V100: Slot = Slot { node: 1, gpu_type: 1, count: 1 };

/// Lets a job run on these GPUs: it has a known epoch time and is at the start of an epoch. Its shares are
/// balanced unless only equal ones are legal.
pub fn run(problem: &mut Problem, job: usize, slots: &[Slot]) {
    let divided = |sharing| Placement::new(problem, job, slots, sharing);
    let placement = divided(Sharing::Balanced).or_else(|| divided(Sharing::Equal)).expect("a legal one");
    let epoch = placement.epoch.total();
    let stage = HoldStage::Running { epoch, under_way: 0.0, movable: true, busy_until: Time(0.0) };
    let progress = &mut problem.jobs[job].progress;
    progress.started = Some(Time(0.0));
    progress.holds = vec![HeldPlacement { slots: slots.to_vec(), since: Time(0.0), epoch, stage }];
}

/// Marks a running job as being stopped, while Slurm still counts its GPUs as in use.
pub fn stop(problem: &mut Problem, job: usize) {
    let hold = &mut problem.jobs[job].progress.holds[0];
    hold.stage = HoldStage::Leaving { started: true, gives_back: true };
    for slot in hold.slots.clone() {
        problem.nodes[slot.node].gpus[slot.gpu_type] -= slot.count;
    }
    problem.jobs[job].progress.waits = Eligibility::Later;
}

/// Marks a stopping job as ended, so that it may get GPUs again.
pub fn end(problem: &mut Problem, job: usize) {
    for slot in std::mem::take(&mut problem.jobs[job].progress.holds).into_iter().flat_map(|hold| hold.slots)
    {
        problem.nodes[slot.node].gpus[slot.gpu_type] += slot.count;
    }
    problem.jobs[job].progress.waits = Eligibility::Ready;
}

/// Returns the assigned GPUs of a plan by job.
pub fn given(plan: &Plan) -> BTreeMap<usize, Vec<Slot>> {
    let placed = plan.changes.iter().filter_map(|(job, decision)| match decision {
        Decision::Place { placements, .. } => Some((*job, placements[0].slots.clone())),
        _ => None,
    });
    placed.collect()
}

/// The answer that a job would wait this long for the V100.
fn forecast(job: usize, seconds: f64) -> WaitForecast {
    WaitForecast { job, slots: vec![V100], wait: Some(Seconds(seconds)) }
}

#[test]
fn a_job_that_moves_gets_the_gpus_it_was_stopped_for() {
    let mut problem = two_gpus(vec![job("a", 10)]);
    run(&mut problem, 0, &[T4]);
    problem.forecasts = vec![forecast(0, 0.0)];
    let mut policy = horizon();
    assert_eq!(given(&decide(policy.as_mut(), &problem)), BTreeMap::from([(0, vec![V100])]));
    let memory = policy.memory().expect("a promise");
    // While job a saves, a short job arrives: the V100 is free but reserved.
    stop(&mut problem, 0);
    problem.jobs.push(job("b", 1));
    let next = |memory: &Memory, problem: &Problem| {
        let mut policy = horizon();
        policy.remember(memory);
        let plan = decide(policy.as_mut(), problem);
        (plan, policy.memory().expect("a memory"))
    };
    let (plan, memory) = next(&memory, &problem);
    assert_eq!(given(&plan), BTreeMap::new(), "{plan:?}");
    assert!(matches!(&plan.changes[..], [(1, Decision::Defer { .. })]), "{plan:?}");
    end(&mut problem, 0);
    let (plan, memory) = next(&memory, &problem);
    assert_eq!(given(&plan), BTreeMap::from([(0, vec![V100]), (1, vec![T4])]));
    // If another user took the GPUs, both jobs are decided on again, and the short one comes first.
    problem.nodes[1].gpus = vec![0, 0];
    let (plan, _) = next(&memory, &problem);
    assert_eq!(given(&plan), BTreeMap::from([(1, vec![T4])]));
}

#[test]
fn a_move_pays_for_its_wait_in_the_queue_and_for_the_epoch_under_way() {
    let mut problem = two_gpus(vec![job("a", 1)]);
    run(&mut problem, 0, &[T4]);
    let asked = decide(horizon().as_mut(), &problem);
    assert_eq!(
        asked.questions.iter().map(|(job, placement)| (*job, placement.slots.clone())).collect::<Vec<_>>(),
        [(0, vec![V100])]
    );
    assert!(asked.changes.is_empty());
    let with = |problem: &Problem, wait: f64| {
        decide(horizon().as_mut(), &Problem { forecasts: vec![forecast(0, wait)], ..problem.clone() })
    };
    // The job moves for a wait of 1000 s, but not for a wait of an hour.
    assert_eq!(given(&with(&problem, 1000.0)).len(), 1);
    assert!(given(&with(&problem, 3600.0)).is_empty());
    // An epoch takes 400 s. Near its end, a move that loses the epoch costs too much, but a move after its
    // end does not.
    let progress = &mut problem.jobs[0].progress;
    (progress.work_left, progress.epochs_left) = (2.0, 2);
    assert_eq!(given(&with(&problem, 0.0)).len(), 1);
    let HoldStage::Running { under_way, .. } = &mut problem.jobs[0].progress.holds[0].stage else {
        panic!("it runs")
    };
    *under_way = 390.0;
    let plan = with(&problem, 0.0);
    assert!(given(&plan).is_empty() && plan.questions.is_empty(), "{plan:?}");
    assert_eq!(plan.wake, Some(problem.now));
}

#[test]
fn jobs_that_do_not_save_stay_and_so_do_all_where_nobody_is_to_move() {
    let mut problem = two_gpus(vec![job("a", 10)]);
    run(&mut problem, 0, &[T4]);
    problem.forecasts = vec![forecast(0, 0.0)];
    let never = Parameters { replanning: Replanning::default(), ..parameters() };
    let mut policy = find("horizon", &never).expect("a policy");
    assert_eq!(given(&decide(policy.as_mut(), &problem)), BTreeMap::new());
    problem.jobs[0].progress.saves = false;
    assert_eq!(given(&decide(horizon().as_mut(), &problem)), BTreeMap::new());
}

#[test]
fn wrong_shares_are_put_right_where_that_pays() {
    let mut problem = two_gpus(vec![JobModel { max_gpus: 2, ..job("a", 10) }]);
    run(&mut problem, 0, &[T4, V100]);
    assert_eq!(given(&decide(horizon().as_mut(), &problem)), BTreeMap::new());
    let HoldStage::Running { epoch, .. } = &mut problem.jobs[0].progress.holds[0].stage else {
        panic!("it runs")
    };
    *epoch *= 1.1;
    assert_eq!(given(&decide(horizon().as_mut(), &problem)), BTreeMap::from([(0, vec![V100, T4])]));
}

#[test]
fn new_shares_are_those_of_the_policy() {
    let mut problem = two_gpus(vec![JobModel { min_gpus: 2, max_gpus: 2, asks: 2, ..job("a", 10) }]);
    run(&mut problem, 0, &[T4, V100]);
    let HoldStage::Running { epoch, .. } = &mut problem.jobs[0].progress.holds[0].stage else {
        panic!("it runs")
    };
    *epoch *= 10.0;
    for (name, expected) in [("horizon", Sharing::Balanced), ("hadar", Sharing::Equal)] {
        let mut policy = find(name, &parameters()).expect("a policy");
        let plan = decide(policy.as_mut(), &problem);
        let [(0, Decision::Place { placements, .. })] = &plan.changes[..] else { panic!("{plan:?}") };
        assert_eq!(placements[0].sharing, expected, "{name}");
    }
}

#[test]
fn shares_that_are_whole_samples_are_not_wrong() {
    let linear = problems::job("a", 1000, 10_000, 0.0, &[100.0]);
    let job = JobModel { min_gpus: 3, max_gpus: 3, global_batch: 4, ..linear };
    let mut problem = problems::problem(&["v100"], &[&[3]], vec![job]);
    run(&mut problem, 0, &[Slot { node: 0, gpu_type: 0, count: 3 }]);
    let progress = &mut problem.jobs[0].progress;
    let HoldStage::Running { epoch, .. } = &mut progress.holds[0].stage else { panic!("it runs") };
    // Of 4 samples, one of 3 GPUs gets 2, so a step takes as long as with 2 GPUs.
    *epoch = 50.0;
    assert_eq!(given(&decide(horizon().as_mut(), &problem)), BTreeMap::new());
}

#[test]
fn a_submission_that_waits_in_vain_gives_way_to_what_is_free() {
    let mut problem = two_gpus(vec![job("a", 10)]);
    problem.nodes[1].gpus = vec![0, 0];
    let hold = |since: f64| HeldPlacement {
        slots: vec![V100],
        since: Time(since),
        epoch: 100.0,
        stage: HoldStage::Queued,
    };
    problem.now = Time(1000.0);
    problem.jobs[0].progress.holds = vec![hold(500.0)];
    problem.jobs[0].progress.waits = Eligibility::Later;
    let plan = decide(horizon().as_mut(), &problem);
    assert_eq!((given(&plan), plan.wake), (BTreeMap::new(), Some(Time(1100.0))));
    problem.jobs[0].progress.holds = vec![hold(400.0)];
    assert_eq!(given(&decide(horizon().as_mut(), &problem)), BTreeMap::from([(0, vec![T4])]));
}

/// An arriving short job would preempt the long one if that were allowed.
#[test]
fn in_a_replay_nobody_is_stopped_to_wait_and_a_move_waits() {
    let linear = |work: u64, most: u32| {
        let job = problems::job("job", work / 100, 10_000, 0.0, &[100.0]);
        JobModel { max_gpus: most, global_batch: 400, ..job }
    };
    let jobs = [(0.0, linear(2000, 2)), (300.0, linear(400, 2))];
    let entry = |(place, (arrival, model)): (usize, (f64, JobModel))| TraceJob {
        model,
        arrival: Time(arrival),
        restart_cost: Some(Seconds(60.0)),
        saves: true,
        retries: 0,
        after: Vec::new(),
        early: None,
        begun: None,
        copies: None,
        place,
    };
    let jobs = jobs.into_iter().enumerate().map(entry).collect();
    let trace = Trace::of_entries(problems::problem(&["v100"], &[&[2]], Vec::new()), jobs);
    let mean = |parameters: Parameters| {
        let mut policy = find_over_time("horizon", &parameters).expect("a policy");
        let hooks = Hooks { event: &mut |_| (), progress: &mut |_| (), elapsed: &|| 0.0 };
        let record = replay(&trace, &Options::default(), policy.as_mut(), hooks).expect("a replay");
        Figures::of(&trace, &record).expect("figures").mean_jct
    };
    assert!((mean(Parameters::default()) - 730.0).abs() < 1e-6);
    assert!((mean(parameters()) - 950.0).abs() < 1e-6);
}

/// A problem with some running jobs, some of which may not be moved.
pub fn in_mid_run() -> impl Strategy<Value = Problem> {
    let flags = proptest::collection::vec((any::<bool>(), 0_u8..4, any::<bool>(), 0_u32..200), 5);
    let limit = proptest::option::of(0_u32..4);
    (problems::any_problem(8, 5, false), flags, limit).prop_map(|(mut problem, flags, limit)| {
        let mut free = problem.unclaimed();
        for (job, (runs, saves, movable, restart)) in (0..problem.jobs.len()).zip(flags) {
            problem.jobs[job].progress.restart_cost = Seconds(f64::from(restart));
            problem.jobs[job].progress.saves = saves > 0;
            let slots = (0..problem.nodes.len()).flat_map(|node| {
                (0..problem.gpu_types.len()).map(move |gpu_type| Slot { node, gpu_type, count: 1 })
            });
            let needs = problem.jobs[job].needs;
            let legal = |slot: &Slot| Placement::new(&problem, job, &[*slot], Sharing::Balanced).is_some();
            let held_slot = (runs && problem.jobs[job].min_gpus == 1)
                .then(|| slots.into_iter().find(|slot| legal(slot) && free.take(needs, [*slot].iter())));
            if let Some(slot) = held_slot.flatten() {
                run(&mut problem, job, &[slot]);
                if let HoldStage::Running { movable: flag, .. } =
                    &mut problem.jobs[job].progress.holds[0].stage
                {
                    *flag = movable;
                }
            }
        }
        if let Some(more) = limit {
            let holds = problem.jobs.iter().flat_map(|job| &job.progress.holds);
            let held: u32 = holds
                .flat_map(|hold| &hold.slots)
                .filter(|slot| slot.gpu_type == 0)
                .map(|slot| slot.count)
                .sum();
            problem.limits = vec![TypeLimit { gpu_types: vec![0], most: held + more }];
        }
        problem
    })
}

/// Decides, and answers every question as an empty queue would.
pub fn decide_and_answer(policy: &mut dyn Policy, problem: &mut Problem) -> Plan {
    loop {
        let plan = decide(policy, problem);
        if plan.questions.is_empty() {
            problem.forecasts.clear();
            return plan;
        }
        let answers = plan.questions.into_iter();
        let answer = |(job, placement): (usize, Placement)| WaitForecast {
            job,
            slots: placement.slots,
            wait: Some(Seconds(0.0)),
        };
        problem.forecasts.extend(answers.map(answer));
    }
}

/// Checks a plan for a problem with running jobs; returns the stopped jobs.
fn check_first(problem: &Problem, plan: &Plan) -> Result<Vec<usize>, TestCaseError> {
    prop_assert!(verify(problem, plan.clone()).is_ok(), "{plan:?}");
    let mut stopped = Vec::new();
    for (job, decision) in &plan.changes {
        let progress = &problem.jobs[*job].progress;
        let Some(hold) = progress.holds.first() else { continue };
        prop_assert!(matches!(decision, Decision::Place { .. }), "it stops a job: {plan:?}");
        let may_move = progress.saves && matches!(hold.stage, HoldStage::Running { movable: true, .. });
        prop_assert!(may_move, "it touches a job: {plan:?}");
        stopped.push(*job);
    }
    Ok(stopped)
}

/// Other users take the free GPUs of a type on a node.
fn vanish(problem: &mut Problem, slot: Slot) {
    let held = problem.jobs.iter().flat_map(|job| &job.progress.holds).flat_map(|hold| &hold.slots);
    let same = held.filter(|taken| (taken.node, taken.gpu_type) == (slot.node, slot.gpu_type));
    problem.nodes[slot.node].gpus[slot.gpu_type] = same.map(|slot| slot.count).sum();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn nobody_is_stopped_to_wait_and_promises_are_kept(
        mut problem in in_mid_run(),
        number in 0_usize..40,
        vanishes in any::<bool>(),
    ) {
        // Placers have separate rules for moves, so only policies over time are tested; every other case uses
        // `horizon`.
        let others: Vec<&str> = registry().names_over_time().into_iter().filter(|name| !registry().names().contains(name)).collect();
        let name = if number % 2 == 0 { "horizon" } else { others[number / 2 % others.len()] };
        let mut policy = find_over_time(name, &parameters()).expect("a policy");
        let plan = decide_and_answer(policy.as_mut(), &mut problem);
        let stopped = check_first(&problem, &plan)?;
        let promised = given(&plan);
        for &job in &stopped {
            stop(&mut problem, job);
        }
        // Jobs whose GPUs are free run.
        let mut free = problem.unclaimed();
        for (&job, slots) in promised.iter().filter(|(job, _)| !stopped.contains(job)) {
            if free.take(problem.jobs[job].needs, slots.iter()) {
                run(&mut problem, job, slots);
            }
        }
        let mut next = |problem: &mut Problem| {
            let memory = policy.memory();
            // Continues with a policy object of a new process.
            policy = find_over_time(name, &parameters()).expect("a policy");
            if let Some(memory) = memory {
                policy.remember(&memory);
            }
            decide_and_answer(policy.as_mut(), problem)
        };
        let plan = next(&mut problem);
        prop_assert!(verify(&problem, plan.clone()).is_ok(), "{plan:?}");
        prop_assert!(stopped.iter().all(|job| !given(&plan).contains_key(job)), "{plan:?}");
        for &job in &stopped {
            end(&mut problem, job);
        }
        if let Some(slots) = stopped.first().filter(|_| vanishes).and_then(|job| promised.get(job)) {
            vanish(&mut problem, slots[0]);
        }
        let plan = next(&mut problem);
        prop_assert!(verify(&problem, plan.clone()).is_ok(), "{plan:?}");
        let now = given(&plan);
        for job in stopped.iter().filter(|_| !vanishes) {
            prop_assert_eq!(now.get(job), promised.get(job), "{:?}", &plan);
        }
    }
}
