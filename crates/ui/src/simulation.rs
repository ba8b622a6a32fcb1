//! The results of policies on a trace: a table, the fraction of completed jobs over time, and the GPUs in use
//! over time.

use std::fmt::Write as _;
use std::sync::Arc;

use crate::quantity::{duration, percent};
use crate::text::wrap;
use crate::{Align, Table, Terminal};
use hsched_lab::replay::{Figures, Options, ReplayRecord, Trace};
use hsched_model::Seconds;
use hsched_model::number::{to_f64, to_usize};
use hsched_plan::TraceBound;

/// One combination of varied parameters.
#[derive(Clone)]
pub struct SweepCell {
    pub trace: Arc<Trace>,
    pub options: Options,
    /// The varied parameters that are not averaged, with their values; names as in the JSON.
    pub values: Vec<(&'static str, f64)>,
    /// The lower bound for all schedules of the trace, if it was computed.
    pub bound: Option<Arc<TraceBound>>,
}

/// The result of one policy on a trace.
pub struct SimulationResult {
    pub cell: SweepCell,
    pub policy: String,
    pub record: ReplayRecord,
    pub figures: Option<Figures>,
    /// Why the policy cannot handle the trace; its record is then empty.
    pub error: Option<String>,
}

/// Levels of a column, from empty to full.
const BLOCKS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Maximum number of columns of a picture.
const WIDEST: usize = 72;

impl SimulationResult {
    /// Returns the result of a replay with its metrics, or with the error if the policy cannot handle the
    /// trace.
    pub fn new(cell: SweepCell, policy: String, record: Result<ReplayRecord, String>) -> Self {
        let (record, error) = match record {
            Ok(record) => (record, None),
            Err(error) => (ReplayRecord::default(), Some(error)),
        };
        let figures = Figures::of(&cell.trace, &record);
        Self { cell, policy, record, figures, error }
    }

    /// Returns the lower bound on the mean completion time in seconds. `None` if it was not computed, or if it
    /// does not apply: it requires that each job trains all its epochs, on all its GPUs at once.
    pub(super) fn lower_bound(&self) -> Option<f64> {
        let applies = self.keeps_jobs_whole() && self.record.jobs.iter().all(|job| !job.cut_short);
        self.cell.bound.as_ref().filter(|_| applies).map(|bound| bound.lower)
    }

    /// Returns whether every job trains on all its GPUs at once, neither in copies nor task by task.
    fn keeps_jobs_whole(&self) -> bool {
        self.record.tasks.is_none() && self.record.cru.is_none()
    }

    /// Returns the mean completion time divided by the lower bound; `None` without a bound, or if some jobs
    /// have not ended.
    pub(super) fn ratio(&self) -> Option<f64> {
        Some(self.figures?.mean_jct / self.lower_bound()?).filter(|_| self.has_all_ended())
    }

    /// Returns the relative distance of Σ weight × completion from its lower bound, if jobs are replayed task
    /// by task and there is a lower bound above 0.
    pub(super) fn task_gap(&self) -> Option<f64> {
        let lower = self.record.tasks.as_ref()?.lower_bound.filter(|lower| *lower > 0.0)?;
        Some(self.figures?.weighted_completion / lower - 1.0)
    }

    /// Returns whether all jobs of the trace have ended.
    pub(super) fn has_all_ended(&self) -> bool {
        self.figures.is_some_and(|figures| figures.ended == self.record.jobs.len())
    }

