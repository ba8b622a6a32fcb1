//! What is remembered from one decision to the next: prices, their path backwards from the end, and how often things change.

use serde::{Deserialize, Serialize};

use crate::horizon::allocate::Valuation;
use crate::horizon::market::{ClassMarket, PriceSteps};
use crate::horizon::menu;
use crate::horizon::path::PricePath;
use crate::horizon::task::{Instance, TaskChoice};
use crate::horizon::worth::Worths;
use hsched_model::number::to_f64;

/// Prices of GPUs now and to come.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct PriceOutlook {
    /// What a GPU of each type costs a second, in seconds of a job's time; 0 while there are no jobs.
    pub prices: Vec<f64>,
    pub path: PricePath,
    pub gap: Gap,
    /// The jobs at the last decision for which everything may have changed.
    pub crowd: Option<Crowd>,
}

/// Some jobs, as far as they must be told from others.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize)]
pub(super) struct Crowd {
    pub jobs: usize,
    /// The sum of their arrivals, in seconds.
    pub arrivals: f64,
}

/// The usual time between two decisions.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Gap {
    /// In seconds; the first is 0.
    pub mean: f64,
    /// How many it is the mean of.
    pub count: u32,
    /// The moment of the last decision, in seconds.
    pub last: Option<f64>,
    /// How long it was ago at a decision that does not count, in seconds: this time has been longer already.
    pub quiet: f64,
}

/// The mean of gaps is over about so many.
const GAPS: u32 = 30;

/// New places last the longer the more tasks there are: as long as one change for each so many tasks.
const TASKS_PER_GAP: f64 = 12.0;

/// How long places are thought to last before anything has changed, in seconds: longer than any job.
const UNKNOWN: f64 = 1e9;

/// The least price, as a part of what all tasks at their fastest would make of the GPUs.
const FLOOR: f64 = 1e-4;

impl PriceOutlook {
    /// Forgets today's prices: nobody is there.
    pub(super) fn rest(&mut self) {
        self.prices.fill(0.0);
    }

    /// Returns how long places usually last while there are so many tasks, in seconds.
    pub(super) fn life(&self, tasks: usize) -> f64 {
        let tasks = to_f64(tasks);
        let gap = match self.gap.count {
            // Nothing has changed yet that would say how often things do.
            0 | 1 => UNKNOWN,
            _ => self.gap.mean.max(self.gap.quiet).max(1.0),
        };
        gap * (tasks / TASKS_PER_GAP).max(1.0)
    }

    /// Follows the prices, and returns what each task is to have and what its steps are worth.
    pub(super) fn decide(&mut self, instance: &Instance<'_>) -> (Vec<TaskChoice>, Worths) {
        let worths = self.follow(instance);
        let aged = worths.with_age(instance);
        let rents = self.rents(instance);
        let life = self.life(instance.tasks.len());
        let terms = Valuation { worth: &aged, rents: &rents, prices: &self.prices, life };
        (menu::best_plan(instance, terms), worths)
    }

    /// Moves prices and path towards balance; returns what the tasks' steps are worth.
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

    /// Returns what each bundle costs at today's prices, for classes that have tasks.
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
    /// Takes note of a decision at `now`, in seconds.
    pub(super) fn pass(&mut self, now: f64) {
        let gap = (now - self.last.unwrap_or(now)).max(0.0);
        self.count = (self.count + 1).min(GAPS);
        self.mean += (gap - self.mean) / f64::from(self.count);
        (self.last, self.quiet) = (Some(now), 0.0);
    }

    /// Takes note of a decision at `now` for which nothing changed that counts.
    pub(super) fn look(&mut self, now: f64) {
        self.quiet = self.last.map_or(0.0, |last| (now - last).max(0.0));
    }
}
