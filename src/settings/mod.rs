//! Settings from six layers: defaults < site file < user file < project file < environment < flags.
//!
//! [`Sources`] says where to look, [`Settings::load`] reads and decides, and every value keeps its
//! [`Origin`]. A project file belongs to a directory that someone else may have written. It may set shell
//! lines and templates, which run only in jobs that the user starts and appear in `config show`, but neither
//! the state directory nor the command for notifications. Only this module reads the environment.

mod decided;
mod entry;
mod environment;
mod file;
mod forbidden;
mod given;
mod keys;
mod problem;
mod sources;
mod starter;
#[cfg(test)]
mod tests;

pub use self::decided::{ColorMode, SettingRow, Settings};
pub use self::entry::Origin;
pub use self::environment::{CommandLineSetting, SITE_FILE_VARIABLE, USER_FILE_VARIABLE};
pub use self::forbidden::Feature;
pub use self::keys::{KEYS, SetBy};
pub use self::problem::{SettingsProblem, SettingsProblems};
pub use self::sources::{
    Sources, columns, is_ascii, is_dumb_terminal, own_slurm_job, own_slurm_job_facts, own_slurm_restarts,
    process_environment,
};
pub use self::starter::Starter;
