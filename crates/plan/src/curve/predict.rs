//! Predicts the metric at the last epoch by a mixture of curves, each fitted in closed form.

use libm::{erfc, exp, log, pow, sqrt};
use serde::{Deserialize, Serialize};

use crate::curve::MetricKind;
use crate::curve::movement::Movement;
use hsched_model::number::to_f64;

/// A metric after an epoch; stored as a pair of numbers.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "(u64, f64)", into = "(u64, f64)")]
pub struct CurvePoint {
    /// Epoch number, from 1.
    pub epoch: u64,
    /// Value; always finite.
    pub value: f64,
}

impl From<(u64, f64)> for CurvePoint {
    fn from((epoch, value): (u64, f64)) -> Self {
        Self { epoch, value }
    }
}

impl From<CurvePoint> for (u64, f64) {
    fn from(report: CurvePoint) -> Self {
        (report.epoch, report.value)
    }
}

/// The predicted distribution of the metric at an epoch: a mixture of normal distributions.
#[derive(Clone, Debug, PartialEq)]
pub struct Prediction {
    /// The mean of the mixture.
    pub mean: f64,
    /// The standard deviation of the mixture.
    pub spread: f64,
    parts: Vec<MixturePart>,
    /// Minimum distance of the band's ends from the mean, regardless of the spread.
    slack: f64,
    /// The minimum and maximum possible values of the metric.
    limits: (f64, f64),
}

/// The component of one curve in a prediction.
#[derive(Clone, Copy, Debug, PartialEq)]
struct MixturePart {
    weight: f64,
    mean: f64,
    sigma: f64,
}

/// A curve `y = c + a z(x)` before its fit.
#[derive(Clone, Copy)]
enum CurveShape {
    /// z = x^-p.
    Power(f64),
    /// z = e^(-x / tau).
    Exponential(f64),
    /// z = 1 / ln(x + 1).
    Logarithm,
}

/// Minimum standard deviation of the noise, as a fraction of the observed range.
const GRAIN: f64 = 0.003;

/// Half-width of the band in spreads, chosen so that the band contains the last metric in 90 % of real curves
/// (`tests/curves`), which vary more than the shapes. For exact shapes it would be 1.645.
const BAND: f64 = 2.7;

/// Minimum half-width of the band, as a fraction of the change at the recent pace. With a constant learning
/// rate, metrics improve for longer than the shapes do.
const GOES_ON: f64 = 0.5;

/// Minimum half-width of the band while the metric has not moved, as a fraction of the metric's scale. Such
/// reports do not show where the curve ends.
const UNMOVED: f64 = 0.5;

/// Minimum variation of a shape over the reports for a fit.
const FLAT: f64 = 1e-18;

/// Returns the predicted metric at epoch `last`; `None` with fewer than three reports, or if no curve can be
/// fitted.
///
/// Curves that lead to impossible values of the metric are excluded, unless all curves do.
pub fn predict(reports: &[CurvePoint], last: u64, kind: MetricKind) -> Option<Prediction> {
    predict_at(reports, last, last, kind)
}

/// Returns the predicted metric at epoch `at` for a job that trains until epoch `last`.
pub fn predict_at(reports: &[CurvePoint], last: u64, at: u64, kind: MetricKind) -> Option<Prediction> {
    if reports.len() < 3 {
        return None;
    }
    let (sample, limits) = (WeightedReports::new(reports), kind.limits(reports));
    let fits = shapes(last).filter_map(|(shape, prior)| sample.fit(shape, prior, to_f64(at)));
    let fits = possible(fits.collect(), limits);
    let most = fits.iter().map(|(score, _)| *score).max_by(f64::total_cmp)?;
    let parts: Vec<MixturePart> =
        fits.iter().map(|(score, part)| MixturePart { weight: exp(score - most), ..*part }).collect();
    let whole: f64 = parts.iter().map(|part| part.weight).sum();
    let parts: Vec<MixturePart> =
        parts.iter().map(|part| MixturePart { weight: part.weight / whole, ..*part }).collect();
    let mean: f64 = parts.iter().map(|part| part.weight * part.mean).sum();
    let variance = |part: &MixturePart| {
        part.weight * (part.sigma * part.sigma + (part.mean - mean) * (part.mean - mean))
    };
    let spread = sqrt(parts.iter().map(variance).sum());
    let movement = Movement::of(reports, kind)?;
    let unknown = if movement.has_moved() { 0.0 } else { UNMOVED * movement.scale };
    let slack = unknown.max(GOES_ON * movement.change_until(at).abs());
    (mean.is_finite() && spread.is_finite()).then_some(Prediction { mean, spread, parts, slack, limits })
}

