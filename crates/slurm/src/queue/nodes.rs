//! Nodes for which queued jobs compete, from `sinfo`.

use hsched_model::{Availability, Cluster, GpuType, Node};
use hsched_queue::{GpuCount, NodeUse, QueueJob, QueueNode};

/// Returns the nodes of a cluster.
pub(super) fn nodes(cluster: &Cluster) -> Vec<QueueNode> {
    cluster.nodes.iter().map(node).collect()
}

fn node(node: &Node) -> QueueNode {
    let count = |gpu_type: &GpuType, count| GpuCount { gpu_type: gpu_type.clone(), count };
    QueueNode {
        name: node.name.clone(),
        partitions: node.partitions.iter().cloned().collect(),
        gpus: node.gpus.iter().map(|stock| count(&stock.gpu_type, stock.total)).collect(),
        cpus: node.cpus.map(|cpus| cpus.total),
        memory_mib: node.memory.map(|memory| memory.total >> 20),
        features: node.features.iter().cloned().collect(),
        usable: match node.state.availability() {
            // A reserved node counts as up, because the reservations have its users and times.
            Availability::Up | Availability::Reserved => NodeUse::Up,
            Availability::Drained => NodeUse::Drained,
            Availability::Down | Availability::Restarting | Availability::Unknown => NodeUse::Down,
        },
    }
}

/// Returns a note if clearly more GPUs are in use than the listed jobs hold: jobs are hidden.
pub(super) fn unseen(cluster: &Cluster, jobs: &[QueueJob]) -> Option<String> {
    let used: u64 = cluster.nodes.iter().flat_map(|node| &node.gpus).map(|stock| u64::from(stock.used)).sum();
    let holds = jobs.iter().filter_map(|job| job.running.as_ref()).flat_map(|running| &running.holds);
    let held: u64 = holds.flat_map(|held| &held.gpus).map(|gpus| u64::from(gpus.count)).sum();
    // A few jobs may start and end between the two calls.
    let many = used > held && (used - held) * 10 > used.max(10);
    many.then(|| {
        format!("{used} GPUs are in use, but the visible jobs have only {held}: other jobs are hidden")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sinfo;
    use hsched_model::{NodeName, Time};
    use hsched_queue::{HeldNodes, NodeHolding, Snapshot};

    fn cluster(used: &str) -> Cluster {
        sinfo::tests::cluster(&[
            &format!("v1|gpu*|1:00|mixed|gpu:v100:20|{used}|8/8/0/16|64000|1000|v100,ib|none"),
            "v2|gpu*|1:00|drained|gpu:v100:4|(null)|0/0/16/16|64000|0||none",
            "v3|gpu*|1:00|maint|gpu:v100:4|(null)|0/0/16/16|1|0||",
            "v4|gpu*|1:00|down*|||0/0/1/1|1|0||",
        ])
    }

    #[test]
    fn nodes_have_what_jobs_compete_for() {
        let seen = nodes(&cluster("(null)"));
        assert_eq!((seen[0].cpus, seen[0].memory_mib, seen[0].gpus[0].count), (Some(16), Some(64000), 20));
        assert!(seen[0].partitions.contains("gpu") && seen[0].features.contains("ib"));
        let uses: Vec<NodeUse> = seen.iter().map(|node| node.usable).collect();
        assert_eq!(uses, [NodeUse::Up, NodeUse::Drained, NodeUse::Up, NodeUse::Down]);
    }

    fn bare_job() -> QueueJob {
        let text =
            r#"{"schema": "hsched.queue/1", "taken_at": 0, "nodes": [], "jobs": [{"id": "7", "asks": {}}]}"#;
        Snapshot::parse(text).expect("a snapshot").jobs.remove(0)
    }

    #[test]
    fn hidden_jobs_are_told_by_the_gpus_that_they_use() {
        let held = |count| {
            let gpu_type = GpuType::new("v100").expect("a type");
            let node = NodeName::new("v1").expect("a name");
            let held =
                NodeHolding { node, gpus: vec![GpuCount { gpu_type, count }], cpus: None, memory_mib: None };
            QueueJob { running: Some(HeldNodes { since: Time(0.0), holds: vec![held] }), ..bare_job() }
        };
        assert_eq!(unseen(&cluster("gpu:v100:20(IDX:0-19)"), &[held(20)]), None);
        assert_eq!(unseen(&cluster("gpu:v100:20(IDX:0-19)"), &[held(19)]), None);
        let note = unseen(&cluster("gpu:v100:20(IDX:0-19)"), &[held(2)]).expect("a note");
        assert_eq!(note, "20 GPUs are in use, but the visible jobs have only 2: other jobs are hidden");
    }
}
