//! A job as seen in looks at a site's queue, without names.

use serde::{Deserialize, Serialize};

use crate::learnt::queue_figures::with_player;
use crate::{Asks, Estimate, Request, Snapshot};
use hsched_model::number::{to_f64, to_u32};
use hsched_model::{GpuType, Seconds, Time};
use hsched_waits::{QueueFigures, WaitRecord};

/// Converts a name to a number that does not reveal the name.
pub(crate) type NumberOf<'a> = &'a dyn Fn(&str) -> u64;

/// A job or an array of jobs: its request, the queue at its submission, and its outcome.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SeenJob {
    /// A number in place of its Slurm id.
    pub job: u64,
    #[serde(flatten)]
    pub size: RequestSize,
    pub submitted: Time,
    /// The look whose queue gives the features, and the start of the observed wait. This is the look before
    /// the job's submission or, if there is none or it is too old, the first look that shows the job pending.
    /// `None` if no part of the wait was observed, as for jobs running at the first look.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked: Option<WaitStart>,
    /// Whether any look has shown the job eligible to start.
    pub eligible: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub player: Option<PlayerEstimate>,
    /// The last look that showed the job pending.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pending_at: Option<Time>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started: Option<Time>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<Time>,
}

/// A job's request and its owner, as numbers.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct RequestSize {
    /// Numbers in place of user and account, and of partition and GPU type.
    pub owner: u32,
    pub partition: u32,
    pub cpus: f64,
    pub memory_mib: f64,
    pub limit_s: f64,
    pub gpus: f64,
    pub priority: f64,
}

/// When a wait began, and the queue at that time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WaitStart {
    pub look: Time,
    pub at: Time,
    pub queue: QueueFigures,
}

/// The simulation's estimate for a pending job: quantiles of its wait from a look on.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlayerEstimate {
    pub at: Time,
    pub low_s: f64,
    pub median_s: f64,
    pub high_s: f64,
}

impl PlayerEstimate {
    pub fn new(at: Time, estimate: &Estimate) -> Self {
        let Estimate { low: Seconds(low_s), median: Seconds(median_s), high: Seconds(high_s), .. } =
            *estimate;
        Self { at, low_s, median_s, high_s }
    }
}

impl RequestSize {
    /// Returns the size of a job with these requested resources, owner, partition, time limit in seconds and
    /// priority.
    pub(super) fn new(
        asks: &Asks,
        (user, account): (Option<&str>, Option<&str>),
        partition: Option<&str>,
        (limit, priority): (f64, f64),
        number: NumberOf,
    ) -> Self {
        let nodes = f64::from(asks.nodes.max(1));
        let gpus: u32 = asks.gpus.iter().map(|ask| ask.count).sum();
        let gpu_type = asks.gpus.first().and_then(|ask| ask.gpu_type.as_ref()).map_or("", GpuType::as_str);
        let owner = format!("{}\n{}", user.unwrap_or_default(), account.unwrap_or_default());
        let partition = format!("{}\n{gpu_type}", partition.unwrap_or_default());
        let short = |name: &str| to_u32(to_f64(number(name) >> 32));
        Self {
            owner: short(&owner),
            partition: short(&partition),
            cpus: nodes * asks.cpus.map_or(1.0, to_f64),
            memory_mib: nodes * asks.memory_mib.map_or(0.0, to_f64),
            limit_s: limit,
            gpus: nodes * f64::from(gpus),
            priority,
        }
    }

    /// Returns the size of a request by the user.
    pub(super) fn of_request(request: &Request, snapshot: &Snapshot, number: NumberOf) -> Self {
        let account = request.account.as_deref().or_else(|| snapshot.own_account());
        // Jobs of the queue are seen with their first partition.
        let named = request.partition.as_deref().and_then(|names| names.split(',').next());
        let partition = named.or_else(|| snapshot.default_partition());
        let priority = snapshot.priority_of(request).priority;
        let whose = (snapshot.user.as_deref(), account);
        Self::new(&request.asks, whose, partition, (request.limit.0, priority), number)
    }

    /// Returns the record of a request of this size that is made at a given time.
    pub(super) fn record(&self, id: u64, at: Time, queue: QueueFigures) -> WaitRecord {
        WaitRecord {
            id,
            asked: at,
            submitted: at,
            eligible: Some(at),
            account: self.owner,
            partition: self.partition,
            cpus: self.cpus,
            memory_mib: self.memory_mib,
            limit_s: self.limit_s,
            gpus: self.gpus,
            queue,
            started: None,
            ended: None,
            pending_until: None,
        }
    }
}

impl SeenJob {
    /// Returns the training example for the site's waits, and the look whose queue gives its features; `None`
    /// if its wait was not observed. `is_open` tells whether the last look showed the job. A job that left
    /// the queue without starting counts as pending until the last look that showed it pending, or until its
    /// end in the records.
    pub(super) fn wait(&self, is_open: bool) -> Option<(Time, WaitRecord)> {
        let WaitStart { look, at, queue } = self.asked.clone()?;
        // The simulation's estimate counts from the look at which it was made.
        let player = self.player.map(|player| player.at.since(at).0 + player.median_s);
        let queue = with_player(queue, player);
        let pending_until = if is_open || self.started.is_some() { None } else { Some(self.pending_at?) };
        let record = WaitRecord {
            submitted: self.submitted,
            eligible: self.eligible.then_some(self.submitted),
            started: self.started,
            ended: self.ended,
            pending_until,
            ..self.size.record(self.job, at, queue)
        };
        Some((look, record))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_request::test_request;

    /// Of a user with one account, and of several partitions, as the jobs in the queue are seen.
    #[test]
    fn a_request_has_the_owner_and_partition_of_the_same_users_jobs() {
        let queue = r#"{"schema": "hsched.queue/1", "taken_at": 1, "user": "ann", "accounts": [{"name": "bio"}],
            "partitions": [{"name": "p"}, {"name": "q"}], "nodes": []}"#;
        let snapshot = Snapshot::parse(queue).expect("a snapshot");
        let number = |name: &str| {
            name.bytes().fold(7, |hash: u64, byte| hash.wrapping_mul(0x0100_0000_01b3) ^ u64::from(byte))
                << 20
        };
        let of = |account: Option<&str>, partition: &str| {
            let (account, partition) = (account.map(str::to_owned), Some(partition.to_owned()));
            let request = Request { account, partition, ..test_request(1, "v100", 1) };
            let size = RequestSize::of_request(&request, &snapshot, &number);
            (size.owner, size.partition)
        };
        assert_eq!(of(None, "p,q"), of(Some("bio"), "p"));
        assert_ne!(of(Some("chem"), "p").0, of(Some("bio"), "p").0);
        assert_ne!(of(None, "q").1, of(None, "p").1);
    }
}
