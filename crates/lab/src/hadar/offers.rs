//! The allocation that each job would choose in each state.

use crate::hadar::find::{Guest, Market, NEAR};
use crate::hadar::hopes::GainBounds;
use crate::hadar::job::HadarJob;
use crate::hadar::menu::{Menu, MenuRange, NOWHERE, Taste};
use crate::hadar::states::States;
use hsched_model::number::to_index;

/// A transition to a state: serves a job after the path to the previous state.
pub(super) struct StateOffer {
    pub state: u32,
    pub payoff: f64,
    /// The last step of the path to the previous state.
    pub before: Option<u32>,
}

/// Computes the choices of the jobs of one taste; the allocations possible in a state are computed once.
///
/// A state sleeps while no later job can make it relevant, until a better path to it is found.
pub(super) struct OfferSearch {
    menu: Menu,
    hopes: GainBounds,
    /// By state, the range of its choices in the menu; `None` until it is computed.
    listed: Vec<Option<MenuRange>>,
    /// The states that do not sleep, and a flag for each state.
    awake: Vec<u32>,
    is_awake: Vec<bool>,
}

impl OfferSearch {
    /// Returns the search of a taste with the indices of its jobs in the queue.
    pub(super) fn new(taste: Taste, jobs: Vec<usize>) -> Self {
        Self {
            menu: Menu::new(taste),
            hopes: GainBounds::new(jobs),
            listed: Vec::new(),
            awake: Vec::new(),
            is_awake: Vec::new(),
        }
    }

    /// Records that a better path to a state was found.
    pub(super) fn wake(&mut self, state: u32) {
        // A new state is added when the next job is processed.
        if let Some(is_awake) = self.is_awake.get_mut(state as usize)
            && !std::mem::replace(is_awake, true)
        {
            self.awake.push(state);
        }
    }

    /// Processes the taste's next job in the kept states, or in all states if none was dropped. Skips choices
    /// that cannot improve on the known results.
    pub(super) fn ask(
        &mut self,
        market: &Market<'_>,
        queue: &[HadarJob],
        place: usize,
        states: &mut States,
        kept: Option<&[u32]>,
        offers: &mut Vec<StateOffer>,
    ) {
        let job = &queue[place];
        self.awake.extend((self.listed.len()..states.count()).map(to_index));
        self.listed.resize(states.count(), None);
        self.is_awake.resize(states.count(), true);
        let passes_over = kept.is_none();
        let urgency = job.urgency(market.now, market.parameters);
        let asked: Vec<u32> = match kept {
            Some(kept) => kept.to_vec(),
            None => std::mem::take(&mut self.awake),
        };
        for &state in &asked {
            let listed = &mut self.listed[state as usize];
            if listed.is_none() {
                *listed = Some(self.menu.list(market, states.taken(state)));
            }
        }
        self.hopes.learn(market, queue, &self.menu);
        let guest = Guest::new(market, job, &self.menu);
        let before = to_index(states.count());
        for &state in &asked {
            let Some(listed) = self.listed[state as usize] else { continue };
            if passes_over {
                let sleeps = self.may_sleep(market, urgency, states, state, listed);
                self.is_awake[state as usize] = !sleeps;
                if sleeps {
                    continue;
                }
                self.awake.push(state);
            }
            self.offer(&guest, states, state, offers);
        }
        // The current GPUs of a job are not part of any menu, so they may also be relevant in sleeping
        // states.
        let sleeping = if passes_over && !job.held.is_empty() { 0..before } else { 0..0 };
        for state in sleeping.filter(|&state| !self.is_awake[state as usize]).collect::<Vec<_>>() {
            let is_new = || states.find(state, &job.held).is_none();
            if guest.may_keep(states.taken(state)) && (!is_lost(market, urgency, states, state) || is_new()) {
                self.offer(&guest, states, state, offers);
            }
        }
        self.hopes.go_on();
    }

    /// Adds the job's best choice in this state if the job gains from it.
    fn offer(&mut self, guest: &Guest<'_>, states: &mut States, state: u32, offers: &mut Vec<StateOffer>) {
        let Some(listed) = self.listed[state as usize] else { return };
        let best = guest.best(&self.menu, listed, || states.taken(state));
        let Some((chosen, payoff)) = best.filter(|(_, payoff)| *payoff > 0.0) else { return };
        let then = match chosen.map(|choice| self.menu.choices[choice as usize].then) {
            Some(then) if then != NOWHERE => then,
            _ => states.after(state, guest.parts(&self.menu, chosen)),
        };
        if let Some(choice) = chosen {
            self.menu.choices[choice as usize].then = then;
        }
        let payoff = states.payoff(state) + payoff;
        if states.may_take(then, payoff) {
            offers.push(StateOffer { state: then, payoff, before: states.last(state) });
        }
    }

    /// Returns whether no menu choice of this or a later job leads from a state to a new state or a better
    /// result.
    fn may_sleep(
        &mut self,
        market: &Market<'_>,
        urgency: f64,
        states: &States,
        state: u32,
        listed: MenuRange,
    ) -> bool {
        let mut lost = None;
        for place in listed.0..listed.1 {
            let menu_choice = self.menu.choices[place as usize];
            let most = self.hopes.most(menu_choice.pace);
            let others = listed.0 as usize..listed.1 as usize;
            if most <= menu_choice.cost
                || others.into_iter().any(|other| self.is_never_best(market, place, other))
            {
                continue;
            }
            let then = if menu_choice.then == NOWHERE {
                let Some(then) = states.find(state, self.menu.parts(place)) else { return false };
                self.menu.choices[place as usize].then = then;
                then
            } else {
                menu_choice.then
            };
            if states.payoff(state) + most - menu_choice.cost < states.payoff(then) * (1.0 - NEAR) {
                continue;
            }
            if !*lost.get_or_insert_with(|| is_lost(market, urgency, states, state)) {
                return false;
            }
        }
        true
    }

    /// Returns whether a choice is worse than another one for this and all later jobs.
    fn is_never_best(&mut self, market: &Market<'_>, place: u32, other: usize) -> bool {
        let (menu_choice, other) = (self.menu.choices[place as usize], self.menu.choices[other]);
        self.hopes.lead(menu_choice.pace, other.pace) < menu_choice.cost - other.cost - market.slack
    }
}

/// Returns whether no path from a state can reach the known best payoff: each free GPU adds at most the
/// urgency of the next job, which is the highest of the remaining ones, minus the GPU's current price.
fn is_lost(market: &Market<'_>, urgency: f64, states: &States, state: u32) -> bool {
    let gain = |(cell, &taken): (usize, &u32)| {
        let free = market.cells.list[cell].count - taken;
        f64::from(free) * (urgency - market.prices.of(cell, taken)).max(0.0)
    };
    let gains: f64 = states.taken(state).iter().enumerate().map(gain).sum();
    states.payoff(state) + gains < states.most() * (1.0 - NEAR)
}
