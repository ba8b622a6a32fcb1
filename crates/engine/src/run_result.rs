//! The result of a job: the few figures that are kept after the job itself is forgotten.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::metric_range::ranges;
use crate::render::quote;
use crate::{EpochReport, Gpus, JobState, MetricRange, Outcome, Phase, SampledUse, SubmissionRecord};
use hsched_model::serde_defaults::is_zero;
use hsched_model::{Command, GoalMode, GpuType, Job, JobName, Time};

/// The result of one job from its addition to its end, or until now.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunResult {
    pub name: JobName,
    /// The sweep to which the job belongs, by the name in the job file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sweep: Option<String>,
    /// The job's values of the sweep's variables.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub parameters: Map<String, Value>,
    /// The job's tags.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    pub added: Time,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<Time>,
    /// The job's state, as `hsched status` prints it.
    pub state: String,
    /// Why the job failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    pub epochs_done: u64,
    pub epochs: u64,
    /// Whether the job is a command without epochs.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_command: bool,
    /// GPU-seconds held, by type: for a slot, its part of a GPU.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub gpu_s: BTreeMap<GpuType, f64>,
    /// The metric of the job's target, and whether lower (`min`) or higher (`max`) is better.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<(String, String)>,
    /// The metrics that rank 0 has reported, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metrics: BTreeMap<String, MetricRange>,
    /// Shell text that trains the job again, without hsched.
    pub command: String,
    /// The job's submissions, in order; empty in results of earlier versions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub submissions: Vec<RunSubmission>,
}

/// One submission of a job: where and when it ran, and its progress.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunSubmission {
    /// The copy's number among the copies of the job, from 0.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub copy: u32,
    pub submitted: Time,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started: Option<Time>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<Time>,
    /// How the submission ended, in the words of `hsched status`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<String>,
    pub gpus: Gpus,
    /// Predicted length of an epoch in seconds.
    pub epoch_s: f64,
    /// Whether the prediction was not based on a measurement.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unmeasured: bool,
    pub epochs_before: u64,
    /// Epochs that the submission finished.
    pub epochs: u64,
    /// Time of those epochs in seconds, as rank 0 reported it; `None` if one of them has no length.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trained_s: Option<f64>,
    /// Use of the submission's GPUs according to samples.
    #[serde(default, skip_serializing_if = "SampledUse::is_empty")]
    pub sampled: SampledUse,
    /// What the submission's partition bills per hour, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub billed_per_hour: Option<f64>,
}

/// Contents of the report files of one submission.
#[derive(Clone, Debug, Default)]
pub struct Reports {
    /// The epochs that rank 0 has reported.
    pub epochs: Vec<EpochReport>,
    pub sampled: SampledUse,
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
            unmeasured: attempt.unmeasured,
            epochs_before: attempt.epochs_before,
            epochs,
            trained_s: None,
            sampled: SampledUse::default(),
            billed_per_hour: attempt.queue_choice.as_ref().and_then(|choice| choice.billed_per_hour),
        }
    }

    /// Returns how many seconds the submission has held its GPUs, up to `now`; `None` if it has not started.
    pub(crate) fn held_s(&self, now: Time) -> Option<f64> {
        Some(self.ended.unwrap_or(now).since(self.started?).0.max(0.0))
    }

    /// Returns the number of the submission's GPUs of all types; a slot is a part of one.
    pub(super) fn gpu_count(&self) -> f64 {
        f64::from(self.gpus.total()) * self.sampled.part()
    }

    /// Returns the number of the submission's GPUs by type.
    pub(super) fn gpu_counts(&self) -> impl Iterator<Item = (GpuType, f64)> {
        let part = self.sampled.part();
        self.gpus.by_type().into_iter().map(move |(gpu_type, count)| (gpu_type, f64::from(count) * part))
    }
}

