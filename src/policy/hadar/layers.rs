//! The recursion over jobs: which of them to serve, by what GPUs are taken so far.

use std::cmp::Ordering;
use std::collections::BTreeMap;

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

/// The GPUs taken, by cell.
type State = Vec<u32>;

#[derive(Clone, Copy)]
struct Entry {
    payoff: f64,
    /// The last job served, in the list of all that were.
    last: Option<usize>,
}

/// Every job served on the way to some state, with the one before.
type Served = Vec<(Option<usize>, usize, Allocation)>;

/// Returns the jobs that bring most payoff together, each on its own best allocation in its turn.
pub(super) fn best(market: &Market<'_>, queue: &[HadarJob]) -> Answer {
    let mut served = Served::new();
    let empty = vec![0; market.cells.list.len()];
    let mut layer = BTreeMap::from([(empty, Entry { payoff: 0.0, last: None })]);
    let mut beam = false;
    for (place, job) in queue.iter().enumerate() {
        let mut next = BTreeMap::new();
        for (state, entry) in layer {
            let found = market.find(job, &state).filter(|own| own.terms.payoff > 0.0);
            if let Some(allocation) = found {
                let mut after = state.clone();
                allocation.parts.iter().for_each(|&(cell, count)| after[cell] += count);
                let payoff = entry.payoff + allocation.terms.payoff;
                served.push((entry.last, place, allocation));
                offer(&mut next, &served, after, Entry { payoff, last: Some(served.len() - 1) });
            }
            offer(&mut next, &served, state, entry);
        }
        beam |= next.len() > MOST_STATES;
        layer = if beam { most_payoff(next) } else { next };
    }
    let entries = layer.into_values();
    let best = entries.reduce(|best, own| if better(&served, own, best) { own } else { best });
    let Entry { payoff, last } = best.unwrap_or(Entry { payoff: 0.0, last: None });
    let places = way(&served, last).into_iter().map(|step| (served[step].1, served[step].2.clone()));
    Answer { served: places.collect(), payoff, beam }
}

fn offer(layer: &mut BTreeMap<State, Entry>, served: &Served, state: State, own: Entry) {
    match layer.get_mut(&state) {
        Some(there) if better(served, own, *there) => *there = own,
        Some(_) => {}
        None => {
            layer.insert(state, own);
        }
    }
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
fn most_payoff(layer: BTreeMap<State, Entry>) -> BTreeMap<State, Entry> {
    let mut states: Vec<(State, Entry)> = layer.into_iter().collect();
    states.sort_by(|a, b| {
        let used = |state: &State| state.iter().sum::<u32>();
        let by_payoff = by_digits(b.1.payoff, a.1.payoff);
        by_payoff.then_with(|| used(&b.0).cmp(&used(&a.0))).then_with(|| a.0.cmp(&b.0))
    });
    states.truncate(BEAM);
    states.into_iter().collect()
}
