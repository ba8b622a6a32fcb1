//! Candidate bundles of a class: a grid of counts, which can be reduced to bundles that are best at some
//! prices.

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

use crate::classes::{Bundles, Envelope, RisingBundles};

/// Limits on the bundles of a class: numbers of GPUs by type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct BundleLimits {
    pub least: u32,
    pub most: u32,
    /// Available GPUs by type; 0 for unusable types.
    pub gpus: Vec<u32>,
    /// Types of which a bundle may hold only a single GPU and nothing else.
    pub alone: Vec<bool>,
}

/// Maximum number of candidates of a class; beyond it, the grid is coarser.
const MOST_CANDIDATES: usize = 20_000;

/// Coarseness of counts and maximum number of mixed types, in the order tried. Four types in one ring were
/// never beneficial.
const GRIDS: [(u32, usize); 7] = [(1, 3), (2, 3), (4, 3), (8, 3), (16, 3), (16, 2), (64, 2)];

/// Number of price directions for which the best bundles are kept.
const DIRECTIONS: usize = 240;

/// Single-type bundles of up to this many GPUs are always kept, because they fit where better ones do not.
const SMALL: u32 = 8;

/// Returns counts by type within the limits, in lexicographic order. Large counts have gaps, which are wider
/// if there are too many bundles.
pub(super) fn candidates(limits: &BundleLimits) -> Vec<Vec<u32>> {
    let drawn = GRIDS.iter().map(|&(coarseness, mixed)| grid(limits, coarseness, mixed));
    let mut few = drawn.filter(|found| found.len() <= MOST_CANDIDATES);
    few.next().unwrap_or_else(|| grid(limits, 1, 1))
}

/// Returns all counts by type within the limits, if there are at most `most`.
pub(super) fn all(limits: &BundleLimits, most: usize) -> Option<Vec<Vec<u32>>> {
    let mut found = singles(limits);
    let ring: Vec<usize> = ring_types(limits);
    let mut counts = vec![0; limits.gpus.len()];
    let done = fill(limits, &ring, &mut counts, 0, &mut |counts: &[u32]| {
        found.push(counts.to_vec());
        found.len() <= most
    });
    found.sort();
    done.then_some(found)
}

/// Visits every completion of `counts` with the types of `rest`; returns false if `visit` asked to stop.
fn fill(
    limits: &BundleLimits,
    rest: &[usize],
    counts: &mut [u32],
    sum: u32,
    visit: &mut dyn FnMut(&[u32]) -> bool,
) -> bool {
    let Some((&gpu_type, rest)) = rest.split_first() else {
        return sum < limits.least.max(1) || visit(counts);
    };
    for count in 0..=limits.gpus[gpu_type].min(limits.most - sum) {
        counts[gpu_type] = count;
        if !fill(limits, rest, counts, sum + count, visit) {
            return false;
        }
    }
    counts[gpu_type] = 0;
    true
}

/// Returns the single-GPU bundles of types that do not join rings, if one GPU is within the limits.
fn singles(limits: &BundleLimits) -> Vec<Vec<u32>> {
    let types = limits.gpus.len();
    let is_single = |ty: &usize| limits.alone[*ty] && limits.gpus[*ty] > 0 && limits.least <= 1;
    let single = |gpu_type: usize| (0..types).map(|ty| u32::from(ty == gpu_type)).collect();
    (0..types).filter(is_single).map(single).collect()
}

/// Returns the types whose GPUs can join rings.
fn ring_types(limits: &BundleLimits) -> Vec<usize> {
    (0..limits.gpus.len()).filter(|&ty| limits.gpus[ty] > 0 && !limits.alone[ty]).collect()
}

/// Returns bundles of up to `mixed` types with counts of this coarseness; only a subset if there are too
/// many.
fn grid(limits: &BundleLimits, coarseness: u32, mixed: usize) -> Vec<Vec<u32>> {
    let mut found = singles(limits);
    let ring = ring_types(limits);
    let axis = |&gpus: &u32| steps(gpus.min(limits.most), limits, coarseness);
    let axes: Vec<Vec<u32>> = limits.gpus.iter().map(axis).collect();
    let mut subsets: Vec<Vec<usize>> = ring.iter().map(|&ty| vec![ty]).collect();
    for _ in 0..mixed {
        for subset in &subsets {
            if mixed == 1 || found.len() <= MOST_CANDIDATES {
                mixes(limits, &axes, subset, &mut vec![0; limits.gpus.len()], &mut found);
            }
        }
        let longer = |subset: &Vec<usize>| {
            let next = ring.iter().filter(|&&ty| subset.last().is_none_or(|&last| ty > last));
            next.map(|&ty| [subset.as_slice(), &[ty]].concat()).collect::<Vec<_>>()
        };
        subsets = subsets.iter().flat_map(longer).collect();
    }
    found.sort();
    found
}

