//! The requirements of a session on its world, beyond those of the engine.

use hsched_engine::live::LiveError;
use hsched_engine::{BackendKind, Observation, State, TaggedJob, World};
use hsched_local::{EndedRun, PoolWorld};
use hsched_model::JobName;

/// A world of jobs: a batch system, or local devices.
pub(crate) trait Backend: World<Error = LiveError> {
    /// Returns where submissions go.
    fn backend_kind(&self) -> BackendKind;

    /// Returns an observation of the jobs, without the nodes if reading them needs another call, and the
    /// queued jobs that hsched submitted (none without a queue).
    ///
    /// # Errors
    /// If nothing can be observed.
    fn look(&mut self, state: &State) -> Result<(Observation, Vec<TaggedJob>), LiveError> {
        Ok((self.observe(state)?, Vec::new()))
    }

    /// Returns the world's messages about jobs since the last call.
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
