//! The nodes over time as seen by a scheduling pass: free resources, ends of running jobs' limits, and
//! reservations.

use std::cmp::Ordering;
use std::collections::binary_heap::PeekMut;
use std::collections::{BTreeMap, BinaryHeap};
use std::mem;

use crate::moment::Moment;
use crate::queue_model::{QueueModel, QueuePart};
use crate::shape::Amounts;

/// Allocated and reserved resources of nodes, updated as jobs start and end.
#[derive(Clone, Debug)]
pub(super) struct NodeTimeline<'a> {
    model: &'a QueueModel,
    free: Vec<Vec<u64>>,
    /// Resources released at the limits of running jobs, by node, the earliest first.
    releases: Vec<Vec<NodeRelease>>,
    /// Time from which a shape fits on a node beside running jobs, by shape and node; computed on demand.
    ready: Vec<Vec<Ready>>,
    /// Number of allocations, releases and changes of reservations of each node.
    changes: Vec<u32>,
    /// Number of allocations and releases of each node.
    version: Vec<u32>,
    /// Openings in this pass by shape, set of nodes and length.
    openings: BTreeMap<(usize, usize, u64), Openings>,
    /// By node: the periods for which this pass reserves it for jobs that must wait, sorted by start.
    kept: Vec<Vec<ReservedPeriod>>,
    kept_nodes: Vec<u32>,
}

/// The time at which a node has room; in a heap, the earliest is on top.
#[derive(Clone, Copy, Debug)]
struct Opening {
    /// Time in Unix seconds.
    at: f64,
    node: u32,
    /// Number of changes of the node up to the computation of this value.
    changes: u32,
}

impl Opening {
    /// Returns an integer with the order of times, nodes and changes. Heap operations dominate a simulation,
    /// and one integer comparison is faster than three: the bits of positive floats sort like the floats.
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

/// The times at which nodes have room for jobs of one kind, in one pass.
#[derive(Clone, Debug)]
struct Openings {
    /// The time before which not enough nodes have room.
    from: f64,
    /// Heap with the earliest on top.
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

/// A period for which a pass reserves a node.
#[derive(Clone, Copy, Debug)]
struct ReservedPeriod {
    start: f64,
    end: f64,
    whose: Viewer,
}

/// The kind of job that looks for room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Viewer {
    /// A job of the queue, or one of several requests that are simulated together; it sees all other jobs.
    Member = 0,
    /// One of several requests that are each simulated alone: it does not see reservations for the others.
    Guest = 1,
}

/// The time and the nodes with which a job could start.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct StartSlot {
    pub at: f64,
    pub nodes: Vec<u32>,
}

impl<'a> NodeTimeline<'a> {
    /// Returns the nodes with the resources left by running jobs; jobs have the indices of `running`.
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

    /// Returns the free resources of a node.
    pub(super) fn free(&self, node: u32) -> &[u64] {
        &self.free[node as usize]
    }

    /// Allocates resources of a node to a job that must end at `limit`.
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

    /// Releases a job's resources on a node.
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

    /// Returns the time from which a shape fits on a node beside running jobs; minus infinity if it fits now,
    /// and infinity if it never fits.
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

    /// Returns the first time at or after `from` at which a shape fits on a node for this long; infinity if
    /// there is none.
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
                    // A reservation's nodes are open to its own jobs, which must start before it ends but may
                    // run past its end.
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

    /// Returns the first time at or after `now` at which a shape can run for this long, and the nodes: the
    /// first ones with room at that time.
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

    /// Searches for the first time at which enough nodes have room simultaneously: each step moves to the
    /// time from which enough nodes have room individually, until enough nodes have room together.
    ///
    /// An opening is recomputed only if its node was allocated or reserved after it was computed, or if it is
    /// before `list.from`: within a pass, openings can only become later.
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

    /// Returns the first time and nodes for a guest, which sees other openings than queued jobs.
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

    /// Reserves whole nodes for a job that must wait.
    pub(super) fn keep(&mut self, slot: &StartSlot, length: f64, whose: Viewer) {
        for &node in &slot.nodes {
            if self.kept[node as usize].is_empty() {
                self.kept_nodes.push(node);
            }
            let list = &mut self.kept[node as usize];
            let place = list.partition_point(|kept| kept.start <= slot.at);
            list.insert(place, ReservedPeriod { start: slot.at, end: slot.at + length, whose });
            self.changes[node as usize] += 1;
        }
    }

    /// Drops all reservations at the end of a pass.
    pub(super) fn forget(&mut self) {
        for node in self.kept_nodes.drain(..) {
            self.kept[node as usize].clear();
            self.changes[node as usize] += 1;
        }
        self.openings.clear();
    }
}
