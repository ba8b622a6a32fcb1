//! The nodes over time as a scheduling pass sees them: what is free, when running jobs reach their limits, and what is reserved.

use std::cmp::Ordering;
use std::collections::binary_heap::PeekMut;
use std::collections::{BTreeMap, BinaryHeap};
use std::mem;

use crate::moment::Moment;
use crate::queue_model::{QueueModel, QueuePart};
use crate::shape::Amounts;

/// What is held and kept of the nodes, kept up to date as jobs start and end.
#[derive(Clone, Debug)]
pub(super) struct NodeTimeline<'a> {
    model: &'a QueueModel,
    free: Vec<Vec<u64>>,
    /// What is given back at the limits of those that run, by node, the earliest first.
    releases: Vec<Vec<NodeRelease>>,
    /// From when on a shape has room on a node beside those that run, by shape; worked out when it is asked for.
    ready: Vec<Vec<Ready>>,
    /// How often each node was given, given back, kept or set free.
    changes: Vec<u32>,
    /// How often each node was given or given back.
    version: Vec<u32>,
    /// Openings of this pass by shape, set of nodes and length.
    openings: BTreeMap<(usize, usize, u64), Openings>,
    /// Nodes that a pass keeps for those that must wait, the first to begin first.
    kept: Vec<Vec<Kept>>,
    kept_nodes: Vec<u32>,
}

/// When a node has room; of several in a heap, the first is on top.
#[derive(Clone, Copy, Debug)]
struct Opening {
    /// In seconds since 1970.
    at: f64,
    node: u32,
    /// The number of the node's changes that this takes into account.
    changes: u32,
}

impl Opening {
    /// Returns a number in the order of times, nodes and changes. Heaps of these are most of what a play does, and one comparison of
    /// numbers is faster than three: the bits of positive times are in their order.
    fn order(self) -> u128 {
        u128::from(self.at.to_bits()) << 64 | u128::from(self.node) << 32 | u128::from(self.changes)
    }
}

impl PartialEq for Opening {
    fn eq(&self, other: &Self) -> bool {
        self.order() == other.order()
    }
}

impl Eq for Opening {}

impl PartialOrd for Opening {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Opening {
    fn cmp(&self, other: &Self) -> Ordering {
        other.order().cmp(&self.order())
    }
}

/// When nodes have room for jobs of one kind, in one pass.
#[derive(Clone, Debug)]
struct Openings {
    /// There is no room for enough nodes before.
    from: f64,
    /// The first on top.
    nodes: BinaryHeap<Opening>,
}

#[derive(Clone, Debug)]
struct NodeRelease {
    at: f64,
    job: u32,
    amounts: Amounts,
}

#[derive(Clone, Copy, Debug)]
struct Ready {
    version: u32,
    at: f64,
}

/// A time in which a pass keeps a node.
#[derive(Clone, Copy, Debug)]
struct Kept {
    start: f64,
    end: f64,
    whose: Viewer,
}

/// Who looks for room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Viewer {
    /// A job of the queue, which meets all others.
    Member = 0,
    /// One of several requests, each of which is tried as if it were alone: it does not see what is kept for the others.
    Guest = 1,
}

/// When and where a job could start.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct StartSlot {
    pub at: f64,
    pub nodes: Vec<u32>,
}

impl<'a> NodeTimeline<'a> {
    /// Returns the nodes as those that run leave them; their numbers are those of `running`.
    pub(super) fn new(model: &'a QueueModel, part: &QueuePart) -> Self {
        let nodes = model.total.len();
        let mut timeline = Self {
            model,
            free: model.total.clone(),
            releases: vec![Vec::new(); nodes],
            ready: vec![Vec::new(); model.shapes.len()],
            changes: vec![1; nodes],
            version: vec![1; nodes],
            openings: BTreeMap::new(),
            kept: vec![Vec::new(); nodes],
            kept_nodes: Vec::new(),
        };
        for (job, active) in (0_u32..).zip(&part.running) {
            for (node, amounts) in &active.holds {
                timeline.take(*node, amounts.clone(), job, active.since + active.limit);
            }
        }
        timeline
    }

