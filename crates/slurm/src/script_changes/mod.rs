//! What a script asks for on a certain cluster, and the same script with a change of it: as options of `sbatch`, and as text.
//!
//! A change is only made where the reader of scripts understands the outcome as what was meant.

mod gpu_value;
mod past_runs;
mod rewrite;
mod settings;
mod site_request;

pub use self::past_runs::{past_runs, past_runs_command};
pub use self::rewrite::{LineChange, NotInScript, Rewritten, rewrite};
pub use self::settings::{Setting, settings, words};
pub use self::site_request::{SiteRequest, site_request};
