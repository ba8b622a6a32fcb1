//! Positions in the queue, of pending jobs and of a job that is not submitted yet.

use crate::line::id_order;
use crate::{QueueJob, Request, Snapshot};
use hsched_model::Time;
use hsched_model::number::to_f64;

/// The position of a pending job in the queue.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct QueuePosition {
    pub priority: f64,
    pub submitted: Time,
    /// Order among jobs with the same priority and submission, lower first.
    pub order: u32,
}

impl QueuePosition {
    /// Returns the position of a pending job; a job with unknown priority comes last.
    pub fn of(job: &QueueJob) -> Self {
        let priority = to_f64(job.priority.unwrap_or(0));
        Self { priority, submitted: job.submitted.unwrap_or(Time(0.0)), order: id_order(&job.id) }
    }
}

/// The estimated priority of a job at its submission, and the source of the estimate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PriorityEstimate {
    pub priority: f64,
    pub source: PrioritySource,
}

/// The source of the priority estimate for a job that is not submitted yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PrioritySource {
    /// From the user's newest pending job of the account, minus its gained priority.
    OwnJob,
    /// Computed from Slurm's weights and the account's share.
    Weights,
    /// Unknown; the median of pending jobs is used.
    Median,
    /// Unknown without any data: last in the queue.
    Unknown,
}

impl PrioritySource {
    /// Returns the source in words.
    pub fn word(self) -> &'static str {
        match self {
            Self::OwnJob => "from your newest pending job",
            Self::Weights => "from Slurm's priority weights and the account's fair share",
            Self::Median => "unknown: the median of the pending jobs is assumed",
            Self::Unknown => "unknown: the last place in the queue is assumed",
        }
    }
}

impl QueueJob {
    /// Returns the priority that the job would have had at its submission with a nice value of 0, if known.
    pub(super) fn first_priority(&self, now: Time, per_hour: f64) -> Option<f64> {
        let until = self.running.as_ref().map_or(now, |running| running.since);
        let hours = self.submitted.map_or(0.0, |submitted| until.since(submitted).0 / 3600.0);
        self.priority.map(|priority| to_f64(priority) + to_f64(self.nice) - hours * per_hour)
    }
}

impl Snapshot {
    /// Returns the priority that a request would get now, with its nice value and, unless the estimate is a
    /// median or unknown, its QOS.
    pub fn priority_of(&self, request: &Request) -> PriorityEstimate {
        let account = request.account.as_deref();
        let estimate = self.priority_estimate(account);
        let adds = |qos: Option<&str>| qos.and_then(|qos| self.qos_priority.get(qos)).copied().unwrap_or(0.0);
        let asked = request.further.qos.as_deref();
        let gain = match estimate.source {
            PrioritySource::OwnJob => {
                let qos = self.newest_own(account).and_then(|job| job.qos.as_deref());
                asked.map_or(0.0, |asked| adds(Some(asked)) - adds(qos))
            }
            PrioritySource::Weights => {
                let account = account.or_else(|| self.own_account());
                adds(Some(asked.unwrap_or_else(|| self.own_qos(account))))
            }
            PrioritySource::Median | PrioritySource::Unknown => 0.0,
        };
        PriorityEstimate { priority: estimate.priority + gain - to_f64(request.further.nice), ..estimate }
    }

    /// Returns the user's newest pending job of an account whose priority indicates the priority of a new
    /// job.
    fn newest_own(&self, account: Option<&str>) -> Option<&QueueJob> {
        let is_own = |job: &&QueueJob| {
            // A held job has no priority, and a job that waits for something else may have gained no age.
            let waits = job.ours && job.running.is_none() && !job.waits_for_other;
            waits && account.is_none_or(|name| job.account.as_deref() == Some(name))
        };
        let newest = |job: &&QueueJob| job.submitted.map_or(f64::NEG_INFINITY, |time| time.0);
        self.jobs.iter().filter(is_own).max_by(|a, b| newest(a).total_cmp(&newest(b)))
    }

    /// Returns the priority that a job of an account would get now.
    pub fn priority_estimate(&self, account: Option<&str>) -> PriorityEstimate {
        let per_hour = self.growth().per_hour;
        let newest = self.newest_own(account);
        if let Some(priority) = newest.and_then(|job| job.first_priority(self.taken_at, per_hour)) {
            return PriorityEstimate { priority, source: PrioritySource::OwnJob };
        }
        let is_meant = |known: &&crate::QueueAccount| match account {
            Some(name) => known.name == name,
            None => known.default || self.accounts.len() == 1,
        };
        if let Some(priority) = self.accounts.iter().find(is_meant).and_then(|account| account.priority) {
            return PriorityEstimate { priority: to_f64(priority), source: PrioritySource::Weights };
        }
        let waiting = self.jobs.iter().filter(|job| job.running.is_none());
        let mut known: Vec<f64> =
            waiting.filter_map(|job| job.first_priority(self.taken_at, per_hour)).collect();
        known.sort_by(f64::total_cmp);
        match known.get(known.len() / 2) {
            Some(&priority) => PriorityEstimate { priority, source: PrioritySource::Median },
            None => PriorityEstimate { priority: 0.0, source: PrioritySource::Unknown },
        }
    }
}
