//! Reads the state from the files of a state directory, even when one of them is damaged.
//!
//! The snapshot comes first, then its older copy with the journal's records since, then the journal alone.
//! Each must reach the newest state ever stored, whose number is in `newest`. If that is not certain, reading
//! fails and a person has to decide. This module writes nothing.

use std::path::Path;

use crate::store::files::read;
use crate::store::held::lost;
use crate::store::journal_file::Writer;
use crate::store::names::{JOURNAL, OLDER, SNAPSHOT, SPEEDS, chain};
use crate::store::newest::Newest;
use crate::store::played::JournaledState;
use crate::store::seal::SealVerdict;
use crate::store::snapshot::StateSnapshot;
use crate::store::speeds::WITHOUT;
use crate::store::state_file::StateFile;
use crate::store::{SpeedFile, StateError};
use crate::{Rules, State};

/// The contents of a state directory's files.
pub(super) struct DirectoryContents {
    pub state: State,
    /// The state according to the snapshot and the journal's records, without the answers after them; `None` if
    /// there is neither.
    pub recorded: Option<StateFile>,
    /// The highest number of a journal entry according to all files.
    pub seq: u64,
    /// The content of `newest`.
    pub newest: Option<Newest>,
    /// The last entry included in the snapshot; 0 if there is no usable snapshot.
    pub kept: u64,
    /// Length of the journal's complete lines in bytes.
    pub length: u64,
    /// Number of times that the measured speeds have been saved.
    pub saves: u64,
    /// The condition of the snapshot, the journal and the measured speeds.
    pub snapshot: Condition,
    pub journal: Condition,
    pub speeds: Condition,
}

/// The condition of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Condition {
    Sound,
    /// The content is valid but must be rewritten with a checksum, because version 0.1.0 or a person wrote
    /// it.
    Outdated,
    /// It is damaged or missing; the text says how, and the consequence.
    Damaged(String),
    /// It is intact but older than the other files; the text has the consequence.
    Older(String),
}

impl Condition {
    /// Returns the fault of the file; `None` if its content is valid and current.
    pub(super) fn trouble(&self) -> Option<&str> {
        match self {
            Self::Sound | Self::Outdated => None,
            Self::Damaged(what) | Self::Older(what) => Some(what),
        }
    }
}

/// The files from which the state is read.
struct StateFiles<'a> {
    root: &'a Path,
    newest: Option<Newest>,
    older: StateSnapshot,
    snapshot: StateSnapshot,
    journal: Option<Vec<u8>>,
}

impl<'a> StateFiles<'a> {
    /// Reads the files in an order in which each includes the content of the earlier ones, even if another
    /// process writes at the same time.
    fn read(root: &'a Path) -> Result<Self, StateError> {
        let newest = Newest::read(root);
        let older = StateSnapshot::read(&root.join(OLDER));
        Ok(Self {
            root,
            newest,
            older: older.unwrap_or_else(|error| StateSnapshot::Damaged(chain(&error))),
            snapshot: StateSnapshot::read(&root.join(SNAPSHOT))?,
            journal: read(&root.join(JOURNAL))?,
        })
    }

    /// Returns the state, provided that no newer one ever existed.
    fn contents(self, rules: &Rules) -> Result<DirectoryContents, StateError> {
        let due = self.newest.map_or(0, |newest| newest.state);
        let is_new = due == 0
            && matches!((&self.snapshot, &self.older), (StateSnapshot::Missing, StateSnapshot::Missing))
            && self.played(None, Writer::Own)?.has_no_record();
        let due = due.max(self.older.file().map_or(0, |file| file.seq));
        match self.snapshot.file() {
            Some(file) if file.seq >= due => self.after(file, rules),
            None if is_new => Ok(DirectoryContents::of(self.played(None, Writer::Own)?, self.newest, rules)),
            _ => self.recovered(rules),
        }
    }

    /// Returns the newest snapshot with the later changes.
    fn after(&self, file: &StateFile, rules: &Rules) -> Result<DirectoryContents, StateError> {
        let writer = if file.is_unsealed() { Writer::Before } else { Writer::Own };
        let played = self.played(Some(file), writer)?;
        let known = self.newest.map_or(0, |newest| newest.line).max(file.seq);
        let mut faults = played.journal.faults.clone();
        if played.journal.last < known {
            faults.push(format!("it ends with entry {} of {known}", played.journal.last));
        }
        let is_sealed = matches!(self.snapshot, StateSnapshot::Sound(_));
        let outdated = if is_sealed { Condition::Sound } else { Condition::Outdated };
        let journal = match (&self.journal, writer) {
            // Version 0.1.0 left unreadable lines each time it was killed.
            (_, Writer::Before) => Condition::Outdated,
            (Some(_), Writer::Own) if faults.is_empty() => outdated.clone(),
            (Some(_), Writer::Own) => Condition::Damaged(format!(
                "is damaged ({}); no job is lost: {SNAPSHOT} is intact, and hsched asks Slurm about \
                 anything newer",
                faults.join(", ")
            )),
            (None, Writer::Own) => {
                Condition::Damaged(format!("is missing; no job is lost: {SNAPSHOT} is intact"))
            }
        };
        let kept = file.seq;
        Ok(DirectoryContents {
            kept,
            snapshot: outdated,
            journal,
            ..DirectoryContents::of(played, self.newest, rules)
        })
    }

