//! Places bundles on nodes: rings inside nodes first, the largest first; then jobs exchange GPUs.

use std::cmp::Reverse;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

use crate::dual::Dual;
use crate::optimal::layout::{Layout, RingPlacement};
use crate::optimal::many::JobKinds;
use crate::optimal::many::catalogue::rent;
use crate::optimal::many::kinds::{Choices, JobKind};
use crate::optimal::many::rounding::BundleChoices;
use crate::pricing::Pricer;
use crate::{JobModel, Problem};
use hsched_model::number::{to_f64, to_usize};

/// The jobs of a market on nodes.
pub(crate) struct OnNodes<'a, 'b> {
    kinds: &'b JobKinds<'a>,
    pub layout: Layout<'a>,
    pub places: Vec<RingPlacement>,
    /// Kind by job.
    kind_of: Vec<usize>,
    pub(super) pricers: &'b [Pricer<'a>],
    weights: &'b [f64],
    pub(super) prices: &'b [f64],
    /// By list: bundle indices, the fastest first.
    fastest: Vec<Vec<u32>>,
    /// By kind: indices of the bundles with the lowest cost at the market's prices; empty until computed.
    near: Vec<Vec<u32>>,
    /// Scratch: the costs of bundles.
    values: Vec<(f64, usize)>,
}

/// Number of a kind's bundles examined first.
const NEAR: usize = 96;

/// Number of unsuccessful exchanges per job after which exchanges end.
const VAIN: usize = 400;

/// The same number as [`VAIN`] if there are replicas of several GPUs, which leave larger gaps that exchanges
/// cannot close; an exchange that gains less than this fraction of all costs also counts as unsuccessful.
const VAIN_OF_REPLICAS: usize = 1;
const LEAST_GAIN: f64 = 1e-6;

/// If there are such replicas, one of the two jobs is among the 1/`FAR_PART` of all jobs that pay most beyond
/// their best choice. These jobs are determined again after `FAR_EVERY` exchanges.
const FAR_PART: usize = 30;
const FAR_EVERY: usize = 100;

