//! The shared core of policies that give each job its requested number of GPUs: free GPUs, pending jobs, and
//! the speeds of each kind of job.

use std::collections::BTreeMap;

use crate::kit::floor::{Floor, Want};
use crate::kit::lasting_order::LastingOrder;
use crate::kit::line::{GpuShape, Line, Merge, OrderKey, order};
use crate::pace::{asked_epoch, key};
use crate::progress::EpochsLeft;
use crate::{Decision, JobModel, Problem, ProblemChanges, Repacking};
use hsched_model::Time;

/// The GPUs, the jobs waiting for them, and the speed of each kind of job.
#[derive(Default)]
pub struct SchedulingState {
    pub floor: Floor,
    pub line: Line,
    /// The index of each kind, by all properties that affect its speed.
    pub kinds: BTreeMap<Vec<u64>, usize>,
    pub rates: Vec<Rates>,
    pub seats: Vec<Seat>,
    pub repacking: Repacking,
}

/// Data of a job that every decision needs, in compact form, because scanning the whole problem would be
/// slow.
#[derive(Clone, Copy, Default)]
pub struct Seat {
    pub kind: usize,
    /// The job's present type, if it holds its requested number of GPUs of one type.
    pub now: Option<usize>,
    /// Number of GPUs that the job holds.
    pub gpus: u32,
    /// GPU-seconds that the job has received until `as_of`, a time in seconds.
    pub attained: f64,
    pub as_of: f64,
    pub arrival: u64,
    /// Factor by which the job's present type is preferred.
    pub stick: f64,
    /// The job's remaining epochs; `None` if the job has more than one submission.
    left: Option<EpochsLeft>,
}

impl Seat {
    /// Returns `Progress::left` if it is stored here.
    pub fn left(&self, now: Time) -> Option<f64> {
        self.left.map(|left| left.at(now))
    }

    pub fn attained(&self, now: Time) -> f64 {
        self.attained + f64::from(self.gpus) * (now.0 - self.as_of).max(0.0)
    }
}

/// Preference factors for a job's present type: if moving costs time, and if it does not.
const STICK: (f64, f64) = (1.3, 1.001);

/// Speeds of jobs of one kind with their requested GPUs.
#[derive(Clone, Debug, PartialEq)]
pub struct Rates {
    /// Requested number of replicas.
    pub asks: u32,
    /// GPUs per replica by type; empty if each GPU is a replica.
    sizes: Vec<u32>,
    /// Epochs per second by GPU type; 0 if the job cannot run there.
    pub speeds: Vec<f64>,
    /// The highest of these speeds.
    pub best: f64,
}

impl Rates {
    /// Returns the requested number of GPUs of a type.
    pub fn gpus(&self, gpu_type: usize) -> u32 {
        self.asks * self.sizes.get(gpu_type).copied().unwrap_or(1)
    }

    /// Returns the smallest number of GPUs over all usable types.
    pub fn least_gpus(&self) -> u32 {
        let usable = (0..self.speeds.len()).filter(|&ty| self.speeds[ty] > 0.0);
        usable.map(|ty| self.gpus(ty)).min().unwrap_or(self.asks)
    }

    /// Returns the shape of jobs of this kind.
    pub fn shape(&self) -> GpuShape {
        let gpus = |(ty, &speed): (usize, &f64)| if speed > 0.0 { self.gpus(ty) } else { 0 };
        (self.asks, self.speeds.iter().enumerate().map(gpus).collect())
    }
}

impl SchedulingState {
    pub fn new(repacking: Repacking) -> Self {
        Self { repacking, ..Self::default() }
    }

    /// Allocates the GPUs of `wants`, and returns the plan for the jobs whose GPUs change.
    pub fn carry_out(&mut self, problem: &Problem, wants: Vec<Want>) -> Vec<(usize, Decision)> {
        self.floor.carry_out(problem, wants, self.repacking)
    }

