//! The policy: prices, a plan from them, and the proof.

use hsched_model::number::to_f64;
use std::cell::RefCell;
use std::convert::Infallible;

use crate::bound::Bound;
use crate::dual::Dual;
use crate::optimal::exact::prove;
use crate::optimal::many::{self, BalancedPrices, ClimbPeak, JobKinds};
use crate::optimal::memory::{LastPrices, NAME};
use crate::optimal::plain::unmix;
use crate::optimal::primal::Primal;
use crate::pricing::StepTimes;
use crate::{
    Assignment, Dues, Entry, Flag, FlagKind, Knowledge, Make, Memory, Objective, Placement, Placer,
    PolicyError, Problem, Sharing, Slot, Verdict, admission, cost,
};

/// The registry entry of the policy `optimal`.
pub(crate) const OPTIMAL: Entry = Entry {
    name: NAME,
    make: Make::Placer(|parameters| {
        Ok(Box::new(Optimal::new(OptimalParameters { use_all: parameters.is_given(&USE_ALL) })))
    }),
    objectives: &Objective::ALL,
    flags: &[&USE_ALL],
    knows: &[Knowledge::Lengths, Knowledge::Speeds],
    knows_replicas: true,
};

const USE_ALL: Flag = Flag {
    name: "use-all",
    value_name: "",
    kind: FlagKind::Switch,
    usual: None,
    help: "optimal: use every GPU that the jobs can use",
};

/// The parameters of `optimal`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct OptimalParameters {
    /// Whether a plan must use every GPU that the jobs can use.
    pub use_all: bool,
}

/// The policy `optimal`.
#[derive(Clone, Debug, Default)]
pub(super) struct Optimal {
    parameters: OptimalParameters,
    /// Results about jobs from earlier decisions, for reuse.
    kept: StepTimes,
    /// The prices from which the next search for many jobs starts.
    last: RefCell<LastPrices>,
}

/// The inputs of a search besides the problem.
#[derive(Clone, Copy)]
struct Search<'a> {
    kept: Option<&'a StepTimes>,
    /// Prices by GPU type.
    first: Option<&'a [f64]>,
    stop: &'a dyn Fn() -> bool,
}

impl Optimal {
    /// Returns the policy with these parameters.
    pub(super) fn new(parameters: OptimalParameters) -> Self {
        Self { parameters, ..Self::default() }
    }
}

/// Relative gap below which a plan counts as optimal.
const CLOSED: f64 = 1e-9;

/// Sufficient relative accuracy of the price bound.
const PRICES: f64 = 1e-7;

/// From this number of jobs on, prices for a mean completion time are optimised over lists of bundles, up to
/// this relative accuracy, unless a number of idle GPUs is prescribed.
const MANY: usize = 400;
const MANY_PRICES: f64 = 2e-6;

/// The same accuracy if rules for replicas on nodes also have prices: there are then far more prices.
const REPLICA_PRICES: f64 = 5e-5;

/// Maximum number of times that rules for replicas, and for their rings, are added.
const REPLICA_RULE_ROUNDS: u32 = 4;
const RING_RULE_ROUNDS: u32 = 4;

/// Relative rounding error of sums over all nodes.
const ROUNDING: f64 = 1e-13;

/// Sufficient relative gap of a plan for very many jobs.
const MANY_GAP: f64 = 2e-5;

/// Maximum number of times that rules for nodes are added.
const MOST_RULES: u32 = 4;

/// Maximum number of idle-GPU counts tried if not all GPUs can be used.
const MOST_IDLE_COUNTS: u32 = 16;

/// A plan of all admitted jobs.
struct OptimalPlan {
    slots: Vec<Vec<Slot>>,
    bound: Bound,
}

impl Placer for Optimal {
    fn name(&self) -> &'static str {
        NAME
    }

    fn parameters(&self) -> String {
        if self.parameters.use_all { "use all".to_owned() } else { String::new() }
    }

    fn needs_budget(&self) -> bool {
        true
    }

    fn place(&self, problem: &Problem, stop: &dyn Fn() -> bool) -> Result<Assignment, PolicyError> {
        let (mut bound, mut stopped) = (None, false);
        let first = self.last.borrow().by_type(problem);
        let search = Search { kept: Some(&self.kept), first: first.as_deref(), stop };
        let placed = admission::place_jobs::<Infallible>(problem, stop, |admission| {
            let jobs = &admission.jobs;
            let total: u32 = problem.offered().iter().sum();
            let idle = self.parameters.use_all.then(|| total - admission.workers);
            let Some(mut answer) = solve(problem, jobs, idle, search) else { return Ok(None) };
            if jobs.len() >= MANY {
                *self.last.borrow_mut() = LastPrices::of(problem, &answer.bound);
            } else {
                unmix(problem, jobs, &mut answer.slots, self.parameters.use_all);
            }
            let place = |(&job, slots): (&usize, &Vec<Slot>)| {
                Placement::new(problem, job, slots, Sharing::Balanced).map(Verdict::Place)
            };
            let placed: Option<Vec<Verdict>> = jobs.iter().zip(&answer.slots).map(place).collect();
            bound = placed.is_some().then_some(answer.bound);
            stopped = stop();
            Ok(placed)
        });
        let Ok(verdicts) = placed;
        Ok(Assignment { verdicts, categories: None, stopped, bound })
    }

    fn memory(&self) -> Option<Memory> {
        self.last.borrow().write()
    }

    fn remember(&mut self, memory: &Memory) {
        *self.last.borrow_mut() = LastPrices::read(memory);
    }
}

