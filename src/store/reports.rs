//! What a run's ranks report: a file per rank with a JSON object a line, and the word that a batch script leaves.

#![expect(clippy::disallowed_methods, reason = "the reports are state, and this room owns it")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::SystemTime;

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::engine::{EpochReport, RankReport, Timed};
use crate::formats::history;
use crate::model::{JobId, Seconds, Time};

/// Epochs after which a metric that is in no report is missed.
const EPOCHS_WITHOUT: u64 = 6;

/// A line of a rank about one epoch; keys that are not known here are for others.
#[derive(Clone, Debug, Deserialize)]
struct Line {
    /// Counts from 1; a line without one tells of something else.
    #[serde(default)]
    epoch: Option<u64>,
    #[serde(default)]
    samples: Option<u64>,
    #[serde(default)]
    compute_s: Option<f64>,
    #[serde(default)]
    epoch_s: Option<f64>,
    /// Mean time of a (micro-)step, and its size.
    #[serde(default)]
    step_s: Option<f64>,
    #[serde(default)]
    micro_batch: Option<u64>,
    /// Sizes and times of trial steps.
    #[serde(default)]
    probe: Vec<(u64, f64)>,
    /// What the training says of itself; of a number that is none nothing is known.
    #[serde(default)]
    metrics: BTreeMap<String, Option<f64>>,
    /// The other keys: numbers among them are metrics, too.
    #[serde(flatten)]
    others: Map<String, Value>,
}

impl Line {
    /// Returns all metrics; one that is in both places counts as under `metrics`.
    fn metrics(&self) -> BTreeMap<String, f64> {
        let beside = history::beside(&self.others).map(|(name, value)| (name.to_owned(), value));
        let under = self.metrics.iter().filter_map(|(name, value)| Some((name.clone(), (*value)?)));
        beside.chain(under).collect()
    }
}

/// Characters of a line that are shown.
const LONGEST_EXCERPT: usize = 60;

/// Returns the epochs after `done` that rank 0 has reported, in order, with what the other ranks say of them.
///
/// No file is no report. Lines that cannot be read are passed over: the last may be half written.
///
/// # Errors
/// When a file is there and cannot be read.
pub fn epochs(folder: &Path, ranks: usize, done: u64, at: Time) -> io::Result<Vec<EpochReport>> {
    let mut new: BTreeMap<u64, EpochReport> = BTreeMap::new();
    for Said { epoch, length, report, metrics } in
        lines(folder, 0)?.into_iter().filter(|own| own.epoch > done)
    {
        let ranks = report.into_iter().collect();
        // What is reported twice counts once, as it was reported first.
        new.entry(epoch).or_insert(EpochReport { epoch, at, length, ranks, metrics });
    }
    if new.is_empty() {
        return Ok(Vec::new());
    }
    for rank in 1..ranks {
        for Said { epoch, report, .. } in lines(folder, rank)? {
            if let Some(epoch) = new.get_mut(&epoch)
                && epoch.ranks.iter().all(|other| other.rank != rank)
            {
                epoch.ranks.extend(report);
            }
        }
    }
    Ok(new.into_values().collect())
}

/// Returns the metrics of the last epoch that rank 0 has reported; none where there are none or they cannot be read.
#[must_use]
pub fn metrics(folder: &Path) -> BTreeMap<String, f64> {
    let text = read(&folder.join("rank-0.jsonl")).ok().flatten().unwrap_or_default();
    let whole = text.split_inclusive('\n').rev().filter(|line| line.ends_with('\n'));
    let last =
        whole.filter_map(|line| serde_json::from_str::<Line>(line).ok()).find(|line| line.epoch.is_some());
    last.map(|line| line.metrics()).unwrap_or_default()
}

/// Returns the trial steps that rank 0 has reported so far.
///
/// # Errors
/// When the file is there and cannot be read.
pub fn probes(folder: &Path) -> io::Result<Vec<Timed>> {
    let text = read(&folder.join("rank-0.jsonl"))?.unwrap_or_default();
    let whole = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
    let lines = whole.filter_map(|line| serde_json::from_str::<Line>(line).ok());
    Ok(lines.flat_map(|line| trials(&line)).collect())
}

