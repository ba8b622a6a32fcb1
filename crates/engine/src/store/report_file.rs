//! A rank's report file as hsched writes it for programs that write none.

#![expect(clippy::disallowed_methods, reason = "the reports are state, and this module owns them")]

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use serde::Serialize;

use hsched_plan::plan_file::PlanFile;

/// A rank's line about one epoch; unknown values are omitted.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ReportLine {
    /// Epoch number, from 1.
    pub epoch: u64,
    pub rank: usize,
    /// Samples of the epoch that this rank trained.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub samples: Option<u64>,
    /// Compute time, without waiting for other ranks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compute_s: Option<f64>,
    /// Length of the epoch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub epoch_s: Option<f64>,
    /// The rank's share of each global batch, in samples.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub batch: Option<u64>,
    /// Maximum device memory that the rank has used so far, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_memory: Option<u64>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub metrics: BTreeMap<String, f64>,
}

impl ReportLine {
    /// Appends the line to a rank's file with one write: a reader sees the whole line or an incomplete one.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn append(&self, path: &Path) -> io::Result<()> {
        let mut text = serde_json::to_string(self).map_err(io::Error::other)?;
        text.push('\n');
        let mut file = OpenOptions::new().create(true).append(true).read(true).mode(0o600).open(path)?;
        let length = file.metadata()?.len();
        let mut last = [b'\n'];
        if length > 0 {
            file.read_exact_at(&mut last, length - 1)?;
        }
        // A truncated line after a crash must not corrupt this one.
        if last != [b'\n'] {
            text.insert(0, '\n');
        }
        file.write_all(text.as_bytes())
    }
}

/// Returns the number of samples per epoch that the plan gives a rank; `None` if there is no plan beside the
/// report or the plan does not contain the rank. `report` is the rank's file in the folder of its run.
pub fn planned_samples(report: &Path, job: &str, rank: usize) -> Option<u64> {
    let plan = report.ancestors().nth(3)?.join("plan.json");
    let plan = PlanFile::parse(&fs::read_to_string(plan).ok()?).ok()?;
    let planned = plan.jobs.into_iter().find(|planned| planned.name.as_str() == job)?;
    planned.ranks.iter().find(|candidate| candidate.rank == rank).map(|rank| rank.samples)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(epoch: u64) -> ReportLine {
        let (samples, compute_s, epoch_s, batch, max_memory) = (None, Some(1.5), None, None, None);
        ReportLine {
            epoch,
            rank: 0,
            samples,
            compute_s,
            epoch_s,
            batch,
            max_memory,
            metrics: BTreeMap::new(),
        }
    }

    #[test]
    fn a_line_stands_alone_whatever_came_before() {
        let folder = tempfile::tempdir().expect("a directory");
        let path = folder.path().join("rank-0.jsonl");
        line(1).append(&path).expect("writes");
        fs::OpenOptions::new()
            .append(true)
            .open(&path)
            .and_then(|mut file| file.write_all(b"{\"epoch\": 2, \"com"))
            .expect("writes");
        line(2).append(&path).expect("writes");
        let text = fs::read_to_string(&path).expect("a text");
        let expected = "{\"epoch\":1,\"rank\":0,\"compute_s\":1.5}\n{\"epoch\": 2, \"com\n\
                        {\"epoch\":2,\"rank\":0,\"compute_s\":1.5}\n";
        assert_eq!(text, expected);
    }
}
