//! Information about Slurm jobs named by the user: from the queue, the controller and accounting.

mod finding;
mod found;

use std::time::Duration;

pub(crate) use self::found::FoundJob;
use crate::app::cluster_queue::ClusterQueue;
use crate::app::context::Context;
use crate::app::slurm::queue_look::{self, Freshness};
use crate::app::slurm::script::past_runs_of;
use crate::app::start_estimates::QueueViewArgs;
use hsched_engine::clock::Clock;
use hsched_model::{ErrorId, Time};
use hsched_queue::{
    Futures, PastRuns, PendingJob, QueueJob, StartAdvice, StateKind, WaitExplanation, explain,
};
use hsched_slurm::script::SlurmVersion;
use hsched_slurm::{QueuedJob, SlurmState, ended, squeue};
use hsched_ui::{Exit, Failure};

/// An explained job.
pub(crate) struct ExplainedJob {
    pub found: FoundJob,
    /// In Slurm's words; for a job in a snapshot, as far as the snapshot shows it.
    pub state: String,
    pub explanation: WaitExplanation,
    pub starts: StartAdvice,
    /// The job as a request, if it is pending.
    pub pending: Option<PendingJob>,
    /// The past runs with the name of the job, if remedies were looked for.
    pub past: PastRuns,
    /// Why its past runs are unknown.
    pub note: Option<String>,
}

/// The data for explanations.
pub(crate) struct JobFinder<'a> {
    pub context: &'a Context,
    pub queue: ClusterQueue,
    /// Whether Slurm can be called, which is not the case with a saved snapshot.
    is_live: bool,
}

impl<'a> JobFinder<'a> {
    /// Reads the queue.
    ///
    /// # Errors
    /// If a file is not a snapshot (exit 78), or Slurm does not answer (exit 69).
    pub(crate) fn new(context: &'a Context, view: &QueueViewArgs) -> Result<Self, Failure> {
        let queue = view.learnt_queues(context)?.into_iter().next();
        let queue = queue
            .ok_or_else(|| Failure::new(Exit::Usage, "no snapshot was given").id(ErrorId::OptionNeeds))?;
        Ok(Self { context, queue, is_live: view.snapshot.is_empty() })
    }

    /// Reads Slurm's queue.
    ///
    /// # Errors
    /// If Slurm does not answer (exit 69).
    pub(crate) fn live(context: &'a Context) -> Result<Self, Failure> {
        let queue = ClusterQueue::live(context, queue_look::look(context, Freshness::AMinute)?);
        Ok(Self { context, queue, is_live: true })
    }

    /// Returns the version of the cluster's Slurm; `None` with a snapshot, or if it is unknown.
    pub(crate) fn version(&self) -> Option<SlurmVersion> {
        let config = if self.is_live { self.context.slurm.config() } else { None };
        SlurmVersion::parse(config?.get("SLURM_VERSION")?)
    }

    /// Returns the user's pending jobs.
    ///
    /// # Errors
    /// If Slurm does not answer.
    pub(crate) fn own_pending(&mut self) -> Result<Vec<FoundJob>, Failure> {
        let named = if self.is_live { self.own_jobs()? } else { Vec::new() };
        // For an array, the set of pending tasks may have changed.
        let whole = |id: &str| id.split(['_', '+']).next().unwrap_or_default().to_owned();
        let is_missing = |queued_job: &QueuedJob| {
            let is_it =
                |job: &QueueJob| job.running.is_none() && whole(&job.id) == whole(&queued_job.shown_id);
            queued_job.state.is_pending() && !self.queue.snapshot.jobs.iter().any(is_it)
        };
        if named.iter().any(is_missing) {
            self.look_anew()?;
        }
        let name = |job: &QueueJob| {
            let is_meant = |queued_job: &&QueuedJob| queued_job.shown_id == job.id;
            named.iter().find(is_meant).map(|queued_job| queued_job.name.clone())
        };
        let pending = self.queue.snapshot.jobs.iter().filter(|job| job.ours && job.running.is_none());
        let found = pending.map(|job| FoundJob {
            id: job.id.clone(),
            name: name(job),
            job: Some(job.clone()),
            details: None,
            record: None,
        });
        Ok(found.collect())
    }

