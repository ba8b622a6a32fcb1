//! The data of a report for other programs (schema `hsched.report/1`). Times are in seconds; unknown values
//! are null.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Map, Value};

/// Name and version of the format.
const SCHEMA: &str = "hsched.report/1";

/// The content of a page.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    schema: &'static str,
    pub kind: ReportKind,
    pub title: String,
    pub clock: TimeOrigin,
    /// Parameters of the command: files, flags, seed.
    pub parameters: Map<String, Value>,
    /// Answers to common questions, each with its question.
    pub facts: Vec<(String, String)>,
    /// The GPUs, one row of the chart each.
    pub gpus: Vec<ReportGpu>,
    pub jobs: Vec<ReportJob>,
    /// One run per policy, or a single one for real jobs.
    pub runs: Vec<ReportRun>,
    pub epochs: Vec<ReportEpochs>,
    pub waits: Vec<ReportWait>,
    pub speeds: Vec<ReportSpeed>,
    pub options: Vec<ReportOption>,
    pub sweeps: Vec<ReportSweep>,
    /// Metrics for the points of `simulate --sweep`.
    pub points: Vec<SweepPoint>,
    /// GPU hours, energy and cost of all jobs, as in `hsched.history/1`.
    pub usage: Value,
    pub notes: Vec<String>,
}

/// The command that created a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ReportKind {
    Simulation,
    Plan,
    When,
    History,
}

/// The zero of the report's times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum TimeOrigin {
    /// The start of the trace or, for plans and requests, the time at which they are made; in an anonymous
    /// report, its earliest time.
    Elapsed,
    /// Unix seconds.
    Unix,
}

/// A GPU.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ReportGpu {
    pub node: String,
    #[serde(rename = "type")]
    pub gpu_type: String,
    /// Index among the GPUs of its type on its node.
    pub index: u32,
}

/// A job.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ReportJob {
    pub name: String,
    pub arrival_s: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline_s: Option<f64>,
}

/// The results of a policy, or the real ones. Lists of jobs are in the order of [`Report::jobs`].
#[derive(Clone, Debug, Serialize)]
pub struct ReportRun {
    pub name: String,
    pub row: PolicyRow,
    pub started_s: Vec<Option<f64>>,
    pub ended_s: Vec<Option<f64>>,
    pub spans: Vec<Span>,
    /// The number of jobs that wait for GPUs, from each time on.
    pub queue: Vec<(f64, f64)>,
    /// The number of GPUs in use, from each time on.
    pub in_use: Vec<(f64, f64)>,
}

/// A row of the table of policies.
#[derive(Clone, Debug, Default, Serialize)]
pub struct PolicyRow {
    pub mean_jct_s: Option<f64>,
    pub lower_bound_s: Option<f64>,
    /// Mean divided by bound.
    pub ratio: Option<f64>,
    pub p50_jct_s: Option<f64>,
    pub p99_jct_s: Option<f64>,
    pub makespan_s: Option<f64>,
    pub mean_wait_s: Option<f64>,
    pub utilisation: Option<f64>,
    pub goodput: Option<f64>,
    pub moves_per_job: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadlines_met: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// A period in which a job holds the same GPUs: `[job, start, work, end, gpu, …]`. `work` is the start of
/// training after a restart, and each `gpu` an index into [`Report::gpus`].
#[derive(Clone, Debug, PartialEq)]
pub struct Span {
    pub job: usize,
    pub start: f64,
    pub work: f64,
    pub end: f64,
    pub gpus: Vec<usize>,
}

impl Serialize for Span {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeSeq;
        let mut list = serializer.serialize_seq(Some(4 + self.gpus.len()))?;
        list.serialize_element(&self.job)?;
        for time in [self.start, self.work, self.end] {
            list.serialize_element(&thousandths(time))?;
        }
        self.gpus.iter().try_for_each(|gpu| list.serialize_element(gpu))?;
        list.end()
    }
}

/// Returns a time rounded to milliseconds, which is finer than any picture shows.
pub(super) fn thousandths(time: f64) -> f64 {
    (time * 1000.0).round() / 1000.0
}

/// Predicted and observed epochs of one submission.
#[derive(Clone, Debug, Serialize)]
pub struct ReportEpochs {
    pub job: String,
    pub gpus: String,
    pub epochs: u64,
    pub predicted_s: f64,
    pub observed_s: f64,
}

