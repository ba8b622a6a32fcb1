//! Exact packing: whether rings with given speeds fit on the nodes together, and on which.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::BTreeSet;

use crate::optimal::layout::inside;
use crate::pricing::holds;
use crate::stacking::{StackingResult, stack};
use crate::{JobModel, Problem, Slot, packing};

/// The ring for which a bundle's completion time was computed; rates are in bytes per second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Ring {
    /// A single rank, which needs no ring.
    Single,
    /// Inside a node whose links are at least this fast.
    Inside { least: f64 },
    /// Over the network: a node with slower links holds at most one rank.
    Across { least: f64 },
}

/// Maximum number of steps of one packing.
const PATIENCE: u32 = 20_000;

/// A job's GPUs as they have to be placed.
pub(super) struct FitPiece<'a> {
    /// GPUs by type.
    gpus: Cow<'a, [u32]>,
    ring: Ring,
    /// The job, if each of its replicas must be on one node.
    blocks: Option<&'a JobModel>,
}

impl<'a> FitPiece<'a> {
    /// Returns the piece for a job's replicas by type.
    pub(super) fn new(job: &'a JobModel, replicas: &'a [u32], ring: Ring) -> Self {
        let gpus =
            if job.replica.is_none() { Cow::Borrowed(replicas) } else { Cow::Owned(job.gpus(replicas)) };
        Self { gpus, ring, blocks: job.needs_blocks().then_some(job) }
    }
}

/// A replica that is completely on one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct WholeReplica {
    piece: usize,
    gpu_type: usize,
    size: u32,
}

/// A packing under construction.
struct Packing<'a> {
    problem: &'a Problem,
    pieces: &'a [FitPiece<'a>],
    free: Vec<Vec<u32>>,
    rates: Vec<f64>,
    slots: Vec<Vec<Slot>>,
    steps: u32,
    /// Whether the search skipped options that may have been possible.
    doubts: bool,
}

