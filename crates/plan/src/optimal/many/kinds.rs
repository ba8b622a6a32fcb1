//! Kinds of equal jobs, and the bundles that each kind chooses from.

use std::collections::BTreeMap;

use crate::dual::Dual;
use crate::optimal::many::NodeRule;
use crate::optimal::many::catalogue::Catalogue;
use crate::optimal::many::prices::retain;
use crate::pricing::{Pricer, holds};
use crate::{JobModel, Problem, Sharing, TypeModel};
use hsched_model::number::{to_f64, to_u32};

/// All jobs of a market by kind.
pub(crate) struct JobKinds<'a> {
    pub lists: Vec<Choices<'a>>,
    pub all: Vec<JobKind>,
    /// Available units of each resource: GPUs by type, then node capacity by rule.
    pub capacity: Vec<f64>,
    pub catalogue: Catalogue<'a>,
}

/// Jobs with equal choices at all prices.
pub(crate) struct JobKind {
    /// Index of the list of bundles from which the jobs choose.
    pub list: usize,
    /// The cost of one second of an epoch: weight times epochs.
    pub scale: f64,
    /// Indices of the jobs in the market.
    pub jobs: Vec<usize>,
    /// List index of the cheapest bundle in the last evaluation.
    pub last: usize,
}

/// The bundles of jobs that differ only in epochs and weights.
pub(crate) struct Choices<'a> {
    /// The pricer of one of these jobs.
    pricer: Pricer<'a>,
    epochs: f64,
    /// Index of the replicas' shape in the catalogue.
    shape: usize,
    /// Bundles by their numbers in the catalogue.
    pub bundles: Vec<u32>,
    /// Cost of an epoch by bundle, in seconds.
    pub costs: Vec<f64>,
}

/// Maximum number of initial in-node bundles: either all of them are listed, or no list is made.
const MOST_INSIDE: usize = 512;

/// Growth factor of the initial GPU counts of one type.
const GROWTH: f64 = 1.4;

impl<'a> JobKinds<'a> {
    /// Returns the kinds of a market's jobs; `jobs` are their indices in the problem. `None` if nodes can
    /// hold too many bundles to list, or if a list is empty.
    pub(crate) fn new(problem: &'a Problem, dual: &Dual<'a>, jobs: &[usize]) -> Option<Self> {
        let (mut lists, mut kinds) = (Vec::new(), Vec::<JobKind>::new());
        let (mut list_by_key, mut kind_by_key) = (BTreeMap::new(), BTreeMap::new());
        let mut catalogue = Catalogue::new(problem);
        for (place, &job) in jobs.iter().enumerate() {
            let model = &problem.jobs[job];
            let pricer = &dual.pricers[place];
            if pricer.inside().len() > MOST_INSIDE {
                return None;
            }
            let list = *list_by_key.entry(key(model)).or_insert_with(|| {
                lists.push(Choices::new(pricer, &mut catalogue));
                lists.len() - 1
            });
            let scale = dual.weights[place] * to_f64(model.epochs);
            let kind = *kind_by_key.entry((list, scale.to_bits())).or_insert_with(|| {
                kinds.push(JobKind { list, scale, jobs: Vec::new(), last: 0 });
                kinds.len() - 1
            });
            kinds[kind].jobs.push(place);
        }
        if lists.iter().any(|list: &Choices<'_>| list.costs.is_empty()) {
            return None;
        }
        let capacity = problem.offered().into_iter().map(f64::from).collect();
        Some(Self { lists, all: kinds, capacity, catalogue })
    }

    /// Adds the nodes' capacity under these rules as resources.
    pub(crate) fn obey(&mut self, rules: Vec<NodeRule>) {
        self.capacity.extend(rules.iter().map(|rule| rule.capacity));
        self.catalogue.obey(rules);
    }

    /// Keeps the resources for which `kept` is true; these include all GPUs.
    pub(crate) fn keep(&mut self, kept: &[bool]) {
        retain(&mut self.capacity, kept);
        self.catalogue.keep(kept);
    }

    /// Returns each kind's cheapest listed bundle at these prices, by list index.
    pub(crate) fn cheapest(&mut self, prices: &[f64]) -> Vec<u32> {
        let Self { lists, all, catalogue, .. } = self;
        catalogue.look_at(prices);
        let choice = |kind: &mut JobKind| {
            kind.last = lists[kind.list].cheapest(kind.scale, catalogue);
            u32::try_from(kind.last).unwrap_or(u32::MAX)
        };
        all.iter_mut().map(choice).collect()
    }

    /// Returns the value (cost plus rent) of a kind's latest choice for one of its jobs, after
    /// [`Self::cheapest`].
    pub(crate) fn value(&self, kind: &JobKind) -> f64 {
        let list = &self.lists[kind.list];
        kind.scale * list.costs[kind.last] + self.catalogue.rent(list.bundles[kind.last])
    }

    /// Returns the resources used by a bundle of a kind's list.
    pub(crate) fn uses(&self, kind: &JobKind, place: usize) -> &[f64] {
        self.catalogue.uses(self.lists[kind.list].bundles[place])
    }

