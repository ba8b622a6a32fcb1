//! Running jobs that Slurm may preempt for a request, above all those of the user.

use std::collections::BTreeSet;

use super::room;
use crate::{Drawback, QueueJob, QueuePartition, Request, Snapshot};
use hsched_model::NodeName;

/// Returns the user's running jobs that Slurm may preempt for a job with this request.
pub fn own_preempted<'a>(snapshot: &'a Snapshot, request: &Request) -> Vec<&'a QueueJob> {
    preempted(snapshot, request).into_iter().filter(|job| job.ours).collect()
}

/// Returns the running jobs whose GPUs Slurm may free for a job with this request, on a node that the request could
/// use: those of a preemptible partition with a lower tier, or of a QOS that the request's QOS may preempt.
pub(crate) fn preempted<'a>(snapshot: &'a Snapshot, request: &Request) -> Vec<&'a QueueJob> {
    let qos = snapshot.qos_of(request);
    let lower = snapshot.qos_preempts.get(qos);
    let makes_room = |partition: &QueuePartition| partition.preemptible && !partition.suspends;
    if lower.is_none() && !snapshot.partitions.iter().any(makes_room) {
        return Vec::new();
    }
    let nodes = |request: &Request| -> BTreeSet<&NodeName> {
        room::nodes(snapshot, request).into_iter().map(|node| &node.name).collect()
    };
    let is_on = |job: &QueueJob, nodes: &BTreeSet<&NodeName>| {
        job.running.iter().flat_map(|running| &running.holds).any(|held| nodes.contains(&held.node))
    };
    let partition = |name: &str| {
        let there = Request { partition: Some(name.to_owned()), ..request.clone() };
        partition_of(snapshot, name).map(|high| (high.tier, nodes(&there)))
    };
    let names = room::partitions(snapshot, request);
    let higher: Vec<_> = names.into_iter().filter_map(partition).collect();
    let by_partition = |job: &QueueJob| {
        let low = job.partitions.iter().filter_map(|name| partition_of(snapshot, name));
        low.filter(|low| makes_room(low))
            .any(|low| higher.iter().any(|(tier, nodes)| *tier > low.tier && is_on(job, nodes)))
    };
    let possible = nodes(request);
    let by_qos = |job: &QueueJob| {
        // Jobs of the same QOS are left out, because within a QOS only jobs of higher priority preempt. A user's
        // own jobs mostly start in order of age; for jobs of other users, this is an approximation.
        let job_qos = job.qos.as_deref().filter(|job_qos| *job_qos != qos);
        job_qos.is_some_and(|job_qos| lower.is_some_and(|lower| lower.contains(job_qos)))
            && is_on(job, &possible)
    };
    let running = snapshot.jobs.iter().filter(|job| job.running.is_some());
    running.filter(|job| by_partition(job) || by_qos(job)).collect()
}

impl Snapshot {
    /// Returns the QOS whose jobs may preempt jobs of a QOS while they run.
    pub fn preempting_qos(&self, qos: &str) -> Vec<&str> {
        let higher = self.qos_preempts.iter().filter(|(_, lower)| lower.contains(qos));
        higher.map(|(name, _)| name.as_str()).collect()
    }

    /// Returns a sentence about the QOS whose jobs may preempt a job of a QOS.
    pub fn preempting_words(&self, qos: &str) -> Option<String> {
        let all = self.preempting_qos(qos);
        let others: Vec<&str> = all.iter().copied().filter(|name| *name != qos).collect();
        match (all.is_empty(), others.is_empty()) {
            (true, _) => None,
            (false, true) => Some(format!(
                "While it runs, Slurm may preempt it for jobs of its QOS {qos} with a higher priority."
            )),
            (false, false) => Some(format!(
                "While it runs, Slurm may preempt it (QOS {qos}) for jobs of QOS {}.",
                others.join(", ")
            )),
        }
    }

    /// Returns the QOS of a job with this request.
    pub fn qos_of<'a>(&'a self, request: &'a Request) -> &'a str {
        let account = request.account.as_deref().or_else(|| self.own_account());
        request.further.qos.as_deref().unwrap_or_else(|| self.own_qos(account))
    }
}