    /// Reads the queue again if this look is too old for the conclusion that a job starts at once; returns whether
    /// there is a newer one.
    ///
    /// # Errors
    /// If Slurm's answer cannot be read.
    pub(crate) fn look_for_start_now(&mut self) -> Result<bool, Failure> {
        let newer = self.queue.newer(self.context)?;
        let is_newer = newer.is_some();
        if let Some(newer) = newer {
            self.queue = newer;
        }
        Ok(is_newer)
    }

    /// Reads the queue again, because a job was submitted or changed since the last look.
    fn look_anew(&mut self) -> Result<(), Failure> {
        let site = self.queue.site.take();
        self.queue = ClusterQueue::live(self.context, queue_look::look(self.context, Freshness::Now)?);
        self.queue.site = site;
        Ok(())
    }

    fn own_jobs(&self) -> Result<Vec<QueuedJob>, Failure> {
        let printed = self.context.slurm.ask(&squeue::command())?;
        let (jobs, _) = squeue::parse(&printed)
            .map_err(|error| Failure::from_error(Exit::Failed, &error).id(ErrorId::SlurmOutput))?;
        Ok(jobs)
    }

    /// Explains a job; with `advised`, also the remedies. `budget` is the time for simulations.
    pub(crate) fn explained(
        &self,
        found: FoundJob,
        advised: bool,
        seed: u64,
        samples: usize,
        budget: Duration,
    ) -> ExplainedJob {
        let now = self.queue.snapshot.taken_at;
        let at = |time: Time| hsched_ui::moment(time, now);
        let pending = found.job.as_ref().filter(|job| job.running.is_none());
        let pending = pending.and_then(|job| PendingJob::take(&self.queue.snapshot, &job.id));
        if let Some(pending) = pending {
            let facts = found.details.as_ref().map(|details| &details.facts);
            let mut explanation = explain(&self.queue.snapshot, &pending, facts, &at);
            let futures = Futures { seed, samples, calibration: self.queue.calibration() };
            let (past, note) = if advised { self.past_runs(&found) } else { Default::default() };
            let begin = self.context.clock.elapsed();
            let clock = &self.context.clock;
            let is_over = |part: f64| clock.elapsed().saturating_sub(begin) >= budget.mul_f64(part);
            // The rest of the time is for the remedies.
            let first = if advised { FIRST_PART } else { 1.0 };
            let stops: [&(dyn Fn() -> bool + Sync); 2] = [&|| is_over(first), &|| is_over(1.0)];
            let starts = StartAdvice::of(&pending, &explanation, &past, futures, advised, stops);
            let starts = self.corrected(&pending, starts);
            if starts.is_now() {
                // Changing the job would not help.
                explanation.way_out.clear();
            }
            explanation.why.extend(self.preemption(&pending.job));
            let state =
                found.details.as_ref().map_or("PENDING".to_owned(), |detail| detail.record.state.to_string());
            return ExplainedJob { found, state, explanation, starts, pending: Some(pending), past, note };
        }
        let (state, mut explanation) = self.without_waiting(&found, &at);
        let running = found.job.as_ref().filter(|_| explanation.kind == StateKind::Running);
        explanation.why.extend(running.and_then(|job| self.preemption(job)));
        ExplainedJob {
            found,
            state,
            explanation,
            starts: StartAdvice { as_is: None, advice: Vec::new(), is_looked_for: false },
            pending: None,
            past: PastRuns::default(),
            note: None,
        }
    }

    /// Returns the past runs with the name of a job of the user, as for a script of this name; if Slurm does
    /// not answer, a note says why. A saved snapshot has none.
    fn past_runs(&self, found: &FoundJob) -> (PastRuns, Option<String>) {
        let is_own = self.is_live && found.job.as_ref().is_some_and(|job| job.ours);
        let name = found.name.as_deref().filter(|_| is_own);
        // Without a state directory, the answer cannot be kept.
        let known = name.map(|name| past_runs_of(self.context, name, &self.queue.snapshot));
        known.and_then(Result::ok).unwrap_or_default()
    }

