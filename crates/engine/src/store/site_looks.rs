//! Results of looks at the site's queue: one compressed file for each day, and the jobs of the last look.

#![expect(clippy::disallowed_methods, reason = "this module is where state is written")]

use std::fs::{self, DirBuilder};
use std::io::{Read, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use chrono::{DateTime, NaiveDate};
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::store::StateError;
use crate::store::files::{read, replace, write_error};
use crate::store::names::LOOKS;
use crate::store::random;
use hsched_model::number::to_i64;
use hsched_model::{Bytes, Seconds, Time};
use hsched_queue::learnt::{PastScore, SeenJob, SiteLog};

/// How long jobs are kept after they have left the queue.
const KEPT: Seconds = Seconds(90.0 * 86_400.0);

/// Maximum size of all files in bytes; the oldest are removed first.
const MOST: u64 = 50_000_000;

/// The file of the last look.
const OPEN: &str = "last.json.gz";

/// The schema that this version writes and reads.
const SCHEMA: &str = "hsched.looks/1";

const DAY_SUFFIX: &str = ".json.gz";

/// A folder of recorded looks: `STATE/looks`. It contains names of users, accounts, partitions and jobs only
/// as salted hashes.
///
/// Files are replaced atomically and need no lock; of two simultaneous looks, one is lost.
#[derive(Clone, Debug)]
pub struct SiteLooks {
    folder: PathBuf,
}

/// The jobs of the last look, and how accurate the learnt estimates have been.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LastLook {
    pub log: SiteLog,
    pub score: Option<PastScore>,
    salt: u64,
    /// The time of the look that was read.
    read: Option<Time>,
}

/// Size and time range of the stored looks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LooksSize {
    pub bytes: Bytes,
    /// The days of the oldest and of the newest file.
    pub first: NaiveDate,
    pub last: NaiveDate,
}

#[derive(Serialize, Deserialize)]
struct Day {
    jobs: Vec<SeenJob>,
}

#[derive(Serialize, Deserialize)]
struct Last {
    salt: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    score: Option<PastScore>,
    log: SiteLog,
}

impl LastLook {
    /// Returns a number that represents a name in this state directory only.
    pub fn number(&self, name: &str) -> u64 {
        let hash =
            Sha256::new().chain_update(self.salt.to_le_bytes()).chain_update(name.as_bytes()).finalize();
        hash.iter().take(8).fold(0, |number, byte| number << 8 | u64::from(*byte))
    }
}

impl SiteLooks {
    /// Returns the looks of a state directory; reads and creates nothing yet.
    pub fn of(root: &Path) -> Self {
        Self { folder: root.join(LOOKS) }
    }

    /// Returns the last look. An unreadable file counts as missing; later looks then use new hashes.
    ///
    /// # Errors
    /// If the operating system has no random numbers.
    pub fn last(&self) -> Result<LastLook, StateError> {
        let path = self.folder.join(OPEN);
        if let Some(Last { salt, score, log }) = unpacked(&path) {
            return Ok(LastLook { read: log.looked_at, log, score, salt });
        }
        let salt = random::number().map_err(write_error(&path))?;
        Ok(LastLook { salt, ..LastLook::default() })
    }

