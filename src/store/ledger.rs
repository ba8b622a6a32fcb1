//! The snapshot and the journal of a locked state directory: read once, then written before and after each request.

#![expect(clippy::disallowed_methods, reason = "this room is where state is written")]

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

use nix::fcntl::{FallocateFlags, fallocate};

use crate::engine::{Action, Event, Keeper, Rules, State, apply};
use crate::model::Time;
use crate::store::state_dir::{chain, private, read, replace, write_error};
use crate::store::state_file::StateFile;
use crate::store::{SpeedFile, StateDir, StateError, journal, old_runs};

/// The state directory's snapshot and journal, at a known line.
#[derive(Debug)]
pub struct Ledger<'a> {
    directory: &'a StateDir,
    journal: File,
    /// The last line written.
    seq: u64,
    /// The speeds as they are on disk.
    speeds: SpeedFile,
    /// How many jobs are known.
    jobs: usize,
    /// Slurm's name of the cluster that the jobs are on, once one is known.
    cluster: Option<String>,
}

/// What the files of a state directory say together.
pub(super) struct Contents {
    pub state: State,
    /// The last line of the journal that it takes in.
    seq: u64,
    cluster: Option<String>,
}

/// Journal space set aside for each job before anything is submitted, in bytes.
const RESERVED_PER_JOB: i64 = 4096;

/// Length from which the journal begins anew, in bytes.
const LONGEST_JOURNAL: u64 = 4 << 20;

impl Keeper for Ledger<'_> {
    type Error = StateError;

    fn keep(
        &mut self,
        at: Time,
        state: &State,
        events: &[Event],
        actions: &[Action],
    ) -> Result<(), StateError> {
        let path = self.directory.root.join("journal");
        let lines = events.iter().map(journal::event_line);
        let lines = lines.chain(actions.iter().flat_map(journal::action_lines));
        self.keep_speeds(state)?;
        self.seq =
            journal::append(&mut self.journal, self.seq, at, lines, false).map_err(write_error(&path))?;
        // Before the state says that anything is meant.
        self.reserve(&path, actions)?;
        self.snapshot(state)?;
        if state.jobs.len() < self.jobs {
            old_runs::remove(&self.directory.root, state, at);
        }
        self.jobs = state.jobs.len();
        if self.shorten(&path)? { self.reserve(&path, actions) } else { Ok(()) }
    }

    fn add(&mut self, at: Time, event: &Event) -> Result<(), StateError> {
        let path = self.directory.root.join("journal");
        let line = journal::event_line(event);
        self.seq =
            journal::append(&mut self.journal, self.seq, at, [line], true).map_err(write_error(&path))?;
        Ok(())
    }
}

impl<'a> Ledger<'a> {
    /// Reads the state and opens the journal.
    pub(super) fn open(directory: &'a StateDir, rules: &Rules) -> Result<(State, Self), StateError> {
        let Contents { state, seq, cluster } = Contents::read(&directory.root, rules)?;
        let path = directory.root.join("journal");
        let mut journal = private().append(true).open(&path).map_err(write_error(&path))?;
        if read(&path)?.is_some_and(|text| !text.is_empty() && !text.ends_with('\n')) {
            // A line that was cut off must not spoil the next one.
            journal.write_all(b"\n").map_err(write_error(&path))?;
        }
        let speeds = SpeedFile { contributor: state.contributor.clone(), cache: state.cache.clone() };
        let jobs = state.jobs.len();
        Ok((state, Self { directory, journal, seq, speeds, jobs, cluster }))
    }

    /// Takes the state for the cluster that Slurm calls so: its jobs are there, or all have ended.
    ///
    /// # Errors
    /// When jobs that have not ended are on another cluster, or the name cannot be written down.
    pub fn claim(&mut self, state: &State, cluster: &str) -> Result<(), StateError> {
        match &self.cluster {
            Some(own) if own.eq_ignore_ascii_case(cluster) => Ok(()),
            Some(own) if !state.is_over() => Err(StateError::OtherCluster {
                path: self.directory.root.clone(),
                own: own.clone(),
                here: cluster.to_owned(),
            }),
            _ => {
                self.cluster = Some(cluster.to_owned());
                // Known before the queue is looked at: what is missing there would count as gone.
                if state.is_over() { Ok(()) } else { self.snapshot(state) }
            }
        }
    }

    /// Replaces the snapshot.
    fn snapshot(&self, state: &State) -> Result<(), StateError> {
        let file = StateFile::new(state, self.seq, self.cluster.clone());
        replace(&self.directory.root.join("state.json"), &file.to_json()?)
    }

    /// Writes down the measured speeds where they changed.
    fn keep_speeds(&mut self, state: &State) -> Result<(), StateError> {
        if self.speeds.cache != state.cache {
            self.speeds.cache.clone_from(&state.cache);
            self.speeds.save(self.directory)?;
        }
        Ok(())
    }

    /// Puts a long journal aside, all of which the snapshot has taken in; returns whether it did.
    fn shorten(&mut self, path: &Path) -> Result<bool, StateError> {
        if self.journal.metadata().map_err(write_error(path))?.len() < LONGEST_JOURNAL {
            return Ok(false);
        }
        fs::rename(path, path.with_extension("old")).map_err(write_error(path))?;
        self.journal = private().append(true).open(path).map_err(write_error(path))?;
        Ok(true)
    }

    /// Sets disk space aside for the answers of what is about to be submitted: the disk must not fill between
    /// sbatch's answer and its record.
    fn reserve(&self, path: &Path, actions: &[Action]) -> Result<(), StateError> {
        let jobs = actions.iter().map(|action| match action {
            Action::Submit(batch) => batch.submitted.len(),
            _ => 0,
        });
        let bytes = i64::try_from(jobs.sum::<usize>()).unwrap_or(i64::MAX).saturating_mul(RESERVED_PER_JOB);
        if bytes == 0 {
            return Ok(());
        }
        let length = self.journal.metadata().map_err(write_error(path))?.len();
        let start = i64::try_from(length).unwrap_or(i64::MAX - bytes);
        // Not every file system can set space aside: other errors are no reason to stop.
        match fallocate(&self.journal, FallocateFlags::FALLOC_FL_KEEP_SIZE, start, bytes) {
            Err(nix::Error::ENOSPC | nix::Error::EDQUOT) => {
                Err(StateError::Write { path: path.to_owned(), source: io::ErrorKind::StorageFull.into() })
            }
            _ => Ok(()),
        }
    }
}

impl Contents {
    /// Reads the snapshot, the answers that came after it, and the measured speeds.
    pub(super) fn read(root: &Path, rules: &Rules) -> Result<Self, StateError> {
        let path = root.join("state.json");
        let damaged = |what| StateError::Damaged { path: path.clone(), what };
        let file = read(&path)?.map(|text| StateFile::parse(&text).map_err(damaged)).transpose()?;
        let cluster = file.as_ref().and_then(|file| file.cluster.clone());
        let seq = file.as_ref().map_or(0, |file| file.seq);
        let mut state = file.map(|file| file.into_state().map_err(damaged)).transpose()?.unwrap_or_default();
        let text = read(&root.join("journal"))?.unwrap_or_default();
        let (answers, seq) = journal::answers(&text, seq);
        for (at, answer) in answers {
            apply(&mut state, at, &answer, rules);
        }
        let path = SpeedFile::path(root);
        let speeds =
            SpeedFile::load(root).map_err(|error| StateError::Damaged { path, what: chain(&error) })?;
        (state.cache, state.contributor) = (speeds.cache, speeds.contributor);
        Ok(Self { state, seq, cluster })
    }
}
