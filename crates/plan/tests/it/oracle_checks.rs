//! The oracles agree with each other, so a policy that disagrees with one is wrong.

use hsched_plan::{Objective, Problem};
use proptest::prelude::*;

use hsched_problems::{bundle_cost, problems};

use crate::{certificate, oracle, oracle_milp, oracle_pool};

fn agree(a: Option<f64>, b: Option<f64>) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => (a - b).abs() <= 1e-9 * (a.abs() + b.abs()),
        _ => a == b,
    }
}

/// Returns whether `lower` is at most `value`; a relaxation may have a plan when the problem has none.
fn at_most(lower: Option<f64>, value: Option<f64>) -> bool {
    value.is_none_or(|value| lower.is_some_and(|lower| lower <= value * (1.0 + 1e-9)))
}

fn weights(problem: &Problem, any: &[f64]) -> Vec<f64> {
    let weight = |(job, any): (&hsched_plan::JobModel, &f64)| match problem.objective {
        Objective::MeanJct | Objective::Deadlines => 1.0,
        Objective::Weighted => job.weight,
        Objective::Makespan => *any,
    };
    problem.jobs.iter().zip(any).map(weight).collect()
}

#[test]
fn all_know_the_optimum_of_fifteen_gpus() {
    let problem = problems::fifteen_gpus();
    for best in [oracle_pool::best(&problem), oracle_milp::best(&problem)] {
        assert!(best.is_some_and(|best| (best - 4369.650).abs() < 5e-4), "{best:?}");
    }
}

#[test]
fn the_certificate_is_the_sum_that_its_jobs_would_pay() {
    let problem = problems::worked_example();
    let mean = f64::midpoint(200.0 * 100_000.0 / 1838.0, 200.0 * 50_000.0 / 5276.0);
    assert!(agree(certificate::bound(&problem, &[0.0, 0.0], &[1.0, 1.0]), Some(mean)));
    // At 10 000 s for a V100, both jobs use the T4s, which are free, and only ResNet-18 uses a V100.
    let paid = f64::midpoint(200.0 * 100_000.0 / 1194.0 + 10_000.0, 200.0 * 50_000.0 / 1768.0) - 10_000.0;
    assert!(agree(certificate::bound(&problem, &[0.0, 10_000.0], &[1.0, 1.0]), Some(paid)));
}

/// Changes one price at a time, and keeps each change that raises the bound.
#[test]
fn prices_exist_that_prove_nearly_the_optimum() {
    let problem = problems::fifteen_gpus();
    let mut prices = vec![500.0; 3];
    let mut best = certificate::bound(&problem, &prices, &[1.0; 4]).expect("a bound");
    for step in [200.0, 100.0, 50.0, 25.0, 12.0, 6.0, 3.0] {
        for _ in 0..8 {
            for (ty, change) in [(0, step), (0, -step), (1, step), (1, -step), (2, step), (2, -step)] {
                let mut other = prices.clone();
                other[ty] = f64::max(0.0, other[ty] + change);
                let bound = certificate::bound(&problem, &other, &[1.0; 4]).expect("a bound");
                if bound > best {
                    (best, prices) = (bound, other);
                }
            }
        }
    }
    assert!((0.95..=1.0).contains(&(best / 4369.650)), "{best} at {prices:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn integer_programming_equals_brute_force(
        problem in problems::any_problem(7, 3, true).prop_map(problems::without_deadlines)
    ) {
        let (program, brute) = (oracle_milp::best(&problem), oracle::best(&problem));
        prop_assert!(agree(program, brute), "{:?} against {:?}", program, brute);
    }

    #[test]
    fn a_pool_is_no_worse_than_nodes(problem in problems::any_problem(7, 3, true)) {
        let (pool, nodes) = (oracle_pool::by_idle(&problem), oracle::by_idle(&problem));
        prop_assert_eq!(pool.len(), nodes.len());
        for (pool, nodes) in pool.into_iter().zip(nodes) {
            prop_assert!(at_most(pool, nodes), "{:?} against {:?}", pool, nodes);
            prop_assert!(!oracle_pool::is_exact(&problem) || agree(pool, nodes), "{:?} against {:?}", pool, nodes);
        }
    }

    #[test]
    fn without_communication_a_pool_is_as_good_as_nodes(mut problem in problems::any_problem(7, 3, true)) {
        for job in &mut problem.jobs {
            job.model_bytes = 0.0;
        }
        prop_assert!(oracle_pool::is_exact(&problem));
        for (pool, nodes) in oracle_pool::by_idle(&problem).into_iter().zip(oracle::by_idle(&problem)) {
            prop_assert!(agree(pool, nodes), "{:?} against {:?}", pool, nodes);
        }
    }

    #[test]
    fn integer_programming_keeps_above_the_pool(
        problem in problems::any_problem(12, 4, true).prop_map(problems::without_deadlines)
    ) {
        prop_assume!(oracle_milp::size(&problem) <= 250);
        let (pool, program) = (oracle_pool::best(&problem), oracle_milp::best(&problem));
        prop_assert!(at_most(pool, program), "{:?} against {:?}", pool, program);
        prop_assert!(!oracle_pool::is_exact(&problem) || agree(pool, program), "{:?} against {:?}", pool, program);
    }

    #[test]
    fn no_prices_prove_more_than_the_optimum(
        problem in problems::any_problem(7, 3, true),
        prices in prop::collection::vec(prop_oneof![Just(0.0), 0.0..1000.0], 2),
        any in prop::collection::vec(0.1..10.0, 3),
    ) {
        let bound = certificate::bound(&problem, &prices, &weights(&problem, &any));
        prop_assert!(at_most(bound, oracle_pool::best(&problem)), "{:?}", bound);
    }

    #[test]
    fn a_share_takes_its_step(problem in problems::any_problem(2, 3, false), tau in 0.0..10.0) {
        for (job, model) in problem.jobs.iter().flat_map(|job| job.types.iter().flatten().map(move |model| (job, model))) {
            let share = bundle_cost::share(job, model, tau);
            let memory = model.max_batch.map_or(f64::INFINITY, |most| f64::from(u32::try_from(most).expect("small")));
            let step = model.speed.alpha() * f64::max(1.0, share / memory) + model.speed.beta() * share;
            let full = !job.accumulate && share == memory;
            prop_assert!(share == 0.0 || (full && step <= tau) || agree(Some(step), Some(tau)), "{} {}", step, tau);
        }
    }
}
