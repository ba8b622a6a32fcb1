//! The runs of a simulation: every policy in every cell of the sweep, on all cores.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::commands::simulate::cores::on_all_cores;
use hsched_lab::hadare::{HadareParameters, replay_copies};
use hsched_lab::replay::{
    Hooks, Options, ReplayError, ReplayEvent, ReplayRecord, TaskPolicy, Trace, replay, replay_tasks,
};
use hsched_model::formats;
use hsched_model::{ErrorId, Seconds};
use hsched_plan::{Parameters, PolicyError};
use hsched_ui::{Exit, Failure, ProgressLine, SweepCell};

/// A varied parameter with its values.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum SweepAxis {
    Load(Vec<f64>),
    Seed(Vec<u64>),
    RestartCost(Vec<Seconds>),
    Noise(Vec<f64>),
}

/// One replay.
pub(super) struct CellRun {
    /// Index of the cell that the replay belongs to.
    pub cell: usize,
    pub policy: String,
    /// The record, or the reason for its absence: the problem is too large for the policy, or the policy does
    /// not support jobs of replicas.
    pub record: Result<ReplayRecord, String>,
}

/// The result of a replay: its record, or why the policy cannot handle the trace.
type ReplayOutcome = Result<Result<ReplayRecord, String>, Failure>;

/// The policy that forks jobs into copies.
pub(in crate::commands) const HADARE: &str = "hadare";

/// Maximum number of seeds, before duplicates are removed.
const MOST_SEEDS: usize = 10_000;

impl SweepAxis {
    /// Parses `load=0.5,0.8` or `seed=0..9`.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let (name, values) = text.split_once('=').ok_or("must be WHAT=VALUES, such as seed=0..9")?;
        match name {
            "load" => Ok(Self::Load(once(numbers(values, 0.001..=1000.0)?))),
            "noise" => Ok(Self::Noise(once(numbers(values, 0.0..=0.999)?))),
            "seed" => Ok(Self::Seed(once(whole_numbers(values)?))),
            "restart-cost" => {
                let duration = |text| formats::parse_duration(text).map_err(|error| error.to_string());
                Ok(Self::RestartCost(once(values.split(',').map(duration).collect::<Result<_, _>>()?)))
            }
            _ => Err(format!("{name:?} cannot be varied; load, seed, restart-cost and noise can")),
        }
    }

    fn name(&self) -> &'static str {
        match self {
            Self::Load(_) => "load",
            Self::Seed(_) => "seed",
            Self::RestartCost(_) => "restart_cost_s",
            Self::Noise(_) => "noise",
        }
    }
}

/// Removes duplicate values: a run that is counted twice would narrow the interval.
fn once<T: PartialEq>(values: Vec<T>) -> Vec<T> {
    let mut kept = Vec::with_capacity(values.len());
    for value in values {
        if !kept.contains(&value) {
            kept.push(value);
        }
    }
    kept
}

fn numbers(text: &str, range: std::ops::RangeInclusive<f64>) -> Result<Vec<f64>, String> {
    let number = |part: &str| {
        let number = formats::parse_number(part).map_err(|error| error.to_string())?;
        let wrong = || format!("must be from {} to {}, got {part}", range.start(), range.end());
        range.contains(&number).then_some(number).ok_or_else(wrong)
    };
    text.split(',').map(number).collect()
}

fn whole_numbers(text: &str) -> Result<Vec<u64>, String> {
    let number = |part: &str| formats::parse_whole(part, 0..=u64::MAX).map_err(|error| error.to_string());
    let mut all = Vec::new();
    for part in text.split(',') {
        match part.split_once("..") {
            Some((first, last)) => {
                let (first, last) = (number(first)?, number(last)?);
                if last < first {
                    return Err(format!("{part} must increase"));
                }
                all.extend((first..=last).take(MOST_SEEDS + 1));
            }
            None => all.push(number(part)?),
        }
        if all.len() > MOST_SEEDS {
            return Err(format!("must have at most {MOST_SEEDS} values in all"));
        }
    }
    Ok(all)
}

