//! The minimum cost of one job at prices over time: waiting plus rent.
//!
//! If the job ends in interval e, the minimum is, by duality, the maximum over μ, the worth of a step, of
//!
//! ```text
//! start(e) − r + μ W − Σ over b < e of |b| φ_b(μ) − |e| max(0, φ_e(μ) − 1),  φ_b(μ) = max over bundles n of μ s(n) − p_b·n
//! ```
//!
//! Every μ gives a valid lower bound, so the search may end at any time.

use crate::classes::{Envelope, Vertex};
use crate::horizon::TraceArrival;
use crate::trace_bound::envelopes::ClassEnvelopes;
use crate::trace_bound::prices::TraceCertificate;

/// Intervals of time; the last one is unbounded.
pub(super) struct Intervals<'a> {
    /// Start of each interval, in seconds.
    edges: &'a [f64],
    /// Price of a GPU by interval and type.
    prices: &'a [Vec<f64>],
}

/// The data of a job's minimum at other prices, which shorten the search.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Least {
    /// The interval in which the job ends.
    end: usize,
    /// The worth of a step just below and just above the best worth, and the weight of the lower one.
    low: f64,
    high: f64,
    part: f64,
}

/// The search for one job's minimum at given prices.
struct LeastSearch<'a> {
    intervals: &'a Intervals<'a>,
    envelopes: &'a [Envelope],
    job: &'a TraceArrival,
    /// The interval of the job's arrival.
    first: usize,
    /// The search for the best worth ends when the possible relative gain is below this.
    exact: f64,
}

/// The value of a worth, and its derivative.
#[derive(Clone, Copy)]
struct WorthPoint {
    worth: f64,
    value: f64,
    slope: f64,
}

/// Relative work below which a job counts as done.
const ROUNDING: f64 = 1e-9;

/// Maximum number of steps of a search.
const STEPS: u32 = 80;

impl<'a> Intervals<'a> {
    pub(super) fn new(certificate: &'a TraceCertificate) -> Self {
        Self { edges: &certificate.edges, prices: &certificate.prices }
    }

    /// Returns the interval of a time.
    fn at(&self, time: f64) -> usize {
        self.edges.partition_point(|&edge| edge <= time).saturating_sub(1)
    }

    /// Returns the seconds of an interval from `from` on.
    fn length(&self, interval: usize, from: f64) -> f64 {
        let end = self.edges.get(interval + 1).copied().unwrap_or(f64::INFINITY);
        end - self.edges[interval].max(from)
    }
}

impl Least {
    /// Returns the job's minimum in seconds, too low by at most about the fraction `exact`; `None` if it can
    /// never end. Calls for several jobs of a class must be in the order of arrival.
    pub(super) fn find(
        &mut self,
        intervals: &Intervals<'_>,
        class: &mut ClassEnvelopes<'_>,
        job: &TraceArrival,
        exact: f64,
    ) -> Option<f64> {
        let first = intervals.at(job.at);
        let known = if self.high > 0.0 && self.end >= first { self.end } else { first };
        let envelopes = class.between(first, known, intervals.prices);
        let search = LeastSearch { intervals, envelopes, job, first, exact };
        let mut best = f64::INFINITY;
        let mut guess = if self.high > 0.0 { self.high } else { search.dearest(first) };
        if self.high > 0.0 && self.end >= first && search.can_end(self.end) {
            (best, *self) = search.ending_in(self.end, guess, f64::INFINITY);
            guess = self.high;
        }
        let known = if best.is_finite() { Some(self.end) } else { None };
        // A single worth gives a lower bound for all end intervals at once. Only the intervals that this
        // bound does not exclude are examined.
        let (mut spent, mut room) = (guess * job.steps, 0.0);
        for end in first..intervals.edges.len() {
            let before = intervals.edges[end].max(job.at) - job.at;
            if before >= best {
                break;
            }
            let envelopes = class.between(first, end, intervals.prices);
            let envelope = &envelopes[end];
            let length = intervals.length(end, job.at);
            let most = envelope.vertices().last().map_or(0.0, |vertex| vertex.speed);
            room += length * most;
            let vertex = envelope.best(guess);
            let gain = vertex.map_or(0.0, |vertex| guess * vertex.speed - vertex.rent);
            let beyond = (gain - 1.0).max(0.0);
            let at_least = before + spent - if beyond > 0.0 { length * beyond } else { 0.0 };
            spent -= if length.is_finite() { length * gain } else { 0.0 };
            if Some(end) == known || at_least >= best || room < job.steps * (1.0 - ROUNDING) {
                continue;
            }
            let search = LeastSearch { intervals, envelopes, job, first, exact };
            let (value, found) = search.ending_in(end, guess, best);
            if value < best {
                (best, *self) = (value, found);
            }
        }
        best.is_finite().then_some(best)
    }

