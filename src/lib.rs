//! Plans deep-learning jobs over GPUs of different kinds and runs them on Slurm.
//!
//! A pure core (`model`, `catalogue`, `curve`, `formats`, `throughput`, `solve`, `policy`, `plan_file`, `render`, `engine`, `simulate`, `replay`, `learning`, `queue`, `generate`, `trace`) decides; a shell around it
//! (`slurm`, `probe`, `store`, `live`, `local`, `settings`, `ui`, `app`, `commands`) touches the world. `ARCHITECTURE.md` draws the map.

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