    /// Stores a look, and the jobs that have left the queue since the previous one.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn keep(&self, last: &LastLook, settled: Vec<SeenJob>) -> Result<(), StateError> {
        let now = last.log.looked_at.unwrap_or_default();
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.folder)
            .map_err(write_error(&self.folder))?;
        if let Some(day) = date(now).filter(|_| !settled.is_empty()) {
            let path = self.folder.join(format!("{day}{DAY_SUFFIX}"));
            let mut jobs = unpacked::<Day>(&path).map_or_else(Vec::new, |day| day.jobs);
            jobs.extend(settled);
            write(&path, &Day { jobs })?;
        }
        // This follows the day's file: if hsched is killed in between, jobs are stored twice and count once.
        self.keep_last(last)?;
        self.remove_old(now);
        Ok(())
    }

    /// Stores only the last look, unless another process has stored a newer one since this one was read. The
    /// look that was read may have a later time, if the clock was ahead.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn keep_last(&self, last: &LastLook) -> Result<(), StateError> {
        let path = self.folder.join(OPEN);
        let kept = unpacked::<Last>(&path).and_then(|kept| kept.log.looked_at);
        if kept != last.read && kept > last.log.looked_at {
            return Ok(());
        }
        let LastLook { log, score, salt, .. } = last.clone();
        write(&path, &Last { salt, score, log })
    }

    /// Returns the most recent jobs that have left the queue, in whole days; older days are skipped once
    /// `enough` jobs are found.
    pub fn settled(&self, enough: usize) -> Vec<SeenJob> {
        let mut jobs = Vec::new();
        for (_, path) in self.days().into_iter().rev() {
            jobs.extend(unpacked::<Day>(&path).into_iter().flat_map(|day| day.jobs));
            if jobs.len() >= enough {
                break;
            }
        }
        jobs
    }

    /// Returns the size and the dates of the stored looks; `None` if there are none.
    pub fn size(&self) -> Option<LooksSize> {
        let last = unpacked::<Last>(&self.folder.join(OPEN)).and_then(|last| date(last.log.looked_at?));
        let mut dates: Vec<NaiveDate> = self.days().into_iter().map(|(date, _)| date).collect();
        dates.extend(last);
        let (first, last) = (*dates.iter().min()?, *dates.iter().max()?);
        Some(LooksSize { bytes: Bytes(self.bytes()), first, last })
    }

    /// Removes all stored looks; returns whether there were any.
    ///
    /// # Errors
    /// If they cannot be removed.
    pub fn remove(&self) -> Result<bool, StateError> {
        match fs::remove_dir_all(&self.folder) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(write_error(&self.folder)(error)),
        }
    }

    /// Returns the day files, the oldest first.
    fn days(&self) -> Vec<(NaiveDate, PathBuf)> {
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let day = |path: PathBuf| {
            let name = path.file_name()?.to_str()?.strip_suffix(DAY_SUFFIX)?;
            Some((name.parse::<NaiveDate>().ok()?, path))
        };
        let mut days: Vec<(NaiveDate, PathBuf)> = entries.filter_map(|entry| day(entry.path())).collect();
        days.sort();
        days
    }

    fn bytes(&self) -> u64 {
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.metadata().ok()).map(|data| data.len()).sum()
    }

    /// Removes files that are too old, and the oldest ones while the total is too large.
    fn remove_old(&self, now: Time) {
        let oldest = date(Time(now.0 - KEPT.0));
        let mut bytes = self.bytes();
        for (day, path) in self.days() {
            if bytes > MOST || oldest.is_some_and(|oldest| day < oldest) {
                bytes -= path.metadata().map_or(0, |data| data.len()).min(bytes);
                // A file that stays is tried again later.
                let _ = fs::remove_file(path);
            }
        }
    }
}

/// Returns the UTC day of a time.
fn date(time: Time) -> Option<NaiveDate> {
    Some(DateTime::from_timestamp(to_i64(time.0), 0)?.date_naive())
}

/// Replaces a file with the compressed list of schema and content.
fn write<T: Serialize>(path: &Path, content: &T) -> Result<(), StateError> {
    let mut packed = GzEncoder::new(Vec::new(), Compression::default());
    let text = serde_json::to_vec(&(SCHEMA, content)).map_err(|source| StateError::Json { source })?;
    let bytes = packed.write_all(&text).and_then(|()| packed.finish()).map_err(write_error(path))?;
    replace(path, bytes, None)
}

/// Returns the content of a file; `None` if it is missing, damaged or of another version.
fn unpacked<T: DeserializeOwned>(path: &Path) -> Option<T> {
    let bytes = read(path).ok()??;
    let mut text = Vec::new();
    GzDecoder::new(bytes.as_slice()).read_to_end(&mut text).ok()?;
    let (schema, content): (String, T) = serde_json::from_slice(&text).ok()?;
    (schema == SCHEMA).then_some(content)
}

#[cfg(test)]
mod tests {
    use super::*;
    use hsched_queue::Snapshot;

    const DAY: f64 = 86_400.0;

