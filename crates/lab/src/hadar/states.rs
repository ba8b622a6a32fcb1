//! The states of the recursion, each a set of taken GPUs with the best path to it.

use std::cmp::Ordering;

use crate::hadar::find::by_digits;
use hsched_model::number::to_index;

/// Payoffs whose relative difference is smaller may be equal in twelve digits.
const SLACK: f64 = 1e-9;

/// A served job on a path, with its predecessor.
#[derive(Clone, Copy, PartialEq)]
struct StateStep {
    before: Option<u32>,
    place: u32,
}

/// All known states by number; there may be tens of thousands, so numbers have 32 bits.
pub(super) struct States {
    cells: usize,
    /// Numbers of taken GPUs by cell, one state after another.
    taken: Vec<u32>,
    /// Payoff of the best path to each state; negative infinity if there is none.
    payoffs: Vec<f64>,
    /// The highest payoff of all states.
    most: f64,
    /// The last step of the best path to each state, as an index in `steps`.
    last: Vec<Option<u32>>,
    steps: Vec<StateStep>,
    /// Hash keys of the cells, and hashes of the states.
    keys: Vec<u64>,
    hashes: Vec<u64>,
    /// Hash table of state numbers with linear probing.
    slots: Vec<Option<u32>>,
}

impl States {
    /// Returns the states at the beginning: only the one without taken GPUs, with number 0.
    pub(super) fn new(cells: usize) -> Self {
        let mut states = Self {
            cells,
            taken: vec![0; cells],
            payoffs: vec![0.0],
            most: 0.0,
            last: vec![None],
            steps: Vec::new(),
            keys: (0..cells).map(key).collect(),
            hashes: vec![0],
            slots: vec![None; 1024],
        };
        states.slots[0] = Some(0);
        states
    }

    pub(super) fn count(&self) -> usize {
        self.payoffs.len()
    }

    pub(super) fn taken(&self, state: u32) -> &[u32] {
        &self.taken[state as usize * self.cells..][..self.cells]
    }

    pub(super) fn payoff(&self, state: u32) -> f64 {
        self.payoffs[state as usize]
    }

    /// Returns the highest payoff of any path to any state.
    pub(super) fn most(&self) -> f64 {
        self.most
    }

    /// Returns the last step of the path to a state.
    pub(super) fn last(&self, state: u32) -> Option<u32> {
        self.last[state as usize]
    }

    /// Returns whether a path to a state is known.
    pub(super) fn is_reached(&self, state: u32) -> bool {
        self.payoff(state) > f64::NEG_INFINITY
    }

    /// Forgets the path to a state.
    pub(super) fn forget(&mut self, state: u32) {
        self.payoffs[state as usize] = f64::NEG_INFINITY;
    }

    /// Returns the state with some more GPUs taken, which is added without a path if it is new.
    pub(super) fn after(&mut self, state: u32, parts: &[(usize, u32)]) -> u32 {
        let hash = self.hash(state, parts);
        let slot = self.slot(hash, |known| self.is_after(known, state, parts));
        self.slots[slot].unwrap_or_else(|| self.add(slot, hash, state, parts))
    }

    /// Returns the state with some more GPUs taken, if it exists.
    pub(super) fn find(&self, state: u32, parts: &[(usize, u32)]) -> Option<u32> {
        self.slots[self.slot(self.hash(state, parts), |known| self.is_after(known, state, parts))]
    }

    fn add(&mut self, slot: usize, hash: u64, before: u32, parts: &[(usize, u32)]) -> u32 {
        let number = to_index(self.count());
        self.slots[slot] = Some(number);
        let (from, begin) = (before as usize * self.cells, self.taken.len());
        self.taken.extend_from_within(from..from + self.cells);
        for &(cell, count) in parts {
            self.taken[begin + cell] += count;
        }
        self.hashes.push(hash);
        self.payoffs.push(f64::NEG_INFINITY);
        self.last.push(None);
        if 2 * self.count() > self.slots.len() {
            self.slots = vec![None; 2 * self.slots.len()];
            for state in 0..=number {
                let slot = self.slot(self.hashes[state as usize], |known| known == state);
                self.slots[slot] = Some(state);
            }
        }
        number
    }

