//! Running jobs of other users that Slurm may preempt for a request.

use std::collections::{BTreeMap, BTreeSet};

use super::preemption::preempted;
use super::room;
use crate::{Drawback, NodeHolding, QueueJob, QueueNode, Request, Snapshot};
use hsched_model::NodeName;

/// Running jobs on a node, each with what it holds there.
type Held<'a> = Vec<(&'a QueueJob, &'a NodeHolding)>;

/// Returns the running jobs of other users that Slurm may preempt for a job with this request: those on the
/// nodes on which the fewest of them must end. On each node, the jobs with the most GPUs end first, until
/// there is room. Empty if there is room without preemption, or too little with it.
pub fn others_preempted<'a>(snapshot: &'a Snapshot, request: &Request) -> BTreeSet<&'a str> {
    let candidates = preempted(snapshot, request);
    if candidates.iter().all(|job| job.ours) {
        return BTreeSet::new();
    }
    let candidates: BTreeSet<&str> = candidates.into_iter().map(|job| job.id.as_str()).collect();
    let mut held: BTreeMap<&NodeName, Held> = BTreeMap::new();
    for job in &snapshot.jobs {
        for holding in job.running.iter().flat_map(|running| &running.holds) {
            held.entry(&holding.node).or_default().push((job, holding));
        }
    }
    let possible = room::nodes(snapshot, request).into_iter();
    let mut nodes: Vec<Vec<&QueueJob>> = possible
        .filter_map(|node| {
            let on_node = held.remove(&node.name).unwrap_or_default();
            preempted_on(node, request, on_node, &candidates)
        })
        .collect();
    let of_others = |jobs: &Vec<&QueueJob>| jobs.iter().filter(|job| !job.ours).count();
    nodes.sort_by_key(|jobs| (of_others(jobs), jobs.len()));
    let needed = usize::try_from(request.asks.nodes.max(1)).unwrap_or(usize::MAX);
    if nodes.len() < needed {
        return BTreeSet::new();
    }
    let jobs = nodes.into_iter().take(needed).flatten().filter(|job| !job.ours);
    jobs.map(|job| job.id.as_str()).collect()
}

/// Returns candidates whose end makes room for a request on a node, those with the most GPUs first; `None` if
/// even the end of all does not make room.
fn preempted_on<'a>(
    node: &QueueNode,
    request: &Request,
    on_node: Held<'a>,
    candidates: &BTreeSet<&str>,
) -> Option<Vec<&'a QueueJob>> {
    let (mut able, mut left): (Held, Held) =
        on_node.into_iter().partition(|(job, _)| candidates.contains(job.id.as_str()));
    let gpus = |holding: &NodeHolding| holding.gpus.iter().map(|gpu| gpu.count).sum::<u32>();
    able.sort_by_key(|(_, holding)| std::cmp::Reverse(gpus(holding)));
    let mut ended = Vec::new();
    let mut able = able.into_iter();
    loop {
        let holdings = left.iter().chain(able.as_slice()).map(|(_, holding)| *holding);
        if room::has_room_beside(node, request, holdings) {
            return Some(ended);
        }
        // A job without GPUs there makes no room for GPUs, but perhaps for CPUs and memory.
        let (job, _) = able.next()?;
        ended.push(job);
        left.retain(|(other, _)| other.id != job.id);
    }
}

