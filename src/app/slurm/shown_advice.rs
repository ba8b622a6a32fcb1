//! The remedies that `hsched why` showed last, so that `--apply N` applies the one that was displayed.

use serde::{Deserialize, Serialize};

use crate::app::context::Context;
use crate::app::state;
use hsched_engine::store::{CachedOutput, OutputCache};
use hsched_slurm::CommandLine;
use hsched_ui::Failure;

/// A displayed remedy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct KeptRemedy {
    pub program: String,
    pub args: Vec<String>,
    /// Whether the job stays in the queue.
    pub keeps_job: bool,
    /// Ids of other jobs of the user that it stops, or for which Slurm may stop them.
    #[serde(default)]
    pub stops: Vec<String>,
}

/// The displayed remedies, and their job.
#[derive(Serialize, Deserialize)]
struct KeptAdvice {
    job: String,
    remedies: Vec<KeptRemedy>,
}

/// The name of the file with the displayed remedies.
const NAME: &str = "why";

/// How long a list is valid, in seconds: a quarter of an hour.
const GOOD_FOR: f64 = 900.0;

impl KeptRemedy {
    /// Returns the remedy's command.
    pub(crate) fn command(&self) -> CommandLine {
        CommandLine::new(self.program.clone(), self.args.clone())
    }
}

/// Returns the remedies displayed last if they are for this job and recent.
///
/// # Errors
/// If no state directory is known.
pub(crate) fn last(context: &Context, job: &str) -> Result<Option<Vec<KeptRemedy>>, Failure> {
    let kept = OutputCache::of(&state::root(context)?).get(NAME);
    let age = state::now(context).since(kept.at).0;
    let known = kept.text.and_then(|text| serde_json::from_str::<KeptAdvice>(&text).ok());
    Ok(known.filter(|known| known.job == job && (0.0..GOOD_FOR).contains(&age)).map(|known| known.remedies))
}

/// Stores the remedies of a job; if that fails, `--apply` has none to apply.
pub(crate) fn keep(context: &Context, job: &str, remedies: &[KeptRemedy]) {
    let Ok(root) = state::root(context) else { return };
    let known = KeptAdvice { job: job.to_owned(), remedies: remedies.to_vec() };
    let at = state::now(context);
    let text = serde_json::to_string(&known).ok();
    let _ =
        OutputCache::of(&root).keep(NAME, &CachedOutput { text, at, tried: at, ..CachedOutput::default() });
}
