//! The format of the journal: a JSON object for each event, intent and answer.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::{Action, Answer, End, Event, News, PlannedSubmission, SubmissionKey};

/// A line with the answer to a request: of the lines that this module formats, only these are read back.
#[derive(Serialize, Deserialize)]
struct AnswerLine {
    #[serde(flatten)]
    answer: Answer,
    #[serde(flatten)]
    of: SubmissionKey,
}

/// Returns the answer in a line of the journal, if it contains one.
pub(super) fn answer(what: &Map<String, Value>) -> Option<Event> {
    let AnswerLine { answer, of } = AnswerLine::deserialize(what).ok()?;
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
        Event::NodeGone { node } => json!({ "event": "node_gone", "node": node.as_str() }),
        Event::Answer { of, answer } => json!(AnswerLine { answer: answer.clone(), of: of.clone() }),
        Event::News { of, news } => about(of, news_line(news)),
    }
}

/// Adds the submission to a line about it.
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

fn news_line(news: &News) -> Value {
    match news {
        News::Missing => json!({ "event": "missing" }),
        News::NeverSubmitted => json!({ "event": "never_submitted" }),
        News::Queued { job_id, submit_time } => {
            json!({ "event": "queued", "job_id": job_id.0, "submit_time": submit_time })
        }
        News::Waits(reason) => json!({ "event": "waits", "reason": reason.text }),
        News::Facts(facts) => json!({ "event": "facts", "facts": facts }),
        News::Stalled(stall) => json!({ "event": "stalled", "stall": stall }),
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
        End::Saved | End::Cut | End::Unhandled => Some(85),
        End::Failed { exit, .. } => Some(*exit),
        End::Untaken(end) => exit(end),
        _ => None,
    }
}

/// Returns an action as lines of the journal: one for each affected submission, one for an action on a job as
/// a whole, or none for a wait.
pub(super) fn action_lines(action: &Action) -> Vec<Value> {
    let request =
        |word: &str, of: &SubmissionKey, why: &str| about(of, json!({ "action": word, "why": why }));
    match action {
        Action::Submit(run) => {
            let line = |intent: &PlannedSubmission| {
                let gpus = run.gpus(intent).to_string();
                about(&run.key(intent), json!({ "action": "submit", "gpus": gpus }))
            };
            run.submissions.iter().map(line).collect()
        }
        Action::Stop { of, why, .. } => vec![request("stop", of, why)],
        Action::Cancel { of, why, .. } => vec![request("cancel", of, why)],
        Action::Amend { of, to, why, .. } => {
            let what = json!({
                "action": "amend", "why": why, "minutes": to.minutes, "kind": to.kind, "terms": to.queue_choice,
            });
            vec![about(of, what)]
        }
        Action::Share { of, shares, why, .. } => {
            let what = json!({ "action": "share", "why": why, "version": shares.version, "batches": shares.batches, "micro": shares.micro });
            vec![about(of, what)]
        }
        // The state records why jobs wait; a thousand such lines would fill the journal.
        Action::Wait { .. } => Vec::new(),
        Action::GiveUp { job, why } => {
            vec![json!({ "action": "give_up", "job": job.as_str(), "why": why })]
        }
        Action::Learn { job, samples, .. } => {
            vec![json!({ "action": "learn", "job": job.as_str(), "samples": samples.len() })]
        }
    }
}
