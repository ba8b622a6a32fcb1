//! Fits a speed to step times at several batch sizes: weighted least squares of `alpha + beta * batch`.

use hsched_model::{Seconds, Speed};

/// A step time at a batch size, with its weight.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct WeightedTime {
    pub batch: f64,
    pub seconds: f64,
    /// Positive weight; residuals are relative, so that long and short steps count equally.
    pub weight: f64,
}

/// Minimum ratio of the largest to the smallest batch size for fitting a slope: closer sizes show only the
/// noise of their times, and ranks of one job often have batches that differ by one.
pub(super) const SPREAD: f64 = 1.25;

/// Fraction of a step's time that counts as a rounding error.
const ROUNDING: f64 = 1e-9;

/// Returns the speed that fits the readings best, or `None` if there are none or a number is invalid.
///
/// Minimises the sum of `weight * ((alpha + beta * batch) / seconds - 1)^2`. If batch sizes are close
/// together, or if the best line has `alpha < 0` or `beta <= 0`, which is impossible for a GPU, it fits the
/// line through the origin.
pub(super) fn fit(readings: &[WeightedTime]) -> Option<Speed> {
    affine(readings).or_else(|| through_origin(readings))
}

fn affine(readings: &[WeightedTime]) -> Option<Speed> {
    let batches = || readings.iter().map(|reading| reading.batch);
    let (least, greatest) = (batches().min_by(f64::total_cmp)?, batches().max_by(f64::total_cmp)?);
    if greatest < SPREAD * least {
        return None;
    }
    // Centred at the means, which keeps the normal equations numerically accurate.
    let weight = |reading: &WeightedTime| reading.weight / (reading.seconds * reading.seconds);
    let total: f64 = readings.iter().map(weight).sum();
    let mean = |of: fn(&WeightedTime) -> f64| readings.iter().map(|r| weight(r) * of(r)).sum::<f64>() / total;
    let (batch, seconds) = (mean(|r| r.batch), mean(|r| r.seconds));
    let moment = |of: fn(f64, f64) -> f64| {
        readings.iter().map(|r| weight(r) * of(r.batch - batch, r.seconds - seconds)).sum::<f64>()
    };
    let beta = moment(|b, s| b * s) / moment(|b, _| b * b);
    let alpha = seconds - beta * batch;
    // A rounding residue is not a constant part.
    if alpha.abs() <= ROUNDING * seconds {
        return Speed::rate(beta.recip());
    }
    Speed::affine(Seconds(alpha), Seconds(beta))
}

fn through_origin(readings: &[WeightedTime]) -> Option<Speed> {
    let sum = |of: fn(f64) -> f64| readings.iter().map(|r| r.weight * of(r.batch / r.seconds)).sum::<f64>();
    Speed::rate(sum(|rate| rate * rate) / sum(|rate| rate))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(points: &[(f64, f64, f64)], alpha: f64, beta: f64) {
        let reading = |&(batch, seconds, weight)| WeightedTime { batch, seconds, weight };
        let speed = fit(&points.iter().map(reading).collect::<Vec<_>>()).expect("a speed");
        let near = |a: f64, b: f64| (a - b).abs() <= 1e-9 * (1.0 + b.abs());
        assert!(near(speed.alpha(), alpha) && near(speed.beta(), beta), "{speed:?}");
    }

    #[test]
    fn two_batch_sizes_give_the_line_through_both() {
        check(&[(64.0, 0.336, 1.0), (128.0, 0.592, 5.0)], 0.08, 0.004);
        check(&[(1.0, 0.5, 1.0), (2.0, 0.6, 9.0), (4.0, 0.8, 2.0)], 0.4, 0.1);
    }

    #[test]
    fn rounding_makes_no_fixed_part() {
        let readings = [(22.0, 22.0 / 300.0, 1.0), (30.0, 30.0 / 300.0, 1.0)];
        let readings = readings.map(|(batch, seconds, weight)| WeightedTime { batch, seconds, weight });
        assert!(matches!(fit(&readings), Some(Speed::Rate { .. })), "{:?}", fit(&readings));
    }

    #[test]
    fn one_batch_size_gives_the_line_through_the_origin() {
        check(&[(64.0, 0.32, 1.0)], 0.0, 0.005);
        check(&[(64.0, 0.32, 1.0), (64.0, 0.32, 1.0)], 0.0, 0.005);
    }

    #[test]
    fn close_batch_sizes_show_no_slope() {
        // 150 samples/s with an error of 1 %: the line through both points would have an alpha of 0.13 s.
        let readings = [(38.0, 0.2559, 1.0), (39.0, 0.2592, 1.0)];
        let readings = readings.map(|(batch, seconds, weight)| WeightedTime { batch, seconds, weight });
        let speed = fit(&readings).expect("a speed");
        assert_eq!(speed.alpha(), 0.0);
        assert!((speed.rate_at(100.0) / 149.5 - 1.0).abs() < 0.01, "{speed:?}");
    }

    #[test]
    fn no_speed_has_negative_parts() {
        // Superlinear, and decreasing with the batch: neither is possible for a GPU.
        check(&[(1.0, 1.0, 1.0), (2.0, 4.0, 0.0)], 0.0, 1.0);
        check(&[(1.0, 1.0, 1.0), (2.0, 0.5, 0.0)], 0.0, 1.0);
        assert_eq!(fit(&[]), None);
    }
}
