//! Places bundles on nodes: those that need the most GPUs on one node first.

use std::cmp::Reverse;

use crate::dual::Dual;
use crate::optimal::layout::{Layout, RingPlacement};
use crate::optimal::many::JobKinds;
use crate::optimal::many::catalogue::rent;
use crate::optimal::many::kinds::{Choices, JobKind};
use crate::optimal::many::rounding::BundleChoices;
use crate::pricing::{Pricer, holds};
use crate::{JobModel, Problem};

/// The jobs of a market on nodes.
pub(crate) struct OnNodes<'a, 'b> {
    pub(super) kinds: &'b JobKinds<'a>,
    pub layout: Layout<'a>,
    pub places: Vec<RingPlacement>,
    /// Kind by job.
    pub(super) kind_of: Vec<usize>,
    pub(super) pricers: &'b [Pricer<'a>],
    pub(super) weights: &'b [f64],
    pub(super) prices: &'b [f64],
    /// By list: bundle indices, the fastest first.
    fastest: Vec<Vec<u32>>,
    /// By kind: indices of the bundles with the lowest cost at the market's prices; empty until computed.
    pub(super) near: Vec<Vec<u32>>,
    /// By job: what its placement costs beyond its best choice; `None` until computed.
    pub(super) regrets: Vec<Option<f64>>,
    /// Scratch: the costs of bundles.
    values: Vec<(f64, usize)>,
}

/// Number of a kind's bundles examined first.
const NEAR: usize = 96;

/// Returns the jobs on nodes with the chosen bundles, or with others if those do not fit; `None` if a job
/// does not fit.
pub(crate) fn on_nodes<'a, 'b>(
    problem: &'a Problem,
    kinds: &'b JobKinds<'a>,
    chosen: &BundleChoices,
    dual: &'b Dual<'a>,
    prices: &'b [f64],
) -> Option<OnNodes<'a, 'b>> {
    let weights = dual.weights.as_slice();
    let mut bundle_of = vec![0; weights.len()];
    let mut kind_of = vec![0; weights.len()];
    for (number, (kind, choices)) in kinds.all.iter().zip(chosen).enumerate() {
        let bundles = choices.iter().flat_map(|&(bundle, count)| (0..count).map(move |_| bundle));
        for (&job, bundle) in kind.jobs.iter().zip(bundles) {
            (bundle_of[job], kind_of[job]) = (bundle, number);
        }
    }
    let mut all = OnNodes {
        kinds,
        layout: Layout::new(problem),
        places: vec![RingPlacement::nowhere(problem.gpu_types.len()); weights.len()],
        kind_of,
        pricers: &dual.pricers,
        weights,
        prices,
        fastest: kinds.lists.iter().map(fastest_first).collect(),
        near: vec![Vec::new(); kinds.all.len()],
        regrets: vec![None; weights.len()],
        values: Vec::new(),
    };
    let bundle = |job: usize| all.list(job).bundles[bundle_of[job]];
    let is_inside = |job: usize| kinds.catalogue.is_inside(bundle(job));
    let size = |job: usize| all.pricers[job].gpus(kinds.catalogue.counts(bundle(job))).iter().sum::<u32>();
    // Bundles that need the most GPUs on one node come first; those that any GPUs can form come last.
    let block: Vec<u32> = (0..weights.len())
        .map(|job| if is_inside(job) { size(job) } else { largest_block(all.pricers[job].job) })
        .collect();
    let mut order: Vec<usize> = (0..weights.len()).collect();
    order.sort_by_key(|&job| (Reverse(block[job]), Reverse(size(job)), job));
    let whole = order.partition_point(|&job| block[job] > 0);
    if all.has_replicas() {
        all.fill(&order[..whole], &bundle_of);
    }
    for jobs in [&order[..whole], &order[whole..]] {
        let mut stuck = Vec::new();
        for &job in jobs {
            if all.has_place(job) {
                continue;
            }
            // If its bundle does not fit, a job chooses another one now: those left at the end would be far
            // worse.
            match all.place(job, bundle_of[job]).or_else(|| all.best_place(job, Some(prices))) {
                Some(place) => all.put(job, place),
                None => stuck.push(job),
            }
        }
        all.make_room(stuck)?;
    }
    Some(all)
}

/// Returns the bundle indices of a list, the fastest first.
fn fastest_first(list: &Choices<'_>) -> Vec<u32> {
    let mut order: Vec<u32> = (0..).take(list.costs.len()).collect();
    order.sort_by(|&a, &b| list.costs[a as usize].total_cmp(&list.costs[b as usize]));
    order
}

