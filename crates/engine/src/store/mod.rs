//! The state directory: lock, snapshot, journal, runs, reports, measured speeds.
//!
//! This module knows the format of every file, except those of a pool. Files with state have a version, and a
//! newer version is refused.

mod deferred_commands;
mod files;
mod held;
mod inspection;
mod journal;
mod journal_file;
mod laid;
mod last_look;
mod ledger;
mod memory_report;
mod metric_ranges;
mod names;
mod newest;
mod old_runs;
mod output_cache;
mod played;
mod pool_files;
mod predictions;
mod random;
mod recovery;
mod report_file;
mod report_line;
mod report_summary;
pub mod reports;
mod restore;
mod results;
mod run_folders;
pub mod samples;
mod script_chains;
mod seal;
mod shares_file;
mod site_looks;
mod snapshot;
mod speeds;
mod state_before;
mod state_dir;
mod state_file;
mod state_location;
mod state_record;
mod unread_events;

pub use self::deferred_commands::{DeferredChange, DeferredCommand, deferred_ids};
pub use self::held::StoredState;
pub use self::inspection::{Finding, Inspection};
pub use self::laid::{laid_by_another, lay_output};
pub use self::last_look::last_look;
pub use self::ledger::Ledger;
pub use self::memory_report::MemoryReport;
pub use self::metric_ranges::metric_ranges;
pub use self::names::is_name_of_state;
pub use self::output_cache::{CachedOutput, OutputCache};
pub use self::pool_files::PoolFolder;
pub use self::predictions::{Predictions, SubmissionPrediction};
pub use self::report_file::{ReportLine, planned_samples};
pub use self::results::{MetricCurves, Results};
pub(super) use self::run_folders::fence_folder;
pub use self::run_folders::{claim_file, new_run_id, pieces_folder, report_folder, run_folder};
pub use self::script_chains::{ChainState, ScriptChain, WORKDIR, keep_first_piece, script_chains};
pub use self::site_looks::{LastLook, LooksSize, SiteLooks};
pub use self::snapshot::BY_HAND;
pub use self::speeds::{SpeedFile, SpeedFileError};
pub use self::state_dir::{StateDir, StateError, StateView, state_stamp};
pub use self::state_location::StateLocation;
pub use self::unread_events::UnreadEvent;
