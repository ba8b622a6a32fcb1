//! Converts states of earlier versions to the current format.

use serde_json::{Map, Value, json};

/// The schemas of previous versions, which had one submission per job; version 1 also had no checksum and
/// other decision fingerprints.
const ONE_SUBMISSION: &str = "hsched.state/2";
pub(super) const UNSEALED: &str = "hsched.state/1";

/// Converts a state if a previous version wrote it; returns whether one did. The schema stays unchanged.
/// Malformed parts are left for the reader to refuse.
pub(super) fn upgrade(state: &mut Value) -> bool {
    let schema = state.get("schema").and_then(Value::as_str).unwrap_or_default();
    let (is_unsealed, is_before) = (schema == UNSEALED, [ONE_SUBMISSION, UNSEALED].contains(&schema));
    if is_before {
        upgrade_jobs(state);
        if is_unsealed {
            state["decided"] = Value::Null;
        }
    }
    is_before
}

/// Converts the jobs of a state or of a change.
pub(super) fn upgrade_jobs(state: &mut Value) {
    for job in state.get_mut("jobs").and_then(Value::as_array_mut).into_iter().flatten() {
        let pasts = job.get_mut("past").and_then(Value::as_array_mut);
        for attempt in pasts.into_iter().flatten().filter_map(|past| past.get_mut("attempt")) {
            upgrade_attempt(attempt);
        }
        if let Some(attempt) = job.get_mut("attempt") {
            upgrade_attempt(attempt);
        }
        if let Some(phase) = job.as_object_mut().and_then(phase) {
            job["phase"] = phase;
        }
    }
}

/// Returns a job's phase, whose parts were stored as separate keys.
fn phase(job: &mut Map<String, Value>) -> Option<Value> {
    let word = job.get("phase")?.as_str()?.to_owned();
    let mut take = |key: &str| job.remove(key).unwrap_or_default();
    Some(match word.as_str() {
        "waiting" => json!({ "waiting": { "not_before": take("not_before"), "reason": take("reason") } }),
        "meant" | "pending" | "running" => {
            json!({ "submitted": [{ "attempt": take("attempt"), "stage": word }] })
        }
        "stopping" => {
            let then = match (take("cancel").as_bool(), take("finish").as_bool()) {
                (Some(true), _) => "cancel",
                (_, Some(true)) => "finish",
                _ => "go_on",
            };
            let stage = json!({ "since": take("since"), "then": then, "request": take("request") });
            json!({ "submitted": [{ "attempt": take("attempt"), "stage": { "stopping": stage } }] })
        }
        "failed" => {
            json!({ "ended": { "at": take("at"), "outcome": { "failed": { "reason": take("reason") } } } })
        }
        _ => json!({ "ended": { "at": take("at"), "outcome": word } }),
    })
}

/// Converts the types on trial, which recorded whether their speed was estimated.
fn upgrade_attempt(attempt: &mut Value) {
    let trials = attempt.get_mut("trials").and_then(Value::as_object_mut);
    for (_, trial) in trials.into_iter().flatten() {
        if let Some(is_estimated) = trial.as_bool() {
            *trial = if is_estimated { "estimated".into() } else { "unlisted".into() };
        }
    }
}
