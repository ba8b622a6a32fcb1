//! The search that closes the gap: examines every bundle that could be part of a better plan.
//!
//! At the bound's prices, a plan costs the bound, plus each job's excess over its cheapest bundle, plus the
//! price of idle GPUs. A bundle whose excess alone is larger than the gap is therefore part of no better
//! plan.

use crate::dual::Dual;
use crate::optimal::fit::{FitPiece, Ring, fit};
use crate::pricing::{Bundle, Pricer, holds, price};
use crate::{JobModel, Objective, Problem, Slot, WorkerNode};

/// The result of the search.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct SearchOutcome {
    /// A better plan, and its objective.
    pub better: Option<(f64, Vec<Vec<Slot>>)>,
    /// Whether the search was exhaustive, so that no better plan exists.
    pub complete: bool,
}

/// A candidate bundle of one job.
#[derive(Clone, Debug)]
struct JobWay {
    /// Replicas by type.
    counts: Vec<u32>,
    /// Units of each resource that these replicas use.
    uses: Vec<u32>,
    ring: Ring,
    /// Completion time, plus the cost of being late.
    cost: f64,
    /// Excess over the job's cheapest bundle at the prices, in units of the objective.
    excess: f64,
}

/// Maximum number of candidates per job, and of steps. They limit the search to a fraction of a second.
const MOST_WAYS: usize = 20_000;
const MOST_STEPS: u64 = 3_000_000;

/// Number of steps between two calls to `stop`.
const STRIDE: u64 = 1024;

/// Relative accuracy of each job's cheapest bundle.
const EXACT: f64 = 1e-10;

/// Relative tolerance of limits for rounding errors.
const ROUNDING: f64 = 1e-12;

struct ExactSearch<'a> {
    problem: &'a Problem,
    /// Jobs in the order of decisions, with their candidates by ascending excess; for the makespan, by
    /// ascending cost.
    jobs: Vec<(usize, &'a JobModel, Vec<JobWay>)>,
    weights: &'a [f64],
    /// The bound proven by the prices.
    bound: f64,
    /// Number of GPUs that must stay idle, if prescribed.
    idle: Option<u32>,
    stop: &'a dyn Fn() -> bool,
    best: f64,
    chosen: Vec<usize>,
    better: Option<(f64, Vec<Vec<Slot>>)>,
    steps: u64,
    complete: bool,
}

/// Searches for plans with an objective below `best`; `idle` is the number of GPUs that must stay idle, if
/// prescribed.
pub(super) fn prove(
    problem: &Problem,
    dual: &mut Dual<'_>,
    best: f64,
    idle: Option<u32>,
    stop: &dyn Fn() -> bool,
) -> SearchOutcome {
    let unknown = SearchOutcome { better: None, complete: false };
    let network = problem.network.bytes_per_second();
    let has_slow_nodes = problem.nodes.iter().any(|node| node.intra_node.bytes_per_second() < network);
    if has_slow_nodes && dual.pricers.iter().any(|pricer| pricer.job.is_loose()) {
        // The search does not cover replicas of several GPUs on any nodes if some nodes have slow links.
        return unknown;
    }
    let prices = dual.prices.clone();
    let makespan = problem.objective == Objective::Makespan;
    let mut least = Vec::with_capacity(dual.pricers.len());
    for job in 0..dual.pricers.len() {
        let job_prices = dual.own_prices(job, &prices);
        let Some(priced) = dual.pricers[job].cheapest(&job_prices, EXACT, None) else { return unknown };
        least.push(priced.floor);
    }
    let bound = dual.weights.iter().zip(&least).map(|(weight, least)| weight * least).sum::<f64>()
        - price(&prices, &dual.stock.offered)
        + dual.stock.surplus(&prices);
    let gap = if makespan { f64::INFINITY } else { (best - bound).max(0.0) };
    let mut jobs = Vec::with_capacity(dual.pricers.len());
    for (job, &least) in least.iter().enumerate() {
        if stop() {
            return unknown;
        }
        let weight = dual.weights[job];
        let job_prices = dual.own_prices(job, &prices);
        let pricer = &mut dual.pricers[job];
        let Some(mut ways) = ways(problem, pricer, &job_prices, least, gap / weight) else { return unknown };
        for way in &mut ways {
            way.excess *= weight;
            way.uses = dual.stock.uses(pricer.job, &way.counts);
        }
        if makespan {
            ways.retain(|way| way.cost < best);
            ways.sort_by(|a, b| a.cost.total_cmp(&b.cost).then_with(|| a.counts.cmp(&b.counts)));
        } else {
            ways.sort_by(|a, b| a.excess.total_cmp(&b.excess).then_with(|| a.counts.cmp(&b.counts)));
        }
        jobs.push((job, pricer.job, ways));
    }
    jobs.sort_by_key(|(job, _, ways)| (ways.len(), *job));
    let mut search = ExactSearch {
        problem,
        weights: &dual.weights,
        bound,
        idle,
        stop,
        best,
        chosen: Vec::with_capacity(jobs.len()),
        jobs,
        better: None,
        steps: 0,
        complete: true,
    };
    let mut room = dual.stock.offered.clone();
    search.decide(&mut room, 0.0);
    SearchOutcome { better: search.better, complete: search.complete }
}