/// Returns the cells of a sweep: every combination of its values, with seeds varying fastest.
///
/// # Errors
/// If an axis is given twice, or the trace has no load that could vary, or starts in the middle.
pub(super) fn cells(
    trace: &Arc<Trace>,
    options: &Options,
    sweep: &[SweepAxis],
) -> Result<Vec<SweepCell>, Failure> {
    let first =
        SweepCell { trace: Arc::clone(trace), options: options.clone(), values: Vec::new(), bound: None };
    let mut cells = vec![first];
    let mut axes: Vec<&SweepAxis> = sweep.iter().collect();
    axes.sort_by_key(|axis| matches!(axis, SweepAxis::Seed(_)));
    for (place, axis) in axes.iter().enumerate() {
        if axes[..place].iter().any(|other| other.name() == axis.name()) {
            let message = format!("--sweep {} is given twice", axis.name());
            return Err(Failure::new(Exit::Usage, message)
                .id(ErrorId::OptionsConflict)
                .hint("give all its values in one --sweep"));
        }
        let mut loads = BTreeMap::new();
        if let SweepAxis::Load(values) = axis {
            if !trace.is_whole() {
                let message = "cannot scale the load: the trace starts in the middle (now, steps_done, held)";
                return Err(Failure::new(Exit::BadInput, message).id(ErrorId::TraceFile));
            }
            for value in values {
                let scaled = trace.with_load(*value).ok_or_else(|| {
                    let message =
                        "cannot scale the load: all jobs of the trace arrive at once, or none can run";
                    Failure::new(Exit::BadInput, message).id(ErrorId::TraceFile)
                })?;
                loads.insert(value.to_bits(), Arc::new(scaled));
            }
        }
        cells = cells.iter().flat_map(|cell| varied(cell, axis, &loads)).collect();
    }
    Ok(cells)
}

/// Returns one cell for each value of an axis.
fn varied(cell: &SweepCell, axis: &SweepAxis, loads: &BTreeMap<u64, Arc<Trace>>) -> Vec<SweepCell> {
    let with = |value: f64, change: &dyn Fn(&mut SweepCell)| {
        let mut cell = cell.clone();
        cell.values.push((axis.name(), value));
        change(&mut cell);
        cell
    };
    match axis {
        SweepAxis::Load(values) => {
            let load = |&value: &f64| with(value, &|cell| cell.trace = Arc::clone(&loads[&value.to_bits()]));
            values.iter().map(load).collect()
        }
        SweepAxis::RestartCost(values) => {
            let cost = |&value: &Seconds| with(value.0, &|cell| cell.options.restart_cost = Some(value));
            values.iter().map(cost).collect()
        }
        SweepAxis::Noise(values) => {
            values.iter().map(|&value| with(value, &|cell| cell.options.noise = value)).collect()
        }
        SweepAxis::Seed(values) => {
            let seeded = |&seed: &u64| {
                let options = Options { seed, ..cell.options.clone() };
                SweepCell { options, ..cell.clone() }
            };
            values.iter().map(seeded).collect()
        }
    }
}

/// The data for replays.
pub(super) struct SweepRunner<'a> {
    pub policies: &'a [String],
    pub parameters: Parameters,
    /// The policies that are replayed task by task.
    pub tasks: Vec<Box<dyn TaskPolicy>>,
    /// The parameters of the policy that forks jobs into copies.
    pub copies: HadareParameters,
    /// Returns the elapsed time in seconds.
    pub elapsed: &'a (dyn Fn() -> f64 + Sync),
}

