//! The positions of jobs during the search: rings inside nodes by node, rings over the network by type.

use std::collections::{BTreeMap, BTreeSet};

use crate::pricing::{Bundle, Pricer, holds, price};
use crate::{Problem, Slot, packing};

/// One job's GPUs.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct RingPlacement {
    /// GPUs by type.
    pub counts: Vec<u32>,
    /// The node that holds the ring; `None` for a ring over the network, whose nodes are chosen at the end.
    pub node: Option<usize>,
    /// Completion time in seconds, with what it costs that the job is late.
    pub cost: f64,
}

/// GPUs not taken.
#[derive(Clone, Debug)]
pub(super) struct Layout<'a> {
    problem: &'a Problem,
    /// By node: what rings inside nodes leave.
    nodes: Vec<Vec<u32>>,
    /// Nodes with the same GPUs left and the same links.
    alike: BTreeMap<Kind, BTreeSet<usize>>,
    /// By type: what all rings leave.
    pub room: Vec<u32>,
    rates: Vec<f64>,
    /// Whether all nodes have equally fast links.
    uniform: bool,
}

/// GPUs left, and the rank of the node's links among those of all nodes.
type Kind = (Vec<u32>, usize);

impl<'a> Layout<'a> {
    pub(super) fn new(problem: &'a Problem) -> Self {
        let rates: Vec<f64> = problem.nodes.iter().map(|node| node.intra_node.bytes_per_second()).collect();
        let mut layout = Self {
            problem,
            nodes: problem.nodes.iter().map(|node| node.gpus.clone()).collect(),
            alike: BTreeMap::new(),
            room: problem.offered(),
            uniform: rates.iter().all(|rate| *rate == rates[0]),
            rates,
        };
        for node in 0..layout.nodes.len() {
            layout.alike.entry(layout.kind(node)).or_default().insert(node);
        }
        layout
    }

    fn kind(&self, node: usize) -> Kind {
        let faster = |other: &&f64| **other < self.rates[node];
        let rank = if self.uniform { 0 } else { self.rates.iter().filter(faster).count() };
        (self.nodes[node].clone(), rank)
    }

    pub(super) fn take(&mut self, place: &RingPlacement) {
        for (room, count) in self.room.iter_mut().zip(&place.counts) {
            *room -= count;
        }
        if let Some(node) = place.node {
            self.change(node, |own| own.iter_mut().zip(&place.counts).for_each(|(a, b)| *a -= b));
        }
    }

    pub(super) fn give_back(&mut self, place: &RingPlacement) {
        for (room, count) in self.room.iter_mut().zip(&place.counts) {
            *room += count;
        }
        if let Some(node) = place.node {
            self.change(node, |own| own.iter_mut().zip(&place.counts).for_each(|(a, b)| *a += b));
        }
    }

    fn change(&mut self, node: usize, change: impl FnOnce(&mut Vec<u32>)) {
        let before = self.kind(node);
        if let Some(nodes) = self.alike.get_mut(&before) {
            nodes.remove(&node);
            if nodes.is_empty() {
                self.alike.remove(&before);
            }
        }
        change(&mut self.nodes[node]);
        self.alike.entry(self.kind(node)).or_default().insert(node);
    }

    /// Returns the node for a ring inside it: of those with the fastest links the one that it leaves fullest.
    fn node_for(&self, counts: &[u32]) -> Option<usize> {
        let able = self.alike.iter().filter(|((left, _), _)| holds(left, counts));
        let best = able.max_by_key(|((left, rank), _)| (*rank, std::cmp::Reverse(left.iter().sum::<u32>())));
        best.and_then(|(_, nodes)| nodes.first().copied())
    }

    /// Returns the job's cheapest place at `prices` (in seconds of its own time), where it fits.
    pub(super) fn best_ring(
        &self,
        pricer: &mut Pricer<'_>,
        prices: &[f64],
        tolerance: f64,
    ) -> Option<RingPlacement> {
        let mut best: Option<(f64, RingPlacement)> = None;
        let least =
            |best: &Option<(f64, RingPlacement)>| best.as_ref().map_or(f64::INFINITY, |(value, _)| *value);
        for bundle in pricer.inside() {
            best = self.place_inside(pricer, bundle, prices, least(&best)).or(best);
        }
        for (left, _) in self.alike.keys() {
            if let Some(bundle) = pricer.inside_hall(prices, left, tolerance, least(&best)) {
                best = self.place_inside(pricer, &bundle, prices, least(&best)).or(best);
            }
        }
        let below = least(&best);
        let across = pricer.across_in(prices, &self.room, tolerance, below);
        let across =
            across.map(|bundle| RingPlacement { counts: bundle.counts, node: None, cost: bundle.cost });
        across.or(best.map(|(_, place)| place))
    }

    /// Returns a place for a bundle inside a node, and its value, where that is less than `below`.
    fn place_inside(
        &self,
        pricer: &Pricer<'_>,
        bundle: &Bundle,
        prices: &[f64],
        below: f64,
    ) -> Option<(f64, RingPlacement)> {
        let worth = price(prices, &bundle.counts);
        if bundle.cost + worth >= below || !holds(&self.room, &bundle.counts) {
            return None;
        }
        let node = self.node_for(&bundle.counts)?;
        // The node that is free may have slower links than the best of its kind.
        let cost = if self.uniform { bundle.cost } else { pricer.cost(&bundle.counts, self.rates[node])? };
        let place = || RingPlacement { counts: bundle.counts.clone(), node: Some(node), cost };
        (cost + worth < below).then(|| (cost + worth, place()))
    }

    /// Returns the fastest place for just these GPUs, where they fit.
    pub(super) fn ring_for(&self, pricer: &Pricer<'_>, counts: Vec<u32>) -> Option<RingPlacement> {
        if !holds(&self.room, &counts) {
            return None;
        }
        let network = self.problem.network.bytes_per_second();
        let node = self.node_for(&counts).filter(|&node| self.rates[node] >= network);
        let cost = pricer.cost(&counts, node.map_or(network, |node| self.rates[node]))?;
        Some(RingPlacement { counts, node, cost })
    }

    /// Returns the nodes of all places: rings over the network take what those inside nodes leave, the largest
    /// first.
    pub(super) fn slots(&self, places: &[RingPlacement]) -> Vec<Vec<Slot>> {
        let mut free = self.nodes.clone();
        let mut order: Vec<usize> = (0..places.len()).collect();
        order.sort_by_key(|&at| std::cmp::Reverse(places[at].counts.iter().sum::<u32>()));
        let mut slots = vec![Vec::new(); places.len()];
        for at in order {
            slots[at] = match places[at].node {
                Some(node) => inside(node, &places[at].counts),
                None => packing::place(self.problem, &mut free, &places[at].counts),
            };
        }
        slots
    }
}

/// Returns the slots of a ring inside one node.
pub(super) fn inside(node: usize, counts: &[u32]) -> Vec<Slot> {
    let used = counts.iter().enumerate().filter(|(_, count)| **count > 0);
    used.map(|(gpu_type, &count)| Slot { node, gpu_type, count }).collect()
}