    /// Returns a sentence about the QOS whose jobs may preempt a job.
    fn preemption(&self, job: &QueueJob) -> Option<String> {
        self.queue.snapshot.preempting_words(job.qos.as_deref()?)
    }

    /// Returns the starts according to the learnt model, if it is used.
    fn corrected(&self, pending: &PendingJob, starts: StartAdvice) -> StartAdvice {
        let site = self.queue.site.as_ref();
        let learnt =
            site.zip(starts.as_is.as_ref()).and_then(|(site, as_is)| site.pending_start(pending, as_is));
        match learnt {
            Some(start) => starts.corrected(start),
            None => starts,
        }
    }

    /// Explains a job that is running or has ended, or a pending job that the look at the queue does not
    /// show.
    fn without_waiting(&self, found: &FoundJob, at: &dyn Fn(Time) -> String) -> (String, WaitExplanation) {
        let record = found.details.as_ref().map(|details| &details.record).or(found.record.as_ref());
        let explanation = |kind, why, way_out| WaitExplanation {
            kind,
            reason: record.and_then(|record| record.reason.clone()).filter(|reason| reason != "None"),
            why,
            way_out,
            limit: None,
            ahead: None,
        };
        if let Some(record) =
            record.filter(|record| !record.state.is_pending() && !record.state.holds_nodes(&record.nodes))
        {
            let told = ended(record, &found.id);
            let mut way_out = told.way_out;
            let file = found.details.as_ref().and_then(|details| details.error_file.as_deref());
            if let Some(file) = file.filter(|file| record.state == SlurmState::Failed && *file != "/dev/null")
            {
                way_out.push(format!("Its messages are in {file}."));
            }
            return (record.state.to_string(), explanation(StateKind::Ended, told.why, way_out));
        }
        let state = record.map_or(SlurmState::Running, |record| record.state.clone());
        if state.is_pending() {
            let why = vec!["The look at the queue does not show it.".to_owned()];
            return (state.to_string(), explanation(StateKind::Waits, why, Vec::new()));
        }
        let is_suspended = matches!(state, SlurmState::Suspended | SlurmState::Stopped);
        let snapshot = &self.queue.snapshot;
        let mut why = Vec::new();
        if let Some((job, running)) = found.job.as_ref().and_then(|job| Some((job, job.running.as_ref()?))) {
            let ran = hsched_ui::rough_duration(snapshot.taken_at.since(running.since));
            let limit = job.limit_s.unwrap_or_else(|| snapshot.longest_limit(job));
            let nodes: Vec<&str> = running.holds.iter().map(|held| held.node.as_str()).collect();
            let has = if is_suspended { "It started" } else { "It has run for" };
            let when = if is_suspended { format!("{ran} ago") } else { ran };
            why.push(format!("{has} {when} on {}.", nodes.join(", ")));
            let end = at(Time(running.since.0 + limit.0));
            if !is_suspended {
                why.push(format!(
                    "It ends at {end} at the latest (time limit {}).",
                    hsched_queue::span(limit)
                ));
            }
        } else if let Some(end) = record.and_then(|record| record.end_time.as_deref()) {
            why.push(format!("It runs, until {} at the latest.", end.replace('T', " ")));
        }
        let more = match state {
            SlurmState::Completing => Some("It has ended; Slurm cleans up after it."),
            SlurmState::Configuring => Some("Its nodes are being made ready."),
            _ if is_suspended => Some(
                "It is suspended: it does nothing, and keeps its GPUs and memory. That time does not count for its limit.",
            ),
            _ => None,
        };
        why.extend(more.map(str::to_owned));
        (state.to_string(), explanation(StateKind::Running, why, Vec::new()))
    }
}

/// The fraction of the budget for the unchanged job.
const FIRST_PART: f64 = 0.4;
