//! The resources that jobs pay for: GPUs by type, and the nodes' capacity for replicas of several GPUs.
//!
//! A node with 6 GPUs holds one replica of 4, so GPUs alone are not a sufficient measure. In addition, each
//! replica size g that leaves GPUs over on some nodes is a resource: a node with f GPUs has floor(f/g) units,
//! and a replica of h GPUs takes floor(h/g).

use std::collections::{BTreeMap, BTreeSet};

use crate::{JobModel, Problem};

/// The resources of a problem: its types first, then the sizes.
#[derive(Clone, Debug)]
pub(crate) struct Stock {
    /// Available units of each resource.
    pub offered: Vec<u32>,
    types: usize,
    /// Type and size of each resource after the types.
    pub sizes: Vec<(usize, u32)>,
    /// Block sizes in use by type, 1 for single GPUs; empty if no replica needs several GPUs of one node.
    in_use: Vec<BTreeSet<u32>>,
    /// Nodes by type and number of GPUs.
    nodes: Vec<BTreeMap<u32, u32>>,
}

impl Stock {
    /// Returns the resources for these jobs.
    pub(crate) fn new(problem: &Problem, jobs: &[usize]) -> Self {
        let types = problem.gpu_types.len();
        let mut stock = Self {
            offered: problem.offered(),
            types,
            sizes: Vec::new(),
            in_use: Vec::new(),
            nodes: Vec::new(),
        };
        let blocks = || jobs.iter().map(|&job| &problem.jobs[job]).filter(|job| job.needs_blocks());
        if blocks().next().is_none() {
            return stock;
        }
        stock.in_use = vec![BTreeSet::new(); types];
        stock.nodes = vec![BTreeMap::new(); types];
        for job in jobs.iter().map(|&job| &problem.jobs[job]) {
            for ty in (0..types).filter(|&ty| job.types[ty].is_some()) {
                let block = job.block(ty);
                stock.in_use[ty].insert(block);
            }
        }
        for node in &problem.nodes {
            for (ty, &count) in node.gpus.iter().enumerate().filter(|(_, count)| **count > 0) {
                *stock.nodes[ty].entry(count).or_default() += 1;
            }
        }
        for ty in 0..types {
            for &size in stock.in_use[ty].iter().filter(|&&size| size > 1) {
                let hold: u32 = stock.nodes[ty].iter().map(|(gpus, nodes)| gpus / size * nodes).sum();
                // If no GPUs are left over, the GPU count is sufficient.
                if hold * size < stock.offered[ty] {
                    stock.sizes.push((ty, size));
                    stock.offered.push(hold);
                }
            }
        }
        stock
    }

    /// Returns the price of a replica of a job by type, from the prices of the resources, divided by
    /// `weight`.
    pub(crate) fn own_prices(&self, job: &JobModel, prices: &[f64], weight: f64) -> Vec<f64> {
        let mut own = Vec::new();
        self.put_own_prices(job, prices, weight, &mut own);
        own
    }

    /// Overwrites `own` with the price of a replica of a job by type, divided by `weight`.
    pub(crate) fn put_own_prices(&self, job: &JobModel, prices: &[f64], weight: f64, own: &mut Vec<f64>) {
        own.clear();
        if job.replica.is_none() && self.sizes.is_empty() {
            own.extend(prices.iter().map(|price| price / weight));
            return;
        }
        let price = |ty: usize| self.of_size(prices, ty, job.block(ty), job.size(ty)) / weight;
        own.extend((0..self.types).map(price));
    }

    /// Returns the price of `size` GPUs of a type, in blocks of `block` GPUs that must each be on one node.
    fn of_size(&self, prices: &[f64], ty: usize, block: u32, size: u32) -> f64 {
        let mut price = if size == 1 { prices[ty] } else { f64::from(size) * prices[ty] };
        for (&(gpu_type, part), extra) in self.sizes.iter().zip(&prices[self.types..]) {
            if gpu_type == ty {
                price += f64::from(block / part) * extra;
            }
        }
        price
    }

