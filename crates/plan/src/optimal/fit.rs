//! Exact packing: whether rings of given speeds can stand on the nodes together, and where.

use std::cmp::Reverse;

use crate::optimal::layout::inside;
use crate::pricing::holds;
use crate::{Problem, Slot, packing};

/// The ring that a bundle's completion time was computed with; rates in bytes per second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Ring {
    /// One rank, which needs none.
    Single,
    /// Inside a node whose links are at least so fast.
    Inside { least: f64 },
    /// Over the network: a node with slower links holds one rank at most.
    Across { least: f64 },
}

/// Steps of one packing before it is given up.
const PATIENCE: u32 = 20_000;

/// A packing under way.
struct Packing<'a> {
    problem: &'a Problem,
    bundles: &'a [(&'a [u32], Ring)],
    free: Vec<Vec<u32>>,
    rates: Vec<f64>,
    slots: Vec<Vec<Slot>>,
    steps: u32,
}

/// Returns the slots of bundles that must stand together; `Ok(None)` when they cannot.
///
/// # Errors
/// When that takes too many steps to find out.
pub(super) fn fit(problem: &Problem, bundles: &[(&[u32], Ring)]) -> Result<Option<Vec<Vec<Slot>>>, TooLong> {
    let mut packing = Packing {
        problem,
        bundles,
        free: problem.nodes.iter().map(|node| node.gpus.clone()).collect(),
        rates: problem.nodes.iter().map(|node| node.intra_node.bytes_per_second()).collect(),
        slots: vec![Vec::new(); bundles.len()],
        steps: 0,
    };
    let mut order: Vec<usize> = (0..bundles.len()).collect();
    let size = |at: usize| bundles[at].0.iter().sum::<u32>();
    order.sort_by_key(|&at| (packing.class(at), Reverse(size(at))));
    let fits = packing.put(&order);
    if packing.steps > PATIENCE { Err(TooLong) } else { Ok(fits.then_some(packing.slots)) }
}

/// A packing took too many steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TooLong;

impl Packing<'_> {
    /// Rings inside nodes first, then those that slow nodes restrict; the others take what is left.
    fn class(&self, at: usize) -> u8 {
        match self.bundles[at].1 {
            Ring::Inside { .. } => 0,
            Ring::Across { least } if self.rates.iter().any(|rate| *rate < least) => 1,
            Ring::Across { .. } | Ring::Single => 2,
        }
    }

    fn put(&mut self, order: &[usize]) -> bool {
        self.steps += 1;
        let Some((&at, rest)) = order.split_first() else { return true };
        if self.steps > PATIENCE {
            return false;
        }
        let (counts, ring) = self.bundles[at];
        match (self.class(at), ring) {
            (0, Ring::Inside { least }) => self.put_inside(at, least, rest),
            (1, Ring::Across { least }) => self.put_across(at, least, counts, 0, rest),
            _ => {
                let before = self.free.clone();
                self.slots[at] = packing::place(self.problem, &mut self.free, counts);
                let whole =
                    self.slots[at].iter().map(|slot| slot.count).sum::<u32>() == counts.iter().sum::<u32>();
                if whole && self.put(rest) {
                    return true;
                }
                self.free = before;
                false
            }
        }
    }

    fn put_inside(&mut self, at: usize, least: f64, rest: &[usize]) -> bool {
        let counts = self.bundles[at].0;
        for node in 0..self.free.len() {
            if self.rates[node] < least || !holds(&self.free[node], counts) {
                continue;
            }
            let twin =
                |other: usize| self.free[other] == self.free[node] && self.rates[other] == self.rates[node];
            if (0..node).any(twin) {
                continue;
            }
            self.slots[at] = inside(node, counts);
            self.free[node].iter_mut().zip(counts).for_each(|(free, count)| *free -= count);
            if self.put(rest) {
                return true;
            }
            self.free[node].iter_mut().zip(counts).for_each(|(free, count)| *free += count);
        }
        false
    }

    /// Takes from the nodes from `node` on in every way that the slow ones allow, most first.
    fn put_across(&mut self, at: usize, least: f64, need: &[u32], node: usize, rest: &[usize]) -> bool {
        self.steps += 1;
        if self.steps > PATIENCE {
            return false;
        }
        if need.iter().all(|&count| count == 0) {
            return self.put(rest);
        }
        if node == self.free.len() {
            return false;
        }
        let most: Vec<u32> = need.iter().zip(&self.free[node]).map(|(a, b)| *a.min(b)).collect();
        let limit = if self.rates[node] < least { 1 } else { u32::MAX };
        let mut given = most.clone();
        loop {
            if given.iter().sum::<u32>() <= limit {
                let kept = self.slots[at].len();
                self.slots[at].extend(inside(node, &given));
                self.free[node].iter_mut().zip(&given).for_each(|(free, count)| *free -= count);
                let left: Vec<u32> = need.iter().zip(&given).map(|(a, b)| a - b).collect();
                if self.put_across(at, least, &left, node + 1, rest) {
                    return true;
                }
                self.free[node].iter_mut().zip(&given).for_each(|(free, count)| *free += count);
                self.slots[at].truncate(kept);
            }
            // The next smaller choice.
            let Some(place) = given.iter().position(|&count| count > 0) else { return false };
            given[place] -= 1;
            given[..place].copy_from_slice(&most[..place]);
        }
    }
}
