//! Prices over time, and the bound that they prove.

use crate::classes::Bundles;
use crate::horizon::rehearse;
use crate::trace_bound::ROUNDING;
use crate::trace_bound::envelopes::Envelopes;
use crate::trace_bound::least::{Intervals, Least};
use crate::trace_bound::trace::BoundTrace;

/// Prices of GPUs over time that prove a lower bound.
#[derive(Clone, Debug, PartialEq)]
pub struct TraceCertificate {
    /// Start of each interval, in seconds, ascending; no job arrives before the first. The last interval is
    /// unbounded.
    pub edges: Vec<f64>,
    /// Price of a GPU by interval and type, in seconds per second; 0 in the last interval.
    pub prices: Vec<Vec<f64>>,
}

/// The starting point of the climb.
pub(super) struct ClimbStart {
    pub certificate: TraceCertificate,
    /// The mean completion time of a schedule that ignores nodes, in seconds.
    pub reached: f64,
}

/// Maximum number of bounded intervals; with more, the bound hardly rises.
const INTERVALS: usize = 400;

/// Minimum length of an interval in seconds; the last bounded interval may be shorter.
const SHORTEST: f64 = 1.0;

impl TraceCertificate {
    /// Returns whether the certificate is valid for a cluster with this many GPU types.
    pub(super) fn is_valid(&self, types: usize) -> bool {
        let rising = self.edges.windows(2).all(|pair| pair[0] < pair[1]);
        let is_price = |price: &f64| price.is_finite() && *price >= 0.0;
        let prices = self.prices.iter().all(|price| price.len() == types && price.iter().all(is_price));
        let free = self.prices.last().is_some_and(|last| last.iter().all(|price| *price == 0.0));
        rising && prices && free && self.edges.len() == self.prices.len()
    }

    /// Returns the rent of all GPUs over all time.
    pub(super) fn rent_of_all(&self, offered: &[u32]) -> f64 {
        let rent = |prices: &Vec<f64>| {
            prices.iter().zip(offered).map(|(price, &gpus)| price * f64::from(gpus)).sum::<f64>()
        };
        self.edges.windows(2).zip(&self.prices).map(|(pair, prices)| (pair[1] - pair[0]) * rent(prices)).sum()
    }
}

/// Returns the prices of `horizon` with free moves, and the mean completion time of its schedule.
pub(super) fn start(trace: &BoundTrace) -> Option<ClimbStart> {
    let run = rehearse(trace.classes.list(), &trace.offered, &trace.jobs, 0.0)?;
    let times = run.ends.iter().zip(&trace.jobs).map(|(end, job)| end - job.at);
    let reached = times.sum::<f64>() / trace.count();
    let end = run.ends.iter().copied().fold(0.0, f64::max);
    let edges = thinned(&run.prices.iter().map(|price| price.0).collect::<Vec<_>>(), end);
    let mut prices: Vec<Vec<f64>> = edges
        .windows(2)
        .map(|pair| mean_prices(&run.prices, pair[0], pair[1], trace.offered.len()))
        .collect();
    prices.push(vec![0.0; trace.offered.len()]);
    Some(ClimbStart { certificate: TraceCertificate { edges, prices }, reached })
}

/// Returns the edges of intervals, selected from these times.
fn thinned(moments: &[f64], end: f64) -> Vec<f64> {
    let mut edges: Vec<f64> = moments.first().copied().into_iter().collect();
    for number in 1..INTERVALS {
        let moment = moments[number * (moments.len() - 1) / INTERVALS];
        if edges.last().is_some_and(|&last| moment > last + SHORTEST) {
            edges.push(moment);
        }
    }
    if edges.last().is_some_and(|&last| end > last) {
        edges.push(end);
    }
    edges
}

/// Returns the mean over an interval of prices that apply from given times on.
fn mean_prices(steps: &[(f64, Vec<f64>)], from: f64, to: f64, types: usize) -> Vec<f64> {
    let mut sum = vec![0.0; types];
    let first = steps.partition_point(|step| step.0 <= from).saturating_sub(1);
    for (number, (moment, prices)) in steps.iter().enumerate().skip(first).take_while(|(_, step)| step.0 < to)
    {
        let until = steps.get(number + 1).map_or(to, |next| next.0.min(to));
        let part = (until - moment.max(from)).max(0.0) / (to - from);
        sum.iter_mut().zip(prices).for_each(|(sum, price)| *sum += part * price);
    }
    sum
}

/// Returns the bound proven by prices; `all` has every bundle, by class.
pub(super) fn proven(trace: &BoundTrace, all: &[Bundles], certificate: &TraceCertificate) -> Option<f64> {
    let intervals = Intervals::new(certificate);
    let mut envelopes = Envelopes::new(all);
    let mut sum = 0.0;
    for job in &trace.jobs {
        sum += Least::default().find(&intervals, envelopes.of_class(job.class), job, ROUNDING)?;
    }
    let rent = certificate.rent_of_all(&trace.offered);
    let bound = (sum - rent) / trace.count();
    Some(bound - ROUNDING * (sum + rent) / trace.count())
}
