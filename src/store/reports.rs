//! What a run's ranks report: a file per rank with a JSON object a line, and the word that a batch script leaves.

#![expect(clippy::disallowed_methods, reason = "the reports are state, and this room owns it")]

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;

use serde::Deserialize;

use crate::engine::{EpochReport, RankReport};
use crate::model::{JobId, Seconds, Time};

/// A line of a rank about one epoch; keys that are not known here are for others.
#[derive(Clone, Debug, Deserialize)]
pub struct ReportLine {
    /// Counts from 1.
    pub epoch: u64,
    #[serde(default)]
    pub samples: Option<u64>,
    #[serde(default)]
    pub compute_s: Option<f64>,
    #[serde(default)]
    pub epoch_s: Option<f64>,
}

/// Returns the epochs after `done` that rank 0 has reported, in order, with what the other ranks say of them.
///
/// No file is no report. Lines that cannot be read are passed over: the last may be half written.
///
/// # Errors
/// When a file is there and cannot be read.
pub fn epochs(folder: &Path, ranks: usize, done: u64, at: Time) -> io::Result<Vec<EpochReport>> {
    let mut new: BTreeMap<u64, EpochReport> = BTreeMap::new();
    for line in lines(folder, 0)?.into_iter().filter(|line| line.epoch > done) {
        let length = line.epoch_s.filter(|time| time.is_finite() && *time > 0.0).map(Seconds);
        let own = report(0, &line).into_iter().collect();
        // What is reported twice counts once, as it was reported first.
        new.entry(line.epoch).or_insert(EpochReport { epoch: line.epoch, at, length, ranks: own });
    }
    if new.is_empty() {
        return Ok(Vec::new());
    }
    for rank in 1..ranks {
        for line in lines(folder, rank)? {
            if let Some(epoch) = new.get_mut(&line.epoch)
                && epoch.ranks.iter().all(|other| other.rank != rank)
            {
                epoch.ranks.extend(report(rank, &line));
            }
        }
    }
    Ok(new.into_values().collect())
}

fn report(rank: usize, line: &ReportLine) -> Option<RankReport> {
    let compute = line.compute_s.filter(|time| time.is_finite() && *time > 0.0)?;
    Some(RankReport { rank, samples: line.samples?, compute: Seconds(compute) })
}

/// Returns the lines of a rank's file that tell of an epoch.
fn lines(folder: &Path, rank: usize) -> io::Result<Vec<ReportLine>> {
    let text = read(&folder.join(format!("rank-{rank}.jsonl")))?.unwrap_or_default();
    // A last line without its newline is still being written.
    let whole = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
    Ok(whole.filter_map(|line| serde_json::from_str(line).ok()).collect())
}

/// Returns the last word that a batch script left when it ended: its Slurm job and its exit status. Of one Slurm
/// job where that is known.
///
/// # Errors
/// When the file is there and cannot be read.
pub fn word(folder: &Path, job_id: Option<JobId>) -> io::Result<Option<(JobId, u8)>> {
    let text = read(&folder.join("ends"))?.unwrap_or_default();
    let line = |line: &str| {
        let (id, status) = line.split_once(' ')?;
        Some((JobId(id.parse().ok()?), status.trim().parse().ok()?))
    };
    let mut words = text.lines().rev().filter_map(line);
    Ok(words.find(|(id, _)| job_id.is_none_or(|wanted| wanted == *id)))
}

fn read(path: &Path) -> io::Result<Option<String>> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(String::from_utf8_lossy(&bytes).into_owned())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_epoch_is_done_when_rank_0_says_so() {
        let folder = tempfile::tempdir().expect("a directory");
        let write = |rank: usize, text: &str| {
            fs::write(folder.path().join(format!("rank-{rank}.jsonl")), text).expect("writes");
        };
        let read = |done| epochs(folder.path(), 2, done, Time(9.0)).expect("reads");
        assert!(read(0).is_empty());
        write(
            1,
            "{\"epoch\": 1, \"samples\": 20, \"compute_s\": 2.0}\n{\"epoch\": 2, \"samples\": 21, \"compute_s\": 2.1}\n",
        );
        assert!(read(0).is_empty());
        write(
            0,
            "{\"epoch\": 1, \"samples\": 40, \"compute_s\": 3.5, \"epoch_s\": 4.0, \"metrics\": {\"epoch\": 7}}\n\
             {\"probe\": [[8, 0.1]], \"rank\": 0}\nnonsense\n{\"epoch\": 1, \"samples\": 1}\n{\"epoch\": 2, \"sam",
        );
        let seen = read(0);
        assert_eq!((seen.len(), seen[0].epoch, seen[0].length), (1, 1, Some(Seconds(4.0))));
        let ranks: Vec<(usize, u64)> = seen[0].ranks.iter().map(|rank| (rank.rank, rank.samples)).collect();
        assert_eq!(ranks, [(0, 40), (1, 20)]);
        assert!(read(1).is_empty());
    }

    #[test]
    fn a_batch_script_leaves_its_status() {
        let folder = tempfile::tempdir().expect("a directory");
        let read = |id: Option<u32>| word(folder.path(), id.map(JobId)).expect("reads");
        assert_eq!(read(Some(7)), None);
        fs::write(folder.path().join("ends"), "7 1\n17 0\n7 85\n").expect("writes");
        assert_eq!(read(Some(7)), Some((JobId(7), 85)));
        assert_eq!(read(Some(1)), None);
        assert_eq!(read(None), Some((JobId(7), 85)));
    }
}