impl<'a> OnNodes<'a, '_> {
    /// Returns whether a job has GPUs.
    fn has_place(&self, job: usize) -> bool {
        self.places[job].gpus.iter().any(|&count| count > 0)
    }

    /// Returns whether some replicas have several GPUs.
    pub(super) fn has_replicas(&self) -> bool {
        self.pricers.iter().any(|pricer| pricer.job.has_several_gpus())
    }

    pub(super) fn list(&self, job: usize) -> &Choices<'a> {
        &self.kinds.lists[self.kinds.all[self.kind_of[job]].list]
    }

    /// Returns the cost of a second of a job's epoch.
    pub(super) fn scale(&self, job: usize) -> f64 {
        self.kinds.all[self.kind_of[job]].scale
    }

    pub(super) fn put(&mut self, job: usize, place: RingPlacement) {
        self.layout.take(&place);
        self.places[job] = place;
        self.regrets[job] = None;
    }

    /// Returns the placement of a bundle, if it fits.
    pub(super) fn place(&self, job: usize, bundle: usize) -> Option<RingPlacement> {
        let list = self.list(job);
        let number = list.bundles[bundle];
        let counts = self.kinds.catalogue.counts(number);
        if !self.kinds.catalogue.is_inside(number) {
            let cost = self.scale(job) / self.weights[job] * list.costs[bundle];
            return self.layout.across(self.pricers[job].job, counts, cost);
        }
        let place = self.layout.ring_for(&self.pricers[job], counts);
        place.filter(|place| place.node.is_some())
    }

    /// Returns a job's best placement at these prices, or the fastest one if `prices` is `None`, which means
    /// that GPUs are free of charge; `None` if none of its bundles fits.
    pub(super) fn best_place(&mut self, job: usize, prices: Option<&[f64]>) -> Option<RingPlacement> {
        let kind = self.kind_of[job];
        let Some(prices) = prices else {
            let mut order = self.fastest[self.kinds.all[kind].list].iter();
            return order
                .find_map(|&place| self.fits(job, place).then(|| self.place(job, place as usize))?);
        };
        if self.near[kind].is_empty() {
            self.near[kind] = self.nearest(kind);
        }
        let near = std::mem::take(&mut self.near[kind]);
        let found = self.best_of(job, prices, near.iter().copied());
        self.near[kind] = near;
        found.or_else(|| self.best_of(job, prices, (0..).take(self.list(job).costs.len())))
    }

    /// Returns the indices of the bundles with the lowest cost for a kind at the market's prices.
    pub(super) fn nearest(&self, kind: usize) -> Vec<u32> {
        let JobKind { list, scale, .. } = self.kinds.all[kind];
        let list = &self.kinds.lists[list];
        let on_node = |place: u32| {
            let uses = self.kinds.catalogue.uses(list.bundles[place as usize]);
            scale * list.costs[place as usize] + rent(uses, self.prices)
        };
        let mut values: Vec<(f64, u32)> =
            (0..).take(list.costs.len()).map(|place| (on_node(place), place)).collect();
        let order = |a: &(f64, u32), b: &(f64, u32)| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1));
        if values.len() > NEAR {
            values.select_nth_unstable_by(NEAR, order);
            values.truncate(NEAR);
        }
        values.sort_unstable_by(order);
        values.into_iter().map(|(_, place)| place).collect()
    }

    /// Returns whether enough GPUs for a bundle are free, regardless of their nodes.
    pub(super) fn fits(&self, job: usize, place: u32) -> bool {
        holds(&self.layout.room, self.kinds.catalogue.gpus(self.list(job).bundles[place as usize]))
    }

    /// Returns a job's best placement among these bundles at these prices.
    fn best_of(
        &mut self,
        job: usize,
        prices: &[f64],
        places: impl Iterator<Item = u32>,
    ) -> Option<RingPlacement> {
        let mut values = std::mem::take(&mut self.values);
        values.clear();
        let (list, scale) = (self.list(job), self.scale(job));
        let on_node = |place: u32| {
            let (place, catalogue) = (place as usize, &self.kinds.catalogue);
            (scale * list.costs[place] + rent(catalogue.uses(list.bundles[place]), prices), place)
        };
        values.extend(places.filter(|&place| self.fits(job, place)).map(on_node));
        // The cheapest bundle almost always fits, so sorting is avoided.
        let mut found = None;
        while let Some(at) = (0..values.len()).min_by(|&a, &b| values[a].0.total_cmp(&values[b].0)) {
            let (_, place) = values.swap_remove(at);
            found = self.place(job, place);
            if found.is_some() {
                break;
            }
        }
        self.values = values;
        found
    }
}

/// Returns the largest number of GPUs that a job's replica needs on one node, 0 if any nodes suffice.
pub(super) fn largest_block(job: &JobModel) -> u32 {
    let sizes = (0..job.types.len()).filter(|&ty| job.types[ty].is_some()).map(|ty| job.size(ty));
    if job.needs_blocks() { sizes.max().unwrap_or(0) } else { 0 }
}
