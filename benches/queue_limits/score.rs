//! Scores the start estimates of a recording.

use hsched_model::Seconds;
use hsched_queue::{Forecast, Start};

use crate::Submission;

/// Seconds by which a start may miss its interval and still count as within it, because the job is submitted
/// after the look and Slurm has delays of its own.
const TOLERANCE: f64 = 150.0;
/// A job counts as having waited if its wait is longer than this, in seconds.
const WAITED: f64 = 600.0;
const HOUR: f64 = 3600.0;
/// A job with at least this number of GPUs has few possible placements.
const MANY_GPUS: u32 = 4;

/// The estimates for the submissions of a recording, and their outcomes.
#[derive(Default)]
pub struct Score {
    told: Vec<ScoredStart>,
    /// Submissions that started but got no estimate.
    unanswered: usize,
    /// Submissions that started although the estimate was that they never would.
    refused: usize,
    never: Never,
}

/// Estimates for submissions that never started.
#[derive(Default)]
struct Never {
    named: usize,
    /// The interval ends after the end of the recording.
    later: usize,
    not_named: Vec<u64>,
}

/// An estimated start with its errors, in seconds; `waited` is the time from the look to the real start.
struct ScoredStart {
    gpus: u32,
    waited: f64,
    held: bool,
    error: f64,
    crps: f64,
    test_only: Option<f64>,
}

impl Score {
    /// Adds the estimate for a submission, if its outcome is known.
    pub fn add(&mut self, submission: &Submission, start: &Start) {
        match (submission.waited_s, start) {
            (Some(waited), Start::Estimated(forecast)) => {
                self.told.push(ScoredStart::of(submission, waited, forecast));
            }
            (Some(_), Start::Unknown(_)) => self.unanswered += 1,
            (Some(_), Start::Refused(_) | Start::Never) => self.refused += 1,
            (None, start) => self.never.add(submission, start),
        }
    }

    /// Prints the score to standard error, because the CSV is on standard output.
    pub fn print(&self) {
        let Self { told, unanswered, refused, never } = self;
        if told.is_empty() {
            return;
        }
        eprintln!(
            "{} starts were foretold; {unanswered} more got no number, {refused} more were called never",
            told.len()
        );
        line("all", told.iter());
        line("waited over 10 min", told.iter().filter(|start| start.waited > WAITED));
        line("4 GPUs and more", told.iter().filter(|start| start.gpus >= MANY_GPUS));
        let count = never.named + never.later + never.not_named.len();
        eprintln!(
            "{count} did not start: {} named, {} foretold beyond the recording, {} not named {:?}",
            never.named,
            never.later,
            never.not_named.len(),
            never.not_named
        );
    }
}

impl Never {
    fn add(&mut self, submission: &Submission, start: &Start) {
        // A recording without the outcome of a submission also has no observation time.
        let Some(open) = submission.open_s else { return };
        match start {
            Start::Refused(_) | Start::Never => self.named += 1,
            Start::Estimated(forecast) if forecast.start.high.0 > open => self.later += 1,
            Start::Estimated(_) | Start::Unknown(_) => self.not_named.push(submission.n),
        }
    }
}

impl ScoredStart {
    fn of(submission: &Submission, waited: f64, forecast: &Forecast) -> Self {
        let foretold = &forecast.start;
        let asks = &submission.request.asks;
        Self {
            gpus: asks.gpus.iter().map(|ask| ask.count).sum::<u32>() * asks.nodes,
            waited,
            held: waited >= foretold.low.0 - TOLERANCE && waited <= foretold.high.0 + TOLERANCE,
            error: (foretold.median.0 - waited).abs(),
            crps: crps(&forecast.starts, waited).unwrap_or((foretold.median.0 - waited).abs()),
            test_only: submission.test_only.map(|at| (at - submission.at - waited).abs()),
        }
    }
}

/// Returns the distance of the estimated starts from the true start (CRPS), in seconds; for a single
/// estimate, this is its error. `None` without estimates.
fn crps(starts: &[Seconds], waited: f64) -> Option<f64> {
    let mean = |all: Vec<f64>| (!all.is_empty()).then(|| all.iter().sum::<f64>() / all.len() as f64);
    let error = mean(starts.iter().map(|start| (start.0 - waited).abs()).collect())?;
    let pairs = starts.iter().flat_map(|one| starts.iter().map(|other| (one.0 - other.0).abs()));
    Some(error - mean(pairs.collect())? / 2.0)
}

fn line<'a>(name: &str, told: impl Iterator<Item = &'a ScoredStart>) {
    let told: Vec<&ScoredStart> = told.collect();
    let held = told.iter().filter(|start| start.held).count();
    let (median, mean) = errors(told.iter().map(|start| start.error).collect());
    let (_, crps) = errors(told.iter().map(|start| start.crps).collect());
    let (test_only, _) = errors(told.iter().filter_map(|start| start.test_only).collect());
    eprintln!(
        "  {name:<19} {:>4} starts: 80 % interval held {held} ({:.0} %); error {median:.2} h median, {mean:.2} h mean; CRPS {crps:.2} h; --test-only {test_only:.2} h median",
        told.len(),
        100.0 * held as f64 / told.len().max(1) as f64,
    );
}

/// Returns the median and the mean of errors in seconds, in hours.
fn errors(mut errors: Vec<f64>) -> (f64, f64) {
    errors.sort_by(f64::total_cmp);
    let mean = errors.iter().sum::<f64>() / errors.len().max(1) as f64;
    (errors.get(errors.len() / 2).copied().unwrap_or(0.0) / HOUR, mean / HOUR)
}
