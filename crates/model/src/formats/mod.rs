//! Job, cluster and inventory files: text to values, with all errors of a file at once, and back to text.
//!
//! [`jobs`], [`cluster`] and [`inventory`] read whole files. The readers of single values are public because
//! settings use the same notations.

pub mod cluster;
pub mod graphs;
pub mod history;
pub mod inventory;
pub mod jobs;
#[cfg(test)]
mod jobs_tests;
pub mod loose;
pub mod starter;

mod after;
mod cluster_yaml;
mod copies;
mod counted;
mod draft;
mod duration;
mod event_file;
mod goals;
mod gpus;
mod job_json;
mod job_keys;
mod job_yaml;
mod json;
mod launch;
mod number;
mod placeholder;
mod problem;
mod reader;
mod search;
mod size;
mod sweep;
#[cfg(test)]
mod sweep_tests;
mod trial;
mod yaml;

pub use self::counted::counted;
pub use self::duration::{duration_text, parse_duration};
pub use self::gpus::{parse_speed, parse_type};
pub use self::job_keys::{JobKey, job_keys};
pub use self::job_yaml::flow;
pub use self::launch::{TODO, no_nul, one_line, shell_lines, slurm_name, split_words};
pub use self::number::{parse_number, parse_whole};
pub use self::problem::{FileProblem, Problems, ValueError, nearest, quoted};
pub use self::size::parse_size;
pub use self::sweep::is_key as is_sweep_key;
pub use self::trial::{Trial, trial_json, trial_of};
