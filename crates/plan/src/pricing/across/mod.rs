//! The cheapest ring over the network, or inside a node with very many GPUs: branch and bound over counts by
//! type.
//!
//! A box of counts is bounded from below by a convex problem that a sweep over the types solves: the
//! computation time of A samples is at least A / Σ r n, where r is the highest samples per second of a GPU in
//! the box, and the communication, which is concave in the number of ranks, is at least its chord. The box is
//! then divided where that bound is loosest: at a fractional count, in the number of ranks, or in the step
//! time.

mod boxes;
mod costs;
mod relaxation;
mod table;

pub(crate) use self::table::StepTimes;

use self::costs::{most_rate, quantum};
use crate::pricing::Bundle;
use crate::pricing::across::boxes::BoxRange;
use crate::pricing::across::table::RingTable;
use crate::pricing::{holds, price};
use crate::steps::Steps;
use crate::{Due, JobModel, Sharing, TypeModel, cost};
use hsched_model::number::to_f64;

/// Default number of boxes after which a search for one bundle ends and returns the remaining bound.
pub(super) const PATIENCE: u32 = 20_000;

/// The rings of one job over links of a single rate.
#[derive(Clone, Debug)]
pub(super) struct Across<'a> {
    job: &'a JobModel,
    /// The types that the job can use in a ring, with their speeds and offered GPUs.
    types: Vec<(usize, TypeModel)>,
    caps: Vec<u32>,
    ranks: (u32, u32),
    /// Seconds of computation at one sample per second, for all epochs.
    compute: f64,
    /// Seconds of communication with infinitely many ranks, for all epochs and for one.
    comm: f64,
    comm_of_epoch: f64,
    /// B, the global batch in samples.
    batch: f64,
    /// Whether all speeds are constant rates without limits and shares are balanced, so that step times need
    /// not be considered.
    linear: bool,
    /// Maximum step time: without micro-batches, no GPU takes more samples than its memory holds.
    longest: f64,
    /// Highest samples per second by type, for any step.
    rates: Vec<f64>,
    /// Step times by counts of these types.
    steps: Steps,
    /// All legal rings, if they are few and slow to evaluate.
    table: Option<RingTable>,
    pub due: Option<Due>,
    /// Number of boxes after which a search ends and returns the remaining bound.
    pub patience: u32,
    search: BundleSearch,
}

/// The state of a search, reused to avoid allocations.
#[derive(Clone, Debug, Default)]
struct BundleSearch {
    goal: SearchGoal,
    prices: Vec<f64>,
    low: Vec<u32>,
    high: Vec<u32>,
    point: Vec<f64>,
    /// Scratch: the point of the best part, and the parts still to examine.
    best_point: Vec<f64>,
    parts: Vec<(f64, f64)>,
    rates: Vec<f64>,
    order: Vec<usize>,
    counts: Vec<u32>,
    visits: u32,
    /// Lowest bound of the parts not examined.
    open: f64,
    /// Lowest value found, or the limit.
    best: f64,
    /// Latest completion time considered, in seconds.
    latest: f64,
    tolerance: f64,
    /// Whether a bundle was found for the goal, and its counts.
    has_best: bool,
    best_counts: Vec<u32>,
    found: Vec<Bundle>,
    most: usize,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum SearchGoal {
    #[default]
    Least,
    Within,
}

/// The result of a search for the lowest value.
pub(super) struct LeastBundle {
    /// The bundle, if it is better than the known one.
    pub bundle: Option<Bundle>,
    pub floor: f64,
}

impl<'a> Across<'a> {
    pub(super) fn new(
        job: &'a JobModel,
        network: f64,
        offered: &[u32],
        kept: Option<&StepTimes>,
    ) -> Option<Self> {
        let ring = |(ty, model): (usize, &Option<TypeModel>)| {
            model.filter(|model| !model.single_rank && offered[ty] > 0).map(|model| (ty, model))
        };
        let types: Vec<(usize, TypeModel)> = job.types.iter().enumerate().filter_map(ring).collect();
        let caps: Vec<u32> = types.iter().map(|&(ty, _)| offered[ty].min(job.max_gpus)).collect();
        let ranks = (job.min_gpus.max(2), job.max_gpus.min(caps.iter().sum()));
        if ranks.0 > ranks.1 {
            return None;
        }
        let plain = |type_model: &(usize, TypeModel)| {
            let is_plain =
                type_model.1.speed.alpha() == 0.0 && (job.accumulate || type_model.1.max_batch.is_none());
            is_plain && job.sharing == Sharing::Balanced
        };
        let (batch, samples) = (to_f64(job.global_batch), to_f64(job.samples_per_epoch));
        let epochs = job.completion_time(1.0);
        // With two ranks, a ring sends D, which is half of the amount for infinitely many ranks.
        let comm = epochs * 2.0 * cost::comm_time(job, 2, network);
        let full = |&(_, model): &(usize, TypeModel)| {
            model
                .max_batch
                .map_or(f64::INFINITY, |most| model.speed.alpha() + model.speed.beta() * to_f64(most))
        };
        let longest = types.iter().map(full).fold(0.0, f64::max);
        let most =
            |type_model: &(usize, TypeModel)| most_rate(type_model.1, job.accumulate, (0.0, f64::INFINITY));
        let mut across = Self {
            job,
            linear: types.iter().all(plain),
            longest: if job.accumulate { f64::INFINITY } else { longest * (1.0 + 1e-9) },
            rates: types.iter().map(most).collect(),
            steps: Steps::new(job, types.iter().map(|&(_, model)| model).enumerate()),
            types,
            caps,
            ranks,
            compute: epochs * samples,
            comm,
            comm_of_epoch: 2.0 * cost::comm_time(job, 2, network),
            batch,
            table: None,
            due: None,
            patience: PATIENCE,
            search: BundleSearch::default(),
        };
        across.table = (!across.linear).then(|| RingTable::new(&across, kept)).flatten();
        Some(across)
    }

