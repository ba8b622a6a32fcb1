//! Rings that a problem's nodes allow: the bundles that fit on one node, and the rates of its links.

use std::collections::BTreeMap;

use crate::{JobModel, Problem, WorkerNode};

/// Node shapes and link rates, in bytes per second.
#[derive(Clone, Debug)]
pub(crate) struct Rings {
    /// Rate between nodes.
    pub network: f64,
    /// GPUs by type and internal rate of every node shape that no other shape dominates.
    shapes: Vec<(Vec<u32>, f64)>,
}

/// The rings that fit on single nodes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Inside {
    /// Every bundle of nodes other than halls, and every single GPU, with its fastest ring in bytes per
    /// second.
    pub bundles: BTreeMap<Vec<u32>, f64>,
    /// Nodes with so many GPUs that their bundles are searched instead of listed: GPUs by type for rings, and
    /// their rate.
    pub halls: Vec<(Vec<u32>, f64)>,
}

/// Maximum number of listed bundles of a node: eight GPUs in MIG slices of three sizes have about 2000.
const MOST_LISTED: u64 = 4096;

impl Rings {
    pub(crate) fn new(problem: &Problem) -> Self {
        let shape = |node: &WorkerNode| (node.gpus.clone(), node.intra_node.bytes_per_second());
        Self::of(problem.network.bytes_per_second(), problem.nodes.iter().map(shape))
    }

    /// Returns the rings allowed by a network and nodes of these shapes: GPUs by type, and the internal rate.
    pub(crate) fn of(network: f64, nodes: impl Iterator<Item = (Vec<u32>, f64)>) -> Self {
        let mut shapes: Vec<(Vec<u32>, f64)> = Vec::new();
        for shape in nodes {
            if !shapes.iter().any(|other| surpasses(other, &shape)) {
                shapes.retain(|other| !surpasses(&shape, other));
                shapes.push(shape);
            }
        }
        Self { network, shapes }
    }

    /// Returns the rings of a job whose replicas may have several GPUs, with nodes described by the replicas
    /// that fit on them.
    pub(crate) fn of_replicas(&self, job: &JobModel) -> Self {
        let shape = |(gpus, rate): &(Vec<u32>, f64)| (job.replicas_in(gpus), *rate);
        Self::of(self.network, self.shapes.iter().map(shape))
    }

    /// Returns the fastest ring of a bundle: inside a node that could hold it, or over the network.
    pub(crate) fn fastest(&self, bundle: &[u32]) -> f64 {
        let able = self.shapes.iter().filter(|(gpus, _)| holds(gpus, bundle));
        able.map(|&(_, inside)| inside).fold(self.network, f64::max)
    }

    /// Returns the rings inside nodes of the types with `usable`.
    ///
    /// Types in `alone` allow only a single GPU and no other.
    pub(crate) fn inside(&self, usable: &[bool], alone: &[bool]) -> Inside {
        let mut rings = Inside::default();
        for (gpus, inside) in &self.shapes {
            let rate = inside.max(self.network);
            let ring = |ty: usize| usable[ty] && !alone[ty];
            let most: Vec<u32> = (0..gpus.len()).map(|ty| if ring(ty) { gpus[ty] } else { 0 }).collect();
            let volume = most.iter().fold(1_u64, |all, &most| all.saturating_mul(u64::from(most) + 1));
            let is_hall = volume > MOST_LISTED;
            let mut bundle = vec![0; gpus.len()];
            while !is_hall && next(&mut bundle, &most) {
                rings.list(bundle.clone(), rate);
            }
            let is_single = |ty: usize| gpus[ty] > 0 && usable[ty] && (alone[ty] || is_hall);
            for ty in (0..gpus.len()).filter(|&ty| is_single(ty)) {
                let mut single = vec![0; gpus.len()];
                single[ty] = 1;
                rings.list(single, rate);
            }
            if is_hall {
                rings.halls.push((most, rate));
            }
        }
        rings
    }
}

impl Inside {
    /// Lists a replica of each type with enough GPUs, on any nodes.
    pub(crate) fn list_loose(&mut self, most: &[u32], usable: &[bool], network: f64) {
        for ty in (0..most.len()).filter(|&ty| most[ty] > 0 && usable[ty]) {
            let mut single = vec![0; most.len()];
            single[ty] = 1;
            self.bundles.entry(single).or_insert(network);
        }
    }

    fn list(&mut self, bundle: Vec<u32>, rate: f64) {
        let fastest = self.bundles.entry(bundle).or_insert(rate);
        *fastest = rate.max(*fastest);
    }
}

pub(crate) fn holds(node: &[u32], bundle: &[u32]) -> bool {
    node.iter().zip(bundle).all(|(have, need)| have >= need)
}

fn surpasses(a: &(Vec<u32>, f64), b: &(Vec<u32>, f64)) -> bool {
    a.1 >= b.1 && holds(&a.0, &b.0)
}

/// Advances `bundle` to the next one within `most`; returns whether there is one.
fn next(bundle: &mut [u32], most: &[u32]) -> bool {
    for (count, &most) in bundle.iter_mut().zip(most) {
        if *count < most {
            *count += 1;
            return true;
        }
        *count = 0;
    }
    false
}
