//! Partitions of the queue, from `scontrol show partition`.

use std::collections::{BTreeMap, BTreeSet};

use crate::site::{Config, PartitionLimits};
use hsched_queue::{Billing, QueuePartition, Weigh};

/// Returns the partitions that are up or whose state is unknown; `config` has the rules for billing and
/// preemption.
pub(super) fn partitions(limits: &[PartitionLimits], config: &Config) -> Vec<QueuePartition> {
    let highest = limits.iter().filter_map(|partition_limits| partition_limits.tier).max();
    let by_tier = config.get("PreemptType").is_some_and(|kind| kind.ends_with("partition_prio"));
    let weigh = if config.lists("PriorityFlags", "MAX_TRES") { Weigh::Max } else { Weigh::Sum };
    let open = limits.iter().filter(|partition_limits| is_open(partition_limits));
    open.map(|partition_limits| QueuePartition {
        name: partition_limits.name.clone(),
        default: partition_limits.default,
        default_time_s: partition_limits.default_time,
        max_time_s: partition_limits.max_time,
        max_nodes: partition_limits.max_nodes.and_then(|most| u32::try_from(most).ok()),
        tier: partition_limits.tier,
        accounts: named(&partition_limits.allow_accounts),
        qos: named(&partition_limits.allow_qos),
        deny_accounts: partition_limits.deny_accounts.iter().cloned().collect(),
        deny_qos: partition_limits.deny_qos.iter().cloned().collect(),
        limit_qos: partition_limits.limit_qos.clone(),
        preemptible: by_tier && partition_limits.preempted && partition_limits.tier < highest,
        suspends: partition_limits.suspends,
        exclusive: partition_limits.exclusive,
        billing: weights(&partition_limits.billing).map(|weights| Billing { weights, weigh }),
    })
    .collect()
}

/// Returns the states of the partitions that are not up, by name.
pub(super) fn closed(limits: &[PartitionLimits]) -> BTreeMap<String, String> {
    let closed = limits.iter().filter(|partition_limits| !is_open(partition_limits));
    closed.map(|partition_limits| (partition_limits.name.clone(), partition_limits.state.clone())).collect()
}

/// Returns the default partition, if it is not up.
pub(super) fn closed_default(limits: &[PartitionLimits]) -> Option<String> {
    let default = limits.iter().find(|partition_limits| partition_limits.default)?;
    (!is_open(default)).then(|| default.name.clone())
}

fn is_open(limits: &PartitionLimits) -> bool {
    matches!(limits.state.as_str(), "UP" | "")
}

/// Returns the names, or `None` if all are allowed.
fn named(list: &[String]) -> Option<BTreeSet<String>> {
    (!list.is_empty()).then(|| list.iter().cloned().collect())
}