    /// Calls `visit` for every interval and bundle that the job uses at its minimum, with the seconds of use.
    pub(super) fn usage(
        &self,
        intervals: &Intervals<'_>,
        class: &mut ClassEnvelopes<'_>,
        job: &TraceArrival,
        visit: &mut dyn FnMut(usize, usize, f64),
    ) {
        let first = intervals.at(job.at);
        let envelopes = class.between(first, self.end, intervals.prices);
        for (worth, part) in [(self.low, self.part), (self.high, 1.0 - self.part)] {
            for interval in (first..=self.end).filter(|_| part > 0.0) {
                let length = intervals.length(interval, job.at);
                let vertex = envelopes[interval].best(worth);
                let least = if interval == self.end { 1.0 } else { 0.0 };
                let used =
                    vertex.filter(|vertex| length.is_finite() && worth * vertex.speed - vertex.rent > least);
                if let Some(vertex) = used {
                    visit(interval, vertex.bundle, part * length);
                }
            }
        }
    }
}

impl LeastSearch<'_> {
    /// Returns whether the job can have done its steps by the end of an interval.
    fn can_end(&self, end: usize) -> bool {
        let steps = |interval: usize| {
            let most = self.envelopes[interval].vertices().last().map_or(0.0, |vertex| vertex.speed);
            self.intervals.length(interval, self.job.at) * most
        };
        (self.first..=end).map(steps).sum::<f64>() >= self.job.steps * (1.0 - ROUNDING)
    }

    /// Returns the lowest cost of a step in an interval, including the job's waiting time.
    fn dearest(&self, interval: usize) -> f64 {
        let cost = |vertex: &Vertex| (1.0 + vertex.rent) / vertex.speed;
        self.envelopes[interval].vertices().iter().map(cost).fold(f64::INFINITY, f64::min)
    }

    /// Returns a worth of a step at which the job would run at full speed until the end of an interval.
    fn beyond_all(&self, end: usize) -> f64 {
        let last = |interval: usize| {
            self.envelopes[interval].vertices().last().map_or(0.0, |vertex| vertex.marginal)
        };
        2.0 * (self.first..=end).map(last).fold(self.dearest(end), f64::max)
    }

    /// Returns the value of a worth if the job ends in an interval, without the time before that.
    fn at(&self, end: usize, worth: f64) -> WorthPoint {
        let (mut value, mut slope) = (worth * self.job.steps, self.job.steps);
        let edges = self.intervals.edges;
        let mut from = edges[self.first].max(self.job.at);
        for (envelope, &until) in self.envelopes[self.first..end].iter().zip(&edges[self.first + 1..]) {
            if let Some(vertex) = envelope.best(worth) {
                value -= (until - from) * (worth * vertex.speed - vertex.rent);
                slope -= (until - from) * vertex.speed;
            }
            from = until;
        }
        if let Some(vertex) = self.envelopes[end].best(worth) {
            let gain = worth * vertex.speed - vertex.rent - 1.0;
            let length = self.intervals.length(end, self.job.at);
            if gain > 0.0 && length.is_finite() {
                value -= length * gain;
                slope -= length * vertex.speed;
            }
        }
        WorthPoint { worth, value, slope }
    }

    /// Returns the highest bound from a worth near `guess` for an end in this interval; the search may stop
    /// early above `enough`.
    fn ending_in(&self, end: usize, guess: f64, enough: f64) -> (f64, Least) {
        let before = self.intervals.edges[end].max(self.job.at) - self.job.at;
        let endless = end + 1 == self.intervals.edges.len();
        // In the unbounded last interval, a worth above the cost of a step would prove nothing. In any other
        // interval, the job runs at full speed for all worths beyond the most expensive vertex.
        let most =
            if endless { self.dearest(end) * (1.0 - 4.0 * f64::EPSILON) } else { self.beyond_all(end) };
        let mut low = WorthPoint { worth: 0.0, value: 0.0, slope: self.job.steps };
        let mut high = self.at(end, guess.min(most));
        let mut steps = 0;
        while high.slope > 0.0 && high.worth < most && steps < STEPS {
            low = high;
            high = self.at(end, (2.0 * high.worth).min(most));
            steps += 1;
        }
        let mut top = low.value.max(high.value);
        let mut part = if high.slope >= 0.0 { 0.0 } else { high.slope / (high.slope - low.slope) };
        while high.slope < 0.0 && low.slope > 0.0 && steps < STEPS && before + top < enough {
            // The intersection of the tangents is an upper limit between the two.
            let worth = (high.value - low.value + low.slope * low.worth - high.slope * high.worth)
                / (low.slope - high.slope);
            let possible = low.value + low.slope * (worth - low.worth);
            part = high.slope / (high.slope - low.slope);
            if possible - top <= self.exact * possible.abs() || worth <= low.worth || worth >= high.worth {
                break;
            }
            let point = self.at(end, worth);
            top = top.max(point.value);
            if point.slope > 0.0 {
                low = point;
            } else {
                high = point;
            }
            steps += 1;
        }
        (before + top, Least { end, low: low.worth, high: high.worth, part })
    }
}
