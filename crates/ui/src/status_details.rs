//! A job in full: its state, its submissions, and its files.

use std::fmt::Write as _;

use crate::lateness::late;
use crate::metric::{JobMetric, metric};
use crate::quantity::duration;
use crate::status::{JobSummary, SubmissionFiles, ago, nodes};
use crate::terminal::harmless;
use crate::text::{wrap, wrap_cut};
use crate::{Align, Table, Terminal};
use hsched_engine::{Submission, SubmissionRecord};
use hsched_model::{Seconds, Time};

/// Space in the lines below a label.
const LABEL: &str = "             ";

/// A value that does not exist yet.
const NONE: &str = "-";

/// Returns all data about a job, with a metric that it has reported; `files` are its script, output and
/// reports, each with a label.
pub fn status_details(
    summary: JobSummary<'_>,
    known: Option<&JobMetric>,
    files: &SubmissionFiles,
    now: Time,
    terminal: Terminal,
) -> String {
    let tracked = summary.tracked;
    let mut text = format!("{}: {}\n", tracked.job.name, tracked.phase.word());
    let mut line = |what: &str, value: &str| {
        let words = wrap(&harmless(value), terminal.width().saturating_sub(LABEL.len()), "");
        let _ = writeln!(text, "  {what:<11}{}", words.replace('\n', &format!("\n{LABEL}")));
    };
    line("last", &summary.last(now));
    if !tracked.job.tags.is_empty() {
        line("tags", &tracked.job.tags.join(", "));
    }
    line("added", &ago(tracked.added, now));
    line("epochs", &format!("{} of {} done", tracked.epochs_done, tracked.job.epochs));
    if let Some(known) = known {
        line("metric", &metric(&known.name, known.last()));
    }
    if let Some(attempt) = summary.attempt {
        let on = || format!("{} on {}", attempt.gpus, nodes(attempt.gpus.0.keys()));
        line("gpus", &summary.race_gpus().unwrap_or_else(on));
        let observed = summary.observed().map(|observed| format!(", observed {}", duration(observed)));
        if !tracked.job.is_command() {
            let predicted = duration(attempt.epoch);
            line("epoch time", &format!("predicted {predicted}{}", observed.unwrap_or_default()));
        }
    }
    if let Some(ends) = summary.ends(now) {
        line(if tracked.phase.is_over() { "ended" } else { "ends" }, &ends);
    }
    if let Some(stall) = summary.stall() {
        line("stuck", &stall);
    }
    if let Some(outlook) = summary.outlook() {
        line("expected", &outlook);
    }
    if let Some(late) = late(tracked, now) {
        line("deadline", &late);
    }
    line(
        "retries",
        &format!("{} of {} used", tracked.failures.min(tracked.job.retries), tracked.job.retries),
    );
    for (what, path) in files {
        line(what, path);
    }
    if let Some(odd) = summary.attempt.and_then(|attempt| attempt.odd.as_ref()) {
        line("reports", odd);
    }
    let rows = runs(summary, now);
    if !rows.is_empty() {
        text.push('\n');
        text.push_str(&runs_text(rows, terminal));
    }
    text
}

/// Returns the submissions as a table or, in a terminal that is too narrow for it, as paragraphs.
fn runs_text(rows: Vec<[String; 7]>, terminal: Terminal) -> String {
    let mut text = String::new();
    for [run, id, gpus, nodes, epochs, ran, end] in &rows {
        let ran = if ran == NONE { String::new() } else { format!(", epochs: {epochs} in {ran}") };
        let words = format!("{run} (job {id}): {gpus} on {nodes}{ran}; {end}");
        let _ = writeln!(text, "{}", wrap_cut(&words, terminal.width(), "  "));
    }
    let mut table = Table::new(&[
        ("RUN", Align::Left),
        ("JOB ID", Align::Right),
        ("GPUS", Align::Left),
        ("NODES", Align::Left),
        ("EPOCHS", Align::Right),
        ("RAN", Align::Left),
        ("END", Align::Left),
    ]);
    for row in rows {
        table.row(row);
    }
    if table.fits(terminal) { table.show(terminal) } else { text }
}

/// Returns a row for each submission, the current ones last.
fn runs(summary: JobSummary<'_>, now: Time) -> Vec<[String; 7]> {
    let tracked = summary.tracked;
    let mut rows = Vec::new();
    let mut row = |attempt: &SubmissionRecord, epochs: u64, until: Time, end: String| {
        let ran: Option<Seconds> = attempt.started.map(|started| until.since(started));
        rows.push([
            attempt.run.clone(),
            attempt.job_id.map_or_else(|| NONE.to_owned(), |id| id.to_string()),
            attempt.gpus.to_string(),
            nodes(attempt.gpus.0.keys()),
            epochs.to_string(),
            ran.map_or_else(|| NONE.to_owned(), duration),
            end,
        ]);
    };
    for past in &tracked.past {
        row(&past.attempt, past.epochs, past.ended, harmless(&tracked.ending(past)));
    }
    for Submission { attempt, stage } in tracked.phase.submissions() {
        let epochs = tracked.epochs_done.saturating_sub(attempt.epochs_before);
        row(attempt, epochs, now, stage.word().to_owned());
    }
    rows
}