impl RunResult {
    /// Returns the result of a job at the time `now`; `reported` has the report files of each submission:
    /// past submissions first, then current ones.
    pub fn new(tracked: &JobState, reported: &[Reports], now: Time) -> Self {
        let job = &tracked.job;
        let (ended, why) = match &tracked.phase {
            Phase::Ended { at, outcome: Outcome::Failed { reason } } => (Some(*at), Some(reason.clone())),
            Phase::Ended { at, .. } => (Some(*at), None),
            _ => (None, None),
        };
        let mode = |mode: GoalMode| {
            GoalMode::NAMES.iter().find(|(_, goal_mode)| *goal_mode == mode).map(|(name, _)| *name)
        };
        let submissions = submissions(tracked, reported);
        Self {
            name: job.name.clone(),
            sweep: job.variant.as_ref().map(|variant| variant.sweep.clone()),
            parameters: job.variant.as_ref().map(|variant| variant.parameters.clone()).unwrap_or_default(),
            tags: job.tags.clone(),
            added: tracked.added,
            ended,
            state: tracked.phase.word().to_owned(),
            why,
            epochs_done: tracked.epochs_done,
            epochs: job.epochs,
            is_command: job.is_command(),
            gpu_s: gpu_seconds(&submissions, now),
            target: job
                .target
                .as_ref()
                .and_then(|target| Some((target.metric.clone(), mode(target.mode)?.to_owned()))),
            metrics: ranges(&curve(tracked, reported)),
            command: command(job),
            submissions,
        }
    }

    /// Drops submissions of an earlier job of the same name, which version 0.2.0 also kept in the later job.
    pub(super) fn without_earlier(mut self) -> Self {
        let count = self.submissions.len();
        self.submissions.retain(|submission| submission.submitted >= self.added);
        if self.submissions.len() < count {
            let ended = self.submissions.iter().filter(|submission| submission.ended.is_some());
            self.gpu_s = gpu_seconds(ended, self.added);
        }
        self
    }

    /// Ends the result of a job that a later job of the same name replaced before it ended.
    pub(super) fn replaced(self, at: Time) -> Self {
        if self.ended.is_some() {
            return self;
        }
        let why = Some("replaced by a later job of the same name".to_owned());
        Self { state: Outcome::Cancelled.word().to_owned(), ended: Some(at), why, ..self }
    }

    /// Returns the result's unique key; of two results with one key, the later replaces the earlier.
    pub fn key(&self) -> (JobName, u64) {
        (self.name.clone(), self.added.0.to_bits())
    }

    /// Returns the GPU hours of all types.
    pub fn gpu_hours(&self) -> f64 {
        // An empty sum of floats is -0.
        self.gpu_s.values().sum::<f64>() / 3600.0 + 0.0
    }
}

/// Returns the GPU-seconds that submissions held, by type; those that have not ended hold them until `now`.
fn gpu_seconds<'a>(
    submissions: impl IntoIterator<Item = &'a RunSubmission>,
    now: Time,
) -> BTreeMap<GpuType, f64> {
    let mut seconds = BTreeMap::new();
    for submission in submissions {
        let Some(held) = submission.held_s(now) else { continue };
        for (gpu_type, gpus) in submission.gpu_counts() {
            *seconds.entry(gpu_type).or_default() += gpus * held;
        }
    }
    seconds
}

/// Returns the submissions of a job since it was added, with the progress of each.
fn submissions(tracked: &JobState, reported: &[Reports]) -> Vec<RunSubmission> {
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
        submission.trained_s = trained(submission, &reported.epochs);
        submission.sampled = reported.sampled;
    }
    all.retain(|submission| submission.submitted >= tracked.added);
    all
}

/// Returns the total seconds of the epochs that a submission finished, if the length of each is known.
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

/// Returns the metrics by epoch. If an epoch was trained again, its newest values count. For a job that was
/// added again, epochs of the earlier job count up to the point from which it resumed.
pub(super) fn curve(tracked: &JobState, reported: &[Reports]) -> BTreeMap<u64, Vec<(String, f64)>> {
    let counts = |(attempt, reports): (&SubmissionRecord, &Reports)| {
        let last = counted_until(tracked, attempt);
        let reports = reports.epochs.iter().filter(move |report| report.epoch <= last);
        reports.map(|report| (report.epoch, report.metrics.clone())).collect::<Vec<_>>()
    };
    attempts(tracked).zip(reported).flat_map(counts).collect()
}

/// Returns the submissions of a job: past ones first, then current ones.
pub(super) fn attempts(tracked: &JobState) -> impl Iterator<Item = &SubmissionRecord> {
    let past = tracked.past.iter().map(|past| &past.attempt);
    past.chain(tracked.phase.submissions().iter().map(|submission| &submission.attempt))
}

/// Returns the epoch up to which a submission counts: for a submission of an earlier job of the same name,
/// the epoch after which the job resumed.
pub(super) fn counted_until(tracked: &JobState, attempt: &SubmissionRecord) -> u64 {
    let is_earlier = |attempt: &SubmissionRecord| attempt.meant < tracked.added;
    if !is_earlier(attempt) {
        return u64::MAX;
    }
    let first = attempts(tracked).find(|attempt| !is_earlier(attempt));
    first.map_or(tracked.epochs_done, |attempt| attempt.epochs_before)
}

