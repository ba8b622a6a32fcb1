//! Slurm's commands as values, one runner, and one pure parser per command.
//!
//! Only `system` starts programs. The parsers see text and never the world.

mod amount;
mod command;
mod environment;
pub mod gres;
mod read;
mod record;
mod recorded;
pub mod sinfo;
mod system;

pub use self::command::{CommandError, CommandLine, Output, Runner};
pub use self::gres::{Gres, Tres};
pub use self::read::read;
pub use self::record::ParseError;
pub use self::recorded::Recorded;
pub use self::system::System;
