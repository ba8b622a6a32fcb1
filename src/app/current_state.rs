//! The current state, including ranks' reports since it was written, and deferred commands.

use std::path::{Path, PathBuf};

use crate::app::context::Context;
use crate::app::{deferred_commands, session, state};
use hsched_engine::live::{ReportedData, reported_by};
use hsched_engine::store::samples::RecentSamples;
use hsched_engine::store::{StateDir, StateView};
use hsched_engine::{
    EpochReport, Event, JobState, News, Phase, Rules, Stage, State, Submission, SubmissionRecord, apply,
};
use hsched_model::Time;
use hsched_ui::Failure;

/// The current state, read without its lock and without calling Slurm.
pub(crate) struct CurrentState {
    pub state: State,
    pub root: PathBuf,
    pub now: Time,
    /// The cluster of the jobs; `None` if it is unknown.
    pub cluster: Option<String>,
    /// The command that continues the jobs.
    pub follower: &'static str,
    /// Whether their `hsched run` has ended.
    pub is_left: bool,
    /// Messages about damaged or lost files.
    pub warnings: Vec<String>,
    /// Notes on unreadable data.
    pub notes: Vec<String>,
}

impl CurrentState {
    /// Reads the state; `samples` are those of running submissions, as last read.
    ///
    /// # Errors
    /// If no state directory is known, or its state cannot be read.
    pub(crate) fn read(context: &Context, samples: &mut RecentSamples) -> Result<Self, Failure> {
        let root = state::root(context)?;
        let rules = state::rules(context);
        let StateView { mut state, deferred_commands: commands, troubles, lost, cluster } =
            StateDir::peek(&root, &rules).map_err(|error| state::failure(&error))?;
        // In a new state directory, either command may come first.
        let is_new = cluster.is_none() && state.jobs.is_empty() && state.scripts.is_empty();
        let follower =
            if is_new { "hsched watch or hsched run" } else { state::follower(cluster.as_deref()) };
        let troubles = troubles.iter().map(|trouble| format!("{trouble}; the next {follower} repairs it"));
        let lost =
            lost.iter().map(|command| format!("{command}; the deferred command is lost: run it again"));
        let warnings = troubles.chain(lost).collect();
        let now = state::now(context);
        let notes = count_reported(&mut state, &root, samples, now, &rules);
        deferred_commands::show(&mut state, &commands, &rules, follower);
        let is_left = cluster.as_deref() == Some(session::LOCAL_CLUSTER) && !StateDir::is_held(&root);
        if is_left {
            show_interrupted(&mut state, now);
        }
        Ok(Self { state, root, now, cluster, follower, is_left, warnings, notes })
    }
}

/// Shows jobs as waiting if the `hsched run` that ran them no longer exists: they ended with it, and continue
/// with the next one.
fn show_interrupted(state: &mut State, now: Time) {
    for tracked in state.jobs.iter_mut().filter(|tracked| tracked.phase.is_submitted()) {
        let from = if tracked.epochs_done > 0 {
            let condition = if tracked.resumes() { "" } else { JobState::IF_SAVED };
            format!("; resumes after epoch {}{condition}", tracked.epochs_done)
        } else {
            String::new()
        };
        let reason = format!("ended with its hsched run{from}");
        tracked.last = (tracked.epoch_at.unwrap_or(now), reason.clone());
        tracked.phase = Phase::Waiting { not_before: None, reason };
    }
}

/// Adds the epochs (with starts), odd data and stalls that ranks have reported since the state was written.
///
/// Returns notes on unreadable reports.
fn count_reported(
    state: &mut State,
    root: &Path,
    samples: &mut RecentSamples,
    now: Time,
    rules: &Rules,
) -> Vec<String> {
    let mut all_notes = Vec::new();
    // Job by job, because the epochs of all jobs may need much memory.
    for number in 0..state.jobs.len() {
        let ReportedData { epochs, odd, stalls, notes, .. } =
            reported_by(root, &state.jobs[number], samples, now);
        for (of, what) in odd {
            apply(state, now, &Event::News { of, news: News::Odd { what } }, rules);
        }
        for (of, report) in epochs {
            let submission = state.jobs[number].submission(&of);
            if let Some(news) = submission.and_then(|submission| started(submission, &report)) {
                apply(state, now, &Event::News { of: of.clone(), news }, rules);
            }
            apply(state, now, &Event::News { of, news: News::Epoch(report) }, rules);
        }
        state.jobs[number].show_stalls(&stalls);
        all_notes.extend(notes);
    }
    samples.keep_only(root, state);
    all_notes
}

/// Returns the start of a submission that was last seen pending, but for which a rank has reported an epoch.
fn started(submission: &Submission, report: &EpochReport) -> Option<News> {
    let Submission { attempt: SubmissionRecord { job_id, submit_time, .. }, stage: Stage::Pending } =
        submission
    else {
        return None;
    };
    let at = Time(report.at.0 - report.length.map_or(0.0, |length| length.0));
    Some(News::Started { job_id: (*job_id)?, submit_time: submit_time.clone(), at, gpus: None })
}
