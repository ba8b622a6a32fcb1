//! Lower bounds on the mean completion time, one for each trace of a simulation.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::commands::simulate::cores::on_all_cores;
use crate::ui::{ProgressLine, SweepCell};
use hsched_lab::replay::Trace;
use hsched_plan::{TraceBound, trace_bound};

/// Up to so many jobs a bound takes seconds, so it is computed unless the user does not want it.
const USUAL_JOBS: usize = 1000;

/// The climb of a trace's prices ends when its steps times its jobs are so many: minutes.
const MOST_WORK: usize = 1_000_000;

/// The fewest steps of a climb, however many jobs there are.
const FEWEST_STEPS: usize = 5;

/// Returns whether a trace of so many jobs gets its bound without being asked for it.
pub(super) fn is_usual(jobs: usize) -> bool {
    jobs <= USUAL_JOBS
}

/// Gives each cell the bound of its trace; cells of one trace share it.
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

/// Returns the bound of a trace; `None` where a job can never run, or has run before the trace begins. It ends after a number of steps, so it is always the same.
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
