//! Kinds of equal jobs, and the bundles that each kind chooses from.

use std::collections::{BTreeMap, HashMap};

use crate::dual::Dual;
use crate::optimal::many::NodeRule;
use crate::pricing::{Pricer, Rings, holds};
use crate::{JobModel, Problem, Sharing};
use hsched_model::number::{to_f64, to_u32};

/// All jobs of a market by kind.
pub(crate) struct Kinds<'a> {
    pub lists: Vec<Choices<'a>>,
    pub all: Vec<Kind>,
    /// What there is of each resource: GPUs by type, then what nodes can hold, by rule.
    pub capacity: Vec<f64>,
    site: Site,
}

/// What all lists depend on beside their jobs.
struct Site {
    rings: Rings,
    /// GPUs by type.
    offered: Vec<u32>,
    rules: Vec<NodeRule>,
}

/// Jobs that no price can tell apart.
pub(crate) struct Kind {
    /// The list that it chooses from.
    pub list: usize,
    /// What a second of an epoch costs: weight times epochs.
    pub scale: f64,
    /// Its jobs by their place in the market.
    pub jobs: Vec<usize>,
    /// The bundle of the list that was the cheapest last time.
    pub last: usize,
}

/// The bundles of jobs that differ by their epochs and weights alone.
pub(crate) struct Choices<'a> {
    /// One of these jobs.
    pricer: Pricer<'a>,
    epochs: f64,
    types: usize,
    resources: usize,
    counts: Vec<u32>,
    /// What each bundle takes of each resource.
    uses: Vec<f64>,
    /// Cost of an epoch by bundle, in seconds.
    pub costs: Vec<f64>,
    /// Whether its ring is inside a node, by bundle.
    pub inside: Vec<bool>,
    known: HashMap<(Vec<u32>, bool), usize>,
    /// What each bundle costs beside time at the latest prices.
    pub rents: Vec<f64>,
}

/// The most bundles of a node that a list begins with: all of them, or no list is made.
const MOST_INSIDE: usize = 512;

/// Numbers of GPUs of one type that a list begins with grow by this factor.
const GROWTH: f64 = 1.4;

impl<'a> Kinds<'a> {
    /// Returns the kinds of a market's jobs; `jobs` are their numbers in the problem. `None` where nodes can hold too many
    /// bundles to list, or a list has none.
    pub(crate) fn new(problem: &'a Problem, dual: &Dual<'a>, jobs: &[usize]) -> Option<Self> {
        let (mut lists, mut kinds) = (Vec::new(), Vec::<Kind>::new());
        let (mut list_by_key, mut kind_by_key) = (BTreeMap::new(), BTreeMap::new());
        let offered = problem.offered();
        let parts = dual.stock.sizes.iter().zip(&dual.stock.offered[offered.len()..]);
        let rules = parts.map(|(&(ty, part), &most)| NodeRule::of_part(ty, part, most)).collect();
        let site = Site { rings: Rings::new(problem), offered, rules };
        for (place, &job) in jobs.iter().enumerate() {
            let model = &problem.jobs[job];
            let pricer = &dual.pricers[place];
            if pricer.inside().len() > MOST_INSIDE {
                return None;
            }
            let list = *list_by_key.entry(key(model)).or_insert_with(|| {
                lists.push(Choices::new(pricer, &site));
                lists.len() - 1
            });
            let scale = dual.weights[place] * to_f64(model.epochs);
            let kind = *kind_by_key.entry((list, scale.to_bits())).or_insert_with(|| {
                kinds.push(Kind { list, scale, jobs: Vec::new(), last: 0 });
                kinds.len() - 1
            });
            kinds[kind].jobs.push(place);
        }
        if lists.iter().any(|list: &Choices<'_>| list.costs.is_empty()) {
            return None;
        }
        let capacity = dual.stock.offered.iter().map(|&count| f64::from(count)).collect();
        Some(Self { lists, all: kinds, capacity, site })
    }

