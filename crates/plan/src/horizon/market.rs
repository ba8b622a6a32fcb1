//! Adjusts GPU prices in a few steps towards those at which the jobs' best bundles together use the offered
//! GPUs.

use crate::classes::{Class, Envelope};

/// Jobs that demand GPUs: their classes, and the worth of a step to each.
pub(super) type JobDemand = [(usize, f64)];

/// Parameters of price adjustment.
#[derive(Clone, Copy, Debug)]
pub(super) struct PriceSteps {
    pub count: u32,
    /// Size of the first step; later ones are smaller.
    pub eta: f64,
    /// Minimum price.
    pub floor: f64,
}

/// The classes in a market, and memory for its steps.
pub(super) struct ClassMarket<'a> {
    classes: &'a [Class],
    /// Offered GPUs by type.
    offered: &'a [u32],
    envelopes: Vec<Envelope>,
    /// Scratch: the rent of each bundle of a class.
    rents: Vec<f64>,
    /// The step for which each envelope was computed.
    made: Vec<u32>,
    step: u32,
}

impl<'a> ClassMarket<'a> {
    pub(super) fn new(classes: &'a [Class], offered: &'a [u32]) -> Self {
        let envelopes = vec![Envelope::default(); classes.len()];
        Self { classes, offered, envelopes, rents: Vec::new(), made: vec![0; classes.len()], step: 0 }
    }

    /// Adjusts the prices towards those at which demand equals the offered GPUs.
    pub(super) fn settle(&mut self, prices: &mut [f64], demand: &JobDemand, steps: PriceSteps) {
        let mut wanted = vec![0.0; prices.len()];
        let mut eased = 1.0;
        for _ in 0..steps.count {
            wanted.fill(0.0);
            self.step += 1;
            for &(class, worth) in demand {
                self.ask(class, worth, prices, &mut wanted);
            }
            for ((price, wanted), &offered) in prices.iter_mut().zip(&wanted).zip(self.offered) {
                if offered > 0 {
                    let excess = (wanted / f64::from(offered) - 1.0).clamp(-1.0, 1.0);
                    *price = (*price * (steps.eta / eased * excess).exp()).max(steps.floor);
                }
            }
            eased += 0.3;
        }
    }

    /// Adds a job's best bundle at these prices to the demand.
    fn ask(&mut self, class: usize, worth: f64, prices: &[f64], wanted: &mut [f64]) {
        let bundles = &self.classes[class].bundles;
        if self.made[class] != self.step {
            bundles.put_rents(prices, &mut self.rents);
            self.envelopes[class].renew(bundles, &self.rents);
            self.made[class] = self.step;
        }
        if let Some(best) = self.envelopes[class].best(worth) {
            for (wanted, &count) in wanted.iter_mut().zip(bundles.counts(best.bundle)) {
                *wanted += f64::from(count);
            }
        }
    }
}
