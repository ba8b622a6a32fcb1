//! A simulation of `horizon` with GPU counts only and the best packing for every bundle: the prices that a
//! trace would produce.

use crate::classes::Class;
use crate::horizon::outlook::PriceOutlook;
use crate::horizon::task::{Instance, Task, TaskChoice, TaskPlacement};

/// A job of a trace.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct TraceArrival {
    /// Arrival in seconds from an arbitrary origin.
    pub at: f64,
    pub class: usize,
    /// Number of steps to train.
    pub steps: f64,
}

/// The result of a simulation.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Rehearsal {
    /// The end of each job, in seconds.
    pub ends: Vec<f64>,
    /// The time of each decision in seconds, and the prices by type after it.
    pub prices: Vec<(f64, Vec<f64>)>,
}

/// A running or pending job.
struct Under {
    job: usize,
    task: Task,
    busy_until: f64,
}

impl Under {
    /// Returns when a running job ends if nothing changes after `now`.
    fn end(&self, now: f64) -> f64 {
        self.busy_until.max(now) + self.task.left / self.task.speed()
    }
}

/// Relative work below which a job counts as done.
const ROUNDING: f64 = 1e-9;

/// Minimum remaining work assumed for a job, relative to all of its work.
const LEAST_LEFT: f64 = 0.03;

/// Simulates `jobs`, which are sorted by arrival; each restart takes `restart` seconds.
///
/// `None` if a job can never run.
pub(crate) fn rehearse(
    classes: &[Class],
    offered: &[u32],
    jobs: &[TraceArrival],
    restart: f64,
) -> Option<Rehearsal> {
    let mut run = Rehearsal { ends: vec![0.0; jobs.len()], prices: Vec::new() };
    let mut outlook = PriceOutlook::default();
    let mut under: Vec<Under> = Vec::new();
    let mut arrivals = jobs.iter().enumerate().peekable();
    let mut now = jobs.first().map_or(0.0, |job| job.at);
    loop {
        let ends = under.iter().filter(|training| training.task.is_running());
        let ends = ends.map(|training| training.end(now));
        let next = ends.chain(arrivals.peek().map(|(_, job)| job.at)).min_by(f64::total_cmp);
        let Some(next) = next.filter(|next| next.is_finite()) else {
            return under.is_empty().then_some(run);
        };
        for training in &mut under {
            let trained = (next - training.busy_until.max(now)).max(0.0);
            training.task.left -= trained * training.task.speed();
            training.task.age += next - now;
        }
        now = next;
        under.retain(|training| {
            let task = &training.task;
            // If `now` is large, rounding may leave work whose time is too short to change `now`.
            let is_over = task.is_running() && training.end(now) <= now;
            let is_done = is_over || task.left <= ROUNDING * task.whole;
            if is_done {
                run.ends[training.job] = now;
            }
            !is_done
        });
        while let Some((job, arrival)) = arrivals.next_if(|(_, job)| job.at <= now) {
            under.push(Under { job, task: newcomer(arrival, restart), busy_until: now });
        }
        if under.is_empty() {
            outlook.rest();
        } else {
            outlook.gap.pass(now);
            reset(&mut outlook, classes, offered, &mut under, now);
        }
        run.prices.push((now, outlook.prices.clone()));
    }
}

fn newcomer(arrival: &TraceArrival, restart: f64) -> Task {
    Task {
        class: arrival.class,
        weight: 1.0,
        left: arrival.steps,
        whole: arrival.steps,
        age: 0.0,
        restart,
        started: false,
        placement: None,
    }
}

/// Decides once, and applies the jobs' choices.
fn reset(outlook: &mut PriceOutlook, classes: &[Class], offered: &[u32], under: &mut [Under], now: f64) {
    let seen = |training: &Under| Task {
        left: training.task.left.max(LEAST_LEFT * training.task.whole),
        ..training.task.clone()
    };
    let tasks: Vec<Task> = under.iter().map(seen).collect();
    let instance = Instance { classes, tasks: &tasks, offered, preempts: true };
    let (choices, _) = outlook.decide(&instance);
    for (task, (training, choice)) in under.iter_mut().zip(choices).enumerate() {
        let TaskChoice::Take(bundle) = choice else {
            if choice == TaskChoice::Wait {
                training.task.placement = None;
            }
            continue;
        };
        training.busy_until = now + training.task.restart_now();
        training.task.started = true;
        let counts = instance.counts(task, choice).into();
        let speed = instance.speed(task, choice);
        training.task.placement = Some(TaskPlacement { counts, speed, movable: true, bundle: Some(bundle) });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::classes::Bundles;

    /// Returns the class of a job with linear speed on 1 to `most` GPUs of types with these speeds.
    fn linear(most: u32, speeds: &[f64], offered: &[u32]) -> Class {
        let mut bundles = vec![(vec![0; speeds.len()], 0.0)];
        for (ty, (speed, &gpus)) in speeds.iter().zip(offered).enumerate() {
            let more = |bundle: &(Vec<u32>, f64)| {
                let with = |count: u32| {
                    let mut counts = bundle.0.clone();
                    counts[ty] = count;
                    (counts, bundle.1 + f64::from(count) * speed)
                };
                (0..=gpus).map(with).collect::<Vec<_>>()
            };
            bundles = bundles.iter().flat_map(more).collect();
        }
        bundles.retain(|bundle| (1..=most).contains(&bundle.0.iter().sum::<u32>()));
        Class::new(Bundles::new(speeds.len(), bundles), offered)
    }

    /// Returns completion times of jobs of one class, given by arrival and work.
    fn times(class: Class, offered: &[u32], jobs: &[(f64, f64)], restart: f64) -> Vec<f64> {
        let arrival = |&(at, steps): &(f64, f64)| TraceArrival { at, class: 0, steps };
        let jobs: Vec<TraceArrival> = jobs.iter().map(arrival).collect();
        let run = rehearse(&[class], offered, &jobs, restart).expect("all can run");
        run.ends.iter().zip(&jobs).map(|(end, job)| (end - job.at).round()).collect()
    }

    #[test]
    fn equal_linear_jobs_run_one_after_the_other() {
        let jobs = [(0.0, 400.0); 4];
        assert_eq!(times(linear(4, &[1.0], &[4]), &[4], &jobs, 0.0), [100.0, 200.0, 300.0, 400.0]);
    }

    #[test]
    fn a_job_ends_long_after_the_origin_of_time() {
        // Rounding leaves the job some work at its end, too little to change a time of this size.
        assert_eq!(times(linear(1, &[0.6], &[1]), &[1], &[(1e9, 1.0)], 0.0), [2.0]);
    }

    #[test]
    fn the_short_job_gets_the_fast_gpu_first() {
        let jobs = [(0.0, 3600.0), (0.0, 36000.0)];
        assert_eq!(times(linear(1, &[1.0, 0.5], &[1, 1]), &[1, 1], &jobs, 0.0), [3600.0, 37800.0]);
    }

    #[test]
    fn a_short_job_preempts_where_that_pays_its_restart() {
        let class = || linear(2, &[1.0], &[2]);
        assert_eq!(times(class(), &[2], &[(0.0, 2000.0), (300.0, 400.0)], 60.0), [1260.0, 200.0]);
        assert_eq!(times(class(), &[2], &[(0.0, 2000.0), (300.0, 1300.0)], 60.0), [1000.0, 1350.0]);
    }
}
