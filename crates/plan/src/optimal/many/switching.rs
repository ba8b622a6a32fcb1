//! Switches jobs to other bundles until together they use the offered GPUs.

use crate::optimal::many::JobKinds;
use crate::optimal::many::kinds::JobKind;
use crate::optimal::many::rounding::BundleChoices;

/// Sequence of price factors for excess and idle GPUs; jobs that lose little by a switch switch first.
const PRESSURES: [f64; 14] =
    [0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.4, 0.7, 0.95, 2.0, 5.0, 20.0, 100.0];

/// The factor of idle GPUs is at most this.
const IDLE: f64 = 0.95;

/// Minimum price of a resource as a fraction of the highest price; resources without a price would be
/// assigned twice.
const LEAST_PRICE: f64 = 0.01;

/// Maximum number of sweeps over all kinds per factor.
const SWEEPS: u32 = 4;

/// The offered and the used resources, with the prices at which their difference counts.
struct Balance {
    prices: Vec<f64>,
    offered: Vec<f64>,
    used: Vec<f64>,
    pressure: f64,
    /// The market's prices, plus the price of the imbalance of each resource at the start of a sweep.
    slopes: Vec<f64>,
}

/// Switches jobs to other bundles of their lists, the cheapest switches first, until no GPU is assigned twice
/// and few are idle. Ignores `stop` until no GPU is assigned twice, because a plan from arbitrary remaining
/// GPUs is far from the optimum.
pub(crate) fn switch(
    kinds: &mut JobKinds<'_>,
    chosen: &mut BundleChoices,
    prices: &[f64],
    stop: &dyn Fn() -> bool,
) {
    kinds.cheapest(prices);
    let mut used = vec![0.0; prices.len()];
    for (kind, choices) in kinds.all.iter().zip(chosen.iter()) {
        for &(bundle, count) in choices {
            let gpus = kinds.uses(kind, bundle);
            used.iter_mut().zip(gpus).for_each(|(used, gpus)| *used += f64::from(count) * gpus);
        }
    }
    let least = prices.iter().copied().fold(0.0, f64::max) * LEAST_PRICE;
    let least = prices.iter().map(|price| price.max(least)).collect();
    let mut balance =
        Balance { prices: least, offered: kinds.capacity.clone(), used, pressure: 0.0, slopes: Vec::new() };
    let mut outlay = Vec::new();
    for pressure in PRESSURES {
        balance.pressure = pressure;
        for _ in 0..SWEEPS {
            let mut has_switched = false;
            if balance.is_met() && stop() {
                return;
            }
            balance.slopes_at(prices);
            kinds.catalogue.put_rents(&balance.slopes, &mut outlay);
            for (kind, choices) in kinds.all.iter().zip(chosen.iter_mut()) {
                while let Some((place, to)) = balance.best_switch(kinds, kind, choices, &outlay) {
                    let from = choices[place].0;
                    balance.change(kinds.uses(kind, from), kinds.uses(kind, to));
                    choices[place].1 -= 1;
                    match choices.iter_mut().find(|(bundle, _)| *bundle == to) {
                        Some((_, count)) => *count += 1,
                        None => choices.push((to, 1)),
                    }
                    choices.retain(|(_, count)| *count > 0);
                    has_switched = true;
                }
            }
            if !has_switched {
                break;
            }
        }
        if pressure > IDLE && balance.is_met() {
            return;
        }
    }
}

impl Balance {
    /// Returns the index in `choices` of a bundle in use, and the list index of another bundle: the switch
    /// that lowers the market cost most.
    fn best_switch(
        &self,
        kinds: &JobKinds<'_>,
        kind: &JobKind,
        choices: &[(usize, u32)],
        outlay: &[f64],
    ) -> Option<(usize, usize)> {
        let list = &kinds.lists[kind.list];
        let rent = |place: usize| kinds.catalogue.rent(list.bundles[place]);
        let mut best: Option<(f64, (usize, usize))> = None;
        for (place, &(from, _)) in choices.iter().enumerate() {
            let value = kind.scale * list.costs[from] + rent(from);
            let least = -1e-12 * value;
            // The cost of the imbalance is convex: a switch to a bundle above this did not lower the market
            // cost at the start of the sweep. A sweep without switches is the last one.
            let most = kind.scale * list.costs[from] + outlay[list.bundles[from] as usize];
            for (to, (cost, &bundle)) in list.costs.iter().zip(&list.bundles).enumerate() {
                if kind.scale * cost + outlay[bundle as usize] >= most {
                    continue;
                }
                let paid = kinds.catalogue.rent(bundle);
                let loss = kind.scale * cost + paid - value;
                if loss >= self.pressure * (rent(from) + paid) || to == from {
                    continue;
                }
                let change = loss + self.effect(kinds.uses(kind, from), kinds.uses(kind, to));
                if change < best.map_or(least, |(change, _)| change) {
                    best = Some((change, (place, to)));
                }
            }
        }
        best.map(|(_, switch)| switch)
    }

    /// Returns the change of the cost of the imbalance after a switch between bundles that use these
    /// resources.
    fn effect(&self, from: &[f64], to: &[f64]) -> f64 {
        let mut sum = 0.0;
        for ty in 0..from.len() {
            let change = to[ty] - from[ty];
            if change != 0.0 {
                sum += self.weight(ty, self.used[ty] + change) - self.weight(ty, self.used[ty]);
            }
        }
        sum
    }

    /// Computes the slopes of the market cost in each resource; prices are those of the market.
    fn slopes_at(&mut self, prices: &[f64]) {
        let slope = |ty: usize| {
            let excess = self.used[ty] - self.offered[ty];
            let pressure = if excess > 0.0 { self.pressure } else { -self.pressure.min(IDLE) };
            prices[ty] + pressure * self.prices[ty]
        };
        self.slopes = (0..prices.len()).map(slope).collect();
    }

    fn weight(&self, ty: usize, used: f64) -> f64 {
        let excess = used - self.offered[ty];
        let pressure = if excess > 0.0 { self.pressure } else { self.pressure.min(IDLE) };
        pressure * self.prices[ty] * excess.abs()
    }

    fn change(&mut self, from: &[f64], to: &[f64]) {
        for ((used, from), to) in self.used.iter_mut().zip(from).zip(to) {
            *used += to - from;
        }
    }

    fn is_met(&self) -> bool {
        self.used.iter().zip(&self.offered).all(|(used, offered)| *used <= offered + 0.5)
    }
}