    /// Returns the hash of the state with some more GPUs taken: a sum over cells, so only the changed cells
    /// are computed.
    fn hash(&self, state: u32, parts: &[(usize, u32)]) -> u64 {
        let add = |hash: u64, &(cell, count): &(usize, u32)| {
            hash.wrapping_add(self.keys[cell].wrapping_mul(u64::from(count)))
        };
        parts.iter().fold(self.hashes[state as usize], add)
    }

    /// Returns the slot of a state's number, or the free slot for it.
    fn slot(&self, hash: u64, is_it: impl Fn(u32) -> bool) -> usize {
        let mut slot = (hash >> 32) as usize & (self.slots.len() - 1);
        while self.slots[slot].is_some_and(|slot| self.hashes[slot as usize] != hash || !is_it(slot)) {
            slot = (slot + 1) & (self.slots.len() - 1);
        }
        slot
    }

    fn is_after(&self, known: u32, state: u32, parts: &[(usize, u32)]) -> bool {
        let more = |cell: usize| parts.iter().find(|part| part.0 == cell).map_or(0, |part| part.1);
        let mut cells = self.taken(known).iter().zip(self.taken(state)).enumerate();
        cells.all(|(cell, (candidate, before))| *candidate == before + more(cell))
    }

    /// Returns whether a path with this payoff may be better than the known one.
    pub(super) fn may_take(&self, state: u32, payoff: f64) -> bool {
        payoff >= self.payoff(state) * (1.0 - SLACK)
    }

    /// Takes another path to a state, which serves a job after the step `before`, if it is better; returns
    /// whether it is.
    pub(super) fn offer(&mut self, state: u32, payoff: f64, before: Option<u32>, place: usize) -> bool {
        let step = StateStep { before, place: to_index(place) };
        let order = by_digits(payoff, self.payoff(state));
        let is_better = order.then_with(|| self.earlier(Some(step), self.step(self.last(state)))).is_gt();
        if is_better {
            let number = to_index(self.steps.len());
            self.payoffs[state as usize] = payoff;
            self.most = self.most.max(payoff);
            self.last[state as usize] = Some(number);
            self.steps.push(step);
        }
        is_better
    }

    /// Returns whether the path to one state is better than the path to another.
    pub(super) fn is_better(&self, one: u32, other: u32) -> bool {
        let order = by_digits(self.payoff(one), self.payoff(other));
        order.then_with(|| self.earlier(self.step(self.last(one)), self.step(self.last(other)))).is_gt()
    }

    /// Returns the jobs on the path to a state, in order.
    pub(super) fn way(&self, state: u32) -> Vec<usize> {
        let steps = std::iter::successors(self.step(self.last(state)), |step| self.step(step.before));
        let mut places: Vec<usize> = steps.map(|step| step.place as usize).collect();
        places.reverse();
        places
    }

    fn step(&self, step: Option<u32>) -> Option<StateStep> {
        step.map(|step| self.steps[step as usize])
    }

    /// Compares two paths job by job: the greater one serves an earlier job at the first difference, or is
    /// the shorter one if it is a prefix of the other.
    ///
    /// Follows both paths backwards from their ends until they meet.
    fn earlier(&self, mut one: Option<StateStep>, mut other: Option<StateStep>) -> Ordering {
        let (mut one_goes_on, mut other_goes_on) = (false, false);
        let mut order = Ordering::Equal;
        while one != other {
            let places = (one.map(|step| step.place), other.map(|step| step.place));
            match places.0.cmp(&places.1) {
                Ordering::Greater => order = if other_goes_on { Ordering::Greater } else { Ordering::Less },
                Ordering::Less => order = if one_goes_on { Ordering::Less } else { Ordering::Greater },
                Ordering::Equal => (),
            }
            if places.0 >= places.1 {
                (one, one_goes_on) = (self.step(one.and_then(|step| step.before)), true);
            }
            if places.1 >= places.0 {
                (other, other_goes_on) = (self.step(other.and_then(|step| step.before)), true);
            }
        }
        order
    }
}

/// Returns a pseudo-random number for a cell (the steps of `SplitMix64`).
fn key(cell: usize) -> u64 {
    let mut hash = (cell as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ (hash >> 31)
}
