//! Prices of GPUs, and the lower bound that they prove (Lagrangian dual).
//!
//! At a price for each GPU, every job chooses its cheapest bundle. The sum of their costs, minus the value of
//! all offered GPUs, is a lower bound for every plan. The prices with the highest bound are found by price
//! adjustment as in a market, then by cutting planes.

use std::collections::BTreeMap;

use crate::bound::Bound;
use crate::pricing::{Pricer, Rings, StepTimes, Stock};
use crate::replica::NodeShapes;
use crate::solve::{Cut, Highest, highest_under};
use crate::{Dues, Objective, Problem};
use hsched_model::number::to_f64;

/// The market of some jobs for the offered GPUs.
pub(super) struct Dual<'a> {
    pub pricers: Vec<Pricer<'a>>,
    /// The priced resources: GPUs by type, then the replica capacity of nodes.
    pub stock: Stock,
    /// Weight by job; they sum to one, so that sums have the unit of the objective.
    pub weights: Vec<f64>,
    pub(super) total_weight: f64,
    /// The best prices so far, in units of the objective, and the bound that they prove.
    pub prices: Vec<f64>,
    pub value: f64,
    /// Whether the weights are variables, so that the weighted sum of completion times bounds the makespan.
    makespan: bool,
    /// Each job's latest choice, from which the next search starts, and the completion time with this choice.
    answers: Vec<Vec<u32>>,
    pub(super) times: Vec<f64>,
    cuts: Vec<Cut>,
}

/// Initial price of room for a whole replica on a node, as a fraction of the price of its GPUs.
const WHOLE: f64 = 0.05;

/// Rings and the maximum replicas of a kind of job.
type ReplicaRings = (Rings, Vec<u32>);

/// Relative accuracy of the jobs' choices during the search for prices, and in the final evaluation.
const ROUGH: f64 = 1e-4;
const EXACT: f64 = 1e-9;

/// The finest accuracy that sums of floating-point numbers can have.
const FINEST: f64 = 1e-13;

/// Minimum number of market rounds even without time, because a plan needs prices.
const LEAST_ROUNDS: u32 = 6;

/// Maximum number of market rounds (four times as many for the makespan), of planes kept, and of cutting
/// rounds.
const MARKET_ROUNDS: u32 = 40;
const PLANES: usize = 120;
const CUTTING_ROUNDS: u32 = 120;

/// The jobs' choices at some prices.
struct PriceResponse {
    /// Value with the bundles found, and its proven lower bound.
    value: f64,
    floor: f64,
    demand: Vec<f64>,
}

impl<'a> Dual<'a> {
    /// Returns the market of `jobs`; `None` if one of them has no legal bundle.
    ///
    /// `kept` has the results of earlier searches for jobs with the same properties.
    pub(super) fn new(problem: &'a Problem, jobs: &[usize], kept: Option<&'a StepTimes>) -> Option<Self> {
        let mut dual = Self::unpriced(problem, jobs, kept);
        let free = dual.answer(&dual.prices.clone(), ROUGH, &|| false)?;
        dual.value = free.floor;
        dual.remember(&dual.prices.clone(), &free);
        Some(dual)
    }

    /// Returns those of the jobs that have no legal bundle with balanced shares, in order; if `stop` returns
    /// true, only those found until then.
    pub(super) fn impossible(problem: &Problem, jobs: &[usize], stop: &dyn Fn() -> bool) -> Vec<usize> {
        let kept = StepTimes::default();
        let mut dual = Dual::unpriced(problem, jobs, Some(&kept));
        let free = vec![0.0; problem.gpu_types.len()];
        let pairs = jobs.iter().zip(&mut dual.pricers).take_while(|_| !stop());
        pairs
            .filter_map(|(&job, pricer)| pricer.cheapest(&free, ROUGH, None).is_none().then_some(job))
            .collect()
    }

