//! The placements of jobs during the search: rings inside nodes by node, rings over the network by type.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use crate::pricing::{Bundle, Pricer, holds, price};
use crate::{JobModel, Problem, Slot};
use hsched_model::number::{to_f64, to_u32};

/// One job's GPUs.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct RingPlacement {
    /// GPUs by type.
    pub gpus: Vec<u32>,
    /// The node with the ring; `None` for a ring over the network, whose nodes are chosen at the end.
    pub node: Option<usize>,
    /// The GPUs, by node, of a ring over the network whose replicas need several GPUs of one node. Their
    /// nodes are chosen immediately.
    pub blocks: Vec<Slot>,
    /// Completion time in seconds, plus the cost of being late.
    pub cost: f64,
}

impl RingPlacement {
    /// Returns the placement of a job without GPUs.
    pub(super) fn nowhere(types: usize) -> Self {
        Self { gpus: vec![0; types], node: None, blocks: Vec::new(), cost: 0.0 }
    }
}

/// Remaining GPUs.
#[derive(Clone, Debug)]
pub(super) struct Layout<'a> {
    problem: &'a Problem,
    /// By node: GPUs left by rings inside nodes and by replicas that need several GPUs of one node.
    nodes: Vec<Vec<u32>>,
    /// Nodes with equal remaining GPUs and links.
    alike: BTreeMap<NodeKind, BTreeSet<usize>>,
    /// By type: GPUs left by all rings.
    pub room: Vec<u32>,
    rates: Vec<f64>,
    /// Whether all nodes have equally fast links.
    uniform: bool,
}

