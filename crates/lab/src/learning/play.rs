//! Replays of traces, from which the network of `mlf-rl` learns.

use crate::find_over_time;
use crate::learning::goal::{ScheduleScore, TraceResult};
use crate::mlfs::{Chooser, MlfRl, RecordedChoice};
use crate::replay::{Hooks, Options, ReplayError, ReplayRecord, Trace, replay};
use hsched_model::number::to_f64;
use hsched_plan::{Parameters, Policy};

/// Replays a trace with a chooser; returns the results and the choices.
pub(super) fn play(
    trace: &Trace,
    chooser: Chooser,
) -> Result<(ReplayRecord, Vec<RecordedChoice>), ReplayError> {
    let mut policy = MlfRl::new(chooser, true);
    let record = record(trace, &mut policy)?;
    Ok((record, policy.take_choices()))
}

fn record(trace: &Trace, policy: &mut dyn Policy) -> Result<ReplayRecord, ReplayError> {
    let hooks = Hooks { event: &mut |_| (), progress: &mut |_| (), elapsed: &|| 0.0 };
    replay(trace, &Options::default(), policy, hooks)
}

/// Returns the mean score of a chooser over traces.
///
/// # Errors
/// If a trace cannot be replayed.
pub(super) fn score(traces: &[Trace], chooser: impl Fn() -> Chooser) -> Result<ScheduleScore, ReplayError> {
    mean(traces, |trace| Ok(play(trace, chooser())?.0))
}

/// Returns the mean score of a policy over traces.
///
/// # Errors
/// If there is no policy with that name, or a trace cannot be replayed.
pub fn of_policy(traces: &[Trace], name: &str) -> Result<ScheduleScore, ReplayError> {
    let played = |trace: &Trace| {
        let mut policy = find_over_time(name, &Parameters::default())?;
        record(trace, policy.as_mut())
    };
    mean(traces, played)
}

fn mean(
    traces: &[Trace],
    record: impl Fn(&Trace) -> Result<ReplayRecord, ReplayError>,
) -> Result<ScheduleScore, ReplayError> {
    let mut sum = ScheduleScore::default();
    for trace in traces {
        let score = TraceResult::of(trace, &record(trace)?).score;
        sum.mean_jct += score.mean_jct;
        sum.met += score.met;
        sum.reward += score.reward;
    }
    let count = to_f64(traces.len().max(1));
    Ok(ScheduleScore { mean_jct: sum.mean_jct / count, met: sum.met / count, reward: sum.reward / count })
}