    /// Returns what is free on a node.
    pub(super) fn free(&self, node: u32) -> &[u64] {
        &self.free[node as usize]
    }

    /// Gives some of a node to a job that has to end at `limit`.
    pub(super) fn take(&mut self, node: u32, amounts: Amounts, job: u32, limit: f64) {
        let node = node as usize;
        for &(number, amount) in amounts.iter() {
            let free = &mut self.free[node][usize::from(number)];
            *free = free.saturating_sub(amount);
        }
        let place = self.releases[node].partition_point(|release| release.at <= limit);
        self.releases[node].insert(place, NodeRelease { at: limit, job, amounts });
        self.version[node] += 1;
        self.changes[node] += 1;
    }

    /// Takes back what a job has of a node.
    pub(super) fn give_back(&mut self, node: u32, job: u32) {
        let node = node as usize;
        let Some(place) = self.releases[node].iter().position(|release| release.job == job) else { return };
        let release = self.releases[node].remove(place);
        for &(number, amount) in release.amounts.iter() {
            let number = usize::from(number);
            let free = &mut self.free[node][number];
            *free = free.saturating_add(amount).min(self.model.total[node][number]);
        }
        self.version[node] += 1;
        self.changes[node] += 1;
    }

    /// Returns from when on a shape has room on a node beside those that run; minus infinity where it has now.
    pub(super) fn ready(&mut self, shape: usize, node: u32) -> f64 {
        let row = &mut self.ready[shape];
        if row.is_empty() {
            row.resize(self.version.len(), Ready { version: 0, at: 0.0 });
        }
        let version = self.version[node as usize];
        if row[node as usize].version != version {
            let at = self.room_from(shape, node as usize);
            self.ready[shape][node as usize] = Ready { version, at };
        }
        self.ready[shape][node as usize].at
    }

    fn room_from(&self, shape: usize, node: usize) -> f64 {
        let (wanted, gpu_types) = (&self.model.shapes[shape], self.model.gpu_types);
        if wanted.whole {
            return self.releases[node].last().map_or(f64::NEG_INFINITY, |release| release.at);
        }
        if wanted.fits(&self.free[node], gpu_types) {
            return f64::NEG_INFINITY;
        }
        let mut free = self.free[node].clone();
        for release in &self.releases[node] {
            for &(number, amount) in release.amounts.iter() {
                free[usize::from(number)] = free[usize::from(number)].saturating_add(amount);
            }
            if wanted.fits(&free, gpu_types) {
                return release.at;
            }
        }
        f64::INFINITY
    }

    /// Returns the first moment from `from` on at which a shape has room on a node for this long.
    pub(super) fn opening(&mut self, shape: usize, node: u32, from: f64, length: f64, viewer: Viewer) -> f64 {
        let mut at = self.ready(shape, node).max(from);
        if at == f64::INFINITY {
            return at;
        }
        let reservation = self.model.shapes[shape].reservation;
        loop {
            let before = at;
            for kept in &self.kept[node as usize] {
                if kept.start >= at + length {
                    break;
                }
                if viewer == Viewer::Member || kept.whose == Viewer::Member {
                    at = at.max(kept.end);
                }
            }
            for closure in &self.model.closures[node as usize] {
                if Some(closure.reservation) == reservation {
                    // It gives its nodes to its jobs, which need not end before it does.
                    at = if at < closure.end { at.max(closure.start) } else { f64::INFINITY };
                } else if closure.start < at + length && at < closure.end {
                    at = closure.end;
                }
            }
            if at == before {
                return at;
            }
        }
    }

    /// Returns the first moment from `now` on at which a shape can run for this long, and where: on the first of the nodes that have
    /// room then.
    pub(super) fn earliest(&mut self, shape: usize, now: f64, length: f64) -> Option<StartSlot> {
        let model = self.model;
        let mut best: Option<StartSlot> = None;
        let mut openings = mem::take(&mut self.openings);
        for &place in &model.shapes[shape].places {
            let list = openings
                .entry((shape, place, length.to_bits()))
                .or_insert_with(|| self.all_openings(shape, place, now, length));
            if let Some(slot) = self.earliest_in(list, shape, length)
                && best.as_ref().is_none_or(|best| slot.at < best.at)
            {
                best = Some(slot);
            }
        }
        self.openings = openings;
        best
    }

