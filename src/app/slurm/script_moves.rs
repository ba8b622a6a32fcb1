//! Better requests for pending scripts, within the user's permission: in place if Slurm can change the job,
//! otherwise by another submission.

use std::time::Duration;

use crate::app::context::Context;
use crate::app::session::QueueSession;
use crate::app::slurm::script::{Script, ScriptFile, past_runs_of};
use crate::app::slurm::script_outlook::is_meant;
use crate::app::slurm::script_submission::KeptScript;
use crate::app::slurm::why::JobFinder;
use crate::app::state;
use hsched_engine::clock::Clock as _;
use hsched_engine::store::StateError;
use hsched_engine::{Answer, Event, Keeper as _, RequestPart, ScriptJob, Stage, apply};
use hsched_model::{Request, RequestId, Seconds, Time};
use hsched_queue::{
    Change, ChangeEstimate, ChangeQuestion, Drawback, PendingJob, Remedy, Snapshot, estimate_changes,
    is_component,
};
use hsched_slurm::script_changes::{SiteRequest, settings, site_request, words};
use hsched_slurm::{CommandLine, TestOnlyAnswer, change_command, sbatch};
use hsched_ui::{Failure, rough_duration};

/// Interval for evaluating a script's request.
const EVERY: Seconds = Seconds(600.0);

/// Minimum gain of a change, in seconds.
const LEAST_GAIN: f64 = 600.0;
/// Minimum gain of a change, as a fraction of the wait.
const LEAST_PART: f64 = 0.1;

/// Number of simulated futures, if time allows.
const FUTURES: usize = 60;

/// Parameters of the evaluation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MoveOptions {
    pub seed: u64,
    /// Time limit of the simulation for one script.
    pub budget: Duration,
    /// Whether changes are only shown.
    pub dry_run: bool,
}

/// A better request.
struct ScriptMove {
    /// Description, with its gain.
    words: String,
    kind: MoveKind,
}

enum MoveKind {
    /// The job keeps its place in the queue; the options would make the same request.
    InPlace(CommandLine, Vec<String>),
    /// Options of another submission.
    Anew(Vec<String>),
}

/// Searches for better requests of pending scripts and applies them; reports each answer, and returns other
/// notes.
///
/// # Errors
/// If the state cannot be written.
pub(crate) fn examine(
    context: &Context,
    session: &mut QueueSession<'_>,
    options: MoveOptions,
    tell: &mut dyn FnMut(&Event),
) -> Result<Vec<String>, Failure> {
    let at = state::now(context);
    let due: Vec<ScriptJob> =
        session.state.scripts.iter().filter(|script| is_due(script, at)).cloned().collect();
    if due.is_empty() {
        return Ok(Vec::new());
    }
    let mut finder = match JobFinder::live(context) {
        Ok(finder) => finder,
        Err(failure) => return Ok(vec![format!("pending scripts stay as they are: {}", failure.message)]),
    };
    let mut notes = Vec::new();
    for script in due {
        let name = script.name.clone();
        let found = better(context, &mut finder, &script, options);
        let chosen = match found {
            Ok(chosen) => chosen,
            Err(failure) => {
                notes.push(format!("{name} stays as it is: {}", failure.message));
                None
            }
        };
        if options.dry_run {
            notes.extend(chosen.map(|chosen| format!("{name}: its request would become {}", chosen.words)));
            continue;
        }
        if let Some(script) = session.state.script_mut(&name) {
            script.submission.examined = Some(at);
        }
        match chosen {
            None => session.keep(at, &[], &[]).map_err(|error| state::failure(&error))?,
            Some(chosen) => notes.extend(carry_out(context, session, &script, chosen, tell)?),
        }
    }
    Ok(notes)
}

fn is_due(script: &ScriptJob, at: Time) -> bool {
    let submission = &script.submission;
    let is_pending = submission.stage == Stage::Pending && submission.job_id.is_some() && !script.is_over();
    let is_old = submission.examined.is_none_or(|examined| at.since(examined) >= EVERY);
    is_pending && is_old && !script.may.is_empty() && submission.started.is_none()
}

