//! The accuracy of past start estimates, and the calibration that it gives.

use serde::{Deserialize, Serialize};

use crate::estimate::{Calibration, Estimate, mean, point_of, quantile};
use hsched_model::number::to_f64;
use hsched_model::{Seconds, Time};

/// Seconds by which a start may miss its interval: the submission comes after the look, and a start at once takes some, too.
const TOLERANCE: f64 = 150.0;

/// What counts as waiting, in seconds.
const WAITED: f64 = 600.0;

/// A start that was foretold.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StartPrediction {
    /// When the queue was looked at.
    pub at: Time,
    /// The GPUs of the request, over all its nodes.
    pub gpus: u32,
    /// What was said, from that moment on.
    pub start: Estimate,
    /// The start in each future that was looked at.
    pub starts: Vec<Seconds>,
    /// When it started; `None` where it has not, or not yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started: Option<Time>,
}

/// How right some predictions were.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Score {
    pub starts: usize,
    /// Part of the starts that lay within the interval, with a tolerance of two and a half minutes.
    pub held: f64,
    /// Starts that came after the interval.
    pub later: usize,
    /// Of the median, in seconds.
    #[serde(rename = "median_error_s")]
    pub median_error: f64,
    #[serde(rename = "mean_error_s")]
    pub mean_error: f64,
    #[serde(rename = "mean_wait_s")]
    pub mean_wait: f64,
}

impl StartPrediction {
    /// Returns how long it waited in seconds, where it has started.
    pub fn waited(&self) -> Option<f64> {
        self.started.map(|started| started.since(self.at).0.max(0.0))
    }

    /// Returns whether it waited more than ten minutes.
    pub fn has_waited(&self) -> bool {
        self.waited().is_some_and(|waited| waited > WAITED)
    }

    /// Returns the point of what was foretold at which it started, where it waited or was expected to: of starts at once
    /// every point is as right.
    fn point(&self) -> Option<f64> {
        let waited = self.waited()?;
        let waits = waited > WAITED || self.start.median.0 > WAITED;
        let starts: Vec<f64> = self.starts.iter().map(|start| start.0).collect();
        (waits && !starts.is_empty()).then(|| point_of(&starts, waited))
    }
}

impl Calibration {
    /// Returns what predictions teach that have come true or not, and how many do; `None` where these are too few.
    pub fn learnt<'a>(predictions: impl IntoIterator<Item = &'a StartPrediction>) -> Option<(Self, usize)> {
        let points: Vec<f64> = predictions.into_iter().filter_map(StartPrediction::point).collect();
        Some((Self::of(&points)?, points.len()))
    }
}

impl Score {
    /// Returns how right those of the predictions were that have started; `None` where none has.
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

    /// What was foretold to start in an hour, give or take, and started after this many seconds.
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
    }
}
