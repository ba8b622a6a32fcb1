//! What became of a job, in the few figures that are worth keeping when the job itself is forgotten.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::render::quote;
use crate::{EpochReport, Gpus, JobState, Outcome, Phase, SubmissionRecord};
use hsched_model::serde_defaults::is_zero;
use hsched_model::{Command, GoalMode, GpuType, JobName, Time};

/// The result of one job from its addition to its end, or so far.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunResult {
    pub name: JobName,
    /// The sweep that made it, by the name in the job file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sweep: Option<String>,
    /// The values of that sweep.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub parameters: Map<String, Value>,
    pub added: Time,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<Time>,
    /// Where it stands, in the word of `hsched status`.
    pub state: String,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    pub epochs_done: u64,
    pub epochs: u64,
    /// Seconds that it held GPUs, times their number, by type.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub gpu_s: BTreeMap<GpuType, f64>,
    /// The metric that its owner judges it by, and whether it should fall (`min`) or rise (`max`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<(String, String)>,
    /// What rank 0 has reported, by the metric's name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metrics: BTreeMap<String, MetricRange>,
    /// Shell line that trains it again, without hsched.
    pub command: String,
    /// What was submitted for it, in order; results that were kept by earlier versions have none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub submissions: Vec<RunSubmission>,
}

/// One submission of a job: where it ran, when, and what it got done.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunSubmission {
    /// Its number among the copies of the job; 0 where there is one.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub copy: u32,
    pub submitted: Time,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started: Option<Time>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<Time>,
    /// How it ended, in the words of `hsched status`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<String>,
    pub gpus: Gpus,
    /// Predicted length of an epoch in seconds.
    pub epoch_s: f64,
    pub epochs_before: u64,
    /// Epochs that it finished.
    pub epochs: u64,
    /// Seconds of those epochs, as rank 0 reported them; `None` where one of them has no length.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trained_s: Option<f64>,
}

/// The values that a metric had.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct MetricRange {
    pub least: f64,
    /// The first epoch that had it.
    pub least_epoch: u64,
    pub most: f64,
    /// The first epoch that had it.
    pub most_epoch: u64,
    pub last: f64,
    pub last_epoch: u64,
}

impl MetricRange {
    /// Returns the best value, and the epoch that had it.
    pub fn best(&self, mode: GoalMode) -> (f64, u64) {
        match mode {
            GoalMode::Min => (self.least, self.least_epoch),
            GoalMode::Max => (self.most, self.most_epoch),
        }
    }
}

impl RunSubmission {
    /// Returns a submission that has not ended, without the time of its epochs.
    fn new(attempt: &SubmissionRecord, epochs: u64) -> Self {
        Self {
            copy: attempt.copy,
            submitted: attempt.meant,
            started: attempt.started,
            ended: None,
            end: None,
            gpus: attempt.gpus.clone(),
            epoch_s: attempt.epoch.0,
            epochs_before: attempt.epochs_before,
            epochs,
            trained_s: None,
        }
    }

    /// Returns how long it has held its GPUs until `now` at the latest, in seconds; `None` where it has not started.
    pub fn held_s(&self, now: Time) -> Option<f64> {
        Some(self.ended.unwrap_or(now).since(self.started?).0.max(0.0))
    }
}

impl RunResult {
    /// Returns the result of a job at the time `now`; `reported` has the epochs that rank 0 has reported, by submission: those
    /// of the past ones, then those of the others.
    pub fn new(tracked: &JobState, reported: &[Vec<EpochReport>], now: Time) -> Self {
        let job = &tracked.job;
        let (ended, why) = match &tracked.phase {
            Phase::Ended { at, outcome: Outcome::Failed { reason } } => (Some(*at), Some(reason.clone())),
            Phase::Ended { at, .. } => (Some(*at), None),
            _ => (None, None),
        };
        let mode = |mode: GoalMode| {
            GoalMode::NAMES.iter().find(|(_, goal_mode)| *goal_mode == mode).map(|(name, _)| *name)
        };
        Self {
            name: job.name.clone(),
            sweep: job.variant.as_ref().map(|variant| variant.sweep.clone()),
            parameters: job.variant.as_ref().map(|variant| variant.parameters.clone()).unwrap_or_default(),
            added: tracked.added,
            ended,
            state: tracked.phase.word().to_owned(),
            why,
            epochs_done: tracked.epochs_done,
            epochs: job.epochs,
            gpu_s: gpu_seconds(tracked, now),
            target: job
                .target
                .as_ref()
                .and_then(|target| Some((target.metric.clone(), mode(target.mode)?.to_owned()))),
            metrics: ranges(&curve(reported)),
            command: command(tracked),
            submissions: submissions(tracked, reported),
        }
    }

