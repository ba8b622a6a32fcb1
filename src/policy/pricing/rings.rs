//! What rings a problem's nodes allow: which bundles one node can hold, and how fast its links are.

use std::collections::BTreeMap;

use crate::policy::Problem;

/// Node shapes and link rates, in bytes per second.
#[derive(Clone, Debug)]
pub(in crate::policy) struct Rings {
    /// Rate between nodes.
    pub network: f64,
    /// GPUs by type and rate inside, of every kind of node that no other kind surpasses.
    shapes: Vec<(Vec<u32>, f64)>,
}

impl Rings {
    pub(in crate::policy) fn new(problem: &Problem) -> Self {
        let mut shapes: Vec<(Vec<u32>, f64)> = Vec::new();
        for node in &problem.nodes {
            let shape = (node.gpus.clone(), node.intra_node.bytes_per_second());
            if !shapes.iter().any(|other| surpasses(other, &shape)) {
                shapes.retain(|other| !surpasses(&shape, other));
                shapes.push(shape);
            }
        }
        Self { network: problem.network.bytes_per_second(), shapes }
    }

    /// Returns the fastest ring that a bundle can have: inside a node that could hold it, or over the network.
    pub(in crate::policy) fn fastest(&self, bundle: &[u32]) -> f64 {
        let able = self.shapes.iter().filter(|(gpus, _)| holds(gpus, bundle));
        able.map(|&(_, inside)| inside).fold(self.network, f64::max)
    }

    /// Returns every bundle of the types with `usable` that some node can hold, with its fastest ring.
    ///
    /// Types with `alone` come one GPU at a time and with no other.
    pub(in crate::policy) fn inside(&self, usable: &[bool], alone: &[bool]) -> BTreeMap<Vec<u32>, f64> {
        let mut bundles = BTreeMap::new();
        for (gpus, inside) in &self.shapes {
            let rate = inside.max(self.network);
            let ring = |ty: usize| usable[ty] && !alone[ty];
            let most: Vec<u32> = (0..gpus.len()).map(|ty| if ring(ty) { gpus[ty] } else { 0 }).collect();
            let mut bundle = vec![0; gpus.len()];
            while next(&mut bundle, &most) {
                let fastest = bundles.entry(bundle.clone()).or_insert(rate);
                *fastest = rate.max(*fastest);
            }
            for ty in (0..gpus.len()).filter(|&ty| gpus[ty] > 0 && usable[ty] && alone[ty]) {
                let mut single = vec![0; gpus.len()];
                single[ty] = 1;
                bundles.insert(single, rate);
            }
        }
        bundles
    }
}

pub(in crate::policy) fn holds(node: &[u32], bundle: &[u32]) -> bool {
    node.iter().zip(bundle).all(|(have, need)| have >= need)
}

fn surpasses(a: &(Vec<u32>, f64), b: &(Vec<u32>, f64)) -> bool {
    a.1 >= b.1 && holds(&a.0, &b.0)
}

/// Counts up to the next bundle within `most`; returns whether there was one.
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
