//! Lower bounds for plans with at least a given fairness, from bounds on weighted means.
//!
//! Let x be the completion times of S jobs, each divided by the time with an equal share e (eq. 33). Jain's
//! index is at least F if Σx ≥ √(S F) ‖x‖, which is a cone, so that Σ y x ≥ 0 for each y of its dual cone,
//! Σy ≥ √(S (1 − F)) ‖y‖. With weights w = 1/S − y/e, the mean completion time is then at least the weighted
//! sum Σ w Λ, for which a bound is known.

use crate::Bound;
use hsched_model::number::to_f64;

/// A bound of a weighted mean: weights that sum to one, and the minimum of that mean in seconds.
#[derive(Clone, Debug)]
pub(super) struct MeanBound {
    pub weights: Vec<f64>,
    pub bound: Bound,
}

/// A proven lower bound of the mean completion time under a fairness constraint, in seconds, and the factor
/// of the proof's weights.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct ParetoProof {
    pub mean: f64,
    pub factor: f64,
}

/// Relative tolerance so that rounding errors make no bound too high.
const ROUNDING: f64 = 1e-9;

impl MeanBound {
    /// Returns the proven lower bound of the mean completion time of plans with at least this fairness;
    /// `None` if nothing is proven.
    ///
    /// `shares` are the jobs' completion times with an equal share of the cluster, in seconds.
    pub(super) fn of_as_fair(&self, shares: &[f64], fairness: f64) -> Option<ParetoProof> {
        let factor = largest_factor(shares, &self.weights, fairness)?;
        Some(ParetoProof { mean: factor * self.bound.lower, factor })
    }
}

/// Returns the largest factor for the weights with which their sum bounds the mean.
fn largest_factor(shares: &[f64], weights: &[f64], fairness: f64) -> Option<f64> {
    let jobs = to_f64(shares.len());
    if weights.iter().all(|weight| (weight * jobs - 1.0).abs() <= 1e-12) {
        return Some(1.0);
    }
    // y = a − λ b must be in the dual cone. Slightly less fair plans are also covered.
    let wide = jobs * (1.0 - fairness * (1.0 - ROUNDING)).max(0.0);
    let a: Vec<f64> = shares.iter().map(|share| share / jobs).collect();
    let b: Vec<f64> = shares.iter().zip(weights).map(|(share, weight)| share * weight).collect();
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let (sum_a, sum_b) = (a.iter().sum::<f64>(), b.iter().sum::<f64>());
    let square = sum_b * sum_b - wide * dot(&b, &b);
    let half = sum_a * sum_b - wide * dot(&a, &b);
    let rest = sum_a * sum_a - wide * dot(&a, &a);
    let root = (half * half - square * rest).max(0.0).sqrt();
    let is_inside = |factor: f64| {
        let y: Vec<f64> = a.iter().zip(&b).map(|(a, b)| a - factor * b).collect();
        y.iter().sum::<f64>() * (1.0 - ROUNDING) >= (wide * dot(&y, &y)).sqrt()
    };
    let mut roots = vec![(half - root) / square, (half + root) / square, rest / (2.0 * half), sum_a / sum_b];
    roots.retain(|factor| factor.is_finite() && *factor > 0.0);
    roots.sort_by(|a, b| b.total_cmp(a));
    // A root is on the edge of the cone; a slightly smaller value is inside, if the root is the upper end of
    // an interval inside.
    let nearly = |factor: f64| [1e-8, 1e-6, 1e-4].into_iter().map(move |less| factor * (1.0 - less));
    roots.into_iter().flat_map(nearly).find(|factor| is_inside(*factor))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn jain(x: &[f64]) -> f64 {
        let (sum, squares) = (x.iter().sum::<f64>(), x.iter().map(|x| x * x).sum::<f64>());
        sum * sum / (to_f64(x.len()) * squares)
    }

    #[test]
    fn equal_weights_bound_the_mean_of_all_plans() {
        assert_eq!(largest_factor(&[3.0, 5.0], &[0.5, 0.5], 0.3), Some(1.0));
    }

    #[test]
    fn of_perfectly_fair_plans_any_weights_bound_the_mean() {
        // If all x are equal, the mean is x Σe/S and the weighted sum x Σ w e.
        let factor = largest_factor(&[1.0, 3.0], &[0.9, 0.1], 1.0).expect("a factor");
        assert!((factor - 2.0 / 1.2).abs() < 1e-3, "{factor}");
    }

    proptest! {
        #[test]
        fn no_plan_as_fair_has_a_mean_below_the_weighted_sum(
            jobs in proptest::collection::vec((0.1_f64..10.0, 0.01_f64..1.0, 0.1_f64..10.0), 2..8),
        ) {
            let shares: Vec<f64> = jobs.iter().map(|job| job.0).collect();
            let sum: f64 = jobs.iter().map(|job| job.1).sum();
            let weights: Vec<f64> = jobs.iter().map(|job| job.1 / sum).collect();
            let x: Vec<f64> = jobs.iter().map(|job| job.2).collect();
            let time = || x.iter().zip(&shares).map(|(x, share)| x * share);
            let mean = time().sum::<f64>() / to_f64(jobs.len());
            let weighted: f64 = time().zip(&weights).map(|(time, weight)| time * weight).sum();
            for fairness in [jain(&x), 0.5 * jain(&x)] {
                if let Some(factor) = largest_factor(&shares, &weights, fairness) {
                    prop_assert!(factor * weighted <= mean * (1.0 + 1e-9), "{factor} {weighted} {mean}");
                }
            }
        }
    }
}
