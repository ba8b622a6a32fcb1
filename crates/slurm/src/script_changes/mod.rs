//! A script's request on a given cluster, and the same script with a changed request: as options of `sbatch`
//! and as text.
//!
//! A change is made only if the reader of scripts interprets the result as intended.

mod gpu_value;
mod past_runs;
mod rewrite;
mod settings;
mod site_request;

pub(crate) use self::past_runs::FIELDS as PAST_RUN_FIELDS;
pub use self::past_runs::{past_runs, past_runs_command};
pub use self::rewrite::{LineChange, NotInScript, RewrittenScript, rewrite};
pub use self::settings::{Setting, settings, words};
pub use self::site_request::{SiteRequest, site_request};
