//! `optimal` against brute force over workers, and its bound.

use hsched::policy::{Memory, Outcome, Parameters, Problem, find, verify};
use proptest::prelude::*;

use crate::{oracle, problems};

/// The best of all plans that place every job, whatever they leave idle.
fn best(problem: &Problem) -> Option<f64> {
    let gpus = problem.offered().iter().sum::<u32>() as usize;
    (0..=gpus).filter_map(|idle| oracle::best(problem, idle)).min_by(f64::total_cmp)
}

fn agree(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-6 * (a.abs() + b.abs())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn equals_brute_force_over_workers(problem in problems::any_problem(6, 3, true)) {
        let policy = find("optimal", Parameters::default()).expect("a policy");
        let plan = policy.plan(&problem, &mut Memory::default(), &|| false).expect("a plan");
        let again = policy.plan(&problem, &mut Memory::default(), &|| false).expect("a plan");
        prop_assert_eq!(&plan, &again);
        let bound = plan.bound.clone();
        let plan = verify(&problem, plan).map_err(|broken| TestCaseError::fail(format!("{broken:?}")))?;
        let placed = plan.verdicts().iter().filter(|verdict| verdict.placement().is_some()).count();
        if let Some(best) = best(&problem) {
            prop_assert_eq!(placed, problem.jobs.len(), "not all jobs placed");
            let value = Outcome::of(&problem, &plan).expect("placed").objective_value;
            prop_assert!(agree(value, best), "{} against {}", value, best);
            let bound = bound.expect("a bound");
            prop_assert!(bound.lower <= best * (1.0 + 1e-9) && bound.root <= bound.lower);
            prop_assert!(value <= bound.lower * (1.0 + 1e-9), "not proven: {} above {}", value, bound.lower);
        } else {
            prop_assert!(placed < problem.jobs.len());
        }
    }

    #[test]
    fn with_use_all_it_equals_brute_force_too(problem in problems::any_problem(6, 3, false)) {
        if let Some(best) = oracle::best(&problem, 0) {
            let policy = find("optimal", Parameters { use_all: true, ..Parameters::default() }).expect("a policy");
            let plan = policy.plan(&problem, &mut Memory::default(), &|| false).expect("a plan");
            let plan = verify(&problem, plan).map_err(|broken| TestCaseError::fail(format!("{broken:?}")))?;
            let value = Outcome::of(&problem, &plan).expect("placed").objective_value;
            prop_assert!(agree(value, best), "{} against {}", value, best);
        }
    }
}