/// Returns the drawbacks of a change that may lead to another QOS.
pub(crate) fn qos_drawbacks(snapshot: &Snapshot, before: &Request, changed: &Request) -> Vec<Drawback> {
    let is_preempted = |request: &Request| !snapshot.preempting_qos(snapshot.qos_of(request)).is_empty();
    let is_new = is_preempted(changed) && !is_preempted(before);
    let of = format!("QOS {}", snapshot.qos_of(changed));
    let preempted = is_new.then_some(Drawback::MayBePreempted { of });
    preempted.into_iter().chain(preempts_own(snapshot, before, changed)).collect()
}

/// Returns the drawback that Slurm may preempt running jobs of the user for the changed request, but not for
/// the request before.
pub(crate) fn preempts_own(snapshot: &Snapshot, before: &Request, changed: &Request) -> Option<Drawback> {
    let known: BTreeSet<&str> =
        own_preempted(snapshot, before).into_iter().map(|job| job.id.as_str()).collect();
    let added = own_preempted(snapshot, changed).into_iter().filter(|job| !known.contains(job.id.as_str()));
    let jobs: Vec<String> = added.map(|job| job.id.clone()).collect();
    (!jobs.is_empty()).then_some(Drawback::PreemptsOwn { jobs })
}

fn partition_of<'a>(snapshot: &'a Snapshot, name: &str) -> Option<&'a QueuePartition> {
    snapshot.partitions.iter().find(|partition| partition.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_request::test_request;
    use hsched_model::FurtherOptions;

    /// As seen on Slurm 24.11: Slurm requeues a job of QOS `low` for a job of `high`, whereas a job of
    /// `normal` stays pending.
    const QUEUE: &str = r#"{"schema": "hsched.queue/1", "taken_at": 1, "partitions": [{"name": "gpu", "default": true}],
        "nodes": [{"name": "n1", "gpus": [{"type": "t4", "count": 4}]}, {"name": "n2", "gpus": [{"type": "v100", "count": 4}]}],
        "accounts": [{"name": "bio", "default": true, "qos": "normal", "allowed_qos": ["low", "normal", "high"]}],
        "qos_preempts": {"high": ["low", "normal"], "even": ["even"]},
        "jobs": [{"id": "7", "ours": true, "qos": "low", "asks": {}, "running": {"since": 0, "holds": [{"node": "n1"}]}},
            {"id": "8", "ours": true, "qos": "high", "asks": {}, "running": {"since": 0, "holds": [{"node": "n1"}]}},
            {"id": "9", "qos": "low", "asks": {}, "running": {"since": 0, "holds": [{"node": "n1"}]}}]}"#;

    fn request(qos: Option<&str>, gpu_type: &str) -> Request {
        let further = FurtherOptions { qos: qos.map(str::to_owned), ..FurtherOptions::default() };
        Request { further, ..test_request(1, gpu_type, 4) }
    }

    #[test]
    fn a_qos_preempts_running_jobs_of_those_below_it() {
        let snapshot = Snapshot::parse(QUEUE).expect("a snapshot");
        let preempted = |qos: Option<&str>, gpu_type: &str| -> Vec<String> {
            own_preempted(&snapshot, &request(qos, gpu_type)).iter().map(|job| job.id.clone()).collect()
        };
        assert_eq!(preempted(Some("high"), "t4"), ["7"]);
        assert_eq!(preempted(Some("high"), "v100"), [""; 0]);
        assert_eq!(preempted(Some("normal"), "t4"), [""; 0]);
        assert_eq!(preempted(None, "t4"), [""; 0]);
    }

    #[test]
    fn a_change_of_qos_says_who_is_preempted() {
        let snapshot = Snapshot::parse(QUEUE).expect("a snapshot");
        let check = |from: Option<&str>, to: &str, expected: &[&str]| {
            let found = qos_drawbacks(&snapshot, &request(from, "t4"), &request(Some(to), "t4"));
            assert_eq!(found.iter().map(ToString::to_string).collect::<Vec<_>>(), expected, "{from:?} {to}");
        };
        check(None, "high", &["Slurm may stop (preempt) your running job 7 for it"]);
        check(Some("high"), "low", &["jobs of QOS low may be preempted"]);
        check(None, "low", &[]);
        let words = |qos: &str| snapshot.preempting_words(qos);
        assert_eq!(
            words("low").as_deref(),
            Some("While it runs, Slurm may preempt it (QOS low) for jobs of QOS high.")
        );
        assert_eq!(
            words("even").as_deref(),
            Some("While it runs, Slurm may preempt it for jobs of its QOS even with a higher priority.")
        );
        assert_eq!(words("high"), None);
    }
}
