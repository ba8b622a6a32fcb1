//! What the lines of rank 0's report say together. Long reports have a summary in a separate file, so that only
//! their new lines are read.

#![expect(clippy::disallowed_methods, reason = "the reports are state, and this module owns their summaries")]

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::MetricRange;
use crate::metric_range::add_value;
use crate::store::files::{read, replace_soon};
use crate::store::report_line::EpochLine;

pub(super) const REPORT: &str = "rank-0.jsonl";
pub(super) const SUMMARY: &str = "metrics.json";

/// Minimum length in bytes of new lines for which a new summary is written.
const WORTH_A_SUMMARY: usize = 16 << 10;

/// Number of bytes before the end of the summarised lines that must be unchanged.
const END: u64 = 100;

/// Number of epochs after which a warning is given that a metric is in no report.
const EPOCHS_WITHOUT: u64 = 6;

/// Maximum number of ignored fields to name.
const MOST_IGNORED: usize = 4;

/// Maximum number of characters shown of a line.
const LONGEST_EXCERPT: usize = 60;

/// The data of a report file up to a line. Lines count from 1.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct ReportSummary {
    /// Length of these lines in bytes.
    length: u64,
    /// The end of these lines.
    end: String,
    /// Number of these lines, and of those about an epoch.
    lines: usize,
    reports: u64,
    /// The number of epochs of the job.
    epochs: u64,
    /// The first and last epoch; 0 if there is none.
    pub first: u64,
    pub last: u64,
    /// Whether an epoch was reported twice or after a later one, so that a summary does not suffice.
    pub is_mixed: bool,
    /// Places from which the file can be read: the offset after a report, and the last epoch before it.
    places: Vec<(u64, u64)>,
    /// Whether measurements belong to a report that follows.
    has_open_probes: bool,
    pub ranges: BTreeMap<String, MetricRange>,
    /// The first line that cannot be read, with the reason and its beginning.
    unread: Option<(usize, String)>,
    /// The first line with an epoch that the job does not have.
    strange: Option<(usize, u64)>,
    /// The first line with a compute time without samples.
    uncounted: Option<usize>,
    /// The ignored fields by name, each with its first line and value.
    ignored: BTreeMap<String, (usize, String)>,
}

