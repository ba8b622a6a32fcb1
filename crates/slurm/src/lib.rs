//! All communication with Slurm: command lines as values, one runner, a pure parser for each command, and the
//! real cluster as a world.
//!
//! Only `system` starts programs. The parsers see only text.

pub mod accounting;
pub mod batch_script;
pub mod live;
pub mod review;
pub mod saved;

mod accelerators;
pub mod allocation;
pub mod amount;
mod begin;
mod command;
mod ended;
mod environment;
mod exit_status;
mod gpu_words;
mod gres;
mod holdings;
pub mod job_details;
mod job_options;
mod job_record;
pub(crate) mod notes;
mod output_name;
pub mod permission;
pub mod pool_jobs;
pub mod queue;
mod read;
pub(crate) mod record;
#[cfg(test)]
mod recorded;
mod remedy_command;
mod request;
pub mod sacct;
pub mod sbatch;
mod sbatch_options;
pub mod scancel;
pub mod scontrol_job;
mod scontrol_update;
pub mod script;
pub mod script_changes;
pub mod sinfo;
pub mod site;
pub mod site_calls;
mod slurm_state;
pub mod squeue;
pub(crate) mod stock;
mod system;
pub mod time;
mod untyped;

pub use self::accelerators::uncounted_accelerators;
pub use self::command::{CommandError, CommandLine, CommandOutput, Runner};
pub use self::ended::{JobEnd, ended};
pub use self::environment::cleared_variables;
pub use self::exit_status::ExitStatus;
pub use self::gres::{Gres, Tres};
pub use self::holdings::holdings;
pub use self::job_options::{HIDDEN_OPTIONS, JobOptions};
pub use self::job_record::JobRecord;
pub use self::output_name::{OutputFacts, OutputName};
pub use self::read::read;
pub use self::record::ParseError;
pub use self::remedy_command::{cancel_pending, change_command, has_changed_the_rest, remedy_command};
pub use self::request::RequestError;
pub use self::sbatch::{SubmittedJob, TestOnlyAnswer};
pub use self::sbatch_options::sbatch_options;
pub use self::scancel::Reply;
pub use self::slurm_state::SlurmState;
pub use self::squeue::QueuedJob;
pub use self::system::System;
pub use self::untyped::name_types;
pub use hsched_model::JobId;
