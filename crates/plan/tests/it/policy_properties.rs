//! Properties of every policy on random small problems with all features combined.

use hsched_plan::{Budget, CheckedPlan, Parameters, PlanFigures, Problem, Verdict, verify};
use hsched_problems::{find, problems, registry};
use proptest::prelude::*;

use crate::oracle;

fn gpu_count(problem: &Problem) -> usize {
    problem.offered().iter().sum::<u32>() as usize
}

/// Returns a policy's checked plan; it is computed twice, because the same input must give the same plan.
fn checked(problem: &Problem, policy: &str) -> Result<CheckedPlan, TestCaseError> {
    let parameters = Parameters::default().with("alpha", "0");
    let mut policy = find(policy, &parameters).expect("a policy");
    let plan = policy.decide(problem, &Budget::until(&|| false)).expect("a plan");
    let again = policy.decide(problem, &Budget::until(&|| false)).expect("a plan");
    prop_assert_eq!(&plan, &again);
    verify(problem, plan).map_err(|violations| TestCaseError::fail(format!("{violations:?}")))
}

/// Returns how many jobs a policy places, and on how many GPUs.
fn used(problem: &Problem, policy: &str) -> Result<(usize, usize), TestCaseError> {
    let plan = checked(problem, policy)?;
    let placements = plan.verdicts().iter().filter_map(Verdict::placement);
    Ok(placements.fold((0, 0), |(jobs, gpus), placement| (jobs + 1, gpus + placement.ranks.len())))
}

/// Returns the objective of a policy's plan and the number of its GPUs, if it places all jobs.
fn objective(problem: &Problem, policy: &str) -> Result<Option<(f64, usize)>, TestCaseError> {
    let plan = checked(problem, policy)?;
    let placements: Vec<_> = plan.verdicts().iter().filter_map(Verdict::placement).collect();
    let used = placements.iter().map(|placement| placement.ranks.len()).sum();
    let all = placements.len() == problem.jobs.len();
    Ok(PlanFigures::of(problem, &plan).filter(|_| all).map(|outcome| (outcome.objective_value, used)))
}

fn agree(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-6 * (a.abs() + b.abs())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn exhaustive_equals_brute_force_over_workers(problem in problems::any_problem(6, 3, true)) {
        if let Some((value, used)) = objective(&problem, "exhaustive")? {
            let best = oracle::by_idle(&problem)[gpu_count(&problem) - used];
            prop_assert!(best.is_some_and(|best| agree(best, value)), "{} against {:?}", value, best);
        }
    }

    #[test]
    fn when_every_gpu_can_be_used_it_is(problem in problems::any_problem(6, 3, false)) {
        if let Some(best) = oracle::by_idle(&problem)[0] {
            let (value, used) = objective(&problem, "exhaustive")?.expect("a plan for all jobs exists");
            prop_assert_eq!(used, gpu_count(&problem));
            prop_assert!(agree(best, value), "{} against {}", value, best);
            for policy in ["has", "jps"] {
                if let Some((value, used)) = objective(&problem, policy)? {
                    prop_assert!(used < gpu_count(&problem) || value >= best * (1.0 - 1e-9));
                }
            }
        }
    }

    #[test]
    fn has_and_jps_leave_out_no_job_that_exhaustive_places(mut problem in problems::any_problem(7, 3, true)) {
        for job in &mut problem.jobs {
            // The assignment with the highest throughput may not hold a batch that must fit at once, in which
            // case policies do leave out jobs.
            job.accumulate = true;
        }
        let most = used(&problem, "exhaustive")?.0;
        for policy in ["has", "jps"] {
            prop_assert_eq!(used(&problem, policy)?.0, most, "{}", policy);
        }
    }

    #[test]
    fn every_plan_passes_the_check(problem in problems::any_problem(12, 5, true)) {
        for policy in registry().names() {
            if policy != "exhaustive" || gpu_count(&problem) <= 8 {
                objective(&problem, policy)?;
            }
        }
    }
}

// Each case takes long; tests/long draws more.
proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn has_and_jps_use_as_many_gpus_as_exhaustive(mut problem in problems::any_problem(7, 3, true)) {
        for job in &mut problem.jobs {
            // With batches this large, no share is too small in any mix.
            job.global_batch *= 10_000;
            job.max_gpus = job.max_gpus.min(7);
            job.accumulate = true;
        }
        let most = used(&problem, "exhaustive")?;
        for policy in ["has", "jps"] {
            prop_assert_eq!(used(&problem, policy)?, most, "{}", policy);
        }
    }
}
