//! Estimates recorded starts from the queue before each, and scores the estimates.

use std::fs;

use hsched_model::Seconds;
use hsched_queue::{
    Calibration, Estimate, FurtherOptions, Question, Request, RequestId, Start, forecast, point_of,
};

use crate::Submission;
use crate::picture::{Point, svg};

/// Seconds by which a start may miss its interval and still count as within it, because the job is submitted
/// after the look and Slurm has delays of its own.
const TOLERANCE: f64 = 150.0;
/// A job counts as having waited if its wait is longer than this, in seconds.
const WAITED: f64 = 600.0;
const SAMPLES: usize = 60;

/// An estimated start, in seconds after the look.
struct ScoredStart {
    gpus: u32,
    waited: f64,
    estimate: Estimate,
    /// Error of the median, and of `--test-only`.
    error: f64,
    test_only: Option<f64>,
    /// The quantile of the samples at which the job started.
    point: f64,
    starts: Vec<f64>,
    /// Time of the estimate, in Unix seconds.
    at: f64,
}

/// Prints coverage and errors of the recordings, each alone and together.
///
/// With `each`, it also prints a line for each start, in hours.
pub fn score(files: &[&str], each: bool) {
    let mut all = Vec::new();
    for file in files {
        let text = fs::read_to_string(file).expect("a recording");
        let submissions: Vec<Submission> =
            text.lines().map(|line| serde_json::from_str(line).expect("a submission")).collect();
        let started = submissions.iter().filter(|submission| submission.start.is_some()).count();
        let mut scores = Vec::new();
        for submission in &submissions {
            let Some(score) = told(submission) else { continue };
            if each {
                one(submission, &score);
            }
            scores.push(score);
        }
        println!("{file}: {} submissions, {started} started, {} foretold", submissions.len(), scores.len());
        report(&scores);
        recalibrated(&scores);
        all.extend(scores);
    }
    if files.len() > 1 {
        println!("together: {} starts", all.len());
        report(&all);
    }
}

/// Prints estimated against true waits as SVG.
pub fn picture(files: &[&str]) {
    let mut points = Vec::new();
    for file in files {
        let text = fs::read_to_string(file).expect("a recording");
        let submissions = text.lines().map(|line| serde_json::from_str(line).expect("a submission"));
        points.extend(submissions.filter_map(|submission: Submission| told(&submission)).map(|start| {
            Point {
                gpus: start.gpus,
                low: start.estimate.low.0,
                median: start.estimate.median.0,
                high: start.estimate.high.0,
                waited: start.waited,
            }
        }));
    }
    print!("{}", svg(&points));
}

/// Prints the estimate of a start and the actual start.
fn one(submission: &Submission, told: &ScoredStart) {
    let [low, median, high] =
        [told.estimate.low, told.estimate.median, told.estimate.high].map(|wait| wait.0 / 3600.0);
    let waiting = submission.snapshot.jobs.iter().filter(|job| job.running.is_none()).count();
    let gpu_type = submission.asks.gpus.first().and_then(|ask| ask.gpu_type.as_ref());
    println!(
        "    {} {} {} for {:.0} h in {}, {}: told {median:.1} ({low:.1}-{high:.1}), waited {:.1}, point {:.2}; {waiting} waited",
        submission.job,
        told.gpus,
        gpu_type.map_or("gpu", |name| name.as_str()),
        submission.limit_s / 3600.0,
        submission.partition,
        submission.account.as_deref().unwrap_or("-"),
        told.waited / 3600.0,
        told.point,
    );
}

fn told(submission: &Submission) -> Option<ScoredStart> {
    let waited = submission.start? - submission.snapshot.taken_at.0;
    let request = Request {
        id: RequestId::default(),
        asks: submission.asks.clone(),
        partition: Some(submission.partition.clone()),
        account: submission.account.clone(),
        limit: Seconds(submission.limit_s),
        run: Seconds(submission.run_s),
        further: FurtherOptions::default(),
    };
    let question = Question {
        snapshot: &submission.snapshot,
        requests: &[request],
        seed: submission.job,
        samples: SAMPLES,
        calibration: None,
    };
    let Start::Estimated(foretold) = forecast(&question, &|| false).remove(0).start else { return None };
    let starts: Vec<f64> = foretold.starts.iter().map(|start| start.0).collect();
    let test_only = submission.test_only.map(|at| (at - submission.snapshot.taken_at.0 - waited).abs());
    let error = (foretold.start.median.0 - waited).abs();
    let gpus = submission.asks.gpus.iter().map(|ask| ask.count).sum::<u32>() * submission.asks.nodes;
    let (point, at) = (point_of(&starts, waited), submission.snapshot.taken_at.0);
    Some(ScoredStart { gpus, waited, error, test_only, point, estimate: foretold.start, starts, at })
}

fn report(told: &[ScoredStart]) {
    line("all", told.iter());
    line("waited over 10 min", told.iter().filter(|start| start.waited > WAITED));
    for gpus in [1, 2, 4, 8] {
        line(&format!("{gpus} GPUs"), told.iter().filter(|start| start.gpus == gpus));
    }
    let points: Vec<f64> =
        told.iter().filter(|start| start.waited > WAITED).map(|start| start.point).collect();
    if let Some(Calibration { low, high }) = Calibration::of(&points) {
        println!(
            "  of those that waited, the 10 and 90 % points lie at {low:.2} and {high:.2} of the samples"
        );
    }
}

/// Reports the intervals with the calibration that `when` would have used, from the starts known at the time
/// if there were at least 30.
fn recalibrated(told: &[ScoredStart]) {
    // For immediate starts, every quantile is equally right.
    let waits = |start: &&ScoredStart| start.waited > WAITED || start.estimate.median.0 > WAITED;
    let corrected: Vec<ScoredStart> = told
        .iter()
        .filter(waits)
        .filter_map(|start| {
            let before = told.iter().filter(waits).filter(|other| other.at + other.waited < start.at);
            let points: Vec<f64> = before.map(|other| other.point).collect();
            let estimate = Estimate::of(&start.starts, Some(Calibration::of(&points)?));
            Some(ScoredStart { estimate, starts: Vec::new(), ..*start })
        })
        .collect();
    line("corrected", corrected.iter());
}

fn line<'a>(name: &str, told: impl Iterator<Item = &'a ScoredStart>) {
    let told: Vec<&ScoredStart> = told.collect();
    let holds = |start: &&&ScoredStart| {
        start.waited >= start.estimate.low.0 - TOLERANCE && start.waited <= start.estimate.high.0 + TOLERANCE
    };
    let held = told.iter().filter(holds).count();
    let late = told.iter().filter(|start| start.waited > start.estimate.high.0 + TOLERANCE).count();
    let errors = |list: Vec<f64>| {
        let mut list = list;
        list.sort_by(f64::total_cmp);
        let mean = list.iter().sum::<f64>() / list.len().max(1) as f64 / 3600.0;
        (list.get(list.len() / 2).copied().unwrap_or(0.0) / 3600.0, mean)
    };
    let (median, mean) = errors(told.iter().map(|start| start.error).collect());
    let (other_median, other_mean) = errors(told.iter().filter_map(|start| start.test_only).collect());
    let (_, waited) = errors(told.iter().map(|start| start.waited).collect());
    println!(
        "  {name:<19} {:>4} starts, mean wait {waited:>5.1} h: 80 % interval held {:>3.0} % ({late} later); error {median:.2} h median, {mean:.2} h mean; --test-only {other_median:.2} h, {other_mean:.2} h",
        told.len(),
        100.0 * held as f64 / told.len().max(1) as f64,
    );
}
