//! The ranges of a job's metrics. Long reports have a summary in a separate file, so that only their new
//! lines are read.

#![expect(clippy::disallowed_methods, reason = "the reports are state, and this module owns their summaries")]

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::metric_range::{add_value, ranges};
use crate::run_result::{Reports, attempts, counted_until, curve};
use crate::store::files::{read, replace_soon};
use crate::store::report_folder;
use crate::store::report_line::EpochLine;
use crate::store::reports;
use crate::{JobState, MetricRange, SampledUse, SubmissionRecord};

const REPORT: &str = "rank-0.jsonl";
const SUMMARY: &str = "metrics.json";

/// Minimum length in bytes of new lines for which a new summary is written.
const WORTH_A_SUMMARY: usize = 16 << 10;

/// Number of bytes before the end of the summarised lines that must be unchanged.
const END: u64 = 100;

/// The metrics of a report file up to a line.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Summary {
    /// Length of these lines in bytes.
    length: u64,
    /// The end of these lines.
    end: String,
    /// The first and last epoch; 0 if there is none.
    first: u64,
    last: u64,
    /// Whether an epoch was reported twice or after a later one, so that a summary does not suffice.
    is_mixed: bool,
    ranges: BTreeMap<String, MetricRange>,
}

/// Returns the range of each metric that a job has reported, as in its result.
pub fn metric_ranges(root: &Path, tracked: &JobState) -> BTreeMap<String, MetricRange> {
    let folder = |attempt: &SubmissionRecord| {
        let key = attempt.key(&tracked.job.name);
        report_folder(root, &key.run, &key.name())
    };
    let summaries: Vec<Summary> =
        attempts(tracked).map(|attempt| summary(&folder(attempt)).unwrap_or_default()).collect();
    let limits = attempts(tracked).map(|attempt| counted_until(tracked, attempt));
    if let Some(ranges) = joined(summaries.iter().zip(limits)) {
        return ranges;
    }
    let of_attempt = |attempt: &SubmissionRecord| Reports {
        epochs: reports::epochs(&folder(attempt), 1, 0, attempt.meant).unwrap_or_default(),
        sampled: SampledUse::default(),
    };
    let reported: Vec<Reports> = attempts(tracked).map(of_attempt).collect();
    ranges(&curve(tracked, &reported))
}

/// Returns the ranges over several reports, each with the last epoch that counts; `None` if the reports
/// themselves are needed, because their epochs overlap or not all of them count.
fn joined<'a>(summaries: impl Iterator<Item = (&'a Summary, u64)>) -> Option<BTreeMap<String, MetricRange>> {
    let mut all: BTreeMap<String, MetricRange> = BTreeMap::new();
    let mut before = 0;
    for (summary, limit) in summaries.filter(|(summary, _)| summary.last > 0) {
        if summary.is_mixed || summary.first <= before || summary.last > limit {
            return None;
        }
        before = summary.last;
        for (name, range) in &summary.ranges {
            for (epoch, value) in range.points() {
                add_value(&mut all, epoch, name, value);
            }
        }
    }
    Some(all)
}

/// Returns the summary of a report, and stores it if it covers much more than the stored one.
///
/// # Errors
/// If the report cannot be read.
fn summary(folder: &Path) -> io::Result<Summary> {
    let mut file = match File::open(folder.join(REPORT)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Summary::default()),
        file => file?,
    };
    let path = folder.join(SUMMARY);
    let known = read(&path).ok().flatten().and_then(|bytes| serde_json::from_slice::<Summary>(&bytes).ok());
    let known = known.filter(|known| is_of(known, &mut file).unwrap_or(false));
    let mut summary = known.unwrap_or_default();
    file.seek(SeekFrom::Start(summary.length))?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    // A last line without its newline is still being written.
    let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    let text = String::from_utf8_lossy(&bytes[..whole]);
    text.lines().filter_map(|line| EpochLine::parse(line).ok()).for_each(|line| summary.add(&line));
    if whole >= WORTH_A_SUMMARY {
        summary.length += whole as u64;
        summary.end = end_of(&bytes[..whole]);
        // If this fails, the lines are read again next time.
        let text = serde_json::to_string(&summary).unwrap_or_default();
        let _ = replace_soon(&path, text);
    }
    Ok(summary)
}

/// Returns whether a file begins with the lines of a summary.
fn is_of(summary: &Summary, file: &mut File) -> io::Result<bool> {
    let length = summary.length;
    if length < END || file.metadata()?.len() < length {
        return Ok(false);
    }
    file.seek(SeekFrom::Start(length - END))?;
    let mut end = Vec::new();
    file.by_ref().take(END).read_to_end(&mut end)?;
    Ok(end_of(&end) == summary.end)
}

