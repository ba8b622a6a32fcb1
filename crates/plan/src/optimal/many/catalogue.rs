//! The distinct bundles of all kinds of jobs: the resources that they use, and their costs at the latest
//! prices.

use std::collections::HashMap;

use crate::optimal::many::NodeRule;
use crate::optimal::many::prices::retain;
use crate::pricing::Rings;
use crate::{JobModel, Problem};

/// All bundles of all lists, by number.
pub(crate) struct Catalogue<'a> {
    rings: Rings,
    types: usize,
    rules: Vec<NodeRule>,
    /// A representative job for each kind of replicas.
    shapes: Vec<&'a JobModel>,
    /// Replicas by type and the shape index, bundle by bundle.
    counts: Vec<u32>,
    shape_of: Vec<usize>,
    /// GPUs by type, bundle by bundle.
    gpus: Vec<u32>,
    /// Resources used by each bundle: GPUs by type, then node capacity by rule.
    uses: Vec<f64>,
    /// Whether a bundle's ring is inside a node.
    inside: Vec<bool>,
    /// The rent of each bundle at the latest prices.
    rents: Vec<f64>,
    /// By shape: the bundles of given replicas.
    known: Vec<HashMap<Box<[u32]>, RatedBundles>>,
}

/// The bundles for given replicas: over the network, and inside a node if one can hold them and that is
/// faster.
#[derive(Clone, Copy)]
pub(super) struct RatedBundles {
    pub across: u32,
    pub inside: Option<(u32, f64)>,
}

impl<'a> Catalogue<'a> {
    pub(super) fn new(problem: &Problem) -> Self {
        Self {
            rings: Rings::new(problem),
            types: problem.gpu_types.len(),
            rules: Vec::new(),
            shapes: Vec::new(),
            counts: Vec::new(),
            shape_of: Vec::new(),
            gpus: Vec::new(),
            uses: Vec::new(),
            inside: Vec::new(),
            rents: Vec::new(),
            known: Vec::new(),
        }
    }

    /// Returns the number of GPU types.
    pub(super) fn types(&self) -> usize {
        self.types
    }

    /// Returns the link rate of rings over the network.
    pub(super) fn network(&self) -> f64 {
        self.rings.network
    }

    /// Returns the index of a job's kind of replicas; equal kinds use the same resources.
    pub(super) fn shape(&mut self, job: &'a JobModel) -> usize {
        let is_same = |model: &&JobModel| {
            let sizes = (0..self.types).all(|ty| model.size(ty) == job.size(ty));
            sizes && model.needs_blocks() == job.needs_blocks() && model.is_loose() == job.is_loose()
        };
        self.shapes.iter().position(is_same).unwrap_or_else(|| {
            self.shapes.push(job);
            self.known.push(HashMap::new());
            self.shapes.len() - 1
        })
    }

    /// Adds the nodes' capacity under these rules as resources.
    pub(super) fn obey(&mut self, rules: Vec<NodeRule>) {
        self.rules.extend(rules);
        self.measure();
    }

    /// Keeps the resources for which `kept` is true; these include all GPUs.
    pub(super) fn keep(&mut self, kept: &[bool]) {
        retain(&mut self.rules, &kept[self.types..]);
        self.measure();
    }

    /// Computes the resources used by all bundles.
    fn measure(&mut self) {
        let bundles = self.counts.chunks_exact(self.types).zip(&self.inside).zip(&self.shape_of);
        self.uses.clear();
        for ((counts, &inside), &shape) in bundles {
            self.uses.extend(uses(self.shapes[shape], counts, inside, &self.rules));
        }
    }

