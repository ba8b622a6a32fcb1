//! A single change of a request, and the resulting request.

use crate::{Drawback, Request};
use hsched_model::{GpuType, Seconds};

/// A change of a job's request.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    Limit(Seconds),
    /// The same number of GPUs of another type.
    GpuType(GpuType),
    /// Other numbers of nodes and of GPUs per node; CPUs and memory per GPU stay the same.
    Gpus {
        nodes: u32,
        per_node: u32,
    },
    /// The partitions, separated by commas.
    Partition(String),
    Account(String),
    Qos(String),
    /// CPUs per node.
    Cpus(u64),
    /// Memory per node, in MiB.
    Memory(u64),
}

/// Changes made together, with their drawbacks.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ChangeSet {
    /// At most one change of each kind.
    pub changes: Vec<Change>,
    pub drawbacks: Vec<Drawback>,
}

impl Change {
    /// Applies the change to `request`.
    pub fn apply(&self, request: &mut Request) {
        let asks = &mut request.asks;
        match self {
            Self::Limit(limit) => request.limit = *limit,
            Self::GpuType(gpu_type) => {
                for ask in &mut asks.gpus {
                    ask.gpu_type = Some(gpu_type.clone());
                }
            }
            Self::Gpus { nodes, per_node } => {
                let before: u32 = asks.gpus.iter().map(|ask| ask.count).sum();
                let scaled = |amount: u64| {
                    amount.saturating_mul(u64::from(*per_node)).div_ceil(u64::from(before.max(1)))
                };
                asks.nodes = *nodes;
                asks.cpus = asks.cpus.map(scaled);
                asks.memory_mib = asks.memory_mib.map(scaled);
                for ask in &mut asks.gpus {
                    ask.count = *per_node;
                }
            }
            Self::Partition(names) => request.partition = Some(names.clone()),
            Self::Account(name) => request.account = Some(name.clone()),
            Self::Qos(name) => request.further.qos = Some(name.clone()),
            Self::Cpus(count) => asks.cpus = Some(*count),
            Self::Memory(mebibytes) => asks.memory_mib = Some(*mebibytes),
        }
    }

    /// Returns whether both change the same part of a request, or parts of which one depends on the other.
    fn is_of_kind(&self, other: &Self) -> bool {
        let of_gpus = |change: &Self| matches!(change, Self::Gpus { .. });
        let of_host = |change: &Self| matches!(change, Self::Cpus(_) | Self::Memory(_));
        // The CPUs and memory left on a node depend on the number of GPUs.
        let is_tied = of_gpus(self) && of_host(other) || of_host(self) && of_gpus(other);
        is_tied || std::mem::discriminant(self) == std::mem::discriminant(other)
    }
}

impl ChangeSet {
    pub(super) fn new(change: Change, drawback: Option<Drawback>) -> Self {
        Self { changes: vec![change], drawbacks: drawback.into_iter().collect() }
    }

    /// Returns whether Slurm may preempt running jobs of the user for these changes.
    pub fn stops_own(&self) -> bool {
        self.drawbacks.iter().any(|drawback| matches!(drawback, Drawback::PreemptsOwn { .. }))
    }

    /// Returns whether Slurm may preempt running jobs of other users for these changes.
    pub(super) fn stops_others(&self) -> bool {
        self.drawbacks.iter().any(|drawback| matches!(drawback, Drawback::PreemptsOthers { .. }))
    }

    /// Returns the request with these changes.
    pub fn applied(&self, request: &Request) -> Request {
        let mut changed = request.clone();
        self.changes.iter().for_each(|change| change.apply(&mut changed));
        changed
    }

    /// Returns both sets combined; `None` if they change the same part of a request, or parts of which one
    /// depends on the other.
    pub(super) fn and(&self, other: &Self) -> Option<Self> {
        let is_tied =
            self.changes.iter().any(|change| other.changes.iter().any(|more| change.is_of_kind(more)));
        (!is_tied).then(|| Self {
            changes: [&self.changes[..], &other.changes].concat(),
            drawbacks: [&self.drawbacks[..], &other.drawbacks].concat(),
        })
    }

    /// Returns whether the job runs as before according to past runs and the site, so that the user has
    /// nothing to decide.
    pub fn is_harmless(&self) -> bool {
        self.drawbacks.iter().all(Drawback::is_harmless)
    }

    /// Returns the new GPU type, if the type changes.
    pub fn gpu_type(&self) -> Option<&GpuType> {
        self.changes.iter().find_map(|change| match change {
            Change::GpuType(gpu_type) => Some(gpu_type),
            _ => None,
        })
    }
}
