//! Reports of a run's ranks: a file per rank with a JSON object per line, and the last word of a batch
//! script.

#![expect(clippy::disallowed_methods, reason = "the reports are state, and this module owns them")]

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::SystemTime;

use crate::store::report_line::EpochLine;
use crate::store::report_summary::{REPORT, ReportSummary};
use crate::{End, EpochReport, RankReport, ReportedShare, StepTiming};
use hsched_model::{JobId, NodeName, Seconds, Time};

/// The reports of a submission's ranks at one look.
#[derive(Debug, Default)]
pub struct ReportLook {
    /// New epochs, in order.
    pub epochs: Vec<EpochReport>,
    /// Unexpected content of rank 0's report.
    pub odd: Option<String>,
}

/// Returns the epochs after `done` that rank 0 has reported, with the other ranks' reports of them, and
/// unexpected content of rank 0's report for a job with this number of epochs and the metric of its target.
/// Lines of rank 0 that a stored summary covers are not read again if they are only about epochs up to `done`.
///
/// A missing file counts as no report. Unreadable lines, and a last line that is still being written, are
/// skipped.
///
/// # Errors
/// If a file exists and cannot be read.
pub fn look(
    folder: &Path,
    ranks: usize,
    done: u64,
    (epochs, metric): (u64, Option<&str>),
    at: Time,
) -> io::Result<ReportLook> {
    let mut lines = RankLines::of(0);
    let summary = ReportSummary::read(folder, epochs, done, |line| lines.add(line))?;
    let epochs = with_ranks(folder, ranks, lines.of_epochs_after(done), at)?;
    Ok(ReportLook { epochs, odd: summary.odd(folder, metric) })
}

/// Returns the epochs after `done` that rank 0 has reported, in order, with the other ranks' reports of them, as
/// [`look`] does.
///
/// # Errors
/// If a file exists and cannot be read.
pub fn epochs(folder: &Path, ranks: usize, done: u64, at: Time) -> io::Result<Vec<EpochReport>> {
    with_ranks(folder, ranks, RankLines::read(folder, 0)?.of_epochs_after(done), at)
}

/// Returns the epochs of rank 0's lines with the other ranks' reports of them.
fn with_ranks(
    folder: &Path,
    ranks: usize,
    lines: impl Iterator<Item = RankLine>,
    at: Time,
) -> io::Result<Vec<EpochReport>> {
    let mut new: BTreeMap<u64, EpochReport> = BTreeMap::new();
    for RankLine { epoch, length, report, metrics } in lines {
        let ranks = report.into_iter().collect();
        // If an epoch is reported twice, the first report counts.
        new.entry(epoch).or_insert(EpochReport { epoch, at, length, ranks, metrics });
    }
    if new.is_empty() {
        return Ok(Vec::new());
    }
    for rank in 1..ranks {
        for RankLine { epoch, report, .. } in RankLines::read(folder, rank)?.lines {
            if let Some(epoch) = new.get_mut(&epoch)
                && epoch.ranks.iter().all(|other| other.rank != rank)
            {
                epoch.ranks.extend(report);
            }
        }
    }
    Ok(new.into_values().collect())
}

/// Returns the fields that rank 0's report of its last epoch lacks for a speed measurement, as the end of a
/// sentence; `None` if it is complete or missing.
pub fn lacking(folder: &Path) -> Option<&'static str> {
    let line = last_line(folder)?;
    match (line.samples.filter(|samples| *samples > 0), line.compute) {
        (None, None) => Some("neither samples nor compute_s"),
        (None, Some(_)) => Some("no samples"),
        (Some(_), None) => Some("no compute_s"),
        (Some(_), Some(_)) => None,
    }
}

/// Returns whether a submission has ended or finished an epoch while none of its ranks has reported its share
/// of a batch.
pub fn is_silent(folder: &Path) -> bool {
    let Ok(entries) = fs::read_dir(folder) else { return false };
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let of_ranks = names.filter(|name| name.starts_with("rank-") && name.strip_suffix(".jsonl").is_some());
    let texts: Vec<String> = of_ranks.filter_map(|name| read(&folder.join(name)).ok().flatten()).collect();
    let whole = texts.iter().flat_map(|text| text.split_inclusive('\n')).filter(|line| line.ends_with('\n'));
    let lines: Vec<EpochLine> = whole.filter_map(|line| EpochLine::parse(line).ok()).collect();
    let has_done =
        lines.iter().any(|line| line.epoch.is_some()) || word(folder, None).is_ok_and(|word| word.is_some());
    has_done && lines.iter().all(|line| line.batch.is_none())
}

