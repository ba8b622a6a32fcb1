//! The envelopes of each class's bundles at the prices of each interval, computed only if a job needs them.

use crate::classes::{Bundles, Envelope, RisingBundles};

/// The envelopes of all classes.
pub(super) struct Envelopes<'a> {
    by_class: Vec<ClassEnvelopes<'a>>,
}

/// The envelopes of one class.
pub(super) struct ClassEnvelopes<'a> {
    pub bundles: &'a Bundles,
    rising: RisingBundles,
    /// By interval; up to date from the first interval of the most recent job to `end` (exclusive).
    list: Vec<Envelope>,
    end: usize,
    /// Scratch: the vertices at similar prices.
    near: Vec<usize>,
}

impl<'a> Envelopes<'a> {
    pub(super) fn new(bundles: &'a [Bundles]) -> Self {
        let class = |bundles| ClassEnvelopes {
            bundles,
            rising: RisingBundles::new(bundles),
            list: Vec::new(),
            end: 0,
            near: Vec::new(),
        };
        Self { by_class: bundles.iter().map(class).collect() }
    }

    /// Marks all envelopes as out of date, because the prices have changed. They keep their memory and serve
    /// as a start.
    pub(super) fn expire(&mut self) {
        self.by_class.iter_mut().for_each(|class| class.end = 0);
    }

    pub(super) fn of_class(&mut self, class: usize) -> &mut ClassEnvelopes<'a> {
        &mut self.by_class[class]
    }
}

impl ClassEnvelopes<'_> {
    /// Returns the envelopes by interval, of which those from `first` to `last` are for these prices. `first`
    /// must not decrease until the envelopes expire.
    pub(super) fn between(&mut self, first: usize, last: usize, prices: &[Vec<f64>]) -> &[Envelope] {
        if self.list.len() != prices.len() {
            self.list.resize(prices.len(), Envelope::default());
        }
        let stale = self.end.max(first)..last + 1;
        for (interval, prices) in stale.clone().zip(prices.get(stale).into_iter().flatten()) {
            // Prices change little from one step to the next, and from one interval to the next.
            let is_new = self.list[interval].vertices().is_empty();
            let similar = if is_new { interval.saturating_sub(1) } else { interval };
            self.near.clear();
            self.near.extend(self.list[similar].vertices().iter().map(|vertex| vertex.bundle));
            self.rising.price(prices);
            self.list[interval].renew_near(&self.rising, &self.near);
        }
        self.end = self.end.max(last + 1);
        &self.list
    }
}
