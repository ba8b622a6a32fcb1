//! An uncertain time: its mean, its median, and an interval.

use serde::{Deserialize, Serialize};

use hsched_model::Seconds;
use hsched_model::number::{to_f64, to_usize};

/// Minimum number of evaluated forecasts for a calibration.
const ENOUGH: usize = 30;

/// The default without past forecasts. Futures vary less than reality: they include neither cancellations nor
/// the effect of the user's own later jobs on the user's rank. Chosen on 335 real starts; of 383 others,
/// taken later, 85 % lay between these points.
const USUAL: Calibration = Calibration { low: 0.05, high: 0.95 };

/// An estimate of a time, in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// The true time is earlier in 10 % of cases.
    #[serde(rename = "q10_s")]
    pub low: Seconds,
    #[serde(rename = "q50_s")]
    pub median: Seconds,
    /// The true time is later in 10 % of cases.
    #[serde(rename = "q90_s")]
    pub high: Seconds,
    #[serde(rename = "mean_s")]
    pub mean: Seconds,
}

/// The quantiles of a forecast below which 10 % and 90 % of the true times lay.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Calibration {
    pub low: f64,
    pub high: f64,
}

impl Calibration {
    /// Returns the calibration from the quantiles of past forecasts at which the true times lay, each from 0
    /// to 1; `None` if there are too few.
    pub fn of(points: &[f64]) -> Option<Self> {
        let mut sorted = points.to_vec();
        sorted.sort_by(f64::total_cmp);
        (sorted.len() >= ENOUGH).then(|| Self { low: quantile(&sorted, 0.1), high: quantile(&sorted, 0.9) })
    }
}

impl Estimate {
    /// Returns the estimate shifted by a fixed time, such as the end of a run after its start.
    #[must_use]
    pub fn later(self, by: Seconds) -> Self {
        let of = |time: Seconds| Seconds(time.0 + by.0);
        Self { low: of(self.low), median: of(self.median), high: of(self.high), mean: of(self.mean) }
    }

    /// Returns the estimate from samples; zeros for an empty list.
    pub fn of(samples: &[f64], calibration: Option<Calibration>) -> Self {
        let mut sorted = samples.to_vec();
        sorted.sort_by(f64::total_cmp);
        let Calibration { low, high } = calibration.unwrap_or(USUAL);
        Self {
            low: Seconds(quantile(&sorted, low)),
            median: Seconds(quantile(&sorted, 0.5)),
            high: Seconds(quantile(&sorted, high)),
            mean: Seconds(mean(&sorted).unwrap_or(0.0)),
        }
    }
}

/// Returns the mean of samples; `None` for an empty list.
pub(super) fn mean(samples: &[f64]) -> Option<f64> {
    let count = to_f64(samples.len());
    (count > 0.0).then(|| samples.iter().sum::<f64>() / count)
}

/// Returns the value below which a fraction of the sorted samples lies, interpolated; 0 for an empty list.
pub(super) fn quantile(sorted: &[f64], part: f64) -> f64 {
    let Some(last) = sorted.len().checked_sub(1) else { return 0.0 };
    let place = part.clamp(0.0, 1.0) * to_f64(last);
    let below = to_usize(place.floor());
    let above = (below + 1).min(last);
    sorted[below] + (sorted[above] - sorted[below]) * place.fract()
}

/// Returns the fraction of samples below a value; equal ones count half.
pub fn point_of(samples: &[f64], value: f64) -> f64 {
    let below = samples.iter().filter(|sample| **sample < value).count();
    let equal = samples.iter().filter(|sample| **sample == value).count();
    let (below, equal, all) = (to_f64(below), to_f64(equal), to_f64(samples.len().max(1)));
    (below + equal / 2.0) / all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_lie_between_samples() {
        let samples: Vec<f64> = (0..=10).rev().map(f64::from).collect();
        let plain = Estimate::of(&samples, None);
        assert_eq!((plain.low, plain.median, plain.high), (Seconds(0.5), Seconds(5.0), Seconds(9.5)));
        assert_eq!(plain.mean, Seconds(5.0));
        let learnt = Estimate::of(&samples, Some(Calibration { low: 0.1, high: 1.0 }));
        assert_eq!((learnt.low, learnt.high), (Seconds(1.0), Seconds(10.0)));
        assert_eq!(Estimate::of(&[3.0], None).high, Seconds(3.0));
    }

    #[test]
    fn forecasts_that_were_too_narrow_widen_the_next() {
        // The true times were at the extremes of the forecasts.
        let points: Vec<f64> = (0..30).map(|number| if number % 2 == 0 { 0.02 } else { 0.98 }).collect();
        let learnt = Calibration::of(&points).expect("enough");
        assert!(learnt.low < 0.1 && learnt.high > 0.9, "{learnt:?}");
        assert_eq!(Calibration::of(&points[..29]), None);
        assert_eq!(point_of(&[1.0, 2.0, 2.0, 5.0], 2.0), 0.5);
    }
}
