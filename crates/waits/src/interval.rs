//! The spread of densities that gives their intervals the intended coverage, calibrated on the last days.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::density::WaitDensity;
use crate::wait_record::WaitRecord;
use hsched_model::Time;
use hsched_model::number::to_u64;

/// Candidate deviations, in decimal logarithms of seconds.
const DEVIATIONS: [f64; 11] = [0.0, 0.1, 0.15, 0.2, 0.25, 0.3, 0.36, 0.43, 0.5, 0.6, 0.75];

/// The deviation without earlier estimates.
const USUAL: f64 = 0.4;

/// The ends of the interval, and its intended coverage.
pub(crate) const ENDS: [f64; 2] = [0.1, 0.9];
const HELD: f64 = 0.8;

/// Number of days of estimates used, and their half-life in days.
pub const WINDOW_DAYS: f64 = 12.0;
const HALF_LIFE_DAYS: f64 = 8.0;

/// An account's jobs on one day are correlated: their total weight is their number to this power.
const SHARED: f64 = 0.75;

/// Weight of all jobs in the calibration for jobs with GPUs, in jobs.
const BELIEF: f64 = 60.0;

const DAY: f64 = 86_400.0;

/// A past estimate, with its outcome if known.
#[derive(Clone, Debug)]
struct PastEstimate {
    asked: Time,
    started: Option<Time>,
    pending_until: Option<Time>,
    account: u32,
    has_gpus: bool,
    density: WaitDensity,
    /// The interval for each deviation, as logarithms.
    ends: [[f64; 2]; DEVIATIONS.len()],
}

/// The deviations by which densities are spread.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    pub all: f64,
    pub with_gpus: f64,
}

/// Estimates of the last days.
#[derive(Clone, Debug, Default)]
pub struct PastEstimates {
    list: Vec<PastEstimate>,
}

impl Spread {
    /// Returns the density to show for a job.
    pub fn of(&self, density: &WaitDensity, has_gpus: bool) -> WaitDensity {
        density.spread(if has_gpus { self.with_gpus } else { self.all })
    }
}

impl PastEstimates {
    /// Adds an estimate of a job's wait. The job's start may be later than the time of the next query.
    pub(crate) fn add(&mut self, record: &WaitRecord, density: WaitDensity) {
        let ends = DEVIATIONS.map(|deviation| {
            let spread = density.spread(deviation);
            ENDS.map(|end| spread.log_quantile(end))
        });
        self.list.push(PastEstimate {
            asked: record.asked,
            started: record.started,
            pending_until: record.pending_until,
            account: record.account,
            has_gpus: record.has_gpus(),
            density,
            ends,
        });
    }

    /// Returns the deviations at a given time, and drops estimates too old for later queries.
    pub fn spread(&mut self, now: Time) -> Spread {
        self.list.retain(|past| now.since(past.asked).0 <= WINDOW_DAYS * DAY);
        let mut groups: BTreeMap<(u64, u32), f64> = BTreeMap::new();
        for past in &self.list {
            *groups.entry(past.group()).or_default() += 1.0;
        }
        // Index 0 is for jobs without GPUs, 1 for jobs with GPUs.
        let (mut held, mut weights) = ([[0.0; DEVIATIONS.len()]; 2], [0.0; 2]);
        for past in &self.list {
            let days = now.since(past.asked).0 / DAY;
            let weight = groups[&past.group()].powf(SHARED - 1.0) * 0.5f64.powf(days / HALF_LIFE_DAYS);
            let kind = usize::from(past.has_gpus);
            weights[kind] += weight;
            for (number, held) in held[kind].iter_mut().enumerate() {
                *held += weight * past.held(number, now);
            }
        }
        let whole: f64 = weights.iter().sum();
        if whole <= 0.0 {
            return Spread { all: USUAL, with_gpus: USUAL };
        }
        let all: Vec<f64> = held[0].iter().zip(held[1]).map(|(a, b)| (a + b) / whole).collect();
        let with_gpus: Vec<f64> = held[1]
            .iter()
            .zip(&all)
            .map(|(held, all)| (held + BELIEF * all) / (weights[1] + BELIEF))
            .collect();
        Spread { all: first_to_hold(&all), with_gpus: first_to_hold(&with_gpus) }
    }
}

