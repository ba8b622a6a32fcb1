//! The results of a replay: each job's, and the figures of all.

use crate::replay::Trace;
use hsched_model::Time;
use hsched_model::number::to_f64;
use hsched_plan::kit::TaskGpu;

/// All that a replay says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReplayRecord {
    pub policy: &'static str,
    /// In the order of the trace's jobs.
    pub jobs: Vec<ReplayedJob>,
    /// GPU-seconds that jobs held.
    pub held: f64,
    /// GPU-seconds of those in which a restart kept them from their training.
    pub restarting: f64,
    /// The number of GPUs that jobs hold from each moment on.
    pub in_use: Vec<(f64, u32)>,
    /// How often the policy was asked.
    pub decisions: u64,
    /// How long it took, in seconds.
    pub decision_time: f64,
    /// The most jobs that were there at once.
    pub most_present: usize,
    /// What is known of a replay of single tasks; `None` where jobs held all their GPUs together.
    pub tasks: Option<TaskFacts>,
    /// The part of all nodes' time in rounds in which copies trained; `None` where jobs had none.
    pub cru: Option<f64>,
    /// Whether the policy decides in rounds of its own.
    pub in_rounds: bool,
}

/// What a replay of single tasks knows beside what became of the jobs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TaskFacts {
    /// How tasks were assigned to GPUs, where that is a choice.
    pub assign: Option<&'static str>,
    /// What no schedule's Σ weight × completion undercuts, for the jobs that can run.
    pub lower_bound: Option<f64>,
    /// The price of a GPU by type; empty where there is none.
    pub prices: Vec<f64>,
    /// By job in the order of the trace, when the middle of each of its rounds is due, in seconds.
    pub middles: Vec<Vec<f64>>,
    /// The groups in which GPUs are given out, where there are some.
    pub groups: Vec<Vec<TaskGpu>>,
    /// By job in the order of the trace, how long a round takes an average group, in seconds; `None` where it cannot run.
    pub round_times: Vec<Option<f64>>,
}

/// What became of a job.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReplayedJob {
    pub started: Option<Time>,
    pub completed: Option<Time>,
    /// How often it changed its GPUs or got some again.
    pub moves: u32,
    pub failures: u32,
    /// Epochs done.
    pub done: f64,
    /// Whether the policy ended it before all its epochs were done.
    pub cut_short: bool,
    /// Why it has not ended.
    pub why: Option<String>,
}

/// The figures of a replay; times in seconds, over the jobs that ended.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Figures {
    pub ended: usize,
    /// Mean time from arrival to completion, and its percentiles by nearest rank.
    pub mean_jct: f64,
    pub p50_jct: f64,
    pub p90_jct: f64,
    pub p99_jct: f64,
    /// The last completion, from the trace's start.
    pub makespan: f64,
    /// Σ weight × completion from the trace's start.
    pub weighted_completion: f64,
    /// Mean time from arrival to first start.
    pub mean_wait: f64,
    /// GPU-seconds held over those that there were from the first arrival to the last completion.
    pub utilisation: f64,
    /// The same without restarts.
    pub goodput: f64,
    pub moves_per_job: f64,
    /// The part of the jobs with a deadline that were done by it; `None` where no job has one.
    pub deadlines_met: Option<f64>,
    /// Jobs that ended before their last epoch.
    pub stopped_early: usize,
    /// The longest time from arrival to completion over the shortest that the job could take alone.
    pub longest_stretch: f64,
}

impl Figures {
    /// Returns the figures of a replay; `None` when no job ended.
    pub fn of(trace: &Trace, record: &ReplayRecord) -> Option<Self> {
        let mut figures = Self::default();
        let mut times = Vec::with_capacity(record.jobs.len());
        let mut moves = 0_u64;
        for (number, (entry, job)) in trace.jobs.iter().zip(&record.jobs).enumerate() {
            moves += u64::from(job.moves);
            let Some(completed) = job.completed else { continue };
            figures.stopped_early += usize::from(job.cut_short);
            let jct = completed.since(entry.arrival).0;
            times.push(jct);
            figures.makespan = figures.makespan.max(completed.0);
            figures.weighted_completion += entry.model.weight * completed.0;
            figures.mean_wait += job.started.map_or(0.0, |started| started.since(entry.arrival).0);
            if let Some(fastest) = trace.paces.of(number).fastest {
                let alone = entry.model.progress.work * fastest;
                figures.longest_stretch = figures.longest_stretch.max(jct / alone);
            }
        }
        figures.deadlines_met = deadlines_met(trace, record);
        if times.is_empty() {
            return None;
        }
        let ended = to_f64(times.len());
        figures.ended = times.len();
        figures.mean_jct = times.iter().sum::<f64>() / ended;
        figures.mean_wait /= ended;
        figures.moves_per_job = to_f64(moves) / to_f64(record.jobs.len());
        times.sort_by(f64::total_cmp);
        (figures.p50_jct, figures.p90_jct, figures.p99_jct) =
            (percentile(&times, 50), percentile(&times, 90), percentile(&times, 99));
        let gpus = f64::from(trace.problem.offered().iter().sum::<u32>());
        let there = gpus * (figures.makespan - trace.first_arrival().0);
        if there > 0.0 {
            figures.utilisation = record.held / there;
            figures.goodput = (record.held - record.restarting) / there;
        }
        Some(figures)
    }
}

/// Returns the part of the jobs with a deadline that were done by it.
fn deadlines_met(trace: &Trace, record: &ReplayRecord) -> Option<f64> {
    let due = trace
        .jobs
        .iter()
        .zip(&record.jobs)
        .filter_map(|(entry, job)| Some((entry.model.aims.deadline?, job)));
    let (met, all) = due.fold((0.0, 0.0), |(met, all), (deadline, job)| {
        let is_met = job.completed.is_some_and(|completed| completed.0 <= deadline.0);
        (met + f64::from(is_met), all + 1.0)
    });
    (all > 0.0).then(|| met / all)
}

/// Returns the percentile of sorted numbers, at least one, by nearest rank.
fn percentile(sorted: &[f64], percent: usize) -> f64 {
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted[rank - 1]
}
