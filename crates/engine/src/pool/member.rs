//! A member of a pool, and the files that the leader and the member write for each other.

use std::collections::BTreeSet;
use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::{Answer, End, Gpus, SubmissionKey};
use hsched_model::{GpuType, JobId, JobName, NodeName, Seconds, Time};

/// An allocation: its Slurm job, and the number of times that Slurm has requeued it: `17`, `17-1`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct MemberId(String);

/// Separates a node's name from the member that owns the node.
const OF_MEMBER: &str = ".job";

/// A member's report: one file, which the member replaces.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PoolReport {
    /// Counter that increases while the member lives.
    pub beat: u64,
    pub nodes: Vec<MemberNode>,
    /// When the member's allocation ends.
    pub end: Option<Time>,
    /// Whether the member asks to leave; it then accepts no more orders.
    #[serde(default)]
    pub leaving: bool,
    /// Whether the member has left: none of its processes remain, and this report is its last.
    #[serde(default)]
    pub left: bool,
    /// The submissions that the member started or could not start, until the leader has dropped their orders.
    pub submissions: Vec<StartedSubmission>,
    /// The jobs that ran out of memory here beside others on their GPU, and need one of their own.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub alone: BTreeSet<JobName>,
}

/// A node of a member.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberNode {
    /// With the member's id, as [`MemberId::node`] returns it.
    pub name: NodeName,
    pub cpus: Option<u64>,
    /// In bytes.
    pub memory: Option<u64>,
    pub devices: Vec<MemberDevice>,
    /// Whether Slurm has removed the node from the allocation.
    #[serde(default)]
    pub is_lost: bool,
}

/// A device of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberDevice {
    pub gpu_type: GpuType,
    /// The device's memory in bytes.
    pub memory: Option<u64>,
    /// The number of the GPU on its node if the device is a slot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<usize>,
}

/// A submission that a member has claimed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StartedSubmission {
    pub of: SubmissionKey,
    /// The process id of the submission's guard; 0 if its member did not start it.
    pub job_id: JobId,
    /// The time at which the submission started or, if it did not start, at which its member reported that.
    pub since: Time,
    /// How and when the submission ended.
    pub ended: Option<(End, Time)>,
    /// If the submission was not started, the reason, in the form that the leader uses for its own devices.
    #[serde(default)]
    pub refusal: Option<Answer>,
}

impl StartedSubmission {
    /// In place of the process id of a submission that was not started.
    pub(super) const NEVER: JobId = JobId(0);

    /// Returns the time at which the submission started; `None` if it did not.
    pub(super) fn begun(&self) -> Option<Time> {
        (self.job_id != Self::NEVER).then_some(self.since)
    }
}

/// The leader's orders to a member: one file, which the leader replaces.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Orders {
    /// Whether the member may leave.
    #[serde(default)]
    pub leave: bool,
    pub orders: Vec<Order>,
}

/// One submission for a member.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Order {
    pub of: SubmissionKey,
    pub demand: Demand,
    pub start: SubmissionStart,
}

/// The leader's order for a submission.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Demand {
    Run,
    /// Let the submission save and end.
    Stop,
    Kill,
}

/// How a submission is started.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SubmissionStart {
    pub script: PathBuf,
    pub workdir: PathBuf,
    pub output: PathBuf,
    /// A device for each rank: its node, and its place among the devices of that node.
    pub devices: Vec<(NodeName, usize)>,
    /// The other slots of the same GPUs, if the submission needs the GPUs exclusively.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub beside: Vec<(NodeName, usize)>,
    /// CPUs and bytes of memory for each rank.
    pub needs: (u64, u64),
    pub gpus: Gpus,
    /// Epochs done before this start.
    pub epochs: u64,
    /// Threads of a rank if its job sets none.
    pub threads: Option<u64>,
    /// Time that the submission may take to save.
    #[serde(default)]
    pub grace: Seconds,
}