/// Returns the candidates of a job whose value at `prices` exceeds `least_value` by at most `gap`, in the
/// job's own seconds; `None` if there are too many.
fn ways(
    problem: &Problem,
    pricer: &mut Pricer<'_>,
    prices: &[f64],
    least_value: f64,
    gap: f64,
) -> Option<Vec<JobWay>> {
    let limit = least_value + gap;
    let network = problem.network.bytes_per_second();
    let mut rates: Vec<f64> = problem.nodes.iter().map(|node| node.intra_node.bytes_per_second()).collect();
    rates.sort_by(f64::total_cmp);
    rates.dedup();
    let way = |bundle: &Bundle, ring: Ring, cost: f64| {
        let excess = (cost + price(prices, &bundle.counts) - least_value).max(0.0);
        (excess <= gap).then(|| JobWay {
            counts: bundle.counts.clone(),
            uses: Vec::new(),
            ring,
            cost,
            excess,
        })
    };
    let mut ways = Vec::new();
    let in_halls = pricer.inside_halls_within(prices, limit, MOST_WAYS)?;
    for bundle in pricer.inside().iter().chain(&in_halls) {
        if bundle.counts.iter().sum::<u32>() == 1 {
            ways.extend(way(bundle, Ring::Single, bundle.cost));
            continue;
        }
        let gpus = pricer.gpus(&bundle.counts);
        for &least in &rates {
            let able =
                |node: &WorkerNode| node.intra_node.bytes_per_second() == least && holds(&node.gpus, &gpus);
            if problem.nodes.iter().any(able)
                && let Some(cost) = pricer.cost(&bundle.counts, least)
            {
                ways.extend(way(bundle, Ring::Inside { least }, cost));
            }
        }
    }
    // A node with internal links slower than the network may limit a ring.
    for least in rates.into_iter().filter(|rate| *rate < network).chain([network]) {
        let bundles = if least == network {
            pricer.across_within(prices, limit, MOST_WAYS)?
        } else {
            pricer.over(least).across_within(prices, limit, MOST_WAYS)?
        };
        ways.extend(bundles.iter().filter_map(|bundle| way(bundle, Ring::Across { least }, bundle.cost)));
    }
    Some(ways)
}

impl<'a> ExactSearch<'a> {
    /// Decides the next job; `spent` is the total excess so far.
    fn decide(&mut self, room: &mut Vec<u32>, spent: f64) {
        let depth = self.chosen.len();
        if depth == self.jobs.len() {
            self.look(room);
            return;
        }
        for index in 0..self.jobs[depth].2.len() {
            self.steps += 1;
            if self.steps > MOST_STEPS || (self.steps.is_multiple_of(STRIDE) && (self.stop)()) {
                self.complete = false;
            }
            if !self.complete {
                return;
            }
            let way = &self.jobs[depth].2[index];
            let makespan = self.problem.objective == Objective::Makespan;
            let hopeless = if makespan {
                way.cost >= self.best
            } else {
                self.bound + spent + way.excess >= self.best * (1.0 - ROUNDING)
            };
            if hopeless {
                return;
            }
            if !way.uses.iter().zip(room.iter()).all(|(need, have)| need <= have) {
                continue;
            }
            let (uses, excess) = (way.uses.clone(), way.excess);
            let is_tied = is_tied(self.jobs[depth].1, way);
            room.iter_mut().zip(&uses).for_each(|(have, need)| *have -= need);
            self.chosen.push(index);
            if !is_tied || self.rings_fit() {
                self.decide(room, spent + excess);
            }
            self.chosen.pop();
            room.iter_mut().zip(&uses).for_each(|(have, need)| *have += need);
        }
    }

    fn chosen_ways(&self) -> impl Iterator<Item = (&'a JobModel, &JobWay)> {
        self.jobs.iter().zip(&self.chosen).map(|((_, job, ways), index)| (*job, &ways[*index]))
    }

    /// Returns whether the candidates chosen so far that need GPUs of one node fit together.
    fn rings_fit(&mut self) -> bool {
        let rings = self.chosen_ways().filter(|(job, way)| is_tied(job, way));
        let rings: Vec<FitPiece<'_>> =
            rings.map(|(job, way)| FitPiece::new(job, &way.counts, way.ring)).collect();
        // If the check takes too long, they are assumed to fit.
        fit(self.problem, &rings).map_or(true, |slots| slots.is_some())
    }

    fn look(&mut self, room: &[u32]) {
        let left: u32 = room.iter().take(self.problem.gpu_types.len()).sum();
        if self.idle.is_some_and(|idle| idle != left) {
            return;
        }
        let value = if self.problem.objective == Objective::Makespan {
            self.chosen_ways().map(|(_, way)| way.cost).fold(0.0, f64::max)
        } else {
            let weights = self.jobs.iter().map(|(job, ..)| self.weights[*job]);
            self.chosen_ways().zip(weights).map(|((_, way), weight)| weight * way.cost).sum()
        };
        if value >= self.best * (1.0 - ROUNDING) {
            return;
        }
        let pieces: Vec<FitPiece<'_>> =
            self.chosen_ways().map(|(job, way)| FitPiece::new(job, &way.counts, way.ring)).collect();
        match fit(self.problem, &pieces) {
            Ok(Some(slots)) => {
                let mut by_job = vec![Vec::new(); slots.len()];
                for ((job, ..), slots) in self.jobs.iter().zip(slots) {
                    by_job[*job] = slots;
                }
                self.best = value;
                self.better = Some((value, by_job));
            }
            Ok(None) => {}
            Err(_) => self.complete = false,
        }
    }
}

/// Returns whether some of a candidate's GPUs must be on one node.
fn is_tied(job: &JobModel, way: &JobWay) -> bool {
    matches!(way.ring, Ring::Inside { .. }) || job.needs_blocks()
}
