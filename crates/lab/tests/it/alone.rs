//! Policies over time on GPUs without other users: moves take time, and decisions stay in force until they
//! are carried out.

use std::collections::BTreeMap;

use hsched_lab::find_over_time;
use hsched_lab::registry;
use hsched_plan::{
    Decision, ExecutionMode, HoldStage, JobModel, Moves, Parameters, Plan, Policy, Replanning, Sharing, Slot,
    verify,
};
use proptest::prelude::*;

use crate::shared::{T4, V100, decide, decide_and_answer, end, given, in_mid_run, job, run, stop, two_gpus};
use hsched_problems::problems;

/// The policy as `run` uses it.
fn alone(name: &str) -> Box<dyn Policy> {
    find_over_time(name, &Parameters { carrying: ExecutionMode::Alone, ..Parameters::default() })
        .expect("a policy")
}

/// Returns whether each batch of a plan is divided in this way.
fn is_divided(plan: &Plan, sharing: Sharing) -> bool {
    plan.changes.iter().all(|(_, decision)| match decision {
        Decision::Place { placements, .. } => placements.iter().all(|placement| placement.sharing == sharing),
        Decision::Adjust { placement, .. } => placement.sharing == sharing,
        _ => true,
    })
}

#[test]
fn with_gpus_of_its_own_a_job_that_moves_gets_those_it_was_stopped_for() {
    let mut problem = two_gpus(vec![job("a", 10)]);
    run(&mut problem, 0, &[T4]);
    let mut policy = alone("horizon");
    assert_eq!(given(&decide(policy.as_mut(), &problem)), BTreeMap::from([(0, vec![V100])]));
    // While job a saves, a short job arrives, which would get the V100 first if it were not promised.
    stop(&mut problem, 0);
    problem.jobs.push(job("b", 1));
    let plan = decide(policy.as_mut(), &problem);
    assert!(matches!(&plan.changes[..], [(1, Decision::Defer { .. })]), "{plan:?}");
    // A process that knows the promise only from the policy's memory acts in the same way; without the
    // memory, the job returns to the T4.
    let memory = policy.memory().expect("a promise");
    end(&mut problem, 0);
    for (knows, expected) in [(true, V100), (false, T4)] {
        let mut policy = alone("horizon");
        if knows {
            policy.remember(&memory);
        }
        assert_eq!(given(&decide(policy.as_mut(), &problem))[&0], [expected], "{knows}");
    }
}

#[test]
fn with_gpus_of_its_own_who_makes_room_is_stopped_and_the_other_gets_the_room() {
    let mut problem = problems::problem(&["t4"], &[&[1]], vec![job("long", 50)]);
    let t4 = Slot { node: 0, gpu_type: 0, count: 1 };
    run(&mut problem, 0, &[t4]);
    problem.jobs.push(job("short", 1));
    let mut policy = alone("srtf");
    let plan = decide(policy.as_mut(), &problem);
    assert!(
        plan.changes.iter().any(|(job, decision)| *job == 0 && matches!(decision, Decision::Defer { .. })),
        "{plan:?}"
    );
    // A shorter job arrives while the first one saves: the decision stays in force.
    stop(&mut problem, 0);
    let mut least = job("least", 1);
    least.progress.work_left /= 10.0;
    problem.jobs.push(least);
    let plan = decide(policy.as_mut(), &problem);
    assert_eq!(given(&plan), BTreeMap::new(), "{plan:?}");
    end(&mut problem, 0);
    let plan = decide(policy.as_mut(), &problem);
    assert_eq!(given(&plan), BTreeMap::from([(1, vec![t4])]), "{plan:?}");
    verify(&problem, plan).expect("a plan that can be carried out");
}

