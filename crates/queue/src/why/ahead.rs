//! The jobs before a pending job: their number, sizes and causes.

use std::collections::{BTreeMap, BTreeSet};

use crate::forecast::QueueTable;
use crate::why::words::{all_gpus, asked};
use crate::{PendingJob, QueueJob, Request, RequestId, Snapshot};
use hsched_model::formats::counted;
use hsched_model::number::to_f64;

/// Why a job is before another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    PartitionTier,
    FairShare,
    Age,
    Qos,
    Nice,
    /// Equal priorities, and earlier submission.
    Earlier,
    /// A part of the priority that the queue does not show: the job's size, its partition, or a site-specific
    /// factor.
    Other,
}

impl Cause {
    /// Returns the cause in one or two words.
    pub fn word(self) -> &'static str {
        match self {
            Self::PartitionTier => "partition tier",
            Self::FairShare => "fair share",
            Self::Age => "age",
            Self::Qos => "QOS",
            Self::Nice => "nice",
            Self::Earlier => "earlier submission",
            Self::Other => "another part of the priority",
        }
    }
}

/// A job before another one.
#[derive(Clone, Debug, PartialEq)]
pub struct AheadJob {
    pub job: QueueJob,
    pub cause: Cause,
}

/// The jobs before a pending job that compete for the same nodes, in order; for several partitions, those of
/// one partition after the other.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ahead {
    pub jobs: Vec<AheadJob>,
}

impl Ahead {
    /// Returns the jobs before a pending one; `None` if other users' jobs are hidden, or if no node can ever
    /// hold the job or a limit never allows it to start.
    pub fn of(pending: &PendingJob) -> Option<Self> {
        if pending.rest.others_hidden {
            return None;
        }
        let whole = pending.request(RequestId(0));
        let names: Vec<Option<String>> = match &whole.partition {
            Some(names) => names.split(',').map(|name| Some(name.to_owned())).collect(),
            None => vec![None],
        };
        let request = |(id, partition): (u32, Option<String>)| Request {
            id: RequestId(id),
            partition,
            ..whole.clone()
        };
        let requests: Vec<Request> = (0..).zip(names).map(request).collect();
        let positions: Vec<_> = requests.iter().map(|request| (request.id, pending.position())).collect();
        let table = QueueTable::placed(&pending.rest, &requests, &positions);
        let mut places: BTreeSet<usize> = BTreeSet::new();
        let mut order = Vec::new();
        for (part, entry) in table.entries.iter().flatten() {
            for waiting in table.before(*part, entry) {
                if places.insert(waiting.place) {
                    order.push(waiting.place);
                }
            }
        }
        table.entries.iter().flatten().next()?;
        let jobs = order
            .into_iter()
            .filter_map(|place| pending.rest.jobs.get(place))
            .map(|job| AheadJob { cause: pending.rest.cause(job, &pending.job), job: job.clone() });
        Some(Self { jobs: jobs.collect() })
    }

    /// Returns the total number of GPUs that these jobs request.
    pub fn gpus(&self) -> u64 {
        self.jobs.iter().fold(0, |sum: u64, ahead| sum.saturating_add(ahead.job.gpus()))
    }

    /// Returns the number of jobs for each cause, the most frequent first.
    pub(crate) fn causes(&self) -> Vec<(Cause, usize)> {
        let mut counts: BTreeMap<Cause, usize> = BTreeMap::new();
        for ahead in &self.jobs {
            *counts.entry(ahead.cause).or_default() += 1;
        }
        let mut list: Vec<(Cause, usize)> = counts.into_iter().collect();
        list.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        list
    }

    /// Returns the job with the most GPUs, then the most nodes; the first of equal ones.
    pub fn largest(&self) -> Option<&AheadJob> {
        let size = |ahead: &&AheadJob| (ahead.job.gpus(), ahead.job.asks.nodes);
        self.jobs.iter().rev().max_by_key(size)
    }

    /// Describes these jobs, in sentences.
    pub(super) fn sentences(&self) -> Vec<String> {
        let Some(largest) = self.largest() else {
            return vec!["No pending job is before it for the same nodes.".to_owned()];
        };
        let by = |(cause, count): &(Cause, usize)| match cause {
            _ if self.jobs.len() == 1 => format!("by {}", cause.word()),
            _ => format!("{count} by {}", cause.word()),
        };
        let causes: Vec<String> = self.causes().iter().map(by).collect();
        let verb = if self.jobs.len() == 1 { "is" } else { "are" };
        let jobs = counted(self.jobs.len(), "job");
        let gpus = match self.gpus() {
            0 => String::new(),
            gpus => format!(", with {} in all", counted(usize::try_from(gpus).unwrap_or(usize::MAX), "GPU")),
        };
        let first = format!("{jobs} {verb} before it for the same nodes{gpus}: {}.", causes.join(", "));
        let (id, asks) = (&largest.job.id, asked(&largest.job.asks));
        let second = match self.jobs.len() {
            1 => format!("It is job {id}, which asks for {asks}."),
            _ => format!("The largest is job {id}, which asks for {asks}."),
        };
        vec![first, second]
    }
}

impl QueueJob {
    /// Returns the GPUs that the job requests for all its pending tasks.
    pub fn gpus(&self) -> u64 {
        all_gpus(&self.asks).saturating_mul(u64::from(self.tasks.max(1)))
    }
}

impl Snapshot {
    /// Returns why a pending job precedes another one: the higher tier, the earlier submission at equal
    /// priorities, or the part of the priority in which it leads most.
    fn cause(&self, job: &QueueJob, behind: &QueueJob) -> Cause {
        let tier = |job: &QueueJob| self.tier(&job.partitions);
        if tier(job) > tier(behind) {
            return Cause::PartitionTier;
        }
        let priority = |job: &QueueJob| to_f64(job.priority.unwrap_or(0));
        let difference = priority(job) - priority(behind);
        if difference <= 0.0 {
            return Cause::Earlier;
        }
        let factors = self.shares.as_ref().map(crate::Shares::factors_now);
        let share = |job: &QueueJob| {
            let shares = self.shares.as_ref()?;
            let branch = shares.branch_of(Some(job.user.as_deref()?), job.account.as_deref())?;
            Some(shares.weight * factors.as_ref()?[branch])
        };
        let parts = |job: &QueueJob| {
            [
                (Cause::FairShare, share(job).unwrap_or(0.0)),
                (Cause::Age, self.age_part(job)),
                (
                    Cause::Qos,
                    job.qos.as_ref().and_then(|qos| self.qos_priority.get(qos)).copied().unwrap_or(0.0),
                ),
                (Cause::Nice, -to_f64(job.nice)),
            ]
        };
        let by_part: Vec<(Cause, f64)> = parts(job)
            .iter()
            .zip(parts(behind))
            .map(|((cause, length), (_, other))| (*cause, length - other))
            .collect();
        let known: f64 = by_part.iter().map(|(_, length)| length).sum();
        let rest = (Cause::Other, difference - known);
        let all = by_part.into_iter().chain(std::iter::once(rest));
        all.max_by(|(_, a), (_, b)| a.total_cmp(b)).map_or(Cause::Other, |(cause, _)| cause)
    }

    /// Returns the contribution of age to a pending job's priority.
    fn age_part(&self, job: &QueueJob) -> f64 {
        let age = job.submitted.map_or(0.0, |submitted| self.taken_at.since(submitted).0.max(0.0));
        match self.scheduling.age {
            Some(known) if known.max_s.0 > 0.0 => known.weight * (age / known.max_s.0).min(1.0),
            _ => self.growth().per_hour * age / 3600.0,
        }
    }
}
