//! The snapshot and the journal of a locked state directory: read once, then written before and after each
//! request.

#![expect(clippy::disallowed_methods, reason = "this module is where state is written")]

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use nix::fcntl::{FallocateFlags, fallocate};
use serde_json::{Value, json};

use crate::store::deferred_commands::{self, DeferredCommands};
use crate::store::files::{aside, private, replace, sweep, write_error};
use crate::store::names::{JOURNAL, OLD_JOURNAL, OLDER, SNAPSHOT, SPEEDS};
use crate::store::newest::Newest;
use crate::store::recovery::{Condition, DirectoryContents};
use crate::store::state_file::{Claim, StateFile};
use crate::store::state_record::StateRecord;
use crate::store::{
    DeferredCommand, SpeedFile, StateDir, StateError, journal, journal_file, old_runs, results, snapshot,
};
use crate::{Action, Event, Keeper, Rules, State};
use hsched_model::Time;

/// The state directory's snapshot and journal, at a known line.
#[derive(Debug)]
pub struct Ledger<'a> {
    directory: &'a StateDir,
    /// `None` in a dry run, which stores nothing.
    journal: Option<File>,
    /// The last line written.
    seq: u64,
    /// The last line included in the snapshot.
    kept: u64,
    /// The state according to the journal's records.
    recorded: Option<StateFile>,
    /// The speeds stored on disk.
    speeds: SpeedFile,
    /// Data of the state directory besides the state of the jobs.
    claim: Claim,
    /// Messages on damage that was repaired or, in a dry run, only found.
    repaired: Vec<String>,
}

/// Journal space in bytes reserved for each planned submission before anything is submitted.
const RESERVED_PER_JOB: i64 = 4096;

/// Length in bytes from which a new journal may be started.
const LONGEST_JOURNAL: u64 = 4 << 20;

/// A new journal begins with the whole state, so the old one must also be at least this many snapshots long.
const SNAPSHOTS: u64 = 4;

impl Keeper for Ledger<'_> {
    type Error = StateError;

    fn keep(
        &mut self,
        at: Time,
        state: &State,
        events: &[Event],
        actions: &[Action],
    ) -> Result<(), StateError> {
        if self.journal.is_none() {
            return Ok(());
        }
        self.keep_speeds(state)?;
        let known = self.recorded.as_ref().map_or(0, |file| count(&file.state));
        let entries = events.iter().map(journal::event_line);
        let entries = entries.chain(actions.iter().flat_map(journal::action_lines)).collect();
        self.record(at, state, entries, actions, Some(&self.path(OLDER)))?;
        if count(state) < known {
            old_runs::remove(&self.directory.root, state, at);
        }
        // The answers to actions belong in the journal in which space for them is reserved.
        if actions.is_empty() && self.is_long() {
            self.begin_journal(at, state, Some(&self.path(OLD_JOURNAL)))?;
            self.note_newest(true);
        }
        Ok(())
    }

    fn add(&mut self, at: Time, event: &Event) -> Result<(), StateError> {
        let path = self.path(JOURNAL);
        let Some(journal) = &mut self.journal else { return Ok(()) };
        let (text, seq) =
            journal_file::text(self.seq, at, [journal::event_line(event)]).map_err(write_error(&path))?;
        journal_file::append(journal, &text).map_err(write_error(&path))?;
        self.seq = seq;
        self.note_newest(false);
        Ok(())
    }
}

/// Returns the number of jobs and scripts in a state.
fn count(state: &State) -> usize {
    state.jobs.len() + state.scripts.len()
}

impl<'a> Ledger<'a> {
    /// Reads the state, opens the journal and repairs damage.
    pub(super) fn open(
        directory: &'a StateDir,
        rules: &Rules,
        at: Time,
    ) -> Result<(State, Self), StateError> {
        let root = &directory.root;
        let contents = DirectoryContents::read(root, rules)?;
        sweep(root);
        let path = root.join(JOURNAL);
        let damaged = |name| root.join(name).exists().then(|| aside(&root.join(name)));
        let asides = [SNAPSHOT, JOURNAL, SPEEDS].map(|name| (name, damaged(name)));
        let journal = private().append(true).open(&path).map_err(write_error(&path))?;
        let mut ledger = Self::of(directory, &contents, Some(journal));
        ledger.claim.taken = deferred_commands::remove(root, &ledger.claim.taken);
        ledger.repair(&contents, &BTreeMap::from(asides), at)?;
        if contents.newest != Some(ledger.newest()) {
            ledger.note_newest(true);
        }
        Ok((contents.state, ledger))
    }

