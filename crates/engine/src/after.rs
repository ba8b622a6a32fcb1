//! Jobs that wait for other jobs: for predecessors (`after`), or for runs of the same sweep if its limit
//! (`at_most`) is reached.

use std::collections::BTreeMap;

use crate::mark::wait_for;
use crate::promise::StartRank;
use crate::{Action, JobState, Outcome, Phase, State};
use hsched_model::{Job, JobName, Time};

/// Marks every pending job with the job that it waits for, and ends jobs with a predecessor that ended
/// without completing.
///
/// A predecessor that is missing from the state counts as completed: jobs that did not complete are kept
/// while another job waits for them. Waiting runs take the places of their sweep in the order of
/// [`StartRank`], equal ones in the order of the state.
pub(super) fn settle(state: &mut State, at: Time) -> Vec<Action> {
    let mut actions = Vec::new();
    if state.jobs.iter().all(|tracked| tracked.job.after.is_empty() && tracked.job.at_most.is_none()) {
        return actions;
    }
    loop {
        let open = not_completed(state);
        let before = actions.len();
        let mut at_once = AtOnce::of(state);
        for place in waiting(state) {
            let tracked = &mut state.jobs[place];
            let first = tracked.job.after.iter().find_map(|name| Some((name.clone(), *open.get(name)?)));
            let full = if first.is_none() { at_once.take(tracked, at) } else { None };
            match full {
                Some(run) => tracked.wait_for_run(run, at),
                None => actions.extend(tracked.stand_behind(first, at)),
            }
        }
        let given_up = |action: &Action| matches!(action, Action::GiveUp { .. });
        if !actions[before..].iter().any(given_up) {
            return actions;
        }
    }
}

/// Returns the indices of the waiting jobs in the order of [`StartRank`].
fn waiting(state: &State) -> Vec<usize> {
    let is_waiting = |(_, job): &(usize, &JobState)| matches!(job.phase, Phase::Waiting { .. });
    let waiting = state.jobs.iter().enumerate().filter(is_waiting);
    let mut waiting: Vec<(StartRank, usize)> =
        waiting.map(|(place, job)| (job.start_rank(), place)).collect();
    waiting.sort_by(|a, b| a.0.compare(&b.0));
    waiting.into_iter().map(|(_, place)| place).collect()
}

/// For each sweep with a limit: the number of its runs that are submitted or may be submitted now, and one of
/// them.
struct AtOnce(BTreeMap<String, (u32, JobName)>);

impl AtOnce {
    fn of(state: &State) -> Self {
        let mut counts = BTreeMap::new();
        for tracked in state.jobs.iter().filter(|tracked| tracked.phase.is_submitted()) {
            let Some(sweep) = limited(&tracked.job) else { continue };
            let (count, _) = counts.entry(sweep.to_owned()).or_insert_with(|| (0, tracked.job.name.clone()));
            *count += 1;
        }
        Self(counts)
    }

    /// Gives a pending job a place among the runs of its sweep. If the sweep's limit is reached, returns a
    /// run to wait for. A job that is not due yet, or that an earlier submission blocks, takes no place.
    fn take(&mut self, tracked: &JobState, at: Time) -> Option<JobName> {
        let sweep = limited(&tracked.job)?;
        let is_due = matches!(tracked.phase, Phase::Waiting { not_before, .. } if not_before.is_none_or(|due| due <= at));
        if !is_due || tracked.stray.is_some() {
            return None;
        }
        let (count, run) = self.0.entry(sweep.to_owned()).or_insert_with(|| (0, tracked.job.name.clone()));
        if tracked.job.at_most.is_some_and(|most| *count >= most) {
            return Some(run.clone());
        }
        *count += 1;
        None
    }
}

/// Returns the sweep of a run if that sweep limits how many of its runs are active at a time.
fn limited(job: &Job) -> Option<&str> {
    job.at_most.and(job.variant.as_ref()).map(|variant| variant.sweep.as_str())
}

/// Returns the jobs that have not completed; for those that never will, also how they ended.
fn not_completed(state: &State) -> BTreeMap<JobName, Option<&'static str>> {
    let end = |tracked: &JobState| match &tracked.phase {
        Phase::Ended { outcome: Outcome::Completed, .. } => None,
        Phase::Ended { outcome: Outcome::Cancelled, .. } => Some(Some("was cancelled")),
        Phase::Ended { outcome: Outcome::Failed { .. }, .. } => Some(Some("failed")),
        Phase::Waiting { .. } | Phase::Submitted(_) => Some(None),
    };
    state.jobs.iter().filter_map(|tracked| Some((tracked.job.name.clone(), end(tracked)?))).collect()
}

impl JobState {
    /// Records that the sweep has as many active runs as it allows. This is not logged, because every waiting
    /// run of a large sweep would repeat it.
    fn wait_for_run(&mut self, run: JobName, at: Time) {
        let most = self.job.at_most.unwrap_or_default();
        let sweep = limited(&self.job).unwrap_or_default();
        let why = format!("at most {most} runs of {sweep} at a time");
        self.awaits = Some(run);
        let _ = wait_for(self, &why, at);
    }

    /// Makes the job wait for its first predecessor that has not completed, or ends it as failed if that
    /// predecessor will never complete. Without such a predecessor, the job no longer waits for one.
    fn stand_behind(&mut self, first: Option<(JobName, Option<&'static str>)>, at: Time) -> Option<Action> {
        match first {
            None => {
                if self.awaits.take().is_some() {
                    wait_for(self, Self::NOT_PLANNED, at);
                }
                None
            }
            Some((name, None)) => {
                let why = format!("depends on {name}, which has not completed");
                self.awaits = Some(name);
                wait_for(self, &why, at)
            }
            Some((name, Some(end))) => {
                let why = format!("depends on {name}, which {end}");
                self.awaits = None;
                self.finish(at, Outcome::Failed { reason: why.clone() });
                Some(Action::GiveUp { job: self.job.name.clone(), why })
            }
        }
    }
}
