//! The words of the journal: a JSON object for everything that happened, was meant and was answered.

use serde_json::{Map, Value, json};

use crate::engine::{Action, Answer, End, Event, Intent, News, SubmissionKey};
use crate::model::{JobId, JobName};

/// Returns the answer to what hsched did that a line of the journal tells, if it tells one.
pub(super) fn answer(what: &Map<String, Value>) -> Option<Event> {
    let text = |key: &str| what.get(key).and_then(Value::as_str);
    let message = || text("message").unwrap_or_default().to_owned();
    let answer = match text("event")? {
        "submitted" => Answer::Submitted { job_id: JobId(what.get("job_id")?.as_u64()?.try_into().ok()?) },
        "refused" => Answer::Refused { message: message() },
        "deferred" => Answer::Deferred { message: message() },
        "unreachable" => Answer::Unreachable { message: message() },
        "unclear" => Answer::Unclear { message: message() },
        "stopped" => Answer::Stopped,
        "killed" => Answer::Killed,
        "not_stopped" => Answer::NotStopped { message: message() },
        _ => return None,
    };
    let copy = what.get("copy").and_then(Value::as_u64).and_then(|copy| copy.try_into().ok()).unwrap_or(0);
    let of = SubmissionKey { job: JobName::new(text("job")?).ok()?, run: text("run")?.to_owned(), copy };
    Some(Event::Answer { of, answer })
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
        Event::Found { of, job_id, .. } => about(of, json!({ "event": "found", "job_id": job_id.0 })),
        Event::NodeDown { node, state, reason } => {
            json!({ "event": "node_down", "node": node.as_str(), "state": state.word(), "reason": reason })
        }
        Event::NodeBack { node } => json!({ "event": "node_back", "node": node.as_str() }),
        Event::Answer { of, answer } => about(of, answer_line(answer)),
        Event::News { of, news } => about(of, news_line(news)),
    }
}

/// Returns a line with the submission that it is about.
fn about(of: &SubmissionKey, mut line: Value) -> Value {
    if let Value::Object(line) = &mut line {
        line.insert("job".into(), of.job.as_str().into());
        line.insert("run".into(), of.run.as_str().into());
        if of.copy > 0 {
            line.insert("copy".into(), of.copy.into());
        }
    }
    line
}

fn answer_line(answer: &Answer) -> Value {
    let message = |word: &str, message: &str| json!({ "event": word, "message": message });
    match answer {
        Answer::Submitted { job_id } => json!({ "event": "submitted", "job_id": job_id.0 }),
        Answer::Refused { message: text } => message("refused", text),
        Answer::Deferred { message: text } => message("deferred", text),
        Answer::Unreachable { message: text } => message("unreachable", text),
        Answer::Unclear { message: text } => message("unclear", text),
        Answer::Stopped => json!({ "event": "stopped" }),
        Answer::Killed => json!({ "event": "killed" }),
        Answer::NotStopped { message: text } => message("not_stopped", text),
    }
}

fn news_line(news: &News) -> Value {
    match news {
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
    let request =
        |word: &str, of: &SubmissionKey, why: &str| about(of, json!({ "action": word, "why": why }));
    match action {
        Action::Submit(run) => {
            let line = |intent: &Intent| {
                let gpus = run.gpus(intent).to_string();
                about(&run.key(intent), json!({ "action": "submit", "gpus": gpus }))
            };
            run.submissions.iter().map(line).collect()
        }
        Action::Stop { of, why, .. } => vec![request("stop", of, why)],
        Action::Cancel { of, why, .. } => vec![request("cancel", of, why)],
        // The state says why jobs wait; a thousand of them would fill the journal.
        Action::Wait { .. } => Vec::new(),
        Action::Learn { job, samples, .. } => {
            vec![json!({ "action": "learn", "job": job.as_str(), "samples": samples.len() })]
        }
    }
}
