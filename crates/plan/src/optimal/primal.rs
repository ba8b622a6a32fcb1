//! A good plan: each job's best choice at the prices in turn, then pairs of jobs that are placed again.

use rand::{Rng, RngExt, SeedableRng};
use rand_pcg::Pcg64;

use crate::dual::Dual;
use crate::optimal::layout::{Layout, RingPlacement};
use crate::{Objective, Problem};

/// Placements of all jobs of a market, and the remaining GPUs.
#[derive(Clone, Debug)]
pub(super) struct Primal<'a> {
    pub layout: Layout<'a>,
    pub rings: Vec<RingPlacement>,
    pub value: f64,
}

/// Accuracy of the choice of a placement.
const TOLERANCE: f64 = 1e-6;

/// Price factors tried until all jobs fit and a further factor does not improve the plan.
const MARKUPS: [f64; 9] = [1.0, 1.02, 1.05, 1.1, 1.2, 1.5, 2.0, 4.0, 16.0];

/// Maximum number of further orders tried with one factor if a job does not fit.
const MOST_TRIES: usize = 30;

/// Number of consecutive unsuccessful pairs, and of all pairs, after which improvement ends; both per job.
const VAIN_PAIRS: usize = 100;
const MOST_PAIRS: usize = 1000;

/// Number of consecutive unsuccessful pairs per job after which perturbed prices may include a toll (see
/// [`prices_about`]).
const STUCK_PAIRS: usize = 20;

impl<'a> Primal<'a> {
    /// Places every job at the market's prices; `None` if a job does not fit.
    pub(super) fn at_prices(
        problem: &'a Problem,
        dual: &mut Dual<'_>,
        stop: &dyn Fn() -> bool,
    ) -> Option<Self> {
        let mut best: Option<Self> = None;
        for markup in MARKUPS {
            if best.is_some() && stop() {
                break;
            }
            let prices: Vec<f64> = dual.prices.iter().map(|price| price * markup).collect();
            let Some(mut placed) = Self::in_turn(problem, dual, &prices) else { continue };
            placed.fill(problem, dual);
            if best.as_ref().is_none_or(|best| placed.value < best.value) {
                best = Some(placed);
            } else {
                break;
            }
        }
        best
    }

    /// Places the jobs with the highest cost first; a job that does not fit moves to the front in another
    /// try.
    fn in_turn(problem: &'a Problem, dual: &mut Dual<'_>, prices: &[f64]) -> Option<Self> {
        let empty = Layout::new(problem);
        let jobs = dual.pricers.len();
        let own_prices: Vec<Vec<f64>> = (0..jobs).map(|job| dual.own_prices(job, prices)).collect();
        let cost = |job: usize| dual.weights[job] * dual.times[job];
        let mut order: Vec<usize> = (0..jobs).collect();
        order.sort_by(|&a, &b| cost(b).total_cmp(&cost(a)).then(a.cmp(&b)));
        for _ in 0..=MOST_TRIES.min(jobs) {
            let mut layout = empty.clone();
            let mut places: Vec<Option<RingPlacement>> = vec![None; jobs];
            let stuck = order.iter().position(|&job| {
                let place = layout.best_ring(&mut dual.pricers[job], &own_prices[job], TOLERANCE);
                if let Some(place) = &place {
                    layout.take(place);
                }
                places[job] = place;
                places[job].is_none()
            });
            let Some(stuck) = stuck else {
                let places: Vec<RingPlacement> = places.into_iter().collect::<Option<_>>()?;
                let value = potential(problem, &dual.weights, &places);
                return Some(Self { layout, rings: places, value });
            };
            let job = order.remove(stuck);
            order.insert(0, job);
        }
        None
    }

    /// Lets each job in turn take remaining GPUs that make it faster.
    fn fill(&mut self, problem: &Problem, dual: &mut Dual<'_>) {
        let mut order: Vec<usize> = (0..self.rings.len()).collect();
        order.sort_by(|&a, &b| {
            let cost = |job: usize| dual.weights[job] * self.rings[job].cost;
            cost(b).total_cmp(&cost(a)).then(a.cmp(&b))
        });
        let free = vec![0.0; self.layout.room.len()];
        for job in order {
            self.layout.give_back(&self.rings[job]);
            if let Some(place) = self.layout.best_ring(&mut dual.pricers[job], &free, TOLERANCE)
                && place.cost < self.rings[job].cost
            {
                self.rings[job] = place;
            }
            self.layout.take(&self.rings[job]);
        }
        self.value = potential(problem, &dual.weights, &self.rings);
    }