    /// Reads the state for a dry run; repairs nothing.
    pub(super) fn dry_run(directory: &'a StateDir, rules: &Rules) -> Result<(State, Self), StateError> {
        let contents = DirectoryContents::read(&directory.root, rules)?;
        let ledger = Self::of(directory, &contents, None);
        let repaired = contents.trouble_sentences(&directory.root);
        Ok((contents.state, Self { repaired, ..ledger }))
    }

    fn of(directory: &'a StateDir, contents: &DirectoryContents, journal: Option<File>) -> Self {
        let (state, recorded) = (&contents.state, contents.recorded.clone());
        let claim = recorded.as_ref().map(|file| file.claim.clone()).unwrap_or_default();
        Self {
            directory,
            journal,
            seq: contents.seq,
            kept: contents.kept,
            speeds: SpeedFile {
                contributor: state.contributor.clone(),
                cache: state.cache.clone(),
                saves: contents.saves,
            },
            claim: Claim { speeds: contents.saves, ..claim },
            recorded,
            repaired: Vec::new(),
        }
    }

    /// Returns messages on damage that was repaired or, in a dry run, only found, a sentence for each file.
    pub fn repaired(&self) -> &[String] {
        &self.repaired
    }

    /// Returns the deferred commands in order. Damaged ones are set aside, except in a dry run; the second
    /// value has a sentence about each.
    pub fn deferred_commands(&self) -> (Vec<DeferredCommand>, Vec<String>) {
        let root = &self.directory.root;
        let commands = DeferredCommands::read(root, &self.claim.taken);
        let troubles =
            if self.journal.is_some() { commands.set_aside(root) } else { commands.troubles(root) };
        (commands.whole, troubles)
    }

    /// Stores the state with these deferred commands applied and notes on their impossible parts, then
    /// removes their files.
    ///
    /// # Errors
    /// If it cannot be written; the deferred commands then stay.
    pub fn take(
        &mut self,
        at: Time,
        state: &State,
        events: &[Event],
        taken: &[(&DeferredCommand, Option<String>)],
    ) -> Result<(), StateError> {
        if self.journal.is_none() {
            return Ok(());
        }
        self.keep_speeds(state)?;
        let command = |(command, impossible): &(&DeferredCommand, Option<String>)| json!({ "event": "wish", "id": command.id, "asked_at": command.at.0, "impossible": impossible });
        let entries = events.iter().map(journal::event_line).chain(taken.iter().map(command)).collect();
        let before = self.claim.taken.clone();
        self.claim.taken.extend(taken.iter().map(|(command, _)| command.id.clone()));
        let kept = self.record(at, state, entries, &[], Some(&self.path(OLDER)));
        // If this process is killed from here on, the next hsched finds the commands' ids in the state.
        self.claim.taken = if kept.is_ok() {
            deferred_commands::remove(&self.directory.root, &self.claim.taken)
        } else {
            before
        };
        kept
    }

    /// Claims the state for the cluster with this name (Slurm's, or a fixed one for local devices): its jobs are
    /// there, or all have ended.
    ///
    /// # Errors
    /// If jobs that have not ended are on another cluster, or if the name cannot be written.
    pub fn claim(&mut self, at: Time, state: &State, cluster: &str) -> Result<(), StateError> {
        match &self.claim.cluster {
            Some(known) if known.eq_ignore_ascii_case(cluster) => Ok(()),
            Some(known) if !state.is_over() => Err(StateError::OtherCluster {
                path: self.directory.root.clone(),
                saved: known.clone(),
                here: cluster.to_owned(),
            }),
            _ => {
                self.claim.cluster = Some(cluster.to_owned());
                // The cluster must be known before the queue is read: jobs missing there would count as gone.
                if state.is_over() {
                    return Ok(());
                }
                self.record(at, state, Vec::new(), &[], Some(&self.path(OLDER)))
            }
        }
    }

