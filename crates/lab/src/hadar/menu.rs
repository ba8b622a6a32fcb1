//! The allocations that are possible with given taken GPUs; they are the same for all jobs of one taste.

use std::ops::Range;

use crate::hadar::cells::Cells;
use crate::hadar::find::{Market, earliest};
use crate::hadar::job::HadarJob;
use hsched_model::number::to_index;
use hsched_plan::Sharing;

/// The properties of a job that determine its possible allocations.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Taste {
    gpus: u32,
    /// By type, the number of the job's distinct speeds that are slower; `None` if it cannot use the type.
    ranks: Vec<Option<usize>>,
}

impl Taste {
    pub(super) fn of(job: &HadarJob) -> Self {
        let mut speeds: Vec<f64> = job.rates.iter().copied().flatten().collect();
        speeds.sort_by(f64::total_cmp);
        speeds.dedup();
        let rank = |rate: f64| speeds.iter().position(|speed| *speed == rate);
        Self { gpus: job.gpus, ranks: job.rates.iter().map(|rate| rate.and_then(rank)).collect() }
    }
}

/// The properties of an allocation that determine a job's speed.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct AllocationPace {
    /// GPUs by rank; all of them at the slowest rank if the batch is divided equally.
    counts: Vec<u32>,
    /// Bytes per second of the slowest link.
    ring: f64,
}

impl AllocationPace {
    /// Returns the steps per second of a job.
    pub(super) fn speed(&self, job: &HadarJob, taste: &Taste) -> f64 {
        let rate = |rank: usize| {
            let position = taste.ranks.iter().position(|candidate| *candidate == Some(rank));
            position.and_then(|gpu_type| job.rates[gpu_type]).unwrap_or(0.0)
        };
        let counts = self.counts.iter().enumerate().filter(|(_, count)| **count > 0);
        let compute: f64 = counts.map(|(rank, count)| rate(rank) * f64::from(*count)).sum();
        let comm = if job.gpus > 1 { job.ring_bytes / self.ring } else { 0.0 };
        (compute.recip() + comm).recip()
    }

    /// Returns whether every job of the taste is at least as fast at this pace as at another.
    fn is_as_fast_as(&self, other: &Self) -> bool {
        let (mut total, mut its) = (0, 0);
        let fastest_first = self.counts.iter().zip(&other.counts).rev();
        self.ring >= other.ring
            && fastest_first.into_iter().all(|(a, b)| {
                (total, its) = (total + a, its + b);
                total >= its
            })
    }
}

/// The frequently needed data of an allocation.
#[derive(Clone, Copy, Debug)]
pub(super) struct MenuChoice {
    pub cost: f64,
    /// Index among the paces of the menu.
    pub pace: u32,
    /// Index of the resulting state.
    pub then: u32,
}

/// Marks a choice whose resulting state is not known yet.
pub(super) const NOWHERE: u32 = u32::MAX;

/// The choices of a state: the first index in the menu, and the index after the last.
pub(super) type MenuRange = (u32, u32);

/// The other data of an allocation.
#[derive(Clone, Debug)]
struct Details {
    nodes: usize,
    parts: Range<usize>,
}

/// All choices of a taste in the states in question.
pub(super) struct Menu {
    pub taste: Taste,
    pub paces: Vec<AllocationPace>,
    pub choices: Vec<MenuChoice>,
    details: Vec<Details>,
    parts: Vec<(usize, u32)>,
    /// Reused buffers: free cells in the order in which GPUs are taken, and an allocation's GPUs by rank.
    free: Vec<Free>,
    counts: Vec<u32>,
}

/// A cell with free GPUs that a taste can use.
#[derive(Clone, Copy)]
struct Free {
    cell: usize,
    node: usize,
    rank: usize,
    count: u32,
    price: f64,
}

/// Where choices are added: the state, and the index of its first choice.
#[derive(Clone, Copy)]
struct MenuScope<'a> {
    market: &'a Market<'a>,
    taken: &'a [u32],
    begin: usize,
}

