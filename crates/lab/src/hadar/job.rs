//! A job in the quantities of a round, and its utility.

use crate::hadar::cells::{CellParts, Cells};
use hsched_model::number::to_f64;
use hsched_model::{Seconds, Time};
use hsched_plan::kit::{SHARE_TOLERANCE, comm_time};
use hsched_plan::{JobModel, Sharing, Slot, TypeModel};

/// User-defined parameters of `hadar`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct HadarParameters {
    /// How the batch of a job is divided over GPUs of several types; equally in the paper.
    pub sharing: Sharing,
    pub utility: Utility,
    pub worth: Worth,
    /// L, the length of a round.
    pub round: Seconds,
}

/// U(d), the utility of finishing within d seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Utility {
    /// Steps per second, as in the paper; it favours long jobs.
    #[default]
    Throughput,
    /// The job's time alone divided by d.
    Normalised,
}

/// The amount that a job can pay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Worth {
    /// U(d), as in the paper.
    #[default]
    Finish,
    /// U(d) − U(d + L), the loss from waiting for one round.
    Delay,
}

impl Utility {
    /// Both variants with their names on the command line.
    pub(crate) const NAMES: [(&'static str, Self); 2] =
        [("throughput", Self::Throughput), ("normalised", Self::Normalised)];
}

impl Worth {
    /// Both variants with their names on the command line.
    pub(crate) const NAMES: [(&'static str, Self); 2] = [("finish", Self::Finish), ("delay", Self::Delay)];
}

impl Default for HadarParameters {
    /// Returns the parameters of the paper.
    fn default() -> Self {
        Self {
            sharing: Sharing::Equal,
            utility: Utility::default(),
            worth: Worth::default(),
            round: Seconds(360.0),
        }
    }
}

/// Fraction of a job's steps that remains at least, in case its length was underestimated.
const LEAST_LEFT: f64 = 1e-9;

/// A job of a round.
#[derive(Clone, Debug)]
pub(super) struct HadarJob {
    /// Index in the problem.
    pub number: usize,
    /// W, the number of requested GPUs.
    pub gpus: u32,
    /// a, the arrival in seconds.
    pub arrival: f64,
    /// E N, the total number of steps, and R, the remaining ones.
    pub steps: f64,
    pub left: f64,
    /// X, steps per second of one GPU by type; `None` if the job cannot use this type or the cluster has
    /// none.
    pub rates: Vec<Option<f64>>,
    pub held: CellParts,
    /// Seconds that a start takes, unless the job keeps its current GPUs.
    pub restart: f64,
    /// Bytes per step on the slowest link of a ring.
    pub ring_bytes: f64,
    /// The greatest and the smallest X.
    pub fastest: f64,
    pub slowest: f64,
}

impl HadarJob {
    /// Returns an arrived job of the problem; `None` if it can use none of the available types.
    pub(super) fn new(number: usize, model: &JobModel, cells: &Cells, now: Time) -> Option<Self> {
        let per_epoch = to_f64(model.samples_per_epoch.div_ceil(model.global_batch));
        let is_there = |ty: usize| cells.list.iter().any(|cell| cell.gpu_type == ty);
        let rate = |(ty, type_model): (usize, &Option<TypeModel>)| {
            type_model.filter(|_| is_there(ty)).and_then(|type_model| rate(model, type_model, model.asks))
        };
        let rates: Vec<Option<f64>> = model.types.iter().enumerate().map(rate).collect();
        let known = || rates.iter().copied().flatten();
        let (fastest, slowest) = (known().max_by(f64::total_cmp)?, known().min_by(f64::total_cmp)?);
        let progress = &model.progress;
        let held = |slot: &Slot| {
            let at =
                cells.list.iter().position(|cell| (cell.node, cell.gpu_type) == (slot.node, slot.gpu_type));
            at.map(|cell| (cell, slot.count))
        };
        let mut held: CellParts = progress.running().flat_map(|hold| &hold.slots).filter_map(held).collect();
        held.sort_unstable();
        Some(Self {
            number,
            gpus: model.asks,
            arrival: progress.arrival.0,
            steps: progress.work * per_epoch,
            left: progress.unfinished(now).max(LEAST_LEFT * progress.work) * per_epoch,
            held,
            restart: progress.restart_cost.0,
            ring_bytes: comm_time(model, model.asks, 1.0) / per_epoch,
            rates,
            fastest,
            slowest,
        })
    }

    /// Returns the job's steps per second on GPUs that it can use.
    pub(super) fn speed(&self, cells: &Cells, parts: &CellParts, sharing: Sharing) -> f64 {
        let rates =
            || parts.iter().filter_map(|&(cell, n)| Some((self.rates[cells.list[cell].gpu_type]?, n)));
        let compute = match sharing {
            Sharing::Equal => {
                f64::from(self.gpus) * rates().map(|(rate, _)| rate).fold(f64::INFINITY, f64::min)
            }
            Sharing::Balanced => rates().map(|(rate, count)| rate * f64::from(count)).sum(),
        };
        let comm = if self.gpus > 1 { self.ring_bytes / cells.ring(parts) } else { 0.0 };
        (compute.recip() + comm).recip()
    }

    /// Returns the job's shortest and longest remaining time on the GPUs that it requests, without
    /// communication.
    pub(super) fn times(&self) -> (f64, f64) {
        let gpus = f64::from(self.gpus);
        (self.left / (gpus * self.fastest), self.left / (gpus * self.slowest))
    }

    /// Returns what the job can pay to finish this many seconds after its arrival.
    pub(super) fn worth(&self, duration: f64, parameters: &HadarParameters) -> f64 {
        let numerator = match parameters.utility {
            Utility::Throughput => self.steps,
            Utility::Normalised => self.steps / (f64::from(self.gpus) * self.fastest),
        };
        match parameters.worth {
            Worth::Finish => numerator / duration,
            Worth::Delay => numerator / duration - numerator / (duration + parameters.round.0),
        }
    }
}

/// Returns the steps per second of one of several GPUs with an equal part of the batch; `None` if that part
/// does not fit into memory and the job cannot accumulate gradients, if it is smaller than the batch quantum,
/// or if the type allows only one rank and there are several.
pub(crate) fn rate(model: &JobModel, type_model: TypeModel, gpus: u32) -> Option<f64> {
    let (batch, quantum) = (to_f64(model.global_batch), to_f64(model.batch_quantum));
    let part = batch / f64::from(gpus);
    let memory = type_model.max_batch.map_or(f64::INFINITY, to_f64);
    if part < quantum * (1.0 - SHARE_TOLERANCE)
        || type_model.single_rank && gpus > 1
        || part > memory && !model.accumulate
    {
        return None;
    }
    let step = type_model.speed.alpha() * (part / memory).max(1.0) + type_model.speed.beta() * part;
    Some(part / step / batch)
}
