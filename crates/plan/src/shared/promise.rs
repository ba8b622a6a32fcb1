//! GPUs that were assigned to a job that does not have them yet, and their stored form.

use serde::{Deserialize, Serialize};

use crate::{Memory, Placement, Policy, Problem, Slot};
use hsched_model::{JobName, NodeName};

/// GPUs reserved for a job.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(super) struct Promise {
    pub job: JobName,
    gpus: Vec<PromisedGpus>,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
struct PromisedGpus {
    node: NodeName,
    /// The label of the GPUs' type.
    label: String,
    count: u32,
}

/// The content of a memory.
#[derive(Deserialize, Serialize)]
struct PromiseMemory {
    promises: Vec<Promise>,
    /// The memory of the wrapped policy.
    inner: Option<Memory>,
}

/// The version of this format; a memory of another version is ignored.
const VERSION: u32 = 1;

impl Promise {
    /// Returns the promise of these GPUs to a job of a problem.
    pub(super) fn new(problem: &Problem, job: usize, placement: &Placement) -> Self {
        let gpus = |slot: &Slot| PromisedGpus {
            node: problem.nodes[slot.node].name.clone(),
            label: problem.labels[slot.gpu_type].clone(),
            count: slot.count,
        };
        Self { job: problem.jobs[job].name.clone(), gpus: placement.slots.iter().map(gpus).collect() }
    }

    /// Returns the GPUs by index; `None` if a node or a type no longer exists.
    pub(super) fn slots(&self, problem: &Problem) -> Option<Vec<Slot>> {
        let slot = |gpus: &PromisedGpus| {
            let node = problem.nodes.iter().position(|node| node.name == gpus.node)?;
            let gpu_type = problem.labels.iter().position(|label| *label == gpus.label)?;
            Some(Slot { node, gpu_type, count: gpus.count })
        };
        self.gpus.iter().map(slot).collect()
    }
}

/// Returns the memory; `None` if there is nothing to remember.
pub(super) fn write(policy: &str, promises: &[Promise], inner: Option<Memory>) -> Option<Memory> {
    if promises.is_empty() && inner.is_none() {
        return None;
    }
    let text = serde_json::to_string(&PromiseMemory { promises: promises.to_vec(), inner }).ok()?;
    Some(Memory { policy: policy.to_owned(), version: VERSION, text })
}

/// Returns the promises in a memory, and restores the memory of the policy `inside`; `None` if the memory has
/// another format.
pub(super) fn recall(memory: &Memory, inside: &mut dyn Policy) -> Option<Vec<Promise>> {
    let text = (memory.version == VERSION).then_some(&memory.text)?;
    let PromiseMemory { promises, inner } = serde_json::from_str(text).ok()?;
    if let Some(inner) = inner {
        inside.remember(&inner);
    }
    Some(promises)
}
