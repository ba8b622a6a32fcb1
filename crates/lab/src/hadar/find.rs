//! The candidates for the best allocation of a job given the GPUs that are taken, with their payoffs.

use std::cmp::Ordering;

use crate::hadar::cells::{CellParts, Cells};
use crate::hadar::job::{HadarJob, HadarParameters};
use crate::hadar::menu::{Menu, MenuRange, NOWHERE, Taste};
use crate::hadar::prices::{BidTerms, CellPrices};

/// The common data of a round.
pub(super) struct Market<'a> {
    pub cells: &'a Cells,
    pub prices: &'a CellPrices,
    pub parameters: &'a HadarParameters,
    pub now: f64,
    /// If costs differ by more than this, the payoffs differ in their first twelve digits.
    pub slack: f64,
}

/// GPUs for a job, and the terms on which the job gets them.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct JobAllocation {
    pub parts: CellParts,
    pub terms: BidTerms,
}

/// Numbers with a larger relative difference always differ in their first twelve digits.
pub(super) const NEAR: f64 = 1e-10;

/// Compares numbers rounded to twelve digits: sums of floats with a smaller difference count as equal.
pub(crate) fn by_digits(a: f64, b: f64) -> Ordering {
    // Rounding is slow and cannot change the order of numbers that are not close.
    if a == b || !is_near(a, b) {
        return a.total_cmp(&b);
    }
    let scale = scale(a);
    let rounded = |number: f64| {
        let magnitude = (number * scale).abs();
        // Near a power of ten, the two numbers may have different scales.
        if (1e11..1e12).contains(&magnitude) { (number * scale).round() / scale } else { digits(number) }
    };
    rounded(a).total_cmp(&rounded(b))
}

fn is_near(a: f64, b: f64) -> bool {
    (a - b).abs() <= NEAR * a.abs().max(b.abs())
}

fn digits(number: f64) -> f64 {
    if number == 0.0 || !number.is_finite() {
        return number;
    }
    let scale = scale(number);
    (number * scale).round() / scale
}

/// Returns the power of ten that scales a number to an integer of twelve digits.
fn scale(number: f64) -> f64 {
    #[expect(clippy::cast_possible_truncation, reason = "an exponent")]
    let exponent = number.abs().log10().floor() as i32;
    10_f64.powi(11 - exponent)
}

impl<'a> Market<'a> {
    /// Returns the market of a round with these jobs.
    pub(super) fn new(
        cells: &'a Cells,
        prices: &'a CellPrices,
        jobs: &[HadarJob],
        now: f64,
        parameters: &'a HadarParameters,
    ) -> Self {
        let worth = |job: &HadarJob| job.urgency(now, parameters) * f64::from(job.gpus);
        let most = jobs.iter().map(worth).fold(0.0, f64::max);
        Self { cells, prices, parameters, now, slack: 2.0 * NEAR * most }
    }

    /// Returns the allocation with the highest payoff, which may be negative; `None` if too few GPUs are
    /// free.
    pub(super) fn find(&self, job: &HadarJob, taken: &[u32]) -> Option<JobAllocation> {
        let mut menu = Menu::new(Taste::of(job));
        let choices = menu.list(self, taken);
        let guest = Guest::new(self, job, &menu);
        let (choice, _) = guest.best(&menu, choices, || taken)?;
        Some(self.terms(job, taken, guest.parts(&menu, choice).to_vec()))
    }

    /// Returns the terms of an allocation.
    pub(super) fn terms(&self, job: &HadarJob, taken: &[u32], parts: CellParts) -> JobAllocation {
        let speed = job.speed(self.cells, &parts, self.parameters.sharing);
        let restart = if parts == job.held { 0.0 } else { job.restart };
        let (jct, utility) = self.worth(job, speed, restart);
        let cost = self.cost(taken, &parts);
        JobAllocation { parts, terms: BidTerms { speed, jct, utility, cost, payoff: utility - cost } }
    }

    /// Returns the seconds from a job's arrival to its completion at a given speed, and their utility.
    pub(super) fn worth(&self, job: &HadarJob, speed: f64, restart: f64) -> (f64, f64) {
        let jct = self.now + restart + job.left / speed - job.arrival;
        (jct, job.worth(jct, self.parameters))
    }

    /// Returns the price of some GPUs.
    pub(super) fn cost(&self, taken: &[u32], parts: &[(usize, u32)]) -> f64 {
        parts.iter().map(|&(cell, count)| self.prices.of(cell, taken[cell]) * f64::from(count)).sum()
    }
}

/// A job that chooses from the menu of its taste.
pub(super) struct Guest<'a> {
    market: &'a Market<'a>,
    job: &'a HadarJob,
    /// Utility of each pace of the menu.
    worth: Vec<f64>,
    /// The utility of the GPUs that the job holds, if it can continue on them.
    held: Option<f64>,
}

/// The index of a choice in the menu; `None` means to keep the current GPUs.
pub(super) type MenuPlace = Option<u32>;

