//! Plans deep-learning jobs over GPUs of different kinds and runs them on Slurm.
//!
//! This crate is the program: command line, settings, terminal, and the devices of this machine. The
//! decisions are in the crates `hsched-model`, `-plan`, `-waits`, `-queue`, `-engine`, `-slurm` and `-lab`.
//! `ARCHITECTURE.md` is the map.

mod app;
pub mod commands;
pub mod error;
pub mod exit;
pub mod local;
pub mod manual;
pub mod merge;
pub mod probe;
pub mod settings;
pub mod ui;
