//! The subcommands: one file each with its help text, its arguments and one function.

mod add;
mod cache;
mod cancel;
mod check_ddp;
mod cli;
mod config;
mod consolidate;
mod curve;
mod demo;
mod doctor;
mod explain;
mod generate;
mod generate_trace;
mod gpus;
mod guard;
mod import;
mod init;
mod inventory;
mod local;
mod logs;
mod plan;
mod plan_queue;
mod probe;
mod report;
mod run;
mod simulate;
mod status;
mod submit;
mod submit_queue;
mod together;
mod trace;
mod watch;
mod when;
mod when_score;
mod write_docs;

pub use self::cli::{Cli, main};