    /// Returns the times from arrival to completion in ascending order.
    fn times(&self) -> Vec<f64> {
        let jobs = self.cell.trace.jobs.iter().zip(&self.record.jobs);
        let times = jobs.filter_map(|(entry, job)| Some(job.completed?.since(entry.arrival).0));
        let mut times: Vec<f64> = times.collect();
        times.sort_by(f64::total_cmp);
        times
    }
}

/// Returns the table and the pictures of some replays of one trace.
pub fn simulation_table(runs: &[SimulationResult], terminal: Terminal) -> String {
    let Some(first) = runs.first() else { return String::new() };
    let gpus: u32 = first.cell.trace.problem.offered().iter().sum();
    let load = first.cell.trace.load().map_or_else(String::new, |load| format!(", load {load:.2}"));
    let count = first.cell.trace.jobs.len();
    let jobs = if count == 1 { "job" } else { "jobs" };
    let restart = restart_clause(runs, &first.cell.options);
    let mut text = format!("{count} {jobs} on {gpus} GPUs{load}{restart}\n");
    if let Some(lower) = runs.iter().find_map(SimulationResult::lower_bound) {
        let lower = duration(Seconds(lower));
        let but = if runs.iter().all(SimulationResult::keeps_jobs_whole) {
            ""
        } else {
            " unless jobs train in copies or task by task"
        };
        let sentence = format!(
            "No schedule of all jobs has a mean JCT below {lower}{but}; RATIO is relative to \
                this bound."
        );
        text.push_str(&wrap(&sentence, terminal.width(), ""));
    }
    text.push('\n');
    text.push_str(&table(runs).show(terminal));
    let notes = runs.iter().filter_map(unfinished).chain(runs.iter().filter_map(task_by_task));
    let notes = notes.chain(runs.iter().filter_map(stopped_early));
    for (number, note) in notes.enumerate() {
        text.push_str(if number == 0 { "\n" } else { "" });
        let _ = writeln!(text, "{}", wrap(&note, terminal.width(), ""));
    }
    let names = runs.iter().map(|run| run.policy.chars().count()).max().unwrap_or(0);
    let width = terminal.width().saturating_sub(names + 2).min(WIDEST);
    if width >= 16 {
        done_by_time(runs, names, width, &mut text);
        gpus_in_use(runs, names, width, &mut text);
    }
    text
}

fn table(runs: &[SimulationResult]) -> Table {
    let bounded = runs.iter().any(|run| run.lower_bound().is_some());
    let compared = if bounded { "RATIO" } else { "VS BEST" };
    let has_deadlines =
        runs.iter().any(|run| run.figures.is_some_and(|figures| figures.deadlines_met.is_some()));
    let mut headings = vec![
        ("POLICY", Align::Left),
        ("MEAN JCT", Align::Right),
        (compared, Align::Right),
        ("P50", Align::Right),
        ("P99", Align::Right),
        ("WAIT", Align::Right),
        ("STRETCH", Align::Right),
        ("GPUS USED", Align::Right),
        ("MOVES/JOB", Align::Right),
    ];
    headings.extend(has_deadlines.then_some(("DEADLINES", Align::Right)));
    let mut table = Table::new(&headings);
    let means = runs.iter().filter(|run| run.has_all_ended()).filter_map(|run| Some(run.figures?.mean_jct));
    let best = means.fold(f64::INFINITY, f64::min);
    for run in runs {
        let dash = || "-".to_owned();
        let Some(figures) = run.figures else {
            let others = std::iter::repeat_with(dash).take(headings.len() - 1);
            table.row(std::iter::once(run.policy.clone()).chain(others));
            continue;
        };
        let time = |seconds: f64| duration(Seconds(seconds));
        // Means over fewer jobs are not comparable.
        let compared = if bounded {
            run.ratio().map(|ratio| format!("{ratio:.3}"))
        } else {
            run.has_all_ended().then(|| format!("+{:.1} %", 100.0 * (figures.mean_jct / best - 1.0)))
        };
        let met = has_deadlines.then(|| figures.deadlines_met.map_or_else(dash, percent));
        let cells = [
            run.policy.clone(),
            time(figures.mean_jct),
            compared.unwrap_or_else(dash),
            time(figures.p50_jct),
            time(figures.p99_jct),
            time(figures.mean_wait),
            format!("{:.1}", figures.longest_stretch),
            percent(figures.utilisation),
            format!("{:.2}", figures.moves_per_job),
        ];
        table.row(cells.into_iter().chain(met));
    }
    table
}

/// Returns why there are no metrics, or how many jobs have not ended, with the reason for the first one.
fn unfinished(run: &SimulationResult) -> Option<String> {
    if let Some(error) = &run.error {
        return Some(error.clone());
    }
    let open = run.cell.trace.jobs.iter().zip(&run.record.jobs).filter(|(_, job)| job.completed.is_none());
    let mut open: Vec<_> = open.collect();
    open.sort_by_key(|(entry, _)| entry.place);
    let (entry, job) = open.first()?;
    let why = job.why.as_deref().unwrap_or("it had not arrived");
    let (count, all, name) = (open.len(), run.record.jobs.len(), &entry.model.name);
    let rest = if count == all { "" } else { "; the figures cover the other jobs" };
    Some(match count {
        1 => format!("{}: job {name} has not ended: {why}{rest}", run.policy),
        _ => format!("{}: {count} of {all} jobs have not ended{rest}; {name}: {why}", run.policy),
    })
}

/// Returns how many jobs ended before their last epoch, by the policy or by their stopping rules; `None` if
/// none did.
fn stopped_early(run: &SimulationResult) -> Option<String> {
    let count = run.figures?.stopped_early;
    let jobs = if count == 1 { "job" } else { "jobs" };
    (count > 0).then(|| format!("{}: {count} {jobs} stopped before the last epoch", run.policy))
}

/// Returns a note that jobs were replayed task by task, with the distance from the lower bound.
fn task_by_task(run: &SimulationResult) -> Option<String> {
    let facts = run.record.tasks.as_ref()?;
    let near = match (facts.lower_bound, run.figures, run.task_gap()) {
        (Some(lower), Some(figures), Some(gap)) => format!(
            "; the sum of weight times completion is {:.0} s, {:.1} % above its lower bound of {lower:.0} s",
            figures.weighted_completion,
            100.0 * gap
        ),
        _ => String::new(),
    };
    Some(format!(
        "{}: runs task by task, which no real cluster can do (use --execution gangs for that){near}",
        run.policy
    ))
}

/// Returns what the first line says about restarts; nothing if all replays are in copies or task by task.
fn restart_clause(runs: &[SimulationResult], options: &Options) -> String {
    if !runs.iter().any(SimulationResult::keeps_jobs_whole) {
        return String::new();
    }
    let cost = duration(options.restart_cost.unwrap_or(options.usual_restart_cost));
    let exception = if options.restart_cost.is_some() { "" } else { " unless a job has its own" };
    format!("; a restart costs {cost}{exception}")
}

/// Adds a line per policy: the fraction of all jobs that complete within each time after their arrival.
fn done_by_time(runs: &[SimulationResult], names: usize, width: usize, text: &mut String) {
    let times: Vec<Vec<f64>> = runs.iter().map(SimulationResult::times).collect();
    let shortest = times.iter().filter_map(|time| time.first()).copied().fold(f64::INFINITY, f64::min);
    let longest = times.iter().filter_map(|time| time.last()).copied().fold(0.0, f64::max);
    if longest <= 0.0 {
        return;
    }
    let low = shortest.max(longest * 1e-5);
    let ends: Vec<f64> = steps(width).map(|part| low * (longest / low).powf(part)).collect();
    let _ = writeln!(
        text,
        "\nFraction of jobs completed within a time after arrival (full height: all jobs; \
            logarithmic time)"
    );
    for (run, times) in runs.iter().zip(&times) {
        let done =
            |end: &f64| share(times.partition_point(|time| *time <= end * 1.000_001), run.record.jobs.len());
        line(&run.policy, names, ends.iter().map(done), text);
    }
    axis(names, width, [low, (low * longest).sqrt(), longest], text);
}

/// Adds a line per policy: the mean fraction of GPUs in use over time.
fn gpus_in_use(runs: &[SimulationResult], names: usize, width: usize, text: &mut String) {
    let Some(first) = runs.first() else { return };
    let start = first.cell.trace.first_arrival().0;
    let end = runs.iter().filter_map(|run| run.record.in_use.last()).map(|(at, _)| *at).fold(start, f64::max);
    if end <= start {
        return;
    }
    let gpus = f64::from(first.cell.trace.problem.offered().iter().sum::<u32>());
    let _ = writeln!(text, "\nGPUs in use (full height: all {gpus})");
    for run in runs {
        let used = mean_use(&run.record.in_use, start, end, width);
        line(&run.policy, names, used.into_iter().map(|count| count / gpus), text);
    }
    axis(names, width, [start, f64::midpoint(start, end), end], text);
}

/// Returns the means of a step function over equal parts of a period.
fn mean_use(steps: &[(f64, u32)], start: f64, end: f64, parts: usize) -> Vec<f64> {
    let long = (end - start) / to_f64(parts);
    let edge = |part: usize| if part + 1 >= parts { end } else { start + long * to_f64(part + 1) };
    let mut sums = vec![0.0; parts];
    for (place, &(from, count)) in steps.iter().enumerate() {
        let until = steps.get(place + 1).map_or(end, |(at, _)| *at);
        let mut at = from.max(start);
        let first = to_usize((at - start) / long).min(parts - 1);
        for (part, sum) in sums.iter_mut().enumerate().skip(first) {
            if at >= until {
                break;
            }
            // Rounding may make parts empty.
            let step = edge(part).min(until);
            if step > at {
                *sum += (step - at) * f64::from(count);
                at = step;
            }
        }
    }
    sums.into_iter().map(|sum| sum / long).collect()
}

fn steps(width: usize) -> impl Iterator<Item = f64> {
    (0..width).map(move |column| to_f64(column) / to_f64((width - 1).max(1)))
}

fn share(count: usize, all: usize) -> f64 {
    to_f64(count) / to_f64(all.max(1))
}

fn line(name: &str, names: usize, parts: impl Iterator<Item = f64>, text: &mut String) {
    // Rounding must not add a block.
    let block = |part: f64| BLOCKS[to_usize((part.clamp(0.0, 1.0) * 8.0 - 1e-6).ceil())];
    let blocks: String = parts.map(block).collect();
    let _ = writeln!(text, "{name:<names$}  {}", blocks.trim_end());
}

/// Adds the times at the left, in the middle and at the right of a picture.
fn axis(names: usize, width: usize, times: [f64; 3], text: &mut String) {
    let [left, middle, right] = times.map(|time| duration(Seconds(time)));
    let (half, rest) = (width / 2, width - width / 2);
    let _ = writeln!(
        text,
        "{:names$}  {left:<half$}{middle:<}{right:>}",
        "",
        half = half.saturating_sub(middle.len() / 2),
        right = right_aligned(&right, rest, &middle)
    );
}

fn right_aligned(text: &str, width: usize, before: &str) -> String {
    let room = width.saturating_sub(before.len() - before.len() / 2);
    format!("{text:>room$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mean_use_of_a_period_too_short_for_its_parts_is_finite() {
        let start = 1e9_f64;
        let (middle, end) = (start.next_up(), start.next_up().next_up());
        let used = mean_use(&[(start, 1), (middle, 0)], start, end, 40);
        assert_eq!(used.iter().sum::<f64>(), 20.0, "half of 40 parts: {used:?}");
    }
}
