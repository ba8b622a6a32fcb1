//! One random future: the run time of each job, and the arriving jobs.

use std::sync::Arc;

use rand::RngExt;
use rand_pcg::Pcg64Mcg;

use crate::arrivals::{Arrival, Belief};
use crate::chance::{Purpose, sequence, unit};
use crate::history::Ratios;
use crate::queue_model::{QueueModel, QueuePart};

/// A future of one part of the queue, the same for all requests simulated in it.
#[derive(Clone, Debug)]
pub(super) struct Future {
    /// `None`: all jobs run to their limits, and nothing arrives.
    seed: Option<u64>,
    /// The fractions of their limits that each user's jobs run.
    habits: Arc<Vec<Ratios>>,
    /// The next arrival, and the run time of each of its tasks in seconds; `None` until it is needed.
    next: Option<(Arrival, f64)>,
    /// Number of arrivals so far, and the time of the last one.
    came: u32,
    last: Option<f64>,
    random: Pcg64Mcg,
    belief: Option<Belief>,
    /// Whether no more jobs arrive.
    is_over: bool,
}

impl Future {
    /// Returns the future in which all jobs run to their limits and nothing arrives.
    pub(super) fn at_limits() -> Self {
        Self {
            seed: None,
            habits: Arc::default(),
            next: None,
            came: 0,
            last: None,
            random: sequence(0, Purpose::Arrival, 0),
            is_over: true,
            belief: None,
        }
    }

    /// Returns the future of a seed.
    pub(super) fn of(model: &QueueModel, seed: u64) -> Self {
        let random = sequence(seed, Purpose::Arrival, 0);
        let habits = Arc::new(model.habits.believed(&mut sequence(seed, Purpose::Habit, 0)));
        Self { seed: Some(seed), habits, random, is_over: false, ..Self::at_limits() }
    }

    /// Returns when a job that runs at the time of the snapshot ends: at least a second after the snapshot.
    pub(super) fn end_of_running(&self, model: &QueueModel, part: &QueuePart, number: usize) -> f64 {
        let job = &part.running[number];
        let so_far = (model.now - job.since).max(0.0) / job.limit;
        let ratio = match self.seed {
            None => 1.0,
            Some(seed) => self.habits[job.habit].draw(so_far, unit(seed, Purpose::Running, number as u64)),
        };
        // A job past its limit is about to be stopped.
        (job.since + ratio * job.limit).max(model.now + 1.0)
    }

    /// Returns the run time of a pending job's task, in seconds.
    pub(super) fn run_of_waiting(&self, part: &QueuePart, number: usize, task: u32) -> f64 {
        let job = &part.waiting[number];
        let Some(seed) = self.seed else { return job.limit };
        let index = (number as u64) << 24 ^ u64::from(task);
        self.habits[job.habit].draw(0.0, unit(seed, Purpose::Waiting, index)) * job.limit
    }

    /// Returns the next arrival, and the run time of each of its tasks in seconds; `None` if nothing more
    /// arrives.
    pub(super) fn next_arrival(&mut self, model: &QueueModel, part: &QueuePart) -> Option<&(Arrival, f64)> {
        if self.next.is_none() && !self.is_over {
            let belief =
                self.belief.get_or_insert_with(|| part.arrivals.belief(&self.habits, &mut self.random));
            let before = self.last.unwrap_or(model.now);
            let order = (u32::MAX / 2).saturating_add(self.came);
            let arrival = part.arrivals.next(belief, before, order, model, &mut self.random);
            self.next = arrival.map(|arrival| {
                let drawn = self.habits[arrival.habit].draw(0.0, self.random.random());
                let run = arrival.ratio.unwrap_or(drawn) * arrival.limit;
                (arrival, run)
            });
            self.is_over = self.next.is_none();
        }
        self.next.as_ref()
    }

    /// Takes the next arrival if it comes no later than a given time, in Unix seconds.
    pub(super) fn take_arrival(
        &mut self,
        by: f64,
        model: &QueueModel,
        part: &QueuePart,
    ) -> Option<(Arrival, f64)> {
        self.next_arrival(model, part)?;
        let next = self.next.take_if(|(arrival, _)| arrival.at <= by)?;
        self.last = Some(next.0.at);
        self.came += 1;
        Some(next)
    }
}
