//! The bundles that any kind of job may choose from, each once: what they take, and what that costs at the latest prices.

use std::collections::HashMap;

use crate::Problem;
use crate::optimal::many::NodeRule;
use crate::pricing::{Rings, holds};

/// All bundles that some list has, by number.
pub(crate) struct Catalogue {
    rings: Rings,
    offered: Vec<u32>,
    rules: Vec<NodeRule>,
    counts: Vec<u32>,
    /// What each bundle takes of each resource: GPUs by type, then what nodes can hold, by rule.
    uses: Vec<f64>,
    /// Whether its ring is inside a node, by bundle.
    inside: Vec<bool>,
    /// What each bundle costs beside time at the latest prices.
    rents: Vec<f64>,
    /// The bundles of these GPUs.
    known: HashMap<Box<[u32]>, Rated>,
}

/// The bundles of some GPUs: over the network, and inside a node where one can hold them and that is faster.
#[derive(Clone, Copy)]
pub(super) struct Rated {
    pub across: u32,
    pub inside: Option<(u32, f64)>,
}

impl Catalogue {
    pub(super) fn new(problem: &Problem, offered: &[u32]) -> Self {
        Self {
            rings: Rings::new(problem),
            offered: offered.to_vec(),
            rules: Vec::new(),
            counts: Vec::new(),
            uses: Vec::new(),
            inside: Vec::new(),
            rents: Vec::new(),
            known: HashMap::new(),
        }
    }

    /// Returns the number of GPU types.
    pub(super) fn types(&self) -> usize {
        self.offered.len()
    }

    /// Returns the GPUs on offer, by type.
    pub(super) fn offered(&self) -> &[u32] {
        &self.offered
    }

    /// Returns the rate of rings over the network.
    pub(super) fn network(&self) -> f64 {
        self.rings.network
    }

    /// Makes what nodes can hold by these rules resources, too.
    pub(super) fn obey(&mut self, rules: Vec<NodeRule>) {
        self.rules.extend(rules);
        self.uses.clear();
        for (counts, &inside) in self.counts.chunks_exact(self.offered.len()).zip(&self.inside) {
            self.uses.extend(uses(counts, inside, &self.rules));
        }
    }

    /// Returns the bundles of these GPUs, which it has from now on; `None` where they are not on offer.
    pub(super) fn rated(&mut self, counts: &[u32]) -> Option<Rated> {
        if let Some(&known) = self.known.get(counts) {
            return Some(known);
        }
        if !holds(&self.offered, counts) {
            return None;
        }
        let fastest = self.rings.fastest(counts);
        let is_faster = fastest > self.rings.network && counts.iter().sum::<u32>() > 1;
        let across = self.add(counts, false);
        let inside = is_faster.then(|| (self.add(counts, true), fastest));
        let rated = Rated { across, inside };
        self.known.insert(counts.into(), rated);
        Some(rated)
    }

    fn add(&mut self, counts: &[u32], inside: bool) -> u32 {
        let number = u32::try_from(self.inside.len()).unwrap_or(u32::MAX);
        self.counts.extend(counts);
        self.uses.extend(uses(counts, inside, &self.rules));
        self.inside.push(inside);
        number
    }

    /// Computes what all bundles cost at these prices.
    pub(super) fn look_at(&mut self, prices: &[f64]) {
        self.rents.clear();
        self.rents.extend(self.uses.chunks_exact(prices.len()).map(|uses| rent(uses, prices)));
    }

    /// Returns what a bundle costs beside time at the latest prices.
    pub(super) fn rent(&self, bundle: u32) -> f64 {
        self.rents[bundle as usize]
    }

    /// Returns a bundle's GPUs by type.
    pub(super) fn counts(&self, bundle: u32) -> &[u32] {
        &self.counts[bundle as usize * self.types()..][..self.types()]
    }

    /// Returns what a bundle takes of each resource.
    pub(super) fn uses(&self, bundle: u32) -> &[f64] {
        let resources = self.types() + self.rules.len();
        &self.uses[bundle as usize * resources..][..resources]
    }

    /// Returns whether a bundle's ring is inside a node.
    pub(super) fn is_inside(&self, bundle: u32) -> bool {
        self.inside[bundle as usize]
    }
}

/// Returns what a bundle takes of each resource.
fn uses(counts: &[u32], inside: bool, rules: &[NodeRule]) -> impl Iterator<Item = f64> {
    let by_rule = rules.iter().map(move |rule| if inside { rule.uses(counts) } else { 0.0 });
    counts.iter().map(|&count| f64::from(count)).chain(by_rule)
}

/// Returns what uses of resources cost at these prices.
pub(super) fn rent(uses: &[f64], prices: &[f64]) -> f64 {
    uses.iter().zip(prices).map(|(count, price)| count * price).sum()
}
