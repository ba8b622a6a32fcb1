//! Limits of nodes beyond the sum of their GPUs: rules that in-node rings violate if they do not fit
//! together.

use crate::optimal::many::JobKinds;
use crate::{JobModel, Problem};
use hsched_model::number::to_f64;

/// A rule: each in-node ring counts by its number of GPUs of a type, and a node has a maximum total.
#[derive(Clone, Debug)]
pub(crate) struct NodeRule {
    gpu_type: usize,
    /// Count of a ring, by its GPUs of the type.
    worth: Vec<f64>,
    /// Whether the replicas of an in-node ring count one by one instead of as a ring, as in the certificate.
    by_replica: bool,
    /// The maximum total over all nodes.
    pub capacity: f64,
}

/// A rule counts as violated if the mix exceeds its capacity by more than this fraction.
const BROKEN: f64 = 1e-6;

/// The same fraction during a search, when the mix is not exact.
const BROKEN_ROUGHLY: f64 = 1e-3;

/// If a node has more GPUs of a type than this, the type has no rules, because such nodes are rarely hard to
/// fill.
const LARGEST: u32 = 64;

/// Returns counts of rings by their GPUs, for nodes with at most this many.
type Candidates = fn(u32) -> Vec<Vec<f64>>;

impl NodeRule {
    /// Returns the count of a job's replicas by type, in a ring inside a node or over the network.
    pub(crate) fn uses(&self, job: &JobModel, replicas: &[u32], inside: bool) -> f64 {
        let (count, size) = (replicas[self.gpu_type], job.size(self.gpu_type));
        let worth = |gpus: u32| self.worth.get(gpus as usize).copied().unwrap_or(0.0);
        if inside && !self.by_replica {
            worth(count * size)
        } else if job.needs_blocks() {
            f64::from(count) * worth(size)
        } else {
            0.0
        }
    }

    /// Returns the rule's price of a replica of this many GPUs of a type, at this price of the rule.
    pub(crate) fn price(&self, gpu_type: usize, size: u32, price: f64) -> f64 {
        let worth = self.worth.get(size as usize).copied().unwrap_or(0.0);
        if gpu_type == self.gpu_type { price * worth } else { 0.0 }
    }

    /// Returns the rule with these counts for nodes with this many GPUs of a type.
    fn new(gpu_type: usize, worth: Vec<f64>, nodes: &[u32], by_replica: bool) -> Self {
        // The maximum total on a node of each size.
        let mut most = vec![0.0_f64; worth.len()];
        for size in 1..most.len() {
            let hold = |part: usize| worth[part] + most[size - part];
            most[size] = (1..=size).map(hold).fold(most[size - 1], f64::max);
        }
        let capacity = nodes.iter().map(|&size| most[size as usize]).sum();
        Self { gpu_type, worth, by_replica, capacity }
    }
}

/// Returns the rules for rings that a mix of choices violates.
pub(crate) fn broken(problem: &Problem, kinds: &JobKinds<'_>, mix: &[(f64, Vec<u32>)]) -> Vec<NodeRule> {
    let rules = violated(problem, kinds, mix, false, (BROKEN, candidates));
    rules.into_iter().flatten().map(|(_, rule)| rule).collect()
}

/// Returns the rule of each type that a mix of choices violates most: for rings, or for replicas alone.
pub(crate) fn most_broken(
    problem: &Problem,
    kinds: &JobKinds<'_>,
    mix: &[(f64, Vec<u32>)],
    by_replica: bool,
) -> Vec<NodeRule> {
    let mut rules = violated(problem, kinds, mix, by_replica, (BROKEN_ROUGHLY, more_candidates));
    for of_type in &mut rules {
        let most = of_type.drain(..).max_by(|a, b| a.0.total_cmp(&b.0));
        of_type.extend(most);
    }
    rules.into_iter().flatten().map(|(_, rule)| rule).collect()
}

/// Returns the rules that a mix of choices violates, by type, each with the excess relative to its capacity.
fn violated(
    problem: &Problem,
    kinds: &JobKinds<'_>,
    mix: &[(f64, Vec<u32>)],
    by_replica: bool,
    (least, candidates): (f64, Candidates),
) -> Vec<Vec<(f64, NodeRule)>> {
    let largest = |ty: usize| problem.nodes.iter().map(|node| node.gpus[ty]).max().unwrap_or(0);
    let largest: Vec<u32> = (0..problem.gpu_types.len()).map(largest).collect();
    let rings = rings(&largest, kinds, mix, by_replica);
    let mut broken = vec![Vec::new(); largest.len()];
    for (gpu_type, (broken, rings)) in broken.iter_mut().zip(rings).enumerate() {
        let largest = largest[gpu_type];
        if !(2..=LARGEST).contains(&largest) {
            continue;
        }
        let nodes: Vec<u32> = problem.nodes.iter().map(|node| node.gpus[gpu_type]).collect();
        for worth in candidates(largest) {
            // The GPUs themselves are also a resource, so no rule for replicas counts single GPUs.
            if by_replica && worth[1] > 0.0 {
                continue;
            }
            let rule = NodeRule::new(gpu_type, worth, &nodes, by_replica);
            let used: f64 = rule.worth.iter().zip(&rings).map(|(worth, count)| worth * count).sum();
            if used > rule.capacity * (1.0 + least) {
                broken.push((used / rule.capacity - 1.0, rule));
            }
        }
    }
    broken
}