/// Number of exchanges between two calls to `stop`.
const STRIDE: usize = 16;

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
    for jobs in [&order[..whole], &order[whole..]] {
        let mut stuck = Vec::new();
        for &job in jobs {
            // The bundles left at the end would be far worse.
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
    fn list(&self, job: usize) -> &Choices<'a> {
        &self.kinds.lists[self.kinds.all[self.kind_of[job]].list]
    }

    /// Returns the cost of a second of a job's epoch.
    fn scale(&self, job: usize) -> f64 {
        self.kinds.all[self.kind_of[job]].scale
    }

    pub(super) fn put(&mut self, job: usize, place: RingPlacement) {
        self.layout.take(&place);
        self.places[job] = place;
    }

    /// Returns the placement of a bundle, if it fits.
    fn place(&self, job: usize, bundle: usize) -> Option<RingPlacement> {
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

    /// Returns a job's best placement at these prices, or the fastest one if GPUs are free of charge; `None`
    /// if none of its bundles fits.
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
    fn nearest(&self, kind: usize) -> Vec<u32> {
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
    fn fits(&self, job: usize, place: u32) -> bool {
        let replicas = self.kinds.catalogue.counts(self.list(job).bundles[place as usize]);
        let model = self.pricers[job].job;
        let needs = replicas.iter().enumerate().map(|(ty, &count)| count * model.size(ty));
        needs.zip(&self.layout.room).all(|(need, have)| need <= *have)
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

    /// Lets pairs of jobs exchange GPUs until the total cost of all jobs is at most `enough`, many exchanges
    /// have failed, or `stop` returns true.
    pub(crate) fn exchange(&mut self, enough: f64, seed: u64, stop: &dyn Fn() -> bool) {
        let jobs = self.places.len();
        let mut value: f64 =
            self.places.iter().zip(self.weights).map(|(place, weight)| weight * place.cost).sum();
        let mut random = Pcg64::seed_from_u64(seed);
        for job in 0..jobs {
            value += self.renew(&[(job, None)]);
        }
        let any = |random: &mut Pcg64, count: usize| {
            to_usize(random.random::<f64>() * to_f64(count)).min(count - 1)
        };
        let has_replicas = self.pricers.iter().any(|pricer| pricer.job.has_several_gpus());
        let (most_vain, least) = if has_replicas { (VAIN_OF_REPLICAS, LEAST_GAIN) } else { (VAIN, 0.0) };
        let (mut vain, mut tries) = (0, 0_usize);
        let mut far = Vec::new();
        while value > enough && vain < most_vain * jobs && jobs > 1 {
            tries += 1;
            if tries.is_multiple_of(STRIDE) && stop() {
                return;
            }
            if has_replicas && tries % FAR_EVERY == 1 {
                far = self.farthest(jobs.div_ceil(FAR_PART));
            }
            let a = if has_replicas { far[any(&mut random, far.len())] } else { any(&mut random, jobs) };
            let b = any(&mut random, jobs);
            if a == b {
                continue;
            }
            let about: Vec<f64> =
                self.prices.iter().map(|price| price * (0.5 + 1.2 * random.random::<f64>())).collect();
            let change = self.renew(&[(a, Some(&about)), (b, None)]);
            value += change;
            vain = if change < -least * value { 0 } else { vain + 1 };
        }
    }

    /// Returns this many jobs that pay most beyond their best choice at the market's prices.
    fn farthest(&mut self, count: usize) -> Vec<usize> {
        let mut regrets: Vec<(f64, usize)> =
            (0..self.places.len()).map(|job| (self.regret(job), job)).collect();
        regrets.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        regrets.into_iter().take(count).map(|(_, job)| job).collect()
    }

    /// Returns how much more a job's placement costs than its best choice at the market's prices.
    fn regret(&mut self, job: usize) -> f64 {
        let kind = self.kind_of[job];
        if self.near[kind].is_empty() {
            self.near[kind] = self.nearest(kind);
        }
        let (list, catalogue) = (self.list(job), &self.kinds.catalogue);
        let best = self.near[kind].first().map_or(0.0, |&place| {
            let uses = catalogue.uses(list.bundles[place as usize]);
            self.scale(job) * list.costs[place as usize] + rent(uses, self.prices)
        });
        let gpus: Vec<f64> = self.places[job].gpus.iter().map(|&count| f64::from(count)).collect();
        self.weights[job] * self.places[job].cost + rent(&gpus, self.prices) - best
    }

    /// Places jobs again one by one, each at its prices or as fast as possible, and reverts if that does not
    /// lower their cost; returns the change of the cost.
    fn renew(&mut self, jobs: &[(usize, Option<&[f64]>)]) -> f64 {
        let before: Vec<RingPlacement> = jobs.iter().map(|(job, _)| self.places[*job].clone()).collect();
        for place in &before {
            self.layout.give_back(place);
        }
        let mut change = 0.0;
        let mut placed = 0;
        for (&(job, prices), before) in jobs.iter().zip(&before) {
            let Some(place) = self.best_place(job, prices) else { break };
            change += self.weights[job] * (place.cost - before.cost);
            self.put(job, place);
            placed += 1;
        }
        let scale: f64 =
            jobs.iter().zip(&before).map(|((job, _), place)| self.weights[*job] * place.cost).sum();
        if placed == jobs.len() && change < -1e-9 * scale {
            return change;
        }
        for (job, _) in &jobs[..placed] {
            self.layout.give_back(&self.places[*job]);
        }
        for ((job, _), place) in jobs.iter().zip(before) {
            self.put(*job, place);
        }
        0.0
    }
}

/// Returns the largest number of GPUs that a job's replica needs on one node, 0 if any nodes suffice.
pub(super) fn largest_block(job: &JobModel) -> u32 {
    let sizes = (0..job.types.len()).filter(|&ty| job.types[ty].is_some()).map(|ty| job.size(ty));
    if job.needs_blocks() { sizes.max().unwrap_or(0) } else { 0 }
}
