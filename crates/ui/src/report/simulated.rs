//! Reports of simulations: converts the events of a replay to bars, queues and rows of tables.

use std::collections::BTreeMap;

use super::data::{PolicyRow, Report, ReportJob, ReportKind, ReportRun, Span, SweepPoint, TimeOrigin};
use super::steps::Counter;
use super::timeline::{GpuHolding, Timeline};
use crate::SimulationResult;
use crate::simulation_json::{PolicyPoint, points};
use hsched_lab::replay::{EventKind, ReplayEvent, Trace};
use hsched_plan::kit::{TaskGpu, TaskRun};
use hsched_plan::{Problem, Slot};

/// Collects the events of one replay.
#[derive(Debug)]
pub struct Recorder<'a> {
    trace: &'a Trace,
    /// Numbers of the jobs in order of arrival, by index in the file.
    numbers: Vec<usize>,
    open: BTreeMap<usize, GpuHolding>,
    held: Vec<GpuHolding>,
    /// Bars of single tasks, each with its GPU.
    tasks: Vec<Span>,
    queue: Counter,
}

impl<'a> Recorder<'a> {
    /// Returns a recorder without events.
    pub fn new(trace: &'a Trace) -> Self {
        let mut numbers = vec![0; trace.jobs.len()];
        let mut recorder = Self {
            trace,
            numbers: Vec::new(),
            open: BTreeMap::new(),
            held: Vec::new(),
            tasks: Vec::new(),
            queue: Counter::default(),
        };
        for (number, entry) in trace.jobs.iter().enumerate() {
            numbers[entry.place] = number;
            if let Some(placement) = entry.begun.as_ref().and_then(|begun| begun.held.as_ref()) {
                recorder.begin(number, trace.now.0, 0.0, &placement.slots);
                recorder.queue.change(trace.now.0, -1.0);
            }
        }
        Self { numbers, ..recorder }
    }

    /// Records an event.
    pub fn add(&mut self, event: &ReplayEvent) {
        let Some(job) = event.job.map(|place| self.numbers[place]) else { return };
        let (at, restart) = (event.at.0, event.restart.map_or(0.0, |restart| restart.0));
        match event.kind {
            EventKind::Arrived => self.queue.change(at, 1.0),
            EventKind::Started | EventKind::Moved => {
                if !self.end(job, at) {
                    self.queue.change(at, -1.0);
                }
                self.begin(job, at, restart, &event.slots);
            }
            EventKind::Stopped | EventKind::Failed => {
                if self.end(job, at) {
                    self.queue.change(at, 1.0);
                }
            }
            EventKind::Completed => {
                self.end(job, at);
            }
            EventKind::Task => self.tasks.extend(event.task.as_ref().map(|task| of_task(job, task))),
            EventKind::Round | EventKind::Queued | EventKind::NodeDown | EventKind::NodeBack => {}
        }
    }

    fn begin(&mut self, job: usize, start: f64, restart: f64, slots: &[Slot]) {
        let gpus = slots.iter().map(|slot| named(&self.trace.problem, slot)).collect();
        self.open.insert(job, GpuHolding { job, start, work: start + restart, end: start, gpus });
    }

    /// Ends the bar of a job; returns whether there was one.
    fn end(&mut self, job: usize, at: f64) -> bool {
        let Some(held) = self.open.remove(&job) else { return false };
        self.held.push(GpuHolding { end: at, ..held });
        true
    }

    /// Returns the results of a policy on the trace; bars that are still open end with the replay.
    pub fn run(mut self, run: &SimulationResult, timeline: &mut Timeline) -> ReportRun {
        let last = run.record.in_use.last().map_or(self.trace.now.0, |(at, _)| *at);
        let open = std::mem::take(&mut self.open);
        self.held.extend(open.into_values().map(|held| GpuHolding { end: last.max(held.start), ..held }));
        // A job that holds GPUs task by task has no bar for the whole job.
        self.held.retain(|held| !held.gpus.is_empty());
        let mut in_use = Counter::default();
        let mut before = 0.0;
        for (at, count) in &run.record.in_use {
            in_use.change(*at, f64::from(*count) - before);
            before = f64::from(*count);
        }
        let times = |of: fn(&hsched_lab::replay::ReplayedJob) -> Option<f64>| {
            run.record.jobs.iter().map(of).collect()
        };
        let mut spans = timeline.spans(self.held);
        spans.extend(joined(self.tasks));
        ReportRun {
            name: run.policy.clone(),
            row: row(run),
            started_s: times(|job| job.started.map(|at| at.0)),
            ended_s: times(|job| job.completed.map(|at| at.0)),
            spans,
            queue: self.queue.steps(),
            in_use: in_use.steps(),
        }
    }
}

