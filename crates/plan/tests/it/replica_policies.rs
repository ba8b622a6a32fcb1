//! Replicas of several GPUs under the paper's policies, and their explanation.

use hsched_plan::{
    Budget, GpuCountEffect, Obstacle, Parameters, PlacementLimit, PlanFigures, ReplicaExplanation,
    ReplicaModel, explain, verify,
};
use hsched_problems::find;
use hsched_problems::problems::{job, problem};
use proptest::prelude::*;

use crate::replicas::{Placing, any_problem, best, placings};

proptest! {
    #[test]
    fn papers_plan_whole_replicas_and_beat_no_optimum(problem in any_problem()) {
        let job_placings: Vec<(usize, Vec<(Placing, f64)>)> =
            (0..problem.jobs.len()).map(|job| (job, placings(&problem, &problem.jobs[job]))).collect();
        let mut free: Vec<Vec<u32>> = problem.nodes.iter().map(|node| node.gpus.clone()).collect();
        let best = best(&problem, &job_placings, &mut free);
        for name in ["has", "jps"] {
            let mut policy = find(name, &Parameters::default()).expect("a policy");
            let plan = policy.decide(&problem, &Budget::until(&|| false)).expect("a plan");
            let plan = verify(&problem, plan).map_err(|broken| TestCaseError::fail(format!("{broken:?}")))?;
            let all = plan.placed().len() == problem.jobs.len();
            if let (true, Some(best), Some(outcome)) = (all, best, PlanFigures::of(&problem, &plan)) {
                let weights: f64 = problem.jobs.iter().map(|job| problem.objective.weight(job)).sum();
                prop_assert!(outcome.objective_value >= best / weights * (1.0 - 1e-9), "{name} beats the optimum");
            }
        }
    }
}

/// Two nodes with 6 GPUs: replicas of 4 fit once on each, and 4 GPUs are left over.
#[test]
fn what_is_left_over_in_nodes_is_told() {
    let replica = |size| ReplicaModel { sizes: vec![size], same_node: true, ever: 9, largest: vec![6] };
    let job_model = |name, size| hsched_plan::JobModel {
        replica: Some(replica(size)),
        ..job(name, 8, 1000, 0.0, &[10.0])
    };
    let problem = problem(&["a100"], &[&[6], &[6]], vec![job_model("a", 4)]);
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
    assert!(!a.limits.iter().any(|limit| matches!(limit, PlacementLimit::Taken { .. })));
    let alone = a.types[0].alone.as_ref().expect("legal");
    assert_eq!((&alone.counts[..], alone.jct), (&[8][..], 400.0));
    assert_eq!(a.one_node.as_ref().map(|one| (one.counts.clone(), one.jct)), Some((vec![4], 800.0)));
}

/// Returns a job with replicas of these sizes by type.
fn in_replicas(sizes: &[u32], model: hsched_plan::JobModel) -> hsched_plan::JobModel {
    let replica =
        ReplicaModel { sizes: sizes.to_vec(), same_node: true, ever: 99, largest: vec![9; sizes.len()] };
    hsched_plan::JobModel { replica: Some(replica), ..model }
}

/// Returns the GPUs by type that a policy gives each job.
fn given(problem: &hsched_plan::Problem, name: &str) -> Vec<Vec<u32>> {
    let mut policy = find(name, &Parameters::default()).expect("a policy");
    let plan = policy.decide(problem, &Budget::until(&|| false)).expect("a plan");
    let plan = verify(problem, plan).expect("a legal plan");
    let gpus = |verdict: &hsched_plan::Verdict| {
        let mut counts = vec![0; problem.gpu_types.len()];
        for slot in verdict.placement().map_or(&[][..], |placement| &placement.slots) {
            counts[slot.gpu_type] += slot.count;
        }
        counts
    };
    plan.verdicts().iter().map(gpus).collect()
}

/// With equal shares, a replica on a `t4` would delay the one on three `a100`, and two replicas on single
/// `t4` take more than twice as long as that one alone.
#[test]
fn a_job_leaves_gpus_on_which_it_is_slow() {
    let model = hsched_plan::JobModel {
        max_gpus: 2,
        sharing: hsched_plan::Sharing::Equal,
        ..job("llm", 1, 2000, 0.0, &[1060.0, 200.0])
    };
    let problem = problem(&["a100", "t4"], &[&[3, 0], &[0, 2]], vec![in_replicas(&[3, 1], model)]);
    for name in ["has", "jps"] {
        assert_eq!(given(&problem, name), [[3, 0]], "{name}");
    }
}

/// Throughput alone would give the whole fast node to the job that ends soonest.
#[test]
fn a_job_gives_a_replica_to_another_that_gains_more() {
    let short =
        |name: &str, rates: &[f64]| hsched_plan::JobModel { max_gpus: 2, ..job(name, 1, 2000, 0.0, rates) };
    let jobs = vec![
        in_replicas(&[1, 2], hsched_plan::JobModel { epochs: 6, ..short("slow", &[100.0, 212.0]) }),
        in_replicas(&[2, 2], short("fast", &[1.0, 1000.0])),
    ];
    let problem = problem(&["t4", "a100"], &[&[2, 0], &[0, 4]], jobs);
    for name in ["has", "jps"] {
        assert_eq!(given(&problem, name), [[1, 2], [0, 2]], "{name}");
    }
}