    /// Returns the bundles for these replicas, and adds them if they are new.
    pub(super) fn rated(&mut self, shape: usize, counts: &[u32]) -> RatedBundles {
        if let Some(&known) = self.known[shape].get(counts) {
            return known;
        }
        let fastest = self.rings.fastest(&self.shapes[shape].gpus(counts));
        let is_faster = fastest > self.rings.network && counts.iter().sum::<u32>() > 1;
        let across = self.add(shape, counts, false);
        let inside = is_faster.then(|| (self.add(shape, counts, true), fastest));
        let rated = RatedBundles { across, inside };
        self.known[shape].insert(counts.into(), rated);
        rated
    }

    fn add(&mut self, shape: usize, counts: &[u32], inside: bool) -> u32 {
        let number = u32::try_from(self.inside.len()).unwrap_or(u32::MAX);
        self.counts.extend(counts);
        self.shape_of.push(shape);
        self.gpus.extend(self.shapes[shape].gpus(counts));
        self.uses.extend(uses(self.shapes[shape], counts, inside, &self.rules));
        self.inside.push(inside);
        number
    }

    /// Returns the prices of a job's replicas by type over the network, in units of `unit`.
    pub(super) fn own_prices(&self, job: &JobModel, prices: &[f64], unit: f64) -> Vec<f64> {
        let (gpus, extra) = prices.split_at(self.types);
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

    /// Returns the price of a replica that needs this many GPUs of a type on one node.
    pub(crate) fn slot_price(&self, prices: &[f64], gpu_type: usize, size: u32) -> f64 {
        let (gpus, extra) = prices.split_at(self.types);
        let rules = self.rules.iter().zip(extra).map(|(rule, &price)| rule.price(gpu_type, size, price));
        f64::from(size) * gpus[gpu_type] + rules.sum::<f64>()
    }

    /// Computes the rents of all bundles at these prices.
    pub(super) fn look_at(&mut self, prices: &[f64]) {
        let mut rents = std::mem::take(&mut self.rents);
        self.put_rents(prices, &mut rents);
        self.rents = rents;
    }

    /// Overwrites `rents` with the rents of all bundles at these prices.
    pub(super) fn put_rents(&self, prices: &[f64], rents: &mut Vec<f64>) {
        rents.clear();
        rents.extend(self.uses.chunks_exact(prices.len()).map(|uses| rent(uses, prices)));
    }

    /// Returns a bundle's rent at the latest prices.
    pub(super) fn rent(&self, bundle: u32) -> f64 {
        self.rents[bundle as usize]
    }

    /// Returns a bundle's replicas by type.
    pub(super) fn counts(&self, bundle: u32) -> &[u32] {
        &self.counts[bundle as usize * self.types..][..self.types]
    }

    /// Returns a bundle's GPUs by type.
    pub(super) fn gpus(&self, bundle: u32) -> &[u32] {
        &self.gpus[bundle as usize * self.types..][..self.types]
    }

    /// Returns the resources that a job's replicas use over the network or inside a node.
    pub(super) fn used(&self, job: &JobModel, replicas: &[u32], inside: bool) -> impl Iterator<Item = f64> {
        uses(job, replicas, inside, &self.rules)
    }

    /// Returns the resources that a bundle uses.
    pub(super) fn uses(&self, bundle: u32) -> &[f64] {
        let resources = self.types + self.rules.len();
        &self.uses[bundle as usize * resources..][..resources]
    }

    /// Returns whether a bundle's ring is inside a node.
    pub(super) fn is_inside(&self, bundle: u32) -> bool {
        self.inside[bundle as usize]
    }
}

/// Returns the resources used by a job's replicas.
fn uses(job: &JobModel, counts: &[u32], inside: bool, rules: &[NodeRule]) -> impl Iterator<Item = f64> {
    let gpus = counts.iter().enumerate().map(|(ty, &count)| f64::from(count * job.size(ty)));
    gpus.chain(rules.iter().map(move |rule| rule.uses(job, counts, inside)))
}

/// Returns the cost of used resources at these prices.
pub(super) fn rent(uses: &[f64], prices: &[f64]) -> f64 {
    uses.iter().zip(prices).map(|(count, price)| count * price).sum()
}