    /// Returns the market before any job has made a choice.
    pub(super) fn unpriced(problem: &'a Problem, jobs: &[usize], kept: Option<&'a StepTimes>) -> Self {
        let rings = Rings::new(problem);
        let stock = Stock::new(problem, jobs);
        let gpus = problem.offered();
        let shapes = NodeShapes::offered(problem);
        let dues = Dues::of(problem);
        // The capacity for replicas of the same sizes is computed once.
        let mut by_sizes: BTreeMap<(bool, &[u32]), ReplicaRings> = BTreeMap::new();
        let mut pricer = |&job: &usize| {
            let model = &problem.jobs[job];
            let (rings, most) = match &model.replica {
                Some(replica) if model.needs_blocks() || model.is_loose() => {
                    let new = || (rings.of_replicas(model), model.most_replicas(&shapes));
                    let (rings, most) =
                        by_sizes.entry((replica.same_node, &replica.sizes)).or_insert_with(new);
                    (&*rings, most.as_slice())
                }
                _ => (&rings, gpus.as_slice()),
            };
            Pricer::new(model, rings, most, kept).due(dues.due(job))
        };
        let pricers = jobs.iter().map(&mut pricer).collect();
        let weight = |&job: &usize| problem.objective.weight(&problem.jobs[job]);
        let weights: Vec<f64> = jobs.iter().map(weight).collect();
        let sum: f64 = weights.iter().sum();
        let total_weight = if problem.objective == Objective::Makespan { 1.0 } else { sum };
        Self {
            pricers,
            weights: weights.iter().map(|weight| weight / sum).collect(),
            total_weight,
            prices: vec![0.0; stock.offered.len()],
            value: f64::NEG_INFINITY,
            makespan: problem.objective == Objective::Makespan,
            answers: vec![vec![0; gpus.len()]; jobs.len()],
            times: vec![0.0; jobs.len()],
            cuts: Vec::new(),
            stock,
        }
    }

    /// Raises the bound until it is within `tolerance` of the best bound that prices can prove, or `stop`
    /// returns true.
    pub(super) fn ascend(&mut self, tolerance: f64, stop: &dyn Fn() -> bool) {
        self.haggle(stop);
        self.cut(tolerance, stop);
    }

    /// Returns the bound that the best prices prove. Its rounding error is small relative to the objective,
    /// even if the value of all GPUs is far larger.
    pub(super) fn bound(&mut self) -> Option<Bound> {
        let worth: f64 =
            self.prices.iter().zip(&self.stock.offered).map(|(price, &count)| price * f64::from(count)).sum();
        let tolerance = tolerance_of_bound(self.value, worth);
        let root = self.answer(&self.prices.clone(), tolerance, &|| false)?.floor;
        let root = root + self.stock.surplus(&self.prices);
        self.value = root;
        Some(self.proves(root))
    }

    /// Returns `root` as a bound, with the best prices so far and the weights.
    pub(super) fn proves(&self, root: f64) -> Bound {
        let prices: Vec<f64> = self.prices.iter().map(|price| price * self.total_weight).collect();
        let weights = self.weights.iter().map(|weight| weight * self.total_weight).collect();
        let replica_prices = self.stock.replica_prices(&prices);
        let prices = prices.into_iter().take(self.types()).collect();
        Bound { lower: root, root, prices, replica_prices, weights }
    }

    /// Adjusts prices as in a market: they rise if too many GPUs are wanted and fall if too few are.
    fn haggle(&mut self, stop: &dyn Fn() -> bool) {
        let mut prices = self.first_prices();
        let mut weights = self.weights.clone();
        let rounds = if self.makespan { 4 * MARKET_ROUNDS } else { MARKET_ROUNDS };
        for round in 0..rounds {
            if round >= LEAST_ROUNDS && stop() {
                break;
            }
            let best_weights = std::mem::replace(&mut self.weights, weights.clone());
            let interrupt = || round >= LEAST_ROUNDS && stop();
            let Some(answer) = self.answer(&prices, ROUGH, &interrupt) else {
                self.weights = best_weights;
                break;
            };
            if !self.keep(&prices, &answer) {
                self.weights = best_weights;
            }
            let speed = 0.5 / (1.0 + f64::from(round) / 4.0);
            if self.makespan {
                self.shift(&mut weights, speed);
            }
            for (ty, price) in prices.iter_mut().enumerate() {
                let offered = f64::from(self.stock.offered[ty].max(1));
                let excess = ((answer.demand[ty] - offered) / offered).clamp(-1.0, 2.0);
                *price *= (speed * excess).exp();
            }
        }
        if self.makespan {
            // Cutting planes are valid only for the weights they were computed with.
            self.cuts.clear();
            if let Some(answer) = self.answer(&self.prices.clone(), ROUGH, &|| false) {
                self.remember(&self.prices.clone(), &answer);
            }
        }
    }

