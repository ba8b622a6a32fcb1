//! The rows of the status table: a job, or a sweep of many jobs in one line.

use std::collections::BTreeMap;

use crate::metric::{Metrics, metric};
use crate::quantity::duration;
use crate::status::{JobSummary, WORDS, bests};
use hsched_engine::{Gpus, JobState, Outcome, Phase, State};
use hsched_model::Time;

/// Number of jobs from which a sweep has a single line.
const MANY: usize = 6;

/// Maximum number of failed jobs of a sweep that are named below its line.
const NAMED: usize = 3;

/// A row of the table.
#[derive(Debug)]
pub(super) enum StatusRow<'a> {
    Job(&'a JobState),
    Sweep(SweepFold<'a>),
}

/// A sweep with its jobs in order.
#[derive(Debug)]
pub(super) struct SweepFold<'a> {
    pub(super) name: &'a str,
    jobs: Vec<&'a JobState>,
}

/// Returns the rows of a state's jobs; a sweep is in the place of its first job.
pub(super) fn rows(state: &State) -> Vec<StatusRow<'_>> {
    let name = |tracked: &'_ JobState| tracked.job.variant.as_ref().map(|variant| variant.sweep.clone());
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for sweep in state.jobs.iter().filter_map(name) {
        *counts.entry(sweep).or_default() += 1;
    }
    let mut rows: Vec<StatusRow<'_>> = Vec::new();
    for tracked in &state.jobs {
        let sweep = tracked.job.variant.as_ref().map(|variant| variant.sweep.as_str());
        let Some(name) = sweep.filter(|name| counts[*name] >= MANY) else {
            rows.push(StatusRow::Job(tracked));
            continue;
        };
        let known = rows.iter_mut().find_map(|row| match row {
            StatusRow::Sweep(sweep) if sweep.name == name => Some(sweep),
            _ => None,
        });
        match known {
            Some(sweep) => sweep.jobs.push(tracked),
            None => rows.push(StatusRow::Sweep(SweepFold { name, jobs: vec![tracked] })),
        }
    }
    rows
}

impl SweepFold<'_> {
    /// Returns the cells of the sweep's line: name, states, GPUs in use, epochs of all jobs, no epoch time,
    /// end, best metric.
    pub(super) fn cells(&self, metrics: &Metrics, now: Time) -> [String; 7] {
        let sum = |count: fn(&JobState) -> u64| self.jobs.iter().map(|tracked| count(tracked)).sum::<u64>();
        let none = || "-".to_owned();
        [
            format!("{} ({} jobs)", self.name, self.jobs.len()),
            self.states(),
            self.gpus().unwrap_or_else(none),
            if self.jobs.iter().all(|tracked| tracked.job.is_command()) {
                none()
            } else {
                format!("{}/{}", sum(|tracked| tracked.epochs_done), sum(|tracked| tracked.job.epochs))
            },
            none(),
            self.end(now).unwrap_or_else(none),
            self.best(metrics).unwrap_or_else(none),
        ]
    }

    /// Returns the number of jobs in each state.
    fn states(&self) -> String {
        let count = |word: &str| self.jobs.iter().filter(|tracked| tracked.phase.word() == word).count();
        let counts = WORDS.iter().map(|word| (count(word), word)).filter(|(count, _)| *count > 0);
        counts.map(|(count, word)| format!("{count} {word}")).collect::<Vec<_>>().join(", ")
    }

    /// Returns the GPUs of the sweep's running jobs.
    fn gpus(&self) -> Option<String> {
        let mut all = Gpus::default();
        for attempt in self.jobs.iter().filter_map(|tracked| tracked.phase.running()) {
            for (node, gpu_type, count) in attempt.gpus.iter() {
                all.add(node, gpu_type, count);
            }
        }
        (all.total() > 0).then(|| all.to_string())
    }

    /// Returns when the last of its jobs ended, or is expected to end; `None` if the end of a job is unknown.
    fn end(&self, now: Time) -> Option<String> {
        if self.jobs.iter().all(|tracked| tracked.phase.is_over()) {
            let last = self.jobs.iter().max_by(|a, b| ended(a).0.total_cmp(&ended(b).0))?;
            return JobSummary::new(last).ends(now);
        }
        let ends: Option<Vec<Time>> = self
            .jobs
            .iter()
            .filter(|tracked| !tracked.phase.is_over())
            .map(|tracked| tracked.expected_end(now))
            .collect();
        let last = ends?.into_iter().map(|end| end.0).max_by(f64::total_cmp)?;
        Some(format!("in {}", duration(Time(last).since(now))))
    }

    /// Returns the best metric of the sweep's jobs; `None` if fewer than two jobs have reported one, or its
    /// direction is unknown.
    fn best(&self, metrics: &Metrics) -> Option<String> {
        let jobs: Vec<JobState> = self.jobs.iter().map(|tracked| (*tracked).clone()).collect();
        let state = State { jobs, ..State::default() };
        bests(&state, metrics).first().map(|best| format!("best {}", metric(best.metric, best.value)))
    }

    /// Returns why jobs failed: the first few by name, and the number of the others.
    pub(super) fn note(&self) -> Option<String> {
        let failed: Vec<String> = self
            .jobs
            .iter()
            .filter_map(|tracked| match &tracked.phase {
                Phase::Ended { outcome: Outcome::Failed { reason }, .. } => {
                    Some(format!("{}: {reason}", tracked.job.name))
                }
                _ => None,
            })
            .collect();
        let more = failed.len().saturating_sub(NAMED);
        let more = (more > 0).then(|| format!("and {more} more"));
        let notes: Vec<String> = failed.into_iter().take(NAMED).chain(more).collect();
        (!notes.is_empty()).then(|| notes.join("; "))
    }
}

fn ended(tracked: &JobState) -> Time {
    match &tracked.phase {
        Phase::Ended { at, .. } => *at,
        Phase::Waiting { .. } | Phase::Submitted(_) => Time(0.0),
    }
}
