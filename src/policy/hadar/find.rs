//! The allocation of most payoff for one job, where some GPUs are taken.

use std::cmp::Ordering;

use crate::policy::Sharing;
use crate::policy::hadar::cells::{Cells, Parts};
use crate::policy::hadar::job::{HadarJob, HadarParameters};
use crate::policy::hadar::prices::{BidTerms, Prices};

/// A round as all jobs see it.
pub(super) struct Market<'a> {
    pub cells: &'a Cells,
    pub prices: &'a Prices,
    pub parameters: &'a HadarParameters,
    pub now: f64,
}

/// GPUs for a job, and what it gains.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Allocation {
    pub parts: Parts,
    pub terms: BidTerms,
    nodes: usize,
    /// Σ X of the GPUs.
    power: f64,
}

/// Compares numbers by twelve digits: sums of floats that differ by less are the same.
pub(in crate::policy) fn by_digits(a: f64, b: f64) -> Ordering {
    // Rounding takes long, and cannot change the order of numbers that are this far apart.
    if (a - b).abs() > 1e-10 * a.abs().max(b.abs()) {
        return a.total_cmp(&b);
    }
    digits(a).total_cmp(&digits(b))
}

fn digits(number: f64) -> f64 {
    if number == 0.0 || !number.is_finite() {
        return number;
    }
    #[expect(clippy::cast_possible_truncation, reason = "an exponent")]
    let scale = 10_f64.powi(11 - number.abs().log10().floor() as i32);
    (number * scale).round() / scale
}

/// A job that looks for GPUs in many states of one round.
pub(super) struct Seeker<'a> {
    market: &'a Market<'a>,
    job: &'a HadarJob,
    /// By type, what one GPU of it brings a job that wants no more, before its price.
    alone: Vec<Option<BidTerms>>,
    /// The same for the GPU that it holds, with its cell.
    held: Option<(usize, BidTerms)>,
}

impl Market<'_> {
    /// Returns the allocation of most payoff, though it may be a loss; `None` where too few GPUs are free.
    pub(super) fn find(&self, job: &HadarJob, taken: &[u32]) -> Option<Allocation> {
        self.seeker(job).find(taken)
    }

    /// Returns the job as one that looks for GPUs.
    pub(super) fn seeker<'a>(&'a self, job: &'a HadarJob) -> Seeker<'a> {
        if job.gpus != 1 {
            return Seeker { market: self, job, alone: Vec::new(), held: None };
        }
        let terms = |rate: f64, restart: f64| {
            let jct = self.now + restart + job.left / rate - job.arrival;
            let utility = job.worth(jct, self.parameters);
            BidTerms { speed: rate, jct, utility, cost: 0.0, payoff: utility }
        };
        let alone = job.rates.iter().map(|rate| rate.map(|rate| terms(rate, job.restart))).collect();
        let held = match job.held[..] {
            [(cell, 1)] => job.rates[self.cells.list[cell].gpu_type].map(|rate| (cell, terms(rate, 0.0))),
            _ => None,
        };
        Seeker { market: self, job, alone, held }
    }
}

impl Seeker<'_> {
    /// Returns the allocation of most payoff, though it may be a loss; `None` where too few GPUs are free.
    pub(super) fn find(&self, taken: &[u32]) -> Option<Allocation> {
        if self.job.gpus == 1 { self.one(taken) } else { self.market.several(self.job, taken) }
    }

    /// Returns the best GPU of all cells: most payoff, the slowest, the earliest.
    fn one(&self, taken: &[u32]) -> Option<Allocation> {
        let mut best: Option<(usize, BidTerms)> = None;
        for (cell, (own, &taken)) in self.market.cells.list.iter().zip(taken).enumerate() {
            let Some(mut terms) = self.alone[own.gpu_type].filter(|_| taken < own.count) else { continue };
            if let Some((_, kept)) = self.held.filter(|(held, _)| *held == cell) {
                terms = kept;
            }
            terms.cost = self.market.prices.of(cell, taken);
            terms.payoff = terms.utility - terms.cost;
            let beats = |(_, best): &(usize, BidTerms)| {
                by_digits(terms.payoff, best.payoff).then_with(|| by_digits(best.speed, terms.speed)).is_gt()
            };
            if best.as_ref().is_none_or(beats) {
                best = Some((cell, terms));
            }
        }
        best.map(|(cell, terms)| Allocation { parts: vec![(cell, 1)], power: terms.speed, terms, nodes: 1 })
    }
}