/// Returns what is odd about rank 0's report of a job with so many epochs: the first line that cannot be read, and the
/// first of an epoch that the job does not have. Such lines do not count. Also that the metric that the job is judged by is in
/// none of them.
///
/// # Errors
/// When the file is there and cannot be read.
pub fn odd(folder: &Path, epochs: u64, metric: Option<&str>) -> io::Result<Option<String>> {
    let path = folder.join("rank-0.jsonl");
    let text = read(&path)?.unwrap_or_default();
    let whole = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
    let (mut unread, mut strange) = (None, None);
    for (number, line) in whole.enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let place = format!("line {} of {}", number + 1, path.display());
        match serde_json::from_str::<Line>(line) {
            Err(error) if unread.is_none() => {
                let error = error.to_string();
                let why = error.split_once(" at line").map_or(error.as_str(), |(why, _)| why);
                let begin: String = line.trim().chars().take(LONGEST_EXCERPT).collect();
                unread = Some(format!("{place} cannot be read, {why}: {begin}"));
            }
            Ok(Line { epoch: Some(0), .. }) if strange.is_none() => {
                strange = Some(format!("{place} is about epoch 0: epochs count from 1"));
            }
            Ok(Line { epoch: Some(epoch), .. }) if epoch > epochs && strange.is_none() => {
                strange = Some(format!("{place} is about epoch {epoch}, and the job has {epochs}"));
            }
            _ => {}
        }
    }
    let missing = metric.and_then(|metric| without_metric(&text, epochs, metric));
    let odd: Vec<String> = unread.into_iter().chain(strange).chain(missing).collect();
    Ok((!odd.is_empty()).then(|| odd.join("; ")))
}

/// Returns that a metric is in no report, once so many epochs are there that it should be: some measure it not after each.
fn without_metric(text: &str, epochs: u64, metric: &str) -> Option<String> {
    let whole = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
    let lines = whole.filter_map(|line| serde_json::from_str::<Line>(line).ok());
    let reports: Vec<Line> = lines.filter(|line| line.epoch.is_some()).collect();
    let names: BTreeSet<String> = reports.iter().flat_map(|line| line.metrics().into_keys()).collect();
    if (reports.len() as u64) < EPOCHS_WITHOUT.min(epochs) || names.contains(metric) {
        return None;
    }
    let has = if names.is_empty() {
        "no metrics".to_owned()
    } else {
        format!("only {}", names.into_iter().collect::<Vec<_>>().join(", "))
    };
    Some(format!("target goes by {metric}, and the reports have {has}"))
}

/// What a rank says of an epoch.
struct Said {
    epoch: u64,
    length: Option<Seconds>,
    /// Where it computed.
    report: Option<RankReport>,
    metrics: Vec<(String, f64)>,
}

/// Returns what a rank says of each epoch. What it measured before its first
/// epoch belongs to that.
fn lines(folder: &Path, rank: usize) -> io::Result<Vec<Said>> {
    let text = read(&folder.join(format!("rank-{rank}.jsonl")))?.unwrap_or_default();
    // A last line without its newline is still being written.
    let whole = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
    let (mut epochs, mut probes) = (Vec::new(), Vec::new());
    for line in whole.filter_map(|line| serde_json::from_str::<Line>(line).ok()) {
        probes.extend(trials(&line));
        let Some(epoch) = line.epoch else { continue };
        let report = report(rank, &line, &mut probes);
        let metrics = line.metrics().into_iter().collect();
        epochs.push(Said { epoch, length: duration(line.epoch_s), report, metrics });
    }
    Ok(epochs)
}

fn report(rank: usize, line: &Line, probes: &mut Vec<Timed>) -> Option<RankReport> {
    let (compute, samples) = (duration(line.compute_s)?, line.samples?);
    let step = timed(line.micro_batch, line.step_s);
    Some(RankReport { rank, samples, compute, step, probes: std::mem::take(probes) })
}

fn trials(line: &Line) -> Vec<Timed> {
    line.probe.iter().filter_map(|&(batch, time)| timed(Some(batch), Some(time))).collect()
}

fn timed(batch: Option<u64>, time: Option<f64>) -> Option<Timed> {
    Some(Timed { batch: batch.filter(|&batch| batch > 0)?, time: duration(time)? })
}

fn duration(time: Option<f64>) -> Option<Seconds> {
    time.filter(|time| time.is_finite() && *time > 0.0).map(Seconds)
}

/// The last word of a batch script: how its submission ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LastWord {
    pub job_id: JobId,
    /// Exit status of the script.
    pub status: u8,
    /// Whether the submission reported a new epoch or wrote a checkpoint; `None` if the script does not say.
    pub saved: Option<bool>,
}

/// Returns the last word that a batch script left when it ended, of one Slurm job if that is known.
///
/// # Errors
/// When the file is there and cannot be read.
pub fn word(folder: &Path, job_id: Option<JobId>) -> io::Result<Option<LastWord>> {
    let text = read(&folder.join("ends"))?.unwrap_or_default();
    let mut words = text.lines().rev().filter_map(LastWord::parse);
    Ok(words.find(|word| job_id.is_none_or(|wanted| wanted == word.job_id)))
}