/// Returns the fits with a possible value; if there are none, all of them with the nearest possible value.
fn possible(fits: Vec<(f64, MixturePart)>, (low, high): (f64, f64)) -> Vec<(f64, MixturePart)> {
    let is_possible = |part: &MixturePart| (low..=high).contains(&part.mean);
    let any = fits.iter().any(|(_, part)| is_possible(part));
    let nearest =
        |(score, part): (f64, MixturePart)| (score, MixturePart { mean: part.mean.clamp(low, high), ..part });
    fits.into_iter().filter(|(_, part)| !any || is_possible(part)).map(nearest).collect()
}

impl Prediction {
    /// Returns the probability that the metric is at most `value`.
    pub fn at_most(&self, value: f64) -> f64 {
        let below =
            |part: &MixturePart| part.weight * erfc((part.mean - value) / (part.sigma * sqrt(2.0))) / 2.0;
        self.parts.iter().map(below).sum()
    }

    /// Returns the probability that the metric is at least `value`.
    pub fn at_least(&self, value: f64) -> f64 {
        let above =
            |part: &MixturePart| part.weight * erfc((value - part.mean) / (part.sigma * sqrt(2.0))) / 2.0;
        self.parts.iter().map(above).sum()
    }

    /// Returns the bounds of the central 90 %, limited to possible values of the metric.
    pub fn band(&self) -> (f64, f64) {
        let away = (BAND * self.spread).max(self.slack);
        let (low, high) = self.limits;
        ((self.mean - away).max(low), (self.mean + away).min(high))
    }
}

/// The reports with weights that increase with the epoch.
struct WeightedReports {
    x: Vec<f64>,
    y: Vec<f64>,
    weights: Vec<f64>,
    count: f64,
    mean: f64,
    /// Minimum variance.
    grain: f64,
}

impl WeightedReports {
    fn new(reports: &[CurvePoint]) -> Self {
        let x: Vec<f64> = reports.iter().map(|report| to_f64(report.epoch)).collect();
        let y: Vec<f64> = reports.iter().map(|report| report.value).collect();
        let count = to_f64(reports.len());
        let squares: f64 = x.iter().map(|x| x * x).sum();
        let weights: Vec<f64> = x.iter().map(|x| x * x * count / squares).collect();
        let mean = weighted(&weights, &y) / count;
        let (low, high) =
            y.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), &y| (low.min(y), high.max(y)));
        let grain = pow(GRAIN * (high - low), 2.0) + 1e-24;
        Self { x, y, weights, count, mean, grain }
    }

    /// Fits a shape by least squares; returns the logarithm of its weight and its prediction for epoch `at`.
    fn fit(&self, shape: CurveShape, prior: f64, at: f64) -> Option<(f64, MixturePart)> {
        let z: Vec<f64> = self.x.iter().map(|&x| shape.at(x)).collect();
        let middle = weighted(&self.weights, &z) / self.count;
        let over = |integral: &dyn Fn(f64, f64) -> f64| -> f64 {
            self.weights.iter().zip(z.iter().zip(&self.y)).map(|(u, (z, y))| u * integral(*z, *y)).sum()
        };
        let variation = over(&|z, _| (z - middle) * (z - middle));
        if variation <= FLAT {
            return None;
        }
        let slope = over(&|z, y| (z - middle) * (y - self.mean)) / variation;
        let rest = over(&|z, y| {
            let off = y - self.mean - slope * (z - middle);
            off * off
        });
        let away = shape.at(at) - middle;
        let noise = (rest + self.count * self.grain) / (self.count - 2.0);
        let sigma = sqrt(noise * (1.0 + 1.0 / self.count + away * away / variation));
        let score = log(prior) - self.count / 8.0 * log(rest / self.count + self.grain);
        Some((score, MixturePart { weight: 0.0, mean: self.mean + slope * away, sigma }))
    }
}

impl CurveShape {
    fn at(self, x: f64) -> f64 {
        match self {
            Self::Power(power) => pow(x, -power),
            Self::Exponential(tau) => exp(-x / tau),
            Self::Logarithm => 1.0 / log(x + 1.0),
        }
    }
}