#[test]
fn a_job_that_is_brought_together_divides_its_batch_as_the_policy_says() {
    let linear = problems::job("a", 1000, 10_000, 1000.0, &[100.0]);
    let job = JobModel { min_gpus: 2, max_gpus: 2, asks: 2, ..linear };
    let mut problem = problems::problem(&["v100"], &[&[2], &[2]], vec![job]);
    let slot = |node, count| Slot { node, gpu_type: 0, count };
    run(&mut problem, 0, &[slot(0, 1), slot(1, 1)]);
    for (name, expected) in [("optimus-lb", Sharing::Balanced), ("optimus", Sharing::Equal)] {
        let plan = decide(alone(name).as_mut(), &problem);
        assert_eq!(given(&plan), BTreeMap::from([(0, vec![slot(0, 2)])]), "{name}");
        assert!(is_divided(&plan, expected), "{name}: {plan:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    #[test]
    fn batches_are_divided_as_the_policy_says(
        mut problem in in_mid_run(),
        (is_equal, number) in any::<(bool, prop::sample::Index)>(),
        carrying in prop::sample::select(vec![ExecutionMode::AtOnce, ExecutionMode::Alone, ExecutionMode::Shared]),
        slower in 1.0..3.0,
    ) {
        let replanning = Replanning { moves: Moves::Auto { margin: 0.5 }, ..Replanning::default() };
        let parameters = Parameters { carrying, replanning, ..Parameters::default() };
        let names = registry().names_over_time().into_iter();
        let mut policies: Vec<(&str, Parameters)> = names.map(|name| (name, parameters.clone())).collect();
        policies.push(("hadar", parameters.with("sharing", "balanced")));
        let found = policies.iter().map(|(name, with)| find_over_time(name, with).expect("a policy"));
        let (equal, balanced): (Vec<_>, Vec<_>) = found.partition(|policy| policy.sharing() == Sharing::Equal);
        // Few policies divide equally; half of the cases are about them.
        let mut policies = if is_equal { equal } else { balanced };
        let mut policy = policies.swap_remove(number.index(policies.len()));
        let name = policy.name();
        // The shares of running jobs do not fit.
        for hold in problem.jobs.iter_mut().flat_map(|job| &mut job.progress.holds) {
            let HoldStage::Running { epoch, .. } = &mut hold.stage else { continue };
            *epoch *= slower;
        }
        let plan = decide_and_answer(policy.as_mut(), &mut problem);
        prop_assert!(is_divided(&plan, policy.sharing()), "{name}: {plan:?}");
        let runs = |job: usize| problem.jobs[job].progress.running().next().is_some();
        let moved: Vec<usize> = given(&plan).into_keys().filter(|job| runs(*job)).collect();
        for &job in &moved {
            stop(&mut problem, job);
            end(&mut problem, job);
        }
        let plan = decide_and_answer(policy.as_mut(), &mut problem);
        prop_assert!(is_divided(&plan, policy.sharing()), "{name}: {plan:?}");
    }

    #[test]
    fn what_was_decided_can_be_carried_out_and_is(mut problem in in_mid_run(), number in any::<prop::sample::Index>()) {
        let names: Vec<&str> = registry().names_over_time().into_iter().filter(|name| *name != "exhaustive").collect();
        let name = names[number.index(names.len())];
        let mut policy = alone(name);
        let plan = decide(policy.as_mut(), &problem);
        prop_assert!(verify(&problem, plan.clone()).is_ok(), "{name}: {plan:?}");
        let promised = given(&plan);
        let runs = |job: usize| problem.jobs[job].progress.running().next().is_some();
        let is_elsewhere = |job: usize| match promised.get(&job) {
            Some(slots) => *slots != problem.jobs[job].progress.holds[0].slots,
            None => plan.changes.iter().any(|(change, _)| *change == job),
        };
        let stopped: Vec<usize> = (0..problem.jobs.len()).filter(|&job| runs(job) && is_elsewhere(job)).collect();
        for &job in &stopped {
            stop(&mut problem, job);
        }
        let mut free = problem.unclaimed();
        let waiting: Vec<usize> = promised.keys().copied().filter(|job| problem.jobs[*job].progress.is_ready()).collect();
        for job in waiting {
            if free.take(problem.jobs[job].needs, promised[&job].iter()) {
                run(&mut problem, job, &promised[&job]);
            }
        }
        let plan = decide(policy.as_mut(), &problem);
        prop_assert!(verify(&problem, plan.clone()).is_ok(), "{name}: {plan:?}");
        for &job in &stopped {
            end(&mut problem, job);
        }
        let plan = decide(policy.as_mut(), &problem);
        prop_assert!(verify(&problem, plan.clone()).is_ok(), "{name}: {plan:?}");
        // Without copies, a job that has moved gets the GPUs for which it was stopped.
        let now = given(&plan);
        for job in stopped.iter().filter(|job| promised.contains_key(job)) {
            prop_assert_eq!(now.get(job), promised.get(job), "{}: {:?}", name, &plan);
        }
    }
}
