//! Weaker bounds without prices over time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::Problem;
use crate::classes::Bundles;
use crate::pricing::{Pricer, Rings};
use crate::trace_bound::prices::ClimbStart;
use crate::trace_bound::trace::BoundTrace;
use hsched_model::number::to_f64;

/// Accuracy of a job's shortest time.
const TOLERANCE: f64 = 1e-6;

/// Returns the mean time of each job alone, in seconds; `None` if one can never run.
pub(super) fn alone(problem: &Problem) -> Option<f64> {
    let rings = Rings::new(problem);
    let free = vec![0.0; problem.gpu_types.len()];
    let mut sum = 0.0;
    for job in &problem.jobs {
        sum += Pricer::alone(problem, &rings, job).cheapest(&free, TOLERANCE, None)?.floor;
    }
    Some(sum / to_f64(problem.jobs.len()))
}

/// Returns the best mean completion time on one machine as large as all GPUs, in seconds; `all` has every
/// bundle, by class.
///
/// A GPU of type g counts `q_g`: a job's size is the minimum q·n seconds per step, and the machine processes
/// Σ `q_g C_g` per second, always for the job with the least remaining work. The bound is valid for all q ≥
/// 0; several likely values are tried.
pub(super) fn squashed(trace: &BoundTrace, all: &[Bundles], start: Option<&ClimbStart>) -> f64 {
    let types = trace.offered.len();
    let mut counted = vec![vec![1.0; types]];
    counted.extend((0..types).map(|ty| (0..types).map(|column| f64::from(u8::from(column == ty))).collect()));
    if let Some(start) = start {
        let sum = |ty: usize| start.certificate.prices.iter().map(|price| price[ty]).sum();
        counted.push((0..types).map(sum).collect());
    }
    let single = |ty: usize| {
        let alone: Vec<u32> = (0..types).map(|column| u32::from(column == ty)).collect();
        let speeds = all.iter().filter_map(|bundles| Some(bundles.speed(bundles.find(&alone)?)));
        speeds.fold(0.0, f64::max)
    };
    counted.push((0..types).map(single).collect());
    let mean = |counted: &Vec<f64>| {
        let machine: f64 =
            counted.iter().zip(&trace.offered).map(|(rate, &gpus)| rate * f64::from(gpus)).sum();
        let sizes: Vec<f64> = all.iter().map(|bundles| bundles.unit_cost(0.0, counted) / machine).collect();
        if machine > 0.0 { shortest_first(trace, &sizes) } else { 0.0 }
    };
    counted.iter().map(mean).fold(0.0, f64::max)
}

/// Returns the mean completion time on one machine with these step sizes by class.
fn shortest_first(trace: &BoundTrace, sizes: &[f64]) -> f64 {
    let mut left: BinaryHeap<Reverse<WorkLeft>> = BinaryHeap::new();
    let (mut now, mut sum) = (0.0_f64, 0.0);
    let mut jobs = trace.jobs.iter().peekable();
    loop {
        let next = jobs.peek().map_or(f64::INFINITY, |job| job.at);
        match left.pop() {
            Some(Reverse(work)) if now + work.seconds <= next => {
                now += work.seconds;
                sum += now - work.arrived;
            }
            Some(Reverse(work)) => {
                left.push(Reverse(WorkLeft { seconds: work.seconds - (next - now), ..work }));
                now = next;
            }
            None if next.is_finite() => now = next,
            None => return sum / trace.count(),
        }
        while let Some(job) = jobs.next_if(|job| job.at <= now) {
            left.push(Reverse(WorkLeft { seconds: job.steps * sizes[job.class], arrived: job.at }));
        }
    }
}

/// A job's remaining work on the single machine.
#[derive(Clone, Copy, PartialEq)]
struct WorkLeft {
    seconds: f64,
    arrived: f64,
}

impl Eq for WorkLeft {}

impl PartialOrd for WorkLeft {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for WorkLeft {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.seconds.total_cmp(&other.seconds).then(self.arrived.total_cmp(&other.arrived))
    }
}
