//! Parts shared by all worlds of real jobs: scripts on disk, job tags, reports, last words, and signals that
//! are held back until an answer is in the journal.

mod error;
mod last_word;
mod reported;
mod scripts;
mod signals;
mod tag;

pub use self::error::LiveError;
pub use self::last_word::{left_word, word_end};
pub use self::reported::{ReportedData, reported, reported_by};
pub use self::scripts::{JobScript, PreparedRun, ScriptContext, absolute, scripts};
pub use self::signals::{HeldSignals, Interrupts, hold, on_endings, on_interrupt};
pub use self::tag::Tag;
