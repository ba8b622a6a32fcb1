//! The results of a replay: the results of each job, and aggregate metrics.

use crate::replay::Trace;
use hsched_model::Time;
use hsched_model::number::to_f64;
use hsched_plan::kit::TaskGpu;

/// The complete results of a replay.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReplayRecord {
    pub policy: &'static str,
    /// In the order of the trace's jobs.
    pub jobs: Vec<ReplayedJob>,
    /// GPU-seconds held by jobs up to the last completion.
    pub held: f64,
    /// The part of these GPU-seconds that restarts took, including the waits of moved jobs in the queue.
    pub restarting: f64,
    /// The number of GPUs held by jobs, from each time on.
    pub in_use: Vec<(f64, u32)>,
    /// Number of decisions of the policy.
    pub decisions: u64,
    /// Total time of the decisions, in seconds.
    pub decision_time: f64,
    /// Maximum number of jobs that were present at once.
    pub most_present: usize,
    /// Data of a replay of single tasks; `None` if jobs held all their GPUs at once.
    pub tasks: Option<TaskFacts>,
    /// Fraction of the time of all nodes in rounds in which copies trained; `None` without copies.
    pub cru: Option<f64>,
    /// Whether the policy decides in its own rounds.
    pub in_rounds: bool,
}

/// Data of a replay of single tasks besides the jobs' results.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TaskFacts {
    /// The rule for assigning tasks to GPUs, if there is a choice.
    pub assign: Option<&'static str>,
    /// Lower bound on Σ weight × completion for all schedules, over the jobs that can run.
    pub lower_bound: Option<f64>,
    /// The price of a GPU by type; empty if there are no prices.
    pub prices: Vec<f64>,
    /// By job in the order of the trace, the middle times of its rounds in seconds.
    pub middles: Vec<Vec<f64>>,
    /// The groups in which GPUs are assigned, if there are any.
    pub groups: Vec<Vec<TaskGpu>>,
    /// By job in the order of the trace, the time of a round on an average group in seconds; `None` if the
    /// job cannot run.
    pub round_times: Vec<Option<f64>>,
}

/// The results of a job.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReplayedJob {
    pub started: Option<Time>,
    pub completed: Option<Time>,
    /// Number of times that the job changed its GPUs or got GPUs again.
    pub moves: u32,
    pub failures: u32,
    /// Completed epochs.
    pub done: f64,
    /// Whether the job ended before its last epoch, by the policy or by its stopping rule.
    pub cut_short: bool,
    /// Why the job has not ended.
    pub why: Option<String>,
}

/// The metrics of a replay. Times are in seconds and cover the jobs that ended.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Figures {
    pub ended: usize,
    /// Mean time from arrival to completion, and its nearest-rank percentiles.
    pub mean_jct: f64,
    pub p50_jct: f64,
    pub p90_jct: f64,
    pub p99_jct: f64,
    /// The last completion, from time 0 of the trace.
    pub makespan: f64,
    /// Σ weight × completion, from time 0 of the trace.
    pub weighted_completion: f64,
    /// Mean time from arrival to first start.
    pub mean_wait: f64,
    /// Held GPU-seconds divided by available ones, from the first arrival to the last completion.
    pub utilisation: f64,
    /// Held GPU-seconds without restarts and the waits of moved jobs, divided by available ones.
    pub goodput: f64,
    pub moves_per_job: f64,
    /// Fraction of the jobs with a deadline that met it; `None` if no job has one.
    pub deadlines_met: Option<f64>,
    /// Jobs that ended before their last epoch.
    pub stopped_early: usize,
    /// The maximum over jobs of the time from arrival to completion divided by the shortest time alone.
    pub longest_stretch: f64,
}

impl Figures {
    /// Returns the metrics of a replay; `None` if no job ended.
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

/// Returns the fraction of the jobs with a deadline that met it.
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

/// Returns the nearest-rank percentile of a non-empty sorted list.
fn percentile(sorted: &[f64], percent: usize) -> f64 {
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted[rank - 1]
}