impl PastEstimate {
    fn group(&self) -> (u64, u32) {
        (to_u64(self.asked.0 / DAY), self.account)
    }

    /// Returns the probability that the interval for a deviation contains the wait; 1 or 0 if the wait is
    /// known.
    fn held(&self, deviation: usize, now: Time) -> f64 {
        let [low, high] = self.ends[deviation];
        let log = |time: Time| time.since(self.asked).0.max(1.0).log10();
        if let Some(started) = self.started.filter(|started| *started <= now) {
            return f64::from(u8::from((low..=high).contains(&log(started))));
        }
        let spread = self.density.spread(DEVIATIONS[deviation]);
        let until = self.pending_until.filter(|until| *until < now).unwrap_or(now);
        let past = spread.below(log(until));
        let below_low = spread.below(low).max(past);
        ((spread.below(high) - below_low) / (1.0 - past).max(1e-6)).clamp(0.0, 1.0)
    }
}

/// Returns the smallest deviation with sufficient coverage, interpolated between two of the list; the largest
/// of the list if none suffices.
fn first_to_hold(held: &[f64]) -> f64 {
    let mut before = (0.0, DEVIATIONS[0]);
    for (held, deviation) in held.iter().zip(DEVIATIONS) {
        if *held >= HELD {
            let (low, from) = before;
            let part = if *held > low { (HELD - low) / (held - low) } else { 1.0 };
            return if deviation > from { from + part * (deviation - from) } else { deviation };
        }
        if *held > before.0 {
            before = (*held, deviation);
        }
    }
    DEVIATIONS[DEVIATIONS.len() - 1]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wait_record::QueueFigures;

    /// A wait that begins on a given day and lasts `factor` times 10^4 s.
    fn record(day: f64, account: u32, factor: f64) -> WaitRecord {
        let asked = Time(day * DAY);
        WaitRecord {
            id: 0,
            asked,
            submitted: asked,
            eligible: None,
            account,
            partition: 0,
            cpus: 1.0,
            memory_mib: 1.0,
            limit_s: 60.0,
            gpus: 0.0,
            queue: QueueFigures::default(),
            started: Some(Time(asked.0 + 1e4 * factor)),
            ended: None,
            pending_until: None,
        }
    }

    fn narrow() -> WaitDensity {
        WaitDensity::mean(&[WaitDensity::unknown()]).after(9.0e3)
    }

    fn spread_after(factors: &[f64]) -> f64 {
        let mut past = PastEstimates::default();
        let density = narrow();
        for (number, factor) in (0_u32..).zip(factors) {
            past.add(&record(0.0, number, *factor), density.clone());
        }
        past.spread(Time(3.0 * DAY)).all
    }

    #[test]
    fn estimates_that_missed_spread_the_next() {
        let close = spread_after(&[2.0; 10]);
        let far = spread_after(&[2.0, 2.0, 2.0, 2.0, 2.0, 0.1, 0.1, 0.1, 0.1, 0.1]);
        assert!(close < 0.01 && far > 0.3, "{close} {far}");
    }

    #[test]
    fn a_future_start_counts_by_the_estimate_itself() {
        let spread = |started: f64| {
            let mut past = PastEstimates::default();
            let wait = WaitRecord { started: Some(Time(started)), ..record(0.0, 1, 1.0) };
            past.add(&wait, narrow());
            past.spread(Time(DAY / 2.0))
        };
        assert_eq!(spread(DAY), spread(9.0 * DAY));
        assert_eq!(PastEstimates::default().spread(Time(0.0)), Spread { all: USUAL, with_gpus: USUAL });
    }

    #[test]
    fn old_estimates_are_forgotten() {
        let mut past = PastEstimates::default();
        past.add(&record(0.0, 1, 50.0), narrow());
        past.spread(Time(13.0 * DAY));
        assert!(past.list.is_empty());
    }
}