/// Returns the drawback that Slurm may preempt running jobs of other users for the changed request, but not for the
/// request before.
pub(crate) fn preempts_others(snapshot: &Snapshot, before: &Request, changed: &Request) -> Option<Drawback> {
    let added = others_preempted(snapshot, changed);
    if added.is_empty() {
        return None;
    }
    let known: BTreeSet<&str> = preempted(snapshot, before).into_iter().map(|job| job.id.as_str()).collect();
    let count = added.difference(&known).count();
    (count > 0).then_some(Drawback::PreemptsOthers { count })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_request::test_request;

    /// Jobs of another user in `low`: two hold half of `n1` each, and three hold a quarter of `n2` each.
    /// `high` preempts jobs of `low`.
    const QUEUE: &str = r#"{"schema": "hsched.queue/1", "taken_at": 100,
        "partitions": [{"name": "low", "default": true, "tier": 1, "preemptible": true}, {"name": "high", "tier": 2}],
        "nodes": [{"name": "n1", "partitions": ["low", "high"], "cpus": 8, "gpus": [{"type": "t4", "count": 4}]},
            {"name": "n2", "partitions": ["low", "high"], "cpus": 8, "gpus": [{"type": "t4", "count": 4}]}],
        "jobs": [
            {"id": "1", "partitions": ["low"], "asks": {}, "running": {"since": 0, "holds": [{"node": "n1", "cpus": 4, "gpus": [{"type": "t4", "count": 2}]}]}},
            {"id": "2", "partitions": ["low"], "asks": {}, "running": {"since": 0, "holds": [{"node": "n1", "cpus": 2, "gpus": [{"type": "t4", "count": 2}]}]}},
            {"id": "3", "partitions": ["low"], "asks": {}, "running": {"since": 0, "holds": [{"node": "n2", "gpus": [{"type": "t4", "count": 1}]}]}},
            {"id": "4", "partitions": ["low"], "asks": {}, "running": {"since": 0, "holds": [{"node": "n2", "gpus": [{"type": "t4", "count": 1}]}]}},
            {"id": "5", "partitions": ["low"], "asks": {}, "running": {"since": 0, "holds": [{"node": "n2", "gpus": [{"type": "t4", "count": 1}]}]}}]}"#;

    fn request(partition: &str, nodes: u32, gpus: u32) -> Request {
        Request { partition: Some(partition.to_owned()), ..test_request(nodes, "t4", gpus) }
    }

    #[test]
    fn the_fewest_jobs_that_make_room_are_preempted() {
        let check = |queue: &str, request: &Request, expected: &[&str]| {
            let snapshot = Snapshot::parse(queue).expect("a snapshot");
            let found = others_preempted(&snapshot, request);
            assert_eq!(found.into_iter().collect::<Vec<_>>(), expected, "{request:?}");
        };
        check(QUEUE, &request("high", 1, 4), &["1", "2"]);
        check(QUEUE, &request("high", 2, 2), &["1", "3"]);
        // One GPU of n2 is free, and partition `low` preempts nothing.
        check(QUEUE, &request("high", 1, 1), &[]);
        check(QUEUE, &request("low", 1, 4), &[]);
        // There are only two nodes, whatever is preempted.
        check(QUEUE, &request("high", 3, 2), &[]);
        let mut with_cpus = request("high", 1, 2);
        with_cpus.asks.cpus = Some(6);
        with_cpus.asks.exclude = [hsched_model::NodeName::new("n2")].into_iter().flatten().collect();
        check(QUEUE, &with_cpus, &["1"]);
        // Jobs of the user are left out; `own_preempted` returns them.
        let own = QUEUE.replacen(r#""id": "1""#, r#""id": "1", "ours": true"#, 1);
        check(&own, &request("high", 1, 4), &["2"]);
    }

    #[test]
    fn a_change_says_how_many_jobs_it_adds() {
        let snapshot = Snapshot::parse(QUEUE).expect("a snapshot");
        let words = |before: &Request, changed: &Request| {
            preempts_others(&snapshot, before, changed).map(|drawback| drawback.to_string())
        };
        let (low, high) = (request("low", 1, 4), request("high", 1, 4));
        let expected = "Slurm may preempt 2 running jobs of other users for it";
        assert_eq!(words(&low, &high).as_deref(), Some(expected));
        assert_eq!(words(&high, &request("high", 2, 2)), None);
        assert_eq!(words(&low, &request("high", 1, 1)), None);
    }
}