impl LastWord {
    /// Parses a line of `ends`: `123 0`, `123 85 saved` or `123 85 interrupted`; scripts of 0.1.0 wrote no third word.
    fn parse(line: &str) -> Option<Self> {
        let mut words = line.split_whitespace();
        let (job_id, status) = (JobId(words.next()?.parse().ok()?), words.next()?.parse().ok()?);
        let saved = match words.next() {
            Some("saved") => Some(true),
            Some("interrupted") => Some(false),
            _ => None,
        };
        Some(Self { job_id, status, saved })
    }
}

/// Returns which Slurm job took a job for which several raced; `None` while none has, or none is known to have.
///
/// # Errors
/// When the file is there and cannot be read.
pub fn claimed(claim: &Path) -> io::Result<Option<JobId>> {
    // A symbolic link to the number; a file with it in 0.1.0.
    let text = match fs::read_link(claim) {
        Ok(number) => number.to_str().map(str::to_owned),
        Err(_) => read(claim)?,
    };
    Ok(text.and_then(|text| text.trim().parse().ok()).map(JobId))
}

/// Returns at which byte of its file a batch script's output begins, where it has said so.
///
/// # Errors
/// When the file is there and cannot be read.
pub fn begin(folder: &Path) -> io::Result<Option<u64>> {
    // A script that Slurm starts again says it again; all that it prints is this submission's.
    let text = read(&folder.join("begins"))?.unwrap_or_default();
    Ok(text.lines().find_map(|line| line.parse().ok()))
}

/// Returns when rank 0 has written its report last, where it has.
#[must_use]
pub fn written(folder: &Path) -> Option<Time> {
    let at = fs::metadata(folder.join("rank-0.jsonl")).ok()?.modified().ok()?;
    let since = at.duration_since(SystemTime::UNIX_EPOCH).ok()?;
    Some(Time(since.as_secs_f64()))
}

