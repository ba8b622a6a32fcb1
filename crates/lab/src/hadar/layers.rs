//! The recursion over jobs, whose states are the sets of taken GPUs.

use std::collections::HashMap;

use crate::hadar::find::{JobAllocation, Market, by_digits};
use crate::hadar::job::HadarJob;
use crate::hadar::menu::Taste;
use crate::hadar::offers::{OfferSearch, StateOffer};
use crate::hadar::states::States;
use hsched_model::number::to_index;

/// The jobs to serve with their GPUs, by index in the queue.
pub(super) struct ServedJobs {
    pub served: Vec<(usize, JobAllocation)>,
    pub payoff: f64,
    /// Whether some states were dropped because there were too many.
    pub beam: bool,
}

/// Maximum number of states without pruning, and the number kept after each job when pruning.
const MOST_STATES: usize = 20_000;
const BEAM: usize = 64;

/// Returns the set of jobs with the highest total payoff that the search finds, each on its best allocation
/// in turn.
pub(super) fn best(market: &Market<'_>, queue: &[HadarJob]) -> ServedJobs {
    let mut states = States::new(market.cells.list.len());
    let (mut searches, search_of) = searches(queue);
    let mut offers: Vec<StateOffer> = Vec::new();
    // The kept states; `None` until some have been dropped.
    let mut kept: Option<Vec<u32>> = None;
    for (place, search) in search_of.into_iter().enumerate() {
        searches[search].ask(market, queue, place, &mut states, kept.as_deref(), &mut offers);
        for offer in offers.drain(..) {
            if let Some(kept) = kept.as_mut().filter(|_| !states.is_reached(offer.state)) {
                kept.push(offer.state);
            }
            if states.offer(offer.state, offer.payoff, offer.before, place) {
                for search in &mut searches {
                    search.wake(offer.state);
                }
            }
        }
        if kept.is_none() && states.count() > MOST_STATES {
            kept = Some(all(&states).collect());
        }
        if let Some(kept) = &mut kept {
            cut(kept, &mut states);
        }
    }
    let beam = kept.is_some();
    let last = kept.unwrap_or_else(|| all(&states).collect());
    let best =
        last.into_iter().reduce(|best, state| if states.is_better(state, best) { state } else { best });
    let best = best.unwrap_or(0);
    ServedJobs { served: served(market, queue, &states.way(best)), payoff: states.payoff(best), beam }
}

/// Returns a search for each taste, and the index of each job's search.
fn searches(queue: &[HadarJob]) -> (Vec<OfferSearch>, Vec<usize>) {
    let mut numbers: HashMap<Taste, usize> = HashMap::new();
    let mut jobs: Vec<(Taste, Vec<usize>)> = Vec::new();
    let search = |(place, job): (usize, &HadarJob)| {
        let number = *numbers.entry(Taste::of(job)).or_insert_with_key(|taste| {
            jobs.push((taste.clone(), Vec::new()));
            jobs.len() - 1
        });
        jobs[number].1.push(place);
        number
    };
    let search_of = queue.iter().enumerate().map(search).collect();
    (jobs.into_iter().map(|(taste, places)| OfferSearch::new(taste, places)).collect(), search_of)
}

/// Returns all states, for use while none has been dropped.
fn all(states: &States) -> std::ops::Range<u32> {
    let count = to_index(states.count());
    0..count
}

/// Keeps the states with the highest payoffs; among equal ones, those with the most GPUs in use, then those
/// whose numbers of taken GPUs by cell come first in lexicographic order.
fn cut(kept: &mut Vec<u32>, states: &mut States) {
    if kept.len() <= BEAM {
        return;
    }
    kept.sort_by(|&a, &b| {
        let used = |state: u32| states.taken(state).iter().sum::<u32>();
        let by_payoff = by_digits(states.payoff(b), states.payoff(a));
        let order = by_payoff.then_with(|| used(b).cmp(&used(a)));
        order.then_with(|| states.taken(a).cmp(states.taken(b)))
    });
    kept.drain(BEAM..).for_each(|state| states.forget(state));
}

/// Returns the jobs of a path, each with the allocation that it finds after the jobs before it.
fn served(market: &Market<'_>, queue: &[HadarJob], way: &[usize]) -> Vec<(usize, JobAllocation)> {
    let mut taken = vec![0; market.cells.list.len()];
    let take = |&place: &usize| {
        let allocation = market.find(&queue[place], &taken)?;
        allocation.parts.iter().for_each(|&(cell, count)| taken[cell] += count);
        Some((place, allocation))
    };
    way.iter().filter_map(take).collect()
}