/// Returns the lower bound for all plans of these jobs, as `optimal` proves it; `None` if one of them has no
/// legal bundle or there are no jobs.
///
/// The search ends when it can prove no more or `stop` returns true; the bound is always valid.
pub fn bound(problem: &Problem, jobs: &[usize], stop: &dyn Fn() -> bool) -> Option<Bound> {
    if jobs.is_empty() {
        return None;
    }
    match solve(problem, jobs, None, Search { kept: None, first: None, stop }) {
        Some(answer) => Some(answer.bound),
        None => Dual::new(problem, jobs, None)?.bound(),
    }
}

/// Returns the best plan found for all these jobs, and its bound; `None` if none was found.
fn solve(problem: &Problem, jobs: &[usize], idle: Option<u32>, search: Search<'_>) -> Option<OptimalPlan> {
    let Search { kept, stop, .. } = search;
    let is_mean = matches!(problem.objective, Objective::MeanJct | Objective::Weighted);
    let is_large = jobs.len() >= MANY && is_mean && idle.is_none();
    if let Some(plan) = is_large.then(|| of_many(problem, jobs, search)).flatten() {
        return Some(plan);
    }
    let mut dual = Dual::new(problem, jobs, kept)?;
    dual.ascend(PRICES, stop);
    let mut bound = dual.bound()?;
    if let Some(more) = with_whole_jobs(problem, jobs, bound.root, stop) {
        bound.lower = bound.lower.max(more);
    }
    let found = Primal::at_prices(problem, &mut dual, stop).and_then(|mut primal| {
        primal.improve(problem, &mut dual, bound.lower * (1.0 + CLOSED), stop);
        if let Some(idle) = idle {
            primal.spread(problem, &mut dual, idle);
        }
        let slots = primal.layout.slots(&primal.rings);
        let legal = idle.is_none_or(|idle| primal.layout.room.iter().sum::<u32>() == idle);
        value(problem, jobs, &slots).map(|value| (if legal { value } else { f64::INFINITY }, slots))
    });
    let known = found.as_ref().map_or(f64::INFINITY, |(value, _)| *value);
    let mut best = found;
    if let Some(least) = idle.filter(|_| known == f64::INFINITY) {
        // Assigning GPUs one by one has not used all of them, so this searches for the plan with the fewest
        // idle GPUs.
        let counts = least..least.saturating_add(MOST_IDLE_COUNTS);
        let found = counts
            .take_while(|_| !stop())
            .find_map(|idle| prove(problem, &mut dual, known, Some(idle), stop).better);
        best = found.or(best);
    } else if known > bound.lower * (1.0 + CLOSED) {
        let proof = prove(problem, &mut dual, known, idle, stop);
        best = proof.better.or(best);
        if let Some((value, _)) = best.as_ref().filter(|(value, _)| proof.complete && value.is_finite()) {
            bound.lower = bound.lower.max(*value);
        }
    }
    best.map(|(_, slots)| OptimalPlan { slots, bound })
}

/// Returns a plan for very many jobs, and its bound; `None` if the jobs have too many bundles to list or
/// none, or if a job does not fit.
fn of_many(problem: &Problem, jobs: &[usize], search: Search<'_>) -> Option<OptimalPlan> {
    let Search { kept, first, stop } = search;
    let mut dual = Dual::unpriced(problem, jobs, kept);
    let mut kinds = JobKinds::new(problem, &dual, jobs)?;
    let first = first.map_or_else(|| dual.first_prices(), |earlier| dual.prices_of(earlier));
    let (cleared, bound) = if dual.stock.has_blocks() {
        clear_replicas(problem, &mut dual, &mut kinds, &first, stop)?
    } else {
        clear_gpus(problem, &mut dual, &mut kinds, &first, stop)?
    };
    let prices = cleared.prices;
    let mut chosen = many::round(&kinds, &cleared.mix, &prices);
    many::switch(&mut kinds, &mut chosen, &prices, stop);
    let mut placed = many::on_nodes(problem, &kinds, &chosen, &dual, &prices)?;
    placed.exchange(bound.lower * (1.0 + MANY_GAP), problem.seed, stop);
    let slots = placed.layout.slots(&placed.places);
    value(problem, jobs, &slots)?;
    Some(OptimalPlan { slots, bound })
}

