//! A job that cannot be placed keeps no other job waiting.

use hsched_plan::{Budget, JobModel, Parameters, Problem, Verdict, verify};
use hsched_problems::{find, problems};

const POLICIES: [&str; 6] = ["exhaustive", "has", "jps", "optimal", "optimus", "optimus-lb"];

fn verdicts(problem: &Problem, policy: &str) -> Vec<Verdict> {
    let mut policy = find(policy, &Parameters::default()).expect("a policy");
    let plan = policy.decide(problem, &Budget::until(&|| false)).expect("a plan");
    verify(problem, plan).expect("a legal plan").verdicts().to_vec()
}

/// Returns whether each of the jobs is placed.
fn placed(problem: &Problem, policy: &str) -> Vec<bool> {
    verdicts(problem, policy).iter().map(|verdict| verdict.placement().is_some()).collect()
}

/// Returns a short job that needs exactly this number of GPUs, on a V100 with memory for four samples.
fn big(gpus: u32) -> JobModel {
    let mut job = problems::job("big", 1, 64, 1.0, &[1000.0]);
    (job.global_batch, job.accumulate) = (64, false);
    (job.min_gpus, job.max_gpus) = (gpus, gpus);
    job.types.iter_mut().flatten().for_each(|model| model.max_batch = Some(4));
    job
}

/// Returns a job on up to two V100.
fn small(name: &str, samples: u64) -> JobModel {
    JobModel { max_gpus: 2, ..problems::job(name, 10, samples, 1.0, &[100.0]) }
}

#[test]
fn a_job_whose_batch_its_gpus_cannot_hold_is_rejected() {
    let few = vec![big(2), small("a", 64_000)];
    let many = vec![big(3), small("a", 64_000), small("b", 64_000), small("c", 640)];
    for jobs in [few, many] {
        let room = 4 * jobs[0].max_gpus;
        let problem = problems::problem(&["v100"], &[&[4]], jobs);
        for policy in POLICIES {
            let verdicts = verdicts(&problem, policy);
            let reason = format!(
                "its global batch is 64, but its GPUs hold at most {room} samples: set accumulate: true, or raise max_batch or the number of GPUs"
            );
            assert_eq!(verdicts[0], Verdict::Reject { reason }, "{policy}");
            assert!(verdicts[1..].iter().all(|verdict| verdict.placement().is_some()), "{policy}");
        }
    }
}

#[test]
fn a_job_that_needs_a_node_that_is_not_offered_waits() {
    let mut problem = problems::problem(&["v100"], &[&[4]], vec![big(16), small("a", 640)]);
    problem.ceiling = vec![16];
    problem.jobs[0].min_gpus = 1;
    let reason = "its global batch is 64, but its GPUs hold at most 16 samples now: set accumulate: true, or raise max_batch or the number of GPUs";
    for policy in POLICIES {
        let verdicts = verdicts(&problem, policy);
        assert_eq!(verdicts[0], Verdict::Defer { reason: reason.into() }, "{policy}");
        assert!(verdicts[1].placement().is_some(), "{policy}");
    }
}

#[test]
fn a_job_whose_gpus_are_too_unequal_makes_room_for_others() {
    // The share of the slow GPU would be less than a sample.
    let mut unequal = problems::job("unequal", 1, 10, 1.0, &[1.0, 1000.0]);
    (unequal.min_gpus, unequal.global_batch) = (2, 10);
    let other = problems::job("other", 10, 64_000, 1.0, &[100.0, 100.0]);
    let problem = problems::problem(&["t4", "v100"], &[&[1, 1]], vec![unequal, other]);
    for policy in ["exhaustive", "has", "jps", "optimal"] {
        assert_eq!(placed(&problem, policy), [false, true], "{policy}");
    }
}

#[test]
fn equal_shares_are_legal_where_balanced_ones_are_not() {
    let mut unequal = problems::job("unequal", 1, 10, 1.0, &[1.0, 1000.0, 1.0]);
    (unequal.min_gpus, unequal.global_batch, unequal.types[2]) = (2, 10, None);
    // With its minimum of one GPU, this job cannot hold its batch, so the first attempt fails.
    let mut narrow = problems::job("narrow", 10, 64_000, 1.0, &[1.0, 1.0, 1.0]);
    (narrow.max_gpus, narrow.global_batch, narrow.accumulate) = (2, 64, false);
    (narrow.types[0], narrow.types[1]) = (None, None);
    narrow.types.iter_mut().flatten().for_each(|model| model.max_batch = Some(32));
    let nodes: [&[u32]; 1] = [&[1, 1, 2]];
    let problem = problems::problem(&["t4", "v100", "k80"], &nodes, vec![unequal, narrow]);
    assert!(placed(&problem, "optimus")[0]);
}
