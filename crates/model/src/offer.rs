//! GPUs that jobs may get or hold, and the CPUs and memory of their ranks.

use std::collections::BTreeMap;

use crate::{BitRate, GpuType, NodeName};

/// GPUs of one node that jobs may get.
#[derive(Clone, Debug, PartialEq)]
pub struct OfferedNode {
    pub name: NodeName,
    /// Types with counts above zero.
    pub gpus: Vec<(GpuType, u32)>,
    /// The node's own rate between its GPUs.
    pub intra_node: Option<BitRate>,
}

/// The needs of one rank besides its GPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RankNeeds {
    /// CPUs; 0 (the default) if they do not limit the number of ranks.
    pub cpus: u64,
    /// Bytes of memory; 0 if unknown.
    pub memory: u64,
}

/// Resources held by the user's running jobs, by node, which can count as free if those jobs are planned
/// again.
pub type Holdings = BTreeMap<NodeName, HeldResources>;

/// Resources held on one node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeldResources {
    pub gpus: BTreeMap<GpuType, u32>,
    pub cpus: u64,
    /// Memory in bytes.
    pub memory: u64,
}

impl RankNeeds {
    /// Returns the needs that cover both.
    pub fn max(self, other: Self) -> Self {
        Self { cpus: self.cpus.max(other.cpus), memory: self.memory.max(other.memory) }
    }

    /// Returns the number of ranks for which these CPUs and bytes of memory suffice; `None` means an unknown
    /// amount, which does not limit the number.
    pub fn ranks(self, cpus: Option<u64>, memory: Option<u64>) -> u64 {
        let ranks = |room: Option<u64>, need: u64| match room {
            Some(room) if need > 0 => room / need,
            _ => u64::MAX,
        };
        ranks(cpus, self.cpus).min(ranks(memory, self.memory))
    }
}

/// Limits the GPUs of a node to one for each of this many ranks; later types are reduced first.
pub fn keep_to_ranks<'a>(gpus: impl Iterator<Item = &'a mut u32>, mut ranks: u64) {
    for count in gpus {
        *count = u32::try_from(ranks.min(u64::from(*count))).unwrap_or(*count);
        ranks -= u64::from(*count);
    }
}