impl Market<'_> {
    /// Returns the best GPUs for a job that wants several.
    ///
    /// The finish depends on the slowest GPU alone where the batch is split equally: so for every speed, the allocations
    /// that cost least are looked at, on one node, on few nodes and anywhere.
    fn several(&self, job: &HadarJob, taken: &[u32]) -> Option<Allocation> {
        let free = (0..taken.len()).filter_map(|cell| {
            let own = &self.cells.list[cell];
            let rate = job.rates[own.gpu_type]?;
            (own.count > taken[cell]).then(|| (cell, own.count - taken[cell], rate))
        });
        if free.clone().map(|(_, count, _)| count).sum::<u32>() < job.gpus {
            return None;
        }
        let free: Vec<(usize, u32, f64)> = free.collect();
        let twins = self.twins(&free);
        let mut best: Option<Allocation> = None;
        let mut offer = |parts: Parts| {
            let own = self.terms(job, taken, parts);
            if best.as_ref().is_none_or(|best| own.beats(best)) {
                best = Some(own);
            }
        };
        let mut speeds: Vec<f64> = free.iter().map(|(_, _, rate)| *rate).collect();
        speeds.sort_by(|a, b| b.total_cmp(a));
        speeds.dedup();
        for speed in speeds {
            let at_least: Vec<_> = free.iter().copied().filter(|(_, _, rate)| *rate >= speed).collect();
            let exactly: Vec<_> = free.iter().copied().filter(|(_, _, rate)| *rate == speed).collect();
            let same = at_least.len() == exactly.len();
            self.within(job, (taken, &twins), at_least, &mut offer);
            if !same {
                self.within(job, (taken, &twins), exactly, &mut offer);
            }
        }
        let is_free = |&(cell, count): &(usize, u32)| self.cells.list[cell].count - taken[cell] >= count;
        if job.held.iter().map(|(_, count)| count).sum::<u32>() == job.gpus
            && job
                .held
                .iter()
                .all(|part| is_free(part) && job.rates[self.cells.list[part.0].gpu_type].is_some())
        {
            offer(job.held.clone());
        }
        best
    }

    /// Returns the nodes that have the same to offer as an earlier one, which wins every tie.
    fn twins(&self, free: &[(usize, u32, f64)]) -> Vec<usize> {
        let node = |cell: usize| self.cells.list[cell].node;
        let nodes: Vec<&[(usize, u32, f64)]> = free.chunk_by(|a, b| node(a.0) == node(b.0)).collect();
        let same = |a: &[(usize, u32, f64)], b: &[(usize, u32, f64)]| {
            let offers = |own: &(usize, u32, f64)| {
                let cell = self.cells.list[own.0];
                (cell.gpu_type, cell.count, own.1)
            };
            let links = self.cells.rate_inside(node(a[0].0)) == self.cells.rate_inside(node(b[0].0));
            links && a.len() == b.len() && a.iter().zip(b).all(|(a, b)| offers(a) == offers(b))
        };
        let has_earlier = |at: &usize| nodes[..*at].iter().any(|earlier| same(earlier, nodes[*at]));
        (0..nodes.len()).filter(has_earlier).map(|at| node(nodes[at][0].0)).collect()
    }

    /// Offers GPUs of some cells: of each node alone, of the fewest nodes, and the first of all.
    fn within(
        &self,
        job: &HadarJob,
        (taken, twins): (&[u32], &[usize]),
        mut cells: Vec<(usize, u32, f64)>,
        offer: &mut dyn FnMut(Parts),
    ) {
        let price = |cell: usize| self.prices.of(cell, taken[cell]);
        cells.sort_by(|a, b| {
            let by_price = price(a.0).total_cmp(&price(b.0));
            let by_type = a.2.total_cmp(&b.2);
            let first = match self.parameters.sharing {
                Sharing::Equal => by_price.then(by_type),
                Sharing::Balanced => by_type.reverse().then(by_price),
            };
            first.then(a.0.cmp(&b.0))
        });
        if cells.iter().map(|(_, count, _)| count).sum::<u32>() < job.gpus {
            return;
        }
        offer(first(cells.iter(), job.gpus));
        let node = |cell: usize| self.cells.list[cell].node;
        let mut nodes: Vec<(u32, usize)> = Vec::new();
        for &(cell, count, _) in &cells {
            match nodes.iter_mut().find(|(_, own)| *own == node(cell)) {
                Some((room, _)) => *room += count,
                None => nodes.push((count, node(cell))),
            }
        }
        nodes.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(&b.1)));
        let of = |own: usize| cells.iter().filter(move |(cell, _, _)| self.cells.list[*cell].node == own);
        let alone = nodes.iter().take_while(|(room, _)| *room >= job.gpus);
        for &(_, own) in alone.filter(|(_, own)| !twins.contains(own)) {
            offer(first(of(own), job.gpus));
        }
        if nodes[0].0 < job.gpus {
            offer(first(nodes.iter().flat_map(|&(_, own)| of(own)), job.gpus));
        }
    }

    /// Returns what an allocation brings.
    fn terms(&self, job: &HadarJob, taken: &[u32], parts: Parts) -> Allocation {
        let speed = job.speed(self.cells, &parts, self.parameters.sharing);
        let restart = if parts == job.held { 0.0 } else { job.restart };
        let jct = self.now + restart + job.left / speed - job.arrival;
        let utility = job.worth(jct, self.parameters);
        let cost: f64 =
            parts.iter().map(|&(cell, count)| self.prices.of(cell, taken[cell]) * f64::from(count)).sum();
        let rate = |cell: usize| job.rates[self.cells.list[cell].gpu_type].unwrap_or(0.0);
        let power = parts.iter().map(|&(cell, count)| rate(cell) * f64::from(count)).sum();
        let nodes = self.cells.nodes(&parts);
        Allocation {
            parts,
            terms: BidTerms { speed, jct, utility, cost, payoff: utility - cost },
            nodes,
            power,
        }
    }
}

/// Returns the first GPUs of some cells.
fn first<'a>(cells: impl Iterator<Item = &'a (usize, u32, f64)>, mut gpus: u32) -> Parts {
    let mut parts = Parts::new();
    for &(cell, count, _) in cells {
        let own = count.min(gpus);
        gpus -= own;
        parts.push((cell, own));
        if gpus == 0 {
            break;
        }
    }
    parts.sort_unstable();
    parts
}

impl Allocation {
    /// Most payoff, fewer nodes, the slowest GPUs, most GPUs in the earliest cell.
    pub(super) fn beats(&self, other: &Self) -> bool {
        let order = by_digits(self.terms.payoff, other.terms.payoff)
            .then(other.nodes.cmp(&self.nodes))
            .then_with(|| by_digits(other.power, self.power));
        order.then_with(|| earliest(&self.parts, &other.parts)) == Ordering::Greater
    }
}

/// Compares GPUs cell by cell: greater is what has more in the first cell in which they differ.
fn earliest(a: &Parts, b: &Parts) -> Ordering {
    for (a, b) in a.iter().zip(b) {
        let order = b.0.cmp(&a.0).then(a.1.cmp(&b.1));
        if order != Ordering::Equal {
            return order;
        }
    }
    Ordering::Equal
}
