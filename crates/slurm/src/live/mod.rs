//! The real cluster as an [`engine::World`](hsched_engine::World): observations from Slurm and the ranks'
//! reports, and requests to Slurm. It makes no decisions.

mod observe;
mod script_jobs;
mod slurm_world;

use crate::{CommandError, ParseError};
use hsched_engine::live::LiveError;

pub use self::script_jobs::script_command;
pub use self::slurm_world::SlurmWorld;

impl From<CommandError> for LiveError {
    fn from(error: CommandError) -> Self {
        Self::System(Box::new(error))
    }
}

impl From<ParseError> for LiveError {
    fn from(error: ParseError) -> Self {
        Self::System(Box::new(error))
    }
}