impl Menu {
    pub(super) fn new(taste: Taste) -> Self {
        Self {
            taste,
            paces: Vec::new(),
            choices: Vec::new(),
            details: Vec::new(),
            parts: Vec::new(),
            free: Vec::new(),
            counts: Vec::new(),
        }
    }

    /// Returns the GPUs of a choice in the order of cells.
    pub(super) fn parts(&self, choice: u32) -> &[(usize, u32)] {
        &self.parts[self.details[choice as usize].parts.clone()]
    }

    /// Adds the choices of a state and returns their range, which is empty if too few GPUs are free.
    ///
    /// If the batch is divided equally, only the slowest GPU determines the finish. So for every speed, the
    /// cheapest allocations on one node, on few nodes and on any nodes are candidates.
    pub(super) fn list(&mut self, market: &Market<'_>, taken: &[u32]) -> MenuRange {
        let scope = MenuScope { market, taken, begin: self.choices.len() };
        let mut free = std::mem::take(&mut self.free);
        self.fill(&mut free, scope);
        if free.iter().map(|free| free.count).sum::<u32>() >= self.taste.gpus {
            let most = free.iter().map(|free| free.rank).max().unwrap_or(0);
            for rank in (0..=most).rev() {
                self.alone(scope, &free, |free| free.rank == rank);
            }
            for rank in (0..=most).rev() {
                self.together(scope, &free, |free| free.rank == rank);
                if rank < most {
                    self.together(scope, &free, |free| free.rank >= rank);
                }
            }
        }
        self.free = free;
        (to_index(scope.begin), to_index(self.choices.len()))
    }

    fn fill(&self, free: &mut Vec<Free>, MenuScope { market, taken, .. }: MenuScope<'_>) {
        free.clear();
        for (cell, (stock, &taken)) in market.cells.list.iter().zip(taken).enumerate() {
            if let Some(rank) = self.taste.ranks[stock.gpu_type].filter(|_| stock.count > taken) {
                let price = market.prices.of(cell, taken);
                free.push(Free { cell, node: stock.node, rank, count: stock.count - taken, price });
            }
        }
        free.sort_unstable_by(|a, b| {
            let (by_price, by_rank) = (a.price.total_cmp(&b.price), a.rank.cmp(&b.rank));
            let first = match market.parameters.sharing {
                Sharing::Equal => by_price.then(by_rank),
                Sharing::Balanced => by_rank.reverse().then(by_price),
            };
            first.then(a.cell.cmp(&b.cell))
        });
    }

    /// Adds an allocation for each cell that has enough GPUs, unless another cell of its node precedes it.
    fn alone(&mut self, scope: MenuScope<'_>, free: &[Free], of: impl Fn(&Free) -> bool) {
        let gpus = self.taste.gpus;
        let mut least = f64::INFINITY;
        for (at, candidate) in free.iter().enumerate().filter(|(_, free)| of(free) && free.count >= gpus) {
            least = least.min(candidate.price);
            if gpus == 1 && least + scope.market.slack < candidate.price {
                break; // further cells cost more for the same speed
            }
            let is_second = |other: &Free| of(other) && other.node == candidate.node;
            if scope.market.cells.is_mixed && free[..at].iter().any(is_second) {
                continue;
            }
            self.take(scope, std::iter::once(candidate));
        }
    }

