//! Properties that every policy keeps on random small problems with all features mixed.

use hsched::policy::{Memory, Outcome, Parameters, Problem, Verdict, find, names, verify};
use proptest::prelude::*;

use crate::{oracle, problems};

fn gpu_count(problem: &Problem) -> usize {
    problem.offered().iter().sum::<u32>() as usize
}

/// The objective of a policy's plan, and how many GPUs it uses, when it places all jobs.
fn objective(problem: &Problem, policy: &str) -> Result<Option<(f64, usize)>, TestCaseError> {
    let parameters = Parameters { alpha: 0.0, ..Parameters::default() };
    let policy = find(policy, parameters).expect("a policy");
    let plan = policy.plan(problem, &mut Memory::default(), &|| false).expect("a plan");
    let again = policy.plan(problem, &mut Memory::default(), &|| false).expect("a plan");
    prop_assert_eq!(&plan, &again, "the same input gives the same plan");
    let plan = match verify(problem, plan) {
        Ok(plan) => plan,
        Err(violations) => return Err(TestCaseError::fail(format!("{violations:?}"))),
    };
    let placements: Vec<_> = plan.verdicts().iter().filter_map(Verdict::placement).collect();
    let used = placements.iter().map(|placement| placement.ranks.len()).sum();
    let all = placements.len() == problem.jobs.len();
    Ok(Outcome::of(problem, &plan).filter(|_| all).map(|outcome| (outcome.objective_value, used)))
}

fn agree(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-6 * (a.abs() + b.abs())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn exhaustive_equals_brute_force_over_workers(problem in problems::any_problem(6, 3, true)) {
        if let Some((value, used)) = objective(&problem, "exhaustive")? {
            let best = oracle::best(&problem, gpu_count(&problem) - used);
            prop_assert!(best.is_some_and(|best| agree(best, value)), "{} against {:?}", value, best);
        }
    }

    #[test]
    fn when_every_gpu_can_be_used_it_is(problem in problems::any_problem(6, 3, false)) {
        if let Some(best) = oracle::best(&problem, 0) {
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
    fn every_plan_passes_the_check(problem in problems::any_problem(12, 5, true)) {
        for policy in names() {
            if policy != "exhaustive" || gpu_count(&problem) <= 8 {
                objective(&problem, policy)?;
            }
        }
    }
}
