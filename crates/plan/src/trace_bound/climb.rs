//! Prices climb towards the best bound: subgradients, averaged, with Polyak's steps.

use crate::classes::Bundles;
use crate::trace_bound::least::{Intervals, Least};
use crate::trace_bound::prices::{Certificate, Envelopes, Start, proven};
use crate::trace_bound::trace::Trace;

/// The most steps.
const STEPS: u32 = 200;

/// How exactly each job's least is found on the way; the last value is found as exactly as can be.
const ROUGH: f64 = 1e-6;

/// So much of each direction goes into the next one.
const KEPT: f64 = 0.4;

/// A bound that is better by less than this part of it is no progress.
const PROGRESS: f64 = 1e-5;

/// After so many steps without progress the next ones are shorter, by this factor.
const PATIENCE: u32 = 8;
const SHORTER: f64 = 0.6;

/// Steps shorter than this part of the full ones end the climb.
const SHORTEST: f64 = 0.01;

/// Each step aims at this part of the way from the best bound to what a schedule reached.
const AIM: f64 = 0.5;

/// That way is taken to be at least this part of what was reached.
const LEAST_WAY: f64 = 0.002;

/// What prices prove by the bundles that are listed, and what the jobs would use.
struct Seen {
    value: f64,
    /// GPU-seconds by interval and type.
    used: Vec<Vec<f64>>,
}

/// The climb under way.
struct Climb<'a> {
    trace: &'a Trace,
    /// The bundles worth choosing from, by class.
    bundles: Vec<Bundles>,
    envelopes: Envelopes,
    /// What is known of each job's least from the prices before.
    leasts: Vec<Least>,
}

/// Returns the best bound that was found, in seconds, with its prices; `None` where none can be proven.
pub(super) fn climb(trace: &Trace, start: &Start, stop: &dyn Fn() -> bool) -> Option<(f64, Certificate)> {
    let leasts = vec![Least::default(); trace.jobs.len()];
    let mut climb = Climb { trace, bundles: trace.listed(), envelopes: Envelopes::default(), leasts };
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
    proven(trace, &best.1).map(|value| (value, best.1))
}

impl Climb<'_> {
    fn look(&mut self, certificate: &Certificate) -> Option<Seen> {
        let Self { trace, bundles, envelopes, leasts } = self;
        let intervals = Intervals::new(&certificate.edges);
        envelopes.renew(bundles, certificate);
        let mut used = vec![vec![0.0; trace.offered.len()]; certificate.prices.len()];
        let mut sum = 0.0;
        for (job, least) in trace.jobs.iter().zip(leasts) {
            let own = envelopes.of_class(job.class);
            sum += least.find(&intervals, own, job, ROUGH)?;
            least.usage(&intervals, own, job, &mut |interval, bundle, seconds| {
                for (used, &count) in used[interval].iter_mut().zip(bundles[job.class].counts(bundle)) {
                    *used += seconds * f64::from(count);
                }
            });
        }
        let value = (sum - certificate.rent_of_all(&trace.offered)) / trace.count();
        Some(Seen { value, used })
    }

    /// Moves the prices: up where more is used than there is. All intervals move alike, however long they are.
    fn step(&self, now: &mut Certificate, direction: &mut [Vec<f64>], seen: &Seen, rise: f64) {
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
