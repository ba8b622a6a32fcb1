//! Branch and bound over boxes of counts: bound, examine, divide.

use crate::pricing::across::relaxation::RelaxedSolution;
use crate::pricing::across::{Across, BundleSearch, SearchGoal, most_rate, quantum};
use crate::{Sharing, TypeModel};
use hsched_model::number::to_u32;

/// The examined part of a box: ranks, and seconds per step.
#[derive(Clone, Copy, Debug)]
pub(super) struct BoxRange {
    pub ranks: (u32, u32),
    pub step: (f64, f64),
}

/// Boxes with at most this many bundles are enumerated without a bound; if bundles are slow to evaluate, the
/// limit is lower.
const FEW: u64 = 48;
const FEW_STEPWISE: u64 = 12;

/// Number of promising parts of a range of steps after which no part is divided further, for one box.
const MOST_PARTS: u32 = 24;

impl Across<'_> {
    /// Searches for bundles in the box between `low` and `high`.
    pub(super) fn visit(&mut self, range: BoxRange) {
        self.search.visits += 1;
        let Some(mut range) = self.tighten(range) else { return };
        if self.volume() <= if self.linear { FEW } else { FEW_STEPWISE } {
            self.look_at_all(range);
            return;
        }
        if self.needed_rate(range) > self.most_held() {
            return;
        }
        let Some(relaxed) = self.bounded(&mut range) else { return };
        let full = self.search.goal == SearchGoal::Within && self.search.found.len() > self.search.most;
        if self.search.visits > self.patience || full {
            self.search.open = self.search.open.min(relaxed.bound);
            return;
        }
        if self.search.goal == SearchGoal::Least {
            self.round(relaxed.fractional);
            if !self.promising(relaxed.bound) {
                return;
            }
        }
        self.divide(range, &relaxed);
    }

    /// Returns the minimum samples per second for a ring to meet the latest time, and for a step to stay
    /// within the range.
    pub(super) fn needed_rate(&self, range: BoxRange) -> f64 {
        let comm = self.comm * (1.0 - f64::from(range.ranks.0).recip());
        let left = self.search.latest - comm;
        // Slightly less, so that the bound stays valid.
        let least = if left > 0.0 { self.compute / left * (1.0 - 1e-9) } else { f64::INFINITY };
        if self.linear { least } else { least.max(self.batch / range.step.1 * (1.0 - 1e-9)) }
    }

    /// Returns the highest samples per second of any bundle in the box.
    fn most_held(&self) -> f64 {
        self.search.rates.iter().zip(&self.search.high).map(|(rate, &count)| rate * f64::from(count)).sum()
    }

    /// Returns the number of bundles in the box.
    pub(super) fn volume(&self) -> u64 {
        let sides =
            self.search.low.iter().zip(&self.search.high).map(|(low, high)| u64::from(high - low) + 1);
        sides.fold(1, u64::saturating_mul)
    }

    /// Examines every bundle of the box in the range of ranks.
    pub(super) fn look_at_all(&mut self, range: BoxRange) {
        self.search.counts.clone_from(&self.search.low);
        loop {
            let ranks: u32 = self.search.counts.iter().sum();
            if (range.ranks.0..=range.ranks.1).contains(&ranks) {
                self.look();
            }
            let BundleSearch { counts, low, high, .. } = &mut self.search;
            let Some(ty) = (0..counts.len()).find(|&ty| counts[ty] < high[ty]) else { return };
            counts[ty] += 1;
            counts[..ty].copy_from_slice(&low[..ty]);
        }
    }

    /// Solves the convex problem of the box and reduces the range of steps to the part that may contain a
    /// good enough bundle; `None` if there is none.
    ///
    /// The problem uses each GPU's best rate over all steps of a range. If only that keeps the box, parts of
    /// the range are bounded separately; dividing the counts for each part would take many times as long.
    fn bounded(&mut self, range: &mut BoxRange) -> Option<RelaxedSolution> {
        if self.linear {
            let relaxed = self.relax(*range);
            return self.promising(relaxed.bound).then_some(relaxed);
        }
        let mut parts = std::mem::take(&mut self.search.parts);
        parts.push(range.step);
        let (mut best, mut left) = (None::<RelaxedSolution>, (f64::INFINITY, 0.0_f64));
        // As soon as one part may contain such a bundle, the box stays, regardless of the other parts.
        let (mut looks, mut stays) = (0, false);
        while let Some(step) = parts.pop() {
            let part = BoxRange { step, ..*range };
            self.rate_within(step);
            let relaxed = self.relax(part);
            if !self.promising(relaxed.bound) {
                continue;
            }
            looks += 1;
            let least = relaxed.bound + self.step_gap(part, &relaxed);
            let is_narrow = step.1 - step.0 <= 1e-9 * step.1;
            if !stays && !self.promising(least) && looks < MOST_PARTS && !is_narrow {
                let time = self.batch / relaxed.rate;
                let last = if step.1 == f64::INFINITY { 3.0 * step.0.max(time) } else { step.1 };
                let middle = f64::midpoint(step.0, last);
                parts.extend([(step.0, middle), (middle, step.1)]);
                continue;
            }
            stays = true;
            left = (left.0.min(step.0), left.1.max(step.1));
            if best.as_ref().is_none_or(|best| relaxed.bound < best.bound) {
                std::mem::swap(&mut self.search.point, &mut self.search.best_point);
                best = Some(relaxed);
            }
        }
        self.search.parts = parts;
        std::mem::swap(&mut self.search.point, &mut self.search.best_point);
        range.step = left;
        best
    }

    pub(super) fn promising(&self, bound: f64) -> bool {
        let search = &self.search;
        match search.goal {
            SearchGoal::Least => bound < search.worth_less(),
            SearchGoal::Within => bound <= search.best,
        }
    }

    /// Examines the integer bundles next to the relaxed point.
    fn round(&mut self, fractional: Option<usize>) {
        let search = &mut self.search;
        let down = |count: &f64| to_u32(count.floor());
        search.counts.clear();
        search.counts.extend(search.point.iter().map(down));
        self.look();
        // The point may belong to another toll than the one with the best bound.
        if let Some(ty) = fractional.filter(|&ty| self.search.counts[ty] < self.search.high[ty]) {
            self.search.counts[ty] += 1;
            self.look();
        }
    }

    /// Returns the range without the ranks and steps that are impossible in the box; `None` if nothing is
    /// left.
    fn tighten(&mut self, mut range: BoxRange) -> Option<BoxRange> {
        let (low, high): (u32, u32) = (self.search.low.iter().sum(), self.search.high.iter().sum());
        range.ranks = (range.ranks.0.max(low), range.ranks.1.min(high));
        if range.ranks.0 > range.ranks.1 {
            return None;
        }
        // A rank takes at least one quantum, so no step is shorter than the slowest used GPU needs for it.
        let used = self.types.iter().zip(&self.search.low).filter(|(_, low)| **low > 0);
        let least = used.map(|((_, model), _)| model.speed.alpha() + model.speed.beta() * quantum(self.job));
        let floor = least.fold(range.step.0, f64::max);
        if self.linear {
            let held: f64 = self.rates.iter().zip(&self.search.low).map(|(r, &n)| r * f64::from(n)).sum();
            if held * floor > self.batch * (1.0 + 1e-8) {
                return None;
            }
            range.step.0 = floor;
            return Some(range);
        }
        let fastest = self.steps.time(&self.search.high)?;
        range.step.0 = floor.max(fastest * (1.0 - 1e-9));
        let paid: f64 = (0..self.types.len())
            .map(|ty| {
                let search = &self.search;
                let price = search.prices[ty];
                (price * f64::from(search.low[ty])).min(price * f64::from(search.high[ty]))
            })
            .sum();
        let worth = (self.search.best - paid) * self.batch / self.compute * (1.0 + 1e-9);
        range.step.1 = range.step.1.min(worth).min(self.longest);
        // With equal shares, one more GPU may make the step longer.
        if low > 0
            && self.job.sharing == Sharing::Balanced
            && let Some(slowest) = self.steps.time(&self.search.low)
        {
            range.step.1 = range.step.1.min(slowest * (1.0 + 1e-9));
        }
        if range.step.0 > range.step.1 {
            return None;
        }
        self.rate_within(range.step);
        Some(range)
    }

    /// Computes each GPU's best rate over these steps.
    fn rate_within(&mut self, step: (f64, f64)) {
        for (rate, (_, model)) in self.search.rates.iter_mut().zip(&self.types) {
            *rate = most_rate(*model, self.job.accumulate, step);
        }
    }

    /// Divides the box where its bound is loosest, and visits the more promising part first.
    fn divide(&mut self, range: BoxRange, relaxed: &RelaxedSolution) {
        let (first, last) = range.ranks;
        let at = |ranks: f64| self.comm * (1.0 - ranks.recip());
        let chord = |ranks: f64| {
            let (a, b) = (f64::from(first), f64::from(last));
            at(a) + (at(b) - at(a)) * if b > a { (ranks - a) / (b - a) } else { 0.0 }
        };
        let within = relaxed.ranks.clamp(f64::from(first), f64::from(last));
        let comm_gap = if last > first { at(within) - chord(within) } else { 0.0 };
        let missing = (self.search.best - relaxed.bound).max(self.search.best - self.search.worth_less());
        let worth = if missing.is_finite() { 0.1 * missing } else { 0.1 * relaxed.bound };
        if self.search.goal == SearchGoal::Within && self.search.best == f64::INFINITY {
            self.divide_counts(range, relaxed.fractional);
        } else if comm_gap > worth {
            let middle = to_u32((f64::from(first) * f64::from(last)).sqrt()).clamp(first, last - 1);
            let parts = [
                BoxRange { ranks: (first, middle), ..range },
                BoxRange { ranks: (middle + 1, last), ..range },
            ];
            let right = relaxed.ranks > f64::from(middle) + 0.5;
            self.visit(parts[usize::from(right)]);
            self.visit(parts[usize::from(!right)]);
        } else {
            self.divide_counts(range, relaxed.fractional);
        }
    }

    /// Returns how much of the bound is lost by using each GPU's best rate over all steps of the range.
    fn step_gap(&self, range: BoxRange, relaxed: &RelaxedSolution) -> f64 {
        if self.linear {
            return 0.0;
        }
        let step = (self.batch / relaxed.rate).clamp(range.step.0, range.step.1);
        let rate = |(&(_, model), &count): (&(usize, TypeModel), &f64)| {
            count * most_rate(model, self.job.accumulate, (step, step))
        };
        let rate: f64 = self.types.iter().zip(&self.search.point).map(rate).sum();
        if rate > 0.0 { self.compute / rate - self.compute / relaxed.rate } else { f64::INFINITY }
    }

    fn divide_counts(&mut self, range: BoxRange, fractional: Option<usize>) {
        let search = &self.search;
        let width = |ty: &usize| search.high[*ty] - search.low[*ty];
        let Some(ty) = fractional.or_else(|| (0..search.low.len()).max_by_key(width)) else { return };
        let (low, high) = (search.low[ty], search.high[ty]);
        let middle = to_u32(search.point[ty].floor()).clamp(low, high - 1);
        let left_first = search.point[ty].fract() < 0.5;
        for left in [left_first, !left_first] {
            if left {
                self.search.high[ty] = middle;
            } else {
                self.search.low[ty] = middle + 1;
            }
            self.visit(range);
            (self.search.low[ty], self.search.high[ty]) = (low, high);
        }
    }
}
