//! What a session needs of the world in which jobs run, beyond what the engine needs.

use crate::local::{EndedRun, PoolWorld};
use hsched_engine::live::LiveError;
use hsched_engine::{BackendKind, Observation, State, TaggedJob, World};
use hsched_model::JobName;

/// A world in which jobs run: a batch system or devices at hand.
pub(crate) trait Backend: World<Error = LiveError> {
    /// Returns where submissions go.
    fn backend_kind(&self) -> BackendKind;

    /// Returns what is to be seen of the jobs, without a look at the nodes where that costs a question, and the jobs in the
    /// queue that hsched submitted; without a queue there are none.
    ///
    /// # Errors
    /// If nothing can be seen.
    fn look(&mut self, state: &State) -> Result<(Observation, Vec<TaggedJob>), LiveError> {
        Ok((self.observe(state)?, Vec::new()))
    }

    /// Returns what the world has to say of jobs since the last call.
    fn said(&mut self) -> Vec<(JobName, String)> {
        Vec::new()
    }
}

impl Backend for PoolWorld<'_> {
    fn backend_kind(&self) -> BackendKind {
        BackendKind::Devices
    }

    fn said(&mut self) -> Vec<(JobName, String)> {
        self.here.said()
    }
}

impl Backend for EndedRun<'_> {
    fn backend_kind(&self) -> BackendKind {
        BackendKind::Devices
    }
}
