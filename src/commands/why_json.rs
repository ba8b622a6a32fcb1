//! The JSON of `hsched why`.

use serde_json::{Value, json};

use crate::app::slurm::why::ExplainedJob;
use crate::commands::why::{JobPage, numbered};
use hsched_queue::{Ahead, AheadJob, LimitUse, Start};

/// Returns the explanations of some jobs as JSON.
pub(super) fn json(jobs: &[JobPage]) -> Value {
    json!({ "schema": "hsched.why/1", "jobs": jobs.iter().map(job).collect::<Vec<_>>() })
}

fn job(shown: &JobPage) -> Value {
    let ExplainedJob { found, state, explanation, starts, pending, past, note } = &shown.explained;
    let ahead = explanation.ahead.as_ref();
    json!({
        "job_id": found.id,
        "name": found.name,
        "user": found.job.as_ref().and_then(|job| job.user.clone())
            .or_else(|| found.details.as_ref().map(|details| details.user.clone())),
        "state": state,
        "reason": explanation.reason,
        "kind": explanation.kind.word(),
        "why": explanation.why,
        "way_out": explanation.way_out,
        "limit": explanation.limit.as_ref().map(limit),
        "ahead": ahead.map(|ahead| ahead.jobs.len()),
        "ahead_jobs": ahead.map(ahead_jobs),
        "asks": pending.as_ref().map(|pending| &pending.job.asks),
        "start": starts.as_is.as_ref().map_or(Value::Null, start),
        "learnt_from": starts.as_is.as_ref().and_then(Start::forecast).map(|forecast| forecast.learnt),
        "past_runs": starts.is_looked_for.then_some(past.0.len()),
        "past_runs_unknown": note,
        "advice": starts.is_looked_for.then(|| numbered(shown).map(|(advice, command)| json!({
            "change": advice.remedy.words(&shown.request()),
            "drawbacks": advice.remedy.drawbacks(),
            "start": start(&advice.start),
            "sooner_s": advice.sooner,
            "in_place": advice.remedy.keeps_job(),
            "command": command.as_ref().ok(),
            "command_unknown": command.as_ref().err(),
        })).collect::<Vec<_>>()),
    })
}

/// Returns a limit as JSON. For a limit on single jobs, `used` is the job's need; for a limit on past usage,
/// it is unknown.
fn limit(limit: &LimitUse) -> Value {
    let is_on_past_use = matches!(limit.name.as_str(), "GrpTRESMins" | "GrpWall");
    let used = limit.used.or((!is_on_past_use).then_some(limit.needed));
    json!({ "name": limit.name, "holder": limit.holder, "tres": limit.tres, "max": limit.max,
        "used": used, "by_user": limit.by_you, "needed": limit.needed })
}

fn ahead_jobs(ahead: &Ahead) -> Vec<Value> {
    let one = |ahead: &AheadJob| {
        json!({ "job_id": ahead.job.id, "gpus": ahead.job.gpus(), "nodes": ahead.job.asks.nodes.max(1),
            "tasks": ahead.job.tasks.max(1), "because": ahead.cause.word() })
    };
    ahead.jobs.iter().map(one).collect()
}

fn start(start: &Start) -> Value {
    start.forecast().map_or(Value::Null, |forecast| json!(forecast.start))
}
