//! A pending job as a request with its present position in the queue, for estimates of its start with and
//! without changes.

use crate::{PrioritySource, QueueJob, QueuePosition, Snapshot};
use hsched_model::{FurtherOptions, Request, RequestId};

/// A pending job, and the queue without it.
#[derive(Clone, Debug)]
pub struct PendingJob {
    pub job: QueueJob,
    pub rest: Snapshot,
}

impl PendingJob {
    /// Removes a pending job from the queue, which then has the job's user as its own user; `None` if the job
    /// is not pending in the queue.
    pub fn take(snapshot: &Snapshot, id: &str) -> Option<Self> {
        let is_meant = |job: &&QueueJob| job.id == id && job.running.is_none();
        let job = snapshot.jobs.iter().find(is_meant)?.clone();
        let mut rest = snapshot.clone();
        rest.jobs.retain(|job| job.id != id);
        if let Some(user) = job.user.as_ref().filter(|_| !job.ours) {
            rest.user = Some(user.clone());
            rest.accounts.clear();
            rest.jobs.iter_mut().for_each(|other| other.ours = other.user.as_ref() == Some(user));
            let branches = rest.shares.iter_mut().flat_map(|shares| &mut shares.branches);
            branches.for_each(|branch| branch.ours = branch.user.as_ref() == Some(user));
        }
        Some(Self { job, rest })
    }

    /// Returns the job as a request. Its priority is in its position.
    pub fn request(&self, id: RequestId) -> Request {
        let job = &self.job;
        let limit = job.limit_s.unwrap_or_else(|| self.rest.longest_limit(job));
        Request {
            id,
            asks: job.asks.clone(),
            partition: (!job.partitions.is_empty()).then(|| job.partitions.join(",")),
            account: job.account.clone(),
            limit,
            run: limit,
            further: FurtherOptions {
                qos: job.qos.clone(),
                reservation: job.reservation.clone(),
                begin: job.begin,
                nice: 0,
            },
        }
    }

    /// Returns the job's position in the queue.
    pub fn position(&self) -> QueuePosition {
        QueuePosition::of(&self.job)
    }

    /// Returns the job's position after it is changed to a request, with the priority of another QOS; `None` if
    /// the account changes and a priority is unknown.
    pub fn position_after(&self, to: &Request) -> Option<QueuePosition> {
        let of_qos = |qos: &Option<String>| {
            qos.as_ref().and_then(|qos| self.rest.qos_priority.get(qos)).copied().unwrap_or(0.0)
        };
        let position = self.position();
        let gain =
            if to.further.qos.is_some() { of_qos(&to.further.qos) - of_qos(&self.job.qos) } else { 0.0 };
        let position = QueuePosition { priority: position.priority + gain, ..position };
        if to.account.is_none() || to.account == self.job.account {
            return Some(position);
        }
        let worth = |account: Option<&String>| {
            let estimate = self.rest.priority_estimate(account.map(String::as_str));
            matches!(estimate.source, PrioritySource::OwnJob | PrioritySource::Weights)
                .then_some(estimate.priority)
        };
        let gain = worth(to.account.as_ref())? - worth(self.job.account.as_ref())?;
        Some(QueuePosition { priority: position.priority + gain, ..position })
    }
}

#[cfg(test)]
mod tests {
    use crate::{PendingJob, RequestId, Snapshot};

    #[test]
    fn another_qos_changes_the_priority_of_a_pending_job() {
        let queue = r#"{"schema": "hsched.queue/1", "taken_at": 100, "nodes": [], "qos_priority": {"normal": 10, "high": 50},
            "jobs": [{"id": "1", "ours": true, "qos": "normal", "priority": 100, "limit_s": 3600, "asks": {}}]}"#;
        let snapshot = Snapshot::parse(queue).expect("a snapshot");
        let pending = PendingJob::take(&snapshot, "1").expect("a pending job");
        let mut to = pending.request(RequestId(0));
        assert_eq!(pending.position_after(&to), Some(pending.position()));
        to.further.qos = Some("high".to_owned());
        let after = pending.position_after(&to).expect("a position");
        assert!((after.priority - pending.position().priority - 40.0).abs() < 1e-9, "{after:?}");
    }
}
