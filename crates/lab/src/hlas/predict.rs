//! Predicts a lower bound on a job's remaining epochs, from the curve of its losses and from ended jobs of
//! the same model.

use std::collections::BTreeMap;

/// Minimum number of losses for fitting a curve.
const FEWEST_LOSSES: usize = 5;

/// Maximum number of epochs that the curve alone predicts.
const MOST: u64 = 10;

/// A curve has ended once the decrease of an epoch is less than this fraction of the total decrease.
const FLAT: f64 = 0.01;

/// A sibling's loss is much lower if it is below this fraction of the job's loss.
const MUCH_LOWER: f64 = 0.9;

/// Candidates for the limit of the loss, by their distance below the smallest loss as a fraction of the
/// decrease so far: the least, the greatest, and the number of steps between them.
const LIMITS: (f64, f64, u32) = (1e-3, 3.0, 200);

/// The data of ended jobs.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Predictor {
    /// The numbers of epochs of the ended jobs by the name of their model, in ascending order.
    ended: BTreeMap<String, Vec<u64>>,
}

/// 1/(a x + b) + c, the loss after epoch x.
struct LossCurve {
    a: f64,
    b: f64,
    c: f64,
}

impl Predictor {
    /// Records that a job of the model `name` has ended after a number of epochs.
    pub(crate) fn ended(&mut self, name: &str, epochs: u64) {
        let lengths = self.ended.entry(name.to_owned()).or_default();
        lengths.insert(lengths.partition_point(|other| *other < epochs), epochs);
    }

    /// Returns a lower bound on the remaining epochs of a job from the losses of its completed epochs; 0 if
    /// the losses allow no prediction. `best_sibling` is the last loss of the best other job of its sweep.
    pub(crate) fn epochs_left(&self, name: &str, losses: &[f64], best_sibling: Option<f64>) -> u64 {
        let done = losses.len() as u64;
        let (Some(last), Some(end)) =
            (losses.last(), LossCurve::fit(losses).and_then(|curve| curve.end(done + MOST)))
        else {
            return 0;
        };
        let mut left = end.saturating_sub(done).min(MOST);
        if let Some(lengths) = self.ended.get(name) {
            let (low, high) = (lengths[(lengths.len() - 1) / 2], lengths[lengths.len() / 2]);
            left = (2 * left + (low + high).saturating_sub(2 * done)) / 4;
        }
        let falls_behind = best_sibling.is_some_and(|other| other < MUCH_LOWER * last);
        if falls_behind { left / 2 } else { left }
    }
}

impl LossCurve {
    /// Returns the best fit to the losses after epochs 1, 2, …; `None` if there are too few or they do not
    /// decrease.
    fn fit(losses: &[f64]) -> Option<Self> {
        let least = losses.iter().copied().fold(f64::INFINITY, f64::min);
        let fall = losses.first()? - least;
        if losses.len() < FEWEST_LOSSES || fall.is_nan() || fall <= 0.0 {
            return None;
        }
        let (near, far, steps) = LIMITS;
        let limit = |step: u32| least - fall * near * (far / near).powf(f64::from(step) / f64::from(steps));
        let curves = (0..=steps).filter_map(|step| Self::with_limit(losses, limit(step)));
        curves.min_by(|x, y| x.error(losses).total_cmp(&y.error(losses)))
    }

    /// Returns the line through 1/(loss − c) as a curve, if the loss decreases on it.
    fn with_limit(losses: &[f64], c: f64) -> Option<Self> {
        let points = || (1_u32..).map(f64::from).zip(losses.iter().map(|loss| (loss - c).recip()));
        let count = f64::from(u32::try_from(losses.len()).ok()?);
        let mean = |of: fn((f64, f64)) -> f64| points().map(of).sum::<f64>() / count;
        let (x, y) = (mean(|(x, _)| x), mean(|(_, y)| y));
        let (xx, xy) = (mean(|(x, _)| x * x), mean(|(x, y)| x * y));
        let a = (xy - x * y) / (xx - x * x);
        let curve = Self { a, b: y - a * x, c };
        (a > 0.0 && curve.b + a > 0.0).then_some(curve)
    }

    fn at(&self, epoch: f64) -> f64 {
        (self.a * epoch + self.b).recip() + self.c
    }

    fn error(&self, losses: &[f64]) -> f64 {
        (1_u32..).map(f64::from).zip(losses).map(|(x, loss)| (self.at(x) - loss).powi(2)).sum()
    }

    /// Returns the first epoch with a negligible decrease; `most` if there is none before.
    fn end(&self, most: u64) -> Option<u64> {
        let whole = self.at(1.0) - self.c;
        let most = u32::try_from(most).ok()?;
        let is_flat = |epoch: &u32| self.at(f64::from(epoch - 1)) - self.at(f64::from(*epoch)) < FLAT * whole;
        Some(u64::from((2..most).find(is_flat).unwrap_or(most)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn losses(count: u32) -> Vec<f64> {
        (1..=count).map(|epoch| (0.5 * f64::from(epoch) + 0.5).recip() + 0.2).collect()
    }

    #[test]
    fn a_curve_ends_where_an_epoch_falls_by_less_than_a_hundredth() {
        // 1/(0.5 x + 0.5) decreases by less than 0.01 from epoch 14 on.
        let predictor = Predictor::default();
        assert_eq!(predictor.epochs_left("a", &losses(4), None), 0, "too few");
        assert_eq!(predictor.epochs_left("a", &losses(5), None), 9);
        assert_eq!(predictor.epochs_left("a", &losses(10), None), 4);
        assert_eq!(predictor.epochs_left("a", &losses(20), None), 0);
        assert_eq!(predictor.epochs_left("a", &[1.0; 8], None), 0, "no fall");
    }

    #[test]
    fn history_is_averaged_in_and_a_better_sibling_halves() {
        let mut predictor = Predictor::default();
        for epochs in [30, 11, 7] {
            predictor.ended("a", epochs);
        }
        assert_eq!(predictor.epochs_left("a", &losses(5), None), 7, "the mean of 9 and 6");
        assert_eq!(predictor.epochs_left("a", &losses(10), None), 2, "the mean of 4 and 1");
        assert_eq!(predictor.epochs_left("b", &losses(5), Some(0.5)), 9);
        assert_eq!(predictor.epochs_left("b", &losses(5), Some(0.4)), 4);
    }
}
