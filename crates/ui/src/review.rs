//! The past runs' use of their requests as a table, with recommendations.

use hsched_model::formats::counted;
use std::fmt::Write as _;

use crate::text::wrap;
use crate::{Align, Table, Terminal};
use hsched_model::number::to_f64;
use hsched_model::{Seconds, Time};
use hsched_slurm::accounting::Accounting;
use hsched_slurm::review::{ENOUGH, NameReview, Quantity};

use super::when::about;

/// Reviews with the data for their presentation.
pub struct ReviewReport<'a> {
    pub names: &'a [NameReview],
    /// The waiting hours that each recommendation would have saved; `None` if unknown, or without a smaller
    /// request.
    pub saved: &'a [Option<f64>],
    pub accounting: &'a Accounting,
    /// The reviewed period, which ends now or with the newest run of a file; `None` if the file has no runs.
    pub since: Option<Time>,
    pub until: Option<Time>,
}

/// Maximum number of unreadable lines that the notes name.
const NAMED: usize = 20;

/// The meaning of the columns.
const LEGEND: &str = "TIME to CPUS: the 95 % quantile of use / what the newest run asked for; MEMORY is per node; FAILED: not completed, without preempted and requeued runs; WAITED: all runs together";

/// Returns the table, the recommendations and the notes.
pub fn review_text(reviewed: &ReviewReport, terminal: Terminal) -> String {
    let names = reviewed.names;
    let width = terminal.width();
    let mut text = String::new();
    let mut line = |line: &str| {
        let _ = writeln!(text, "{}", wrap(line, width, "  "));
    };
    line(&headline(reviewed));
    if !names.is_empty() {
        line("");
        text.push_str(&table(names).show(terminal));
        text.push('\n');
        let _ = writeln!(text, "{}", wrap(LEGEND, width, "  "));
    }
    for (name_review, saved) in
        names.iter().zip(reviewed.saved).filter(|(name_review, _)| !name_review.sbatch.is_empty())
    {
        text.push('\n');
        text.push_str(&recommendation(name_review, *saved, width));
    }
    let notes = notes(reviewed);
    if !notes.is_empty() {
        text.push('\n');
    }
    for note in notes {
        let _ = writeln!(text, "{}", wrap(&note, width, "  "));
    }
    text
}

fn headline(reviewed: &ReviewReport) -> String {
    let runs: usize = reviewed.names.iter().map(|name| name.runs).sum();
    let days = reviewed.until.zip(reviewed.since).map(|(until, since)| until.since(since).0 / 86_400.0);
    let days = days.map_or(String::new(), |days| format!(" in {days:.0} days"));
    match (runs, reviewed.names.len()) {
        (0, _) => format!("no job started and ended{days}"),
        (runs, 1) => format!("{} of 1 name{days}", counted(runs, "run")),
        (runs, names) => format!("{} of {names} names{days}", counted(runs, "run")),
    }
}

fn table(names: &[NameReview]) -> Table {
    let mut table = Table::new(&[
        ("NAME", Align::Left),
        ("RUNS", Align::Right),
        ("TIME", Align::Right),
        ("MEMORY", Align::Right),
        ("CPUS", Align::Right),
        ("GPUS", Align::Right),
        ("IDLE", Align::Right),
        ("FAILED", Align::Right),
        ("WAITED", Align::Right),
    ]);
    for name in names {
        table.row([
            shown(&name.name),
            name.runs.to_string(),
            of_asked(&name.time, |seconds| about(Seconds(seconds))),
            of_asked(&name.memory, memory),
            of_asked(&name.cpus, count),
            name.gpus.asked.filter(|gpus| *gpus > 0.0).map_or(String::new(), count),
            name.idle_share.map_or(String::new(), percent),
            failed_share(name).map_or(String::new(), percent),
            about(Seconds(3600.0 * name.waited_h)),
        ]);
    }
    table
}

/// Returns the used and the requested amount, such as `4.8 h/24 h`; empty if both are unknown.
fn of_asked(quantity: &Quantity, words: impl Fn(f64) -> String) -> String {
    match (quantity.used_p95.map(&words), quantity.asked.map(&words)) {
        (None, None) => String::new(),
        (used, asked) => {
            format!("{}/{}", used.as_deref().unwrap_or("?"), asked.as_deref().unwrap_or("none"))
        }
    }
}

fn memory(mib: f64) -> String {
    if mib < 1024.0 { format!("{mib:.0}M") } else { format!("{}G", count(mib / 1024.0)) }
}