    /// Moves weight to the jobs that take longest.
    fn shift(&self, weights: &mut [f64], speed: f64) {
        let mean: f64 = weights.iter().zip(&self.times).map(|(weight, time)| weight * time).sum();
        for (weight, time) in weights.iter_mut().zip(&self.times) {
            *weight *= (speed * (time / mean - 1.0).clamp(-1.0, 2.0)).exp();
        }
        let sum: f64 = weights.iter().sum();
        let least = 1e-6 / to_f64(weights.len());
        for weight in weights.iter_mut() {
            *weight = (*weight / sum).max(least);
        }
        let sum: f64 = weights.iter().sum();
        for weight in weights {
            *weight /= sum;
        }
    }

    /// Returns prices at which the value of the offered GPUs equals what the jobs would pay with equal
    /// shares.
    pub(super) fn first_prices(&self) -> Vec<f64> {
        let types = self.types();
        let mut worth = vec![0.0; types];
        let mut counted = vec![0.0; types];
        for (pricer, weight) in self.pricers.iter().zip(&self.weights) {
            let size = |ty: usize| f64::from(pricer.job.size(ty));
            let rate = |ty: usize| {
                pricer.job.types[ty].map_or(0.0, |model| model.speed.rate_at(32.0 * size(ty)) / size(ty))
            };
            let total: f64 = (0..types).map(|ty| rate(ty) * f64::from(self.stock.offered[ty])).sum();
            let samples = to_f64(pricer.job.samples_per_epoch);
            let share = total / to_f64(self.weights.len());
            let time = pricer.job.completion_time(samples / share);
            for ty in 0..types {
                // The saving from one more GPU: the derivative of T |Π| / V.
                worth[ty] += weight * time * rate(ty) / share;
                counted[ty] += f64::from(u8::from(rate(ty) > 0.0));
            }
        }
        let worth = worth.iter().zip(&counted);
        self.with_replicas(worth.map(|(w, &n): (&f64, &f64)| if n > 0.0 { w / n } else { 0.0 }).collect())
    }

    /// Returns the prices of an earlier plan, in weighted seconds by GPU type, converted to units of this
    /// objective.
    pub(super) fn prices_of(&self, earlier: &[f64]) -> Vec<f64> {
        self.with_replicas(earlier.iter().map(|price| price / self.total_weight).collect())
    }

    /// Returns prices of GPUs, followed by initial prices of the nodes' replica capacity.
    fn with_replicas(&self, mut prices: Vec<f64>) -> Vec<f64> {
        for &(ty, size) in &self.stock.sizes {
            prices.push(WHOLE * f64::from(size) * prices[ty]);
        }
        prices
    }

    /// Returns the number of GPU types, which are the first resources.
    fn types(&self) -> usize {
        self.stock.offered.len() - self.stock.sizes.len()
    }

    /// Returns the prices of a job's replicas by type, in seconds of its own time.
    pub(super) fn own_prices(&self, job: usize, prices: &[f64]) -> Vec<f64> {
        self.stock.own_prices(self.pricers[job].job, prices, self.weights[job])
    }

    /// Uses cutting planes in a box around the best prices. The box grows if the planes predict well, and
    /// shrinks if they predict badly.
    fn cut(&mut self, tolerance: f64, stop: &dyn Fn() -> bool) {
        let mut reach = 0.3;
        let floor = self.prices.iter().copied().fold(0.0, f64::max) * 1e-3;
        for _ in 0..CUTTING_ROUNDS {
            if stop() {
                return;
            }
            let side = |&price: &f64| {
                let width = reach * price.max(floor).max(f64::MIN_POSITIVE);
                ((price - width).max(0.0), price + width)
            };
            let box_: Vec<(f64, f64)> = self.prices.iter().map(side).collect();
            let cuts: Vec<&Cut> = self.cuts.iter().collect();
            let Some(Highest { place: prices, height, .. }) = highest_under(&cuts, &box_) else { return };
            self.forget(&prices);
            let promise = height - self.value;
            if promise <= tolerance * self.value.abs() {
                if reach >= 1e6 || promise <= 0.0 && reach < 1e-6 {
                    return;
                }
                // This box has no better prices. If the highest point is not at a side of the box, no larger
                // box has better prices either.
                let inner = box_
                    .iter()
                    .zip(&prices)
                    .all(|((low, high), p)| *low == 0.0 && *p == 0.0 || (p > low && p < high));
                if inner {
                    return;
                }
                reach *= 8.0;
                continue;
            }
            let Some(answer) = self.answer(&prices, ROUGH, stop) else { return };
            let gain = answer.floor - self.value;
            self.keep(&prices, &answer);
            if gain >= 0.5 * promise {
                reach *= 2.0;
            } else if gain <= 0.05 * promise {
                reach *= 0.5;
            }
        }
    }