/// The parameters of the pool's submission; its leader needs them to submit more allocations.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PoolPlan {
    /// Number of devices of an allocation; a slot is a device.
    pub capacity: u32,
    /// Slots of each GPU; 0 and 1 mean that runs do not share GPUs.
    #[serde(default)]
    pub slots: u32,
    /// The scripts, one for each allocation that may exist at a time.
    pub scripts: Vec<PathBuf>,
    /// Options for sbatch.
    pub sbatch: Vec<String>,
    /// The size of the job arrays whose tasks are the allocations, if the pool uses arrays; all tasks run the
    /// same script.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub array: Option<ArrayPlan>,
}

/// The size of the job arrays of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArrayPlan {
    /// The tasks of an array.
    pub tasks: u32,
    /// The maximum number of tasks that run at a time.
    pub at_once: u32,
}

impl PoolPlan {
    /// Returns how many allocations may exist at a time.
    pub fn at_most(&self) -> u32 {
        self.array.map_or(u32::try_from(self.scripts.len()).unwrap_or(u32::MAX), |array| array.at_once)
    }
}

impl MemberId {
    /// Returns the id of a Slurm job after this many requeues.
    pub fn new(job: JobId, restarts: u32) -> Self {
        Self(if restarts == 0 { job.to_string() } else { format!("{job}-{restarts}") })
    }

    /// Returns the member with this folder name.
    pub(crate) fn of_folder(name: &str) -> Option<Self> {
        let member = Self(name.to_owned());
        let (job, restarts) = member.parts()?;
        (Self::new(job, restarts) == member).then_some(member)
    }

    /// Returns the member's Slurm job.
    pub fn job(&self) -> JobId {
        self.parts().map_or(JobId(0), |(job, _)| job)
    }

    /// Returns the number of times that Slurm had requeued the job when the member started.
    pub fn restarts(&self) -> u32 {
        self.parts().map_or(0, |(_, restarts)| restarts)
    }

    fn parts(&self) -> Option<(JobId, u32)> {
        let (job, restarts) = self.0.split_once('-').unwrap_or((&self.0, "0"));
        Some((JobId(job.parse().ok()?), restarts.parse().ok()?))
    }

    /// Returns the name of one of the member's nodes in the state; two members may have parts of the same
    /// node.
    pub fn node(&self, name: &NodeName) -> NodeName {
        NodeName::new(&format!("{name}{OF_MEMBER}{self}")).unwrap_or_else(|_| name.clone())
    }

    /// Returns the member that owns a node of the state; `None` for nodes outside a pool.
    pub fn of_node(name: &NodeName) -> Option<Self> {
        Self::of_folder(name.as_str().rsplit_once(OF_MEMBER)?.1)
    }

    /// Returns the name that Slurm and programs use for a node of the state.
    pub fn plain(name: &NodeName) -> NodeName {
        let plain = name.as_str().rsplit_once(OF_MEMBER).filter(|(_, id)| Self::of_folder(id).is_some());
        plain.and_then(|(plain, _)| NodeName::new(plain).ok()).unwrap_or_else(|| name.clone())
    }
}

impl fmt::Display for MemberId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_of_the_state_know_their_member_and_their_plain_name() {
        let check = |restarts: u32, text: &str| {
            let member = MemberId::new(JobId(17), restarts);
            let node = member.node(&NodeName::new("gpu01").expect("a name"));
            assert_eq!(node.as_str(), text);
            assert_eq!(MemberId::of_node(&node), Some(member.clone()));
            assert_eq!(MemberId::plain(&node).as_str(), "gpu01");
            assert_eq!((member.job(), member.restarts()), (JobId(17), restarts));
        };
        check(0, "gpu01.job17");
        check(2, "gpu01.job17-2");
        for plain in ["gpu01", "a.jobs", "a.job", "a.job017", "a.job1-0"] {
            let name = NodeName::new(plain).expect("a name");
            assert_eq!((MemberId::of_node(&name), MemberId::plain(&name)), (None, name.clone()), "{plain}");
        }
    }
}
