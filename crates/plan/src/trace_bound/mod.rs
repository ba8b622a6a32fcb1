//! A lower bound on the mean completion time of a trace, for every schedule.
//!
//! For any prices p ≥ 0 of GPUs over time, the mean completion time is at least
//!
//! ```text
//! (1/n) [ Σ over jobs of min over ends C and bundles n(t) of { C − r + ∫ p·n dt : ∫ s(n) dt = W } − ∫ p·C dt ]
//! ```
//!
//! even where moves are free and GPUs can be divided in time (Lagrangian relaxation of what the GPUs can hold). Prices are
//! constant on intervals; each job's minimum is exact. The prices begin as those that `horizon` itself sees, and climb
//! by subgradients. They are the certificate: with them anybody can compute the bound again ([`bound_of_prices`]).
//!
//! The speeds `s(n)` are those of batches balanced by speed. Equal batches are slower wherever balanced ones are legal.

mod climb;
mod least;
mod prices;
mod simple;
mod trace;

use crate::Problem;

pub use self::prices::Certificate;

/// A lower bound on the mean completion time.
#[derive(Clone, Debug, PartialEq)]
pub struct TraceBound {
    /// In seconds: the largest of the three below.
    pub lower: f64,
    /// The mean of what each job would take alone, in seconds.
    pub alone: f64,
    /// That of one machine as large as all GPUs on which the shortest job goes first, in seconds.
    pub squashed: Option<f64>,
    /// That of prices over time, in seconds, with the prices.
    pub priced: Option<(f64, Certificate)>,
}

/// How much less than computed a bound is said to be, as a part of it, so that rounding cannot make it too high.
const ROUNDING: f64 = 1e-9;

/// Returns a lower bound on the mean completion time of a problem's jobs, which arrive when their progress says and do all
/// their epochs, whatever they hold; `None` where some job can never run.
///
/// The prices climb until `stop` says so, or until that is in vain.
pub fn trace_bound(problem: &Problem, stop: &dyn Fn() -> bool) -> Option<TraceBound> {
    let trace = trace::Trace::new(problem)?;
    let alone = simple::alone(problem)? * (1.0 - ROUNDING);
    let start = prices::start(&trace);
    let priced = start.as_ref().and_then(|start| climb::climb(&trace, start, stop));
    let squashed = simple::squashed(&trace, start.as_ref()).map(|value| value * (1.0 - ROUNDING));
    let lower = squashed.unwrap_or(0.0).max(priced.as_ref().map_or(0.0, |proven| proven.0)).max(alone);
    Some(TraceBound { lower, alone, squashed, priced })
}

/// Returns the lower bound that these prices prove, in seconds; `None` where they prove nothing: they are not of this
/// cluster, or a job has too many bundles to look at all.
pub fn bound_of_prices(problem: &Problem, certificate: &Certificate) -> Option<f64> {
    let trace = trace::Trace::new(problem)?;
    certificate.is_valid(trace.offered.len()).then(|| prices::proven(&trace, certificate)).flatten()
}