/// Returns prices of single GPUs and of rules for rings, with the bound that they prove.
fn clear_gpus<'a>(
    problem: &'a Problem,
    dual: &mut Dual<'a>,
    kinds: &mut JobKinds<'a>,
    first: &[f64],
    stop: &dyn Fn() -> bool,
) -> Option<(BalancedPrices, Bound)> {
    let mut best = many::clear(kinds, first, MANY_PRICES, stop)?;
    dual.prices.clone_from(&best.prices);
    let mut bound = dual.proves(best.lower);
    for _ in 0..MOST_RULES {
        let broken = many::broken(problem, kinds, &best.mix);
        if broken.is_empty() || stop() {
            break;
        }
        best.prices.extend(broken.iter().map(|_| 0.0));
        kinds.obey(broken);
        best = many::clear(kinds, &best.prices, MANY_PRICES, stop)?;
        bound.lower = bound.lower.max(best.lower);
    }
    Some((best, bound))
}

/// Returns prices if there are replicas that need several GPUs of one node, with the bound that they prove.
///
/// Rules for replicas alone come first, because they become the certificate's prices of replicas; then those
/// for rings.
fn clear_replicas<'a>(
    problem: &'a Problem,
    dual: &mut Dual<'a>,
    kinds: &mut JobKinds<'a>,
    first: &[f64],
    stop: &dyn Fn() -> bool,
) -> Option<(BalancedPrices, Bound)> {
    let types = problem.gpu_types.len();
    let mut climb = ClimbPeak::new(&first[..types]);
    let find = |by_replica: bool| {
        move |kinds: &JobKinds<'_>, mix: &many::Mix| many::most_broken(problem, kinds, mix, by_replica)
    };
    climb.add_rules(kinds, &find(true), REPLICA_RULE_ROUNDS, stop);
    let tolerance = if kinds.capacity.len() > types { REPLICA_PRICES } else { MANY_PRICES };
    let best = climb.clear(kinds, tolerance, stop)?;
    dual.prices = best.prices[..types].to_vec();
    let slot_price = |ty: usize, size: u32| kinds.catalogue.slot_price(&best.prices, ty, size);
    let rent: f64 = best.prices.iter().zip(&kinds.capacity).map(|(price, count)| price * count).sum();
    let surplus = rent * (1.0 - ROUNDING) - dual.stock.held_worth(slot_price);
    let mut bound = dual.proves(best.lower + surplus.max(0.0));
    bound.replica_prices = dual.stock.by_size(|ty, size| slot_price(ty, size) * dual.total_weight);
    if !climb.add_rules(kinds, &find(false), RING_RULE_ROUNDS, stop) {
        return Some((best, bound));
    }
    let best = climb.clear(kinds, REPLICA_PRICES, stop)?;
    bound.lower = bound.lower.max(best.lower);
    Some((best, bound))
}

/// Strengthens a bound with late jobs: their number is an integer, and the completion times have a separate
/// bound. `None` if no job needs to be late.
fn with_whole_jobs(problem: &Problem, jobs: &[usize], root: f64, stop: &dyn Fn() -> bool) -> Option<f64> {
    let dues = Dues::of(problem);
    let late = dues.least_late(root, jobs.len());
    if late == 0 {
        return None;
    }
    let times = Problem { objective: Objective::MeanJct, ..problem.clone() };
    let mut dual = Dual::new(&times, jobs, None)?;
    dual.ascend(PRICES, stop);
    let share = to_f64(late) / to_f64(jobs.len());
    Some(share * dues.late()? + dual.bound()?.root)
}

/// Returns the objective of slots by job; `None` if a job's placement is illegal.
fn value(problem: &Problem, jobs: &[usize], slots: &[Vec<Slot>]) -> Option<f64> {
    let dues = Dues::of(problem);
    let time = |(&job, slots): (&usize, &Vec<Slot>)| {
        let model = &problem.jobs[job];
        let epoch = cost::epoch_time(problem, model, slots, Sharing::Balanced)?;
        Some((model.weight, dues.cost(job, model.completion_time(epoch.total()))))
    };
    Some(problem.objective.value(jobs.iter().zip(slots).map(time).collect::<Option<Vec<_>>>()?))
}