/// Returns the best permitted request if the script starts notably sooner with it.
fn better(
    context: &Context,
    finder: &mut JobFinder<'_>,
    script: &ScriptJob,
    options: MoveOptions,
) -> Result<Option<ScriptMove>, Failure> {
    let Some(job_id) = script.submission.job_id else { return Ok(None) };
    let found = finder.find(&job_id.to_string())?;
    let job = found.iter().filter_map(|found_job| found_job.job.as_ref()).find(|job| job.running.is_none());
    let Some(job) = job.filter(|job| !is_component(&job.id)) else { return Ok(None) };
    let Some(pending) = PendingJob::take(&finder.queue.snapshot, &job.id) else { return Ok(None) };
    let kept = KeptScript::read(context, script)?;
    let file = ScriptFile { path: kept.path.clone(), bytes: kept.bytes.clone() };
    let submitted = Script::as_submitted(file, &script.options);
    let reading = submitted.reading(None);
    let (past, _) = past_runs_of(context, &script.slurm_name, &pending.rest)?;
    let request = pending.request(RequestId(0));
    let run_of = |request: &Request| past.usual_run(request);
    let run = run_of(&request).unwrap_or(request.limit);
    let request = Request { run: Seconds(run.0.min(request.limit.0)), ..request };
    let is_possible = |changes: &[Change]| {
        let is_allowed = |change: &Change| part(change).is_some_and(|part| script.may.contains(&part));
        let can_submit = || {
            settings(&reading, &request, changes)
                .is_some_and(|list| are_read(&submitted, &words(&list), changes, &finder.queue.snapshot))
        };
        let is_known = !is_anew(changes) || script.tasks.is_none() && can_submit();
        changes.iter().all(is_allowed) && is_known
    };
    let position = |changes: &[Change]| {
        if is_anew(changes) {
            return None;
        }
        let set = hsched_queue::ChangeSet { changes: changes.to_vec(), drawbacks: Vec::new() };
        pending.position_after(&set.applied(&request))
    };
    let (clock, begin) = (&context.clock, context.clock.elapsed());
    let stop = || clock.elapsed().saturating_sub(begin) >= options.budget;
    let question = ChangeQuestion {
        snapshot: &pending.rest,
        request: &request,
        past: &past,
        run_of: &run_of,
        is_possible: &is_possible,
        position: &position,
        seed: options.seed,
        samples: FUTURES,
        calibration: finder.queue.calibration(),
    };
    let estimates = estimate_changes(&question, &stop);
    let before = estimates.as_is.forecast().map(|forecast| forecast.start.median);
    let best = estimates.list.into_iter().filter(|change| is_worth(change, before));
    let start = |change: &ChangeEstimate| {
        change.start.forecast().map_or(f64::INFINITY, |forecast| forecast.start.median.0)
    };
    let best = best.min_by(|one, other| start(one).total_cmp(&start(other)));
    let Some(ChangeEstimate { set, sooner, .. }) = best else { return Ok(None) };
    let options = settings(&reading, &request, &set.changes).map(|list| words(&list)).unwrap_or_default();
    let options = [&script.options[..], &options].concat();
    let gain = sooner
        .map_or_else(String::new, |sooner| format!(" (starts about {} sooner)", rough_duration(sooner)));
    let is_anew = is_anew(&set.changes);
    let command = change_command(&set, &job.id);
    let remedy = if is_anew { Remedy::NewJob(set) } else { Remedy::InPlace(set) };
    let words = format!("{}{gain}", remedy.words(&request));
    if !is_anew {
        return Ok(Some(ScriptMove { words, kind: MoveKind::InPlace(command, options) }));
    }
    // A request that Slurm would refuse must not cost the job its place.
    let text = String::from_utf8_lossy(&kept.bytes).into_owned();
    let forecast = sbatch::test(&kept.runner, &sbatch::test_command(&text, &options));
    Ok(match forecast {
        Ok(TestOnlyAnswer::Starts(_) | TestOnlyAnswer::Unknown) => {
            Some(ScriptMove { words, kind: MoveKind::Anew(options) })
        }
        Ok(TestOnlyAnswer::Refused(_)) | Err(_) => None,
    })
}

/// Returns whether Slurm reads a script with these further options as its present request with the changes.
fn are_read(script: &Script, options: &[String], changes: &[Change], snapshot: &Snapshot) -> bool {
    let Some(SiteRequest { requests, .. }) = site_request(&script.reading(None), snapshot) else {
        return false;
    };
    // The pending job also shows Slurm's defaults, which the script does not name.
    let [request] = requests.as_slice() else { return false };
    let mut meant = request.clone();
    for change in changes {
        change.apply(&mut meant);
    }
    let text = script.file.as_ref().map(|file| file.bytes.as_slice());
    is_meant(&script.reading_of(text, options, None), snapshot, &meant)
}

