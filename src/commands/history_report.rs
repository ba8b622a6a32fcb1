//! The report of a state directory: the GPUs of each job, the predictions, and the learnt speeds.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use serde_json::json;

use crate::commands::results;
use hsched_engine::store::{MetricCurves, SubmissionPrediction};
use hsched_engine::{RunResult, RunSubmission, SlowNode};
use hsched_model::number::to_f64;
use hsched_model::{GoalMode, JobName, Speed, Time};
use hsched_plan::throughput::{Cache, MeasuredSpeed, SpeedKey};
use hsched_ui::report::{
    Counter, GpuHolding, PolicyRow, Report, ReportEpochs, ReportJob, ReportKind, ReportRun, ReportSpeed,
    ReportSweep, ReportWait, SweepCurve, TimeOrigin, Timeline,
};
use hsched_ui::{HistoryRow, history_json, slow_lines};

/// Maximum delay, in seconds, with which the end of a submission is observed: two observations.
const LATE: f64 = 120.0;

/// Data besides the jobs.
pub(super) struct ReportContext<'a> {
    pub speeds: &'a Cache,
    pub curves: BTreeMap<JobName, MetricCurves>,
    pub predicted: Vec<SubmissionPrediction>,
    pub slow: &'a [SlowNode],
    pub root: PathBuf,
    pub now: Time,
}

/// Returns the report of these jobs.
pub(super) fn history_report(rows: &[HistoryRow], seen: &ReportContext<'_>) -> Report {
    let mut report = Report::new(ReportKind::History, TimeOrigin::Unix);
    let parameters =
        json!({ "state_dir": seen.root.display().to_string(), "at": seen.now.0, "jobs": rows.len() });
    report.parameters = parameters.as_object().cloned().unwrap_or_default();
    let job = |row: &HistoryRow| ReportJob {
        name: row.run.name.to_string(),
        arrival_s: row.run.added.0,
        deadline_s: None,
    };
    report.jobs = rows.iter().map(job).collect();
    report.usage = history_json(rows, &[], seen.now)["total"].take();
    report.notes = slow_lines(seen.slow, seen.now);
    report.epochs = rows.iter().flat_map(|row| epochs(&row.run)).collect();
    let names: BTreeSet<&JobName> = rows.iter().map(|row| &row.run.name).collect();
    let is_shown = |predicted: &&SubmissionPrediction| names.contains(&predicted.of.job);
    report.waits = seen.predicted.iter().filter(is_shown).map(wait).collect();
    report.speeds = speeds(seen.speeds);
    report.sweeps = sweeps(rows, &seen.curves);
    let mut timeline = Timeline::of_seen(LATE);
    report.runs.push(run(rows, seen.now, &mut timeline));
    report.gpus = timeline.gpus().to_vec();
    report
}

/// Returns the jobs in the form of a run.
fn run(rows: &[HistoryRow], now: Time, timeline: &mut Timeline) -> ReportRun {
    let (mut held, mut queue, mut in_use) = (Vec::new(), Counter::default(), Counter::default());
    for (job, row) in rows.iter().enumerate() {
        queue.change(row.run.added.0, 1.0);
        let end = row.run.ended.unwrap_or(now).0;
        let mut waits = true;
        let mut started: Vec<&RunSubmission> =
            row.run.submissions.iter().filter(|submission| submission.started.is_some()).collect();
        started.sort_by(|a, b| a.started.map_or(0.0, |at| at.0).total_cmp(&b.started.map_or(0.0, |at| at.0)));
        for submission in started {
            let Some(start) = submission.started else { continue };
            let until = submission.ended.unwrap_or(now).0.max(start.0);
            let gpus: Vec<(String, String, u32)> = submission
                .gpus
                .iter()
                .map(|(node, gpu_type, count)| (node.to_string(), gpu_type.to_string(), count))
                .collect();
            let count = f64::from(submission.gpus.total());
            in_use.change(start.0, count);
            // The last segment of a running job has no end yet.
            if submission.ended.is_some() {
                in_use.change(until, -count);
            }
            if std::mem::take(&mut waits) {
                queue.change(start.0, -1.0);
            }
            // A job that resumes later waits in between.
            if submission.ended.is_some() && until < end - 1.0 {
                queue.change(until, 1.0);
                waits = true;
            }
            held.push(GpuHolding { job, start: start.0, work: start.0, end: until, gpus });
        }
        if waits && row.run.ended.is_some() {
            queue.change(end, -1.0);
        }
    }
    ReportRun {
        name: "jobs".to_owned(),
        row: figures(rows),
        started_s: rows.iter().map(|row| row.started().map(|at| at.0)).collect(),
        ended_s: rows.iter().map(|row| row.run.ended.map(|at| at.0)).collect(),
        spans: timeline.spans(held),
        queue: queue.steps(),
        in_use: in_use.steps(),
    }
}

