//! Tiny queues for the tests of explanations. All jobs run to their limits. Times are in hours.

use serde_json::{Value, json};

use hsched_model::{GpuType, Seconds, Time};
use hsched_queue::{
    Futures, PastRun, PastRuns, PendingJob, RunEnd, Snapshot, StartAdvice, WaitExplanation, explain,
};

pub(crate) const NOW: f64 = 1_000_000.0;

pub(crate) fn at(hours: f64) -> f64 {
    NOW + hours * 3600.0
}

/// Returns the queue of a node of four GPUs with some jobs, partitions `gpu` (24 h) and `short` (3 h), and
/// more fields.
pub(crate) fn queue(jobs: &[Value], more: &Value) -> Snapshot {
    let mut value = json!({
        "schema": "hsched.queue/1", "taken_at": NOW, "user": "ann",
        "nodes": [{ "name": "n1", "partitions": ["gpu", "short"], "gpus": [{ "type": "a100", "count": 4 }] }],
        "partitions": [{ "name": "gpu", "default": true, "max_time_s": 86_400, "tier": 1 },
            { "name": "short", "max_time_s": 10_800, "tier": 1, "max_nodes": 1 }],
        "jobs": jobs,
    });
    for (key, added) in more.as_object().expect("an object") {
        value[key] = added.clone();
    }
    Snapshot::parse(&value.to_string()).expect("a snapshot")
}

/// Returns a job of a user that must end in this many hours.
pub(crate) fn running(id: &str, user: &str, gpus: u32, ends_in: f64) -> Value {
    json!({ "id": id, "user": user, "ours": user == "ann", "account": "bio", "qos": "normal", "partitions": ["gpu"],
        "limit_s": (ends_in + 1.0) * 3600.0, "asks": { "gpus": [{ "type": "a100", "count": gpus }] },
        "running": { "since": at(-1.0), "holds": [{ "node": "n1", "gpus": [{ "type": "a100", "count": gpus }] }] } })
}

/// Returns a pending job of ann's with a reason.
pub(crate) fn pending(id: &str, gpus: u32, limit: f64, reason: &str) -> Value {
    json!({ "id": id, "user": "ann", "ours": true, "account": "bio", "qos": "normal", "partitions": ["gpu"], "reason": reason,
        "priority": 100, "submitted": at(-2.0), "limit_s": limit * 3600.0,
        "asks": { "gpus": [{ "type": "a100", "count": gpus }] } })
}

pub(crate) fn with(mut job: Value, fields: &Value) -> Value {
    for (key, value) in fields.as_object().expect("an object") {
        job[key] = value.clone();
    }
    job
}

pub(crate) fn told(snapshot: &Snapshot, id: &str) -> (PendingJob, WaitExplanation) {
    let pending = PendingJob::take(snapshot, id).expect("a pending job");
    let hour = |time: Time| format!("hour {}", (time.0 - NOW) / 3600.0);
    let explanation = explain(snapshot, &pending, None, &hour);
    (pending, explanation)
}

pub(crate) fn outlook(snapshot: &Snapshot, id: &str) -> StartAdvice {
    outlook_after(snapshot, id, &PastRuns::default())
}

/// Returns the start and the remedies of a job with past runs.
pub(crate) fn outlook_after(snapshot: &Snapshot, id: &str, past: &PastRuns) -> StartAdvice {
    let (pending, explanation) = told(snapshot, id);
    let futures = Futures { seed: 0, samples: 0, calibration: None };
    StartAdvice::of(&pending, &explanation, past, futures, true, [&|| false, &|| false])
}

/// Returns a past run on A100s that completed after this many hours.
pub(crate) fn completed(gpus: u32, hours: f64) -> PastRun {
    let gpu_type = GpuType::new("a100");
    PastRun { gpu_type, gpus, ran: Seconds(hours * 3600.0), end: RunEnd::Completed, memory_mib: None }
}

pub(crate) fn limit(holder: &str, name: &str, tres: &str, max: f64) -> Value {
    json!({ "limits": [{ "holder": holder, "name": name, "tres": tres, "max": max }] })
}
