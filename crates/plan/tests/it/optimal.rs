//! `optimal` and the bounds, compared with oracles that share no code with them.

use std::collections::BTreeSet;

use hsched_plan::{Bound, Budget, JobModel, Objective, Parameters, PlanFigures, Problem, bound, verify};
use hsched_problems::{find, problems};
use proptest::prelude::*;

use crate::{certificate, oracle, oracle_milp, oracle_pool};

/// The result of `optimal` for a problem.
struct SolveResult {
    /// Number of jobs placed.
    placed: usize,
    value: Option<f64>,
    bound: Option<Bound>,
}

/// Plans twice, because the same problem must give the same plan, and checks the plan.
fn solve(problem: &Problem, use_all: bool) -> Result<SolveResult, TestCaseError> {
    let usual = Parameters::default();
    let parameters = if use_all { usual.with("use-all", "") } else { usual };
    let mut policy = find("optimal", &parameters).expect("a policy");
    let plan = policy.decide(problem, &Budget::until(&|| false)).expect("a plan");
    let again = policy.decide(problem, &Budget::until(&|| false)).expect("a plan");
    prop_assert_eq!(&plan, &again);
    let bound = plan.bound.clone();
    let plan = verify(problem, plan).map_err(|broken| TestCaseError::fail(format!("{broken:?}")))?;
    let placed = plan.verdicts().iter().filter(|verdict| verdict.placement().is_some()).count();
    let value = PlanFigures::of(problem, &plan).map(|outcome| outcome.objective_value);
    Ok(SolveResult { placed, value, bound })
}

#[test]
fn of_equally_good_placements_the_one_with_a_single_type_is_taken() {
    let nodes: [&[u32]; 4] = [&[2, 0, 0], &[0, 4, 0], &[0, 0, 4], &[0, 0, 4]];
    let single = |max_gpus| JobModel { max_gpus, ..problems::job("a", 5, 51_200, 0.0, &[100.0; 3]) };
    let types_and_gpus = |job: JobModel| {
        let problem = problems::problem(&["p100", "t4", "v100"], &nodes, vec![job]);
        let mut policy = find("optimal", &Parameters::default()).expect("a policy");
        let plan = policy.decide(&problem, &Budget::until(&|| false)).expect("a plan");
        let plan = verify(&problem, plan).expect("a legal plan");
        let slots = &plan.verdicts()[0].placement().expect("a placement").slots;
        let types: BTreeSet<usize> = slots.iter().map(|slot| slot.gpu_type).collect();
        (types.len(), slots.iter().map(|slot| slot.count).sum::<u32>())
    };
    assert_eq!(types_and_gpus(single(8)), (1, 8));
    // No type has ten GPUs.
    assert_eq!(types_and_gpus(single(10)).1, 10);
}

fn agree(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * (a.abs() + b.abs())
}

/// Checks that the plan has the optimal value, is proven optimal, and that its certificate holds when
/// recomputed; without an optimum, checks that not all jobs are placed.
fn check(problem: &Problem, best: Option<f64>) -> Result<(), TestCaseError> {
    let solved = solve(problem, false)?;
    let Some(best) = best else {
        prop_assert!(solved.placed < problem.jobs.len());
        return Ok(());
    };
    prop_assert_eq!(solved.placed, problem.jobs.len(), "a plan for all jobs exists");
    let value = solved.value.expect("jobs are placed");
    prop_assert!(agree(value, best), "{} is not the optimum {}", value, best);
    let bound = solved.bound.expect("a bound");
    prop_assert!(
        bound.root <= bound.lower && bound.lower <= best * (1.0 + 1e-9),
        "{:?} above {}",
        bound,
        best
    );
    prop_assert!(value <= bound.lower * (1.0 + 1e-9), "{} is not proven: {:?}", value, bound);
    let recomputed = certificate::bound(problem, &bound.prices, &bound.weights).expect("legal bundles");
    // Each job's choice is accurate to 1e-9 of its value, which includes the price of its GPUs and may be far
    // above the bound.
    let paid: f64 =
        problem.offered().iter().zip(&bound.prices).map(|(&gpus, price)| f64::from(gpus) * price).sum();
    let values = recomputed + paid / bound.weights.iter().sum::<f64>();
    prop_assert!(
        (recomputed - bound.root).abs() <= 2e-9 * values,
        "prices prove {} instead of {}, of values {}",
        recomputed,
        bound.root,
        values
    );
    Ok(())
}