    /// Rebuilds the state without the newest snapshot.
    fn recovered(&self, rules: &Rules) -> Result<DirectoryContents, StateError> {
        let copied = self.older.file().map_or(0, |file| file.seq);
        // If the numbers are lower than those of the older copy, `newest` itself is an older copy.
        let Some(newest) = self.newest.filter(|newest| newest.state >= copied) else {
            return Err(lost(self.root, self.newest, rules));
        };
        // The older copy, the journal alone, and the content found instead of the newest snapshot.
        let starts = [
            (self.older.file(), "it is rebuilt from state.json.old and the journal"),
            (None, "it is rebuilt from the journal"),
            (self.snapshot.file(), "the journal has the later changes"),
        ];
        let mut found = None;
        for (start, source) in starts {
            let played = self.played(start, Writer::Own)?;
            if played.recorded.is_some() && played.reached >= newest.line {
                let source = if played.is_of_journal { "it is rebuilt from the journal" } else { source };
                found = Some((played, source));
                break;
            }
        }
        let Some((played, source)) = found else { return Err(lost(self.root, Some(newest), rules)) };
        let snapshot = match self.snapshot.trouble() {
            Some(what) => Condition::Damaged(format!("{what}; nothing is lost: {source}")),
            None => Condition::Older(format!("is an older copy; nothing is lost: {source}")),
        };
        // Damage before the needed part does no harm, but is repaired.
        let journal = match played.journal.faults.join(", ") {
            _ if self.journal.is_none() => Condition::Damaged("is missing; nothing is lost".into()),
            faults if faults.is_empty() => Condition::Sound,
            faults => Condition::Damaged(format!(
                "is damaged ({faults}), but only in lines that are no longer \
                    needed"
            )),
        };
        Ok(DirectoryContents { snapshot, journal, ..DirectoryContents::of(played, self.newest, rules) })
    }

    /// Applies the journal's lines to a snapshot.
    fn played(&self, start: Option<&StateFile>, writer: Writer) -> Result<JournaledState, StateError> {
        let played = JournaledState::of(start.cloned(), self.journal.as_deref().unwrap_or_default(), writer);
        played.map_err(|what| StateError::Damaged { path: self.root.join(JOURNAL), what })
    }
}

impl DirectoryContents {
    /// Reads the snapshot, the later changes and the measured speeds; changes nothing.
    ///
    /// # Errors
    /// If a file cannot be read or belongs to another version, or if the newest state cannot be rebuilt.
    pub(super) fn read(root: &Path, rules: &Rules) -> Result<Self, StateError> {
        let mut contents = StateFiles::read(root)?.contents(rules)?;
        let known = contents.recorded.as_ref().map_or(0, |file| file.claim.speeds);
        let speeds = match SpeedFile::load_checked(root) {
            Err(error) if error.is_damage() => {
                contents.speeds = Condition::Damaged(error.damage());
                SpeedFile::empty()
            }
            Ok((speeds, verdict)) => {
                contents.speeds = match verdict {
                    None if known > 0 => Condition::Damaged(format!("is missing; {WITHOUT}")),
                    Some(_) if speeds.saves < known => Condition::Older(
                        "is an older copy; hsched uses it and measures the missing speeds again".into(),
                    ),
                    Some(SealVerdict::Unsealed) => Condition::Outdated,
                    _ => Condition::Sound,
                };
                Ok(speeds)
            }
            Err(error) => Err(error),
        };
        let speeds = speeds.map_err(|error| error.in_state(root))?;
        contents.saves = speeds.saves;
        (contents.state.cache, contents.state.contributor) = (speeds.cache, speeds.contributor);
        Ok(contents)
    }

    /// Returns the damaged files, each with the rest of a sentence that begins with its name.
    pub(super) fn troubles(&self) -> Vec<(&'static str, String)> {
        let files = [(SNAPSHOT, &self.snapshot), (JOURNAL, &self.journal), (SPEEDS, &self.speeds)];
        let trouble = |(name, condition): (&'static str, &Condition)| {
            condition.trouble().map(|what| (name, what.to_owned()))
        };
        files.into_iter().filter_map(trouble).collect()
    }

    /// Returns a sentence about each damaged file.
    pub(super) fn trouble_sentences(&self, root: &Path) -> Vec<String> {
        let sentence = |(name, what): (&str, String)| format!("{} {what}", root.join(name).display());
        self.troubles().into_iter().map(sentence).collect()
    }

    /// Returns the contents according to a journal, with all files marked as sound.
    fn of(played: JournaledState, newest: Option<Newest>, rules: &Rules) -> Self {
        let state = played.state(rules);
        let JournaledState { recorded, reached, journal, .. } = played;
        Self {
            state,
            recorded,
            seq: reached.max(journal.last).max(newest.map_or(0, |newest| newest.line)),
            newest,
            kept: 0,
            length: journal.length,
            saves: 0,
            snapshot: Condition::Sound,
            journal: Condition::Sound,
            speeds: Condition::Sound,
        }
    }
}