    /// Returns the name under which the state was last claimed: Slurm's name of the cluster with its jobs, or a
    /// fixed name for jobs on local devices; `None` if it is unknown.
    pub fn cluster(&self) -> Option<&str> {
        self.claim.cluster.as_deref()
    }

    /// Writes the measured speeds if they have changed.
    fn keep_speeds(&mut self, state: &State) -> Result<(), StateError> {
        if self.speeds.cache != state.cache {
            let contributor = self.speeds.contributor.clone();
            let mut speeds = SpeedFile { contributor, cache: state.cache.clone(), saves: self.speeds.saves };
            speeds.save(self.directory)?;
            self.claim.speeds = speeds.saves;
            self.speeds = speeds;
        }
        Ok(())
    }

    /// Returns the numbers of the newest line and of the newest state.
    fn newest(&self) -> Newest {
        Newest { line: self.seq, state: self.kept }
    }

    /// Writes the numbers of the newest line and of the newest state; `sync` also waits until they are on
    /// disk.
    fn note_newest(&self, sync: bool) {
        self.newest().write(&self.directory.root, sync);
    }

    /// Adds entries and a record of the state to the journal, then replaces the snapshot. The previous
    /// snapshot is kept under the name `older`, if one is given.
    ///
    /// # Errors
    /// If a file cannot be written; the state on disk is then unchanged.
    fn record(
        &mut self,
        at: Time,
        state: &State,
        entries: Vec<Value>,
        actions: &[Action],
        older: Option<&Path>,
    ) -> Result<(), StateError> {
        let path = self.path(JOURNAL);
        let Some(journal) = &mut self.journal else { return Ok(()) };
        if let Some(before) = &self.recorded {
            results::keep(&self.directory.root, &before.state, state, at)?;
        }
        let mut file = StateFile::new(state, self.seq, at, self.claim.clone());
        let record = StateRecord::of(&file, self.recorded.as_ref());
        let length = journal.metadata().map_err(write_error(&path))?.len();
        let (mut text, seq) = journal_file::text(self.seq, at, entries).map_err(write_error(&path))?;
        let (last, seq) = journal_file::text(seq, at, record).map_err(write_error(&path))?;
        text.push_str(&last);
        journal_file::append(journal, &text).map_err(write_error(&path))?;
        file.seq = seq;
        // Space is reserved before the snapshot contains the intent.
        let snapshot = self.directory.root.join(SNAPSHOT);
        let written = reserve(journal, &path, actions)
            .and_then(|()| replace(&snapshot, &snapshot::text(&file)?, older));
        match written {
            Ok(()) => {
                (self.seq, self.kept, self.recorded) = (seq, seq, Some(file));
                self.note_newest(true);
            }
            // The next reader must not mistake the new lines for intents.
            Err(_) => {
                let _ = journal.set_len(length);
            }
        }
        written
    }

    /// Begins a new journal with the whole state. The previous journal is kept under the name `older`, if one
    /// is given.
    fn begin_journal(&mut self, at: Time, state: &State, older: Option<&Path>) -> Result<(), StateError> {
        let path = self.path(JOURNAL);
        let file = StateFile::new(state, self.seq + 1, at, self.claim.clone());
        let (text, seq) =
            journal_file::text(self.seq, at, StateRecord::of(&file, None)).map_err(write_error(&path))?;
        replace(&path, &text, older)?;
        self.journal = Some(private().append(true).open(&path).map_err(write_error(&path))?);
        (self.seq, self.recorded) = (seq, Some(file));
        Ok(())
    }

