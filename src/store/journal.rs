//! The words of the journal: a JSON object for everything that happened, was meant and was answered.

use serde_json::{Map, Value, json};

use crate::engine::{Action, End, Event, News};
use crate::model::{JobId, JobName};

/// Returns the answer to what hsched did that a line of the journal tells, if it tells one.
pub(super) fn answer(what: &Map<String, Value>) -> Option<Event> {
    let text = |key: &str| what.get(key).and_then(Value::as_str);
    let message = || text("message").unwrap_or_default().to_owned();
    let news = match text("event")? {
        "submitted" => News::Submitted { job_id: JobId(what.get("job_id")?.as_u64()?.try_into().ok()?) },
        "refused" => News::Refused { message: message() },
        "deferred" => News::Deferred { message: message() },
        "unreachable" => News::Unreachable { message: message() },
        "unclear" => News::Unclear { message: message() },
        "stopped" => News::Stopped,
        "killed" => News::Killed,
        "not_stopped" => News::NotStopped { message: message() },
        _ => return None,
    };
    Some(Event::Attempt { job: JobName::new(text("job")?).ok()?, run: text("run")?.to_owned(), news })
}

/// Returns an event as a line of the journal.
pub(super) fn event_line(event: &Event) -> Value {
    match event {
        Event::Added { job, restart } => {
            json!({ "event": "added", "job": job.name.as_str(), "restart": restart })
        }
        Event::CancelAsked { job } => json!({ "event": "cancel_asked", "job": job.as_str() }),
        Event::Stray { job, job_id } => {
            json!({ "event": "stray", "job": job.as_str(), "job_id": job_id.map(|id| id.0) })
        }
        Event::Found { job, run, job_id, .. } => {
            json!({ "event": "found", "job": job.as_str(), "run": run, "job_id": job_id.0 })
        }
        Event::NodeDown { node, state, reason } => {
            json!({ "event": "node_down", "node": node.as_str(), "state": state.word(), "reason": reason })
        }
        Event::NodeBack { node } => json!({ "event": "node_back", "node": node.as_str() }),
        Event::Attempt { job, run, news } => {
            let mut line = news_line(news);
            if let Value::Object(line) = &mut line {
                line.insert("job".into(), job.as_str().into());
                line.insert("run".into(), run.as_str().into());
            }
            line
        }
    }
}

fn news_line(news: &News) -> Value {
    let message = |word: &str, message: &str| json!({ "event": word, "message": message });
    match news {
        News::Submitted { job_id } => json!({ "event": "submitted", "job_id": job_id.0 }),
        News::Refused { message: text } => message("refused", text),
        News::Deferred { message: text } => message("deferred", text),
        News::Unreachable { message: text } => message("unreachable", text),
        News::Unclear { message: text } => message("unclear", text),
        News::Missing => json!({ "event": "missing" }),
        News::NeverSubmitted => json!({ "event": "never_submitted" }),
        News::Queued { job_id, submit_time } => {
            json!({ "event": "queued", "job_id": job_id.0, "submit_time": submit_time })
        }
        News::Waits(reason) => json!({ "event": "waits", "reason": reason.text }),
        News::Odd { what } => json!({ "event": "odd", "what": what }),
        News::Started { job_id, submit_time, at, gpus } => json!({
            "event": "started", "job_id": job_id.0, "submit_time": submit_time, "start": at.0,
            "gpus": gpus.as_ref().map(ToString::to_string),
        }),
        News::Epoch(report) => json!({
            "event": "epoch", "epoch": report.epoch, "epoch_s": report.length.map(|length| length.0),
        }),
        News::Ended { end, at } => {
            json!({ "event": "ended", "end": end.to_string(), "exit": exit(end), "end_time": at.0 })
        }
        News::Stopped => json!({ "event": "stopped" }),
        News::Killed => json!({ "event": "killed" }),
        News::NotStopped { message: text } => message("not_stopped", text),
    }
}

fn exit(end: &End) -> Option<u8> {
    match end {
        End::Completed => Some(0),
        End::Saved => Some(85),
        End::Failed { exit, .. } => Some(*exit),
        _ => None,
    }
}

/// Returns what is meant as lines of the journal: one for each job that it concerns.
pub(super) fn action_lines(action: &Action) -> Vec<Value> {
    let about = |word: &str, job: &JobName, run: &str, why: &str| json!({ "action": word, "job": job.as_str(), "run": run, "why": why });
    match action {
        Action::Submit(batch) => {
            let line = |&job: &usize| {
                let gpus = batch.gpus(job).map(|gpus| gpus.to_string());
                json!({ "action": "submit", "job": batch.jobs[job].name.as_str(), "run": batch.run, "gpus": gpus })
            };
            batch.submitted.iter().map(line).collect()
        }
        Action::Stop { job, run, why, .. } => vec![about("stop", job, run, why)],
        Action::Cancel { job, run, why, .. } => vec![about("cancel", job, run, why)],
        // The state says why jobs wait; a thousand of them would fill the journal.
        Action::Wait { .. } => Vec::new(),
        Action::Learn { job, samples, .. } => {
            vec![json!({ "action": "learn", "job": job.as_str(), "samples": samples.len() })]
        }
    }
}
