//! The prices of a round.

use crate::hadar::cells::Cells;
use crate::hadar::job::{HadarJob, HadarParameters};

/// The terms of a job's allocation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct BidTerms {
    pub speed: f64,
    pub jct: f64,
    pub utility: f64,
    pub cost: f64,
    pub payoff: f64,
}

/// The price of a GPU in each cell, by the number of taken GPUs.
#[derive(Clone, Debug)]
pub(super) struct CellPrices {
    pub horizon: f64,
    pub eta: f64,
    pub u_min: f64,
    /// By type.
    pub u_max: Vec<f64>,
    /// By cell, then by number of taken GPUs.
    table: Vec<Vec<f64>>,
}

/// Tolerance when counting rounds.
const SLACK: f64 = 1e-9;

impl CellPrices {
    /// Returns the prices of a round (eqs. 5 to 7): from `u_min` for the first GPU of a cell to `u_max` when
    /// all are taken.
    pub(super) fn new(cells: &Cells, jobs: &[HadarJob], now: f64, parameters: &HadarParameters) -> Self {
        let round = parameters.round.0;
        let in_turn: f64 = jobs.iter().map(|job| job.times().1).sum();
        let horizon = (in_turn / round - SLACK).ceil().max(1.0);
        let end = now + horizon * round;
        let all = f64::from(cells.total());
        let eta = |job: &HadarJob| horizon * all * round / (job.times().1 * f64::from(job.gpus));
        let eta = jobs.iter().map(eta).fold(0.0, f64::max);
        let least = |job: &HadarJob| {
            job.worth(end - job.arrival, parameters) * round / (f64::from(job.gpus) * job.times().1)
        };
        let u_min = jobs.iter().map(least).fold(f64::INFINITY, f64::min) / (4.0 * eta);
        let types = jobs.first().map_or(0, |job| job.rates.len());
        let most = |ty: usize| {
            let users = jobs.iter().filter(|job| job.rates[ty].is_some());
            users.map(|job| job.urgency(now, parameters)).fold(u_min, f64::max)
        };
        let u_max: Vec<f64> = (0..types).map(most).collect();
        let table = cells.list.iter().map(|cell| {
            let ratio = u_max[cell.gpu_type] / u_min;
            let price = |taken: u32| u_min * ratio.powf(f64::from(taken) / f64::from(cell.count));
            (0..=cell.count).map(price).collect()
        });
        Self { horizon, eta, u_min, table: table.collect(), u_max }
    }

    /// Returns the price of one GPU of a cell with a number of taken GPUs.
    pub(super) fn of(&self, cell: usize, taken: u32) -> f64 {
        self.table[cell][taken as usize]
    }

    /// Returns α of the paper's bound.
    pub(super) fn alpha(&self) -> f64 {
        self.u_max.iter().map(|most| (most / self.u_min).ln()).fold(1.0, f64::max)
    }
}

impl HadarJob {
    /// Returns what the job can pay for a GPU at its highest speed, which determines its place in the queue.
    pub(super) fn urgency(&self, now: f64, parameters: &HadarParameters) -> f64 {
        self.worth(now + self.times().0 - self.arrival, parameters) / f64::from(self.gpus)
    }
}
