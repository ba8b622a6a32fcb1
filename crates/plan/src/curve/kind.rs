//! The kind of a metric, from its name.

use hsched_model::GoalMode;

use crate::curve::CurvePoint;

/// The kind of a metric.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MetricKind {
    /// A loss or an error: never below 0.
    Loss,
    /// An accuracy or similar: a fraction, or a percentage.
    Share,
    /// Any other metric.
    #[default]
    Other,
}

const LOSSES: [&str; 10] = ["loss", "error", "err", "mse", "mae", "rmse", "perplexity", "ppl", "wer", "cer"];
const SHARES: [&str; 14] = [
    "accuracy",
    "acc",
    "acc1",
    "acc5",
    "top1",
    "top5",
    "auc",
    "auroc",
    "f1",
    "precision",
    "recall",
    "iou",
    "miou",
    "dice",
];

impl MetricKind {
    /// Returns the kind for a name with a known word, such as `loss` in `val_loss` or `loss/train`.
    pub fn of(metric: &str) -> Self {
        let name = metric.to_ascii_lowercase();
        let has = |words: &[&str]| {
            name.split(|c: char| !c.is_ascii_alphanumeric()).any(|word| words.contains(&word))
        };
        if has(&LOSSES) {
            Self::Loss
        } else if has(&SHARES) {
            Self::Share
        } else {
            Self::Other
        }
    }

    /// Returns whether a lower-case word names a common metric.
    pub fn is_word(word: &str) -> bool {
        LOSSES.contains(&word) || SHARES.contains(&word)
    }

    /// Returns the default direction for metrics of this kind.
    pub fn usual_mode(self) -> GoalMode {
        if self == Self::Loss { GoalMode::Min } else { GoalMode::Max }
    }

    /// Returns the minimum and maximum possible values of the metric; reports outside them show that the name
    /// is misleading, and there are then no limits.
    pub(super) fn limits(self, reports: &[CurvePoint]) -> (f64, f64) {
        let none = (f64::NEG_INFINITY, f64::INFINITY);
        let within = |high: f64| reports.iter().all(|report| (0.0..=high).contains(&report.value));
        match self {
            Self::Loss if within(f64::INFINITY) => (0.0, f64::INFINITY),
            Self::Share if within(1.0) => (0.0, 1.0),
            Self::Share if within(100.0) => (0.0, 100.0),
            Self::Loss | Self::Share | Self::Other => none,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_tells_the_kind() {
        for name in ["val_loss", "Loss/val", "train.rmse", "top1 error", "test-WER"] {
            assert_eq!(MetricKind::of(name), MetricKind::Loss, "{name}");
        }
        for name in ["val_acc", "accuracy", "Acc/top1", "mean IoU"] {
            assert_eq!(MetricKind::of(name), MetricKind::Share, "{name}");
        }
        for name in ["metric", "reward", "bleu", "glossy", "nll"] {
            assert_eq!(MetricKind::of(name), MetricKind::Other, "{name}");
        }
    }

    #[test]
    fn reports_beyond_the_limits_lift_them() {
        let limits = |kind: MetricKind, values: &[f64]| {
            let reports: Vec<CurvePoint> =
                (1..).zip(values).map(|(epoch, &value)| CurvePoint { epoch, value }).collect();
            kind.limits(&reports)
        };
        assert_eq!(limits(MetricKind::Loss, &[2.0, 0.0]), (0.0, f64::INFINITY));
        assert_eq!(limits(MetricKind::Share, &[0.1, 1.0]), (0.0, 1.0));
        assert_eq!(limits(MetricKind::Share, &[0.8, 1.2]), (0.0, 100.0));
        let none = (f64::NEG_INFINITY, f64::INFINITY);
        assert_eq!(limits(MetricKind::Loss, &[2.0, -0.1]), none);
        assert_eq!(limits(MetricKind::Share, &[50.0, 100.5]), none);
        assert_eq!(limits(MetricKind::Other, &[0.5, 0.6]), none);
    }
}