/// Returns shell text that runs the job's command with its environment in its directory. If reports are
/// expected from it, it prints them, trains all epochs and saves to a new directory.
fn command(job: &Job) -> String {
    let launch = &job.launch;
    let quoted = quote::shell;
    let directory = launch.workdir.iter().map(|workdir| format!("cd {} && ", quoted(workdir)));
    let variables = launch.env.iter().map(|(name, value)| format!("{name}={} ", quoted(value)));
    let reporting = (!job.is_command()).then(|| {
        let epochs = job.epochs;
        format!(
            "HSCHED_REPORT=/dev/stdout HSCHED_CHECKPOINT_DIR=\"$(mktemp -d)\" HSCHED_EPOCHS={epochs} HSCHED_EPOCHS_DONE=0 "
        )
    });
    let before: String = directory.chain(reporting).chain(variables).collect();
    before.clone()
        + &match &launch.command {
            Command::Words(words) => words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" "),
            Command::Shell(line) if before.is_empty() => line.trim_end().to_owned(),
            // The variables must also apply to commands after the first word.
            Command::Shell(line) => format!("bash -c {}", quote::lines(line.trim_end())),
        }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{End, PastAttempt};
    use hsched_model::Seconds;
    use hsched_model::formats::jobs;
    use hsched_model::number::to_f64;

    /// Returns the result of a job added again at 100: its first submission trained four epochs, and the
    /// second one resumes after `resumed`.
    fn result(resumed: u64) -> RunResult {
        let text = "jobs: [{name: a, samples_per_epoch: 1, epochs: 9, global_batch: 1, model_size: 0, \
                    throughput: {t4: 1}, command: x}]";
        let mut tracked = JobState::new(jobs::parse(text).expect("a job").remove(0), Time(100.0));
        let past = |run: &str, epochs_before: u64, meant: f64| PastAttempt {
            attempt: SubmissionRecord {
                started: Some(Time(meant + 1.0)),
                ..SubmissionRecord::new(run, Vec::new(), Seconds(1.0), epochs_before, Time(meant))
            },
            ended: Time(meant + 9.0),
            end: End::Completed,
            epochs: 4,
        };
        tracked.past = vec![past("r1", 0, 50.0), past("r2", resumed, 100.0)];
        let epoch = |epoch: u64, loss: f64| EpochReport {
            epoch,
            at: Time(0.0),
            length: Some(Seconds(1.0)),
            metrics: vec![("loss".to_owned(), loss)],
            ranks: Vec::new(),
        };
        let first = (1..=4).map(|number| epoch(number, 0.1 * to_f64(number))).collect();
        let second = (resumed + 1..=resumed + 4).map(|number| epoch(number, to_f64(number))).collect();
        let reported = [first, second].map(|epochs| Reports { epochs, ..Reports::default() });
        RunResult::new(&tracked, &reported, Time(500.0))
    }

    #[test]
    fn results_of_version_0_2_0_lose_what_was_submitted_before_their_job_was_added() {
        let text = r#"{"name": "a", "added": 100, "state": "completed", "epochs_done": 5, "epochs": 5, "command": "x",
            "gpu_s": {"t4": 30}, "submissions": [
            {"submitted": 1, "started": 2, "ended": 12, "gpus": {"n": {"t4": 1}}, "epoch_s": 1, "epochs_before": 0, "epochs": 2},
            {"submitted": 100, "started": 110, "ended": 120, "gpus": {"n": {"t4": 2}}, "epoch_s": 1, "epochs_before": 0,
             "epochs": 5}]}"#;
        let run = serde_json::from_str::<RunResult>(text).expect("a result").without_earlier();
        assert_eq!((run.submissions.len(), run.gpu_s.into_values().collect::<Vec<f64>>()), (1, vec![20.0]));
    }

    #[test]
    fn a_job_that_was_added_again_has_its_own_submissions_and_the_epochs_that_it_resumed_from() {
        for (resumed, least) in [(0, (1.0, 1)), (2, (0.1, 1))] {
            let run = result(resumed);
            let submissions: Vec<(f64, Option<f64>)> = run
                .submissions
                .iter()
                .map(|submission| (submission.submitted.0, submission.trained_s))
                .collect();
            assert_eq!(submissions, [(100.0, Some(4.0))]);
            let loss = run.metrics["loss"];
            assert_eq!((loss.least, loss.least_epoch), least, "resumed after {resumed}");
            assert_eq!((loss.last_epoch, loss.last), (resumed + 4, to_f64(resumed + 4)));
        }
    }
}