/// Returns how many rings and other replicas a mix of choices has, by type and number of GPUs up to the
/// largest node.
fn rings(largest: &[u32], kinds: &JobKinds<'_>, mix: &[(f64, Vec<u32>)], by_replica: bool) -> Vec<Vec<f64>> {
    let total: f64 = mix.iter().map(|(weight, _)| weight).sum();
    let mut rings: Vec<Vec<f64>> = largest.iter().map(|&gpus| vec![0.0; gpus as usize + 1]).collect();
    for (weight, choice) in mix {
        for (kind, &bundle) in kinds.all.iter().zip(choice) {
            let list = &kinds.lists[kind.list];
            let bundle = list.bundles[bundle as usize];
            let is_ring = kinds.catalogue.is_inside(bundle) && !by_replica;
            if !is_ring && !list.job().needs_blocks() {
                continue;
            }
            let jobs = weight / total * to_f64(kind.jobs.len());
            let counts = kinds.catalogue.counts(bundle).iter().zip(&mut rings).enumerate();
            for (gpu_type, (&count, rings)) in counts.filter(|(_, (count, _))| **count > 0) {
                let size = list.job().size(gpu_type);
                let (gpus, number) = if is_ring { (count * size, 1.0) } else { (size, f64::from(count)) };
                rings[gpus as usize] += number * jobs;
            }
        }
    }
    rings
}

/// Returns candidate counts of rings by GPUs: how many parts of a size they take, and the dual-feasible
/// functions of Fekete and Schepers (2001), which count rings that leave an awkward remainder above their
/// size.
///
/// Any counts make a valid rule.
fn candidates(largest: u32) -> Vec<Vec<f64>> {
    let parts = (2..=largest).map(|part| (0..=largest).map(|count| f64::from(count / part)).collect());
    let stretched = (1..=largest).map(|steps| {
        let value = |count: u32| {
            let stretched = (steps + 1) * count;
            if stretched.is_multiple_of(largest) {
                f64::from(count) / f64::from(largest)
            } else {
                f64::from(stretched / largest) / f64::from(steps)
            }
        };
        (0..=largest).map(value).collect()
    });
    parts.chain(stretched).collect()
}

/// Returns the counts of [`candidates`], and counts of a half for rings of at least a given size, and of one
/// for larger rings beside which no such ring fits.
fn more_candidates(largest: u32) -> Vec<Vec<f64>> {
    let halves = (1..=largest / 2).map(|least| {
        let value = |count: u32| {
            if count > largest - least {
                1.0
            } else if count >= least {
                0.5
            } else {
                0.0
            }
        };
        (0..=largest).map(value).collect()
    });
    candidates(largest).into_iter().chain(halves).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_node_of_eight_holds_one_ring_of_five() {
        let rules: Vec<NodeRule> =
            candidates(8).into_iter().map(|worth| NodeRule::new(0, worth, &[8, 8], false)).collect();
        let is_broken = |rings: &[u32]| {
            rules.iter().any(|rule| {
                rings.iter().map(|&ring| rule.worth[ring as usize]).sum::<f64>()
                    > rule.capacity * (1.0 + 1e-9)
            })
        };
        assert!(!is_broken(&[5, 3, 5, 3]) && !is_broken(&[8, 4, 4]) && !is_broken(&[6, 2, 2, 2, 2, 2]));
        assert!(is_broken(&[5, 5, 5]) && is_broken(&[5, 5, 4]) && is_broken(&[3, 3, 3, 3, 3]));
        assert!(is_broken(&[5, 5, 2, 2, 2]), "a ring of five leaves three, which two do not fill");
    }

    proptest! {
        #[test]
        fn rings_that_fit_break_no_rule(
            nodes in proptest::collection::vec(proptest::collection::vec(1_u32..9, 0..5), 1..5),
        ) {
            // Each node is at least as large as its rings.
            let spare = [0, 1, 0, 2, 3];
            let sizes: Vec<u32> =
                nodes.iter().zip(spare).map(|(rings, spare)| rings.iter().sum::<u32>() + spare).collect();
            let largest = sizes.iter().copied().max().unwrap_or(0).max(2);
            for worth in more_candidates(largest) {
                let rule = NodeRule::new(0, worth, &sizes, false);
                let used: f64 = nodes.iter().flatten().map(|&ring| rule.worth[ring as usize]).sum();
                prop_assert!(used <= rule.capacity * (1.0 + 1e-12) + 1e-12, "{used} of {}", rule.capacity);
            }
        }
    }
}
