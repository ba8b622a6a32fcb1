//! Newtypes for quantities, so that seconds, bytes and bit rates are not mixed up.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A duration in seconds.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd, Default, Serialize, Deserialize)]
pub struct Seconds(pub f64);

/// A point in time: Unix seconds, UTC.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd, Default, Serialize, Deserialize)]
pub struct Time(pub f64);

/// An amount of memory or data in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Bytes(pub u64);

/// A link's rate in Gbit/s, 10^9 bit/s; always finite and positive.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct BitRate(f64);

impl Time {
    /// Returns the time since an earlier point; 0 if that is later, because clocks may be set back.
    pub fn since(self, earlier: Self) -> Seconds {
        Seconds((self.0 - earlier.0).max(0.0))
    }

    /// Returns whether an earlier point is less than `limit` ago. A later one is not: a clock was set back.
    pub fn is_soon_after(self, earlier: Self, limit: Seconds) -> bool {
        earlier <= self && self.since(earlier) < limit
    }

    /// Returns the time `wait` later.
    pub fn after(self, wait: Seconds) -> Self {
        Self(self.0 + wait.0)
    }
}

impl Bytes {
    /// Returns the amount in whole MiB (2^20 bytes), rounded down, which is Slurm's unit of memory.
    pub fn whole_mebibytes(self) -> u64 {
        self.0 >> 20
    }
}

impl fmt::Display for Bytes {
    /// Formats the amount exactly, in the largest binary unit that divides it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [(u32, &str); 4] = [(40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")];
        for (shift, unit) in UNITS {
            if self.0 > 0 && self.0.trailing_zeros() >= shift {
                return write!(f, "{}{unit}", self.0 >> shift);
            }
        }
        write!(f, "{}B", self.0)
    }
}

impl BitRate {
    /// Returns the rate, or `None` unless `gigabits_per_second` is finite and positive.
    pub fn new(gigabits_per_second: f64) -> Option<Self> {
        (gigabits_per_second.is_finite() && gigabits_per_second > 0.0).then_some(Self(gigabits_per_second))
    }

    /// Returns the rate in Gbit/s.
    pub fn gigabits_per_second(self) -> f64 {
        self.0
    }

    /// Returns the rate in bytes per second.
    pub fn bytes_per_second(self) -> f64 {
        self.0 * 1e9 / 8.0
    }

    /// Returns the slower of two links.
    pub fn min(self, other: Self) -> Self {
        if other.0 < self.0 { other } else { self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_print_in_the_largest_unit_that_is_exact() {
        let check = |bytes, text: &str| assert_eq!(Bytes(bytes).to_string(), text);
        check(0, "0B");
        check(192 << 30, "192GiB");
        check(1536 << 20, "1536MiB");
        check(46_800_000, "46800000B");
    }

    #[test]
    fn a_rate_is_positive_and_finite() {
        assert!(BitRate::new(0.0).is_none());
        assert!(BitRate::new(f64::NAN).is_none());
        assert!(BitRate::new(f64::INFINITY).is_none());
        assert!((BitRate::new(10.0).expect("positive").bytes_per_second() - 1.25e9).abs() < 1.0);
    }
}
