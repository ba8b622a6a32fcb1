//! The policy `has` (Algorithms 1 and 2): examines every category and keeps the best.

use num_bigint::BigUint;

use crate::market::{CategoryMarket, ClearedCategory};
use crate::{
    Assignment, Entry, Knowledge, Make, Objective, Placer, PolicyError, Problem, Sharing, admission, category,
};

/// The registry entry of the paper's HAS.
pub(super) const HAS: Entry = Entry {
    name: "has",
    make: Make::Placer(|_| Ok(Box::new(Has))),
    objectives: &Objective::ALL,
    flags: &[],
    knows: &[Knowledge::Lengths, Knowledge::Speeds],
    knows_replicas: true,
};

/// The paper's HAS.
#[derive(Clone, Copy, Debug, Default)]
struct Has;

/// Maximum number of categories; with more, the policy fails and recommends `jps`, which samples them.
const LIMIT: u64 = 10_000_000;

impl Placer for Has {
    fn name(&self) -> &'static str {
        "has"
    }

    fn place(&self, problem: &Problem, stop: &dyn Fn() -> bool) -> Result<Assignment, PolicyError> {
        let (mut looked_at, mut stopped) = (0, false);
        let verdicts = admission::place(problem, Sharing::Balanced, stop, |admission| {
            let jobs = &admission.jobs;
            let count = category::count(admission.workers, jobs.len());
            if count > BigUint::from(LIMIT) {
                let count = count.to_string();
                return Err(PolicyError::too_large(self.name(), "categories", &count, LIMIT, "jps"));
            }
            let mut search = CategorySearch::new(problem, jobs);
            let mut category = category::first(admission.workers, jobs.len());
            search.look_at(&category);
            while !stopped && category::next(&mut category) {
                search.look_at(&category);
                stopped = stop();
            }
            looked_at += search.looked_at;
            Ok(search.end(stop).and_then(|best| best.verdicts(problem, jobs)))
        })?;
        Ok(Assignment { verdicts, categories: Some(looked_at), stopped, bound: None })
    }
}

/// A search that keeps the best category so far and packs only categories that may be better.
pub(super) struct CategorySearch<'a> {
    market: CategoryMarket<'a>,
    best: Option<ClearedCategory>,
    pub looked_at: u64,
}

impl<'a> CategorySearch<'a> {
    pub(super) fn new(problem: &'a Problem, jobs: &'a [usize]) -> Self {
        Self { market: CategoryMarket::new(problem, jobs), best: None, looked_at: 0 }
    }

    /// Improves the best plan found and returns it.
    pub(super) fn end(self, stop: &dyn Fn() -> bool) -> Option<ClearedCategory> {
        self.market.improved(self.best, stop)
    }

    /// Solves a category and keeps it if it is better than all earlier ones.
    pub(super) fn look_at(&mut self, category: &[u32]) {
        self.looked_at += 1;
        let incumbent = self.best.as_ref().map_or(f64::INFINITY, |best| best.objective);
        let promising = self.market.clear(category) && self.market.lower_bound() < incumbent;
        if promising {
            self.best = self.market.pack().filter(|new| new.objective < incumbent).or(self.best.take());
        }
    }
}
