//! From a mix of choices to one bundle for each job.

use crate::optimal::many::JobKinds;
use crate::optimal::many::catalogue::rent;

/// By kind: its chosen bundles by list index, with the number of jobs for each.
pub(crate) type BundleChoices = Vec<Vec<(usize, u32)>>;

/// Returns a bundle for each job so that their total use is close to that of the mix. The fraction of a
/// kind's jobs that get a bundle is about the bundle's weight in the mix.
///
/// Jobs with expensive bundles choose first; each takes the bundle that brings the total closest to that of
/// the mix so far.
pub(crate) fn round(kinds: &JobKinds<'_>, mix: &[(f64, Vec<u32>)], prices: &[f64]) -> BundleChoices {
    let types = kinds.capacity.len();
    let total: f64 = mix.iter().map(|(weight, _)| weight).sum();
    let dearness = |kind: usize| {
        mix.first()
            .map_or(0.0, |(_, choice)| rent(kinds.uses(&kinds.all[kind], choice[kind] as usize), prices))
    };
    let mut order: Vec<(f64, usize)> = (0..kinds.all.len()).map(|kind| (dearness(kind), kind)).collect();
    order.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    let mut missing = vec![0.0; types];
    let mut chosen: BundleChoices = vec![Vec::new(); kinds.all.len()];
    for (_, kind) in order {
        let uses = |place: usize| kinds.uses(&kinds.all[kind], place);
        let mut options: Vec<(usize, f64)> = Vec::new();
        for (weight, choice) in mix {
            let bundle = choice[kind] as usize;
            match options.iter_mut().find(|(known, _)| *known == bundle) {
                Some((_, sum)) => *sum += weight / total,
                None => options.push((bundle, weight / total)),
            }
        }
        let mean: Vec<f64> = (0..types)
            .map(|ty| options.iter().map(|(bundle, weight)| weight * uses(*bundle)[ty]).sum())
            .collect();
        for _ in &kinds.all[kind].jobs {
            missing.iter_mut().zip(&mean).for_each(|(missing, mean)| *missing += mean);
            let off = |bundle: usize| {
                let sides = missing.iter().zip(uses(bundle)).zip(prices);
                sides.map(|((missing, gpus), price)| (price * (missing - gpus)).powi(2)).sum::<f64>()
            };
            let best = options.iter().map(|(bundle, _)| *bundle).min_by(|&a, &b| off(a).total_cmp(&off(b)));
            let Some(best) = best else { continue };
            missing.iter_mut().zip(uses(best)).for_each(|(missing, gpus)| *missing -= gpus);
            match chosen[kind].iter_mut().find(|(known, _)| *known == best) {
                Some((_, count)) => *count += 1,
                None => chosen[kind].push((best, 1)),
            }
        }
    }
    chosen
}