/// Lets the processes of a submission go on for another one, with a folder of its own: where its output `begins`, and that
/// their script's last word is still written into the folder `before`.
///
/// # Errors
/// When it cannot be written.
pub fn take_over(before: &Path, folder: &Path, begins: u64) -> io::Result<()> {
    fs::write(folder.join("begins"), format!("{begins}\n"))?;
    let last = fs::canonicalize(before)?.join("ends");
    match symlink(last, folder.join("ends")) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
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
            "{\"probe\": [[8, 0.1], [0, 1.0]], \"rank\": 0}\n{\"epoch\": 1, \"samples\": 40, \"compute_s\": 3.5, \"epoch_s\": 4.0, \"metrics\": {\"epoch\": 7}}\n\
             nonsense\n{\"epoch\": 1, \"samples\": 1}\n{\"epoch\": 2, \"sam",
        );
        let seen = read(0);
        assert_eq!((seen.len(), seen[0].epoch, seen[0].length), (1, 1, Some(Seconds(4.0))));
        let ranks: Vec<(usize, u64)> = seen[0].ranks.iter().map(|rank| (rank.rank, rank.samples)).collect();
        assert_eq!(ranks, [(0, 40), (1, 20)]);
        let probed = |rank: usize| seen[0].ranks[rank].probes.iter().map(|own| own.batch).collect::<Vec<_>>();
        assert_eq!((probed(0), probed(1)), (vec![8], vec![]));
        let trials = probes(folder.path()).expect("reads");
        assert_eq!(trials, [Timed { batch: 8, time: Seconds(0.1) }]);
        assert!(read(1).is_empty());
    }

    #[test]
    fn metrics_are_those_of_the_last_whole_epoch() {
        let folder = tempfile::tempdir().expect("a directory");
        assert!(metrics(folder.path()).is_empty());
        let text = "{\"epoch\": 1, \"metrics\": {\"loss\": 2.5}}\n{\"epoch\": 2, \"metrics\": {\"loss\": 1.5, \"odd\": null}}\n\
                    {\"rank\": 0}\n{\"epoch\": 3, \"metrics\": {\"loss\": 0.5}}";
        fs::write(folder.path().join("rank-0.jsonl"), text).expect("writes");
        assert_eq!(metrics(folder.path()), BTreeMap::from([("loss".to_owned(), 1.5)]));
    }

    #[test]
    fn metrics_are_read_beside_and_under_metrics() {
        let folder = tempfile::tempdir().expect("a directory");
        let text = "{\"epoch\": 1, \"rank\": 0, \"batch\": 8, \"val_loss\": 0.3, \"lr\": 9, \"name\": \"x\", \"metrics\": {\"lr\": 0.1}}\n";
        fs::write(folder.path().join("rank-0.jsonl"), text).expect("writes");
        let own = [("lr".to_owned(), 0.1), ("val_loss".to_owned(), 0.3)];
        assert_eq!(metrics(folder.path()), BTreeMap::from(own.clone()));
        assert_eq!(epochs(folder.path(), 1, 0, Time(1.0)).expect("reads")[0].metrics, own);
        let missing = |metric: &str| odd(folder.path(), 1, Some(metric)).expect("reads");
        assert_eq!(missing("val_loss"), None);
        let said = missing("acc").expect("a remark");
        assert!(said.contains("the reports have only lr, val_loss"), "{said}");
    }

    #[test]
    fn lines_that_do_not_count_are_named() {
        let folder = tempfile::tempdir().expect("a directory");
        let said = |text: &str| {
            fs::write(folder.path().join("rank-0.jsonl"), text).expect("writes");
            let odd = odd(folder.path(), 2, None).expect("reads");
            odd.map(|odd| odd.replace(&folder.path().display().to_string(), "REPORT"))
        };
        let check = |text: &str, expected: &str| assert_eq!(said(text).as_deref(), Some(expected), "{text}");
        assert_eq!(said("{\"epoch\": 1}\n\n{\"other\": 1}\n{\"epoch\": 2}\n{\"epo"), None);
        check(
            "{\"epoch\": 1}\n{'epoch': 2}\n{}\nx\n",
            "line 2 of REPORT/rank-0.jsonl cannot be read, key must be a string: {'epoch': 2}",
        );
        check("{\"epoch\": 0}\n", "line 1 of REPORT/rank-0.jsonl is about epoch 0: epochs count from 1");
        check(
            "{\"epoch\": 2}\n{\"epoch\": 3}\n{\"epoch\": 4}\n",
            "line 2 of REPORT/rank-0.jsonl is about epoch 3, and the job has 2",
        );
    }

    #[test]
    fn a_metric_that_is_never_reported_is_named() {
        let folder = tempfile::tempdir().expect("a directory");
        let said = |epochs: u64, name: &str| {
            let line =
                |epoch: u64| format!("{{\"epoch\": {epoch}, \"metrics\": {{\"loss\": 1, \"acc\": null}}}}\n");
            let text: String = (1..=epochs).map(line).collect();
            fs::write(folder.path().join("rank-0.jsonl"), text).expect("writes");
            odd(folder.path(), 90, Some(name)).expect("reads")
        };
        assert_eq!((said(5, "acc"), said(90, "loss")), (None, None));
        let expected = "target goes by acc, and the reports have only loss";
        assert_eq!(said(6, "acc").as_deref(), Some(expected));
    }

    #[test]
    fn a_batch_script_says_where_its_output_begins() {
        let folder = tempfile::tempdir().expect("a directory");
        assert_eq!(begin(folder.path()).expect("reads"), None);
        fs::write(folder.path().join("begins"), "4096\n5000\n").expect("writes");
        assert_eq!(begin(folder.path()).expect("reads"), Some(4096));
    }

    #[test]
    fn a_batch_script_leaves_its_status() {
        let folder = tempfile::tempdir().expect("a directory");
        let read = |id: Option<u32>| word(folder.path(), id.map(JobId)).expect("reads");
        assert_eq!(read(Some(7)), None);
        fs::write(folder.path().join("ends"), "7 1\n17 0\n18 85 saved\n7 85 interrupted\n").expect("writes");
        let word =
            |id: u32, status: u8, saved: Option<bool>| Some(LastWord { job_id: JobId(id), status, saved });
        assert_eq!(read(Some(7)), word(7, 85, Some(false)));
        assert_eq!(read(Some(18)), word(18, 85, Some(true)));
        assert_eq!(read(Some(17)), word(17, 0, None));
        assert_eq!(read(Some(1)), None);
        assert_eq!(read(None), word(7, 85, Some(false)));
    }

    #[test]
    fn the_last_word_of_processes_is_that_of_the_submission_that_they_went_on_for() {
        let folder = tempfile::tempdir().expect("a directory");
        let [before, after] = ["a", "b"].map(|name| folder.path().join(name));
        for own in [&before, &after] {
            fs::create_dir(own).expect("a folder");
        }
        take_over(&before, &after, 12).expect("writes");
        assert_eq!((begin(&after).expect("reads"), word(&after, None).expect("reads")), (Some(12), None));
        fs::write(before.join("ends"), "7 0\n").expect("writes");
        let last = word(&after, Some(JobId(7))).expect("reads").map(|word| word.status);
        assert_eq!(last, Some(0));
        assert_eq!(written(&after), None);
    }
}