    /// Returns what tells it from other results: of two of one key the later replaces the earlier.
    pub fn key(&self) -> (JobName, u64) {
        (self.name.clone(), self.added.0.to_bits())
    }

    /// Returns the GPU hours of all types.
    pub fn gpu_hours(&self) -> f64 {
        self.gpu_s.values().sum::<f64>() / 3600.0
    }
}

/// Returns how long the job held GPUs of each type, times their number.
fn gpu_seconds(tracked: &JobState, now: Time) -> BTreeMap<GpuType, f64> {
    let past = tracked.past.iter().map(|past| (&past.attempt, past.ended));
    let current = tracked.phase.submissions().iter().map(|submission| (&submission.attempt, now));
    let mut seconds = BTreeMap::new();
    let mut count = |(attempt, end): (&SubmissionRecord, Time)| {
        let Some(started) = attempt.started else { return };
        for (gpu_type, gpus) in attempt.gpus.by_type() {
            *seconds.entry(gpu_type).or_default() += f64::from(gpus) * end.since(started).0.max(0.0);
        }
    };
    past.chain(current).for_each(&mut count);
    seconds
}

/// Returns what was submitted for a job, with what each got done.
fn submissions(tracked: &JobState, reported: &[Vec<EpochReport>]) -> Vec<RunSubmission> {
    let past = tracked.past.iter().map(|past| RunSubmission {
        ended: Some(past.ended),
        end: Some(past.end.to_string()),
        ..RunSubmission::new(&past.attempt, past.epochs)
    });
    let current = tracked.phase.submissions().iter().map(|submission| {
        let has_run = submission.attempt.started.is_some();
        let epochs = tracked.epochs_done.saturating_sub(submission.attempt.epochs_before);
        RunSubmission::new(&submission.attempt, if has_run { epochs } else { 0 })
    });
    let mut all: Vec<RunSubmission> = past.chain(current).collect();
    for (submission, reported) in all.iter_mut().zip(reported) {
        submission.trained_s = trained(submission, reported);
    }
    all
}

/// Returns the seconds of the epochs that a submission has finished, where each of them has a length.
fn trained(submission: &RunSubmission, reported: &[EpochReport]) -> Option<f64> {
    let before = submission.epochs_before;
    let epochs = before.saturating_add(1)..=before.saturating_add(submission.epochs);
    let lengths: Option<Vec<f64>> = reported
        .iter()
        .filter(|report| epochs.contains(&report.epoch))
        .map(|report| Some(report.length?.0))
        .collect();
    lengths.filter(|lengths| lengths.len() as u64 == submission.epochs).map(|lengths| lengths.iter().sum())
}

/// Returns the metrics by epoch. An epoch that was trained again counts as it was then.
pub(super) fn curve(reported: &[Vec<EpochReport>]) -> BTreeMap<u64, Vec<(String, f64)>> {
    reported.iter().flatten().map(|report| (report.epoch, report.metrics.clone())).collect()
}

fn ranges(curve: &BTreeMap<u64, Vec<(String, f64)>>) -> BTreeMap<String, MetricRange> {
    let mut ranges: BTreeMap<String, MetricRange> = BTreeMap::new();
    let values = curve.iter().flat_map(|(epoch, metrics)| metrics.iter().map(|metric| (*epoch, metric)));
    for (epoch, (name, value)) in values.filter(|(_, (_, value))| value.is_finite()) {
        let (value, first) = (
            *value,
            MetricRange {
                least: *value,
                least_epoch: epoch,
                most: *value,
                most_epoch: epoch,
                last: *value,
                last_epoch: epoch,
            },
        );
        let range = ranges.entry(name.clone()).or_insert(first);
        if value < range.least {
            (range.least, range.least_epoch) = (value, epoch);
        }
        if value > range.most {
            (range.most, range.most_epoch) = (value, epoch);
        }
        (range.last, range.last_epoch) = (value, epoch);
    }
    ranges
}

/// Returns a shell line that runs the job's command with its environment in its directory.
fn command(tracked: &JobState) -> String {
    let launch = &tracked.job.launch;
    let quoted = quote::shell;
    let directory = launch.workdir.iter().map(|workdir| format!("cd {} && ", quoted(workdir)));
    let variables = launch.env.iter().map(|(name, value)| format!("{name}={} ", quoted(value)));
    let line: String = directory.chain(variables).collect();
    line + &match &launch.command {
        Command::Words(words) => words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" "),
        // The variables must also hold for what comes after the first word.
        Command::Shell(own) if launch.env.is_empty() => own.clone(),
        Command::Shell(own) => format!("sh -c {}", quoted(own)),
    }
}
