//! How fast a job runs on one GPU: step time as a function of the local batch (planner, section 1).

use crate::model::Seconds;

/// The speed of one job on one GPU of a type; every number finite, rates and slopes above zero.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Speed {
    /// Step time `b / rate`, in samples per second.
    Rate { samples_per_second: f64 },
    /// Step time `alpha + beta * b`: seconds a step, and seconds a sample.
    Affine { alpha: Seconds, beta: Seconds },
}

impl Speed {
    /// Returns a linear speed, or `None` unless it is finite and above zero.
    #[must_use]
    pub fn rate(samples_per_second: f64) -> Option<Self> {
        let valid = samples_per_second.is_finite()
            && samples_per_second > 0.0
            && samples_per_second.recip().is_finite();
        valid.then_some(Self::Rate { samples_per_second })
    }

    /// Returns an affine speed, or `None` unless `alpha >= 0`, `beta > 0` and both are finite.
    #[must_use]
    pub fn affine(alpha: Seconds, beta: Seconds) -> Option<Self> {
        let valid = alpha.0.is_finite() && alpha.0 >= 0.0 && beta.0.is_finite() && beta.0 > 0.0;
        valid.then_some(Self::Affine { alpha, beta })
    }

    /// Returns the fixed part of a (micro-)step in seconds.
    #[must_use]
    pub fn alpha(self) -> f64 {
        match self {
            Self::Rate { .. } => 0.0,
            Self::Affine { alpha, .. } => alpha.0,
        }
    }

    /// Returns the seconds that one more sample costs.
    #[must_use]
    pub fn beta(self) -> f64 {
        match self {
            Self::Rate { samples_per_second } => samples_per_second.recip(),
            Self::Affine { beta, .. } => beta.0,
        }
    }

    /// Returns the time of one step over `batch` samples in micro-batches of at most `memory` samples.
    ///
    /// `alpha * ceil(b / m) + beta * b`: what a rank with an integer batch takes.
    #[must_use]
    pub fn step(self, batch: u64, memory: Option<u64>) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "batches are far below 2^52")]
        let samples = batch as f64;
        match self {
            // A quotient, not a product with 1/rate: equal rational times then compare equal.
            Self::Rate { samples_per_second } => samples / samples_per_second,
            Self::Affine { alpha, beta } => {
                let micro_steps = memory.map_or(1, |m| batch.div_ceil(m.max(1)).max(1));
                #[expect(clippy::cast_precision_loss, reason = "batches are far below 2^52")]
                let passes = micro_steps as f64;
                alpha.0 * passes + beta.0 * samples
            }
        }
    }

    /// Returns the samples per second at local batch `batch`: the one number some algorithms need.
    #[must_use]
    pub fn rate_at(self, batch: f64) -> f64 {
        match self {
            Self::Rate { samples_per_second } => samples_per_second,
            Self::Affine { alpha, beta } => batch / (alpha.0 + beta.0 * batch),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_affine_step_pays_its_fixed_part_once_per_micro_batch() {
        let speed = Speed::affine(Seconds(0.08), Seconds(0.004)).expect("valid");
        let check =
            |batch, memory, expected: f64| assert!((speed.step(batch, memory) - expected).abs() < 1e-12);
        check(64, None, 0.08 + 0.256);
        check(64, Some(64), 0.08 + 0.256);
        check(65, Some(64), 0.16 + 0.26);
    }

    #[test]
    fn impossible_speeds_are_refused() {
        assert!(Speed::rate(0.0).is_none());
        assert!(Speed::rate(f64::INFINITY).is_none());
        assert!(Speed::affine(Seconds(-1.0), Seconds(1.0)).is_none());
        assert!(Speed::affine(Seconds(1.0), Seconds(0.0)).is_none());
    }
}
