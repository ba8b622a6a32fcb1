//! The speed of a job on one GPU: step time as a function of the local batch.

use std::fmt;

use crate::Seconds;
use crate::number::to_f64;

/// The speed of one job on one GPU of a type; its samples per second, or the inverse of `beta`, are within
/// [`Speed::RATES`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Speed {
    /// Step time `b / rate`, with the rate in samples per second.
    Rate { samples_per_second: f64 },
    /// Step time `alpha + beta * b`: seconds per step, and seconds per sample.
    Affine { alpha: Seconds, beta: Seconds },
}

impl Speed {
    /// Returns a linear speed, or `None` if it is outside [`Self::RATES`].
    pub fn rate(samples_per_second: f64) -> Option<Self> {
        Self::RATES.contains(&samples_per_second).then_some(Self::Rate { samples_per_second })
    }

    /// Returns an affine speed, or `None` unless `alpha` is from 0 to 10^9 s and the rate of `beta` is within
    /// [`Self::RATES`].
    pub fn affine(alpha: Seconds, beta: Seconds) -> Option<Self> {
        let valid = (0.0..=Self::LONGEST).contains(&alpha.0) && Self::RATES.contains(&beta.0.recip());
        valid.then_some(Self::Affine { alpha, beta })
    }

    /// Valid speeds in samples per second. Values outside are errors, and floats would lose precision.
    pub const RATES: std::ops::RangeInclusive<f64> = 1e-9..=1e12;

    /// Maximum constant part of a step, in seconds.
    const LONGEST: f64 = 1e9;

    /// Returns the speed with steps that take `factor` times as long, or `None` if that is invalid.
    pub fn scaled(self, factor: f64) -> Option<Self> {
        match self {
            Self::Rate { samples_per_second } => Self::rate(samples_per_second / factor),
            Self::Affine { alpha, beta } => Self::affine(Seconds(alpha.0 * factor), Seconds(beta.0 * factor)),
        }
    }

    /// Returns the constant part of a (micro-)step in seconds.
    pub fn alpha(self) -> f64 {
        match self {
            Self::Rate { .. } => 0.0,
            Self::Affine { alpha, .. } => alpha.0,
        }
    }

    /// Returns the seconds for one more sample.
    pub fn beta(self) -> f64 {
        match self {
            Self::Rate { samples_per_second } => samples_per_second.recip(),
            Self::Affine { beta, .. } => beta.0,
        }
    }

    /// Returns the time of one step over `batch` samples in micro-batches of at most `memory` samples.
    ///
    /// `alpha * ceil(b / m) + beta * b`: the time of a rank with an integer batch.
    // Inlined, because planners in other crates call it for every rank.
    #[inline]
    pub fn step(self, batch: u64, memory: Option<u64>) -> f64 {
        let samples = to_f64(batch);
        match self {
            // A quotient rather than a product with 1/rate, so that equal rational times compare as equal.
            Self::Rate { samples_per_second } => samples / samples_per_second,
            Self::Affine { alpha, beta } => {
                let micro_steps = memory.map_or(1, |m| batch.div_ceil(m.max(1)).max(1));
                let passes = to_f64(micro_steps);
                alpha.0 * passes + beta.0 * samples
            }
        }
    }

    /// Returns the samples per second at local batch `batch`, for algorithms that need a single number.
    pub fn rate_at(self, batch: f64) -> f64 {
        match self {
            Self::Rate { samples_per_second } => samples_per_second,
            Self::Affine { alpha, beta } => batch / (alpha.0 + beta.0 * batch),
        }
    }
}

/// Formats the speed: `644 samples/s`, or `80 ms + 4.21 ms per sample`.
impl fmt::Display for Speed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Rate { samples_per_second } => write!(f, "{} samples/s", digits(samples_per_second)),
            Self::Affine { alpha, beta } => {
                write!(f, "{} ms + {} ms per sample", digits(alpha.0 * 1e3), digits(beta.0 * 1e3))
            }
        }
    }
}

/// Returns a number with at least three significant digits, without trailing zeros unless it has an exponent.
fn digits(number: f64) -> String {
    let text = match number.abs() {
        size if size >= 99.95 || size == 0.0 => return format!("{number:.0}"),
        size if size >= 9.995 => format!("{number:.1}"),
        size if size >= 0.9995 => format!("{number:.2}"),
        size if size >= 1e-6 => format!("{number:.*}", decimals(size)),
        _ => return format!("{number:.2e}"),
    };
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Returns the number of decimals that shows three digits of a number below 1.
fn decimals(number: f64) -> usize {
    let mut count = 3;
    let mut scaled = number * 10.0;
    while scaled < 0.9995 {
        scaled *= 10.0;
        count += 1;
    }
    count
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
    fn speeds_read_well() {
        let check = |speed: Option<Speed>, text: &str| assert_eq!(speed.expect("valid").to_string(), text);
        check(Speed::rate(643.6), "644 samples/s");
        check(Speed::rate(27.53), "27.5 samples/s");
        check(Speed::rate(3.0), "3 samples/s");
        check(Speed::rate(0.001_234_4), "0.00123 samples/s");
        check(Speed::rate(2e-9), "2.00e-9 samples/s");
        check(Speed::affine(Seconds(0.0804), Seconds(0.00421)), "80.4 ms + 4.21 ms per sample");
        check(Speed::affine(Seconds(0.0), Seconds(2e-5)), "0 ms + 0.02 ms per sample");
    }

    #[test]
    fn impossible_speeds_are_refused() {
        assert!(Speed::rate(0.0).is_none());
        assert!(Speed::rate(f64::INFINITY).is_none());
        assert!(Speed::affine(Seconds(-1.0), Seconds(1.0)).is_none());
        assert!(Speed::affine(Seconds(1.0), Seconds(0.0)).is_none());
    }
}
