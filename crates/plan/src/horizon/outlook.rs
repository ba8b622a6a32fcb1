//! Memory from one decision to the next: prices, their path backwards from the end, and the frequency of
//! changes.

use serde::{Deserialize, Serialize};

use crate::horizon::allocate::Valuation;
use crate::horizon::market::{ClassMarket, PriceSteps};
use crate::horizon::menu;
use crate::horizon::path::PricePath;
use crate::horizon::task::{Instance, TaskChoice};
use crate::horizon::worth::Worths;
use hsched_model::number::to_f64;

/// Present and future prices of GPUs.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct PriceOutlook {
    /// Price of a GPU-second by type, in seconds of a job's time; 0 while there are no jobs.
    pub prices: Vec<f64>,
    pub path: PricePath,
    pub gap: Gap,
    /// The jobs at the last decision that assumed that everything may have changed.
    pub crowd: Option<Crowd>,
}

/// A fingerprint of a set of jobs.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize)]
pub(super) struct Crowd {
    pub jobs: usize,
    /// The sum of the jobs' arrival times, in seconds.
    pub arrivals: f64,
}

/// The usual time between two decisions that follow a relevant change.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Gap {
    /// Mean in seconds; initially 0.
    pub mean: f64,
    /// Number of averaged intervals, at most [`GAPS`]; the first decision counts as an interval of 0 s.
    pub count: u32,
    /// The time of the last decision that counts, in seconds.
    pub last: Option<f64>,
    /// At a decision that does not count, the seconds since the last one that did: a lower limit for the
    /// present interval.
    pub quiet: f64,
}

/// Approximate number of intervals in the mean.
const GAPS: u32 = 30;

/// The expected duration of new placements grows with the number of tasks: one change interval for each of
/// this many tasks.
const TASKS_PER_GAP: f64 = 12.0;

/// Expected duration of placements before any change was observed, in seconds: longer than any job.
const UNKNOWN: f64 = 1e9;

/// Minimum price, relative to the price at which all tasks at their highest speed would value the GPUs.
const FLOOR: f64 = 1e-4;

impl PriceOutlook {
    /// Drops the present prices, because there are no jobs.
    pub(super) fn rest(&mut self) {
        self.prices.fill(0.0);
    }

    /// Returns the expected duration of placements with this number of tasks, in seconds.
    pub(super) fn life(&self, tasks: usize) -> f64 {
        let tasks = to_f64(tasks);
        let gap = match self.gap.count {
            // The frequency of changes is not known yet.
            0 | 1 => UNKNOWN,
            _ => self.gap.mean.max(self.gap.quiet).max(1.0),
        };
        gap * (tasks / TASKS_PER_GAP).max(1.0)
    }

    /// Updates the prices, and returns each task's choice and the worth of its steps.
    pub(super) fn decide(&mut self, instance: &Instance<'_>) -> (Vec<TaskChoice>, Worths) {
        let worths = self.follow(instance);
        let aged = worths.with_age(instance);
        let rents = self.rents(instance);
        let life = self.life(instance.tasks.len());
        let terms = Valuation { worth: &aged, rents: &rents, prices: &self.prices, life };
        (menu::best_plan(instance, terms), worths)
    }

    /// Adjusts prices and path; returns the worth of the tasks' steps.
    fn follow(&mut self, instance: &Instance<'_>) -> Worths {
        let (types, gpus) = (instance.offered.len(), instance.gpus().max(1.0));
        if self.prices.len() != types || self.path.levels.is_empty() {
            *self = Self { prices: vec![0.0; types], path: PricePath::new(types, gpus), ..*self };
        }
        let worths = Worths::new(instance, &self.prices, &self.path);
        let demand = worths.demand(instance);
        let mut market = ClassMarket::new(instance.classes, instance.offered);
        self.path.settle(&mut market, &demand, &worths.left, gpus);
        let fastest = |&(class, worth): &(usize, f64)| worth * instance.classes[class].fastest;
        let scale = demand.iter().map(fastest).sum::<f64>() / gpus;
        if self.prices.iter().all(|price| *price == 0.0) {
            self.prices.fill(scale);
        }
        market.settle(&mut self.prices, &demand, PriceSteps { count: 12, eta: 0.4, floor: FLOOR * scale });
        worths
    }

    /// Returns the rent of each bundle at the present prices, for classes with tasks.
    pub(super) fn rents(&self, instance: &Instance<'_>) -> Vec<Vec<f64>> {
        let mut rents = vec![Vec::new(); instance.classes.len()];
        for task in instance.tasks {
            if rents[task.class].is_empty() {
                rents[task.class] = instance.classes[task.class].bundles.rents(&self.prices);
            }
        }
        rents
    }
}

impl Gap {
    /// Records a decision at `now`, in seconds.
    pub(super) fn pass(&mut self, now: f64) {
        let gap = (now - self.last.unwrap_or(now)).max(0.0);
        self.count = (self.count + 1).min(GAPS);
        self.mean += (gap - self.mean) / f64::from(self.count);
        (self.last, self.quiet) = (Some(now), 0.0);
    }

    /// Records a decision at `now` without a relevant change.
    pub(super) fn look(&mut self, now: f64) {
        self.quiet = self.last.map_or(0.0, |last| (now - last).max(0.0));
    }
}