/// Adds the bundles with GPUs of each type in `subset`, with counts from the axes; the last type gets the
/// remainder if the size is fixed.
fn mixes(
    limits: &BundleLimits,
    axes: &[Vec<u32>],
    subset: &[usize],
    counts: &mut Vec<u32>,
    found: &mut Vec<Vec<u32>>,
) {
    let sum: u32 = counts.iter().sum();
    let Some((&gpu_type, rest)) = subset.split_first() else {
        if sum >= limits.least {
            found.push(counts.clone());
        }
        return;
    };
    let left = limits.most - sum;
    if rest.is_empty() && limits.least == limits.most {
        if (1..=limits.gpus[gpu_type]).contains(&left) {
            counts[gpu_type] = left;
            found.push(counts.clone());
        }
    } else {
        for &count in axes[gpu_type].iter().take_while(|&&count| count <= left) {
            counts[gpu_type] = count;
            mixes(limits, axes, rest, counts, found);
        }
    }
    counts[gpu_type] = 0;
}

/// Returns the grid counts up to `most`: all counts if `most` is at most 12, otherwise every count up to 6,
/// then steps that grow to about an eighth of the count. If the number of GPUs is fixed, all steps are equal:
/// 1 for up to [`SMALL`] GPUs, otherwise a sixteenth of the number, but at least 4. `coarseness` multiplies
/// every step from a count of 2 or more.
fn steps(most: u32, limits: &BundleLimits, coarseness: u32) -> Vec<u32> {
    let mut bundles = Vec::new();
    let is_fixed = limits.least == limits.most;
    let mut count = 0_u32;
    loop {
        let wide = match count {
            _ if is_fixed && limits.most > SMALL => (limits.most / 16).max(4),
            _ if is_fixed || count < 6 || most <= 12 => 1,
            6..16 => 2,
            16..32 => 4,
            _ => (count / 8).max(8),
        };
        count = count.saturating_add(wide.saturating_mul(if count < 2 { 1 } else { coarseness }));
        if count > most {
            return bundles;
        }
        bundles.push(count);
    }
}

/// Returns the bundles that are best at some prices and some value of a step, and the small single-type
/// bundles.
pub(super) fn cut(types: usize, candidates: Vec<(Vec<u32>, f64)>) -> Bundles {
    let bundles = Bundles::new(types, candidates);
    let mut keep: Vec<bool> = (0..bundles.len())
        .map(|bundle| {
            let counts = bundles.counts(bundle);
            let used = counts.iter().filter(|count| **count > 0).count();
            used == 1 && counts.iter().sum::<u32>() <= SMALL
        })
        .collect();
    let mut random = Pcg64::seed_from_u64(7);
    let (mut envelope, mut near) = (Envelope::default(), Vec::new());
    let mut rising = RisingBundles::new(&bundles);
    for direction in 0..DIRECTIONS {
        let price = |ty: usize| match direction {
            // One cheap type, one expensive type, then random prices.
            _ if direction < types => {
                if ty == direction {
                    0.05
                } else {
                    1.0
                }
            }
            _ if direction < 2 * types => {
                if ty + types == direction {
                    1.0
                } else {
                    0.05
                }
            }
            _ => (5.0 * random.random::<f64>() - 2.5).exp(),
        };
        let prices: Vec<f64> = (0..types).map(price).collect();
        rising.price(&prices);
        envelope.renew_near(&rising, &near);
        near.clear();
        near.extend(envelope.vertices().iter().map(|vertex| vertex.bundle));
        for &bundle in &near {
            keep[bundle] = true;
        }
    }
    let kept = (0..bundles.len()).filter(|&bundle| keep[bundle]);
    Bundles::new(types, kept.map(|bundle| (bundles.counts(bundle).to_vec(), bundles.speed(bundle))).collect())
}
