//! The ranges of a job's metrics, from the summaries of its reports.

use std::collections::BTreeMap;
use std::path::Path;

use crate::metric_range::{add_value, ranges};
use crate::run_result::{Reports, attempts, counted_until, curve};
use crate::store::report_folder;
use crate::store::report_summary::ReportSummary;
use crate::store::reports;
use crate::{JobState, MetricRange, SampledUse, SubmissionRecord};

/// Returns the range of each metric that a job has reported, as in its result.
pub fn metric_ranges(root: &Path, tracked: &JobState) -> BTreeMap<String, MetricRange> {
    let folder = |attempt: &SubmissionRecord| {
        let key = attempt.key(&tracked.job.name);
        report_folder(root, &key.run, &key.name())
    };
    // Only the summary of each report is needed, not its lines.
    let summary = |attempt| ReportSummary::read(&folder(attempt), tracked.job.epochs, u64::MAX, |_| {});
    let summaries: Vec<ReportSummary> =
        attempts(tracked).map(|attempt| summary(attempt).unwrap_or_default()).collect();
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
fn joined<'a>(
    summaries: impl Iterator<Item = (&'a ReportSummary, u64)>,
) -> Option<BTreeMap<String, MetricRange>> {
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

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests write reports")]
mod tests {
    use std::fs;

    use super::*;
    use crate::store::report_summary::{REPORT, SUMMARY};

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

    fn summary(folder: &Path) -> ReportSummary {
        ReportSummary::read(folder, 5000, u64::MAX, |_| {}).expect("reads")
    }

    fn ranges_of(folder: &Path) -> BTreeMap<String, MetricRange> {
        let summary = summary(folder);
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
            let folder = tempfile::tempdir().expect("a folder");
            fs::write(folder.path().join(REPORT), lines(epochs.iter().copied())).expect("writes");
            summary(folder.path())
        };
        let join = |reports: &[(&[u64], u64)]| {
            let all: Vec<(ReportSummary, u64)> =
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
