//! The search for a Slurm job named by the user: in the queue, with the controller, and in accounting.

use crate::app::slurm::client::slurm_failure;
use crate::app::slurm::why::found::{in_queue, is_id, is_meant, is_same, is_zero, most_alive, of_record};
use crate::app::slurm::why::{FoundJob, JobFinder};
use hsched_engine::clock::Clock;
use hsched_model::{ErrorId, JobId};
use hsched_slurm::job_details::{self, JobDetails};
use hsched_slurm::{JobRecord, QueuedJob, read, sacct, scontrol_job};
use hsched_ui::{Exit, Failure};

/// How far back accounting is queried.
const PAST: chrono::TimeDelta = chrono::TimeDelta::days(30);

impl JobFinder<'_> {
    /// Returns the jobs with an id or a name; several for an array, a heterogeneous job or an ambiguous name.
    ///
    /// # Errors
    /// If the job is unknown (exit 1), or Slurm does not answer.
    pub(crate) fn find(&mut self, wanted: &str) -> Result<Vec<FoundJob>, Failure> {
        if !is_id(wanted) {
            return self.named(wanted);
        }
        // Slurm prints all jobs for this id.
        if is_zero(wanted) {
            return Err(self.unknown(wanted));
        }
        if !self.is_live {
            let jobs = in_queue(&self.queue.snapshot.jobs, wanted);
            let found = jobs.into_iter().map(|job| FoundJob {
                id: job.id.clone(),
                name: None,
                job: Some(job),
                details: None,
                record: None,
            });
            let found: Vec<FoundJob> = found.collect();
            return if found.is_empty() { Err(self.unknown(wanted)) } else { Ok(found) };
        }
        let details = self.details(wanted)?;
        let details = most_alive(details.into_iter().filter(|detail| is_meant(detail, wanted)).collect());
        if details.is_empty() {
            return self.in_accounting(wanted);
        }
        let is_missing = |job_details: &JobDetails| {
            job_details.record.state.is_pending()
                && !self
                    .queue
                    .snapshot
                    .jobs
                    .iter()
                    .any(|job| is_same(job, job_details) && job.running.is_none())
        };
        if details.iter().any(is_missing) {
            self.look_anew()?;
        }
        Ok(details.into_iter().map(|detail| self.with_job(detail)).collect())
    }

    /// Combines the controller's data about a job with its entry in the queue.
    fn with_job(&mut self, details: JobDetails) -> FoundJob {
        let is_pending = details.record.state.is_pending();
        let jobs = &mut self.queue.snapshot.jobs;
        let known = jobs.iter_mut().find(|job| is_same(job, &details) && job.running.is_none() == is_pending);
        if let Some(job) = known {
            if is_pending {
                details.refresh(job);
            }
            let (id, job) = (job.id.clone(), Some(job.clone()));
            return FoundJob {
                id,
                name: Some(details.record.name.clone()),
                job,
                details: Some(details),
                record: None,
            };
        }
        let (id, name) = (details.shown_id.clone(), Some(details.record.name.clone()));
        FoundJob { id, name, job: None, details: Some(details), record: None }
    }

    fn details(&self, id: &str) -> Result<Vec<JobDetails>, Failure> {
        let pause = |pause| self.context.clock.sleep(pause);
        match read(&self.context.slurm, &job_details::command(id), &pause) {
            Ok(output) => Ok(job_details::parse(&output.stdout)),
            Err(error) if scontrol_job::is_unknown(&error) => Ok(Vec::new()),
            Err(error) => Err(slurm_failure(&error)),
        }
    }

    /// Returns the user's jobs with a name: those in the queue, or else the last one that ended.
    fn named(&mut self, name: &str) -> Result<Vec<FoundJob>, Failure> {
        if !self.is_live {
            let message = format!("{name}: a snapshot has no names of jobs");
            return Err(Failure::new(Exit::Failed, message)
                .id(ErrorId::UnknownJob)
                .hint("give the id of a job"));
        }
        let queued: Vec<QueuedJob> = self.own_jobs()?.into_iter().filter(|job| job.name == name).collect();
        let in_queue: Vec<&QueuedJob> = queued.iter().filter(|job| !job.state.is_final()).collect();
        let meant = if in_queue.is_empty() { queued.iter().rev().take(1).collect() } else { in_queue };
        let mut found: Vec<FoundJob> = Vec::new();
        for job in meant {
            found.extend(self.find(&job.id.to_string())?);
        }
        if !found.is_empty() {
            return Ok(found);
        }
        if self.context.slurm.config().is_some_and(hsched_slurm::site::Config::lacks_accounting) {
            let message = format!("{name}: you have no job of this name in the queue");
            return Err(unknown_job(message));
        }
        let since = self.context.clock.now() - PAST;
        let user = crate::app::slurm::permissions::user_name();
        let printed = self.context.slurm.ask(&sacct::named_command(name, &user, since));
        let printed = printed.map_err(|error| {
            let message = format!(
                "{name}: you have no job of this name in the queue, and the accounting does not answer"
            );
            Failure::new(Exit::Failed, message).id(ErrorId::UnknownJob).hint(error.to_string())
        })?;
        let (records, _) = sacct::parse(&printed).unwrap_or_default();
        let last = records.into_iter().max_by(|one, other| one.submit_time.cmp(&other.submit_time));
        if let Some(record) = last {
            return Ok(vec![of_record(record)]);
        }
        let message = format!("{name}: you have no job of this name in the queue or in the last 30 days");
        Err(unknown_job(message))
    }

    /// Returns a job that the controller no longer knows.
    fn in_accounting(&self, wanted: &str) -> Result<Vec<FoundJob>, Failure> {
        let number = wanted.split(['_', '+']).next().and_then(|id| id.parse().ok()).map(JobId);
        let has_accounting =
            self.context.slurm.config().is_none_or(hsched_slurm::site::Config::has_accounting);
        let Some(id) = number.filter(|_| has_accounting) else { return Err(self.unknown(wanted)) };
        let since = self.context.clock.now() - PAST;
        let is_task = wanted.contains('_');
        let command =
            if is_task { sacct::task_command(wanted, since) } else { sacct::any_user_command(id, since) };
        let printed = match read(&self.context.slurm, &command, &|pause| self.context.clock.sleep(pause)) {
            Ok(output) => output.stdout,
            Err(error) => {
                self.context.note(&format!("the accounting does not answer: {error}"));
                String::new()
            }
        };
        let printed = if is_task { sacct::rows_of_task(&printed, wanted) } else { printed };
        let (records, _) = sacct::parse(&printed).unwrap_or_default();
        // A task has its own id, which usually differs from that of its array.
        let id = if is_task { records.last().map_or(id, |record| record.id) } else { id };
        match JobRecord::latest(&records, id).cloned() {
            Some(record) if is_task => Ok(vec![FoundJob { id: wanted.to_owned(), ..of_record(record) }]),
            Some(record) => Ok(vec![of_record(record)]),
            None => Err(self.unknown(wanted)),
        }
    }

    /// Returns the failure for an unknown job.
    fn unknown(&self, wanted: &str) -> Failure {
        let hides = |config: &hsched_slurm::site::Config| config.lists("PrivateData", "jobs");
        let is_hidden = self.queue.snapshot.others_hidden
            || self.is_live && self.context.slurm.config().is_some_and(hides);
        if is_hidden {
            let message = format!(
                "{wanted}: no such job, or a hidden one: this site hides the jobs of others (PrivateData=jobs)"
            );
            return unknown_job(message);
        }
        let place = if self.is_live { "Slurm knows" } else { "the snapshot has" };
        let what = if wanted.contains('_') { "task" } else { "job" };
        unknown_job(format!("{wanted}: {place} no such {what}"))
    }
}

fn unknown_job(message: String) -> Failure {
    Failure::new(Exit::Failed, message).id(ErrorId::UnknownJob).hint("squeue --me lists your jobs")
}
