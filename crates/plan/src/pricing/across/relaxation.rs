//! The convex problem that bounds a box from below, solved by a sweep over the types.

use crate::pricing::across::boxes::BoxRange;
use crate::pricing::across::{Across, BundleSearch};

/// The solution of the convex problem.
pub(super) struct RelaxedSolution {
    pub bound: f64,
    pub fractional: Option<usize>,
    pub ranks: f64,
    pub rate: f64,
}

impl Across<'_> {
    /// Solves the convex problem of the box.
    pub(super) fn relax(&mut self, range: BoxRange) -> RelaxedSolution {
        let (first, last) = range.ranks;
        let at = |ranks: u32| self.comm * (1.0 - f64::from(ranks).recip());
        let slope = if first == last { 0.0 } else { (at(last) - at(first)) / f64::from(last - first) };
        let constant = at(first) - slope * f64::from(first);
        let mut relaxed = self.fill(range, slope);
        relaxed.bound += constant;
        if relaxed.ranks > f64::from(last) {
            self.toll(range, slope, constant, f64::from(last), 1.0, relaxed)
        } else if relaxed.ranks < f64::from(first) {
            self.toll(range, slope, constant, f64::from(first), -1.0, relaxed)
        } else {
            relaxed
        }
    }

    /// Raises the bound by a toll on each rank that brings their number to `limit`. Every toll gives a valid
    /// bound. The best one is found by growing steps and bisection.
    fn toll(
        &mut self,
        range: BoxRange,
        slope: f64,
        constant: f64,
        limit: f64,
        side: f64,
        mut best: RelaxedSolution,
    ) -> RelaxedSolution {
        let start = self.compute / (limit * limit * self.rates.iter().copied().fold(0.0, f64::max));
        let (mut near, mut far, mut closed) = (0.0, side * start, false);
        for _ in 0..if self.linear { 20 } else { 8 } {
            let toll = if closed { f64::midpoint(near, far) } else { far };
            let tolled = self.fill(range, slope + toll);
            let beyond = (tolled.ranks - limit) * side > 0.0;
            let bound = tolled.bound + constant - toll * limit;
            if bound > best.bound {
                best = RelaxedSolution { bound, ..tolled };
                if !self.promising(bound) {
                    return best;
                }
            }
            match (closed, beyond) {
                (false, true) => (near, far) = (far, far * 4.0),
                (_, false) => (far, closed) = (toll, true),
                (true, true) => near = toll,
            }
        }
        best
    }

    /// Minimises compute / rate + Σ (price + toll) n over real counts in the box: the GPUs with the most
    /// samples for their price come first, as long as one more is worthwhile.
    fn fill(&mut self, range: BoxRange, toll: f64) -> RelaxedSolution {
        let needed = self.needed_rate(range);
        let BundleSearch { prices, low, high, point, rates, order, .. } = &mut self.search;
        let pays = |ty: usize| prices[ty] + toll;
        for at in 1..order.len() {
            let mut at = at;
            let cheaper = |a: usize, b: usize| pays(a) * rates[b] < pays(b) * rates[a];
            while at > 0 && cheaper(order[at], order[at - 1]) {
                order.swap(at, at - 1);
                at -= 1;
            }
        }
        let (mut rate, mut paid, mut ranks) = (0.0, 0.0, 0.0);
        for ty in 0..low.len() {
            let count = f64::from(low[ty]);
            point[ty] = count;
            rate += rates[ty] * count;
            paid += pays(ty) * count;
            ranks += count;
        }
        // No bundle has a higher rate, because no step of this range is shorter.
        let most = if range.step.0 > 0.0 { self.batch / range.step.0 } else { f64::INFINITY };
        let mut fractional = None;
        for &ty in order.iter() {
            let worth =
                if pays(ty) > 0.0 { (self.compute * rates[ty] / pays(ty)).sqrt() } else { f64::INFINITY };
            let wanted = worth.max(needed).min(if pays(ty) > 0.0 { most } else { f64::INFINITY });
            if rate >= wanted || rates[ty] <= 0.0 {
                continue;
            }
            let room = f64::from(high[ty] - low[ty]);
            let more = ((wanted - rate) / rates[ty]).min(room);
            point[ty] += more;
            rate += rates[ty] * more;
            paid += pays(ty) * more;
            ranks += more;
            if more < room && point[ty].fract() > 1e-9 && point[ty].fract() < 1.0 - 1e-9 {
                fractional = Some(ty);
            }
        }
        if rate < needed * (1.0 - 1e-9) {
            return RelaxedSolution { bound: f64::INFINITY, fractional, ranks, rate };
        }
        let compute = self.compute / rate.min(most);
        RelaxedSolution { bound: (compute + paid) * (1.0 - 1e-12), fractional, ranks, rate }
    }
}