/// Remaining GPUs, and the rank of the node's links among all nodes.
type NodeKind = (Vec<u32>, usize);

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

    /// Returns the GPUs of each node that no ring inside a node and no replica that needs several GPUs takes.
    pub(super) fn nodes(&self) -> &[Vec<u32>] {
        &self.nodes
    }

    /// Returns whether all nodes have equally fast links.
    pub(super) fn is_uniform(&self) -> bool {
        self.uniform
    }

    fn kind(&self, node: usize) -> NodeKind {
        let faster = |other: &&f64| **other < self.rates[node];
        let rank = if self.uniform { 0 } else { self.rates.iter().filter(faster).count() };
        (self.nodes[node].clone(), rank)
    }

    pub(super) fn take(&mut self, place: &RingPlacement) {
        for (room, count) in self.room.iter_mut().zip(&place.gpus) {
            *room -= count;
        }
        if let Some(node) = place.node {
            self.change(node, |counts| counts.iter_mut().zip(&place.gpus).for_each(|(a, b)| *a -= b));
        }
        for slot in &place.blocks {
            self.change(slot.node, |counts| counts[slot.gpu_type] -= slot.count);
        }
    }

    pub(super) fn give_back(&mut self, place: &RingPlacement) {
        for (room, count) in self.room.iter_mut().zip(&place.gpus) {
            *room += count;
        }
        if let Some(node) = place.node {
            self.change(node, |counts| counts.iter_mut().zip(&place.gpus).for_each(|(a, b)| *a += b));
        }
        for slot in &place.blocks {
            self.change(slot.node, |counts| counts[slot.gpu_type] += slot.count);
        }
    }

    fn change(&mut self, node: usize, change: impl FnOnce(&mut Vec<u32>)) {
        let mut kind = self.kind(node);
        if let Some(nodes) = self.alike.get_mut(&kind) {
            nodes.remove(&node);
            if nodes.is_empty() {
                self.alike.remove(&kind);
            }
        }
        change(&mut kind.0);
        self.nodes[node].clone_from(&kind.0);
        self.alike.entry(kind).or_default().insert(node);
    }

    /// Returns the node for a ring of these GPUs: among those with the fastest links, the one with the fewest
    /// left over.
    fn node_for(&self, gpus: &[u32]) -> Option<usize> {
        let able = self.alike.iter().filter(|((left, _), _)| holds(left, gpus));
        let best = able.max_by_key(|((left, rank), _)| (*rank, Reverse(left.iter().sum::<u32>())));
        best.and_then(|(_, nodes)| nodes.first().copied())
    }

    /// Returns the job's cheapest placement at `prices` (in seconds of its own time), if one fits.
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
        let across = if pricer.job.replica.is_none() {
            pricer.across_in(prices, &self.room, tolerance, below)
        } else {
            pricer.across_in(prices, &self.room_for(pricer.job), tolerance, below)
        };
        let across = across.and_then(|bundle| self.across(pricer.job, &bundle.counts, bundle.cost));
        across.or(best.map(|(_, place)| place))
    }

    /// Returns the maximum number of a job's replicas on the remaining GPUs, by type.
    fn room_for(&self, job: &JobModel) -> Vec<u32> {
        let mut room = job.replicas_in(&self.room);
        if job.needs_blocks() {
            for (ty, room) in room.iter_mut().enumerate() {
                let size = job.size(ty);
                let kinds =
                    self.alike.iter().map(|((left, _), nodes)| left[ty] / size * to_u32(to_f64(nodes.len())));
                *room = kinds.sum::<u32>().min(*room);
            }
        }
        room
    }

    /// Returns the placement of this many replicas over the network; `None` if they do not fit into the
    /// remaining GPUs.
    pub(super) fn across(&self, job: &JobModel, replicas: &[u32], cost: f64) -> Option<RingPlacement> {
        let gpus = job.gpus(replicas);
        let mut place = RingPlacement { gpus, node: None, blocks: Vec::new(), cost };
        if !holds(&self.room, &place.gpus) {
            return None;
        }
        if !job.needs_blocks() {
            return Some(place);
        }
        for (gpu_type, &count) in replicas.iter().enumerate().filter(|(_, count)| **count > 0) {
            let size = job.size(gpu_type);
            let mut missing = count;
            // Nodes that are filled exactly come first, then those with the fewest left over.
            let mut kinds: Vec<_> =
                self.alike.iter().filter(|((left, _), _)| left[gpu_type] >= size).collect();
            kinds.sort_by_key(|((left, _), _)| (left[gpu_type] % size, left[gpu_type]));
            for ((left, _), nodes) in kinds {
                for &node in nodes {
                    let taken = (left[gpu_type] / size).min(missing);
                    if taken == 0 {
                        break;
                    }
                    place.blocks.push(Slot { node, gpu_type, count: taken * size });
                    missing -= taken;
                }
            }
            if missing > 0 {
                return None;
            }
        }
        Some(place)
    }

    /// Returns a placement of a bundle inside a node with its value, if the value is below `below`. If no
    /// node has room for a single replica that may use any nodes, the placement is over the network.
    fn place_inside(
        &self,
        pricer: &Pricer<'_>,
        bundle: &Bundle,
        prices: &[f64],
        below: f64,
    ) -> Option<(f64, RingPlacement)> {
        let worth = price(prices, &bundle.counts);
        if bundle.cost + worth >= below {
            return None;
        }
        let gpus = pricer.gpus(&bundle.counts);
        if !holds(&self.room, &gpus) {
            return None;
        }
        let Some(node) = self.node_for(&gpus) else {
            let is_one = pricer.job.is_loose() && bundle.counts.iter().sum::<u32>() == 1;
            let place = is_one.then(|| self.across(pricer.job, &bundle.counts, bundle.cost)).flatten()?;
            return Some((bundle.cost + worth, place));
        };
        // The chosen node may have slower links than the fastest node that could hold the bundle.
        let cost = if self.uniform { bundle.cost } else { pricer.cost(&bundle.counts, self.rates[node])? };
        let place = || RingPlacement { gpus: gpus.to_vec(), node: Some(node), blocks: Vec::new(), cost };
        (cost + worth < below).then(|| (cost + worth, place()))
    }

    /// Returns the fastest placement of exactly these replicas, if they fit.
    pub(super) fn ring_for(&self, pricer: &Pricer<'_>, replicas: &[u32]) -> Option<RingPlacement> {
        let gpus = pricer.gpus(replicas);
        if !holds(&self.room, &gpus) {
            return None;
        }
        let network = self.problem.network.bytes_per_second();
        let node = self.node_for(&gpus).filter(|&node| self.rates[node] >= network);
        let cost = pricer.cost(replicas, node.map_or(network, |node| self.rates[node]))?;
        if node.is_none() {
            return self.across(pricer.job, replicas, cost);
        }
        Some(RingPlacement { gpus: gpus.into_owned(), node, blocks: Vec::new(), cost })
    }

    /// Returns the nodes of all placements: rings over the network use the GPUs left by those inside nodes,
    /// the largest first. If possible, a node with links slower than the network gets only one rank of a
    /// ring.
    pub(super) fn slots(&self, places: &[RingPlacement]) -> Vec<Vec<Slot>> {
        let mut left = self.clone();
        let mut order: Vec<usize> = (0..places.len()).collect();
        order.sort_by_key(|&at| Reverse(places[at].gpus.iter().sum::<u32>()));
        let mut slots = vec![Vec::new(); places.len()];
        for at in order {
            slots[at] = match places[at].node {
                Some(node) => inside(node, &places[at].gpus),
                None if !places[at].blocks.is_empty() => places[at].blocks.clone(),
                None => left.slots_across(&places[at].gpus),
            };
        }
        slots
    }

    /// Takes a bundle from free nodes like `packing::place`, but considers one node for all that are alike,
    /// and takes at most one GPU from a node with slow links if possible.
    fn slots_across(&mut self, counts: &[u32]) -> Vec<Slot> {
        let network = self.problem.network.bytes_per_second();
        let is_apart = self.rates.iter().any(|rate| *rate < network);
        let mut need = counts.to_vec();
        let mut slots: Vec<Slot> = Vec::new();
        while is_apart && need.iter().any(|count| *count > 0) {
            // Nodes with the most remaining GPUs come first, so that all rings find enough.
            let given = |left: &[u32]| left.iter().zip(&need).position(|(left, need)| left.min(need) > &0);
            let able = self.alike.iter().filter(|((left, _), _)| given(left).is_some());
            let fresh = able.filter_map(|((left, rank), nodes)| {
                let is_slow = nodes.first().is_some_and(|node| self.rates[*node] < network);
                let used = |node: &usize| slots.iter().any(|slot| slot.node == *node);
                let node = *nodes.iter().find(|node| !is_slow || !used(node))?;
                Some((left.iter().sum::<u32>(), *rank, Reverse(node), given(left)?))
            });
            let Some((_, _, Reverse(node), gpu_type)) = fresh.max() else { break };
            self.change(node, |counts| counts[gpu_type] -= 1);
            need[gpu_type] -= 1;
            add(&mut slots, Slot { node, gpu_type, count: 1 });
        }
        while need.iter().any(|count| *count > 0) {
            let given = |left: &[u32]| -> u32 { left.iter().zip(&need).map(|(a, b)| a.min(b)).sum() };
            let able = self.alike.iter().filter(|((left, _), _)| given(left) > 0);
            let best = able.min_by_key(|((left, rank), nodes)| {
                let given = given(left);
                (Reverse(given), left.iter().sum::<u32>() - given, Reverse(*rank), nodes.first().copied())
            });
            let Some(node) = best.and_then(|(_, nodes)| nodes.first().copied()) else { break };
            let most: Vec<u32> = self.nodes[node].iter().zip(&need).map(|(a, b)| *a.min(b)).collect();
            self.change(node, |counts| counts.iter_mut().zip(&most).for_each(|(count, most)| *count -= most));
            need.iter_mut().zip(&most).for_each(|(need, most)| *need -= most);
            for slot in inside(node, &most) {
                add(&mut slots, slot);
            }
        }
        slots
    }
}

/// Adds GPUs, merged with those of the same node and type.
fn add(slots: &mut Vec<Slot>, more: Slot) {
    match slots.iter_mut().find(|slot| (slot.node, slot.gpu_type) == (more.node, more.gpu_type)) {
        Some(slot) => slot.count += more.count,
        None => slots.push(more),
    }
}

/// Returns the slots of a ring inside one node.
pub(crate) fn inside(node: usize, counts: &[u32]) -> Vec<Slot> {
    let used = counts.iter().enumerate().filter(|(_, count)| **count > 0);
    used.map(|(gpu_type, &count)| Slot { node, gpu_type, count }).collect()
}