    /// Makes what nodes can hold by these rules a resource, too.
    pub(crate) fn obey(&mut self, rules: Vec<NodeRule>) {
        self.capacity.extend(rules.iter().map(|rule| rule.capacity));
        self.site.rules.extend(rules);
        for list in &mut self.lists {
            list.resources = self.capacity.len();
            let uses = list.counts.chunks_exact(list.types).zip(&list.inside);
            let job = list.pricer.job;
            list.uses = uses.flat_map(|(counts, &inside)| self.site.uses(job, counts, inside)).collect();
        }
    }

    /// Computes what all bundles cost at these prices.
    pub(crate) fn look_at(&mut self, prices: &[f64]) {
        for list in &mut self.lists {
            let rent =
                |uses: &[f64]| uses.iter().zip(prices).map(|(count, price)| count * price).sum::<f64>();
            list.rents.clear();
            list.rents.extend(list.uses.chunks_exact(list.resources).map(rent));
        }
    }

    /// Returns each kind's cheapest bundle on its list, after [`Self::look_at`].
    pub(crate) fn cheapest(&mut self) -> Vec<u32> {
        let Self { lists, all, .. } = self;
        let choice = |kind: &mut Kind| {
            kind.last = lists[kind.list].cheapest(kind.scale);
            u32::try_from(kind.last).unwrap_or(u32::MAX)
        };
        all.iter_mut().map(choice).collect()
    }

    /// Asks a kind for its cheapest bundle of all at these prices, which joins its list; returns what no bundle
    /// undercuts, and the value found, each for one job.
    ///
    /// After [`Self::look_at`] and [`Self::cheapest`]: bundles inside nodes are all on the list.
    pub(crate) fn ask(&mut self, kind: usize, prices: &[f64], tolerance: f64) -> (f64, f64) {
        let Kind { list, scale, last, .. } = self.all[kind];
        let (list, site) = (&mut self.lists[list], &self.site);
        let known = scale * list.costs[last] + list.rents[last];
        // In seconds of the job that the list has its costs from.
        let unit = scale / list.epochs;
        let own = site.own_prices(list.pricer.job, prices, unit);
        let hint = list.counts(last).to_vec();
        let (found, floor) = list.pricer.cheapest_across(&own, tolerance, known / unit, &hint);
        let Some((bundle, value)) = found else { return (floor.min(known / unit) * unit, known) };
        list.take(&bundle.counts, site);
        list.take_neighbours(&bundle.counts, site);
        (unit * floor, unit * value)
    }
}

impl Site {
    /// Returns what a bundle takes of each resource.
    fn uses(&self, job: &JobModel, counts: &[u32], inside: bool) -> Vec<f64> {
        let gpus = counts.iter().enumerate().map(|(ty, &count)| f64::from(count * job.size(ty)));
        let by_rule = self.rules.iter().map(|rule| rule.uses(job, counts, inside));
        gpus.chain(by_rule).collect()
    }

    /// Returns the prices of a job's replicas by type, over the network, in units of `unit`.
    fn own_prices(&self, job: &JobModel, prices: &[f64], unit: f64) -> Vec<f64> {
        let (gpus, extra) = prices.split_at(self.offered.len());
        let price = |(ty, price): (usize, &f64)| {
            if job.replica.is_none() {
                return price / unit;
            }
            let mut one = vec![0; gpus.len()];
            one[ty] = 1;
            let rules = self.rules.iter().zip(extra).map(|(rule, price)| rule.uses(job, &one, false) * price);
            (f64::from(job.size(ty)) * price + rules.sum::<f64>()) / unit
        };
        gpus.iter().enumerate().map(price).collect()
    }

    /// Returns the rate of the fastest ring of so many replicas.
    fn fastest(&self, pricer: &Pricer<'_>, counts: &[u32]) -> f64 {
        self.rings.fastest(&pricer.gpus(counts))
    }
}

