//! The prices with the highest proven bound: cutting planes over the lists, which grow when a kind of job
//! finds a cheaper bundle.

use crate::optimal::many::{JobKinds, NodeRule};
use crate::solve::{Cut, highest_under};
use hsched_model::number::to_f64;

/// Prices, and the bound that they prove.
pub(crate) struct BalancedPrices {
    pub prices: Vec<f64>,
    /// The lower bound for all plans.
    pub lower: f64,
    /// The mix of choices that balances these prices: a weight, and each kind's bundle.
    pub mix: Mix,
}

/// Choices with their weights.
pub(crate) type Mix = Vec<(f64, Vec<u32>)>;

/// A choice for all kinds, whose value is a linear function of the prices.
struct Plane {
    cut: Cut,
    choice: Vec<u32>,
}

/// The maximum of the bound over the lists.
pub(crate) struct ClimbPeak {
    prices: Vec<f64>,
    value: f64,
    planes: Vec<Plane>,
    mix: Vec<f64>,
    /// Upper limit of the bound provable with these lists.
    promised: f64,
    /// Maximum number of search rounds, and of planes for each.
    most_rounds: u32,
    most_climbs: u32,
}

/// Maximum number of rounds in which kinds search, and of planes for each.
const ROUNDS: u32 = 20;
const CLIMBS: u32 = 200;

/// Minimum number of planes, even if the time has run out: with worse prices, plans are far from the optimum,
/// and a plane costs little compared with the lists.
const LEAST_CLIMBS: u32 = 80;

/// Up to this number of prices, counting the constant, six planes are kept for each. With more prices, the
/// planes would take more time than the choices of the jobs, and 1.5 planes for each price are enough.
const FEW_PRICES: usize = 15;

/// Number of planes that are kept at least if there are more prices than that.
const LEAST_PLANES: usize = 42;

/// The half-width of the box is proportional to the price, but at least to this fraction of the highest price
/// or, if that is higher, of the objective per unit of capacity.
const LEAST_WIDTH: f64 = 0.05;

/// Number of boxes that a kind examines in the first search round. It is multiplied by four in each further
/// round, up to a factor of 2^`PATIENT`.
const HASTY: u32 = 300;
const PATIENT: u32 = 4;

/// Values of `ROUNDS` and `CLIMBS` after [`ClimbPeak::add_rules`] has added rules, and the accuracy of the
/// prices for which it searches violated rules.
const RULE_ROUNDS: u32 = 2;
const RULE_CLIMBS: u32 = 40;
const ROUGH_RULES: f64 = 5e-4;

/// Accuracy of the kinds' choices, at first and at the end.
const ROUGH: f64 = 1e-3;
const EXACT: f64 = 1e-7;

/// Returns prices whose bound is within `tolerance` of the best, as far as the number of rounds and `stop`
/// allow; `None` if no bound was proven.
pub(crate) fn clear(
    kinds: &mut JobKinds<'_>,
    first: &[f64],
    tolerance: f64,
    stop: &dyn Fn() -> bool,
) -> Option<BalancedPrices> {
    ClimbPeak::new(first).clear(kinds, tolerance, stop)
}

/// Returns the relative gap between the known and the promised bound; infinite if no bound is promised (as
/// after a failed climb) or known.
fn gap_below(promised: f64, known: f64) -> f64 {
    if !promised.is_finite() || !known.is_finite() {
        return f64::INFINITY;
    }
    (promised - known) / promised.abs().max(f64::MIN_POSITIVE)
}

/// The combined answers of all kinds.
struct Answers {
    /// Value with the bundles found.
    value: f64,
    /// Proven value, rounded down.
    floor: f64,
}

/// Searches for the cheapest bundles of all kinds at these prices; `None` if `stop` returns true in the
/// meantime.
///
/// In the first round every kind is searched, even if only briefly, because without an answer from each
/// nothing is proven.
fn ask(
    kinds: &mut JobKinds<'_>,
    prices: &[f64],
    (tolerance, patience): (f64, u32),
    is_first: bool,
    stop: &dyn Fn() -> bool,
) -> Option<Answers> {
    kinds.cheapest(prices);
    let worth: f64 = prices.iter().zip(&kinds.capacity).map(|(price, count)| price * count).sum();
    let (mut value, mut floor, mut scale) = (-worth, -worth, worth);
    let mut is_late = false;
    for kind in 0..kinds.all.len() {
        is_late = is_late || stop();
        if is_late && !is_first {
            return None;
        }
        let patience = if is_late { 1 } else { patience };
        let (least, found) = kinds.ask(kind, prices, (tolerance, patience));
        let count = to_f64(kinds.all[kind].jobs.len());
        value += count * found;
        floor += count * least;
        scale += count * found;
    }
    // Sums of many terms have rounding errors; the bound must stay valid.
    floor -= scale.abs() * 1e-13;
    Some(Answers { value, floor })
}

