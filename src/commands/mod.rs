//! The subcommands: one file each with its help text, its arguments and one function.

mod cli;
mod config;
mod context;
mod gpus;
mod input;
mod inventory;
mod plan;
mod planning;
mod submission;
mod submit;

pub use self::cli::{Cli, main};
