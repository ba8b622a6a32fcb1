//! Moves prices towards the best bound: averaged subgradients with Polyak's step sizes.

use crate::trace_bound::envelopes::Envelopes;
use crate::trace_bound::least::{Intervals, Least};
use crate::trace_bound::prices::{ClimbStart, TraceCertificate};
use crate::trace_bound::trace::BoundTrace;

/// Maximum number of steps.
const STEPS: u32 = 200;

/// Accuracy of each job's minimum during the climb; the final value is computed as accurately as possible.
const ROUGH: f64 = 1e-6;

/// Fraction of each direction that is kept in the next one.
const KEPT: f64 = 0.4;

/// A relative improvement of the bound below this is no progress.
const PROGRESS: f64 = 1e-5;

/// After this many steps without progress, later steps are shortened by this factor.
const PATIENCE: u32 = 8;
const SHORTER: f64 = 0.6;

/// Step length relative to the full one below which the climb ends.
const SHORTEST: f64 = 0.01;

/// Each step aims at this fraction of the distance between the best bound and a schedule's value.
const AIM: f64 = 0.5;

/// Minimum of the distance that [`AIM`] refers to, relative to the schedule's value.
const LEAST_WAY: f64 = 0.002;

/// The bound at some prices from the listed bundles, and the jobs' usage.
struct PriceEvaluation {
    value: f64,
    /// GPU-seconds by interval and type.
    used: Vec<Vec<f64>>,
}

/// A climb in progress.
struct Climb<'a> {
    trace: &'a BoundTrace,
    /// The envelopes of the candidate bundles.
    envelopes: Envelopes<'a>,
    /// Data on each job's minimum from earlier prices.
    leasts: Vec<Least>,
}

/// Returns the prices of the best bound found; `None` if a job can never end.
pub(super) fn climb(
    trace: &BoundTrace,
    start: &ClimbStart,
    stop: &dyn Fn() -> bool,
) -> Option<TraceCertificate> {
    let leasts = vec![Least::default(); trace.jobs.len()];
    let bundles = trace.listed();
    let mut climb = Climb { trace, envelopes: Envelopes::new(&bundles), leasts };
    let mut now = start.certificate.clone();
    let mut best = (f64::NEG_INFINITY, now.clone());
    let mut direction: Vec<Vec<f64>> = now.prices.iter().map(|price| vec![0.0; price.len()]).collect();
    let (mut length, mut fails) = (1.0, 0);
    for _ in 0..STEPS {
        let seen = climb.look(&now)?;
        let progress = seen.value > best.0 + PROGRESS * best.0.abs() || best.0 == f64::NEG_INFINITY;
        if seen.value > best.0 {
            best = (seen.value, now.clone());
        }
        fails = if progress { 0 } else { fails + 1 };
        if fails >= PATIENCE {
            (length, fails) = (length * SHORTER, 0);
            now = best.1.clone();
            for slopes in &mut direction {
                slopes.fill(0.0);
            }
            if length < SHORTEST {
                break;
            }
            continue;
        }
        if stop() {
            break;
        }
        let aim = best.0 + AIM * (start.reached - best.0).max(LEAST_WAY * start.reached);
        climb.step(&mut now, &mut direction, &seen, length * (aim - seen.value));
    }
    Some(best.1)
}

impl Climb<'_> {
    fn look(&mut self, certificate: &TraceCertificate) -> Option<PriceEvaluation> {
        let Self { trace, envelopes, leasts } = self;
        let intervals = Intervals::new(certificate);
        envelopes.expire();
        let mut used = vec![vec![0.0; trace.offered.len()]; certificate.prices.len()];
        let mut sum = 0.0;
        for (job, least) in trace.jobs.iter().zip(leasts) {
            let class = envelopes.of_class(job.class);
            sum += least.find(&intervals, class, job, ROUGH)?;
            let bundles = class.bundles;
            least.usage(&intervals, class, job, &mut |interval, bundle, seconds| {
                for (used, &count) in used[interval].iter_mut().zip(bundles.counts(bundle)) {
                    *used += seconds * f64::from(count);
                }
            });
        }
        let value = (sum - certificate.rent_of_all(&trace.offered)) / trace.count();
        Some(PriceEvaluation { value, used })
    }

    /// Adjusts the prices: they rise for resources of which more is used than available. All intervals move
    /// equally, regardless of length.
    fn step(
        &self,
        now: &mut TraceCertificate,
        direction: &mut [Vec<f64>],
        seen: &PriceEvaluation,
        rise: f64,
    ) {
        let offered = &self.trace.offered;
        let gpu_types: Vec<usize> = (0..offered.len()).filter(|&gpu_type| offered[gpu_type] > 0).collect();
        let lengths: Vec<f64> = now.edges.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let all = |length: f64, gpu_type: usize| length * f64::from(offered[gpu_type]);
        let mut squares = 0.0;
        for (((prices, used), slopes), &length) in
            now.prices.iter().zip(&seen.used).zip(direction.iter_mut()).zip(&lengths)
        {
            for &gpu_type in &gpu_types {
                let all = all(length, gpu_type);
                let slope = (used[gpu_type] - all) / self.trace.count();
                let kept = KEPT * slopes[gpu_type];
                // A price of 0 can only rise.
                let is_least = prices[gpu_type] <= 0.0;
                slopes[gpu_type] = if is_least { (kept + slope.max(0.0)).max(0.0) } else { kept + slope };
                squares += slopes[gpu_type] * slopes[gpu_type] / all;
            }
        }
        let step = rise / squares.max(f64::MIN_POSITIVE);
        for ((prices, slopes), &length) in now.prices.iter_mut().zip(direction).zip(&lengths) {
            for &gpu_type in &gpu_types {
                let moved = prices[gpu_type] + step * slopes[gpu_type] / all(length, gpu_type);
                prices[gpu_type] = moved.max(0.0);
            }
        }
    }
}