/// Returns the slots of pieces that must fit together; `Ok(None)` if they cannot.
///
/// # Errors
/// If the search takes too many steps, or finds nothing but has skipped options that may be possible.
pub(super) fn fit(problem: &Problem, pieces: &[FitPiece<'_>]) -> Result<Option<Vec<Vec<Slot>>>, TooLong> {
    let mut packing = Packing {
        problem,
        pieces,
        free: problem.nodes.iter().map(|node| node.gpus.clone()).collect(),
        rates: problem.nodes.iter().map(|node| node.intra_node.bytes_per_second()).collect(),
        slots: vec![Vec::new(); pieces.len()],
        steps: 0,
        doubts: false,
    };
    let mut order: Vec<usize> = (0..pieces.len()).collect();
    let size = |at: usize| pieces[at].gpus.iter().sum::<u32>();
    order.sort_by_key(|&at| (packing.class(at), Reverse(size(at))));
    let fits = packing.put(&order);
    let unknown = packing.steps > PATIENCE || (packing.doubts && !fits);
    if unknown { Err(TooLong) } else { Ok(fits.then_some(packing.slots)) }
}

/// The search took too many steps, or found no packing after skipping options that may have been possible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TooLong;

impl Packing<'_> {
    /// Returns the order class: rings inside nodes, then replicas on single nodes, then rings restricted by
    /// slow nodes, then the others, which use the remaining GPUs.
    fn class(&self, at: usize) -> u8 {
        match self.pieces[at].ring {
            Ring::Inside { .. } => 0,
            _ if self.pieces[at].blocks.is_some() => 1,
            Ring::Across { least } if self.is_restricted(least) => 2,
            Ring::Across { .. } | Ring::Single => 3,
        }
    }

    fn is_restricted(&self, least: f64) -> bool {
        self.rates.iter().any(|rate| *rate < least)
    }

    fn put(&mut self, order: &[usize]) -> bool {
        self.steps += 1;
        let Some((&at, rest)) = order.split_first() else { return true };
        if self.steps > PATIENCE {
            return false;
        }
        let piece = &self.pieces[at];
        let counts = &*piece.gpus;
        match (self.class(at), piece.ring) {
            (0, Ring::Inside { least }) => self.put_inside(at, least, rest),
            (1, _) => self.put_blocks(order),
            (2, Ring::Across { least }) => self.put_across(at, least, counts, 0, rest),
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
        let counts = &*self.pieces[at].gpus;
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

    /// Places all replicas that need single nodes, type by type, or one by one if it matters which of several
    /// nodes with equal room they use; then places the rest. Returns whether it finds a way.
    fn put_blocks(&mut self, order: &[usize]) -> bool {
        let is_block = |&&at: &&usize| self.class(at) == 1;
        let block_count = order.iter().take_while(is_block).count();
        let (leading, rest) = order.split_at(block_count);
        if self.is_picky(leading, rest) {
            let mut blocks = self.blocks(leading);
            blocks.sort_by_key(|block| (Reverse(block.size), block.piece, block.gpu_type));
            if !self.put_one_by_one(&blocks, 0, rest) {
                return false;
            }
            for &at in leading {
                merge(&mut self.slots[at]);
            }
            return true;
        }
        let (before, all) = (self.free.clone(), self.blocks(leading));
        for gpu_type in 0..self.problem.gpu_types.len() {
            let own_blocks = all.iter().filter(|block| block.gpu_type == gpu_type);
            let (blocks, owners): (Vec<u32>, Vec<usize>) =
                own_blocks.map(|block| (block.size, block.piece)).unzip();
            let free: Vec<u32> = self.free.iter().map(|node| node[gpu_type]).collect();
            match stack(&free, &blocks) {
                StackingResult::On(nodes) => {
                    for ((node, at), count) in nodes.into_iter().zip(owners).zip(blocks) {
                        self.free[node][gpu_type] -= count;
                        self.slots[at].push(Slot { node, gpu_type, count });
                    }
                }
                found => {
                    self.doubts |= found == StackingResult::Unknown;
                    return self.without_blocks(leading, before);
                }
            }
        }
        for &at in leading {
            merge(&mut self.slots[at]);
        }
        if self.put(rest) {
            return true;
        }
        self.without_blocks(leading, before)
    }

    /// Returns whether it matters which of several nodes with equal room the replicas use.
    fn is_picky(&self, blocks: &[usize], rest: &[usize]) -> bool {
        let restricts = |&at: &usize| match self.pieces[at].ring {
            Ring::Across { least } => self.is_restricted(least),
            Ring::Single | Ring::Inside { .. } => false,
        };
        blocks.iter().any(restricts) || rest.iter().any(|&at| self.class(at) == 2)
    }

    /// Returns the single-node replicas of these pieces.
    fn blocks(&self, block_pieces: &[usize]) -> Vec<WholeReplica> {
        let mut blocks = Vec::new();
        for &piece in block_pieces {
            let FitPiece { gpus, blocks: Some(job), .. } = &self.pieces[piece] else { continue };
            for (gpu_type, &count) in gpus.iter().enumerate() {
                let size = job.size(gpu_type);
                blocks.extend((0..count / size).map(|_| WholeReplica { piece, gpu_type, size }));
            }
        }
        blocks
    }

    fn without_blocks(&mut self, blocks: &[usize], before: Vec<Vec<u32>>) -> bool {
        self.free = before;
        for &at in blocks {
            self.slots[at].clear();
        }
        false
    }

    /// Tries all placements of these blocks one by one, with at most one block of a ring on a node with links
    /// slower than the ring requires, and then the rest. Returns whether it finds one.
    fn put_one_by_one(&mut self, blocks: &[WholeReplica], least: usize, rest: &[usize]) -> bool {
        self.steps += 1;
        if self.steps > PATIENCE {
            return false;
        }
        let Some((block, others)) = blocks.split_first() else { return self.put(rest) };
        let ring = match self.pieces[block.piece].ring {
            Ring::Across { least } => least,
            Ring::Single | Ring::Inside { .. } => 0.0,
        };
        let mut tried = BTreeSet::new();
        for node in least..self.free.len() {
            let is_there = |at: usize| self.slots[at].iter().any(|slot| slot.node == node);
            let meets = self.rates[node] < ring && is_there(block.piece);
            if self.free[node][block.gpu_type] < block.size || meets {
                continue;
            }
            let owners: Vec<usize> = (0..self.pieces.len()).filter(|&at| is_there(at)).collect();
            if !tried.insert((self.free[node].clone(), self.rates[node].to_bits(), owners)) {
                continue;
            }
            self.free[node][block.gpu_type] -= block.size;
            self.slots[block.piece].push(Slot { node, gpu_type: block.gpu_type, count: block.size });
            // Equal blocks of one job are placed in node order.
            let next = if others.first() == Some(block) { node } else { 0 };
            if self.put_one_by_one(others, next, rest) {
                return true;
            }
            self.slots[block.piece].pop();
            self.free[node][block.gpu_type] += block.size;
        }
        false
    }

    /// Tries all ways that slow nodes allow to take GPUs from the nodes from `node` on, largest numbers
    /// first, and then the rest. Returns whether it finds one.
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
            // Continue with the next smaller choice.
            let Some(place) = given.iter().position(|&count| count > 0) else { return false };
            given[place] -= 1;
            given[..place].copy_from_slice(&most[..place]);
        }
    }
}

/// Merges slots with the same node and type.
pub(crate) fn merge(slots: &mut Vec<Slot>) {
    slots.sort_unstable();
    slots.dedup_by(|next, slot| {
        let same = (next.node, next.gpu_type) == (slot.node, slot.gpu_type);
        if same {
            slot.count += next.count;
        }
        same
    });
}
