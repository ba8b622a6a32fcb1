//! The state of the jobs as JSON (schema `hsched.status/1`). Times are Unix seconds; unknown values are null.

use serde_json::{Map, Value, json};

use crate::metric::Metrics;
use crate::slow_nodes::slow_json;
use crate::status::{JobSummary, JobTimes, SubmissionFiles, bests};
use hsched_engine::{Gpus, JobState, Outcome, Phase, Stall, State, Submission, SubmissionRecord};
use hsched_model::{JobId, Seconds, Time};

/// Returns the `chosen` jobs of a state, each with a metric that it has reported, and a summary of all jobs;
/// `files` returns the files of a submission, each with a label.
pub fn status_json(
    state: &State,
    chosen: &[&JobState],
    metrics: &Metrics,
    now: Time,
    files: &dyn Fn(&JobState, &SubmissionRecord) -> SubmissionFiles,
) -> Value {
    let mut counts: Map<String, Value> = Map::new();
    for tracked in &state.jobs {
        let word = tracked.phase.word();
        let count = counts.get(word).and_then(Value::as_u64).unwrap_or(0);
        counts.insert(word.to_owned(), json!(count + 1));
    }
    let times = JobTimes::of(state);
    let metric = |tracked: &JobState| {
        metrics.get(&tracked.job.name).map(|metric| json!({ "name": metric.name, "value": metric.last() }))
    };
    let job = |tracked: &&JobState| {
        let mut value = job(tracked, now, files);
        value["metric"] = json!(metric(tracked));
        value
    };
    let bests = bests(state, metrics);
    let best = bests.iter().map(|best| json!({ "model": best.model, "metric": best.metric, "job": best.job.as_str(), "value": best.value }));
    json!({
        "schema": "hsched.status/1",
        "at": now.0,
        "counts": counts,
        "total_s": times.map(|times| times.total.0),
        "mean_completion_s": times.and_then(|times| times.mean).map(|mean| mean.0),
        "nodes_down": state.nodes_down.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "slow_nodes": slow_json(&state.node_times.slow(now)),
        "best": best.collect::<Vec<_>>(),
        "jobs": chosen.iter().map(job).collect::<Vec<_>>(),
    })
}

fn job(
    tracked: &JobState,
    now: Time,
    files: &dyn Fn(&JobState, &SubmissionRecord) -> SubmissionFiles,
) -> Value {
    let summary = JobSummary::new(tracked);
    let (mut reason, mut not_before, mut ended) = (None, None, None);
    match &tracked.phase {
        Phase::Waiting { not_before: moment, reason: why } => {
            (reason, not_before) = (Some(why), seconds(*moment));
        }
        phase @ Phase::Submitted(_) => reason = phase.queue_reason(),
        Phase::Ended { at, outcome } => {
            ended = Some(at.0);
            if let Outcome::Failed { reason: why } = outcome {
                reason = Some(why);
            }
        }
    }
    let mut runs: Vec<Value> = tracked
        .past
        .iter()
        .map(|past| {
            let end = (past.end.to_string(), past.ended);
            run(&past.attempt, past.epochs, Some(end), files(tracked, &past.attempt))
        })
        .collect();
    for Submission { attempt, .. } in tracked.phase.submissions() {
        let epochs = tracked.epochs_done.saturating_sub(attempt.epochs_before);
        runs.push(run(attempt, epochs, None, files(tracked, attempt)));
    }
    let attempt = summary.attempt;
    json!({
        "name": tracked.job.name.as_str(),
        "tags": tracked.job.tags,
        "state": tracked.phase.word(),
        "reason": reason,
        "job_id": tracked.phase.attempt().and_then(|record| record.job_id).map(number),
        "run": tracked.phase.attempt().map(|record| record.run.as_str()),
        "gpus": attempt.map_or_else(|| json!([]), |record| gpus(&record.gpus)),
        "epochs": tracked.job.epochs,
        "epochs_done": tracked.epochs_done,
        "predicted_epoch_s": attempt.map(|record| record.epoch.0),
        "observed_epoch_s": summary.observed().map(|Seconds(length)| length),
        "added": tracked.added.0,
        "started": seconds(attempt.and_then(|record| record.started)),
        "expected_end": seconds(tracked.expected_end(now)),
        "overdue_s": tracked.overdue(now).map(|Seconds(silence)| silence),
        "ended": ended,
        "not_before": not_before,
        "last_event": { "at": tracked.last.0.0, "text": tracked.last.1 },
        "failures": tracked.failures,
        "retries": tracked.job.retries,
        "stall": attempt.and_then(|record| record.stall.as_ref()).map(|stall| stall_json(stall, attempt)),
        "odd_reports": attempt.and_then(|record| record.odd.as_ref()),
        "deadline": seconds(tracked.deadline()),
        "late_s": tracked.lateness(now).map(|Seconds(late)| late),
        "curve": curve(tracked),
        "stopped_early": tracked.early.as_ref().filter(|early| early.allowed && tracked.epochs_left() > 0).map(|early| &early.why),
        "runs": runs,
    })
}

/// Returns how a submission is stuck.
fn stall_json(stall: &Stall, attempt: Option<&SubmissionRecord>) -> Value {
    let all = attempt.map_or(1, |record| record.gpus.total());
    json!({ "kind": stall.kind, "since": stall.since.0, "ranks": stall.ranks, "cause": stall.cause, "text": stall.text(all) })
}

/// Returns the known and expected values of the target's metric.
fn curve(tracked: &JobState) -> Option<Value> {
    let target = tracked.job.target.as_ref()?;
    let verdict = tracked.free_verdict()?;
    let prediction = verdict.prediction.as_ref();
    Some(json!({
        "metric": target.metric,
        "best": verdict.best.value,
        "best_epoch": verdict.best.epoch,
        "predicted": prediction.map(|prediction| prediction.mean),
        "spread": prediction.map(|prediction| prediction.spread),
        "probability": verdict.probability,
        "reason": verdict.reason.map(|reason| reason.to_string()),
    }))
}

fn run(
    attempt: &SubmissionRecord,
    epochs: u64,
    end: Option<(String, Time)>,
    files: SubmissionFiles,
) -> Value {
    let (end, ended) = end.unzip();
    let files: Map<String, Value> =
        files.into_iter().map(|(name, path)| (name.to_owned(), json!(path))).collect();
    json!({
        "run": attempt.run,
        "job_id": attempt.job_id.map(number),
        "gpus": gpus(&attempt.gpus),
        "predicted_epoch_s": attempt.epoch.0,
        "epochs_before": attempt.epochs_before,
        "epochs_done": epochs,
        "started": seconds(attempt.started),
        "ended": seconds(ended),
        "end": end,
        "files": files,
    })
}

fn gpus(gpus: &Gpus) -> Value {
    let all = gpus.iter();
    all.map(
        |(node, gpu_type, count)| json!({ "node": node.as_str(), "type": gpu_type.as_str(), "count": count }),
    )
    .collect()
}

fn seconds(time: Option<Time>) -> Option<f64> {
    time.map(|time| time.0)
}

/// Returns a Slurm job id as text, as in other outputs.
fn number(id: JobId) -> String {
    id.to_string()
}