#[test]
fn a_search_without_time_still_places_all_jobs_and_its_bound_is_true() {
    for problem in [problems::worked_example(), problems::fifteen_gpus()] {
        let mut policy = find("optimal", &Parameters::default()).expect("a policy");
        let plan = policy.decide(&problem, &Budget::until(&|| true)).expect("a plan");
        let best = oracle_milp::best(&problem).expect("a plan exists");
        assert!(plan.bound.as_ref().is_some_and(|bound| bound.lower <= best * (1.0 + 1e-9)));
        let plan = verify(&problem, plan).expect("a valid plan");
        assert_eq!(plan.placed().len(), problem.jobs.len());
    }
}

#[test]
fn thousands_that_wait_do_not_keep_the_few_that_run_from_their_gpus() {
    let jobs = (0..3000).map(|job| problems::job(&format!("j{job}"), 1, 1000 + job, 0.0, &[10.0])).collect();
    let problem = problems::problem(&["v100"], &[&[4], &[4]], jobs);
    let mut policy = find("optimal", &Parameters::default()).expect("a policy");
    let plan = policy.decide(&problem, &Budget::until(&|| true)).expect("a plan");
    assert_eq!(verify(&problem, plan).expect("a valid plan").placed(), (0..8).collect::<Vec<_>>());
}

#[test]
fn when_not_all_can_run_the_shortest_for_its_weight_does() {
    // The first job takes ten times as long, but has twenty times the weight.
    let mut jobs =
        vec![problems::job("long", 10, 1000, 0.0, &[10.0]), problems::job("short", 1, 1000, 0.0, &[10.0])];
    jobs[0].weight = 20.0;
    let mut problem = problems::problem(&["v100"], &[&[1]], jobs);
    for (objective, expected) in [(Objective::MeanJct, 1), (Objective::Weighted, 0)] {
        problem.objective = objective;
        let mut policy = find("optimal", &Parameters::default()).expect("a policy");
        let plan = policy.decide(&problem, &Budget::until(&|| false)).expect("a plan");
        assert_eq!(verify(&problem, plan).expect("a valid plan").placed(), [expected]);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn equals_brute_force_over_workers(problem in problems::any_problem(6, 3, true)) {
        check(&problem, oracle::best(&problem))?;
    }

    #[test]
    fn with_use_all_it_equals_brute_force_too(problem in problems::any_problem(6, 3, false)) {
        if let Some(best) = oracle::by_idle(&problem)[0] {
            let value = solve(&problem, true)?.value.expect("jobs are placed");
            prop_assert!(agree(value, best), "{} is not the optimum {}", value, best);
        }
    }

    #[test]
    fn with_use_all_it_leaves_no_more_idle_than_need_be(problem in problems::any_problem(6, 2, false)) {
        if let Some((idle, best)) = oracle::by_idle(&problem).into_iter().enumerate().find_map(|(n, result)| Some((n, result?))) {
            let value = solve(&problem, true)?.value.expect("jobs are placed");
            let all = solve(&problem, false)?.value.expect("jobs are placed");
            prop_assert!(agree(value, best), "{} with {} idle, {} in any case: not {}", value, idle, all, best);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn equals_the_integer_programme(mut problem in problems::any_problem(12, 4, true)) {
        if matches!(problem.objective, Objective::Makespan | Objective::Deadlines) {
            problem.objective = Objective::MeanJct;
        }
        if oracle_milp::size(&problem) <= 200 {
            check(&problem, oracle_milp::best(&problem))?;
        }
    }

    #[test]
    fn no_bound_is_above_the_dynamic_programme(problem in problems::any_problem(24, 5, true)) {
        let jobs: Vec<usize> = (0..problem.jobs.len()).collect();
        if let (Some(best), Some(bound)) = (oracle_pool::best(&problem), bound(&problem, &jobs, &|| false)) {
            prop_assert!(bound.root <= best * (1.0 + 1e-9), "{} is above {}", bound.root, best);
        }
    }
}
