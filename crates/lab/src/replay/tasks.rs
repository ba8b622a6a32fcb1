//! Replays a trace task by task: each task computes on one GPU at any time. This is the model of the papers
//! on Hare and HLAS. It needs a parameter server that waits for tasks, which no real cluster has; it knows no
//! restarts, failures or decision rounds.

use crate::replay::event::{EventKind, ReplayEvent};
use crate::replay::figures::{ReplayRecord, ReplayedJob, TaskFacts};
use crate::replay::run::Hooks;
use crate::replay::trace::Trace;
use crate::replay::world::NO_TYPE;
use hsched_model::Time;
use hsched_model::number::to_f64;
use hsched_plan::Rounds;
use hsched_plan::kit::{TaskRun, Tasks};

/// A policy that assigns single tasks to GPUs.
pub trait TaskPolicy: std::fmt::Debug + Send + Sync {
    /// Returns the name on the command line.
    fn name(&self) -> &'static str;

    /// Returns the history of all jobs; `keys` are their settings for rounds.
    fn play(&self, tasks: &Tasks, keys: &[&Rounds]) -> TaskHistory;
}

/// The executed tasks and other events, by the jobs' indices in the file.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskHistory {
    pub runs: Vec<TaskRun>,
    /// Additional events of the policy.
    pub queued: Vec<ReplayEvent>,
    pub facts: TaskFacts,
    pub decisions: u64,
}

/// Replays a trace task by task. Equal arguments give equal records except for decision times.
pub fn replay_tasks(trace: &Trace, policy: &dyn TaskPolicy, hooks: Hooks<'_>) -> ReplayRecord {
    let start = (hooks.elapsed)();
    // In the order of the file, which decides ties.
    let mut by_place: Vec<usize> = (0..trace.jobs.len()).collect();
    by_place.sort_by_key(|number| trace.jobs[*number].place);
    let in_file = by_place.iter().map(|number| &trace.jobs[*number]);
    let tasks = Tasks::new(
        &trace.problem,
        in_file.clone().map(|entry| (&entry.model, entry.arrival.0, entry.model.epochs)),
    );
    let keys: Vec<_> = in_file.map(|entry| &*entry.model.rounds).collect();
    let course = policy.play(&tasks, &keys);
    let TaskHistory { runs, queued, mut facts, decisions } = course;
    facts.middles = reordered(&facts.middles, trace);
    facts.round_times = reordered(&facts.round_times, trace);
    let mut record = record(trace, &tasks, &runs);
    (record.policy, record.decisions, record.tasks) = (policy.name(), decisions, Some(facts));
    record.decision_time = (hooks.elapsed)() - start;
    let events = events(trace, &record, &runs, queued);
    (hooks.progress)(record.jobs.len());
    events.iter().for_each(hooks.event);
    record
}

/// Converts values from the order of the file to the order of the trace.
fn reordered<T: Clone>(by_place: &[T], trace: &Trace) -> Vec<T> {
    trace.jobs.iter().filter_map(|entry| by_place.get(entry.place).cloned()).collect()
}

/// Returns the results of the jobs.
fn record(trace: &Trace, tasks: &Tasks, runs: &[TaskRun]) -> ReplayRecord {
    let mut jobs = vec![ReplayedJob::default(); tasks.jobs.len()];
    let mut record = ReplayRecord::default();
    for run in runs {
        let job_record = &mut jobs[run.job];
        let started = job_record.started.map_or(run.start, |other| other.0.min(run.start));
        let completed = job_record.completed.map_or(run.synced, |other| other.0.max(run.synced));
        (job_record.started, job_record.completed) = (Some(Time(started)), Some(Time(completed)));
        record.held += run.computed - run.start;
    }
    for (job_record, job) in jobs.iter_mut().zip(&tasks.jobs) {
        if job.fastest().is_none() {
            job_record.why = Some(NO_TYPE.to_owned());
        } else {
            let rounds = to_f64(job.rounds);
            job_record.done = rounds;
        }
    }
    record.in_use = in_use(trace.first_arrival(), runs);
    record.most_present = most_present(trace, &jobs);
    record.jobs = reordered(&jobs, trace);
    record
}

/// Returns the number of computing GPUs from each time on.
fn in_use(first: Time, runs: &[TaskRun]) -> Vec<(f64, u32)> {
    let mut changes: Vec<(f64, i64)> =
        runs.iter().flat_map(|run| [(run.start, 1), (run.computed, -1)]).collect();
    changes.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut steps = vec![(first.0, 0)];
    let mut count = 0_i64;
    for (at, change) in changes {
        count += change;
        let now = u32::try_from(count).unwrap_or(0);
        match steps.last_mut() {
            Some((last, last_count)) if *last == at => *last_count = now,
            _ => steps.push((at, now)),
        }
    }
    steps
}

/// Returns the maximum number of jobs that are present at once, among those that end.
fn most_present(trace: &Trace, by_place: &[ReplayedJob]) -> usize {
    let ending =
        trace.jobs.iter().filter_map(|entry| Some((entry.arrival.0, by_place[entry.place].completed?.0)));
    let mut changes: Vec<(f64, bool)> =
        ending.flat_map(|(arrival, completed)| [(arrival, true), (completed, false)]).collect();
    changes.sort_by(|a, b| a.0.total_cmp(&b.0).then(b.1.cmp(&a.1)));
    let mut count = 0_usize;
    let counts = changes.into_iter().map(|(_, comes)| {
        count = if comes { count + 1 } else { count.saturating_sub(1) };
        count
    });
    counts.max().unwrap_or(0)
}

/// Returns all events ordered by time, kind and file.
fn events(
    trace: &Trace,
    record: &ReplayRecord,
    runs: &[TaskRun],
    queued: Vec<ReplayEvent>,
) -> Vec<ReplayEvent> {
    let mut events = queued;
    for (entry, job_record) in trace.jobs.iter().zip(&record.jobs) {
        events.push(ReplayEvent::of_job(entry.arrival, EventKind::Arrived, entry.place));
        let mut add =
            |at: Option<Time>, kind| events.extend(at.map(|at| ReplayEvent::of_job(at, kind, entry.place)));
        add(job_record.started, EventKind::Started);
        add(job_record.completed, EventKind::Completed);
    }
    let task = |run: &TaskRun| ReplayEvent {
        task: Some(*run),
        ..ReplayEvent::of_job(Time(run.start), EventKind::Task, run.job)
    };
    events.extend(runs.iter().map(task));
    let within = |event: &ReplayEvent| event.task.map(|task| (task.round, task.task));
    events.sort_by(|a, b| {
        let rest = |event: &ReplayEvent| (event.kind, event.job, within(event));
        a.at.0.total_cmp(&b.at.0).then_with(|| rest(a).cmp(&rest(b)))
    });
    events
}