    /// Returns the units of each resource that these replicas take.
    pub(crate) fn uses(&self, job: &JobModel, replicas: &[u32]) -> Vec<u32> {
        let mut uses = job.gpus(replicas);
        let of_part = |&(ty, part): &(usize, u32)| replicas[ty] * (job.block(ty) / part);
        uses.extend(self.sizes.iter().map(of_part));
        uses
    }

    /// Adds the units of each resource that these replicas take.
    pub(crate) fn add_uses(&self, job: &JobModel, replicas: &[u32], demand: &mut [f64]) {
        if job.replica.is_none() && self.sizes.is_empty() {
            demand.iter_mut().zip(replicas).for_each(|(demand, &count)| *demand += f64::from(count));
            return;
        }
        let uses = self.uses(job, replicas);
        demand.iter_mut().zip(uses).for_each(|(demand, count)| *demand += f64::from(count));
    }

    /// Returns the value of the resources at these prices minus the value that nodes can hold at the same
    /// time, which may be less.
    pub(crate) fn surplus(&self, prices: &[f64]) -> f64 {
        let mut surplus = 0.0;
        for (ty, nodes) in self.nodes.iter().enumerate() {
            let sizes = self.in_use[ty].iter().map(|&size| (size, self.of_size(prices, ty, size, size)));
            let sizes: Vec<(u32, f64)> = sizes.collect();
            let worth = most_worth(&sizes, nodes.keys().copied().max().unwrap_or(0));
            for (&gpus, &count) in nodes {
                let mut rent = f64::from(gpus) * prices[ty];
                for (&(other, part), price) in self.sizes.iter().zip(&prices[self.types..]) {
                    if other == ty {
                        rent += f64::from(gpus / part) * price;
                    }
                }
                surplus += f64::from(count) * (rent - worth[gpus as usize]);
            }
        }
        surplus.max(0.0)
    }

    /// Returns whether a job has replicas that need several GPUs of one node.
    pub(crate) fn has_blocks(&self) -> bool {
        !self.in_use.is_empty()
    }

    /// Returns the highest value that all nodes can hold at these prices of replicas by type and size.
    pub(crate) fn held_worth(&self, price: impl Fn(usize, u32) -> f64) -> f64 {
        let of_type = |(ty, nodes): (usize, &BTreeMap<u32, u32>)| {
            let sizes: Vec<(u32, f64)> =
                self.in_use[ty].iter().map(|&size| (size, price(ty, size))).collect();
            let worth = most_worth(&sizes, nodes.keys().copied().max().unwrap_or(0));
            nodes.iter().map(|(&gpus, &count)| f64::from(count) * worth[gpus as usize]).sum::<f64>()
        };
        self.nodes.iter().enumerate().map(of_type).sum()
    }

    /// Returns the values of `price` by type and size; empty if no replica needs several GPUs of one node.
    pub(crate) fn by_size(&self, price: impl Fn(usize, u32) -> f64) -> Vec<BTreeMap<u32, f64>> {
        let of_type = |(ty, sizes): (usize, &BTreeSet<u32>)| {
            sizes.iter().filter(|&&size| size > 1).map(|&size| (size, price(ty, size))).collect()
        };
        self.in_use.iter().enumerate().map(of_type).collect()
    }

    /// Returns the prices of replicas by type and size; empty if no replica needs several GPUs of one node.
    pub(crate) fn replica_prices(&self, prices: &[f64]) -> Vec<BTreeMap<u32, f64>> {
        self.by_size(|ty, size| self.of_size(prices, ty, size, size))
    }
}

/// Returns the highest value that a node with each number of GPUs can hold at these prices by size.
fn most_worth(prices: &[(u32, f64)], most: u32) -> Vec<f64> {
    let mut worth = vec![0.0_f64; most as usize + 1];
    for gpus in 1..worth.len() {
        let fits = prices.iter().filter(|(size, _)| *size as usize <= gpus);
        let with = fits.map(|&(size, price)| worth[gpus - size as usize] + price);
        worth[gpus] = with.fold(worth[gpus - 1], f64::max);
    }
    worth
}
