//! Past start estimates with the actual starts, and the resulting calibration.

use crate::app::context::Context;
use crate::app::start_estimates::OptionEstimate;
use crate::app::state;
use hsched_engine::Run;
use hsched_engine::store::{Predictions, SubmissionPrediction};
use hsched_model::Time;
use hsched_queue::{Calibration, StartPrediction};
use hsched_ui::Failure;

/// The calibration from past predictions, and their number.
pub(crate) type PastPredictions = (Calibration, usize);

/// Returns the predictions of the last 90 days, with their outcomes.
///
/// # Errors
/// If the state cannot be read.
pub(crate) fn known(context: &Context) -> Result<Vec<SubmissionPrediction>, Failure> {
    let state = crate::app::deferred_commands::expected(context, &state::rules(context))?;
    Ok(Predictions::of(&state::root(context)?).known(&state, state::now(context)))
}

/// Returns the calibration from past predictions; `None` if there are too few or they are unreadable.
pub(crate) fn learnt(context: &Context) -> Option<PastPredictions> {
    let known = known(context).ok()?;
    Calibration::learnt(known.iter().map(|predicted| &predicted.prediction))
}

/// Returns the predictions for those of a run's submissions that have an estimate, in order, from a look at
/// the queue at `at`.
pub(crate) fn of_run(run: &Run, foretold: &[OptionEstimate], at: Time) -> Vec<SubmissionPrediction> {
    let predicted = |(intent, estimate): (&hsched_engine::PlannedSubmission, &OptionEstimate)| {
        let forecast = estimate.start.forecast()?;
        let (start, starts) = (forecast.start, forecast.starts.clone());
        let prediction = StartPrediction { at, gpus: estimate.option.gpus, start, starts, started: None };
        let gpus = format!("{} {}", estimate.option.gpus, estimate.option.gpu_type);
        Some(SubmissionPrediction { of: run.key(intent), gpus, prediction, withdrawn: false })
    };
    run.submissions.iter().zip(foretold).filter_map(predicted).collect()
}

/// Stores the predictions of a run; a note reports a failure.
pub(crate) fn keep(context: &Context, run: &str, list: &[SubmissionPrediction]) {
    let kept = state::root(context)
        .and_then(|root| Predictions::of(&root).keep(run, list).map_err(|error| state::failure(&error)));
    if let Err(failure) = kept {
        context.note(&format!("the start estimates were not saved: {}", failure.message));
    }
}