    /// Places pairs of jobs again until many attempts fail, the value is at most `enough`, or `stop` returns
    /// true; returns whether `stop` did.
    pub(super) fn improve(
        &mut self,
        problem: &Problem,
        dual: &mut Dual<'_>,
        enough: f64,
        stop: &dyn Fn() -> bool,
    ) -> bool {
        let jobs = self.rings.len();
        let mut random = Pcg64::seed_from_u64(problem.seed);
        let mut vain = 0;
        for _ in 0..MOST_PAIRS * jobs {
            if vain > VAIN_PAIRS * jobs || self.value <= enough || jobs < 2 {
                return false;
            }
            if stop() {
                return true;
            }
            let (mut a, b) = pair(&mut random, jobs);
            if problem.objective == Objective::Makespan {
                let longest = (0..jobs).max_by(|&a, &b| self.rings[a].cost.total_cmp(&self.rings[b].cost));
                a = longest.filter(|&longest| longest != b).unwrap_or(a);
            }
            let stuck = vain > STUCK_PAIRS * jobs;
            vain = if self.renew(problem, dual, a, b, &mut random, stuck) { 0 } else { vain + 1 };
        }
        false
    }

    /// Assigns GPUs one by one, each to the job that it slows down least, until only `idle` are left or none
    /// can be used.
    pub(super) fn spread(&mut self, problem: &Problem, dual: &mut Dual<'_>, idle: u32) {
        while self.layout.room.iter().sum::<u32>() > idle {
            let mut best: Option<(f64, usize, RingPlacement)> = None;
            for (job, place) in self.rings.iter().enumerate() {
                self.layout.give_back(place);
                for ty in 0..self.layout.room.len() {
                    let mut counts = dual.pricers[job].job.replicas_in(&place.gpus);
                    counts[ty] += 1;
                    let Some(more) = self.layout.ring_for(&dual.pricers[job], &counts) else { continue };
                    let harm = dual.weights[job] * (more.cost - place.cost);
                    if best.as_ref().is_none_or(|(least, ..)| harm < *least) {
                        best = Some((harm, job, more));
                    }
                }
                self.layout.take(place);
            }
            let Some((_, job, place)) = best else { break };
            self.layout.give_back(&self.rings[job]);
            self.layout.take(&place);
            self.rings[job] = place;
        }
        self.value = potential(problem, &dual.weights, &self.rings);
    }

    /// Places two jobs again: the first at perturbed market prices, the second with the remaining GPUs. Keeps
    /// the result if the plan becomes better, and returns whether it does.
    fn renew(
        &mut self,
        problem: &Problem,
        dual: &mut Dual<'_>,
        a: usize,
        b: usize,
        random: &mut Pcg64,
        stuck: bool,
    ) -> bool {
        let before = (self.rings[a].clone(), self.rings[b].clone());
        self.layout.give_back(&before.0);
        self.layout.give_back(&before.1);
        let prices = prices_about(&dual.own_prices(a, &dual.prices), &before.0, random, stuck);
        let free = vec![0.0; prices.len()];
        let found = self.layout.best_ring(&mut dual.pricers[a], &prices, TOLERANCE).and_then(|first| {
            self.layout.take(&first);
            let second = self.layout.best_ring(&mut dual.pricers[b], &free, TOLERANCE);
            if second.is_none() {
                self.layout.give_back(&first);
            }
            second.map(|second| (first, second))
        });
        if let Some((first, second)) = found {
            self.layout.take(&second);
            (self.rings[a], self.rings[b]) = (first, second);
            let value = potential(problem, &dual.weights, &self.rings);
            if value < self.value * (1.0 - 1e-12) {
                self.value = value;
                return true;
            }
            self.layout.give_back(&self.rings[a]);
            self.layout.give_back(&self.rings[b]);
        }
        self.layout.take(&before.0);
        self.layout.take(&before.1);
        (self.rings[a], self.rings[b]) = before;
        false
    }
}

/// Returns randomly perturbed market prices.
///
/// The market does not account for nodes that have too few GPUs for two jobs although there are enough of
/// their types in total. If nothing else helps, each price occasionally also gets a toll of up to the cost
/// of the job's present placement per GPU.
fn prices_about(prices: &[f64], place: &RingPlacement, random: &mut Pcg64, stuck: bool) -> Vec<f64> {
    let ranks: u32 = place.gpus.iter().sum();
    let toll = if stuck && random.random::<f64>() < 0.5 { place.cost / f64::from(ranks) } else { 0.0 };
    let about = |price: &f64| price * (0.5 + 1.2 * random.random::<f64>()) + toll * random.random::<f64>();
    prices.iter().map(about).collect()
}

/// Returns the quantity that the search minimises: the objective, plus, for the makespan, a small fraction of
/// the weighted sum of all completion times, because otherwise only the longest job would ever move.
fn potential(problem: &Problem, weights: &[f64], places: &[RingPlacement]) -> f64 {
    let sum: f64 = places.iter().zip(weights).map(|(place, weight)| weight * place.cost).sum();
    match problem.objective {
        Objective::Makespan => places.iter().map(|place| place.cost).fold(0.0, f64::max) + 1e-3 * sum,
        Objective::MeanJct | Objective::Weighted | Objective::Deadlines => sum,
    }
}

/// Returns two different numbers below `count`, which is at least two.
fn pair(random: &mut Pcg64, count: usize) -> (usize, usize) {
    let below =
        |random: &mut Pcg64, count: usize| usize::try_from(random.next_u64() % count as u64).unwrap_or(0);
    let a = below(random, count);
    let b = below(random, count - 1);
    (a, if b >= a { b + 1 } else { b })
}
