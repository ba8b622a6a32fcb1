//! Conditions of a partition that a pending job violates.

use crate::{LimitUse, QueueJob, QueueNode, QueuePartition, Snapshot};
use hsched_model::number::to_f64;

/// A condition of a partition that never allows a job to start.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Breach {
    /// Text for the end of a sentence.
    pub words: String,
    pub limit: Option<LimitUse>,
}

impl Snapshot {
    /// Returns the conditions of a partition that a job violates; empty for an unknown partition.
    pub(super) fn breaches(&self, job: &QueueJob, partition: &str) -> Vec<Breach> {
        let Some(queue_partition) = self.partitions.iter().find(|known| known.name == partition) else {
            return Vec::new();
        };
        let account = job.account.as_deref().filter(|name| !queue_partition.allows_account(Some(name)));
        let qos = job.qos.as_deref().filter(|name| !queue_partition.allows_qos(Some(name)));
        let refused = [
            account.map(|name| ("account", name, &queue_partition.accounts)),
            qos.map(|name| ("QOS", name, &queue_partition.qos)),
        ];
        let in_words = refused.into_iter().flatten().map(|(what, name, allowed)| {
            let allowed = allowed.as_ref().map(|set| set.iter().cloned().collect::<Vec<_>>().join(", "));
            let allowed = allowed.map_or_else(String::new, |names| format!(" (it allows {names})"));
            format!("partition {partition} does not allow {what} {name}{allowed}")
        });
        let limits = numbers(queue_partition, job)
            .into_iter()
            .chain(self.more_nodes_than(queue_partition, job))
            .map(|limit| Breach { words: limit.never(), limit: Some(limit) });
        limits.chain(in_words.map(|words| Breach { words, limit: None })).collect()
    }

    /// Returns the number of a partition's nodes as a limit, `TotalNodes`, if a job that `MaxNodes` allows
    /// requests more.
    fn more_nodes_than(&self, partition: &QueuePartition, job: &QueueJob) -> Option<LimitUse> {
        let needed = job.asks.nodes.max(1);
        let is_inside = |node: &&QueueNode| node.partitions.contains(&partition.name);
        let nodes = to_f64(self.nodes.iter().filter(is_inside).count());
        let is_over = partition.max_nodes.is_none_or(|most| needed <= most) && f64::from(needed) > nodes;
        // If no node is in the partition, the snapshot does not show the partition's nodes.
        (is_over && nodes > 0.0).then(|| exceeded(partition, "TotalNodes", nodes, f64::from(needed)))
    }
}

/// Returns the numeric limits of a partition that a job exceeds.
fn numbers(partition: &QueuePartition, job: &QueueJob) -> Vec<LimitUse> {
    let limit = |name: &str, max: f64, needed: f64| exceeded(partition, name, max, needed);
    let time = partition
        .max_time_s
        .zip(job.limit_s)
        .map(|(most, limit_of_job)| limit("MaxTime", most.0 / 60.0, limit_of_job.0 / 60.0));
    let nodes =
        partition.max_nodes.map(|most| limit("MaxNodes", f64::from(most), f64::from(job.asks.nodes.max(1))));
    [time, nodes].into_iter().flatten().filter(|limit| limit.needed > limit.max).collect()
}

/// Returns a limit of a partition on single jobs.
fn exceeded(partition: &QueuePartition, name: &str, max: f64, needed: f64) -> LimitUse {
    LimitUse {
        name: name.to_owned(),
        holder: format!("p:{}", partition.name),
        tres: None,
        max,
        used: None,
        by_you: 0.0,
        needed,
    }
}