impl ReportSummary {
    /// Reads rank 0's report of a job with this number of epochs, each line at most once. Calls `each` with all
    /// readable lines, without those of a stored summary if they are about epochs up to `done` only. Stores the
    /// summary if it covers much more than the stored one.
    ///
    /// A missing file counts as no report. A last line that is still being written is skipped.
    ///
    /// # Errors
    /// If the file exists and cannot be read.
    pub(super) fn read(
        folder: &Path,
        epochs: u64,
        done: u64,
        mut each: impl FnMut(EpochLine),
    ) -> io::Result<Self> {
        let mut file = match File::open(folder.join(REPORT)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::of(epochs)),
            file => file?,
        };
        let path = folder.join(SUMMARY);
        let known = read(&path).ok().flatten().and_then(|bytes| serde_json::from_slice::<Self>(&bytes).ok());
        let known = known.filter(|known| known.epochs == epochs && known.is_of(&mut file).unwrap_or(false));
        let mut summary = known.unwrap_or_else(|| Self::of(epochs));
        let mut at = summary.start(done);
        file.seek(SeekFrom::Start(at))?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        let (known, mut whole) = (summary.length, 0);
        for line in bytes.split_inclusive(|byte| *byte == b'\n').filter(|line| line.ends_with(b"\n")) {
            let text = String::from_utf8_lossy(line);
            let parsed = EpochLine::parse(&text);
            let is_new = at >= known;
            (at, whole) = (at + line.len() as u64, whole + line.len());
            if is_new {
                summary.add(&parsed, &text);
                summary.add_place(at);
            }
            parsed.into_iter().for_each(&mut each);
        }
        if at >= known + WORTH_A_SUMMARY as u64 {
            summary.length = at;
            summary.end = end_of(&bytes[..whole]);
            // If this fails, the lines are read again next time.
            let text = serde_json::to_string(&summary).unwrap_or_default();
            let _ = replace_soon(&path, text);
        }
        Ok(summary)
    }

    /// Returns the summary of no line.
    fn of(epochs: u64) -> Self {
        Self { epochs, ..Self::default() }
    }

    /// Returns the offset from which the file has all epochs after `done`.
    fn start(&self, done: u64) -> u64 {
        if self.last <= done && !self.has_open_probes {
            return self.length;
        }
        let place = self.places.iter().rev().find(|(_, last)| *last <= done);
        place.map_or(0, |(offset, _)| *offset)
    }

    /// Adds the end of the last line as a place, unless the last place is near or a report is incomplete.
    fn add_place(&mut self, at: u64) {
        let before = self.places.last().map_or(0, |(offset, _)| *offset);
        if at >= before + WORTH_A_SUMMARY as u64 && !self.has_open_probes {
            self.places.push((at, self.last));
        }
    }

    /// Returns whether a file begins with the lines of the summary.
    fn is_of(&self, file: &mut File) -> io::Result<bool> {
        if self.length < END || file.metadata()?.len() < self.length {
            return Ok(false);
        }
        file.seek(SeekFrom::Start(self.length - END))?;
        let mut end = Vec::new();
        file.by_ref().take(END).read_to_end(&mut end)?;
        Ok(end_of(&end) == self.end)
    }

    /// Adds a line that follows the present ones.
    fn add(&mut self, line: &Result<EpochLine, String>, text: &str) {
        self.lines += 1;
        let number = self.lines;
        let line = match line {
            Ok(line) => line,
            Err(_) if text.trim().is_empty() => return,
            Err(why) => {
                let begin = || text.trim().chars().take(LONGEST_EXCERPT).collect::<String>();
                self.unread.get_or_insert_with(|| (number, format!("{why}: {}", begin())));
                return;
            }
        };
        let is_measured = line.epoch.is_some() && line.compute.is_some() && line.samples.is_some();
        self.has_open_probes = !is_measured && (self.has_open_probes || !line.probes.is_empty());
        let Some(epoch) = line.epoch else { return };
        if epoch == 0 || epoch > self.epochs {
            self.strange.get_or_insert((number, epoch));
        }
        if epoch == 0 {
            return;
        }
        self.reports += 1;
        self.is_mixed |= epoch <= self.last;
        if self.last == 0 {
            self.first = epoch;
        }
        self.last = self.last.max(epoch);
        for (name, value) in &line.metrics {
            add_value(&mut self.ranges, epoch, name, *value);
        }
        if epoch <= self.epochs {
            self.add_ignored(line, number);
        }
    }

    /// Adds the fields of a line that do not count.
    fn add_ignored(&mut self, line: &EpochLine, number: usize) {
        let is_named = line.ignored.iter().any(|(name, _)| name == "samples");
        if line.compute.is_some() && line.samples.is_none() && !is_named {
            self.uncounted.get_or_insert(number);
        }
        for (name, value) in &line.ignored {
            self.ignored.entry(name.clone()).or_insert_with(|| (number, value.clone()));
        }
    }

    /// Returns unexpected content of the report: the first unreadable line and the first line of an epoch that the
    /// job does not have, both of which are ignored; the ignored fields, each at its first occurrence; the first
    /// compute time without samples, which is also ignored; and whether no line contains the metric of the job's
    /// target.
    pub(super) fn odd(&self, folder: &Path, metric: Option<&str>) -> Option<String> {
        let path = folder.join(REPORT);
        let place = |number: usize| format!("line {number} of {}", path.display());
        let unread = self.unread.as_ref();
        let unread = unread.map(|(number, what)| format!("{} cannot be read, {what}", place(*number)));
        let strange = self.strange.map(|(number, epoch)| match (epoch, self.epochs) {
            (0, _) => format!("{} reports epoch 0, but epochs count from 1", place(number)),
            (_, 1) => format!(
                "{} reports epoch {epoch}, but the job has 1 epoch; add epochs: N to the job",
                place(number)
            ),
            (_, epochs) => {
                format!("{} reports epoch {epoch}, but the job has {epochs} epochs", place(number))
            }
        });
        let uncounted = self.uncounted.map(|number| {
            format!("{} has compute_s without samples, so nothing is learnt from it", place(number))
        });
        let ignored = (!self.ignored.is_empty()).then(|| self.ignored_words(&path));
        let missing = metric.and_then(|metric| self.without_metric(metric));
        let odd: Vec<String> =
            unread.into_iter().chain(strange).chain(uncounted).chain(ignored).chain(missing).collect();
        (!odd.is_empty()).then(|| odd.join("; "))
    }

    /// Returns a message on the ignored fields by name, with the first line number and value.
    fn ignored_words(&self, path: &Path) -> String {
        let one =
            |(name, (line, value)): (&String, &(usize, String))| format!("{name} is {value} in line {line}");
        let mut list: Vec<String> = self.ignored.iter().take(MOST_IGNORED).map(one).collect();
        if self.ignored.len() > MOST_IGNORED {
            list.push(format!("{} more", self.ignored.len() - MOST_IGNORED));
        }
        format!("ignored in {}: {}", path.display(), list.join(", "))
    }

    /// Returns a message that no report contains a metric, once enough epochs are reported; some programs do not
    /// measure it after each epoch.
    fn without_metric(&self, metric: &str) -> Option<String> {
        if self.reports < EPOCHS_WITHOUT.min(self.epochs) || self.ranges.contains_key(metric) {
            return None;
        }
        let names: Vec<&str> = self.ranges.keys().map(String::as_str).collect();
        let has =
            if names.is_empty() { "no metrics".to_owned() } else { format!("only {}", names.join(", ")) };
        Some(format!("the target metric is {metric}, but the reports have {has}"))
    }
}

