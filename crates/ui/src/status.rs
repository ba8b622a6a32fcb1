//! The state of the jobs as a table: GPUs, progress, expected end, last event.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::lateness::late;
use crate::metric::{JobMetric, Metrics, direction, metric};
use crate::quantity::duration;
use crate::slow_nodes::slow_lines;
use crate::status_folds::{StatusRow, rows};
use crate::terminal::harmless;
use crate::text::wrap;
use crate::{Align, Table, Terminal};
use hsched_engine::{JobState, Outcome, PastAttempt, Phase, State, SubmissionRecord};
use hsched_model::number::{to_f64, to_usize};
use hsched_model::{GoalMode, JobName, NodeName, Seconds, Time, hostlist};

/// The words for the states of jobs, in the order of the summary.
pub(super) const WORDS: [&str; 8] =
    ["running", "pending", "submitting", "stopping", "waiting", "completed", "failed", "cancelled"];

/// Files of a submission, each with a label.
pub type SubmissionFiles = Vec<(&'static str, String)>;

/// A job with the data of its current or last submission.
#[derive(Clone, Copy, Debug)]
pub struct JobSummary<'a> {
    pub tracked: &'a JobState,
    /// The submission that Slurm has or may have; for an ended job, the last one.
    pub attempt: Option<&'a SubmissionRecord>,
}

/// Returns all jobs as a table with remarks below the rows, and a summary; the table has a metric column if
/// there are metrics. A sweep of many jobs has one row.
pub fn status_table(state: &State, metrics: &Metrics, now: Time, terminal: Terminal) -> String {
    table(state, &rows(state), metrics, now, terminal)
}

/// Returns the table with a row for every job.
pub fn unfolded_status_table(state: &State, metrics: &Metrics, now: Time, terminal: Terminal) -> String {
    table(state, &state.jobs.iter().map(StatusRow::Job).collect::<Vec<_>>(), metrics, now, terminal)
}

/// Returns the finished epochs and all epochs of a job; a command has none.
pub(super) fn epochs(tracked: &JobState) -> String {
    if tracked.job.is_command() {
        return "-".to_owned();
    }
    format!("{}/{}", tracked.epochs_done, tracked.job.epochs)
}

fn table(state: &State, rows: &[StatusRow<'_>], metrics: &Metrics, now: Time, terminal: Terminal) -> String {
    let mut columns = vec![
        ("JOB", Align::Left),
        ("STATE", Align::Left),
        ("GPUS", Align::Left),
        ("EPOCHS", Align::Right),
        ("EPOCH TIME", Align::Left),
        ("ENDS", Align::Left),
    ];
    columns.extend((!metrics.is_empty()).then_some(("METRIC", Align::Left)));
    let mut table = Table::new(&columns);
    let folded = rows.iter().find_map(|row| match row {
        StatusRow::Sweep(sweep) => Some(sweep.name),
        StatusRow::Job(_) => None,
    });
    for row in rows {
        let tracked = match row {
            StatusRow::Job(tracked) => tracked,
            StatusRow::Sweep(sweep) => {
                table.row(sweep.cells(metrics, now).into_iter().take(columns.len()));
                if let Some(note) = sweep.note() {
                    table.note(harmless(&note));
                }
                continue;
            }
        };
        let summary = JobSummary::new(tracked);
        let metric = metrics
            .get(&tracked.job.name)
            .map_or_else(|| "-".to_owned(), |known| metric(&known.name, known.last()));
        let row = [
            tracked.job.name.to_string(),
            tracked.phase.word().to_owned(),
            summary
                .race_gpus()
                .or_else(|| Some(summary.attempt?.gpus.to_string()))
                .unwrap_or_else(|| "-".to_owned()),
            epochs(tracked),
            summary.epoch_time().unwrap_or_else(|| "-".to_owned()),
            summary.ends(now).unwrap_or_else(|| "-".to_owned()),
            metric,
        ];
        table.row(row.into_iter().take(columns.len()));
        if let Some(note) = summary.note(now) {
            table.note(harmless(&note));
        }
    }
    let mut text = table.show(terminal);
    text.push('\n');
    let mut say = |line: &str| {
        let _ = writeln!(text, "{}", wrap(&harmless(line), terminal.width(), "  "));
    };
    if !state.nodes_down.is_empty() {
        say(&format!("nodes unavailable at the last turn: {}", nodes(state.nodes_down.iter())));
    }
    for line in slow_lines(&state.node_times.slow(now), now) {
        say(&line);
    }
    say(&summary(state));
    for line in best_lines(&bests(state, metrics)) {
        say(&line);
    }
    if let Some(name) = folded {
        say(&format!("hsched status {name} shows each job of {name}"));
    }
    text
}

/// The best of several jobs of one model by a common metric, such as the variants of a sweep: the one with
/// the best value after any epoch, as in `hsched results --best`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Best<'a> {
    pub model: &'a str,
    pub metric: &'a str,
    pub job: &'a JobName,
    pub value: f64,
}