impl<'a> Choices<'a> {
    fn new(pricer: &Pricer<'a>, site: &Site) -> Self {
        let types = site.offered.len();
        let mut list = Self {
            epochs: to_f64(pricer.job.epochs).max(f64::MIN_POSITIVE),
            pricer: pricer.clone(),
            types,
            resources: types + site.rules.len(),
            counts: Vec::new(),
            uses: Vec::new(),
            costs: Vec::new(),
            inside: Vec::new(),
            known: HashMap::new(),
            rents: Vec::new(),
        };
        for bundle in pricer.inside() {
            list.take(&bundle.counts, site);
        }
        for ty in 0..types {
            let mut counts = vec![0; types];
            counts[ty] = pricer.job.min_gpus;
            list.take(&counts, site);
            let mut count = 1.0_f64;
            while count <= f64::from(list.pricer.most()[ty]) {
                counts[ty] = to_u32(count);
                list.take(&counts, site);
                count = (count * GROWTH).ceil();
            }
        }
        list
    }

    /// Adds a bundle over the network, and inside a node where one can hold it and that is faster, where it is legal and new.
    fn take(&mut self, counts: &[u32], site: &Site) {
        if !holds(self.pricer.most(), counts) || self.known.contains_key(&(counts.to_vec(), false)) {
            return;
        }
        let fastest = site.fastest(&self.pricer, counts);
        let is_ring = counts.iter().sum::<u32>() > 1;
        for (ring, inside) in [(site.rings.network, false), (fastest, true)] {
            if inside && (fastest <= site.rings.network || !is_ring) {
                continue;
            }
            let Some(cost) = self.pricer.cost(counts, ring) else { return };
            self.known.insert((counts.to_vec(), inside), self.costs.len());
            self.counts.extend(counts);
            self.uses.extend(site.uses(self.pricer.job, counts, inside));
            self.costs.push(cost / self.epochs);
            self.inside.push(inside);
        }
    }

    /// Adds the bundles that have a GPU more, less, or of another type.
    fn take_neighbours(&mut self, counts: &[u32], site: &Site) {
        let mut near = counts.to_vec();
        for ty in 0..self.types {
            near[ty] += 1;
            self.take(&near, site);
            near[ty] -= 1;
            if near[ty] == 0 {
                continue;
            }
            near[ty] -= 1;
            self.take(&near, site);
            for other in (0..self.types).filter(|&other| other != ty) {
                near[other] += 1;
                self.take(&near, site);
                near[other] -= 1;
            }
            near[ty] += 1;
        }
    }

    /// Returns the bundle with the least value for a job of that scale; there is at least one.
    fn cheapest(&self, scale: f64) -> usize {
        let mut best = (f64::INFINITY, 0);
        for (bundle, (cost, rent)) in self.costs.iter().zip(&self.rents).enumerate() {
            let value = scale * cost + rent;
            if value < best.0 {
                best = (value, bundle);
            }
        }
        best.1
    }

    /// Returns one of its jobs.
    pub(crate) fn job(&self) -> &'a JobModel {
        self.pricer.job
    }

    pub(crate) fn len(&self) -> usize {
        self.costs.len()
    }

    /// Returns a bundle's replicas by type.
    pub(crate) fn counts(&self, bundle: usize) -> &[u32] {
        &self.counts[bundle * self.types..][..self.types]
    }

    /// Returns what a bundle takes of each resource.
    pub(crate) fn uses(&self, bundle: usize) -> &[f64] {
        &self.uses[bundle * self.resources..][..self.resources]
    }
}

/// Returns all that a job's bundles and the costs of an epoch depend on.
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
    for own in &model.types {
        match own {
            Some(own) => key.extend([
                own.speed.alpha().to_bits(),
                own.speed.beta().to_bits(),
                own.max_batch.unwrap_or(u64::MAX),
                own.single_rank.into(),
            ]),
            None => key.push(u64::MAX),
        }
    }
    key
}