/// Returns a number with a decimal if it is small.
fn count(number: f64) -> String {
    let rounded = (number * 10.0).round() / 10.0;
    if rounded >= 10.0 || rounded.fract() == 0.0 { format!("{number:.0}") } else { format!("{rounded:.1}") }
}

/// Returns a name on one line.
fn shown(name: &str) -> String {
    name.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// Returns the recommended options for a name, to be copied into its script, with the reason.
fn recommendation(name_review: &NameReview, saved: Option<f64>, width: usize) -> String {
    let mut why = vec![match name_review.cut {
        0 => format!("would have cut none of {}", counted(name_review.ended, "past run")),
        cut => format!("would have cut {cut} of {}", counted(name_review.ended, "past run")),
    }];
    why.extend(saved.map(|hours| {
        format!(
            "would save about {} of {} of waiting (estimated from today's queue)",
            about(Seconds(3600.0 * hours)),
            about(Seconds(3600.0 * name_review.waited_h))
        )
    }));
    for (what, interrupted) in [("failures", false), ("interruptions", true)] {
        let kinds = kinds(name_review, interrupted);
        if !kinds.is_empty() {
            why.push(format!("{what}: {kinds}"));
        }
    }
    let mut text = wrap(&format!("{}: {}", shown(&name_review.name), why.join("; ")), width, "  ");
    text.push('\n');
    for option in &name_review.sbatch {
        let _ = writeln!(text, "  #SBATCH {option}");
    }
    text
}

fn notes(reviewed: &ReviewReport) -> Vec<String> {
    let ReviewReport { names, accounting, .. } = reviewed;
    let mut notes = Vec::new();
    let kept = |is: &dyn Fn(&NameReview) -> bool| {
        let kept = names.iter().filter(|name| name.sbatch.is_empty() && is(name));
        kept.map(|name_review| shown(&name_review.name)).collect::<Vec<_>>().join(", ")
    };
    for (what, names) in [
        ("nothing to change", kept(&|name_review| name_review.runs >= ENOUGH)),
        ("too few runs to recommend anything", kept(&|name_review| name_review.runs < ENOUGH)),
    ] {
        if !names.is_empty() {
            notes.push(format!("{what}: {names}"));
        }
    }
    notes.extend(names.iter().filter(|name| is_idle(name)).map(|name_review| {
        let (name, share) = (shown(&name_review.name), name_review.idle_share.unwrap_or(0.0));
        format!("{name}: its GPUs were idle {} of the time; does it need them?", percent(share))
    }));
    notes.extend(names.iter().filter(|name| name.uninterrupted() >= ENOUGH).filter_map(|name_review| {
        let share = failed_share(name_review).filter(|share| *share >= OFTEN)?;
        let (name, kinds) = (shown(&name_review.name), kinds(name_review, false));
        Some(format!("{name}: {} of the runs did not complete: {kinds}", percent(share)))
    }));
    if !accounting.missing.is_empty() {
        notes.push(format!("columns that are missing: {}", accounting.missing.join(", ")));
    }
    notes.extend(
        accounting.odd.iter().take(NAMED).map(|row| format!("line {} left out: {}", row.line, row.why)),
    );
    if let Some(more) = accounting.odd.len().checked_sub(NAMED + 1) {
        notes.push(format!("{} are left out, too", counted(more + 1, "further line")));
    }
    notes
}

/// Idle fraction above which GPUs are of little use to a job.
const IDLE: f64 = 0.8;

fn is_idle(name_review: &NameReview) -> bool {
    name_review.gpus.recommended.is_none() && name_review.idle_share.is_some_and(|share| share > IDLE)
}

/// Fraction of incomplete runs that counts as frequent.
const OFTEN: f64 = 0.25;

/// Returns the fraction of the uninterrupted runs that did not complete; `None` if all were interrupted.
fn failed_share(name_review: &NameReview) -> Option<f64> {
    let runs = name_review.uninterrupted();
    let failed: usize = name_review.incomplete(false).map(|(_, runs)| runs).sum();
    (runs > 0).then(|| to_f64(failed) / to_f64(runs))
}

/// Returns numbers of incomplete runs with their states: `2 failed, 1 timeout`.
fn kinds(name_review: &NameReview, interrupted: bool) -> String {
    let kinds = name_review.incomplete(interrupted).map(|(kind, count)| format!("{count} {kind}"));
    kinds.collect::<Vec<_>>().join(", ")
}

fn percent(part: f64) -> String {
    format!("{:.0} %", 100.0 * part)
}