/// Returns the best job for each model and metric that several jobs have reported; none if the direction of
/// the metric is unknown.
pub(crate) fn bests<'a>(state: &'a State, metrics: &'a Metrics) -> Vec<Best<'a>> {
    let mut groups: BTreeMap<(&str, &str), Vec<(&JobState, &JobMetric)>> = BTreeMap::new();
    for tracked in &state.jobs {
        if let Some(metric) = metrics.get(&tracked.job.name) {
            groups.entry((&tracked.job.model, &metric.name)).or_default().push((tracked, metric));
        }
    }
    let best = |((model, metric), jobs): ((&'a str, &'a str), Vec<(&'a JobState, &'a JobMetric)>)| {
        let targets = jobs.iter().filter_map(|(tracked, _)| tracked.job.target.as_ref());
        let mode = direction(metric, targets.map(|target| (target.metric.as_str(), target.mode)))?;
        let sign = if mode == GoalMode::Min { 1.0 } else { -1.0 };
        let values = jobs.iter().map(|(tracked, metric)| (tracked, metric.best(mode)));
        let (job, value) = values.min_by(|(_, a), (_, b)| (sign * a).total_cmp(&(sign * b)))?;
        (jobs.len() > 1).then_some(Best { model, metric, job: &job.job.name, value })
    };
    groups.into_iter().filter_map(best).collect()
}

/// Returns the lines of the best jobs, with their models if there are several.
fn best_lines(bests: &[Best<'_>]) -> Vec<String> {
    let several = bests.windows(2).any(|pair| pair[0].model != pair[1].model);
    let line = |best: &Best<'_>| {
        let of = if several { format!(" of {}", best.model) } else { String::new() };
        format!("best {}{of}: {} with {}", best.metric, best.job, number(best.value))
    };
    bests.iter().map(line).collect()
}

/// Returns a number with four significant digits; from 10 000 to 100 000, without decimals.
pub(crate) fn number(value: f64) -> String {
    let size = value.abs();
    if size >= 1e5 || (size < 1e-3 && size > 0.0) {
        return format!("{value:.3e}");
    }
    let decimals = if size > 0.0 { to_usize((3.0 - size.log10().floor()).clamp(0.0, 6.0)) } else { 0 };
    format!("{value:.decimals$}")
}

/// Returns the number of jobs in each state; once all have ended, also their total time.
fn summary(state: &State) -> String {
    let count = |word: &str| state.jobs.iter().filter(|tracked| tracked.phase.word() == word).count();
    let counts: Vec<String> = WORDS
        .iter()
        .map(|word| (count(word), word))
        .filter(|(count, _)| *count > 0)
        .map(|(count, word)| format!("{count} {word}"))
        .collect();
    let counts = counts.join(", ");
    let Some(times) = JobTimes::of(state) else { return counts };
    let mean = times.mean.map(|mean| format!(", mean completion time {}", duration(mean)));
    format!("{counts}: {} in total{}", duration(times.total), mean.unwrap_or_default())
}