/// Parses `CPU=1.0,Mem=0.25G,GRES/gpu:a100=4` into weights by lower-case name. The weight of `mem` is
/// returned per GiB; without a unit, it is given per MiB.
fn weights(text: &str) -> Option<BTreeMap<String, f64>> {
    let one = |item: &str| {
        let (name, value) = item.trim().split_once('=')?;
        let (name, value) = (name.to_ascii_lowercase(), value.trim());
        let is_unit = |c: char| c.is_ascii_alphabetic();
        let unit = value.chars().next_back().filter(|c| is_unit(*c)).map(|c| c.to_ascii_uppercase());
        let number: f64 = value.trim_end_matches(is_unit).parse().ok()?;
        let per_gib = match (name.as_str(), unit) {
            ("mem", None | Some('M')) => 1024.0,
            ("mem", Some('K')) => 1024.0 * 1024.0,
            ("mem", Some('T')) => 1.0 / 1024.0,
            _ => 1.0,
        };
        (number.is_finite() && number >= 0.0).then_some((name, number * per_gib))
    };
    let weights: BTreeMap<String, f64> = text.split(',').filter_map(one).collect();
    (!weights.is_empty()).then_some(weights)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::site;
    use hsched_model::Seconds;

    const TEXT: &str = "\
PartitionName=gpu AllowAccounts=ALL AllowQos=ALL Default=YES DefaultTime=01:00:00 MaxNodes=UNLIMITED MaxTime=7-00:00:00 PriorityJobFactor=1 PriorityTier=1 OverSubscribe=NO PreemptMode=REQUEUE State=UP TRESBillingWeights=CPU=1.0,Mem=0.25G,GRES/gpu:a100=4
PartitionName=hi DenyAccounts=c,d DenyQos=slow AllowAccounts=a,b AllowQos=fast Default=NO DefaultTime=NONE MaxNodes=2 MaxTime=03:00:00 PriorityTier=10 OverSubscribe=EXCLUSIVE PreemptMode=OFF State=UP
PartitionName=old PriorityTier=1 MaxTime=UNLIMITED State=DOWN
";

    fn read(config: &str) -> Vec<QueuePartition> {
        partitions(&site::partitions(TEXT), &Config::parse(config))
    }

    #[test]
    fn partitions_have_their_limits_and_weights() {
        let seen = read("PreemptType = preempt/partition_prio\nPriorityFlags = MAX_TRES\n");
        let [gpu, hi] = seen.as_slice() else { panic!("two: {seen:?}") };
        assert_eq!((gpu.default, gpu.default_time_s, gpu.tier), (true, Some(Seconds(3600.0)), Some(1)));
        assert_eq!((gpu.max_nodes, gpu.accounts.as_ref(), gpu.exclusive), (None, None, false));
        assert!(gpu.preemptible && !gpu.suspends && !hi.preemptible && hi.exclusive);
        assert_eq!((hi.max_nodes, hi.default_time_s, hi.max_time_s), (Some(2), None, Some(Seconds(10800.0))));
        assert_eq!(hi.accounts.as_ref().map(BTreeSet::len), Some(2));
        assert!(hi.qos.as_ref().is_some_and(|qos| qos.contains("fast")));
        assert_eq!((gpu.deny_accounts.len(), hi.deny_accounts.len()), (0, 2));
        assert!(gpu.deny_qos.is_empty() && hi.deny_qos.contains("slow"));
        let billing = gpu.billing.as_ref().expect("weights");
        assert_eq!(billing.weigh, Weigh::Max);
        let expected = [("cpu", 1.0), ("gres/gpu:a100", 4.0), ("mem", 0.25)]
            .map(|(name, weight)| (name.to_owned(), weight));
        assert_eq!(billing.weights, BTreeMap::from(expected));
    }

    #[test]
    fn partitions_that_are_not_up_have_their_state() {
        let expected = BTreeMap::from([("old".to_owned(), "DOWN".to_owned())]);
        assert_eq!(closed(&site::partitions(TEXT)), expected);
        assert_eq!(closed_default(&site::partitions(TEXT)), None);
        let default = site::partitions("PartitionName=gpu Default=YES State=INACTIVE\n");
        assert_eq!(closed_default(&default).as_deref(), Some("gpu"));
    }

    #[test]
    fn nobody_is_stopped_where_tiers_only_order() {
        assert!(read("PreemptType = preempt/none\n").iter().all(|partition| !partition.preemptible));
        assert!(read("PreemptType = preempt/qos\n").iter().all(|partition| !partition.preemptible));
    }

    #[test]
    fn memory_is_weighed_by_the_gibibyte() {
        let mem = |text: &str| weights(text).and_then(|all| all.get("mem").copied());
        assert_eq!(
            (mem("Mem=0.25G"), mem("Mem=0.5"), mem("mem=1M")),
            (Some(0.25), Some(512.0), Some(1024.0))
        );
        assert_eq!((mem("Mem=x"), mem("(null)"), mem("Mem=-1G"), weights("")), (None, None, None, None));
    }
}
