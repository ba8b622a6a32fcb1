//! Random numbers of a replay: errors of estimates, failures of jobs and nodes. Each depends only on the
//! seed, its purpose, the job or node, and its number.

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use hsched_model::Seconds;

/// The purpose of a number.
#[derive(Clone, Copy)]
pub(super) enum ReplayDraw {
    Estimate = 1,
    JobFailure = 2,
    NodeFailure = 3,
}

/// Returns the `count`-th number from [0, 1) of a purpose for job or node `index`.
pub(super) fn unit(seed: u64, purpose: ReplayDraw, index: usize, count: u32) -> f64 {
    let code = (purpose as u64) << 60 ^ (index as u64) << 24 ^ u64::from(count);
    // Similar seeds give similar first numbers of the generator, so the seed is spread over all bits.
    let spread = seed.wrapping_add(code.wrapping_mul(0x9E37_79B9_7F4A_7C15));
    Pcg64Mcg::seed_from_u64(spread).random()
}

/// Returns a time from an exponential distribution with this mean.
pub(super) fn exponential(mean: Seconds, unit: f64) -> f64 {
    -mean.0 * (1.0 - unit).ln()
}
