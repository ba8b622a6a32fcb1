//! Slurm's reasons for pending jobs: the meaning of each, whether time lifts it, and what its user can do.
//!
//! The names are from Slurm 20.11 to 26.05. Names of limits are composed by rule (`limit`); all other names
//! are listed (`named`).

mod limit;
mod named;

pub use self::limit::{LimitReason, Resource};
pub use self::named::with_blanks as reason_with_blanks;

use std::borrow::Cow;

/// The condition that ends a reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LiftedBy {
    /// Time: other jobs end, or a given time is reached.
    Time,
    /// Time, if past use decays or is reset.
    Decay,
    /// The administrators of the site.
    Site,
    /// The person who holds the job.
    Release,
    /// Only a change of the job.
    Change,
    /// The reason describes how a job ended.
    End,
    /// Unknown: no code of Slurm sets the reason, or this version of hsched does not know it.
    Unknown,
}

/// A parsed reason.
#[derive(Clone, Debug, PartialEq)]
pub struct Reason {
    /// The name of the reason, without the text that Slurm appends; empty if Slurm gives none.
    pub name: String,
    /// The text that Slurm appends to the name; the whole text if Slurm prints a sentence in place of a name.
    pub rest: String,
    pub lifted_by: LiftedBy,
    /// The meaning of the reason, as a sentence.
    pub meaning: Cow<'static, str>,
    /// What the job's user can do, in sentences with `{id}` in place of the job's id; empty if there is
    /// nothing.
    pub way_out: Cow<'static, str>,
    /// The limit, if the reason is a limit of an account, a user or a QOS.
    pub limit: Option<LimitReason>,
}

impl Reason {
    /// Parses a reason printed by `squeue` or `scontrol`.
    pub fn read(text: &str) -> Self {
        let text = named::with_blanks(text.trim().trim_start_matches('(').trim_end_matches(')'));
        let (name, rest) = named::split(&text);
        let reason = |lifted_by, meaning: Cow<'static, str>, way_out: Cow<'static, str>, limit| Self {
            name: name.to_owned(),
            rest: rest.to_owned(),
            lifted_by,
            meaning,
            way_out,
            limit,
        };
        if let Some(limit) = LimitReason::read(name) {
            return reason(limit.lifted_by(), limit.meaning().into(), limit.way_out().into(), Some(limit));
        }
        if let Some((_, lifted_by, meaning, way_out)) = named::find(name) {
            return reason(*lifted_by, (*meaning).into(), (*way_out).into(), None);
        }
        let meaning = format!("Slurm gives the reason {text:?}, which this version of hsched does not know.");
        reason(LiftedBy::Unknown, meaning.into(), "".into(), None)
    }
}

#[cfg(test)]
mod tests;
