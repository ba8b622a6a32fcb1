//! Policies that decide for each group of nodes alone: no job is spread over two groups.

use std::collections::BTreeSet;

use hsched_plan::{Budget, Decision, POLICIES, Parameters, PerGroup, Policy as _, Registry, verify};
use hsched_problems::problems;

/// Returns the nodes of each job that a policy places, on a problem whose nodes are a group each.
fn nodes_of_jobs(policy: &str) -> Vec<BTreeSet<usize>> {
    let problem = problems::fifteen_gpus();
    let registry = Registry::new(POLICIES);
    let inner = registry.find_over_time(policy, &Parameters::default()).expect("a policy");
    let mut policy = PerGroup::new(inner, ToString::to_string);
    let plan = policy.decide(&problem, &Budget::until(&|| false)).expect("a plan");
    let plan = verify(&problem, plan).expect("a valid plan");
    let placed = plan.plan().changes.iter().filter_map(|(_, decision)| match decision {
        Decision::Place { placements, .. } => placements.first(),
        _ => None,
    });
    placed.map(|placement| placement.slots.iter().map(|slot| slot.node).collect()).collect()
}

#[test]
fn each_job_is_in_one_group_and_more_than_one_is_used() {
    // The first node has room for each job's least GPUs, with which the others are content.
    for (policy, wants_all) in [("horizon", true), ("optimal", false), ("srtf", false), ("fifo", false)] {
        let jobs = nodes_of_jobs(policy);
        assert!(jobs.iter().all(|nodes| nodes.len() == 1), "{policy}: {jobs:?}");
        let used: BTreeSet<usize> = jobs.iter().flatten().copied().collect();
        assert!(!wants_all || used.len() > 1, "{policy}: {jobs:?}");
    }
}