impl ClimbPeak {
    /// Returns the start of a search at these prices.
    pub(crate) fn new(first: &[f64]) -> Self {
        Self {
            prices: first.to_vec(),
            value: f64::NEG_INFINITY,
            planes: Vec::new(),
            mix: Vec::new(),
            promised: f64::INFINITY,
            most_rounds: ROUNDS,
            most_climbs: CLIMBS,
        }
    }

    /// Returns prices like [`clear`], from the planes so far.
    pub(crate) fn clear(
        &mut self,
        kinds: &mut JobKinds<'_>,
        tolerance: f64,
        stop: &dyn Fn() -> bool,
    ) -> Option<BalancedPrices> {
        let mut best: Option<(Answers, Vec<f64>)> = None;
        let mut exactness = ROUGH;
        for round in 0..self.most_rounds {
            let slack = (0.1 * exactness).max(0.2 * tolerance);
            self.start(kinds);
            self.rise(kinds, slack, stop);
            let is_first = best.is_none();
            let patience = HASTY << (2 * round).min(PATIENT);
            let effort = (0.1 * exactness, patience);
            let Some(answers) = ask(kinds, &self.prices, effort, is_first, stop) else { break };
            let promised = self.value.max(self.promised);
            if best.as_ref().is_none_or(|(known, _)| answers.floor > known.floor) {
                best = Some((answers, self.prices.clone()));
            }
            let known = best.as_ref().map_or(f64::NEG_INFINITY, |(known, _)| known.value);
            let gap = gap_below(promised, known);
            if gap <= tolerance && exactness <= (10.0 * EXACT).max(0.5 * tolerance) {
                break;
            }
            exactness = gap.clamp(10.0 * EXACT, exactness);
        }
        let (answers, prices) = best?;
        Some(BalancedPrices { prices, lower: answers.floor, mix: self.mix() })
    }

