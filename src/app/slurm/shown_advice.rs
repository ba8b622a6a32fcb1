//! The remedies that `hsched why` showed last, so that `--apply N` applies the one that was displayed.

use serde::{Deserialize, Serialize};

use crate::app::context::Context;
use crate::app::state;
use hsched_engine::store::{CachedOutput, OutputCache};
use hsched_model::{Seconds, Time};
use hsched_slurm::CommandLine;
use hsched_ui::Failure;

/// A displayed remedy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct KeptRemedy {
    /// The program and its arguments, or why they are unknown.
    pub command: Result<(String, Vec<String>), String>,
    /// Whether the job stays in the queue.
    pub keeps_job: bool,
    /// Ids of other jobs of the user that the remedy cancels, or that Slurm may stop because of it.
    #[serde(default)]
    pub stops: Vec<String>,
    /// The drawbacks, in words.
    #[serde(default)]
    pub drawbacks: Vec<String>,
}

/// The remedies displayed last for a job.
#[derive(Serialize, Deserialize)]
struct KeptAdvice {
    job: String,
    at: Time,
    remedies: Vec<KeptRemedy>,
}

/// The name of the file with the lists.
const NAME: &str = "why-lists";

/// How long a list is valid: a quarter of an hour.
const GOOD_FOR: Seconds = Seconds(900.0);

impl KeptRemedy {
    /// Returns the remedy's command, or why the command is unknown.
    pub(crate) fn command(&self) -> Result<CommandLine, String> {
        let (program, args) = self.command.clone()?;
        Ok(CommandLine::new(program, args))
    }
}

/// Returns the remedies displayed last for this job, if they are recent.
///
/// # Errors
/// If no state directory is known.
pub(crate) fn last(context: &Context, job: &str) -> Result<Option<Vec<KeptRemedy>>, Failure> {
    let lists = recent(&OutputCache::of(&state::root(context)?), state::now(context));
    Ok(lists.into_iter().find(|known| known.job == job).map(|known| known.remedies))
}

/// Stores the remedies of a job. If that fails, a note says so, and `--apply` finds no list. On a read-only file system,
/// it finds an earlier list while that is valid.
pub(crate) fn keep(context: &Context, job: &str, remedies: Vec<KeptRemedy>) {
    let Ok(root) = state::root(context) else { return };
    let (cache, at) = (OutputCache::of(&root), state::now(context));
    let is_empty = remedies.is_empty();
    let mut lists = recent(&cache, at);
    lists.retain(|known| known.job != job);
    lists.push(KeptAdvice { job: job.to_owned(), at, remedies });
    let text = serde_json::to_string(&lists).ok();
    let list = CachedOutput { text, at, tried: at, ..CachedOutput::default() };
    if let Err(error) = cache.keep_list(NAME, &list)
        && !is_empty
    {
        context.note(&format!("do not use --apply with this list, which cannot be kept: {error}"));
    }
}

/// Returns the lists that are still valid.
fn recent(cache: &OutputCache, now: Time) -> Vec<KeptAdvice> {
    let text = cache.get(NAME).text.unwrap_or_default();
    let mut lists: Vec<KeptAdvice> = serde_json::from_str(&text).unwrap_or_default();
    lists.retain(|known| now.is_soon_after(known.at, GOOD_FOR));
    lists
}
