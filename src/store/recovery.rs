//! Reads the state from the files of a state directory, even when one of them is damaged.
//!
//! The snapshot comes first, then its older copy with the journal's records since, then the journal alone. If none of
//! these is certain to be complete, reading fails and a person has to decide. Nothing here writes.

use std::fs;
use std::path::Path;

use crate::engine::{Rules, State, apply};
use crate::model::Time;
use crate::store::files::read;
use crate::store::journal;
use crate::store::journal_file::{Journal, Line, Writer};
use crate::store::names::{JOURNAL, OLDER, SNAPSHOT, SPEEDS, chain};
use crate::store::snapshot::Snapshot;
use crate::store::state_file::StateFile;
use crate::store::state_record::Record;
use crate::store::{SpeedFile, StateError};

/// What the files of a state directory say.
pub(super) struct Contents {
    pub state: State,
    /// The state according to the journal's records, without the answers after them; `None` before the first record.
    pub recorded: Option<StateFile>,
    /// The number of the journal's last entry.
    pub seq: u64,
    /// Length of the journal's complete lines in bytes.
    pub length: u64,
    /// The condition of the snapshot, the journal and the measured speeds.
    pub snapshot: Condition,
    pub journal: Condition,
    pub speeds: Condition,
}

/// The condition of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Condition {
    Sound,
    /// Its content is right, but it has to be rewritten: the previous version or a person wrote it.
    Outdated,
    /// It is damaged or missing; the text says how, and what follows from it.
    Damaged(String),
}

impl Condition {
    pub(super) fn is_damaged(&self) -> bool {
        matches!(self, Self::Damaged(_))
    }
}

impl Contents {
    /// Reads the snapshot, what came after it, and the measured speeds; changes nothing.
    ///
    /// # Errors
    /// When a file cannot be read or is another version's, or the state cannot be rebuilt.
    pub(super) fn read(root: &Path, rules: &Rules) -> Result<Self, StateError> {
        // Writers change the journal first, so a reader without the lock must read it last.
        let snapshot = Snapshot::read(&root.join(SNAPSHOT))?;
        let text = read(&root.join(JOURNAL))?;
        let mut contents = match snapshot {
            Snapshot::Sound(file) => Self::after(root, (file, true), text.as_deref(), rules)?,
            Snapshot::Unsealed(file) => Self::after(root, (file, false), text.as_deref(), rules)?,
            other => Self::recovered(root, &other, text.as_deref(), rules)?,
        };
        let speeds = match SpeedFile::load(root) {
            Err(error) if error.is_damage() => {
                let what = "hsched uses the speeds of the job files until it has measured new ones";
                contents.speeds = Condition::Damaged(format!("is damaged ({}); {what}", chain(&error)));
                SpeedFile::empty()
            }
            other => other,
        };
        let speeds = speeds.map_err(|error| error.in_state(root))?;
        (contents.state.cache, contents.state.contributor) = (speeds.cache, speeds.contributor);
        Ok(contents)
    }

    /// Returns the damaged files, each with the rest of a sentence that begins with its name.
    pub(super) fn troubles(&self) -> Vec<(&'static str, String)> {
        let files = [(SNAPSHOT, &self.snapshot), (JOURNAL, &self.journal), (SPEEDS, &self.speeds)];
        let trouble = |(name, condition): (&'static str, &Condition)| match condition {
            Condition::Damaged(what) => Some((name, what.clone())),
            Condition::Sound | Condition::Outdated => None,
        };
        files.into_iter().filter_map(trouble).collect()
    }

    /// Returns an intact snapshot with what came after it; `sealed` says whether it has a checksum.
    fn after(
        root: &Path,
        (file, sealed): (StateFile, bool),
        text: Option<&[u8]>,
        rules: &Rules,
    ) -> Result<Self, StateError> {
        let (known, writer) = (file.seq, if file.is_unsealed() { Writer::Before } else { Writer::Own });
        let journal = Journal::read(text.unwrap_or_default(), known, writer);
        let mut faults = journal.faults.clone();
        if journal.last < known {
            faults.push(format!("it ends with entry {} of {known}", journal.last));
        }
        let outdated = if sealed { Condition::Sound } else { Condition::Outdated };
        let condition = match (text, writer) {
            // It left unreadable lines whenever it was killed.
            (_, Writer::Before) => Condition::Outdated,
            (Some(_), Writer::Own) if faults.is_empty() => outdated.clone(),
            (Some(_), Writer::Own) => Condition::Damaged(format!(
                "is damaged ({}); no job is lost: {SNAPSHOT} is intact, and Slurm is asked about anything newer",
                faults.join(", ")
            )),
            (None, Writer::Own) => {
                Condition::Damaged(format!("is missing; no job is lost: {SNAPSHOT} is intact"))
            }
        };
        let contents = Self::played(root, Some(file), journal, rules)?;
        Ok(Self { snapshot: outdated, journal: condition, ..contents })
    }

