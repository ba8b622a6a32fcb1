//! Random numbers from a seed, with the few distributions that generated jobs need.

use rand::{Rng, RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// A sequence of numbers that is determined by its seed.
pub(super) struct Random(Pcg64Mcg);

impl Random {
    /// Returns the sequence for a seed and a purpose; each purpose has a different sequence.
    pub(super) fn new(seed: u64, purpose: u64) -> Self {
        Self(Pcg64Mcg::seed_from_u64(seed ^ (purpose << 56)))
    }

    /// Draws uniformly between two numbers.
    pub(super) fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.0.random::<f64>()
    }

    /// Draws log-uniformly between two positive numbers.
    pub(super) fn log_between(&mut self, low: f64, high: f64) -> f64 {
        self.between(low.ln(), high.ln()).exp()
    }

    /// Draws the interval between independent events with a mean of 1.
    pub(super) fn exponential(&mut self) -> f64 {
        -(1.0 - self.0.random::<f64>()).ln()
    }

    /// Draws an integer from `low` to `high`, both included.
    pub(super) fn whole(&mut self, low: u32, high: u32) -> u32 {
        let count = u64::from(high - low) + 1;
        // The bias of the remainder is below 2^-32.
        low + u32::try_from(self.0.next_u64() % count).unwrap_or(0)
    }

    /// Draws `true` with probability 1/`times`.
    pub(super) fn once_in(&mut self, times: u32) -> bool {
        self.whole(1, times) == 1
    }
}