/// Returns rank 0's report of its last epoch; `None` if there is none or it cannot be read.
fn last_line(folder: &Path) -> Option<EpochLine> {
    let text = read(&folder.join(REPORT)).ok().flatten()?;
    let whole = text.split_inclusive('\n').rev().filter(|line| line.ends_with('\n'));
    whole.filter_map(|line| EpochLine::parse(line).ok()).find(|line| line.epoch.is_some())
}

/// Returns the trial steps that rank 0 has reported so far.
///
/// # Errors
/// If the file exists and cannot be read.
pub fn probes(folder: &Path) -> io::Result<Vec<StepTiming>> {
    let text = read(&folder.join(REPORT))?.unwrap_or_default();
    let whole = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
    let lines = whole.filter_map(|line| EpochLine::parse(line).ok());
    Ok(lines.flat_map(|line| line.probes).collect())
}

/// A rank's data about an epoch.
struct RankLine {
    epoch: u64,
    length: Option<Seconds>,
    /// Present if the line has both a compute time and a number of samples.
    report: Option<RankReport>,
    metrics: Vec<(String, f64)>,
}

/// A rank's data about each epoch. Measurements before its first epoch belong to that epoch.
struct RankLines {
    rank: usize,
    lines: Vec<RankLine>,
    /// Measurements before the next epoch.
    probes: Vec<StepTiming>,
}

impl RankLines {
    fn of(rank: usize) -> Self {
        Self { rank, lines: Vec::new(), probes: Vec::new() }
    }

    /// Reads the file of a rank.
    fn read(folder: &Path, rank: usize) -> io::Result<Self> {
        let text = read(&folder.join(format!("rank-{rank}.jsonl")))?.unwrap_or_default();
        let mut lines = Self::of(rank);
        // A last line without its newline is still being written.
        let whole = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
        whole.filter_map(|line| EpochLine::parse(line).ok()).for_each(|line| lines.add(line));
        Ok(lines)
    }

    fn add(&mut self, mut line: EpochLine) {
        self.probes.append(&mut line.probes);
        let Some(epoch) = line.epoch else { return };
        let report = report(self.rank, &line, &mut self.probes);
        let metrics = line.metrics.into_iter().collect();
        self.lines.push(RankLine { epoch, length: line.length, report, metrics });
    }

    fn of_epochs_after(self, done: u64) -> impl Iterator<Item = RankLine> {
        self.lines.into_iter().filter(move |line| line.epoch > done)
    }
}

fn report(rank: usize, line: &EpochLine, probes: &mut Vec<StepTiming>) -> Option<RankReport> {
    let (compute, samples) = (line.compute?, line.samples?);
    let share = line.batch.map(|batch| ReportedShare { batch, version: line.shares });
    Some(RankReport {
        rank,
        node: None,
        samples,
        compute,
        step: line.step,
        probes: std::mem::take(probes),
        share,
    })
}

/// The last word of a batch script: how its submission ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LastWord {
    pub job_id: JobId,
    /// Exit status of the script.
    pub status: u8,
    /// Whether the submission reported a new epoch or wrote a checkpoint; `None` if the script does not
    /// record it.
    pub saved: Option<bool>,
    /// Whether the stop signal killed its commands, which do not handle it.
    pub unhandled: bool,
}

/// Returns the last word of a batch script, for one Slurm job if its id is known.
///
/// # Errors
/// If the file exists and cannot be read.
pub fn word(folder: &Path, job_id: Option<JobId>) -> io::Result<Option<LastWord>> {
    let text = read(&folder.join("ends"))?.unwrap_or_default();
    let mut words = text.lines().rev().filter_map(LastWord::parse);
    Ok(words.find(|word| job_id.is_none_or(|wanted| wanted == word.job_id)))
}

