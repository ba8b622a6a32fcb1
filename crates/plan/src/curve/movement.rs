//! The movement of a curve so far, and its continuation at its recent pace.

use hsched_model::number::to_f64;

use crate::curve::{CurvePoint, MetricKind};

/// Fraction of its scale by which a metric must have changed before any conclusion: a plateau at the
/// beginning looks like one at the end. Chosen on curves with plateaus (`tests/curves/make_plateaus.py`).
const MOVED: f64 = 0.2;

/// The movement of a curve so far.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Movement {
    /// Reference for changes: the full range of a share, or the first value of any other metric.
    pub(super) scale: f64,
    /// The largest value minus the smallest.
    pub(super) range: f64,
    /// The change per epoch over the last third of the reports.
    pace: f64,
    last: CurvePoint,
}

impl Movement {
    /// Returns the movement of reports in epoch order; `None` for an empty list.
    pub(super) fn of(reports: &[CurvePoint], kind: MetricKind) -> Option<Self> {
        let (first, last) = (reports.first()?, *reports.last()?);
        let values = || reports.iter().map(|report| report.value);
        let range = values().fold(f64::NEG_INFINITY, f64::max) - values().fold(f64::INFINITY, f64::min);
        let scale = match (kind, kind.limits(reports)) {
            (MetricKind::Share, (_, high)) if high.is_finite() => high,
            _ => first.value.abs(),
        };
        let back = (reports.len() / 3).max(1);
        let then = reports.len().checked_sub(back + 1).map_or(*first, |place| reports[place]);
        let epochs = to_f64(last.epoch.saturating_sub(then.epoch));
        let pace = if epochs > 0.0 { (last.value - then.value) / epochs } else { 0.0 };
        Some(Self { scale, range, pace, last })
    }

    pub(super) fn has_moved(&self) -> bool {
        self.range >= MOVED * self.scale
    }

    /// Returns the change of the metric until an epoch at the pace of the last third.
    pub(super) fn change_until(&self, epoch: u64) -> f64 {
        self.pace * to_f64(epoch.saturating_sub(self.last.epoch))
    }

    /// Returns the value of the metric at an epoch, at the pace of the last third.
    pub(super) fn continued_to(&self, epoch: u64) -> f64 {
        self.last.value + self.change_until(epoch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn movement(values: &[f64], kind: MetricKind) -> Movement {
        let reports: Vec<CurvePoint> =
            (1..).zip(values).map(|(epoch, &value)| CurvePoint { epoch, value }).collect();
        Movement::of(&reports, kind).expect("a movement")
    }

    #[test]
    fn a_plateau_at_the_beginning_is_no_movement() {
        assert!(!movement(&[2.30, 2.31, 2.29, 2.30], MetricKind::Loss).has_moved());
        assert!(movement(&[2.30, 1.80], MetricKind::Loss).has_moved());
        assert!(!movement(&[0.02, 0.10], MetricKind::Share).has_moved());
        assert!(!movement(&[2.0, 10.0], MetricKind::Share).has_moved());
        assert!(movement(&[0.02, 0.25], MetricKind::Share).has_moved());
        assert!(movement(&[-200.0, -20.0], MetricKind::Other).has_moved());
    }

    #[test]
    fn the_last_third_goes_on() {
        let moved = movement(&[9.0, 5.0, 4.0, 3.5, 3.0, 2.5], MetricKind::Loss);
        assert!((moved.change_until(9) + 1.5).abs() < 1e-12 && (moved.continued_to(9) - 1.0).abs() < 1e-12);
        assert!((moved.continued_to(6) - 2.5).abs() < 1e-12);
        let same = [CurvePoint { epoch: 3, value: 1.0 }, CurvePoint { epoch: 3, value: 2.0 }];
        let same = Movement::of(&same, MetricKind::Other).expect("a movement");
        assert!((same.continued_to(9) - 2.0).abs() < 1e-12);
        assert_eq!(Movement::of(&[], MetricKind::Other), None);
    }
}
