//! Use of each limit by running jobs during a simulation.

use super::rules::{LimitCheck, LimitCount, Rule};

/// The use of every counted limit at a given time.
#[derive(Clone, Debug)]
pub(crate) struct Counters {
    /// `whole - falling * t`, where `t` is the time in minutes since the snapshot.
    list: Vec<Sum>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    whole: f64,
    falling: f64,
}

/// Tolerance for sums of fractions.
const SLACK: f64 = 1e-6;

impl Counters {
    /// Returns this many counters at 0.
    pub(crate) fn new(count: usize) -> Self {
        Self { list: vec![Sum::default(); count] }
    }

    /// Counts a job that starts (1) or ends (-1); its limit ends this many minutes after the snapshot.
    pub(crate) fn count(&mut self, rule: &Rule, limit_end: f64, sign: f64) {
        for LimitCount { counter, amount, is_falling } in &rule.counts {
            let sum = &mut self.list[*counter];
            if *is_falling {
                sum.whole += sign * amount * limit_end;
                sum.falling += sign * amount;
            } else {
                sum.whole += sign * amount;
            }
        }
    }

    /// Returns whether a job may start at a given time, in minutes after the snapshot.
    pub(crate) fn allow(&self, rule: &Rule, now: f64) -> bool {
        self.full(rule, now).is_none()
    }

    /// Returns the first check that a job fails at a given time.
    pub(super) fn full<'r>(&self, rule: &'r Rule, now: f64) -> Option<&'r LimitCheck> {
        rule.checks.iter().find(|check| self.used(check.counter, now) + check.amount > check.max + SLACK)
    }

    /// Returns the use at a given time.
    pub(super) fn used(&self, counter: usize, now: f64) -> f64 {
        let Sum { whole, falling } = self.list[counter];
        (whole - falling * now).max(0.0)
    }
}