/// Returns the part of a request that a change affects; `None` if that cannot be permitted.
fn part(change: &Change) -> Option<RequestPart> {
    match change {
        Change::GpuType(_) => Some(RequestPart::Type),
        Change::Partition(_) => Some(RequestPart::Partition),
        Change::Account(_) => Some(RequestPart::Account),
        Change::Limit(_) => Some(RequestPart::Limit),
        Change::Qos(_) | Change::Memory(_) | Change::Cpus(_) | Change::Gpus { .. } => None,
    }
}

/// Returns whether changes require another submission.
fn is_anew(changes: &[Change]) -> bool {
    changes.iter().any(|change| matches!(change, Change::GpuType(_)))
}

/// Returns whether a change gains enough and has no drawback that the user must accept: a limit that past
/// runs do not show to suffice, or preemption.
fn is_worth(change_estimate: &ChangeEstimate, before: Option<Seconds>) -> bool {
    let is_risky = |drawback: &Drawback| {
        matches!(
            drawback,
            Drawback::EndsAfter { need: None, .. }
                | Drawback::MayBePreempted { .. }
                | Drawback::PreemptsOwn { .. }
                | Drawback::PreemptsOthers { .. }
        )
    };
    if change_estimate.start.forecast().is_none() || change_estimate.set.drawbacks.iter().any(is_risky) {
        return false;
    }
    match (change_estimate.sooner, before) {
        (Some(sooner), Some(before)) => sooner.0 >= LEAST_GAIN.max(LEAST_PART * before.0),
        // Without a change, the script never starts, or its start is unknown.
        _ => true,
    }
}

/// Applies a change: the intent is stored before the request, and the answer after it.
fn carry_out(
    context: &Context,
    session: &mut QueueSession<'_>,
    script: &ScriptJob,
    chosen: ScriptMove,
    tell: &mut dyn FnMut(&Event),
) -> Result<Option<String>, Failure> {
    let wrong = |error: StateError| state::failure(&error);
    let at = state::now(context);
    let Some(job_id) = script.submission.job_id else { return Ok(None) };
    let Some(script_job) = session.state.script_mut(&script.name) else { return Ok(None) };
    let note = match &chosen.kind {
        MoveKind::InPlace(..) => {
            script_job.submission.change = Some(chosen.words);
            None
        }
        MoveKind::Anew(options) => {
            script_job.submit_again(at, options.clone());
            Some(format!("{}: submitting it again with {}", script.name, chosen.words))
        }
    };
    session.keep(at, &[], &[]).map_err(wrong)?;
    let answer = match &chosen.kind {
        MoveKind::InPlace(command, _) => session.world.amend_script(command),
        MoveKind::Anew(_) => session.world.cancel_pending(script, job_id),
    };
    let is_amended = answer == Answer::Amended;
    let event = Event::Answer { of: script.key(), answer };
    session.ledger.add(at, &event).map_err(wrong)?;
    apply(&mut session.state, at, &event, &session.rules);
    if let (MoveKind::InPlace(_, options), true, Some(script_job)) =
        (chosen.kind, is_amended, session.state.script_mut(&script.name))
    {
        script_job.options = options;
        session.keep(at, &[], &[]).map_err(wrong)?;
    }
    tell(&event);
    Ok(note)
}

#[cfg(test)]
mod tests {
    use super::*;
    use hsched_model::GpuType;

    #[test]
    fn options_that_slurm_reads_otherwise_are_no_change() {
        let queue = r#"{"schema": "hsched.queue/1", "taken_at": 1, "partitions": [{"name": "gpu", "default": true}],
            "nodes": [{"name": "n1", "gpus": [{"type": "v100", "count": 4}]}, {"name": "n2", "gpus": [{"type": "t4", "count": 4}]}]}"#;
        let snapshot = Snapshot::parse(queue).expect("a snapshot");
        let bytes = b"#!/bin/bash\n#SBATCH --gres=gpu:v100:2 --time=60\n".to_vec();
        let file = ScriptFile { path: "train.sh".into(), bytes };
        let script = Script::as_submitted(file, &[]);
        let change = [Change::GpuType(GpuType::new("t4").expect("a type"))];
        let check = |option: &str, expected: bool| {
            assert_eq!(are_read(&script, &[option.to_owned()], &change, &snapshot), expected, "{option}");
        };
        check("--gres=gpu:t4:2", true);
        check("--gres=gpu:t4:1", false);
        // It stands beside --gres and does not replace it.
        check("--gpus-per-node=t4:2", false);
        check("--no-such-option", false);
    }
}
