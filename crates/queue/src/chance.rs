//! Random numbers of the model. Each depends only on the seed, its purpose and its index, so all requests see
//! the same future.

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// The purpose of a number.
#[derive(Clone, Copy)]
pub(super) enum Purpose {
    Running = 1,
    Waiting = 2,
    Arrival = 3,
    Habit = 4,
}

/// Returns a sequence of numbers for item `index` of its purpose.
pub(super) fn sequence(seed: u64, purpose: Purpose, index: u64) -> Pcg64Mcg {
    let stream = (purpose as u64) << 60 ^ index;
    // The generator's first numbers are similar for close seeds, so the seed is mixed into all bits.
    Pcg64Mcg::seed_from_u64(spread(seed ^ spread(stream)))
}

/// Returns a number from [0, 1) for item `index` of its purpose.
pub(super) fn unit(seed: u64, purpose: Purpose, index: u64) -> f64 {
    sequence(seed, purpose, index).random()
}

/// The finaliser of `SplitMix64`, which maps close numbers to distant ones.
fn spread(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(0x9E37_79B9_7F4A_7C15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}
