//! The subcommands: one file each with its help text, its arguments and one function.

mod add;
mod answered;
mod cache;
mod cancel;
mod check_ddp;
mod cli;
mod config;
mod context;
mod demo;
mod doctor;
mod explain;
mod folders;
mod generate;
mod gpus;
mod guesses;
mod init;
mod input;
mod inventory;
mod local;
mod offer;
mod permissions;
mod plan;
mod planning;
mod policy_args;
mod probe;
mod queue_args;
mod report;
mod sbatch_options;
mod speeds;
mod state;
mod status;
mod submission;
mod submit;
mod watch;
mod write_docs;

pub use self::cli::{Cli, main};