impl<'a> Guest<'a> {
    /// Returns a job that chooses from a menu, which contains all states in question.
    pub(super) fn new(market: &'a Market<'a>, job: &'a HadarJob, menu: &Menu) -> Self {
        let speeds = menu.paces.iter().map(|pace| pace.speed(job, &menu.taste));
        let worth = speeds.map(|speed| market.worth(job, speed, job.restart).1).collect();
        let usable = |&(cell, _): &(usize, u32)| job.rates[market.cells.list[cell].gpu_type].is_some();
        let count: u32 = job.held.iter().map(|(_, count)| count).sum();
        let held = (count == job.gpus && job.held.iter().all(usable)).then(|| {
            let speed = job.speed(market.cells, &job.held, market.parameters.sharing);
            market.worth(job, speed, 0.0).1
        });
        Self { market, job, worth, held }
    }

    /// Returns whether the job would gain from keeping its GPUs, given the GPUs that are taken.
    pub(super) fn may_keep(&self, taken: &[u32]) -> bool {
        self.held.is_some_and(|worth| self.is_free(taken) && worth > self.market.cost(taken, &self.job.held))
    }

    /// Returns whether none of the job's current GPUs is taken.
    fn is_free(&self, taken: &[u32]) -> bool {
        let cells = &self.market.cells.list;
        self.job.held.iter().all(|&(cell, count)| cells[cell].count - taken[cell] >= count)
    }

    /// Returns the GPUs of a choice.
    pub(super) fn parts<'b>(&self, menu: &'b Menu, choice: MenuPlace) -> &'b [(usize, u32)]
    where
        'a: 'b,
    {
        choice.map_or(&self.job.held, |choice| menu.parts(choice))
    }

    /// Returns the choice with the highest payoff, which may be negative, and the payoff; `None` if there is
    /// no choice. It calls `taken` only if the job holds GPUs or the best payoffs are nearly equal.
    pub(super) fn best<'b>(
        &self,
        menu: &Menu,
        listed: MenuRange,
        taken: impl FnOnce() -> &'b [u32],
    ) -> Option<(MenuPlace, f64)> {
        let (mut best, mut second) = ((NOWHERE, f64::NEG_INFINITY), f64::NEG_INFINITY);
        for (place, menu_choice) in (listed.0..).zip(&menu.choices[listed.0 as usize..listed.1 as usize]) {
            let payoff = self.worth[menu_choice.pace as usize] - menu_choice.cost;
            if payoff > best.1 {
                (best, second) = ((place, payoff), best.1);
            } else if payoff > second {
                second = payoff;
            }
        }
        if self.held.is_some() || second.is_finite() && is_near(best.1, second) {
            return self.best_of_near(menu, listed, taken());
        }
        (best.0 != NOWHERE).then_some((Some(best.0), best.1))
    }

    /// Returns the same as [`Self::best`] for payoffs that may be equal in twelve digits; among equal ones,
    /// it prefers fewer nodes, then the slowest GPUs, then the most GPUs in the earliest cell.
    fn best_of_near(&self, menu: &Menu, listed: MenuRange, taken: &[u32]) -> Option<(MenuPlace, f64)> {
        let worth = |choice: u32| {
            let menu_choice = menu.choices[choice as usize];
            self.worth[menu_choice.pace as usize] - menu_choice.cost
        };
        let listed = (listed.0..listed.1).map(|choice| (Some(choice), worth(choice)));
        let held = self.held.filter(|_| self.is_free(taken));
        let held = held.map(|worth| (None, worth - self.market.cost(taken, &self.job.held)));
        listed.chain(held).reduce(|best, option| if self.prefers(menu, option, best) { option } else { best })
    }

    fn prefers(&self, menu: &Menu, option: (MenuPlace, f64), other: (MenuPlace, f64)) -> bool {
        let cells = self.market.cells;
        let parts = |chosen: MenuPlace| self.parts(menu, chosen);
        let power = |chosen: MenuPlace| -> f64 {
            let rate = |cell: usize| self.job.rates[cells.list[cell].gpu_type].unwrap_or(0.0);
            parts(chosen).iter().map(|&(cell, count)| rate(cell) * f64::from(count)).sum()
        };
        let order = by_digits(option.1, other.1)
            .then_with(|| cells.nodes(parts(other.0)).cmp(&cells.nodes(parts(option.0))))
            .then_with(|| by_digits(power(other.0), power(option.0)));
        order.then_with(|| earliest(parts(option.0), parts(other.0))).is_gt()
    }
}

/// Compares GPUs cell by cell: the greater one has more GPUs in the first cell that differs.
pub(super) fn earliest(a: &[(usize, u32)], b: &[(usize, u32)]) -> Ordering {
    for (a, b) in a.iter().zip(b) {
        let order = b.0.cmp(&a.0).then(a.1.cmp(&b.1));
        if order != Ordering::Equal {
            return order;
        }
    }
    Ordering::Equal
}
