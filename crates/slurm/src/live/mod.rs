//! The real cluster as an [`engine::World`](hsched_engine::World): what Slurm and the ranks' reports show, and
//! requests to Slurm. It decides nothing.

mod error;
mod observe;
mod reported;
mod scripts;
mod signals;
mod slurm_world;

pub use self::error::LiveError;
pub use self::observe::{left_word, word_end};
pub use self::reported::{Reported, reported};
pub use self::scripts::{Prepared, Script, Site, absolute, scripts};
pub use self::signals::{Interrupts, on_endings, on_interrupt};
pub use self::slurm_world::{Complete, Oracle, SlurmWorld};