    /// Records looks at a queue in which ten jobs come and go between consecutive looks; returns the last
    /// look.
    fn looks(looks: &SiteLooks, count: u32) -> LastLook {
        let mut last = looks.last().expect("a look");
        for number in 0..count {
            let now = Time(20_000.0 * DAY + f64::from(number) * 3600.0);
            let job = |place: u32| hsched_queue::QueueJob {
                id: format!("{number}_{place}"),
                user: Some("ann".to_owned()),
                submitted: Some(now),
                ..hsched_queue::QueueJob::default()
            };
            let snapshot = Snapshot { jobs: (0..10).map(job).collect(), ..Snapshot::empty(now) };
            let names = last.clone();
            let settled = last.log.observe(&snapshot, &|name| names.number(name));
            looks.keep(&last, settled).expect("written");
        }
        last
    }

    #[test]
    fn looks_are_kept_without_names_and_read_again() {
        let root = tempfile::tempdir().expect("a directory");
        let store = SiteLooks::of(root.path());
        assert_eq!(
            (store.size(), store.settled(9), store.remove().expect("nothing")),
            (None, Vec::new(), false)
        );
        let last = looks(&store, 30);
        assert_eq!(store.last().expect("a look").log, last.log);
        assert_eq!(store.settled(usize::MAX).len(), 290);
        // The most recent whole days, as many as needed.
        assert_eq!(store.settled(1).len(), 60);
        let size = store.size().expect("some");
        assert_eq!(size.last.signed_duration_since(size.first).num_days(), 1);
        let path = store.days().remove(0).1;
        let mut text = String::new();
        let bytes = std::fs::read(path).expect("a file");
        GzDecoder::new(bytes.as_slice()).read_to_string(&mut text).expect("text");
        assert!(text.contains("hsched.looks/1") && !text.contains("ann"), "{text}");
        assert!(store.remove().expect("removed") && store.size().is_none());
    }

    #[test]
    fn an_older_look_does_not_replace_a_newer_one() {
        let root = tempfile::tempdir().expect("a directory");
        let store = SiteLooks::of(root.path());
        let older = looks(&store, 3);
        let newer = looks(&store, 9);
        store.keep_last(&older).expect("nothing is written");
        assert_eq!(store.last().expect("a look").log, newer.log);
    }

    #[test]
    fn a_look_of_a_clock_that_was_ahead_is_replaced() {
        let root = tempfile::tempdir().expect("a directory");
        let store = SiteLooks::of(root.path());
        looks(&store, 48);
        let last = looks(&store, 1);
        assert_eq!(store.last().expect("a look").log, last.log);
    }

    #[test]
    fn another_state_directory_has_other_numbers() {
        let [a, b] = [(); 2].map(|()| tempfile::tempdir().expect("a directory"));
        let [a, b] = [&a, &b].map(|root| SiteLooks::of(root.path()).last().expect("a look"));
        assert!(a.number("ann") == a.number("ann") && a.number("ann") != b.number("ann"));
    }

    #[test]
    fn a_damaged_day_is_left_out_and_old_ones_are_removed() {
        let root = tempfile::tempdir().expect("a directory");
        let store = SiteLooks::of(root.path());
        let last = looks(&store, 30);
        let days = store.days();
        std::fs::write(&days[0].1, b"half a fi").expect("written");
        assert_eq!(store.settled(usize::MAX).len(), 60);
        let mut later = last.clone();
        later.log.looked_at = Some(Time(20_091.0 * DAY));
        store.keep(&later, Vec::new()).expect("written");
        assert_eq!(store.days().len(), 1);
    }

    #[test]
    fn the_oldest_days_go_where_there_is_too_much() {
        let root = tempfile::tempdir().expect("a directory");
        let store = SiteLooks::of(root.path());
        let last = looks(&store, 3);
        std::fs::remove_file(&store.days()[0].1).expect("removed");
        // Two files of three fifths of the maximum size, both within the 90 days.
        for day in ["2024-09-01", "2024-09-02"] {
            let file = std::fs::File::create(store.folder.join(format!("{day}{DAY_SUFFIX}"))).expect("made");
            file.set_len(MOST * 3 / 5).expect("long");
        }
        store.keep(&last, Vec::new()).expect("written");
        let kept: Vec<String> = store.days().into_iter().map(|(day, _)| day.to_string()).collect();
        assert_eq!(kept, ["2024-09-02"]);
        assert!(store.bytes() <= MOST);
    }
}
