//! GPUs that were decided on and that their job does not have yet, and how they are remembered.

use serde::{Deserialize, Serialize};

use crate::{Memory, Placement, Policy, Problem, Slot};
use hsched_model::{JobName, NodeName};

/// GPUs that are kept for a job.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(super) struct Promise {
    pub job: JobName,
    gpus: Vec<PromisedGpus>,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
struct PromisedGpus {
    node: NodeName,
    /// The label of their type.
    label: String,
    count: u32,
}

/// A memory's content.
#[derive(Deserialize, Serialize)]
struct PromiseMemory {
    promises: Vec<Promise>,
    /// Of the policy inside.
    inner: Option<Memory>,
}

/// The version of these words; a memory of another one is forgotten.
const VERSION: u32 = 1;

impl Promise {
    /// Returns that these GPUs are kept for a job of a problem.
    pub(super) fn new(problem: &Problem, job: usize, placement: &Placement) -> Self {
        let gpus = |slot: &Slot| PromisedGpus {
            node: problem.nodes[slot.node].name.clone(),
            label: problem.labels[slot.gpu_type].clone(),
            count: slot.count,
        };
        Self { job: problem.jobs[job].name.clone(), gpus: placement.slots.iter().map(gpus).collect() }
    }

    /// Returns the GPUs by their numbers; `None` where a node is no longer there.
    pub(super) fn slots(&self, problem: &Problem) -> Option<Vec<Slot>> {
        let slot = |gpus: &PromisedGpus| {
            let node = problem.nodes.iter().position(|node| node.name == gpus.node)?;
            let gpu_type = problem.labels.iter().position(|label| *label == gpus.label)?;
            Some(Slot { node, gpu_type, count: gpus.count })
        };
        self.gpus.iter().map(slot).collect()
    }
}

/// Returns what is to be remembered; nothing where there is nothing.
pub(super) fn write(policy: &str, promises: &[Promise], inner: Option<Memory>) -> Option<Memory> {
    if promises.is_empty() && inner.is_none() {
        return None;
    }
    let text = serde_json::to_string(&PromiseMemory { promises: promises.to_vec(), inner }).ok()?;
    Some(Memory { policy: policy.to_owned(), version: VERSION, text })
}

/// Returns what was promised, and reminds the policy `inside` of its own; `None` where the memory is in other words.
pub(super) fn recall(memory: &Memory, inside: &mut dyn Policy) -> Option<Vec<Promise>> {
    let text = (memory.version == VERSION).then_some(&memory.text)?;
    let PromiseMemory { promises, inner } = serde_json::from_str(text).ok()?;
    if let Some(inner) = inner {
        inside.remember(&inner);
    }
    Some(promises)
}