/// The times of jobs that have all ended.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct JobTimes {
    /// From the first addition of a job to the last end.
    pub total: Seconds,
    /// Mean time from addition to end of the completed jobs.
    pub mean: Option<Seconds>,
}

impl JobTimes {
    /// Returns the times if all jobs have ended; `None` otherwise or without jobs.
    pub(super) fn of(state: &State) -> Option<Self> {
        let mut ends = Vec::new();
        for tracked in &state.jobs {
            let Phase::Ended { at, outcome } = &tracked.phase else { return None };
            ends.push((tracked.added, *at, *outcome == Outcome::Completed));
        }
        let first = ends.iter().map(|(added, ..)| added.0).min_by(f64::total_cmp)?;
        let last = ends.iter().map(|(_, at, _)| at.0).max_by(f64::total_cmp)?;
        let completed: Vec<f64> = ends
            .iter()
            .filter(|(.., completed)| *completed)
            .map(|(added, at, _)| at.since(*added).0)
            .collect();
        let mean = completed.iter().sum::<f64>() / to_f64(completed.len());
        let mean = (!completed.is_empty()).then_some(Seconds(mean));
        Some(Self { total: Time(last).since(Time(first)), mean })
    }
}

impl<'a> JobSummary<'a> {
    /// Returns the summary of a job.
    pub fn new(tracked: &'a JobState) -> Self {
        let last = || {
            let past = tracked.past.last().filter(|_| tracked.phase.is_over());
            past.map(|past: &PastAttempt| &past.attempt)
        };
        Self { tracked, attempt: tracked.phase.attempt().or_else(last) }
    }

