//! Jobs as graphs of tasks, replayed round by round under MLF-H.

use crate::mlfs::{GraphRound, MlfsParameters, graph_round};
use hsched_model::{GraphJob, Server};

/// The results of a job; times in seconds from the trace's start.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct GraphRecord {
    pub started: Option<f64>,
    pub completed: Option<f64>,
    /// Number of moves of its tasks.
    pub moves: u32,
}

/// Parameters of the replay.
#[derive(Clone, Copy, Debug)]
pub struct GraphOptions {
    /// Initial time.
    pub now: f64,
    /// Seconds from one round to the next.
    pub round: f64,
    /// Maximum number of rounds.
    pub rounds: Option<u64>,
    pub parameters: MlfsParameters,
}

/// Number of consecutive rounds without progress, after all jobs have arrived, at which the replay ends.
const IDLE: u32 = 10_000;

/// By job and task, the earliest time at which the task can compute once its dependencies have completed.
type ReadyTimes = Vec<Vec<f64>>;

/// Replays graphs until all have ended, `options.rounds` rounds are over, or no task makes progress any more;
/// calls `tell` with each round and its time.
///
/// A placed task computes once all its dependencies have completed. GPUs that become free are assigned in the
/// next round.
pub fn replay_graphs(
    servers: &[Server],
    mut jobs: Vec<GraphJob>,
    options: &GraphOptions,
    tell: &mut dyn FnMut(f64, &[GraphJob], &GraphRound),
) -> Vec<GraphRecord> {
    let mut records = vec![GraphRecord::default(); jobs.len()];
    let mut ready: ReadyTimes = jobs.iter().map(|job| vec![options.now; job.tasks.len()]).collect();
    let (mut now, mut count, mut idle) = (options.now, 0, 0);
    while options.rounds.is_none_or(|most| count < most) && idle < IDLE {
        if records.iter().all(|record| record.completed.is_some()) {
            break;
        }
        let round = graph_round(servers, &mut jobs, now, &options.parameters);
        for placed in &round.placed {
            let (job, task) = placed.task;
            let is_moved = round.migrated.contains(&placed.task);
            ready[job][task] = now + if is_moved { options.parameters.restart } else { 0.0 };
            records[job].moves += u32::from(is_moved);
            records[job].started.get_or_insert(now);
        }
        tell(now, &jobs, &round);
        let mut has_worked = false;
        for (number, job) in jobs.iter_mut().enumerate().filter(|(_, job)| job.arrival <= now) {
            has_worked |= work(job, &mut ready[number], now, now + options.round, &mut records[number]);
        }
        let is_waiting = jobs.iter().all(|job| job.arrival <= now);
        idle = if has_worked || !is_waiting { 0 } else { idle + 1 };
        now += options.round;
        count += 1;
    }
    records
}

/// Advances the tasks of a job from one time to another; returns whether any task made progress.
fn work(job: &mut GraphJob, ready: &mut [f64], from: f64, to: f64, record: &mut GraphRecord) -> bool {
    let mut has_worked = false;
    // Dependencies first.
    for task in job.children_first().unwrap_or_default().into_iter().rev() {
        let is_free = |(_, parent): &(usize, &hsched_model::GraphTask)| {
            !parent.children.contains(&task) || parent.is_done()
        };
        let waits = !job.tasks.iter().enumerate().all(|task| is_free(&task));
        let graph_task = &mut job.tasks[task];
        if graph_task.is_done() {
            continue;
        }
        if graph_task.on.is_none() {
            graph_task.waited += to - from;
            continue;
        }
        let begin = ready[task].max(from);
        if waits || begin >= to {
            continue;
        }
        has_worked = true;
        if begin + graph_task.left > to {
            graph_task.left -= to - begin;
            continue;
        }
        let end = begin + graph_task.left;
        (graph_task.left, graph_task.on) = (0.0, None);
        for child in graph_task.children.clone() {
            ready[child] = ready[child].max(end);
        }
        record.completed = Some(record.completed.map_or(end, |last| last.max(end)));
    }
    if job.tasks.iter().any(|task| !task.is_done()) {
        record.completed = None;
    }
    has_worked
}
