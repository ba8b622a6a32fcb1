//! The states of the recursion: which GPUs are taken, and the best way there.

use std::cmp::Ordering;

use crate::policy::hadar::find::by_digits;

/// Payoffs that differ by a smaller part of them may be the same in twelve digits.
const SLACK: f64 = 1e-9;

/// A job that was served on some way, after others.
#[derive(Clone, Copy, PartialEq)]
struct Step {
    before: Option<u32>,
    place: u32,
}

/// All states that any way has led to, by number: there are tens of thousands, so numbers are small.
pub(super) struct States {
    cells: usize,
    /// GPUs taken by cell, one state after another.
    taken: Vec<u32>,
    /// What the best way to each brings; less than anything where none is known.
    payoffs: Vec<f64>,
    /// The last job served on that way, among the steps.
    last: Vec<Option<u32>>,
    steps: Vec<Step>,
    /// Numbers of states by what they hash to, with the next place where that is taken.
    slots: Vec<Option<u32>>,
    /// A state that is asked for; kept for its memory.
    wanted: Vec<u32>,
}

impl States {
    /// Returns the state in which nothing is taken, as number 0.
    pub(super) fn new(cells: usize) -> Self {
        let mut states = Self {
            cells,
            taken: vec![0; cells],
            payoffs: vec![0.0],
            last: vec![None],
            steps: Vec::new(),
            slots: vec![None; 1024],
            wanted: Vec::new(),
        };
        let slot = states.slot(&vec![0; cells]);
        states.slots[slot] = Some(0);
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

    /// Returns the last job on the way to a state.
    pub(super) fn last(&self, state: u32) -> Option<u32> {
        self.last[state as usize]
    }

    /// Returns whether a way to a state is known.
    pub(super) fn is_reached(&self, state: u32) -> bool {
        self.payoff(state) > f64::NEG_INFINITY
    }

    /// Forgets the way to a state.
    pub(super) fn forget(&mut self, state: u32) {
        self.payoffs[state as usize] = f64::NEG_INFINITY;
    }

    /// Returns the state in which some more GPUs are taken; to a new one no way is known.
    pub(super) fn after(&mut self, state: u32, parts: &[(usize, u32)]) -> u32 {
        let mut wanted = std::mem::take(&mut self.wanted);
        wanted.clear();
        wanted.extend_from_slice(self.taken(state));
        for &(cell, count) in parts {
            wanted[cell] += count;
        }
        let slot = self.slot(&wanted);
        let known = self.slots[slot];
        let number = known.unwrap_or_else(|| self.add(slot, &wanted));
        self.wanted = wanted;
        number
    }

    fn add(&mut self, slot: usize, taken: &[u32]) -> u32 {
        #[expect(clippy::cast_possible_truncation, reason = "a few for each job")]
        let number = self.count() as u32;
        self.slots[slot] = Some(number);
        self.taken.extend_from_slice(taken);
        self.payoffs.push(f64::NEG_INFINITY);
        self.last.push(None);
        if 2 * self.count() > self.slots.len() {
            self.slots = vec![None; 2 * self.slots.len()];
            for state in 0..=number {
                let slot = self.slot(self.taken(state));
                self.slots[slot] = Some(state);
            }
        }
        number
    }

    /// Returns where the number of a state is kept, or would be.
    fn slot(&self, taken: &[u32]) -> usize {
        let mix = |hash: u64, count: &u32| {
            (hash.rotate_left(5) ^ u64::from(*count)).wrapping_mul(0x517c_c1b7_2722_0a95)
        };
        let hash = (taken.iter().fold(0, mix) >> 20) as usize;
        let mut slot = hash & (self.slots.len() - 1);
        while self.slots[slot].is_some_and(|state| self.taken(state) != taken) {
            slot = (slot + 1) & (self.slots.len() - 1);
        }
        slot
    }

    /// Returns whether a way that brings so much may be better than the one that is known.
    pub(super) fn may_take(&self, state: u32, payoff: f64) -> bool {
        payoff >= self.payoff(state) * (1.0 - SLACK)
    }

    /// Takes another way to a state if it is better: to serve a job after all others on some way.
    pub(super) fn offer(&mut self, state: u32, payoff: f64, before: Option<u32>, place: usize) {
        #[expect(clippy::cast_possible_truncation, reason = "the place of a job in the queue")]
        let step = Step { before, place: place as u32 };
        let order = by_digits(payoff, self.payoff(state));
        if order.then_with(|| self.earlier(Some(step), self.step(self.last(state)))).is_gt() {
            #[expect(clippy::cast_possible_truncation, reason = "no more than states and jobs")]
            let number = self.steps.len() as u32;
            self.payoffs[state as usize] = payoff;
            self.last[state as usize] = Some(number);
            self.steps.push(step);
        }
    }

    /// Returns whether the way to one state is better than that to another.
    pub(super) fn is_better(&self, one: u32, other: u32) -> bool {
        let order = by_digits(self.payoff(one), self.payoff(other));
        order.then_with(|| self.earlier(self.step(self.last(one)), self.step(self.last(other)))).is_gt()
    }

    /// Returns the jobs served on the way to a state, in order.
    pub(super) fn way(&self, state: u32) -> Vec<usize> {
        let steps = std::iter::successors(self.step(self.last(state)), |step| self.step(step.before));
        let mut places: Vec<usize> = steps.map(|step| step.place as usize).collect();
        places.reverse();
        places
    }

    fn step(&self, step: Option<u32>) -> Option<Step> {
        step.map(|step| self.steps[step as usize])
    }

    /// Compares two ways job by job: greater is what took an earlier one, or, of two that begin the same, the shorter.
    ///
    /// They are followed from their ends, where they differ, to where they meet.
    fn earlier(&self, mut one: Option<Step>, mut other: Option<Step>) -> Ordering {
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
