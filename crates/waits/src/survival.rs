//! Kaplan–Meier curves of waits by stream, each shrunk towards that of a larger stream.

use crate::density::{BINS, bin_of, edge};

/// Weight of the larger stream, in jobs at risk.
const BELIEF: f64 = 8.0;

/// The probability of a start in each bin, for a job that is still pending at its lower end.
pub(crate) type Hazards = [f64; BINS];

/// Weighted starts and censored waits of one stream, by bin.
#[derive(Clone, Debug)]
pub(crate) struct SurvivalCurve {
    starts: Hazards,
    /// Weight that is no longer at risk from a bin on.
    left: Hazards,
    total: f64,
}

impl SurvivalCurve {
    pub(crate) fn empty() -> Self {
        Self { starts: [0.0; BINS], left: [0.0; BINS], total: 0.0 }
    }

    /// Adds a wait, given as its logarithm; a wait that has not ended is a lower bound.
    pub(crate) fn add(&mut self, log_wait: f64, has_started: bool, weight: f64) {
        let bin = bin_of(log_wait);
        self.total += weight;
        if !has_started {
            self.left[bin] += weight;
            return;
        }
        self.starts[bin] += weight;
        if let Some(left) = self.left.get_mut(bin + 1) {
            *left += weight;
        }
    }

    /// Returns the total weight of the recorded waits.
    pub(crate) fn weight(&self) -> f64 {
        self.total
    }

    /// Returns the hazards of a stream, shrunk towards those of a larger one; only the whole site has no
    /// larger one.
    pub(crate) fn hazards(&self, parent: Option<&Hazards>) -> Hazards {
        let mut at_risk = self.total;
        let mut hazards = [0.0; BINS];
        for (bin, hazard) in hazards.iter_mut().enumerate() {
            at_risk = (at_risk - self.left[bin]).max(0.0);
            *hazard = match parent {
                Some(parent) => {
                    ((self.starts[bin] + BELIEF * parent[bin]) / (at_risk + BELIEF)).clamp(0.0, 0.95)
                }
                None => ((self.starts[bin] + 1e-3) / (at_risk + 0.05)).clamp(0.0, 0.9),
            };
        }
        hazards
    }
}

/// Returns the logarithms of the waits by which these fractions of the jobs have started; the lower end of
/// the last bin if fewer have.
pub(crate) fn quantiles<const COUNT: usize>(hazards: &Hazards, parts: [f64; COUNT]) -> [f64; COUNT] {
    parts.map(|part| {
        let mut survival = 1.0;
        for (bin, hazard) in hazards.iter().enumerate() {
            let next = survival * (1.0 - hazard);
            if next <= 1.0 - part {
                return edge(bin) + 0.1 * (survival - (1.0 - part)) / (survival - next).max(1e-9);
            }
            survival = next;
        }
        edge(BINS - 1)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn censored_waits_make_the_curve_longer() {
        let root = SurvivalCurve::empty().hazards(None);
        let median = |censored: u32| {
            let mut curve = SurvivalCurve::empty();
            (0..100).for_each(|_| curve.add(3.05, true, 1.0));
            (0..censored).for_each(|_| curve.add(4.55, false, 1.0));
            quantiles(&curve.hazards(Some(&root)), [0.5])[0]
        };
        assert!((median(0) - 3.05).abs() < 0.1, "{}", median(0));
        assert!(median(150) > 4.5, "{}", median(150));
    }

    #[test]
    fn a_stream_without_starts_is_like_the_larger_one() {
        let mut all = SurvivalCurve::empty();
        (0..50).for_each(|_| all.add(3.05, true, 1.0));
        let all = all.hazards(None);
        assert_eq!(
            quantiles(&SurvivalCurve::empty().hazards(Some(&all)), [0.2, 0.5]),
            quantiles(&all, [0.2, 0.5])
        );
    }
}