    /// Returns the cheapest ring with a value below `best`, if any, and a lower bound for all rings.
    pub(super) fn cheapest(
        &mut self,
        prices: &[f64],
        tolerance: f64,
        best: f64,
        hint: Option<&[u32]>,
    ) -> LeastBundle {
        self.in_time_or_late(prices, best, |search, best, latest| {
            search.start(SearchGoal::Least, prices, (best, latest), tolerance);
            if let Some(hint) = hint {
                let counts = &mut search.search.counts;
                counts.clear();
                counts.extend(search.types.iter().map(|&(ty, _)| hint[ty]));
                if hint.iter().sum::<u32>() >= 2 && holds(&search.caps, counts) {
                    search.look();
                }
            }
            search.search.high.clone_from(&search.caps);
            search.search();
            let floor = search.search.worth_less().min(search.search.open);
            LeastBundle { bundle: search.answer(), floor }
        })
    }

    /// Searches for the lowest value below `best` with `least`, which receives that limit and the latest
    /// completion time: first among the rings that meet the deadline, then among all, because a late one may
    /// still be better.
    fn in_time_or_late(
        &mut self,
        prices: &[f64],
        best: f64,
        mut least: impl FnMut(&mut Self, f64, f64) -> LeastBundle,
    ) -> LeastBundle {
        let Some(due) = self.due else { return least(self, best, f64::INFINITY) };
        let in_time = least(self, best, due.longest());
        let best = in_time.bundle.as_ref().map_or(best, |bundle| bundle.cost + price(prices, &bundle.counts));
        if best <= due.late {
            return in_time;
        }
        let late = least(self, best - due.late, f64::INFINITY);
        let costed = late.bundle.map(|bundle| Bundle { cost: due.cost(bundle.cost), ..bundle });
        LeastBundle { bundle: costed.or(in_time.bundle), floor: in_time.floor.min(late.floor + due.late) }
    }

    /// Returns the cheapest ring within `room` with a value below `below`.
    pub(super) fn within_room(
        &mut self,
        prices: &[f64],
        room: &[u32],
        tolerance: f64,
        below: f64,
    ) -> Option<Bundle> {
        let found = self.in_time_or_late(prices, below, |search, best, latest| {
            search.start(SearchGoal::Least, prices, (best, latest), tolerance);
            let most = |(&cap, &(ty, _)): (&u32, &(usize, TypeModel))| cap.min(room[ty]);
            search.search.high = search.caps.iter().zip(&search.types).map(most).collect();
            search.search();
            LeastBundle { bundle: search.answer(), floor: f64::NEG_INFINITY }
        });
        found.bundle
    }

    /// Returns all rings with a value of at most `limit`; `None` if there are more than `most`, or the search
    /// takes too long.
    pub(super) fn within(&mut self, prices: &[f64], limit: f64, most: usize) -> Option<Vec<Bundle>> {
        let Some(due) = self.due else { return self.all_within(prices, (limit, f64::INFINITY), most) };
        let mut found = self.all_within(prices, (limit, due.longest()), most)?;
        if limit > due.late {
            let late = self.all_within(prices, (limit - due.late, f64::INFINITY), most)?;
            let late = late.into_iter().filter(|bundle| due.is_late(bundle.cost));
            found.extend(late.map(|bundle| Bundle { cost: due.cost(bundle.cost), ..bundle }));
        }
        Some(found)
    }