/// Returns the shapes with their prior weights, a third for each family.
fn shapes(last: u64) -> impl Iterator<Item = (CurveShape, f64)> {
    let powers = (1..=20).map(|tenths| (CurveShape::Power(f64::from(tenths) / 10.0), 1.0 / 60.0));
    let taus = (0..8).map(move |halvings| to_f64(last) / f64::from(1_u32 << halvings));
    let exponentials = taus.map(|tau| (CurveShape::Exponential(tau), 1.0 / 24.0));
    powers.chain(exponentials).chain([(CurveShape::Logarithm, 1.0 / 3.0)])
}

fn weighted(weights: &[f64], values: &[f64]) -> f64 {
    weights.iter().zip(values).map(|(weight, value)| weight * value).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reports(values: &[f64]) -> Vec<CurvePoint> {
        (1..).zip(values).map(|(epoch, &value)| CurvePoint { epoch, value }).collect()
    }

    #[test]
    fn a_curve_of_one_family_is_continued() {
        let values: Vec<f64> = (1..=12).map(|x| 0.9 - 0.5 * f64::from(x).powf(-0.7)).collect();
        let expected = 0.9 - 0.5 * 60_f64.powf(-0.7);
        let prediction = predict(&reports(&values), 60, MetricKind::Other).expect("a prediction");
        assert!((prediction.mean - expected).abs() < 0.01, "{prediction:?}");
        let (low, high) = prediction.band();
        assert!(low < expected && expected < high);
        assert!(prediction.at_most(low) < 0.01 && prediction.at_most(high) > 0.99);
        assert!((prediction.at_most(expected) + prediction.at_least(expected) - 1.0).abs() < 1e-12);
    }

    #[test]
    fn what_cannot_be_foretold_is_not() {
        assert_eq!(predict(&reports(&[1.0, 2.0]), 9, MetricKind::Loss), None);
        // The reports repeat the same epoch.
        let same = [CurvePoint { epoch: 3, value: 1.0 }; 7];
        assert_eq!(predict(&same, 9, MetricKind::Loss), None);
        assert_eq!(predict(&reports(&[1.0, 1e200, 1e300]), 9, MetricKind::Other), None);
    }

    #[test]
    fn a_metric_that_does_not_change_stays() {
        let prediction = predict(&reports(&[0.5; 8]), 100, MetricKind::Other).expect("a prediction");
        assert!((prediction.mean - 0.5).abs() < 1e-9 && prediction.spread < 1e-9, "{prediction:?}");
    }

    #[test]
    fn nothing_impossible_is_foretold() {
        // A straight line far below 0, and one far above 1.
        let falls: Vec<f64> = (0..10).map(|x| 1.0 - 0.08 * f64::from(x)).collect();
        let rises: Vec<f64> = falls.iter().map(|value| 1.05 - value).collect();
        for (values, kind) in [(&falls, MetricKind::Loss), (&rises, MetricKind::Share)] {
            let free = predict(&reports(values), 40, MetricKind::Other).expect("a prediction").mean;
            assert!(!(0.0..=1.0).contains(&free), "{free}");
            let prediction = predict(&reports(values), 40, kind).expect("a prediction");
            let (low, high) = prediction.band();
            assert!(prediction.mean >= 0.0 && low >= 0.0, "{prediction:?}");
            assert!(kind == MetricKind::Loss || prediction.mean <= 1.0 && high <= 1.0, "{prediction:?}");
            assert!(low <= prediction.mean && prediction.mean <= high, "{prediction:?}");
        }
    }

    #[test]
    fn the_band_is_wide_before_the_metric_has_moved_and_while_it_goes_on() {
        let plateau: Vec<f64> = (0..12).map(|x| 2.30 - 0.002 * f64::from(x % 3)).collect();
        let (low, high) = predict(&reports(&plateau), 60, MetricKind::Loss).expect("a prediction").band();
        assert!(low < 1.2 && high > 3.4, "{low} {high}");
        // The metric falls by 0.1 per epoch, and where it ends is unknown.
        let falls: Vec<f64> = (0..10).map(|x| 9.0 - 0.1 * f64::from(x)).collect();
        let prediction = predict(&reports(&falls), 20, MetricKind::Loss).expect("a prediction");
        assert!(prediction.band().1 - prediction.mean >= 0.5 - 1e-9, "{prediction:?}");
    }
}