/// An estimated start and the real one.
#[derive(Clone, Debug, Serialize)]
pub struct ReportWait {
    pub job: String,
    pub gpus: String,
    pub at_s: f64,
    pub q10_s: f64,
    pub q50_s: f64,
    pub q90_s: f64,
    /// How long the job waited until it started; null if it has not started.
    pub waited_s: Option<f64>,
}

/// A learnt speed.
#[derive(Clone, Debug, Serialize)]
pub struct ReportSpeed {
    pub model: String,
    #[serde(rename = "type")]
    pub gpu_type: String,
    pub speed: String,
    /// Samples per second; null if the speed depends on the batch.
    pub samples_per_s: Option<f64>,
    /// Relative error.
    pub error: f64,
    pub count: u64,
    pub source: String,
}

/// A possible request of a job.
#[derive(Clone, Debug, Serialize)]
pub struct ReportOption {
    pub job: String,
    pub cluster: String,
    pub partition: Option<String>,
    pub account: Option<String>,
    #[serde(rename = "type")]
    pub gpu_type: String,
    pub gpus: u32,
    pub nodes: u32,
    pub chosen: bool,
    /// Start and finish in seconds from the queue snapshot: 10 %, 50 % and 90 % quantiles.
    pub start_s: Option<[f64; 3]>,
    pub finish_s: Option<[f64; 3]>,
    /// The quantity by which requests are chosen.
    pub mean_finish_s: Option<f64>,
    pub cost: Option<f64>,
    pub cost_unit: Option<String>,
}

/// The runs of a sweep, with the metric for their comparison.
#[derive(Clone, Debug, Serialize)]
pub struct ReportSweep {
    pub name: String,
    pub metric: String,
    /// Whether the metric should fall (`min`) or rise (`max`).
    pub mode: String,
    pub runs: Vec<SweepCurve>,
}

/// A run of a sweep; its curve is empty if its reports were deleted.
#[derive(Clone, Debug, Serialize)]
pub struct SweepCurve {
    pub name: String,
    pub parameters: Map<String, Value>,
    pub best: f64,
    pub best_epoch: u64,
    pub curve: Vec<(u64, f64)>,
}

/// A point of `simulate --sweep`.
#[derive(Clone, Debug, Serialize)]
pub struct SweepPoint {
    pub policy: String,
    /// The varied parameters with their values.
    pub values: BTreeMap<String, f64>,
    pub mean_jct_s: Option<f64>,
    /// Half the width of the 95 % interval over seeds.
    pub mean_jct_s_ci95: Option<f64>,
    pub ratio: Option<f64>,
}

impl ReportKind {
    /// Returns the title of a report of this kind.
    pub fn title(self) -> &'static str {
        match self {
            Self::Simulation => "Simulation",
            Self::Plan => "Plan",
            Self::When => "When jobs would start",
            Self::History => "History of jobs",
        }
    }
}

impl Report {
    /// Returns an empty report.
    pub fn new(kind: ReportKind, clock: TimeOrigin) -> Self {
        Self {
            schema: SCHEMA,
            kind,
            title: kind.title().to_owned(),
            clock,
            parameters: Map::new(),
            facts: Vec::new(),
            gpus: Vec::new(),
            jobs: Vec::new(),
            runs: Vec::new(),
            epochs: Vec::new(),
            waits: Vec::new(),
            speeds: Vec::new(),
            options: Vec::new(),
            sweeps: Vec::new(),
            points: Vec::new(),
            usage: Value::Null,
            notes: Vec::new(),
        }
    }

    /// Returns the start and the end of the displayed period; `None` if it is empty.
    pub fn times(&self) -> Option<(f64, f64)> {
        let starts = self.jobs.iter().map(|job| job.arrival_s);
        let spans = || self.runs.iter().flat_map(|run| &run.spans);
        let begin = starts.chain(spans().map(|span| span.start)).min_by(f64::total_cmp)?;
        let end = spans().map(|span| span.end).chain([begin]).max_by(f64::total_cmp)?;
        (end > begin).then_some((begin, end))
    }
}

impl ReportRun {
    /// Returns the times from arrival to completion of all ended jobs, in ascending order.
    pub(crate) fn completion_times(&self, jobs: &[ReportJob]) -> Vec<f64> {
        let times = self.ended_s.iter().zip(jobs).filter_map(|(ended, job)| Some((*ended)? - job.arrival_s));
        let mut times: Vec<f64> = times.collect();
        times.sort_by(f64::total_cmp);
        times
    }
}
