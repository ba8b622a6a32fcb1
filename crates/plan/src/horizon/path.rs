//! The path of prices backwards from the end: the price of GPUs while the last m jobs remain.

use crate::horizon::market::{ClassMarket, JobDemand, PriceSteps};

/// Prices by the number of remaining jobs, at selected numbers.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct PricePath {
    /// Prices by level and GPU type.
    pub levels: Vec<Vec<f64>>,
}

/// The numbers of jobs at which prices are stored; from 3 to 512 their ratio is about √2, later 2.
pub(super) const LEVELS: [f64; 28] = [
    1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 11.0, 16.0, 23.0, 32.0, 45.0, 64.0, 91.0, 128.0, 181.0, 256.0, 362.0,
    512.0, 1024.0, 2048.0, 4096.0, 8192.0, 16384.0, 32768.0, 65536.0, 131_072.0, 262_144.0, 524_288.0,
];

/// Initial price of a GPU relative to jobs per GPU; for linear speeds the ratio is 1.
const FIRST: f64 = 0.9;

/// Minimum price, relative to jobs per GPU.
const FLOOR: f64 = 1e-3;

impl PricePath {
    /// Returns the initial path: prices that rise with the number of jobs.
    pub(super) fn new(types: usize, gpus: f64) -> Self {
        Self { levels: LEVELS.iter().map(|level| vec![FIRST * level / gpus; types]).collect() }
    }

    /// Writes to `prices` the prices while the last `jobs` (at least 1) jobs remain. The last job pays
    /// nothing.
    pub(super) fn at(&self, jobs: f64, prices: &mut [f64]) {
        let above = LEVELS.partition_point(|&level| level <= jobs).clamp(1, LEVELS.len() - 1);
        let part = (jobs - LEVELS[above - 1]) / (LEVELS[above] - LEVELS[above - 1]);
        for (gpu_type, price) in prices.iter_mut().enumerate() {
            let below = if above == 1 { 0.0 } else { self.levels[above - 1][gpu_type] };
            *price = below * (1.0 - part) + self.levels[above][gpu_type] * part;
        }
    }

    /// Adjusts the prices of each level to the demand of the jobs that then remain. Levels further above the
    /// weight of all jobs stay as they are.
    ///
    /// `demand` has the jobs from the last to end to the first; `left` has, for each of them, 1 plus the
    /// total weight of the jobs that end later.
    pub(super) fn settle(
        &mut self,
        market: &mut ClassMarket<'_>,
        demand: &JobDemand,
        left: &[f64],
        gpus: f64,
    ) {
        let all = left.last().copied().unwrap_or(0.0);
        for (number, &level) in LEVELS.iter().enumerate() {
            if number > 0 && LEVELS[number - 1] >= all {
                break;
            }
            if level > all && number > 0 {
                // The first level above the remaining weight gets the prices of the level below, scaled.
                let factor = level / LEVELS[number - 1];
                self.levels[number] = self.levels[number - 1].iter().map(|price| price * factor).collect();
            } else {
                let there = left.partition_point(|&left| left <= level);
                let steps = PriceSteps { count: 6, eta: 0.25, floor: FLOOR * level.min(all) / gpus };
                market.settle(&mut self.levels[number], &demand[..there], steps);
            }
        }
    }
}