    /// Updates the changed jobs; pending jobs are sorted by `rank`.
    pub fn sync(&mut self, problem: &Problem, rank: &dyn Fn(&JobModel, &Rates) -> OrderKey) {
        if self.floor.sync(problem) {
            (self.kinds, self.rates, self.line) = (BTreeMap::new(), Vec::new(), Line::default());
        }
        let all: Vec<usize>;
        let (came, other, left): (&[usize], &[usize], &[usize]) = match &problem.changed {
            ProblemChanges::All => {
                all = problem.present().collect();
                (&all, &[], &[])
            }
            ProblemChanges::Since { came, left, other } => (came, other, left),
        };
        for &job in left {
            self.line.remove(job);
        }
        self.seats.resize(problem.jobs.len().max(self.seats.len()), Seat::default());
        for &job in came {
            self.seats[job].kind = self.kind(problem, job);
        }
        for &job in came.iter().chain(other) {
            let model = &problem.jobs[job];
            self.seat(model, job);
            self.line.remove(job);
            if model.progress.running().next().is_some() {
                self.line.run(job);
            } else if model.progress.is_ready() {
                let rates = &self.rates[self.seats[job].kind];
                self.line.wait(job, rates.shape(), rank(model, rates));
            }
        }
    }

    pub fn rates(&self, job: usize) -> &Rates {
        &self.rates[self.seats[job].kind]
    }

    pub fn seat(&mut self, model: &JobModel, job: usize) {
        let progress = &model.progress;
        let held = self.floor.held(job);
        let gpus = held.iter().map(|slot| slot.count).sum();
        let kind = self.seats[job].kind;
        let gpu_type = held.first().map(|slot| slot.gpu_type);
        let is_own = gpu_type.is_some_and(|ty| gpus == self.rates[kind].gpus(ty))
            && held.iter().all(|slot| Some(slot.gpu_type) == gpu_type);
        self.seats[job] = Seat {
            kind,
            now: gpu_type.filter(|_| is_own),
            gpus,
            attained: progress.attained,
            as_of: progress.as_of.0,
            arrival: order(progress.arrival.0),
            left: EpochsLeft::of(progress),
            stick: if progress.restart_cost.0 > 0.0 { STICK.0 } else { STICK.1 },
        };
    }

    pub fn kind(&mut self, problem: &Problem, job: usize) -> usize {
        let model = &problem.jobs[job];
        let key = key(model);
        if let Some(&known) = self.kinds.get(&key) {
            return known;
        }
        let speeds: Vec<f64> =
            (0..problem.gpu_types.len()).map(|ty| self.speed(problem, model, ty)).collect();
        let best = speeds.iter().copied().fold(0.0, f64::max);
        let sizes = model.replica.as_ref().map(|replica| replica.sizes.clone()).unwrap_or_default();
        self.rates.push(Rates { asks: model.asks, sizes, speeds, best });
        self.kinds.insert(key, self.rates.len() - 1);
        self.rates.len() - 1
    }

    /// Returns the epochs per second of a job on GPUs of one type.
    pub fn speed(&self, problem: &Problem, model: &JobModel, gpu_type: usize) -> f64 {
        let (total, largest) = (self.floor.total[gpu_type], self.floor.largest[gpu_type]);
        asked_epoch(problem, model, gpu_type, total, largest).map_or(0.0, f64::recip)
    }

    /// Assigns to every job in order its fastest type with room, as if all GPUs were free; returns the
    /// changes.
    ///
    /// `running` are the running jobs in their order, and pending jobs are merged into it by rank. A job's
    /// present type is preferred by the factor [`Seat::stick`]. A job that does not fit does not block the
    /// next one.
    pub fn in_order(&self, running: &[(OrderKey, usize)]) -> Vec<Want> {
        let mut round = OfferRound::new(self);
        round.offer_all(running);
        round.end()
    }

    /// Assigns GPUs in the same way to running jobs whose ranks persist, and skips blocks of jobs that keep
    /// their GPUs.
    pub fn in_lasting_order(&self, running: &mut LastingOrder) -> Vec<Want> {
        let mut round = OfferRound::new(self);
        for block in running.blocks(self) {
            if round.merge.peek().is_some_and(|next| next < block.last()) || !block.keeps_all(&mut round.room)
            {
                round.offer_all(block.jobs());
            }
        }
        let wants = round.end();
        debug_assert_eq!(
            wants,
            self.in_order(&running.all()),
            "blocks that were passed over changed nothing"
        );
        wants
    }

