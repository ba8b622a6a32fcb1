//! The state of scripts as a table and as JSON.

use serde_json::{Value, json};

use crate::quantity::duration;
use crate::terminal::harmless;
use crate::{Align, Table, Terminal};
use hsched_engine::{End, Outcome, RequestPart, ScriptJob, Stage};
use hsched_model::Time;

/// Returns a row for each script; an empty text if there is none.
pub fn scripts_table(scripts: &[&ScriptJob], now: Time, terminal: Terminal) -> String {
    if scripts.is_empty() {
        return String::new();
    }
    let mut table = Table::new(&[
        ("SCRIPT", Align::Left),
        ("STATE", Align::Left),
        ("JOB", Align::Right),
        ("PARTITION", Align::Left),
        ("LIMIT", Align::Left),
        ("STARTS, ENDS", Align::Left),
    ]);
    for script in scripts {
        let submission = &script.submission;
        let facts = &submission.facts;
        let none = || "-".to_owned();
        table.row([
            script.name.to_string(),
            script.word().to_owned(),
            submission.job_id.map_or_else(none, |id| id.to_string()),
            facts.partition.clone().unwrap_or_else(none),
            facts.limit.map_or_else(none, duration),
            when(script, now).unwrap_or_else(none),
        ]);
        if let Some(note) = note(script) {
            table.note(harmless(&note));
        }
    }
    table.show(terminal)
}

/// Returns when a script starts, when it ends at the latest, or when it ended.
fn when(script: &ScriptJob, now: Time) -> Option<String> {
    let submission = &script.submission;
    if let Some(end) = &script.end {
        let ago = now.since(end.at);
        return Some(if ago.0 < 1.0 { "just now".to_owned() } else { format!("{} ago", duration(ago)) });
    }
    let within = |at: Time| {
        let left = at.since(now);
        if left.0 < 1.0 { "any moment".to_owned() } else { format!("in {}", duration(left)) }
    };
    match submission.started {
        Some(started) => {
            let limit = submission.facts.limit?;
            Some(format!("ends {} at the latest", within(started.after(limit))))
        }
        None => submission.facts.expected_start.map(|at| format!("starts {} (Slurm)", within(at))),
    }
}

/// Returns the information about a script that its row lacks.
fn note(script: &ScriptJob) -> Option<String> {
    if let Some(end) = &script.end {
        return match &end.outcome {
            Outcome::Failed { reason } => Some(reason.clone()),
            Outcome::Completed | Outcome::Cancelled => None,
        };
    }
    let submission = &script.submission;
    if let Some(tasks) = script.tasks.filter(|_| submission.started.is_some()) {
        return Some(format!("{} of {tasks} tasks running", submission.facts.running_tasks.unwrap_or(0)));
    }
    match (submission.stage, &submission.reason) {
        (Stage::Pending, Some(reason)) => Some(format!("pending: {reason}")),
        (Stage::Running, _) => None,
        _ => Some(script.last.1.clone()),
    }
}

/// Returns a script in full; `output` is its output file, if known.
pub fn script_details(script: &ScriptJob, output: Option<&str>, now: Time) -> String {
    let submission = &script.submission;
    let mut lines = vec![
        ("script", script.script.clone()),
        ("directory", script.workdir.clone()),
        ("options", script.options.join(" ")),
        ("may change", parts(script).join(", ")),
        ("nodes", submission.facts.nodes.clone()),
        ("run", submission.run.clone()),
        ("output", output.unwrap_or_default().to_owned()),
        ("last", format!("{}, {}", script.last.1, super::status::ago(script.last.0, now))),
    ];
    lines.retain(|(_, text)| !text.is_empty());
    let line = |(what, text): &(&str, String)| format!("  {what:<11}{}\n", harmless(text));
    lines.iter().map(line).collect()
}

fn parts(script: &ScriptJob) -> Vec<&'static str> {
    script.may.iter().map(|part| part_word(*part)).collect()
}

/// Returns a part of a request as one word.
fn part_word(part: RequestPart) -> &'static str {
    match part {
        RequestPart::Type => "type",
        RequestPart::Partition => "partition",
        RequestPart::Account => "account",
        RequestPart::Limit => "limit",
    }
}

/// Returns a script as in the JSON of `hsched status`; times are Unix seconds.
pub fn script_json(script: &ScriptJob, output: Option<&str>) -> Value {
    let submission = &script.submission;
    let facts = &submission.facts;
    let end = script.end.as_ref();
    let (exit_code, signal) = match end.and_then(|end| end.end.as_ref()) {
        Some(End::Completed) => (Some(0), None),
        Some(End::Failed { exit, signal }) => (Some(*exit), Some(*signal).filter(|signal| *signal > 0)),
        _ => (None, None),
    };
    let reason = match end.map(|end| &end.outcome) {
        Some(Outcome::Failed { reason }) => Some(reason.clone()),
        Some(_) => None,
        None => submission.reason.clone(),
    };
    json!({
        "name": script.name.as_str(), "run": submission.run, "state": script.word(),
        "job_id": submission.job_id.map(|id| id.to_string()), "pieces": null, "reason": reason,
        "slurm_state": end.and_then(|end| end.end.as_ref()).map(slurm_state),
        "exit_code": exit_code, "signal": signal,
        "added": script.added.0, "started": submission.started.map(|at| at.0), "ended": end.map(|end| end.at.0),
        "expected_start": facts.expected_start.filter(|_| end.is_none()).map(|at| at.0),
        "limit_s": facts.limit.map(|limit| limit.0), "partition": facts.partition, "nodes": facts.nodes,
        "tasks": script.tasks, "running_tasks": facts.running_tasks.filter(|_| end.is_none()),
        "script": script.script, "workdir": script.workdir, "options": script.options, "output": output,
        "may": parts(script),
    })
}

/// Returns an end as the name of Slurm's state.
fn slurm_state(end: &End) -> String {
    match end {
        End::Completed => "COMPLETED",
        End::TimedOut => "TIMEOUT",
        End::OutOfMemory => "OUT_OF_MEMORY",
        End::NodeFailed => "NODE_FAIL",
        End::BootFailed => "BOOT_FAIL",
        End::Preempted => "PREEMPTED",
        End::Deadline => "DEADLINE",
        End::Cancelled => "CANCELLED",
        End::Tasks { first, .. } => return slurm_state(first),
        End::Other(state) => return state.clone(),
        End::Vanished => "UNKNOWN",
        _ => "FAILED",
    }
    .to_owned()
}