    /// Returns the submissions of an undecided race: the job will get the GPUs of one of them.
    fn race(&self) -> Option<Vec<&'a SubmissionRecord>> {
        let tracked = self.tracked;
        let waits = tracked.phase.running().is_none();
        let all = tracked.phase.submissions().iter().map(|submission| &submission.attempt);
        let all: Vec<&SubmissionRecord> = all.filter(|record| !tracked.is_next(record)).collect();
        (waits && all.len() > 1).then_some(all)
    }

    /// Returns the GPUs of each request of a race.
    pub(super) fn race_gpus(&self) -> Option<String> {
        let all: Vec<String> = self.race()?.iter().map(|record| record.gpus.to_string()).collect();
        Some(all.join(" or "))
    }

    /// Returns the length of the last epoch of this submission, if it has completed one.
    pub(super) fn observed(&self) -> Option<Seconds> {
        let before = self.attempt?.epochs_before;
        self.tracked.epoch.filter(|_| self.tracked.epochs_done > before)
    }

    /// Returns the predicted epoch time, if a speed was known, and the observed one.
    pub(super) fn epoch_time(&self) -> Option<String> {
        let attempt = self.attempt?;
        let predicted = (!attempt.unmeasured).then(|| duration(attempt.epoch));
        match (predicted, self.observed().map(duration)) {
            (Some(predicted), Some(observed)) => Some(format!("{predicted} → {observed}")),
            (predicted, observed) => predicted.or(observed),
        }
    }

    /// Returns when a job ends or ended; for an overdue job, how long it has been silent.
    pub(super) fn ends(&self, now: Time) -> Option<String> {
        if let Phase::Ended { at, .. } = &self.tracked.phase {
            return Some(ago(*at, now));
        }
        if let Some(silence) = self.tracked.overdue(now) {
            return Some(format!("overdue: no epoch for {}", duration(silence)));
        }
        let left = self.tracked.expected_end(now)?.since(now);
        Some(if left.0 < 1.0 { "any moment".to_owned() } else { format!("in {}", duration(left)) })
    }

    /// Returns the remarks for people about a job beyond its state, epochs and times, if there are any.
    fn note(&self, now: Time) -> Option<String> {
        let note = match &self.tracked.phase {
            Phase::Submitted(_) if self.tracked.phase.running().is_some() => None,
            Phase::Waiting { .. } | Phase::Submitted(_) => Some(self.last(now)),
            Phase::Ended { outcome: Outcome::Failed { reason }, .. } => Some(reason.clone()),
            Phase::Ended { outcome: Outcome::Completed, .. } => Some(self.tracked.shortfall())
                .filter(|text| !text.is_empty())
                .map(|text| format!("completed{text}")),
            Phase::Ended { outcome: Outcome::Cancelled, .. } => None,
        };
        let odd = self.attempt.and_then(|attempt| attempt.odd.as_ref()).map(|odd| format!("reports: {odd}"));
        let notes: Vec<String> = self
            .stall()
            .into_iter()
            .chain(note)
            .chain(odd)
            .chain(self.would_stop())
            .chain(late(self.tracked, now))
            .collect();
        (!notes.is_empty()).then(|| notes.join("; "))
    }

    /// Returns how the running submission of a job is stuck.
    pub(crate) fn stall(&self) -> Option<String> {
        let attempt = self.tracked.phase.running()?;
        Some(attempt.stall.as_ref()?.text(attempt.gpus.total()))
    }

    /// Returns why a job could stop, if its rule does not allow the stop.
    fn would_stop(&self) -> Option<String> {
        let early =
            self.tracked.early.as_ref().filter(|early| !early.allowed && !self.tracked.phase.is_over())?;
        Some(format!("could stop: {}", early.why))
    }

    /// Returns the prediction of a job's curve as a sentence.
    pub(super) fn outlook(&self) -> Option<String> {
        let target = self.tracked.job.target.as_ref()?;
        let verdict = self.tracked.free_verdict()?;
        let prediction = verdict.prediction.as_ref()?;
        let what =
            target.value.map_or("improves further".to_owned(), |value| format!("reaches {}", number(value)));
        let chance = verdict.probability.map(|part| format!("; {:.1} % chance that it {what}", 100.0 * part));
        Some(format!(
            "{} {} ± {} at epoch {}, best {} at epoch {}{}",
            target.metric,
            number(prediction.mean),
            number(prediction.spread),
            self.tracked.job.epochs,
            number(verdict.best.value),
            verdict.best.epoch,
            chance.unwrap_or_default()
        ))
    }

    /// Returns the last event and its age, or why the job waits.
    pub fn last(&self, now: Time) -> String {
        let (at, what) = &self.tracked.last;
        match &self.tracked.phase {
            Phase::Waiting { not_before: Some(moment), reason } if *moment > now => {
                format!("{reason}; retry in {}", duration(moment.since(now)))
            }
            Phase::Waiting { reason, .. } => {
                let time = now.since(*at);
                if time.0 < 1.0 { reason.clone() } else { format!("{reason} (for {})", duration(time)) }
            }
            _ if self.race().is_some() => {
                let all = self.race().unwrap_or_default();
                let ids: Vec<String> =
                    all.iter().filter_map(|record| Some(record.job_id?.to_string())).collect();
                let jobs = if ids.is_empty() { String::new() } else { format!(" (jobs {})", ids.join(", ")) };
                format!(
                    "{} requests pending{jobs}, {}; the first to start trains the job",
                    all.len(),
                    ago(*at, now)
                )
            }
            phase => match phase.queue_reason() {
                Some(reason) => format!("{what} ({reason}), {}", ago(*at, now)),
                None => format!("{what}, {}", ago(*at, now)),
            },
        }
    }
}

/// Returns how long ago a time was.
pub(super) fn ago(at: Time, now: Time) -> String {
    let time = now.since(at);
    if time.0 < 1.0 { "just now".to_owned() } else { format!("{} ago", duration(time)) }
}

/// Returns nodes in Slurm's hostlist format.
pub(super) fn nodes<'a>(names: impl Iterator<Item = &'a NodeName>) -> String {
    hostlist::compress(names.map(NodeName::as_str))
}
