//! The nodes over time as a scheduling pass sees them: what is free, when running jobs reach their limits, what is kept for whom.

use crate::queue::scene::{Part, Scene};
use crate::queue::shape::Amounts;

/// What is held and kept of the nodes, kept up to date as jobs start and end.
#[derive(Clone, Debug)]
pub(super) struct Floor<'a> {
    scene: &'a Scene,
    free: Vec<Vec<u64>>,
    /// What is given back at the limits of those that run, by node, the earliest first.
    releases: Vec<Vec<Release>>,
    /// From when on a shape has room on a node beside those that run, by shape; worked out when it is asked for.
    ready: Vec<Vec<Ready>>,
    /// How often each node has changed.
    version: Vec<u32>,
    /// Nodes that a pass keeps for those that must wait.
    kept: Vec<Vec<(f64, f64)>>,
    kept_nodes: Vec<u32>,
}

#[derive(Clone, Debug)]
struct Release {
    at: f64,
    job: u32,
    amounts: Amounts,
}

#[derive(Clone, Copy, Debug)]
struct Ready {
    version: u32,
    at: f64,
}

/// When and where a job could start.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Slot {
    pub at: f64,
    pub nodes: Vec<u32>,
}

impl<'a> Floor<'a> {
    /// Returns the nodes as those that run leave them; their numbers are those of `running`.
    pub(super) fn new(scene: &'a Scene, part: &Part) -> Self {
        let nodes = scene.total.len();
        let mut floor = Self {
            scene,
            free: scene.total.clone(),
            releases: vec![Vec::new(); nodes],
            ready: vec![Vec::new(); scene.shapes.len()],
            version: vec![1; nodes],
            kept: vec![Vec::new(); nodes],
            kept_nodes: Vec::new(),
        };
        for (job, active) in (0_u32..).zip(&part.running) {
            for (node, amounts) in &active.holds {
                floor.take(*node, amounts.clone(), job, active.since + active.limit);
            }
        }
        floor
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
        let place = self.releases[node].partition_point(|own| own.at <= limit);
        self.releases[node].insert(place, Release { at: limit, job, amounts });
        self.version[node] += 1;
    }

    /// Takes back what a job has of a node.
    pub(super) fn give_back(&mut self, node: u32, job: u32) {
        let node = node as usize;
        let Some(place) = self.releases[node].iter().position(|own| own.job == job) else { return };
        let release = self.releases[node].remove(place);
        for &(number, amount) in release.amounts.iter() {
            let number = usize::from(number);
            let free = &mut self.free[node][number];
            *free = free.saturating_add(amount).min(self.scene.total[node][number]);
        }
        self.version[node] += 1;
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
        let (wanted, gpu_types) = (&self.scene.shapes[shape], self.scene.gpu_types);
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

    /// Returns the first moment from `from` on at which a shape has room on a node for so long.
    pub(super) fn opening(&mut self, shape: usize, node: u32, from: f64, length: f64) -> f64 {
        let mut at = self.ready(shape, node).max(from);
        if at == f64::INFINITY {
            return at;
        }
        let reservation = self.scene.shapes[shape].reservation;
        loop {
            let before = at;
            for &(start, end) in &self.kept[node as usize] {
                if start < at + length && at < end {
                    at = end;
                }
            }
            for closure in &self.scene.closures[node as usize] {
                let is_own = Some(closure.reservation) == reservation;
                if !is_own && closure.start < at + length && at < closure.end {
                    at = closure.end;
                }
            }
            if at == before {
                return at;
            }
        }
    }

    /// Returns the first moment from `now` on at which a shape can run for so long, and where.
    pub(super) fn earliest(&mut self, shape: usize, now: f64, length: f64) -> Option<Slot> {
        let scene = self.scene;
        let wanted = &scene.shapes[shape];
        let count = wanted.nodes as usize;
        let mut best: Option<Slot> = None;
        for &place in &wanted.places {
            let set = &scene.sets[place];
            let found = if count == 1 {
                self.earliest_node(shape, set, now, length)
            } else {
                self.earliest_nodes(shape, set, now, length)
            };
            if let Some(slot) = found
                && best.as_ref().is_none_or(|best| slot.at < best.at)
            {
                best = Some(slot);
            }
        }
        best
    }

    fn earliest_node(&mut self, shape: usize, set: &[u32], now: f64, length: f64) -> Option<Slot> {
        let (mut best, mut chosen) = (f64::INFINITY, None);
        for &node in set {
            let at = self.opening(shape, node, now, length);
            if at < best {
                (best, chosen) = (at, Some(node));
                if at <= now {
                    break;
                }
            }
        }
        chosen.map(|node| Slot { at: best, nodes: vec![node] })
    }

    /// Looks for the first moment at which enough nodes have room at once: each step goes to the moment at which enough have had
    /// room at all, until they have it together.
    fn earliest_nodes(&mut self, shape: usize, set: &[u32], now: f64, length: f64) -> Option<Slot> {
        let count = self.scene.shapes[shape].nodes as usize;
        let mut at = now;
        loop {
            let mut openings: Vec<(f64, u32)> =
                set.iter().map(|&node| (self.opening(shape, node, at, length), node)).collect();
            // Sorting is stable: of nodes that are open the first ones are taken.
            openings.sort_by(|a, b| a.0.total_cmp(&b.0));
            let last = openings.get(count - 1)?.0;
            if last == f64::INFINITY {
                return None;
            }
            if last <= at {
                let nodes = openings[..count].iter().map(|(_, node)| *node).collect();
                return Some(Slot { at, nodes });
            }
            at = last;
        }
    }

    /// Keeps whole nodes for a job that must wait.
    pub(super) fn keep(&mut self, slot: &Slot, length: f64) {
        for &node in &slot.nodes {
            if self.kept[node as usize].is_empty() {
                self.kept_nodes.push(node);
            }
            let list = &mut self.kept[node as usize];
            let place = list.partition_point(|(start, _)| *start <= slot.at);
            list.insert(place, (slot.at, slot.at + length));
        }
    }

    /// Forgets what is kept, at the end of a pass.
    pub(super) fn forget(&mut self) {
        for node in self.kept_nodes.drain(..) {
            self.kept[node as usize].clear();
        }
    }
}
