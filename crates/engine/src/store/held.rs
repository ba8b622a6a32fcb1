//! The state in one file of a state directory, or in a copy of one. If the files disagree, the user chooses
//! one by its content.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use chrono::{DateTime, Utc};

use crate::store::StateError;
use crate::store::files::read;
use crate::store::journal_file::{BEGINNING, Writer};
use crate::store::names::{JOURNAL, OLDER, SNAPSHOT};
use crate::store::newest::Newest;
use crate::store::played::JournaledState;
use crate::store::snapshot::StateSnapshot;
use crate::store::state_file::Claim;
use crate::{Rules, State};
use hsched_model::Time;
use hsched_model::formats::counted;
use hsched_model::number::{to_f64, to_i64};

/// Maximum number of jobs of one state that are named.
const MOST_NAMES: usize = 8;

/// The state in one file.
#[derive(Debug)]
pub struct StoredState {
    pub state: State,
    /// The time of the state.
    pub at: Option<Time>,
    /// The fault of the file, if it has one: the rest of a sentence that begins with its name.
    pub trouble: Option<String>,
    pub(super) claim: Claim,
    /// The last journal line that the state includes.
    pub(super) seq: u64,
}

impl StoredState {
    /// Reads a snapshot or a journal of any name.
    ///
    /// # Errors
    /// If it cannot be read or contains no state.
    pub fn read(path: &Path, rules: &Rules) -> Result<Self, StateError> {
        let unusable = |what: String| StateError::Damaged { path: path.to_owned(), what };
        let bytes = read(path)?.ok_or_else(|| StateError::Missing { path: path.to_owned() })?;
        if bytes.starts_with(BEGINNING) || path.file_name().is_some_and(|name| name == JOURNAL) {
            return Self::of_journal(&bytes, rules).map_err(unusable);
        }
        match StateSnapshot::parse(path, &bytes)? {
            StateSnapshot::Sound(file) | StateSnapshot::Unsealed(file) => {
                let at = file.at.or_else(|| changed(path));
                Ok(Self { state: file.state, at, trouble: None, claim: file.claim, seq: file.seq })
            }
            other => Err(unusable(other.trouble().unwrap_or_default())),
        }
    }

    fn of_journal(bytes: &[u8], rules: &Rules) -> Result<Self, String> {
        let played = JournaledState::of(None, bytes, Writer::Own)?;
        let (state, faults) = (played.state(rules), played.journal.faults.join(", "));
        let trouble = (!faults.is_empty()).then(|| format!("is damaged ({faults})"));
        let Some(file) = played.recorded else {
            let none = if bytes.is_empty() {
                "is empty"
            } else if played.journal.is_blank() {
                "has no complete line"
            } else {
                "has no complete state"
            };
            return Err(trouble.unwrap_or_else(|| none.to_owned()));
        };
        Ok(Self { state, at: played.at, trouble, claim: file.claim, seq: played.reached })
    }

    /// Returns the state's time, jobs and scripts, as the end of a sentence.
    pub fn knows(&self) -> String {
        let from = self.at.and_then(date).map(|at| format!("is from {at} and ")).unwrap_or_default();
        let mut groups: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        let jobs = self.state.jobs.iter().map(|tracked| (tracked.phase.word(), &tracked.job.name));
        let scripts = self.state.scripts.iter().map(|script| (script.word(), &script.name));
        for (word, name) in jobs.chain(scripts) {
            groups.entry(word).or_default().push(name.as_str());
        }
        let group = |(word, names): (&str, Vec<&str>)| {
            let (count, more) = (names.len(), names.len().saturating_sub(MOST_NAMES));
            let names = names[..count - more].join(", ");
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            format!("{count} {word} ({names}{more})")
        };
        let groups: Vec<String> = groups.into_iter().map(group).collect();
        let (jobs, scripts) = (self.state.jobs.len(), self.state.scripts.len());
        let counts = [(jobs, "job"), (scripts, "script")].into_iter().filter(|(count, _)| *count > 0);
        let counts: Vec<String> = counts.map(|(count, noun)| counted(count, noun)).collect();
        if counts.is_empty() {
            return format!("{from}has no jobs");
        }
        format!("{from}has {}: {}", counts.join(" and "), groups.join(", "))
    }
}

/// Returns the error for a state that cannot be rebuilt, with the known facts about its files.
pub(super) fn lost(root: &Path, newest: Option<Newest>, rules: &Rules) -> StateError {
    let (mut known, mut best): (Vec<String>, Option<(u64, PathBuf)>) = (Vec::new(), None);
    for name in [SNAPSHOT, OLDER, JOURNAL] {
        let path = root.join(name);
        let held = StoredState::read(&path, rules);
        known.push(match &held {
            Ok(held) => {
                let short = newest.filter(|newest| held.seq < newest.line && held.trouble.is_none());
                let verb = if name == JOURNAL { "ends with" } else { "is at" };
                let ends = short.map(|newest| format!("{verb} entry {} of {}", held.seq, newest.line));
                let how = held.trouble.clone().or(ends).unwrap_or_else(|| "is intact".into());
                format!("{name} {how}, {}", held.knows())
            }
            Err(error) => {
                let what = match error {
                    StateError::Damaged { what, .. } => what.clone(),
                    StateError::Missing { .. } => "is missing".to_owned(),
                    other => other.in_one_line(),
                };
                let changed = changed(&path).and_then(date);
                let changed = changed.map(|at| format!("; last changed {at}")).unwrap_or_default();
                format!("{name} {what}{changed}")
            }
        });
        if let Ok(held) = held
            && best.as_ref().is_none_or(|(seq, _)| *seq <= held.seq)
        {
            best = Some((held.seq, path));
        }
    }
    known.extend(last_run(root));
    StateError::Lost { path: root.to_owned(), known, restore: best.map(|(_, path)| path) }
}

/// Returns a sentence about the latest run.
fn last_run(root: &Path) -> Option<String> {
    let entries = |folder: &Path| fs::read_dir(folder).into_iter().flatten().flatten();
    let runs = entries(&root.join("runs"));
    let last = runs.max_by_key(|run| run.metadata().and_then(|data| data.modified()).ok())?;
    let names = entries(&last.path()).filter_map(|file| file.file_name().into_string().ok());
    let mut jobs: Vec<String> =
        names.filter_map(|name| Some(name.strip_suffix(".sbatch")?.to_owned())).collect();
    jobs.sort();
    let run = last.file_name();
    let with = if jobs.is_empty() { String::new() } else { format!(", with the jobs {}", jobs.join(", ")) };
    Some(format!("the latest run is runs/{}{with}", run.display()))
}

/// Returns when a file was last changed.
pub(super) fn changed(path: &Path) -> Option<Time> {
    let modified = fs::metadata(path).and_then(|data| data.modified()).ok()?;
    Some(Time(to_f64(DateTime::<Utc>::from(modified).timestamp_millis()) / 1000.0))
}

/// Returns a readable time; `None` if it is out of range.
fn date(at: Time) -> Option<String> {
    let moment = DateTime::from_timestamp(to_i64(at.0), 0)?;
    Some(moment.format("%Y-%m-%d %H:%M:%S UTC").to_string())
}