impl SweepRunner<'_> {
    /// Replays one cell policy by policy and emits every event.
    ///
    /// # Errors
    /// If a policy breaks its contract.
    pub(super) fn one_by_one(
        &self,
        cell: &SweepCell,
        event: &mut dyn FnMut(&str, &ReplayEvent),
    ) -> Result<Vec<CellRun>, Failure> {
        let progress = ProgressLine::start("simulating".to_owned());
        let mut runs = Vec::new();
        for name in self.policies {
            let say =
                |ended| progress.say(format!("simulating {name}: {ended} of {} jobs", cell.trace.jobs.len()));
            let record = self.run(cell, name, &mut |replayed| event(name, replayed), &say)?;
            runs.push(CellRun { cell: 0, policy: name.clone(), record });
        }
        Ok(runs)
    }

    /// Replays all cells under all policies on all cores; returns the results ordered by cell, then by
    /// policy.
    ///
    /// # Errors
    /// If a policy breaks its contract.
    pub(super) fn all(&self, cells: &[SweepCell]) -> Result<Vec<CellRun>, Failure> {
        let tasks: Vec<(usize, &String)> =
            (0..cells.len()).flat_map(|cell| self.policies.iter().map(move |name| (cell, name))).collect();
        let done = AtomicUsize::new(0);
        let progress = ProgressLine::start("simulating".to_owned());
        let say = |name: &str, ended: usize| {
            let all = if tasks.len() == 1 {
                String::new()
            } else {
                format!("{} of {} runs, ", done.load(Ordering::Relaxed), tasks.len())
            };
            progress.say(format!("simulating: {all}{name} {ended} of {} jobs", cells[0].trace.jobs.len()));
        };
        let results = on_all_cores(&tasks, |&(cell, name)| {
            let result = self.run(&cells[cell], name, &mut |_| (), &|ended| say(name, ended));
            done.fetch_add(1, Ordering::Relaxed);
            result
        });
        let run = |(&(cell, name), record): (&(usize, &String), ReplayOutcome)| {
            Ok(CellRun { cell, policy: name.clone(), record: record? })
        };
        tasks.iter().zip(results).map(run).collect()
    }

    fn run(
        &self,
        cell: &SweepCell,
        name: &str,
        event: &mut dyn FnMut(&ReplayEvent),
        progress: &dyn Fn(usize),
    ) -> ReplayOutcome {
        let tasks = self.tasks.iter().find(|policy| policy.name() == name);
        let of_single_gpus = tasks.map(|policy| policy.name()).or((name == HADARE).then_some(HADARE));
        if let (Some(policy), Some(job)) = (of_single_gpus, cell.trace.job_of_replicas()) {
            let error = PolicyError::SingleGpus { policy, job: job.clone() };
            return Ok(Err(error.to_string()));
        }
        if let Some(policy) = tasks {
            let hooks = Hooks { event, progress: &mut |ended| progress(ended), elapsed: self.elapsed };
            return Ok(Ok(replay_tasks(&cell.trace, policy.as_ref(), hooks)));
        }
        if name == HADARE {
            let hooks = Hooks { event, progress: &mut |ended| progress(ended), elapsed: self.elapsed };
            return Ok(Ok(replay_copies(&cell.trace, &cell.options, &self.copies, hooks)));
        }
        let mut policy = hsched_lab::find_over_time(name, &self.parameters)
            .map_err(|error| Failure::from_error(Exit::Internal, &error))?;
        let hooks = Hooks { event, progress: &mut |ended| progress(ended), elapsed: self.elapsed };
        let round = cell.options.round.or_else(|| policy.round());
        let options = Options { round, ..cell.options.clone() };
        match replay(&cell.trace, &options, policy.as_mut(), hooks) {
            Ok(record) => Ok(Ok(record)),
            // A problem that one policy cannot handle does not affect the others.
            Err(ReplayError::Policy(
                error @ (PolicyError::TooLarge { .. } | PolicyError::SingleGpus { .. }),
            )) => Ok(Err(error.to_string())),
            Err(error) => Err(Failure::from_error(Exit::Internal, &error)
                .hint("please report this, with the trace and the cluster file")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_counts_the_seeds_of_all_ranges() {
        let count = |text: &str| whole_numbers(text).map(|seeds| seeds.len());
        assert_eq!((count("0..9999"), count("3,0..9998")), (Ok(10_000), Ok(10_000)));
        let error = Err("must have at most 10000 values in all".to_owned());
        for text in ["0..10000", "0..9999,10000..19999", "3,0..9999", "0..18446744073709551615"] {
            assert_eq!(count(text), error, "{text}");
        }
        assert_eq!(count("2..1"), Err("2..1 must increase".to_owned()));
    }
}