    /// Returns all rings with a time of at most `latest` whose time plus the price of their GPUs is at most
    /// `limit`.
    fn all_within(&mut self, prices: &[f64], limits: (f64, f64), most: usize) -> Option<Vec<Bundle>> {
        self.start(SearchGoal::Within, prices, limits, 0.0);
        self.search.most = most;
        self.search.high.clone_from(&self.caps);
        self.search();
        (self.search.open == f64::INFINITY).then(|| std::mem::take(&mut self.search.found))
    }

    /// Searches all rings up to `high`, in the table if there is one.
    fn search(&mut self) {
        let Some(table) = self.table.take() else {
            self.visit(BoxRange { ranks: self.ranks, step: (0.0, f64::INFINITY) });
            return;
        };
        match self.search.goal {
            SearchGoal::Least => self.search_least(&table),
            SearchGoal::Within => self.search_within(&table),
        }
        self.table = Some(table);
    }

    /// Searches the rings that no smaller ring beats, until none of the remaining ones can be the cheapest.
    fn search_least(&mut self, table: &RingTable) {
        for (cost, counts) in table.worth_having() {
            if cost >= self.search.best || cost > self.search.latest {
                break;
            }
            let value = cost + price(&self.search.prices, counts);
            if value < self.search.best && holds(&self.search.high, counts) {
                self.found(counts, cost, value);
            }
        }
    }

    fn search_within(&mut self, table: &RingTable) {
        for (cost, counts) in table.all() {
            let value = cost + price(&self.search.prices, counts);
            let wanted = value <= self.search.best && cost <= self.search.latest;
            if wanted && holds(&self.search.high, counts) {
                self.found(counts, cost, value);
            }
        }
        let few = self.search.found.len() <= self.search.most;
        self.search.open = if few { f64::INFINITY } else { f64::NEG_INFINITY };
    }

    fn start(&mut self, goal: SearchGoal, prices: &[f64], (best, latest): (f64, f64), tolerance: f64) {
        let search = &mut self.search;
        search.goal = goal;
        search.prices.clear();
        search.prices.extend(self.types.iter().map(|&(ty, _)| prices[ty]));
        search.low.clear();
        search.low.resize(self.types.len(), 0);
        search.point.resize(self.types.len(), 0.0);
        search.best_point.resize(self.types.len(), 0.0);
        search.rates.clone_from(&self.rates);
        search.order.clear();
        search.order.extend(0..self.types.len());
        (search.visits, search.open) = (0, f64::INFINITY);
        (search.best, search.latest, search.tolerance) = (best, latest, tolerance);
        search.has_best = false;
        search.found.clear();
    }

    fn answer(&self) -> Option<Bundle> {
        if !self.search.has_best {
            return None;
        }
        let counts = &self.search.best_counts;
        let cost = self.cost(counts)?;
        Some(Bundle { counts: self.full(counts), cost })
    }

    /// Converts counts over this job's types to counts over all types.
    fn full(&self, counts: &[u32]) -> Vec<u32> {
        let mut full = vec![0; self.job.types.len()];
        for (&(ty, _), &count) in self.types.iter().zip(counts) {
            full[ty] = count;
        }
        full
    }

    /// Evaluates the bundle in `search.counts`.
    fn look(&mut self) {
        let counts = std::mem::take(&mut self.search.counts);
        if let Some(cost) = self.cost(&counts).filter(|cost| *cost <= self.search.latest) {
            self.found(&counts, cost, cost + price(&self.search.prices, &counts));
        }
        self.search.counts = counts;
    }

    /// Keeps a bundle if it is useful for the goal.
    fn found(&mut self, counts: &[u32], cost: f64, value: f64) {
        let search = &mut self.search;
        if search.goal == SearchGoal::Least && value < search.best {
            search.best = value;
            search.has_best = true;
            search.best_counts.clear();
            search.best_counts.extend_from_slice(counts);
        } else if search.goal == SearchGoal::Within && value <= search.best {
            let counts = self.full(counts);
            self.search.found.push(Bundle { counts, cost });
        }
    }
}

impl BundleSearch {
    /// Returns the value below which a bundle is useful.
    fn worth_less(&self) -> f64 {
        if self.best == f64::INFINITY { self.best } else { self.best - self.tolerance * self.best.abs() }
    }
}
