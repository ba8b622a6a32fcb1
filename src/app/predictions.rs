//! Past start estimates with the real starts, and the calibration that they give.

use crate::app::context::Context;
use crate::app::start_estimates::OptionEstimate;
use crate::app::state;
use crate::error::Failure;
use hsched_engine::Run;
use hsched_engine::store::{Predicted, Predictions};
use hsched_model::Time;
use hsched_queue::{Calibration, StartPrediction};

/// What past predictions teach, and how many there were.
pub(crate) type PastPredictions = (Calibration, usize);

/// Returns what was foretold in the last ninety days, with what became of it.
///
/// # Errors
/// When the state cannot be read.
pub(crate) fn known(context: &Context) -> Result<Vec<Predicted>, Failure> {
    let state = crate::app::deferred_commands::expected(context, &state::rules(context))?;
    Ok(Predictions::of(&state::root(context)?).known(&state, state::now(context)))
}

/// Returns what past predictions teach; `None` where there are too few, or nobody can read them.
pub(crate) fn learnt(context: &Context) -> Option<PastPredictions> {
    let known = known(context).ok()?;
    Calibration::learnt(known.iter().map(|predicted| &predicted.prediction))
}

/// Returns what was foretold of a run's submissions, in their order, from a look at the queue at `at`.
pub(crate) fn of_run(run: &Run, foretold: &[OptionEstimate], at: Time) -> Vec<Predicted> {
    let predicted = |(intent, estimate): (&hsched_engine::PlannedSubmission, &OptionEstimate)| {
        let forecast = estimate.start.forecast()?;
        let (start, starts) = (forecast.start, forecast.starts.clone());
        let prediction = StartPrediction { at, gpus: estimate.option.gpus, start, starts, started: None };
        let gpus = format!("{} {}", estimate.option.gpus, estimate.option.gpu_type);
        Some(Predicted { of: run.key(intent), gpus, prediction, withdrawn: false })
    };
    run.submissions.iter().zip(foretold).filter_map(predicted).collect()
}

/// Keeps what was foretold of a run; where it cannot be written, a note says so.
pub(crate) fn keep(context: &Context, run: &str, list: &[Predicted]) {
    let kept = state::root(context)
        .and_then(|root| Predictions::of(&root).keep(run, list).map_err(|error| state::failure(&error)));
    if let Err(failure) = kept {
        context.note(&format!("the start estimates were not saved: {}", failure.message));
    }
}
