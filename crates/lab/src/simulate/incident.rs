//! Scripted incidents in a simulated cluster.

use hsched_engine::End;
use hsched_model::{JobName, NodeName, Time};

/// A failure or repair.
#[derive(Clone, Debug, PartialEq)]
pub enum Incident {
    /// A submission of a job, counted from 1, ends in this way when it begins an epoch, counted from 1.
    Failure { job: JobName, submission: u32, epoch: u64, end: End },
    /// A node dies; its controller notices after a delay.
    NodeDies { node: NodeName, when: IncidentTime },
    /// A node that died is up again.
    NodeReturns { node: NodeName, when: IncidentTime },
}

/// The time of an incident.
#[derive(Clone, Debug, PartialEq)]
pub enum IncidentTime {
    At(Time),
    /// The moment at which a job reports an epoch.
    Reported {
        job: JobName,
        epoch: u64,
    },
}

/// A change of a node.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum NodeChange {
    Dies(NodeName),
    /// The controller notices that the node died.
    Noticed(NodeName),
    Returns(NodeName),
}

/// The future incidents.
#[derive(Clone, Debug, Default)]
pub(super) struct IncidentQueue {
    failures: Vec<(JobName, u32, u64, End)>,
    awaited: Vec<((JobName, u64), NodeChange)>,
    timed: Vec<(Time, NodeChange)>,
}

impl IncidentQueue {
    /// Returns the queue of these incidents.
    pub(super) fn new(incidents: Vec<Incident>) -> Self {
        let mut script = Self::default();
        for incident in incidents {
            match incident {
                Incident::Failure { job, submission, epoch, end } => {
                    script.failures.push((job, submission, epoch, end));
                }
                Incident::NodeDies { node, when } => script.put(when, NodeChange::Dies(node)),
                Incident::NodeReturns { node, when } => script.put(when, NodeChange::Returns(node)),
            }
        }
        script
    }

    /// Adds a change of a node at a time.
    pub(super) fn at(&mut self, at: Time, change: NodeChange) {
        self.timed.push((at, change));
    }

    /// Returns when the next change of a node is due.
    pub(super) fn next(&self) -> Option<Time> {
        self.timed.iter().map(|(at, _)| *at).min_by(|a, b| a.0.total_cmp(&b.0))
    }

    /// Removes and returns the changes that are due.
    pub(super) fn due(&mut self, now: Time) -> Vec<NodeChange> {
        self.timed.sort_by(|(a, _), (b, _)| a.0.total_cmp(&b.0));
        let count = self.timed.partition_point(|(at, _)| at.0 <= now.0);
        self.timed.drain(..count).map(|(_, change)| change).collect()
    }

    /// Records that a job has reported an epoch.
    pub(super) fn reported(&mut self, job: &JobName, epoch: u64, now: Time) {
        let is_due = |((name, number), _): &((JobName, u64), NodeChange)| name == job && *number == epoch;
        let due: Vec<_> = self.awaited.extract_if(.., |entry| is_due(entry)).collect();
        self.timed.extend(due.into_iter().map(|(_, change)| (now, change)));
    }

    /// Returns the epoch in which a submission of a job fails, and how it ends.
    pub(super) fn failure(&self, job: &JobName, submission: u32) -> Option<(u64, End)> {
        let is_its_own = |entry: &&(JobName, u32, u64, End)| entry.0 == *job && entry.1 == submission;
        self.failures.iter().find(is_its_own).map(|(_, _, epoch, end)| (*epoch, end.clone()))
    }

    fn put(&mut self, when: IncidentTime, change: NodeChange) {
        match when {
            IncidentTime::At(at) => self.timed.push((at, change)),
            IncidentTime::Reported { job, epoch } => self.awaited.push(((job, epoch), change)),
        }
    }
}