/// Returns the failure of the check before the first step as an end; `None` unless a rank reports one.
pub fn unfit(folder: &Path) -> Option<End> {
    #[derive(serde::Deserialize)]
    struct Unfit {
        node: String,
        why: String,
    }
    let text = read(&folder.join("unfit")).ok().flatten()?;
    let Unfit { node, why } = serde_json::from_str(&text).ok()?;
    Some(End::Unfit { node: NodeName::new(&node).ok(), why })
}

/// Returns whether the commands of all ranks returned 0 by themselves; in that case the script was killed
/// before it wrote its last word.
///
/// A rank records this only if no stop request has reached it. With ranks on several nodes, the marks do not
/// count if there is a request, because other nodes may see its file late.
///
/// # Errors
/// If the folder exists and cannot be read.
pub fn all_returned(folder: &Path, ranks: usize, nodes: usize) -> io::Result<bool> {
    let (mut returned, mut is_asked) = (0, false);
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(error),
    };
    for entry in entries {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if [".stopped.", ".unhandled.", ".failed."].iter().any(|mark| name.starts_with(mark)) {
            return Ok(false);
        }
        is_asked |= name.starts_with(".stop.");
        returned += usize::from(name.starts_with(".returned."));
    }
    Ok(ranks > 0 && returned == ranks && (nodes == 1 || !is_asked))
}

impl LastWord {
    /// Parses a line of `ends`: `123 0`, `123 85 saved`, `123 85 interrupted` or `123 85 interrupted
    /// unhandled`; scripts of version 0.1.0 wrote no third word.
    fn parse(line: &str) -> Option<Self> {
        let mut words = line.split_whitespace();
        let (job_id, status) = (JobId(words.next()?.parse().ok()?), words.next()?.parse().ok()?);
        let saved = match words.next() {
            Some("saved") => Some(true),
            Some("interrupted") => Some(false),
            _ => None,
        };
        let unhandled = words.next() == Some("unhandled");
        Some(Self { job_id, status, saved, unhandled })
    }
}

/// Returns the Slurm job that claimed a job with several competing submissions; `None` if none has claimed
/// it, or if the claim contains no job id.
///
/// # Errors
/// If the file exists and cannot be read.
pub fn claimed(claim: &Path) -> io::Result<Option<JobId>> {
    // A symbolic link to the number; in version 0.1.0, a file that contains it.
    let text = match fs::read_link(claim) {
        Ok(number) => number.to_str().map(str::to_owned),
        Err(_) => read(claim)?,
    };
    Ok(text.and_then(|text| text.trim().parse().ok()).map(JobId))
}

/// Returns the byte offset in its file at which a batch script's output begins, if the script recorded it.
///
/// # Errors
/// If the file exists and cannot be read.
pub fn begin(folder: &Path) -> io::Result<Option<u64>> {
    // A script that Slurm requeues records it again; the first offset counts, because all output belongs to
    // this submission.
    let text = read(&folder.join("begins"))?.unwrap_or_default();
    Ok(text.lines().find_map(|line| line.parse().ok()))
}

/// Returns when rank 0's report was last written, if it exists.
pub fn written(folder: &Path) -> Option<Time> {
    modified(&folder.join(REPORT))
}

/// Returns when the batch script started, if it has.
pub fn begun(folder: &Path) -> Option<Time> {
    modified(&folder.join("begins"))
}

/// Returns when a file was last written, if it exists.
pub(super) fn modified(path: &Path) -> Option<Time> {
    let at = fs::metadata(path).ok()?.modified().ok()?;
    let since = at.duration_since(SystemTime::UNIX_EPOCH).ok()?;
    Some(Time(since.as_secs_f64()))
}

/// Hands the processes of a submission over to another submission with a separate folder: records where its
/// output `begins`, and links the script's last word and samples, which are still written into the folder
/// `before`.
///
/// # Errors
/// If it cannot be written.
pub fn take_over(before: &Path, folder: &Path, begins: u64) -> io::Result<()> {
    fs::write(folder.join("begins"), format!("{begins}\n"))?;
    let before = fs::canonicalize(before)?;
    for name in ["ends", "samples"] {
        match symlink(before.join(name), folder.join(name)) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

fn read(path: &Path) -> io::Result<Option<String>> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(String::from_utf8_lossy(&bytes).into_owned())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests;
