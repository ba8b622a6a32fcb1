//! Why jobs are pending: a page about one job, or a line for each.

use std::fmt::Write as _;

use crate::quantity::moment;
use crate::text::wrap;
use crate::{Align, Table, Terminal};
use hsched_model::formats::counted;
use hsched_model::number::to_u64;
use hsched_model::{Seconds, Time};
use hsched_queue::Start;

/// A job with its explanation.
#[derive(Clone, Debug)]
pub struct WhyJob<'a> {
    /// A description of the job in one or two sentences.
    pub headline: String,
    pub why: &'a [String],
    pub way_out: &'a [String],
    /// `None` if no estimate is possible.
    pub start: Option<&'a Start>,
    pub now: Time,
    pub advice: Vec<WhyAdvice<'a>>,
    /// The command that cancels the job, for a new job in its place.
    pub cancel: String,
}

/// A remedy with which the job starts sooner.
#[derive(Clone, Debug)]
pub struct WhyAdvice<'a> {
    pub number: usize,
    /// The remedy's command, or why the command is unknown.
    pub command: Result<String, &'a str>,
    /// The remedy's changes and costs.
    pub change: String,
    pub drawbacks: Vec<String>,
    pub start: &'a Start,
    pub sooner: Option<Seconds>,
    pub kind: WhyAdviceKind,
}

/// The cost of a remedy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhyAdviceKind {
    /// The job stays in the queue, and nothing is lost.
    Free,
    /// The job stays in the queue.
    KeepsPlace,
    NewJob,
    /// Another job of the user ends.
    EndsOther,
}

impl WhyAdviceKind {
    const ALL: [Self; 4] = [Self::Free, Self::KeepsPlace, Self::NewJob, Self::EndsOther];

    fn heading(self) -> &'static str {
        match self {
            Self::Free => "Sooner, at no cost:",
            Self::KeepsPlace => "Sooner, keeping its place:",
            Self::NewJob => "Sooner, as a new job:",
            Self::EndsOther => "Sooner, at the cost of another job of yours:",
        }
    }
}

/// A job in a list.
#[derive(Clone, Debug)]
pub struct WhyLine<'a> {
    pub id: &'a str,
    pub name: Option<&'a str>,
    pub kind: &'static str,
    pub start: Option<&'a Start>,
    pub why: &'a str,
}

/// Returns the page about a job.
pub fn why_text(job: &WhyJob, terminal: Terminal) -> String {
    let width = terminal.width().min(120);
    let mut text = String::new();
    let mut line = |words: &str, indent: &str| {
        let _ = writeln!(text, "{}", wrap(words, width, indent));
    };
    line(&job.headline, "  ");
    for sentence in job.why {
        line(sentence, "  ");
    }
    if let Some(start) = job.start {
        line(&starts(start, job.now), "  ");
    }
    if job.advice.is_empty() && !job.way_out.is_empty() {
        line(&format!("What helps: {}", job.way_out.join(" ")), "  ");
    }
    for kind in WhyAdviceKind::ALL {
        let list: Vec<&WhyAdvice> = job.advice.iter().filter(|advice| advice.kind == kind).collect();
        if list.is_empty() {
            continue;
        }
        text.push_str(kind.heading());
        text.push('\n');
        for advice in list {
            match &advice.command {
                Ok(command) => {
                    let _ = writeln!(text, "{:>3}  {command}", advice.number);
                }
                Err(why) => {
                    let words = wrap(&format!("no command: {why}"), width.saturating_sub(5), "     ");
                    let _ = writeln!(text, "{:>3}  {words}", advice.number);
                }
            }
            let words = format!("     {}", wrap(&advice.words(job.now), width.saturating_sub(5), "     "));
            text.push_str(&words);
            text.push('\n');
        }
        if kind == WhyAdviceKind::NewJob {
            let _ = writeln!(text, "     After that, cancel this job: {}", job.cancel);
        }
    }
    text
}