/// Returns the mean and percentiles of the completion times of completed jobs, the mean wait of started jobs,
/// and the mean number of restarts of all jobs.
fn figures(rows: &[HistoryRow]) -> PolicyRow {
    let ended = |row: &HistoryRow| {
        let is_done = row.run.state == "completed";
        row.run.ended.filter(|_| is_done).map(|ended| ended.since(row.run.added).0)
    };
    let mean =
        |values: Vec<f64>| (!values.is_empty()).then(|| values.iter().sum::<f64>() / to_f64(values.len()));
    let mut times: Vec<f64> = rows.iter().filter_map(ended).collect();
    times.sort_by(f64::total_cmp);
    let percentile = |percent: usize| times.get((times.len() * percent).div_ceil(100).max(1) - 1).copied();
    let (p50_jct_s, p99_jct_s) = (percentile(50), percentile(99));
    let restarts = |row: &HistoryRow| {
        let starts = row.run.submissions.iter().filter(|submission| submission.started.is_some()).count();
        to_f64(starts.saturating_sub(1))
    };
    PolicyRow {
        p50_jct_s,
        p99_jct_s,
        mean_jct_s: mean(times),
        mean_wait_s: mean(rows.iter().filter_map(|row| Some(row.wait()?.0)).collect()),
        moves_per_job: mean(rows.iter().map(restarts).collect()),
        ..PolicyRow::default()
    }
}

/// Returns the predicted and observed epochs of each submission that reported their lengths. A prediction
/// without a measurement is left out.
fn epochs(run: &RunResult) -> Vec<ReportEpochs> {
    let report_epochs = |submission: &RunSubmission| {
        let epochs = to_f64(usize::try_from(submission.epochs).ok().filter(|epochs| *epochs > 0)?);
        let observed_s = submission.trained_s? / epochs;
        let is_predicted = submission.epoch_s > 0.0 && !submission.unmeasured;
        (is_predicted && observed_s > 0.0).then(|| ReportEpochs {
            job: run.name.to_string(),
            gpus: submission.gpus.to_string(),
            epochs: submission.epochs,
            predicted_s: submission.epoch_s,
            observed_s,
        })
    };
    run.submissions.iter().filter_map(report_epochs).collect()
}

fn wait(predicted: &SubmissionPrediction) -> ReportWait {
    let prediction = &predicted.prediction;
    ReportWait {
        job: predicted.of.job.to_string(),
        gpus: predicted.gpus.clone(),
        at_s: prediction.at.0,
        q10_s: prediction.start.low.0,
        q50_s: prediction.start.median.0,
        q90_s: prediction.start.high.0,
        waited_s: prediction.waited(),
    }
}

fn speeds(cache: &Cache) -> Vec<ReportSpeed> {
    let speed = |(key, measured): (SpeedKey, MeasuredSpeed)| ReportSpeed {
        gpu_type: key.place(),
        model: key.model,
        speed: measured.speed.to_string(),
        samples_per_s: match measured.speed {
            Speed::Rate { samples_per_second } => Some(samples_per_second),
            Speed::Affine { .. } => None,
        },
        error: measured.error,
        count: measured.count,
        source: measured.source.name().to_owned(),
    };
    cache.estimates().map(speed).collect()
}

/// Returns the sweeps with at least two runs that have reported a metric.
fn sweeps(rows: &[HistoryRow], curves: &BTreeMap<JobName, MetricCurves>) -> Vec<ReportSweep> {
    let runs: Vec<RunResult> = rows.iter().map(|row| row.run.clone()).collect();
    let mut sweeps: BTreeMap<(String, String), ReportSweep> = BTreeMap::new();
    for (name, run) in runs.iter().filter_map(|run| Some((run.sweep.clone()?, run))) {
        let Some(metric) = results::row(run, None, &runs).metric else { continue };
        let mode =
            GoalMode::NAMES.iter().find(|(_, mode)| *mode == metric.mode).map_or("min", |(name, _)| name);
        // A curve belongs to the job with this name that is still in the state.
        let curve = curves.get(&run.name).into_iter().flatten();
        let curve = curve.filter_map(|(epoch, values)| {
            let (_, value) = values.iter().find(|(name, _)| *name == metric.name)?;
            Some((*epoch, *value))
        });
        let sweep = sweeps.entry((name.clone(), metric.name.clone())).or_insert_with(|| ReportSweep {
            name,
            metric: metric.name.clone(),
            mode: mode.to_owned(),
            runs: Vec::new(),
        });
        sweep.runs.push(SweepCurve {
            name: run.name.to_string(),
            parameters: run.parameters.clone(),
            best: metric.best,
            best_epoch: metric.best_epoch,
            curve: curve.collect(),
        });
    }
    sweeps.into_values().filter(|sweep| sweep.runs.len() > 1).collect()
}