/// Returns the report of a trace without runs, and its GPUs.
pub fn simulation_report(trace: &Trace) -> (Report, Timeline) {
    let mut report = Report::new(ReportKind::Simulation, TimeOrigin::Elapsed);
    report.jobs = trace
        .jobs
        .iter()
        .map(|entry| ReportJob {
            name: entry.model.name.to_string(),
            arrival_s: entry.arrival.0,
            deadline_s: entry.model.aims.deadline.map(|deadline| deadline.0),
        })
        .collect();
    let mut timeline = Timeline::default();
    let mut counts: BTreeMap<(usize, usize), u32> = BTreeMap::new();
    for gpu in TaskGpu::all(&trace.problem) {
        let count = counts.entry((gpu.node, gpu.gpu_type)).or_default();
        *count += 1;
        let (node, gpu_type, _) =
            named(&trace.problem, &Slot { node: gpu.node, gpu_type: gpu.gpu_type, count: 1 });
        timeline.add(&node, &gpu_type, *count);
    }
    (report, timeline)
}

/// Returns the points of a simulation's sweep.
pub fn sweep_points(runs: &[SimulationResult]) -> Vec<SweepPoint> {
    let point = |point: PolicyPoint<'_>| {
        let time = point.mean(|run| Some(run.figures?.mean_jct));
        SweepPoint {
            policy: point.policy.to_owned(),
            values: point.values.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect(),
            mean_jct_s: time.as_ref().map(|mean| mean.mean),
            mean_jct_s_ci95: time.and_then(|mean| mean.margin),
            ratio: point.mean(SimulationResult::ratio).map(|mean| mean.mean),
        }
    };
    points(runs).into_iter().map(point).collect()
}

fn named(problem: &Problem, slot: &Slot) -> (String, String, u32) {
    let (node, gpu_type) = (&problem.nodes[slot.node].name, &problem.gpu_types[slot.gpu_type]);
    (node.to_string(), gpu_type.to_string(), slot.count)
}

fn of_task(job: usize, task: &TaskRun) -> Span {
    Span { job, start: task.start, work: task.start, end: task.computed, gpus: vec![task.gpu] }
}

/// Merges consecutive tasks of one job on a GPU into one bar.
fn joined(mut tasks: Vec<Span>) -> Vec<Span> {
    tasks.sort_by(|a, b| a.gpus.cmp(&b.gpus).then(a.start.total_cmp(&b.start)));
    let mut bars: Vec<Span> = Vec::new();
    for task in tasks {
        match bars.last_mut() {
            Some(bar)
                if bar.gpus == task.gpus
                    && bar.job == task.job
                    && task.start - bar.end <= 1e-9 * task.start =>
            {
                bar.end = task.end;
            }
            _ => bars.push(task),
        }
    }
    bars.sort_by(|a, b| a.start.total_cmp(&b.start));
    bars
}

fn row(run: &SimulationResult) -> PolicyRow {
    let Some(figures) = run.figures else {
        return PolicyRow { error: run.error.clone(), ..PolicyRow::default() };
    };
    PolicyRow {
        mean_jct_s: Some(figures.mean_jct),
        lower_bound_s: run.lower_bound(),
        ratio: run.ratio(),
        p50_jct_s: Some(figures.p50_jct),
        p99_jct_s: Some(figures.p99_jct),
        makespan_s: Some(figures.makespan),
        mean_wait_s: Some(figures.mean_wait),
        utilisation: Some(figures.utilisation),
        goodput: Some(figures.goodput),
        moves_per_job: Some(figures.moves_per_job),
        deadlines_met: figures.deadlines_met,
        error: run.error.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_that_follow_each_other_are_one_bar() {
        let span = |job, start, end, gpu| Span { job, start, work: start, end, gpus: vec![gpu] };
        let bars = joined(vec![
            span(0, 2.0, 3.0, 1),
            span(0, 0.0, 1.0, 0),
            span(0, 1.0, 2.0, 0),
            span(1, 2.0, 3.0, 0),
        ]);
        assert_eq!(bars, [span(0, 0.0, 2.0, 0), span(1, 2.0, 3.0, 0), span(0, 2.0, 3.0, 1)]);
    }
}
