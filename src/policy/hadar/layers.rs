//! The recursion over jobs: which of them to serve, by what GPUs are taken so far.

use std::cmp::Ordering;

use crate::policy::hadar::find::{Allocation, Market, by_digits};
use crate::policy::hadar::job::HadarJob;

/// The jobs to serve, by their place in the queue, with their GPUs.
pub(super) struct Answer {
    pub served: Vec<(usize, Allocation)>,
    pub payoff: f64,
    /// Whether there were too many states to keep them all.
    pub beam: bool,
}

/// States of a layer that are all kept, and how many are kept of more.
const MOST_STATES: usize = 20_000;
const BEAM: usize = 64;

#[derive(Clone, Copy)]
struct Entry {
    payoff: f64,
    /// The last job served, in the list of all that were.
    last: Option<usize>,
}

/// Every job served on the way to some state, with the one before.
type Served = Vec<(Option<usize>, usize, Allocation)>;

/// States, each the GPUs taken by cell, one after another in one vector: there are tens of thousands.
struct Layer {
    cells: usize,
    taken: Vec<u32>,
    entries: Vec<Entry>,
}

impl Layer {
    fn new(cells: usize, states: usize) -> Self {
        Self { cells, taken: Vec::with_capacity(cells * states), entries: Vec::with_capacity(states) }
    }

    fn state(&self, place: usize) -> &[u32] {
        &self.taken[place * self.cells..(place + 1) * self.cells]
    }

    fn push(&mut self, state: &[u32], entry: Entry) {
        self.taken.extend_from_slice(state);
        self.entries.push(entry);
    }

    /// Returns the places of all states, the least first.
    fn in_order(&self) -> Vec<usize> {
        let mut places: Vec<usize> = (0..self.entries.len()).collect();
        places.sort_by(|a, b| self.state(*a).cmp(self.state(*b)));
        places
    }

    /// Returns the states at some places.
    fn only(&self, places: &[usize]) -> Self {
        let mut layer = Self::new(self.cells, places.len());
        for &place in places {
            layer.push(self.state(place), self.entries[place]);
        }
        layer
    }
}

/// Returns the jobs that bring most payoff together, each on its own best allocation in its turn.
pub(super) fn best(market: &Market<'_>, queue: &[HadarJob]) -> Answer {
    let mut served = Served::new();
    let cells = market.cells.list.len();
    // In the order of the states, each of which is there once.
    let mut layer = Layer::new(cells, 1);
    layer.push(&vec![0; cells], Entry { payoff: 0.0, last: None });
    let mut beam = false;
    for (place, job) in queue.iter().enumerate() {
        let seeker = market.seeker(job);
        let mut after = Layer::new(cells, 0);
        for at in 0..layer.entries.len() {
            let found = seeker.find(layer.state(at)).filter(|own| own.terms.payoff > 0.0);
            let Some(allocation) = found else { continue };
            let entry = layer.entries[at];
            let begin = after.taken.len();
            let payoff = entry.payoff + allocation.terms.payoff;
            after.push(layer.state(at), Entry { payoff, last: Some(served.len()) });
            allocation.parts.iter().for_each(|&(cell, count)| after.taken[begin + cell] += count);
            served.push((entry.last, place, allocation));
        }
        if after.entries.is_empty() {
            continue;
        }
        layer = merged(&served, &layer, &after);
        beam |= layer.entries.len() > MOST_STATES;
        if beam {
            layer = most_payoff(&layer);
        }
    }
    let entries = layer.entries.into_iter();
    let best = entries.reduce(|best, own| if better(&served, own, best) { own } else { best });
    let Entry { payoff, last } = best.unwrap_or(Entry { payoff: 0.0, last: None });
    let places = way(&served, last).into_iter().map(|step| (served[step].1, served[step].2.clone()));
    Answer { served: places.collect(), payoff, beam }
}

/// Returns the states of two layers in order; of equal ones the better.
fn merged(served: &Served, layer: &Layer, after: &Layer) -> Layer {
    let mut next = Layer::new(layer.cells, layer.entries.len() + after.entries.len());
    let mut own = 0;
    let mut offer = |state: &[u32], entry: Entry| match next.entries.last().copied() {
        Some(last) if next.state(next.entries.len() - 1) == state => {
            if better(served, entry, last) {
                next.entries.pop();
                next.entries.push(entry);
            }
        }
        _ => next.push(state, entry),
    };
    for place in after.in_order() {
        while own < layer.entries.len() && layer.state(own) <= after.state(place) {
            offer(layer.state(own), layer.entries[own]);
            own += 1;
        }
        offer(after.state(place), after.entries[place]);
    }
    (own..layer.entries.len()).for_each(|own| offer(layer.state(own), layer.entries[own]));
    next
}

/// Returns whether one way brings more than another; of equal ones, the one that took the earlier job.
fn better(served: &Served, own: Entry, other: Entry) -> bool {
    let order = by_digits(own.payoff, other.payoff);
    let jobs = |entry: Entry| way(served, entry.last).into_iter().map(|step| served[step].1);
    order.then_with(|| jobs(other).cmp(jobs(own))) == Ordering::Greater
}

/// Returns the jobs served on the way to a state, in order.
fn way(served: &Served, mut last: Option<usize>) -> Vec<usize> {
    let mut steps = Vec::new();
    while let Some(step) = last {
        steps.push(step);
        last = served[step].0;
    }
    steps.reverse();
    steps
}

/// Returns the states of most payoff, of equal ones those that use most GPUs, then the least.
fn most_payoff(layer: &Layer) -> Layer {
    let mut places: Vec<usize> = (0..layer.entries.len()).collect();
    places.sort_by(|a, b| {
        let used = |place: usize| layer.state(place).iter().sum::<u32>();
        let by_payoff = by_digits(layer.entries[*b].payoff, layer.entries[*a].payoff);
        by_payoff.then_with(|| used(*b).cmp(&used(*a))).then_with(|| a.cmp(b))
    });
    places.truncate(BEAM);
    places.sort_unstable();
    layer.only(&places)
}