    /// Returns the type of a job's GPUs, if it holds its requested number of one type.
    pub fn type_of(&self, job: usize) -> Option<usize> {
        self.seats[job].now
    }

    /// Returns the running jobs in order.
    pub fn running(&mut self, rank: impl Fn(usize, &Seat, &Rates) -> OrderKey) -> Vec<(OrderKey, usize)> {
        let Self { seats, rates, line, .. } = self;
        let rank = |job: usize| rank(job, &seats[job], &rates[seats[job].kind]);
        let ranked = line.running().iter().map(|&job| (rank(job), job));
        let mut ranked: Vec<(OrderKey, usize)> = ranked.collect();
        // The last decision left the jobs almost in this order, which makes a stable sort fast.
        #[expect(clippy::stable_sort_primitive, reason = "fast if nearly all jobs are in order")]
        ranked.sort();
        line.keep_order(&ranked);
        ranked
    }

    /// Returns a job's requested GPUs, of one type.
    pub fn counts(&self, job: usize, gpu_type: usize) -> Vec<u32> {
        let mut counts = vec![0; self.floor.total.len()];
        counts[gpu_type] = self.rates(job).gpus(gpu_type);
        counts
    }
}

/// A round in which each job in order is offered the GPUs left by earlier ones.
struct OfferRound<'a> {
    state: &'a SchedulingState,
    /// Remaining GPUs by type.
    room: Vec<u32>,
    merge: Merge,
    wants: Vec<Want>,
}

impl<'a> OfferRound<'a> {
    fn new(state: &'a SchedulingState) -> Self {
        Self { state, room: state.floor.total.clone(), merge: state.line.merge(), wants: Vec::new() }
    }

    /// Offers GPUs to running jobs, and to pending jobs that precede them.
    fn offer_all(&mut self, running: &[(OrderKey, usize)]) {
        for &(rank, job) in running {
            while self.merge.peek().is_some_and(|next| next < (rank, job)) {
                self.offer_next();
            }
            if !self.offer(job) {
                self.wants.push(Want::wait(job));
            }
        }
    }

    fn offer_next(&mut self) {
        if let Some(next) = self.merge.next(&self.state.line)
            && !self.offer(next.job)
        {
            self.merge.drop_shape(&next);
        }
    }

    /// Gives a job its fastest type with room; returns whether there is one.
    fn offer(&mut self, job: usize) -> bool {
        let rates = self.state.rates(job);
        let Seat { now, stick, .. } = self.state.seats[job];
        let Some(gpu_type) = fastest(rates, &self.room, now.map(|current| (current, stick))) else {
            return false;
        };
        self.room[gpu_type] -= rates.gpus(gpu_type);
        if now != Some(gpu_type) {
            self.wants.push(Want::place(job, self.state.counts(job, gpu_type)));
        }
        true
    }

    /// Offers GPUs to the remaining pending jobs; returns the changes.
    fn end(mut self) -> Vec<Want> {
        while self.merge.peek().is_some() {
            self.offer_next();
        }
        self.wants
    }
}

/// Returns the fastest type with room for a job, the last of equally fast ones; `now` is its present type
/// with the preference factor.
pub fn fastest(rates: &Rates, room: &[u32], now: Option<(usize, f64)>) -> Option<usize> {
    let mut best: Option<(f64, usize)> = None;
    for (gpu_type, (&speed, &room)) in rates.speeds.iter().zip(room).enumerate() {
        if room < rates.gpus(gpu_type) || speed <= 0.0 {
            continue;
        }
        let speed = match now {
            Some((current, stick)) if current == gpu_type => speed * stick,
            _ => speed,
        };
        if best.is_none_or(|(most, _)| speed >= most) {
            best = Some((speed, gpu_type));
        }
    }
    best.map(|(_, gpu_type)| gpu_type)
}