    /// Searches for a kind's cheapest bundle at these prices and adds it to the list; returns a lower bound
    /// for all bundles, and the value found, each for one job. `effort` sets the accuracy and the duration of
    /// the search.
    ///
    /// Must be called after [`Self::cheapest`], which considers all bundles inside nodes: this search covers
    /// only bundles over the network.
    pub(crate) fn ask(&mut self, kind: usize, prices: &[f64], effort: (f64, u32)) -> (f64, f64) {
        let known = self.value(&self.all[kind]);
        let JobKind { list, scale, last, .. } = self.all[kind];
        let (list, catalogue) = (&mut self.lists[list], &mut self.catalogue);
        // The search counts in seconds of the job for which the list's costs are computed.
        let unit = scale / list.epochs;
        let job_prices = catalogue.own_prices(list.pricer.job, prices, unit);
        let hint = catalogue.counts(list.bundles[last]);
        let (found, floor) = list.pricer.cheapest_across(&job_prices, effort, known / unit, hint);
        let Some((bundle, value)) = found else { return (floor.min(known / unit) * unit, known) };
        list.take(&bundle.counts, catalogue);
        list.take_neighbours(&bundle.counts, catalogue);
        (unit * floor, unit * value)
    }
}

impl<'a> Choices<'a> {
    fn new(pricer: &Pricer<'a>, catalogue: &mut Catalogue<'a>) -> Self {
        let mut list = Self {
            epochs: to_f64(pricer.job.epochs).max(f64::MIN_POSITIVE),
            pricer: pricer.clone(),
            shape: catalogue.shape(pricer.job),
            bundles: Vec::new(),
            costs: Vec::new(),
        };
        for bundle in pricer.inside() {
            list.take(&bundle.counts, catalogue);
        }
        for ty in 0..catalogue.types() {
            let mut counts = vec![0; catalogue.types()];
            counts[ty] = pricer.job.min_gpus;
            list.take(&counts, catalogue);
            let mut count = 1.0_f64;
            while count <= f64::from(list.pricer.most()[ty]) {
                counts[ty] = to_u32(count);
                list.take(&counts, catalogue);
                count = (count * GROWTH).ceil();
            }
        }
        list
    }

    /// Adds a bundle over the network, and one inside a node if a node can hold it and that is faster, if it
    /// is legal and new.
    fn take(&mut self, counts: &[u32], catalogue: &mut Catalogue<'a>) {
        if !holds(self.pricer.most(), counts) {
            return;
        }
        let rated = catalogue.rated(self.shape, counts);
        if self.bundles.contains(&rated.across) {
            return;
        }
        for (bundle, rate) in [Some((rated.across, catalogue.network())), rated.inside].into_iter().flatten()
        {
            let Some(cost) = self.pricer.cost(counts, rate) else { return };
            self.bundles.push(bundle);
            self.costs.push(cost / self.epochs);
        }
    }

    /// Adds the bundles with one replica more, one fewer, or one of another type instead.
    fn take_neighbours(&mut self, counts: &[u32], catalogue: &mut Catalogue<'a>) {
        let mut near = counts.to_vec();
        for ty in 0..counts.len() {
            near[ty] += 1;
            self.take(&near, catalogue);
            near[ty] -= 1;
            if near[ty] == 0 {
                continue;
            }
            near[ty] -= 1;
            self.take(&near, catalogue);
            for other in (0..counts.len()).filter(|&other| other != ty) {
                near[other] += 1;
                self.take(&near, catalogue);
                near[other] -= 1;
            }
            near[ty] += 1;
        }
    }

    /// Returns the list index of the cheapest bundle for a job with this scale; the list is not empty.
    fn cheapest(&self, scale: f64, catalogue: &Catalogue<'_>) -> usize {
        let mut best = (f64::INFINITY, 0);
        for (place, (cost, &bundle)) in self.costs.iter().zip(&self.bundles).enumerate() {
            let value = scale * cost + catalogue.rent(bundle);
            if value < best.0 {
                best = (value, place);
            }
        }
        best.1
    }

    /// Returns one of the jobs with this list.
    pub(crate) fn job(&self) -> &'a JobModel {
        self.pricer.job
    }
}

/// Returns all inputs of a job's bundles and epoch costs.
fn key(model: &JobModel) -> Vec<u64> {
    let mut key = vec![
        model.samples_per_epoch,
        model.global_batch,
        model.batch_quantum,
        model.model_bytes.to_bits(),
        model.syncs_per_epoch.to_bits(),
        model.overlap.to_bits(),
        model.min_gpus.into(),
        model.max_gpus.into(),
        model.accumulate.into(),
        (model.sharing == Sharing::Equal).into(),
        model.is_loose().into(),
    ];
    key.extend((0..model.types.len()).map(|ty| u64::from(model.size(ty))));
    model.types.iter().for_each(|type_model| TypeModel::add_key(type_model.as_ref(), &mut key));
    key
}