    /// Rewrites damaged, outdated or overlong files and records the damage. `asides` has the names under
    /// which damaged files are kept.
    fn repair(
        &mut self,
        contents: &DirectoryContents,
        asides: &BTreeMap<&str, Option<PathBuf>>,
        at: Time,
    ) -> Result<(), StateError> {
        let kept = |name: &str| asides.get(name).and_then(Option::as_deref);
        let (state, path) = (&contents.state, self.path(JOURNAL));
        match &contents.journal {
            Condition::Damaged(_) | Condition::Older(_) => self.begin_journal(at, state, kept(JOURNAL))?,
            Condition::Outdated => self.begin_journal(at, state, Some(&self.path(OLD_JOURNAL)))?,
            Condition::Sound if self.is_long() => {
                self.begin_journal(at, state, Some(&self.path(OLD_JOURNAL)))?;
            }
            // A truncated line must not corrupt the next one.
            Condition::Sound => {
                let journal = self.journal.iter().try_for_each(|file| file.set_len(contents.length));
                journal.map_err(write_error(&path))?;
            }
        }
        let troubles = contents.troubles();
        if contents.snapshot != Condition::Sound || !troubles.is_empty() {
            let entry =
                |(name, what): &(&str, String)| json!({ "event": "repaired", "file": name, "what": what });
            let copy = self.path(OLDER);
            // A damaged snapshot must not replace its older copy.
            let is_wrong = contents.snapshot.trouble().is_some();
            let older = if is_wrong { kept(SNAPSHOT) } else { Some(copy.as_path()) };
            self.record(at, state, troubles.iter().map(entry).collect(), &[], older)?;
        }
        match (&contents.speeds, kept(SPEEDS)) {
            (Condition::Damaged(_), Some(aside)) => {
                let path = self.path(SPEEDS);
                fs::rename(&path, aside).map_err(write_error(&path))?;
            }
            (Condition::Outdated, _) => self.speeds.save(self.directory)?,
            _ => {}
        }
        for (name, what) in troubles {
            let is_older = |condition: &Condition| matches!(condition, Condition::Older(_));
            let what_is_kept = match name {
                // The file stays in its place.
                SPEEDS if is_older(&contents.speeds) => None,
                SNAPSHOT if is_older(&contents.snapshot) => Some("that copy"),
                _ => Some("the damaged file"),
            };
            let file = kept(name).and_then(Path::file_name);
            let kept =
                what_is_kept.zip(file).map(|(it, file)| format!("; {it} is kept as {}", file.display()));
            let path = self.path(name);
            self.repaired.push(format!("{} {what}{}", path.display(), kept.unwrap_or_default()));
        }
        Ok(())
    }

    /// Returns whether the journal has become too long.
    fn is_long(&self) -> bool {
        let length = |data: io::Result<fs::Metadata>| data.map_or(0, |data| data.len());
        let snapshot = length(fs::metadata(self.path(SNAPSHOT)));
        let journal = self.journal.as_ref().map_or(0, |journal| length(journal.metadata()));
        journal >= LONGEST_JOURNAL.max(SNAPSHOTS * snapshot)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.root.join(name)
    }
}

/// Reserves disk space for the answers to planned submissions: the disk must not fill up between sbatch's
/// answer and its record.
fn reserve(journal: &File, path: &Path, actions: &[Action]) -> Result<(), StateError> {
    let jobs = actions.iter().map(|action| match action {
        Action::Submit(run) => run.submissions.len(),
        _ => 0,
    });
    let bytes = i64::try_from(jobs.sum::<usize>()).unwrap_or(i64::MAX).saturating_mul(RESERVED_PER_JOB);
    if bytes == 0 {
        return Ok(());
    }
    let length = journal.metadata().map_err(write_error(path))?.len();
    let start = i64::try_from(length).unwrap_or(i64::MAX - bytes);
    // Some file systems cannot reserve space; such errors are ignored.
    match fallocate(journal, FallocateFlags::FALLOC_FL_KEEP_SIZE, start, bytes) {
        Err(nix::Error::ENOSPC | nix::Error::EDQUOT) => {
            Err(StateError::Write { path: path.to_owned(), source: io::ErrorKind::StorageFull.into() })
        }
        _ => Ok(()),
    }
}
