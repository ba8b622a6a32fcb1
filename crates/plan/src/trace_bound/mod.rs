//! A lower bound on the mean completion time of a trace, valid for every schedule.
//!
//! For any prices p ≥ 0 of GPUs over time, the mean completion time is at least
//!
//! ```text
//! (1/n) [ Σ over jobs of min over ends C and bundles n(t) of { C − r + ∫ p·n dt : ∫ s(n) dt = W } − ∫ p·C dt ]
//! ```
//!
//! even if moves are free and GPUs can be time-shared (Lagrangian relaxation of the GPU capacity). Prices are
//! constant on intervals, and each job's minimum is exact. The prices of `horizon` are the start, and
//! subgradients improve them. The final prices are the certificate, from which the bound can be recomputed
//! ([`bound_of_prices`]).
//!
//! The speeds `s(n)` assume batches that are balanced by speed. Equal batches are never faster where balanced
//! ones are legal.

mod climb;
mod envelopes;
mod least;
mod prices;
mod simple;
mod trace;

use crate::Problem;

pub use self::prices::TraceCertificate;

/// A lower bound on the mean completion time.
#[derive(Clone, Debug, PartialEq)]
pub struct TraceBound {
    /// In seconds: the maximum of the three bounds below.
    pub lower: f64,
    /// The mean time of each job alone on the cluster, in seconds.
    pub alone: f64,
    /// The bound of one machine as large as all GPUs with the shortest job first, in seconds; `None` if a job
    /// has too many bundles to enumerate.
    pub squashed: Option<f64>,
    /// The bound of prices over time, in seconds, with the prices; `None` if no prices prove a bound, for
    /// example because a job has too many bundles to enumerate.
    pub priced: Option<(f64, TraceCertificate)>,
}

/// Relative reduction of a computed bound, so that rounding errors cannot make it too high.
const ROUNDING: f64 = 1e-9;

/// Returns a lower bound on the mean completion time of a problem's jobs, which arrive at the time in their
/// progress and train all their epochs, regardless of the GPUs that they hold; `None` if a job can never run.
///
/// The prices are improved until `stop` returns true or no progress is made.
pub fn trace_bound(problem: &Problem, stop: &dyn Fn() -> bool) -> Option<TraceBound> {
    let trace = trace::BoundTrace::new(problem)?;
    let alone = simple::alone(problem)? * (1.0 - ROUNDING);
    let start = prices::start(&trace);
    let all = trace.all();
    let priced = start.as_ref().zip(all.as_ref()).and_then(|(start, all)| {
        let prices = climb::climb(&trace, start, stop)?;
        Some((prices::proven(&trace, all, &prices)?, prices))
    });
    let squashed = all.map(|all| simple::squashed(&trace, &all, start.as_ref()) * (1.0 - ROUNDING));
    let lower = squashed.unwrap_or(0.0).max(priced.as_ref().map_or(0.0, |proven| proven.0)).max(alone);
    Some(TraceBound { lower, alone, squashed, priced })
}

/// Returns the lower bound proven by these prices, in seconds; `None` if they prove nothing, for example
/// because they belong to another cluster or a job has too many bundles to enumerate.
pub fn bound_of_prices(problem: &Problem, certificate: &TraceCertificate) -> Option<f64> {
    let trace = trace::BoundTrace::new(problem)?;
    if certificate.is_valid(trace.offered.len()) {
        prices::proven(&trace, &trace.all()?, certificate)
    } else {
        None
    }
}
