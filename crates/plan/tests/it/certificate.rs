//! The bound that prices prove, recomputed by enumeration, for comparison with a plan's certificate.

use hsched_plan::Problem;

use crate::oracle;
use hsched_problems::bundle_cost::{bundles, fastest_link, time};

/// Returns the lower bound that `prices` (by GPU type) and `weights` (by job) prove for the objective, in
/// seconds: `(Σ_i min over bundles n of [w_i Λ_i(n) + Σ_g p_g n_g] − Σ_g p_g C_g) / Σ w`.
///
/// Λ is larger for a late job if the objective counts deadlines. The weights are 1 for the mean, the jobs'
/// own for the weighted mean, and arbitrary for the makespan. `None` if a job has no legal bundle.
pub fn bound(problem: &Problem, prices: &[f64], weights: &[f64]) -> Option<f64> {
    let offered = problem.offered();
    let bundles = bundles(&offered);
    let paid =
        |bundle: &[u32]| -> f64 { bundle.iter().zip(prices).map(|(&n, price)| f64::from(n) * price).sum() };
    let mut sum = -paid(&offered);
    for (number, (job, weight)) in problem.jobs.iter().zip(weights).enumerate() {
        let cost = |bundle: &Vec<u32>| {
            let time = time(job, bundle, fastest_link(problem, bundle))?;
            Some(weight * oracle::cost(problem, number, time) + paid(bundle))
        };
        sum += bundles.iter().filter_map(cost).min_by(f64::total_cmp)?;
    }
    Some(sum / weights.iter().sum::<f64>())
}
