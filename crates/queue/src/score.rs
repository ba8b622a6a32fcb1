//! The accuracy of past start estimates, and the resulting calibration.

use serde::{Deserialize, Serialize};

use crate::estimate::{Calibration, Estimate, mean, point_of, quantile};
use crate::forecast::FEW;
use hsched_model::number::to_f64;
use hsched_model::{Seconds, Time};

/// Tolerance of an interval in seconds: the submission comes after the look, and even an immediate start
/// takes some time.
const TOLERANCE: f64 = 150.0;

/// Longest time that does not count as waiting, in seconds.
const WAITED: f64 = 600.0;

/// A predicted start.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StartPrediction {
    /// Time at which the queue was read.
    pub at: Time,
    /// The GPUs of the request, on all its nodes.
    pub gpus: u32,
    /// The estimated time from `at` to the start.
    pub start: Estimate,
    /// The start in each simulated future.
    pub starts: Vec<Seconds>,
    /// Time of the job's start; `None` if it has not started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started: Option<Time>,
}

/// The accuracy of some predictions.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Score {
    pub starts: usize,
    /// Fraction of the starts within the interval, with a tolerance of 150 s.
    pub held: f64,
    /// Number of starts after the interval, with the same tolerance.
    pub later: usize,
    /// Median of the absolute errors of the estimated medians, in seconds.
    #[serde(rename = "median_error_s")]
    pub median_error: f64,
    #[serde(rename = "mean_error_s")]
    pub mean_error: f64,
    #[serde(rename = "mean_wait_s")]
    pub mean_wait: f64,
}

impl StartPrediction {
    /// Returns the job's wait in seconds, if it has started.
    pub fn waited(&self) -> Option<f64> {
        self.started.map(|started| started.since(self.at).0.max(0.0))
    }

    /// Returns whether the job waited more than 10 min.
    pub fn has_waited(&self) -> bool {
        self.waited().is_some_and(|waited| waited > WAITED)
    }

    /// Returns the quantile of the prediction at which the job started, if it waited or was expected to wait.
    /// For immediate starts, every quantile is equally right.
    fn point(&self) -> Option<f64> {
        let waited = self.waited()?;
        let waits = waited > WAITED || self.start.median.0 > WAITED;
        let starts: Vec<f64> = self.starts.iter().map(|start| start.0).collect();
        // A few futures give no distribution.
        (waits && starts.len() >= FEW).then(|| point_of(&starts, waited))
    }
}

impl Calibration {
    /// Returns the calibration from evaluated predictions, and their number; `None` if there are too few.
    pub fn learnt<'a>(predictions: impl IntoIterator<Item = &'a StartPrediction>) -> Option<(Self, usize)> {
        let points: Vec<f64> = predictions.into_iter().filter_map(StartPrediction::point).collect();
        Some((Self::of(&points)?, points.len()))
    }
}

impl Score {
    /// Returns the accuracy of the predictions whose jobs have started; `None` if none has.
    pub fn of<'a>(predictions: impl IntoIterator<Item = &'a StartPrediction>) -> Option<Self> {
        let known =
            predictions.into_iter().filter_map(|prediction| Some((prediction.start, prediction.waited()?)));
        let known: Vec<(Estimate, f64)> = known.collect();
        let is_late = |(start, waited): &&(Estimate, f64)| *waited > start.high.0 + TOLERANCE;
        let is_early = |(start, waited): &&(Estimate, f64)| *waited < start.low.0 - TOLERANCE;
        let (later, earlier) = (known.iter().filter(is_late).count(), known.iter().filter(is_early).count());
        let mut errors: Vec<f64> =
            known.iter().map(|(start, waited)| (start.median.0 - waited).abs()).collect();
        errors.sort_by(f64::total_cmp);
        let held = to_f64(known.len() - later - earlier) / to_f64(known.len());
        Some(Self {
            starts: known.len(),
            held,
            later,
            median_error: quantile(&errors, 0.5),
            mean_error: mean(&errors)?,
            mean_wait: mean(&known.iter().map(|(_, waited)| *waited).collect::<Vec<f64>>())?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a prediction of about one hour, with the actual wait in seconds.
    fn told(waited: Option<f64>) -> StartPrediction {
        let starts: Vec<f64> = (0..=10).map(|number| f64::from(number) * 720.0).collect();
        StartPrediction {
            at: Time(1000.0),
            gpus: 1,
            start: Estimate::of(&starts, None),
            starts: starts.into_iter().map(Seconds).collect(),
            started: waited.map(|waited| Time(1000.0 + waited)),
        }
    }

    #[test]
    fn the_score_counts_those_that_started() {
        let all = [told(Some(3600.0)), told(Some(600.0)), told(Some(7200.0)), told(Some(100.0)), told(None)];
        let score = Score::of(&all).expect("starts");
        // From 360 to 6840 s, with 150 s of tolerance.
        assert_eq!((score.starts, score.held, score.later), (4, 0.5, 1));
        assert_eq!((score.median_error, score.mean_error), (3250.0, 2525.0));
        assert_eq!(Score::of(&[told(None)]), None);
    }

    #[test]
    fn thirty_starts_teach_and_those_at_once_do_not() {
        let late: Vec<StartPrediction> = (0..30).map(|_| told(Some(7100.0))).collect();
        let (learnt, count) = Calibration::learnt(&late).expect("enough");
        assert!(count == 30 && learnt.high > 0.9 && learnt.low > 0.9, "{learnt:?}");
        let now = StartPrediction { start: Estimate::of(&[0.0], None), ..told(Some(5.0)) };
        let mixed: Vec<StartPrediction> =
            late.into_iter().take(29).chain(std::iter::repeat_n(now, 50)).collect();
        assert_eq!(Calibration::learnt(&mixed), None);
        let few = |mut prediction: StartPrediction| {
            prediction.starts.truncate(9);
            prediction
        };
        let few: Vec<StartPrediction> = (0..30).map(|_| few(told(Some(7100.0)))).collect();
        assert_eq!(Calibration::learnt(&few), None);
    }
}
