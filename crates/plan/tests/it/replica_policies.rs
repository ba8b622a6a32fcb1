//! Replicas of several GPUs under the paper's policies, and explained.

use hsched_plan::{
    Budget, GpuCountEffect, Limit, Obstacle, Outcome, Parameters, ReplicaExplanation, ReplicaModel, explain,
    verify,
};
use hsched_problems::find;
use hsched_problems::problems::{job, problem};
use proptest::prelude::*;

use crate::replicas::{Placing, any_problem, best, placings};

proptest! {
    #[test]
    fn papers_plan_whole_replicas_and_beat_no_optimum(problem in any_problem()) {
        let own: Vec<(usize, Vec<(Placing, f64)>)> =
            (0..problem.jobs.len()).map(|job| (job, placings(&problem, &problem.jobs[job]))).collect();
        let mut free: Vec<Vec<u32>> = problem.nodes.iter().map(|node| node.gpus.clone()).collect();
        let best = best(&problem, &own, &mut free);
        for name in ["has", "jps"] {
            let mut policy = find(name, &Parameters::default()).expect("a policy");
            let plan = policy.decide(&problem, &Budget::until(&|| false)).expect("a plan");
            let plan = verify(&problem, plan).map_err(|broken| TestCaseError::fail(format!("{broken:?}")))?;
            let all = plan.placed().len() == problem.jobs.len();
            if let (true, Some(best), Some(outcome)) = (all, best, Outcome::of(&problem, &plan)) {
                let weights: f64 = problem.jobs.iter().map(|job| problem.objective.weight(job)).sum();
                prop_assert!(outcome.objective_value >= best / weights * (1.0 - 1e-9), "{name} beats the optimum");
            }
        }
    }
}

/// Two nodes of 6: replicas of 4 find one place each, and 4 GPUs are left over.
#[test]
fn what_is_left_over_in_nodes_is_told() {
    let replica = |size| ReplicaModel { sizes: vec![size], same_node: true, ever: 9, largest: vec![6] };
    let own = |name, size| hsched_plan::JobModel {
        replica: Some(replica(size)),
        ..job(name, 8, 1000, 0.0, &[10.0])
    };
    let problem = problem(&["a100"], &[&[6], &[6]], vec![own("a", 4)]);
    let mut policy = find("optimal", &Parameters::default()).expect("a policy");
    let plan = policy.decide(&problem, &Budget::until(&|| false)).expect("a plan");
    let plan = verify(&problem, plan).expect("a legal plan");
    let bound = plan.plan().bound.clone();
    let explained = explain(&problem, &plan, bound.as_ref(), &[0]);
    let a = &explained.jobs[0];
    assert_eq!((a.counts[0], a.jct), (8, Some(400.0)));
    assert_eq!(a.replicas, [ReplicaExplanation { size: 4, block: 4, left_over: 4, most_free: 2 }]);
    assert_eq!(a.types[0].more, Some(GpuCountEffect::Not(Obstacle::NoNode { size: 4 })));
    assert_eq!(a.types[0].fewer, Some(GpuCountEffect::Jct { jct: 800.0, free: true }));
    assert!(!a.limits.iter().any(|limit| matches!(limit, Limit::Taken { .. })));
    let alone = a.types[0].alone.as_ref().expect("legal");
    assert_eq!((&alone.counts[..], alone.jct), (&[8][..], 400.0));
    assert_eq!(a.one_node.as_ref().map(|one| (one.counts.clone(), one.jct)), Some((vec![4], 800.0)));
}