    /// Adds allocations in several cells: on each node that has enough GPUs or, if there is none, on the
    /// fewest nodes; and in the first cells overall.
    fn together(&mut self, scope: MenuScope<'_>, free: &[Free], of: impl Fn(&Free) -> bool) {
        let usable = || free.iter().filter(|free| of(free));
        // A single GPU never spans cells.
        if self.taste.gpus == 1 || usable().map(|free| free.count).sum::<u32>() < self.taste.gpus {
            return;
        }
        let mut rooms: Vec<(u32, usize)> = Vec::new();
        for free in usable() {
            match rooms.iter_mut().find(|(_, node)| *node == free.node) {
                Some((room, _)) => *room += free.count,
                None => rooms.push((free.count, free.node)),
            }
        }
        let gpus = self.taste.gpus;
        if rooms.iter().all(|(room, _)| *room < gpus) {
            rooms.sort_unstable_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(&b.1)));
            let in_order = rooms.iter().flat_map(|&(_, node)| usable().filter(move |free| free.node == node));
            self.take(scope, in_order);
        } else if scope.market.cells.is_mixed {
            for &(_, node) in rooms.iter().filter(|(room, _)| *room >= gpus) {
                self.take(scope, usable().filter(|free| free.node == node));
            }
        }
        self.take(scope, usable());
    }

    /// Adds the first GPUs of some cells, unless another choice of the same state is at least as good for
    /// every job of the taste.
    fn take<'b>(&mut self, scope: MenuScope<'_>, cells: impl Iterator<Item = &'b Free>) {
        let MenuScope { market, taken, begin } = scope;
        let (mut gpus, first) = (self.taste.gpus, self.parts.len());
        let mut counts = std::mem::take(&mut self.counts);
        counts.clear();
        counts.resize(self.taste.ranks.len(), 0);
        for free in cells {
            let count = free.count.min(gpus);
            gpus -= count;
            self.parts.push((free.cell, count));
            counts[free.rank] += count;
            if gpus == 0 {
                break;
            }
        }
        let parts = &mut self.parts[first..];
        parts.sort_unstable();
        if market.parameters.sharing == Sharing::Equal
            && let Some(slowest) = counts.iter().position(|count| *count > 0)
        {
            counts.fill(0);
            counts[slowest] = self.taste.gpus;
        }
        let (nodes, cost) = (market.cells.nodes(parts), market.cost(taken, parts));
        let pace = self.pace(&counts, market.cells.ring(&self.parts[first..]));
        self.counts = counts;
        let details = Details { nodes, parts: first..self.parts.len() };
        let others = begin..self.choices.len();
        if others.into_iter().any(|other| self.always_beats(market, other, cost, pace, &details)) {
            self.parts.truncate(first);
        } else {
            self.choices.push(MenuChoice { cost, pace, then: NOWHERE });
            self.details.push(details);
        }
    }

    /// Returns the index of a pace, which is added if it is new.
    fn pace(&mut self, counts: &[u32], ring: f64) -> u32 {
        let known = self
            .paces
            .iter()
            .position(|allocation_pace| allocation_pace.ring == ring && allocation_pace.counts == counts);
        let number = known.unwrap_or_else(|| {
            self.paces.push(AllocationPace { counts: counts.to_vec(), ring });
            self.paces.len() - 1
        });
        to_index(number)
    }

    /// Returns whether a choice is at least as good as an allocation for every job of this taste.
    fn always_beats(&self, market: &Market<'_>, one: usize, cost: f64, pace: u32, other: &Details) -> bool {
        let (menu_choice, details) = (self.choices[one], &self.details[one]);
        if menu_choice.pace == pace && menu_choice.cost + market.slack < cost {
            return true;
        }
        if menu_choice.cost > cost || details.nodes > other.nodes {
            return false;
        }
        if details.nodes < other.nodes {
            return self.paces[menu_choice.pace as usize].is_as_fast_as(&self.paces[pace as usize]);
        }
        let (a, b) = (&self.parts[details.parts.clone()], &self.parts[other.parts.clone()]);
        menu_choice.pace == pace && (a == b || earliest(a, b).is_gt() && same_types(market.cells, a, b))
    }
}

fn same_types(cells: &Cells, a: &[(usize, u32)], b: &[(usize, u32)]) -> bool {
    let types = |parts: &[(usize, u32)]| {
        let mut types: Vec<(usize, u32)> =
            parts.iter().map(|&(cell, count)| (cells.list[cell].gpu_type, count)).collect();
        types.sort_unstable();
        types
    };
    types(a) == types(b)
}