impl WhyAdvice<'_> {
    /// Returns a sentence about the remedy: the new start, the change and its cost.
    fn words(&self, now: Time) -> String {
        let start = match self.start.forecast() {
            Some(forecast) if is_now(forecast.start.median) => "starts now".to_owned(),
            Some(forecast) => {
                let at = Time(now.0 + forecast.start.median.0);
                format!("starts at about {}, in {}", moment(at, now), about(forecast.start.median))
            }
            None => "when it starts is unknown".to_owned(),
        };
        let sooner = self.sooner.filter(|sooner| sooner.0 >= 60.0);
        let sooner = sooner.map_or(String::new(), |sooner| format!(", {} sooner", about(sooner)));
        let cost = self.drawbacks.join("; ");
        let cost = if cost.is_empty() { cost } else { format!(" ({cost})") };
        format!("{start}{sooner}: {}{cost}", self.change)
    }
}

/// Shorter waits, in seconds, are shown as now.
const NOW: f64 = 60.0;

/// The farthest estimated start, in seconds: 30 days.
const FARTHEST: f64 = 30.0 * 86_400.0;

fn is_now(wait: Seconds) -> bool {
    wait.0 < NOW
}

/// Returns when a job starts, as a sentence.
fn starts(start: &Start, now: Time) -> String {
    let forecast = match start {
        Start::Estimated(forecast) => forecast,
        Start::Unknown(why) => return format!("When it starts cannot be estimated: {why}."),
        Start::Never => return "By the model of the queue, no node could ever hold it.".to_owned(),
        Start::Refused(refusal) => {
            return format!("By the limits that Slurm shows, it never starts: {refusal}.");
        }
    };
    let (low, median, high) = (forecast.start.low, forecast.start.median, forecast.start.high);
    let at = |wait: Seconds| moment(Time(now.0 + wait.0), now);
    if median.0 >= FARTHEST {
        return "It does not start within 30 days (estimated).".to_owned();
    }
    if forecast.is_by_limits() {
        return format!(
            "It starts by {}, in {}, if all jobs run to their limits.",
            at(median),
            about(median)
        );
    }
    if high.0 < NOW {
        return "It starts now (estimated).".to_owned();
    }
    let few = forecast.few_futures();
    let by = match (&forecast.learnt, forecast.past_waits) {
        (Some(basis), _) => format!(", {basis}"),
        (None, 0) => few.map_or(String::new(), |count| format!(" from {}", counted(count, "future"))),
        (None, count) => format!(" by {count} past jobs of yours"),
    };
    if few.is_some() || high.0 - low.0 < NOW {
        return format!("It starts at about {}, in {} (estimated{by}).", at(median), about(median));
    }
    let latest = if high.0 >= FARTHEST { "more than 30 days from now".to_owned() } else { at(high) };
    format!(
        "It starts at about {}, in {} (estimated{by}). In 8 of 10 cases: between {} and {latest}.",
        at(median),
        about(median),
        if is_now(low) { "now".to_owned() } else { at(low) },
    )
}

/// Returns a wait in at most two units: `4 h 45 min`, `35 min`.
fn about(time: Seconds) -> String {
    let minutes = to_u64((time.0 / 60.0).round().max(1.0));
    let minutes = if minutes > 600 { minutes / 30 * 30 } else { minutes };
    hsched_queue::span(Seconds(hsched_model::number::to_f64(minutes) * 60.0))
}

/// Returns a line for each job.
pub fn why_list(lines: &[WhyLine], terminal: Terminal) -> String {
    let has_names = lines.iter().any(|line| line.name.is_some());
    let mut headings = vec![("JOB", Align::Left)];
    headings.extend(has_names.then_some(("NAME", Align::Left)));
    headings.extend([("KIND", Align::Left), ("STARTS IN", Align::Left), ("WHY", Align::Left)]);
    let mut table = Table::new(&headings);
    for line in lines {
        let mut cells = vec![line.id.to_owned()];
        cells.extend(has_names.then(|| line.name.unwrap_or_default().to_owned()));
        cells.push(line.kind.to_owned());
        cells.push(line.start.map_or_else(|| "unknown".to_owned(), crate::start_estimate));
        cells.push(line.why.to_owned());
        table.row(cells);
    }
    table.show(terminal)
}
