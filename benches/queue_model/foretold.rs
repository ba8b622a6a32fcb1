//! The model's estimates for real submissions, and their errors.

use hsched_queue::{Estimate, Question, Start, forecast};

use super::submissions::{Submission, time};

/// Seconds by which a start may miss the interval, because even an immediate start takes some time.
const TOLERANCE: f64 = 150.0;
const HOUR: f64 = 3600.0;

/// A submission that started, and its estimates; times are in seconds after the query.
pub struct Row {
    pub gpus: u32,
    pub waited: f64,
    pub at_limits: f64,
    pub start: Estimate,
    /// Slurm's own estimates.
    pub testonly: Option<f64>,
    pub squeue: Option<f64>,
}

impl Row {
    /// Returns whether the submission started within the interval.
    pub fn is_held(&self) -> bool {
        (self.start.low.0 - TOLERANCE..=self.start.high.0 + TOLERANCE).contains(&self.waited)
    }
}

/// Estimates the starts of submissions that started.
pub fn rows(all: &[Submission], samples: usize) -> Vec<Row> {
    let row = |(number, submission): (usize, &Submission)| {
        let (snapshot, requests) = (submission.snapshot(&all[..number]), [submission.request()]);
        let question =
            Question { snapshot: &snapshot, requests: &requests, seed: 1, samples, calibration: None };
        let Start::Estimated(known) = forecast(&question, &|| false).remove(0).start else {
            panic!("submission {number} cannot be foretold")
        };
        let squeue = submission.squeue.as_deref().filter(|text| text.starts_with("20"));
        Some(Row {
            gpus: submission.g,
            waited: submission.waited_s?,
            at_limits: known.at_limits.expect("within the horizon").0,
            start: known.start,
            testonly: submission.testonly.map(|at| at - submission.at),
            squeue: squeue.map(|text| time(text).0 - submission.at),
        })
    };
    all.iter().enumerate().filter_map(row).collect()
}

/// Returns the number of known errors, and their mean and median in hours.
pub fn errors(rows: &[Row], told: impl Fn(&Row) -> Option<f64>) -> (usize, f64, f64) {
    let mut list: Vec<f64> =
        rows.iter().filter_map(|row| Some((told(row)? - row.waited).abs() / HOUR)).collect();
    list.sort_by(f64::total_cmp);
    #[expect(clippy::cast_precision_loss, reason = "a count of submissions")]
    let count = list.len() as f64;
    (list.len(), list.iter().sum::<f64>() / count, list[list.len() / 2])
}