/// Returns the last bytes as text.
fn end_of(bytes: &[u8]) -> String {
    let begin = bytes.len().saturating_sub(usize::try_from(END).unwrap_or(usize::MAX));
    String::from_utf8_lossy(&bytes[begin..]).into_owned()
}

impl Summary {
    /// Adds a line that follows the present ones.
    fn add(&mut self, line: &EpochLine) {
        let Some(epoch) = line.epoch.filter(|epoch| *epoch > 0) else { return };
        self.is_mixed |= epoch <= self.last;
        if self.last == 0 {
            self.first = epoch;
        }
        self.last = self.last.max(epoch);
        for (name, value) in &line.metrics {
            add_value(&mut self.ranges, epoch, name, *value);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn lines(epochs: impl Iterator<Item = u64>) -> String {
        let line = |epoch: u64| {
            // Values go down and up again; the validation runs after each third epoch.
            let loss = 1 + epoch.abs_diff(700);
            let val =
                if epoch.is_multiple_of(3) { format!(", \"val_loss\": {}", loss + 1) } else { String::new() };
            format!("{{\"epoch\": {epoch}, \"samples\": 9, \"compute_s\": 1.5, \"loss\": {loss}{val}}}\n")
        };
        epochs.map(line).collect()
    }

    fn ranges_of(folder: &Path) -> BTreeMap<String, MetricRange> {
        let summary = summary(folder).expect("reads");
        joined(std::iter::once((&summary, u64::MAX))).expect("in order")
    }

    #[test]
    fn a_summary_gives_what_all_lines_give() {
        let folder = tempfile::tempdir().expect("a folder");
        let (folder, report) = (folder.path(), folder.path().join(REPORT));
        let write = |text: &str| fs::write(&report, text).expect("writes");
        assert!(ranges_of(folder).is_empty());
        write(&lines(1..=1000));
        let expected = MetricRange {
            least: 1.0,
            least_epoch: 700,
            most: 700.0,
            most_epoch: 1,
            last: 301.0,
            last_epoch: 1000,
        };
        for _ in 0..2 {
            let ranges = ranges_of(folder);
            assert_eq!(ranges["loss"], expected);
            assert_eq!((ranges["val_loss"].least_epoch, ranges["val_loss"].last_epoch), (699, 999));
        }
        let stored = || fs::read_to_string(folder.join(SUMMARY)).expect("a summary");
        let first = stored();
        // A few more lines are read in addition to the summary; an incomplete line does not count.
        write(&(lines(1..=1010) + "{\"epoch\": 1011, \"loss\": 0}"));
        assert_eq!((ranges_of(folder)["loss"].last_epoch, stored()), (1010, first.clone()));
        write(&lines(1..=2000));
        assert_eq!(ranges_of(folder)["loss"].most, 1301.0);
        assert_ne!(stored(), first);
        // Another file at its path, and a damaged summary.
        write(&lines(3..=1500));
        assert_eq!(ranges_of(folder)["loss"].most_epoch, 1500);
        fs::write(folder.join(SUMMARY), "{").expect("writes");
        assert_eq!(ranges_of(folder)["loss"].last_epoch, 1500);
    }

    #[test]
    fn reports_that_overlap_need_their_lines() {
        let of = |epochs: &[u64]| {
            let mut summary = Summary::default();
            for line in lines(epochs.iter().copied()).lines() {
                summary.add(&EpochLine::parse(line).expect("a line"));
            }
            summary
        };
        let join = |reports: &[(&[u64], u64)]| {
            let all: Vec<(Summary, u64)> =
                reports.iter().map(|(epochs, limit)| (of(epochs), *limit)).collect();
            joined(all.iter().map(|(summary, limit)| (summary, *limit)))
                .map(|ranges| (ranges["loss"].most_epoch, ranges["loss"].last_epoch))
        };
        let all = u64::MAX;
        assert_eq!(join(&[(&[1, 2, 3], all), (&[], all), (&[4, 5], all)]), Some((1, 5)));
        assert_eq!(join(&[(&[1, 2, 3], 3), (&[4, 5], all)]), Some((1, 5)));
        assert_eq!(join(&[(&[1, 2, 3], 2), (&[4, 5], all)]), None);
        assert_eq!(join(&[(&[1, 2, 3], all), (&[3, 4], all)]), None);
        assert_eq!(join(&[(&[1, 2, 2], all)]), None);
    }
}
