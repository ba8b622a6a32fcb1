//! From bundles to nodes: rings inside nodes first, the largest first; then jobs exchange what they have.

use std::cmp::Reverse;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

use crate::dual::Dual;
use crate::optimal::layout::{Layout, RingPlacement};
use crate::optimal::many::Kinds;
use crate::optimal::many::kinds::Choices;
use crate::optimal::many::rounding::Chosen;
use crate::pricing::Pricer;
use crate::{JobModel, Problem};
use hsched_model::number::{to_f64, to_usize};

/// The jobs of a market on nodes.
pub(crate) struct OnNodes<'a, 'b> {
    kinds: &'b Kinds<'a>,
    pub layout: Layout<'a>,
    pub places: Vec<RingPlacement>,
    /// Kind by job.
    kind_of: Vec<usize>,
    pricers: &'b [Pricer<'a>],
    weights: &'b [f64],
    prices: &'b [f64],
    /// Scratch: what each bundle of a list costs.
    values: Vec<(f64, usize)>,
}

/// Exchanges end after so many in vain, per job.
const VAIN: usize = 400;

/// Exchanges between two questions to `stop`.
const STRIDE: usize = 16;

/// Returns the jobs on nodes with the bundles chosen, or others where these find no room; `None` where a job finds none.
pub(crate) fn on_nodes<'a, 'b>(
    problem: &'a Problem,
    kinds: &'b Kinds<'a>,
    chosen: &Chosen,
    (dual, prices): (&'b Dual<'a>, &'b [f64]),
) -> Option<OnNodes<'a, 'b>> {
    let weights = dual.weights.as_slice();
    let mut bundle_of = vec![0; weights.len()];
    let mut kind_of = vec![0; weights.len()];
    for (number, (kind, own)) in kinds.all.iter().zip(chosen).enumerate() {
        let bundles = own.iter().flat_map(|&(bundle, count)| (0..count).map(move |_| bundle));
        for (&job, bundle) in kind.jobs.iter().zip(bundles) {
            (bundle_of[job], kind_of[job]) = (bundle, number);
        }
    }
    let gpus = vec![0; problem.gpu_types.len()];
    let nowhere = RingPlacement { gpus, node: None, blocks: Vec::new(), cost: 0.0 };
    let mut all = OnNodes {
        kinds,
        layout: Layout::new(problem),
        places: vec![nowhere; weights.len()],
        kind_of,
        pricers: &dual.pricers,
        weights,
        prices,
        values: Vec::new(),
    };
    let is_inside = |job: usize| all.list(job).inside[bundle_of[job]];
    let size = |job: usize| all.pricers[job].gpus(all.list(job).counts(bundle_of[job])).iter().sum::<u32>();
    // Rings inside nodes, then whole replicas, then what any GPUs serve.
    let class = |job: usize| match (is_inside(job), largest_block(all.pricers[job].job)) {
        (true, _) => (0, 0),
        (false, 0) => (2, 0),
        (false, block) => (1, u32::MAX - block),
    };
    let mut order: Vec<usize> = (0..weights.len()).collect();
    order.sort_by_key(|&job| (class(job), Reverse(size(job)), job));
    let mut stuck = Vec::new();
    for job in order {
        match all.place(job, bundle_of[job]) {
            Some(place) => all.put(job, place),
            None => stuck.push(job),
        }
    }
    for job in stuck {
        let place = all.best_place(job, prices)?;
        all.put(job, place);
    }
    Some(all)
}

impl<'a> OnNodes<'a, '_> {
    fn list(&self, job: usize) -> &Choices<'a> {
        &self.kinds.lists[self.kinds.all[self.kind_of[job]].list]
    }

    /// What a second of an epoch of a job costs.
    fn scale(&self, job: usize) -> f64 {
        self.kinds.all[self.kind_of[job]].scale
    }

    fn put(&mut self, job: usize, place: RingPlacement) {
        self.layout.take(&place);
        self.places[job] = place;
    }

    /// Returns the place for a bundle where it fits.
    fn place(&self, job: usize, bundle: usize) -> Option<RingPlacement> {
        let list = self.list(job);
        let counts = list.counts(bundle);
        if !list.inside[bundle] {
            let cost = self.scale(job) / self.weights[job] * list.costs[bundle];
            return self.layout.across(self.pricers[job].job, counts, cost);
        }
        let place = self.layout.ring_for(&self.pricers[job], counts);
        place.filter(|place| place.node.is_some())
    }

    /// Returns the place for a job that is the best at these prices, where any of its bundles fits.
    fn best_place(&mut self, job: usize, prices: &[f64]) -> Option<RingPlacement> {
        let mut values = std::mem::take(&mut self.values);
        values.clear();
        let list = self.list(job);
        let scale = self.scale(job);
        for bundle in 0..list.len() {
            let gpus = self.pricers[job].gpus(list.counts(bundle));
            if gpus.iter().zip(&self.layout.room).all(|(need, have)| need <= have) {
                let rent: f64 =
                    list.uses(bundle).iter().zip(prices).map(|(count, price)| count * price).sum();
                values.push((scale * list.costs[bundle] + rent, bundle));
            }
        }
        // Nearly always the cheapest finds room: no sort.
        let mut found = None;
        while let Some(at) = (0..values.len()).min_by(|&a, &b| values[a].0.total_cmp(&values[b].0)) {
            let (_, bundle) = values.swap_remove(at);
            found = self.place(job, bundle);
            if found.is_some() {
                break;
            }
        }
        self.values = values;
        found
    }

    /// Lets pairs of jobs exchange GPUs until together they cost `enough`, that is in vain for long, or `stop` says so.
    pub(crate) fn exchange(&mut self, enough: f64, seed: u64, stop: &dyn Fn() -> bool) {
        let jobs = self.places.len();
        let mut value: f64 =
            self.places.iter().zip(self.weights).map(|(place, weight)| weight * place.cost).sum();
        let mut random = Pcg64::seed_from_u64(seed);
        let free = vec![0.0; self.prices.len()];
        for job in 0..jobs {
            value += self.renew(&[(job, &free)]);
        }
        let any = |random: &mut Pcg64| to_usize(random.random::<f64>() * to_f64(jobs)).min(jobs - 1);
        let (mut vain, mut tries) = (0, 0_usize);
        while value > enough && vain < VAIN * jobs && jobs > 1 {
            tries += 1;
            if tries.is_multiple_of(STRIDE) && stop() {
                return;
            }
            let (a, b) = (any(&mut random), any(&mut random));
            if a == b {
                continue;
            }
            let about: Vec<f64> =
                self.prices.iter().map(|price| price * (0.5 + 1.2 * random.random::<f64>())).collect();
            let change = self.renew(&[(a, &about), (b, &free)]);
            value += change;
            vain = if change < 0.0 { 0 } else { vain + 1 };
        }
    }

    /// Places jobs anew in turn, each at its prices, and leaves all as it is where they cost no less so; returns how their
    /// cost changes.
    fn renew(&mut self, jobs: &[(usize, &[f64])]) -> f64 {
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

/// Returns the most GPUs that a replica of a job needs of one node, 0 where any nodes serve.
fn largest_block(job: &JobModel) -> u32 {
    let sizes = (0..job.types.len()).filter(|&ty| job.types[ty].is_some()).map(|ty| job.size(ty));
    if job.needs_blocks() { sizes.max().unwrap_or(0) } else { 0 }
}