    /// Rebuilds the state without its snapshot.
    fn recovered(
        root: &Path,
        snapshot: &Snapshot,
        text: Option<&[u8]>,
        rules: &Rules,
    ) -> Result<Self, StateError> {
        let older = Snapshot::read(&root.join(OLDER));
        let older = older.unwrap_or_else(|error| Snapshot::Damaged(chain(&error)));
        let mut journal = Journal::read(text.unwrap_or_default(), 0, Writer::Own);
        if journal.is_blank() && matches!((snapshot, &older), (Snapshot::Missing, Snapshot::Missing)) {
            return Self::played(root, None, journal, rules);
        }
        let begin = journal.lines.iter().rev().find(|line| Record::is_whole(&line.what)).map(|line| line.seq);
        let (start, after, source) = match older {
            Snapshot::Sound(file) if journal.is_sound_after(file.seq) => {
                let seq = file.seq;
                (Some(file), seq, format!("{OLDER} and the journal"))
            }
            older => match begin.filter(|&begin| journal.is_sound_after(begin)) {
                Some(begin) => (None, begin - 1, "the journal".to_owned()),
                None => return Err(lost(root, snapshot, &older, (text, &journal))),
            },
        };
        journal.lines.retain(|line| line.seq > after);
        let what = snapshot.trouble().unwrap_or_default();
        let snapshot = Condition::Damaged(format!("{what}; nothing is lost: it is rebuilt from {source}"));
        // Damage before these lines does no harm; it is repaired all the same.
        let condition = match journal.faults.join(", ") {
            faults if faults.is_empty() => Condition::Sound,
            faults => {
                Condition::Damaged(format!("is damaged ({faults}), in lines that are no longer needed"))
            }
        };
        Ok(Self { snapshot, journal: condition, ..Self::played(root, start, journal, rules)? })
    }

    /// Applies the journal's lines to a snapshot.
    fn played(
        root: &Path,
        start: Option<StateFile>,
        journal: Journal,
        rules: &Rules,
    ) -> Result<Self, StateError> {
        let wrong = |file: &str, what: String| StateError::Damaged { path: root.join(file), what };
        let (mut recorded, mut answers) = (start, Vec::new());
        for Line { seq, at, what } in journal.lines {
            let answer = journal::answer(&what);
            match Record::read(what).map_err(|what| wrong(JOURNAL, format!("entry {seq}: {what}")))? {
                Some(record) => {
                    // It includes the answers before it.
                    answers.clear();
                    record.play(&mut recorded);
                }
                None => answers.extend(answer.map(|answer| (Time(at), answer))),
            }
        }
        let mut state = recorded.as_ref().map(|file| file.state.clone()).unwrap_or_default();
        for (at, answer) in &answers {
            apply(&mut state, *at, answer, rules);
        }
        Ok(Self {
            state,
            seq: recorded.as_ref().map_or(0, |file| file.seq).max(journal.last),
            recorded,
            length: journal.length,
            snapshot: Condition::Sound,
            journal: Condition::Sound,
            speeds: Condition::Sound,
        })
    }
}

/// Returns the error of a state that cannot be rebuilt, with all that is known.
fn lost(
    root: &Path,
    snapshot: &Snapshot,
    older: &Snapshot,
    (text, journal): (Option<&[u8]>, &Journal),
) -> StateError {
    let mut known = Vec::new();
    known.extend(snapshot.trouble().map(|what| format!("{SNAPSHOT} {what}")));
    known.push(match older {
        Snapshot::Sound(file) => {
            let (jobs, plural) = (file.state.jobs.len(), if file.state.jobs.len() == 1 { "" } else { "s" });
            format!(
                "{OLDER} is intact and knows {jobs} job{plural}, but some of what happened since is missing"
            )
        }
        other => format!("{OLDER} {}", other.trouble().unwrap_or_default()),
    });
    known.push(match text {
        None => format!("{JOURNAL} is missing"),
        Some([]) => format!("{JOURNAL} is empty"),
        Some(_) if journal.faults.is_empty() => format!("{JOURNAL} does not go back far enough"),
        Some(_) => format!("{JOURNAL} is damaged ({})", journal.faults.join(", ")),
    });
    known.extend(last_run(root));
    StateError::Lost { path: root.to_owned(), known, older: matches!(older, Snapshot::Sound(_)) }
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
    Some(format!("the latest run is runs/{}, with the jobs {}", run.display(), jobs.join(", ")))
}
