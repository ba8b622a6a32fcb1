//! Lower bounds on the mean completion time, one for each trace of a simulation.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::commands::simulate::cores::on_all_cores;
use hsched_lab::replay::Trace;
use hsched_plan::{TraceBound, trace_bound};
use hsched_ui::{ProgressLine, SweepCell};

/// For up to this many jobs, a bound takes seconds and is computed by default.
const USUAL_JOBS: usize = 1000;

/// Limit of steps times jobs for the ascent of a trace's prices, which then takes minutes.
const MOST_WORK: usize = 1_000_000;

/// Minimum number of steps of an ascent.
const FEWEST_STEPS: usize = 5;

/// Returns whether the bound of a trace with this many jobs is computed by default.
pub(super) fn is_usual(jobs: usize) -> bool {
    jobs <= USUAL_JOBS
}

/// Adds the bound of its trace to each cell; cells of one trace share it.
pub(super) fn add_bounds(cells: &mut [SweepCell]) {
    let mut traces: Vec<Arc<Trace>> = Vec::new();
    for cell in cells.iter() {
        if !traces.iter().any(|trace| Arc::ptr_eq(trace, &cell.trace)) {
            traces.push(Arc::clone(&cell.trace));
        }
    }
    let progress = ProgressLine::start("lower bound".to_owned());
    let bounds = on_all_cores(&traces, |trace| bound(trace, &progress).map(Arc::new));
    for cell in cells {
        let of_trace = traces.iter().zip(&bounds).find(|(trace, _)| Arc::ptr_eq(trace, &cell.trace));
        cell.bound = of_trace.and_then(|(_, bound)| bound.clone());
    }
}

/// Returns the bound of a trace; `None` if a job can never run or ran before the trace begins. The limit is a
/// number of steps, so the result is reproducible.
fn bound(trace: &Trace, progress: &ProgressLine) -> Option<TraceBound> {
    if !trace.is_whole() {
        return None;
    }
    let most = (MOST_WORK / trace.jobs.len().max(1)).max(FEWEST_STEPS);
    let steps = AtomicUsize::new(0);
    trace_bound(&trace.whole(), &|| {
        let step = steps.fetch_add(1, Ordering::Relaxed) + 1;
        progress.say(format!("lower bound: step {step}"));
        step >= most
    })
}