/// Returns the last bytes as text.
fn end_of(bytes: &[u8]) -> String {
    let begin = bytes.len().saturating_sub(usize::try_from(END).unwrap_or(usize::MAX));
    String::from_utf8_lossy(&bytes[begin..]).into_owned()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// Returns lines about this many epochs; a field of the second one has an invalid value.
    fn report(epochs: u64) -> String {
        let line = |epoch: u64| {
            let samples = if epoch == 2 { "\"many\"" } else { "9" };
            format!("{{\"epoch\": {epoch}, \"samples\": {samples}, \"compute_s\": 1.5, \"loss\": 0.5}}\n")
        };
        (1..=epochs).map(line).collect()
    }

    #[test]
    fn lines_that_a_summary_covers_are_not_read_again() {
        let folder = tempfile::tempdir().expect("a folder");
        let folder = folder.path();
        let write = |text: String| fs::write(folder.join(REPORT), text).expect("writes");
        let read = |epochs: u64, done: u64| {
            let mut seen = Vec::new();
            let summary = ReportSummary::read(folder, epochs, done, |line| seen.extend(line.epoch));
            let odd = summary.expect("reads").odd(folder, Some("acc")).expect("a remark");
            let odd = odd.replace(&folder.join(REPORT).display().to_string(), "REPORT");
            (seen.first().copied(), seen.len(), odd)
        };
        write(report(1000));
        let odd = "ignored in REPORT: samples is \"many\" in line 2; the target metric is acc, but the reports have only loss";
        assert_eq!(read(2000, 0), (Some(1), 1000, odd.to_owned()));
        assert_eq!(read(2000, 1000), (None, 0, odd.to_owned()));
        write(report(1003));
        assert_eq!(read(2000, 1000), (Some(1001), 3, odd.to_owned()));
        // If the summary has lines that count, a part of it is read again.
        let (first, count, _) = read(2000, 999);
        assert!(first.is_some_and(|first| (500..=1000).contains(&first)) && count < 500, "{first:?} {count}");
        assert_eq!(read(2000, 0), (Some(1), 1003, odd.to_owned()));
        // All lines are read if the job has another number of epochs.
        let strange = format!("line 1001 of REPORT reports epoch 1001, but the job has 1000 epochs; {odd}");
        assert_eq!(read(1000, 1000), (Some(1), 1003, strange.clone()));
        assert_eq!(read(1000, 1003), (None, 0, strange));
    }

    #[test]
    fn measurements_of_the_next_epoch_are_read_with_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let folder = folder.path();
        let text = report(1000) + "{\"probe\": [[8, 0.1]]}\n";
        fs::write(folder.join(REPORT), &text).expect("writes");
        let probes = || {
            let mut probes = Vec::new();
            ReportSummary::read(folder, 2000, 1000, |line| probes.extend(line.probes)).expect("reads");
            probes.len()
        };
        assert_eq!(probes(), 1);
        let next = text + "{\"epoch\": 1001, \"samples\": 9, \"compute_s\": 1.5}\n";
        fs::write(folder.join(REPORT), next).expect("writes");
        assert_eq!(probes(), 1);
    }
}
