//! The kind of a metric, from its name.

use hsched_model::GoalMode;

use crate::curve::CurvePoint;

/// The kind of a metric.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MetricKind {
    /// A loss or an error: never below 0.
    Loss,
    /// A negative log-likelihood: should fall, and is negative for some densities.
    Likelihood,
    /// An accuracy or similar: a fraction, or a percentage.
    Share,
    /// Any other metric.
    #[default]
    Other,
}

/// Words of losses and errors. [`is_loss`] knows more.
#[rustfmt::skip]
const LOSSES: [&str; 50] = [
    "loss", "losses", "error", "errors", "err", "merror",
    "mse", "mae", "rmse", "msle", "rmsle", "nmse", "nrmse", "mape", "smape", "mase",
    "perplexity", "ppl", "wer", "cer", "eer", "ece", "brier", "deviance", "regret",
    "crossentropy", "xentropy", "xent", "ce", "bce", "bpb", "bpc", "bpd", "bpp",
    "kl", "kld", "kldiv", "jsd", "divergence", "fid", "kid", "fvd", "fad", "lpips",
    "mpjpe", "epe", "nme", "absrel", "sqrel", "chamfer",
];
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
    /// Returns the kind for a name with a known word, such as `loss` in `val_loss`, `loss/train` or `trainLoss`.
    pub fn of(metric: &str) -> Self {
        let words = words(metric);
        let has = |known: &[&str]| words.iter().any(|word| known.contains(&word.as_str()));
        let are_pair = |pair: [&str; 2]| words.windows(2).any(|words| words == pair);
        // scikit-learn's scores of this name, such as `neg_mean_squared_error`, rise.
        let is_negated = has(&["neg"]);
        if are_pair(["log", "likelihood"]) && has(&["neg", "negative"]) {
            Self::Likelihood
        } else if is_negated && (has(&["error", "brier", "deviance"]) || are_pair(["log", "loss"])) {
            Self::Other
        } else if words.iter().any(|word| is_loss(word))
            || are_pair(["cross", "entropy"])
            || are_pair(["bits", "per"])
        {
            Self::Loss
        } else if has(&["nll"]) {
            Self::Likelihood
        } else if has(&SHARES) {
            Self::Share
        } else {
            Self::Other
        }
    }

    /// Returns whether a lower-case word names a common metric.
    pub fn is_word(word: &str) -> bool {
        LOSSES.contains(&word) || SHARES.contains(&word) || word == "nll"
    }

    /// Returns the direction in which metrics of this kind improve; `None` if it is unknown.
    pub fn direction(self) -> Option<GoalMode> {
        match self {
            Self::Loss | Self::Likelihood => Some(GoalMode::Min),
            Self::Share => Some(GoalMode::Max),
            Self::Other => None,
        }
    }

    /// Returns the default direction for metrics of this kind.
    pub fn usual_mode(self) -> GoalMode {
        self.direction().unwrap_or(GoalMode::Max)
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
            Self::Loss | Self::Likelihood | Self::Share | Self::Other => none,
        }
    }
}

/// Returns whether a word is one of a loss or an error, such as `loss`, `loss2` or `valloss`.
fn is_loss(word: &str) -> bool {
    let word = word.trim_end_matches(|c: char| c.is_ascii_digit());
    word.ends_with("loss") || LOSSES.contains(&word)
}

/// Returns the words of a name in lower case: the parts between other characters than letters and digits, and
/// the words of these parts in camel case. (`mIoU` is both one word and three.)
fn words(name: &str) -> Vec<String> {
    let mut words = Vec::new();
    for part in name.split(|c: char| !c.is_ascii_alphanumeric()).filter(|part| !part.is_empty()) {
        words.extend(camel_words(part).iter().map(|word| word.to_ascii_lowercase()));
        let whole = part.to_ascii_lowercase();
        if words.last() != Some(&whole) {
            words.push(whole);
        }
    }
    words
}

/// Splits `trainLoss` and `MSELoss` before the `L`.
fn camel_words(part: &str) -> Vec<&str> {
    let letters = part.as_bytes();
    let begins = |place: &usize| {
        let follows_small = !letters[place - 1].is_ascii_uppercase();
        let is_before_small = letters.get(place + 1).is_some_and(u8::is_ascii_lowercase);
        letters[*place].is_ascii_uppercase() && (follows_small || is_before_small)
    };
    let ends = (1..part.len()).filter(begins).chain([part.len()]);
    let mut start = 0;
    ends.map(|end| &part[std::mem::replace(&mut start, end)..end]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_tells_the_kind() {
        let check = |kind: MetricKind, names: &[&str]| {
            for name in names {
                assert_eq!(MetricKind::of(name), kind, "{name}");
            }
        };
        check(MetricKind::Loss, &["val_loss", "Loss/val", "train.rmse", "top1 error", "test-WER"]);
        check(
            MetricKind::Loss,
            &["cross_entropy", "cross-entropy", "valCrossEntropy", "binary_crossentropy"],
        );
        check(MetricKind::Loss, &["ce", "val/bpc", "bits_per_byte", "mape", "fid", "KL", "kl_divergence"]);
        check(
            MetricKind::Loss,
            &["valLoss", "MSELoss", "L1Loss", "trainMSE", "nll_loss", "mlogloss", "loss2"],
        );
        check(MetricKind::Likelihood, &["nll", "val_NLL", "neg_log_likelihood", "negativeLogLikelihood"]);
        check(MetricKind::Share, &["val_acc", "accuracy", "Acc/top1", "mean IoU", "mIoU", "valAcc", "F1"]);
        check(MetricKind::Other, &["metric", "reward", "bleu", "glossy", "entropy", "log_likelihood", ""]);
        check(MetricKind::Other, &["resource", "cross", "neg_mean_squared_error", "neg_log_loss", "klass"]);
    }

    #[test]
    fn names_are_split_into_words() {
        let split = |name: &str| words(name).join(" ");
        assert_eq!(split("val_MSELoss"), "val mse loss mseloss");
        assert_eq!(split("Top1Acc/é"), "top1 acc top1acc");
        assert_eq!(split("__"), "");
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
        assert_eq!(limits(MetricKind::Likelihood, &[0.5, 0.4]), none);
    }
}