    /// Keeps the answer's plane, and these prices if they are the best so far; returns whether they are.
    fn keep(&mut self, prices: &[f64], answer: &PriceResponse) -> bool {
        let best = answer.floor > self.value;
        if best {
            self.value = answer.floor;
            self.prices = prices.to_vec();
        }
        self.remember(prices, answer);
        best
    }

    fn remember(&mut self, prices: &[f64], answer: &PriceResponse) {
        if self.cuts.len() >= PLANES {
            self.cuts.remove(0);
        }
        let slope = answer.demand.iter().zip(&self.stock.offered).map(|(d, &c)| d - f64::from(c)).collect();
        self.cuts.push(Cut { at: prices.to_vec(), value: answer.value, slope });
    }

    /// Keeps the planes that are low near `prices`; the others have no influence and slow down each round.
    fn forget(&mut self, prices: &[f64]) {
        let most = 6 * (prices.len() + 1);
        if self.cuts.len() <= most {
            return;
        }
        let mut by_height: Vec<(f64, usize)> =
            self.cuts.iter().enumerate().map(|(index, cut)| (cut.height(prices), index)).collect();
        by_height.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut kept: Vec<usize> = by_height.into_iter().take(most).map(|(_, index)| index).collect();
        kept.sort_unstable();
        self.cuts = kept.into_iter().map(|index| self.cuts[index].clone()).collect();
    }

    /// Returns the jobs' choices; `None` if one of them has no legal bundle, or if `stop` returns true in the
    /// meantime.
    fn answer(&mut self, prices: &[f64], tolerance: f64, stop: &dyn Fn() -> bool) -> Option<PriceResponse> {
        let worth: f64 = prices.iter().zip(&self.stock.offered).map(|(p, &count)| p * f64::from(count)).sum();
        let mut answer = PriceResponse { value: -worth, floor: -worth, demand: vec![0.0; prices.len()] };
        let mut scale = worth;
        let mut prices_of_job = Vec::with_capacity(prices.len());
        let last = self.answers.iter_mut().zip(&mut self.times);
        for ((pricer, &weight), (last, time)) in self.pricers.iter_mut().zip(&self.weights).zip(last) {
            if stop() {
                return None;
            }
            self.stock.put_own_prices(pricer.job, prices, weight, &mut prices_of_job);
            let priced = pricer.cheapest(&prices_of_job, tolerance, Some(last))?;
            answer.value += weight * priced.value;
            answer.floor += weight * priced.floor;
            scale += weight * priced.value;
            self.stock.add_uses(pricer.job, &priced.bundle.counts, &mut answer.demand);
            *time = priced.bundle.cost;
            *last = priced.bundle.counts;
        }
        // Sums of many terms have rounding errors; the bound must stay valid.
        answer.floor -= scale.abs() * 1e-13;
        Some(answer)
    }
}

/// Returns the relative accuracy of the jobs' choices at which the bound `value` is accurate, although it is
/// their costs minus the worth of all GPUs. `value` is not finite before the jobs have chosen.
fn tolerance_of_bound(value: f64, worth: f64) -> f64 {
    let part = (value / (value + worth)).abs();
    let part = if part.is_finite() { part.min(1.0) } else { 1.0 };
    (EXACT * part).max(FINEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_below_high_prices_is_as_accurate_as_numbers_allow() {
        let check = |value: f64, worth: f64, expected: f64| {
            let tolerance = tolerance_of_bound(value, worth);
            assert!((tolerance / expected - 1.0).abs() < 1e-9, "{value} {worth}: {tolerance}");
        };
        check(1.0, 0.0, EXACT);
        check(1.0, 9.0, 0.1 * EXACT);
        check(1.0, 1e12, FINEST);
        check(0.0, 1.0, FINEST);
        // The GPUs may be worth more than the jobs' costs.
        check(-3.0, 4.0, EXACT);
        check(f64::NEG_INFINITY, 4.0, EXACT);
        check(0.0, 0.0, EXACT);
    }
}
