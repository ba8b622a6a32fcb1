//! What each job would take in which states.

use crate::policy::hadar::find::{Guest, Market};
use crate::policy::hadar::job::HadarJob;
use crate::policy::hadar::menu::{Listed, Menu, NOWHERE, Taste};
use crate::policy::hadar::states::States;

/// A way to a state: to serve a job after all on the way to the state before.
pub(super) struct Offer {
    pub state: u32,
    pub payoff: f64,
    /// The last job on the way to the state before.
    pub before: Option<u32>,
}

/// Where jobs of one taste are asked what they would take: what there is to choose from in a state is found out once.
pub(super) struct Desk {
    menu: Menu,
    /// By state, its choices in the menu; `None` where nobody was asked yet.
    listed: Vec<Option<Listed>>,
}

impl Desk {
    pub(super) fn new(taste: Taste) -> Self {
        Self { menu: Menu::new(taste), listed: Vec::new() }
    }

    /// Asks a job in some states; what cannot be better than what is known is left out.
    pub(super) fn ask(
        &mut self,
        (market, job): (&Market<'_>, &HadarJob),
        states: &mut States,
        asked: impl Iterator<Item = u32> + Clone,
        offers: &mut Vec<Offer>,
    ) {
        self.listed.resize(states.count(), None);
        for state in asked.clone() {
            let listed = &mut self.listed[state as usize];
            if listed.is_none() {
                *listed = Some(self.menu.list(market, states.taken(state)));
            }
        }
        let guest = Guest::new(market, job, &self.menu);
        for state in asked {
            let Some(listed) = self.listed[state as usize] else { continue };
            let Some((chosen, payoff)) = guest.best(&self.menu, listed, || states.taken(state)) else {
                continue;
            };
            if payoff <= 0.0 {
                continue;
            }
            let mut then = chosen.map_or(NOWHERE, |choice| self.menu.choices[choice as usize].then);
            if then == NOWHERE {
                then = states.after(state, guest.parts(&self.menu, chosen));
                if let Some(choice) = chosen {
                    self.menu.choices[choice as usize].then = then;
                }
            }
            let payoff = states.payoff(state) + payoff;
            if states.may_take(then, payoff) {
                offers.push(Offer { state: then, payoff, before: states.last(state) });
            }
        }
    }
}
