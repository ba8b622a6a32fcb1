//! Pending jobs that do not compete yet, and the conditions for which they wait.

use std::collections::BTreeMap;

use crate::line::Joins;
use crate::{QueueJob, Snapshot};
use hsched_model::number::to_u64;

/// The jobs for whose ends others wait, by index.
#[derive(Clone, Debug, Default)]
pub(super) struct AwaitedJobs {
    number: BTreeMap<String, usize>,
    pub list: Vec<AwaitedJob>,
}

/// A job for whose end others wait; the tasks of an array form one.
#[derive(Clone, Debug, Default)]
pub(super) struct AwaitedJob {
    /// Number of the job's tasks that have not ended: running, pending or unable to start.
    pub tasks: u32,
    /// Ends of the limits of its running tasks, in Unix seconds.
    pub ends: Vec<f64>,
}

impl AwaitedJobs {
    pub(super) fn of(snapshot: &Snapshot) -> Self {
        let mut awaited = Self::default();
        for id in snapshot.jobs.iter().flat_map(|job| &job.after) {
            let next = awaited.number.len();
            awaited.number.entry(id.clone()).or_insert(next);
        }
        awaited.list.resize(awaited.number.len(), AwaitedJob::default());
        for job in &snapshot.jobs {
            for number in awaited.numbers_of(job) {
                let known = &mut awaited.list[number];
                known.tasks = known.tasks.saturating_add(job.tasks.max(1));
                let end = job.running.as_ref().map(|running| running.since.0 + snapshot.limit_of(job));
                known.ends.extend(end);
            }
        }
        awaited
    }

    /// Returns the indices by which waiting jobs may refer to this job: by its own id, by the first component
    /// of its heterogeneous job, or by its array.
    pub(super) fn numbers_of(&self, job: &QueueJob) -> Vec<usize> {
        if self.number.is_empty() {
            return Vec::new();
        }
        // Jobs that wait for a heterogeneous job name its first component.
        let leader = job.id.split('+').next().unwrap_or_default();
        let mut names = vec![job.id.as_str(), leader];
        names.extend(job.array.as_deref());
        names.dedup();
        names.iter().filter_map(|name| self.number.get(*name)).copied().collect()
    }

    /// Returns when a pending job that waits for a reason other than room begins to compete; `None` if
    /// unknown. Such a job is left out, as are held jobs, jobs whose dependency is not only the end of others
    /// (`singleton`, `afternotok`, `?` for "or"), and jobs that wait for jobs missing in the snapshot.
    pub(super) fn joins(&self, job: &QueueJob, snapshot: &Snapshot) -> Option<Joins> {
        let is_known = |name: &Option<String>| {
            snapshot.reservations.iter().any(|reservation| Some(&reservation.name) == name.as_ref())
        };
        match job.reason.as_deref()? {
            "BeginTime" => Some(Joins::At(job.begin?.0)),
            // The reservation's start is known.
            "Reservation" if is_known(&job.reservation) => Some(Joins::Now),
            "Dependency" if !job.after.is_empty() => {
                let number =
                    |id: &String| self.number.get(id).copied().filter(|number| self.list[*number].tasks > 0);
                job.after.iter().map(number).collect::<Option<Vec<usize>>>().map(Joins::After)
            }
            _ => None,
        }
    }
}

impl Snapshot {
    /// Returns how long a running job may run in total: up to its limit, and after that up to Slurm's
    /// allowance. A job beyond the allowance is assumed to overrun it by the same time again, but by at least
    /// [`STOPPING`] and at most [`LONGEST_OVERRUN`].
    pub(super) fn longest_run(&self, job: &QueueJob, since: f64) -> f64 {
        let limit = self.limit_of(job);
        let now = self.taken_at.0;
        if since + limit > now {
            return limit;
        }
        let end = since + limit + self.scheduling.overtime_s.map_or(0.0, |over| over.0) + STOPPING;
        if end > now { end - since } else { now - since + (now - end).clamp(STOPPING, LONGEST_OVERRUN) }
    }

    /// Returns a note on jobs that run longer than Slurm allows, if there are any.
    pub fn overrun_note(&self) -> Option<String> {
        let allowed = self.scheduling.overtime_s.map_or(0.0, |over| over.0) + STOPPING;
        let is_over = |job: &&QueueJob| {
            let since = job.running.as_ref().map(|running| running.since.0);
            since.is_some_and(|since| since + self.limit_of(job) + allowed <= self.taken_at.0)
        };
        let count = self.jobs.iter().filter(is_over).count();
        let jobs =
            if count == 1 { "1 running job is".to_owned() } else { format!("{count} running jobs are") };
        let minutes = to_u64(STOPPING / 60.0);
        (count > 0).then(|| {
            format!(
                "{jobs} past the time limit; when they end is estimated: as much later again, at least {minutes} min"
            )
        })
    }
}

/// Time that Slurm needs to detect and end a job at its limit, in seconds: it checks once a minute and kills
/// after `KillWait`.
const STOPPING: f64 = 120.0;

/// Maximum additional overrun assumed for a job, in seconds: one day.
const LONGEST_OVERRUN: f64 = 86_400.0;