    /// Adds the rules that the mix at roughly the best prices violates according to `find`, up to `rounds`
    /// times, and removes those that turn out to be free of charge; returns whether any was added.
    pub(crate) fn add_rules(
        &mut self,
        kinds: &mut JobKinds<'_>,
        find: &dyn Fn(&JobKinds<'_>, &Mix) -> Vec<NodeRule>,
        rounds: u32,
        stop: &dyn Fn() -> bool,
    ) -> bool {
        for round in 0..rounds {
            self.start(kinds);
            self.rise(kinds, ROUGH_RULES, stop);
            let broken = find(kinds, &self.mix());
            if broken.is_empty() || stop() {
                return round > 0;
            }
            self.drop_free(kinds);
            self.obey(kinds, broken);
        }
        true
    }

    /// Removes the rules without a price.
    fn drop_free(&mut self, kinds: &mut JobKinds<'_>) {
        let types = kinds.catalogue.types();
        let kept: Vec<bool> =
            self.prices.iter().enumerate().map(|(at, price)| at < types || *price > 0.0).collect();
        if kept.iter().all(|kept| *kept) {
            return;
        }
        kinds.keep(&kept);
        retain(&mut self.prices, &kept);
        for plane in &mut self.planes {
            // At prices where a removed rule had a price, the value is different without the rule.
            let mut removed = plane.cut.at.iter().zip(&plane.cut.slope).zip(&kept);
            plane.cut.value -=
                removed.by_ref().filter(|(_, kept)| !**kept).map(|((at, slope), _)| at * slope).sum::<f64>();
            retain(&mut plane.cut.at, &kept);
            retain(&mut plane.cut.slope, &kept);
        }
    }

    /// Extends the prices and planes by rules, which have no price yet.
    fn obey(&mut self, kinds: &mut JobKinds<'_>, rules: Vec<NodeRule>) {
        (self.most_rounds, self.most_climbs) = (RULE_ROUNDS, RULE_CLIMBS);
        let (known, more) = (self.prices.len(), rules.len());
        kinds.obey(rules);
        self.prices.resize(known + more, 0.0);
        for plane in &mut self.planes {
            plane.cut.at.resize(known + more, 0.0);
            plane.cut.slope.extend(kinds.capacity[known..].iter().map(|count| -count));
            for (kind, &bundle) in kinds.all.iter().zip(&plane.choice) {
                let uses = &kinds.uses(kind, bundle as usize)[known..];
                let count = to_f64(kind.jobs.len());
                plane.cut.slope[known..]
                    .iter_mut()
                    .zip(uses)
                    .for_each(|(slope, use_)| *slope += count * use_);
            }
        }
    }

    /// Returns the mix of choices that balances the prices.
    fn mix(&self) -> Mix {
        let mix = self.mix.iter().zip(&self.planes).filter(|(weight, _)| **weight > 0.0);
        mix.map(|(weight, plane)| (*weight, plane.choice.clone())).collect()
    }

    /// Restarts from the present prices with lists that may have grown.
    fn start(&mut self, kinds: &mut JobKinds<'_>) {
        let plane = answer(kinds, &self.prices);
        self.value = plane.cut.value;
        self.planes.push(plane);
    }

    /// Searches for the maximum in a box around the best prices so far, which grows if the planes predict
    /// well.
    fn rise(&mut self, kinds: &mut JobKinds<'_>, tolerance: f64, stop: &dyn Fn() -> bool) {
        let mut reach = 0.3;
        // If all GPUs are free of charge, node capacity may still have a price.
        let mean = self.value.abs() / kinds.capacity.iter().sum::<f64>();
        let floor = self.prices.iter().copied().fold(mean, f64::max) * LEAST_WIDTH;
        for climb in 0..self.most_climbs {
            if climb > LEAST_CLIMBS && stop() {
                return;
            }
            let side = |&price: &f64| {
                let width = reach * price.max(floor).max(f64::MIN_POSITIVE);
                ((price - width).max(0.0), price + width)
            };
            let box_: Vec<(f64, f64)> = self.prices.iter().map(side).collect();
            let cuts: Vec<&Cut> = self.planes.iter().map(|plane| &plane.cut).collect();
            let Some(top) = highest_under(&cuts, &box_) else { return };
            let promise = top.height - self.value;
            self.mix.clone_from(&top.weights);
            if promise <= tolerance * self.value.abs() {
                let is_inner = |((low, high), price): (&(f64, f64), &f64)| {
                    *low == 0.0 && *price == 0.0 || (price > low && price < high)
                };
                if reach >= 1e6 || box_.iter().zip(&top.place).all(is_inner) {
                    self.promised = top.height;
                    return;
                }
                reach *= 8.0;
                continue;
            }
            self.forget(&top.place);
            let plane = answer(kinds, &top.place);
            let gain = plane.cut.value - self.value;
            if gain > 0.0 {
                self.value = plane.cut.value;
                self.prices = top.place;
            }
            self.planes.push(plane);
            self.mix.push(0.0);
            if gain >= 0.5 * promise {
                reach *= 2.0;
            } else if gain <= 0.05 * promise {
                reach *= 0.5;
            }
        }
    }

    /// Keeps the planes that are low near these prices.
    fn forget(&mut self, prices: &[f64]) {
        let count = prices.len() + 1;
        let most = if count <= FEW_PRICES { 6 * count } else { LEAST_PLANES.max(3 * count / 2) };
        if self.planes.len() <= most {
            return;
        }
        let mut by_height: Vec<(f64, usize)> = self
            .planes
            .iter()
            .enumerate()
            .map(|(number, plane)| (plane.cut.height(prices), number))
            .collect();
        by_height.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut is_low = vec![false; self.planes.len()];
        for (_, number) in by_height.into_iter().take(most) {
            is_low[number] = true;
        }
        let keep = |number: &mut usize| {
            *number += 1;
            is_low[*number - 1]
        };
        let (mut plane, mut weight) = (0, 0);
        self.planes.retain(|_| keep(&mut plane));
        self.mix.retain(|_| keep(&mut weight));
    }
}

/// Keeps the elements of a list for which `kept` is true.
pub(super) fn retain<T>(list: &mut Vec<T>, kept: &[bool]) {
    let mut kept = kept.iter();
    list.retain(|_| kept.next().copied().unwrap_or(true));
}

/// Returns the plane of the kinds' cheapest choices at these prices.
fn answer(kinds: &mut JobKinds<'_>, prices: &[f64]) -> Plane {
    let choice = kinds.cheapest(prices);
    let mut slope: Vec<f64> = kinds.capacity.iter().map(|count| -count).collect();
    let mut value: f64 = prices.iter().zip(&slope).map(|(price, slope)| price * slope).sum();
    for kind in &kinds.all {
        let count = to_f64(kind.jobs.len());
        value += count * kinds.value(kind);
        for (slope, gpus) in slope.iter_mut().zip(kinds.uses(kind, kind.last)) {
            *slope += count * gpus;
        }
    }
    Plane { cut: Cut { at: prices.to_vec(), value, slope }, choice }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_climb_that_failed_leaves_the_answers_as_rough_as_they_were() {
        let gap = gap_below(f64::INFINITY, 5.0);
        assert_eq!(gap.clamp(10.0 * EXACT, ROUGH).total_cmp(&ROUGH), std::cmp::Ordering::Equal);
        assert!(gap_below(5.0, f64::NEG_INFINITY) > ROUGH && gap_below(0.0, 0.0) <= EXACT);
        assert!((gap_below(10.0, 9.0) - 0.1).abs() < 1e-12);
    }
}