    /// Looks for the first moment at which enough nodes have room at once: each step goes to the moment at which enough have had
    /// room at all, until they have it together.
    ///
    /// Openings are worked out anew only where a node was given or kept since: within a pass they only become later.
    fn earliest_in(&mut self, list: &mut Openings, shape: usize, length: f64) -> Option<StartSlot> {
        let count = self.model.shapes[shape].nodes as usize;
        let mut taken: Vec<Opening> = Vec::with_capacity(count);
        loop {
            while taken.len() < count {
                let Some(mut first) = list.nodes.peek_mut() else {
                    list.nodes.extend(taken);
                    return None;
                };
                let Opening { at, node, changes } = *first;
                if changes == self.changes[node as usize] && at >= list.from {
                    if count == 1 && at < f64::INFINITY {
                        list.from = at;
                        return Some(StartSlot { at, nodes: vec![node] });
                    }
                    taken.push(PeekMut::pop(first));
                    continue;
                }
                let at = self.opening(shape, node, list.from, length, Viewer::Member);
                *first = Opening { at, node, changes: self.changes[node as usize] };
            }
            let last = taken.last().map_or(list.from, |last| last.at);
            let slot = (last <= list.from)
                .then(|| StartSlot { at: last, nodes: taken.iter().map(|taken| taken.node).collect() });
            list.nodes.extend(taken.drain(..));
            if slot.is_some() || last == f64::INFINITY {
                return slot;
            }
            list.from = last;
        }
    }

    /// Returns the same for a guest, who sees other openings than those in line.
    pub(super) fn earliest_for_guest(&mut self, shape: usize, now: f64, length: f64) -> Option<StartSlot> {
        let model = self.model;
        let count = model.shapes[shape].nodes as usize;
        let mut best: Option<StartSlot> = None;
        for &place in &model.shapes[shape].places {
            let mut from = now;
            let slot = loop {
                let open = model.sets[place].iter();
                let mut open: Vec<(Moment, u32)> = open
                    .map(|&node| (Moment(self.opening(shape, node, from, length, Viewer::Guest)), node))
                    .collect();
                open.sort_unstable();
                let last = open[count - 1].0.0;
                if last <= from {
                    break Some(StartSlot {
                        at: last,
                        nodes: open[..count].iter().map(|(_, node)| *node).collect(),
                    });
                }
                if last == f64::INFINITY {
                    break None;
                }
                from = last;
            };
            if let Some(slot) = slot
                && best.as_ref().is_none_or(|best| slot.at < best.at)
            {
                best = Some(slot);
            }
        }
        best
    }

    fn all_openings(&mut self, shape: usize, place: usize, now: f64, length: f64) -> Openings {
        let model = self.model;
        let set = model.sets[place].iter();
        let open = set.map(|&node| {
            let at = self.opening(shape, node, now, length, Viewer::Member);
            Opening { at, node, changes: self.changes[node as usize] }
        });
        Openings { from: now, nodes: open.collect() }
    }

    /// Keeps whole nodes for a job that must wait.
    pub(super) fn keep(&mut self, slot: &StartSlot, length: f64, whose: Viewer) {
        for &node in &slot.nodes {
            if self.kept[node as usize].is_empty() {
                self.kept_nodes.push(node);
            }
            let list = &mut self.kept[node as usize];
            let place = list.partition_point(|kept| kept.start <= slot.at);
            list.insert(place, Kept { start: slot.at, end: slot.at + length, whose });
            self.changes[node as usize] += 1;
        }
    }

    /// Forgets what is kept, at the end of a pass.
    pub(super) fn forget(&mut self) {
        for node in self.kept_nodes.drain(..) {
            self.kept[node as usize].clear();
            self.changes[node as usize] += 1;
        }
        self.openings.clear();
    }
}
