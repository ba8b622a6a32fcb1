//! Samples written by job scripts: a file for each node in the folder `samples` of a submission's reports.
//!
//! Its first line is `{"schema": "hsched.samples/1", "node": "n1", "interval_s": 60}`, with `"slots"` if each
//! GPU has several. Each other line is a sample, whose lists have an entry for each rank of the node: `{"at":
//! 1795700676, "ranks": [0, 1], "state": ["R", "S"], "cpu_s": [0.4, 0.1], "gpu": [97, 0], "memory_mib":
//! [10240, 12], "power_w": [61.2, null], "steps": [12, 12], "phase": ["step", "data"]}`. Values that were not
//! measured are null or omitted.

#![expect(clippy::disallowed_methods, reason = "the samples are state, and this module owns them")]

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::State;
use crate::samples::{Activity, NodeSample, NodeSamples, RankSample};
use crate::store::report_folder;
use crate::store::reports::modified;
use hsched_model::{NodeName, Seconds, Time};

/// The schema that this version reads.
const SCHEMA: &str = "hsched.samples/1";

/// Bytes at the end of a file that cover the last hours.
const TAIL: u64 = 64 * 1024;

/// Maximum length of a file's first line in bytes.
const HEAD: u64 = 512;

/// The part of the samples that is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    All,
    /// Only the last hours.
    Recent,
}

#[derive(Deserialize)]
struct SampleHeader {
    schema: String,
    node: String,
    interval_s: f64,
    #[serde(default = "alone")]
    slots: u32,
}

fn alone() -> u32 {
    1
}

#[derive(Deserialize)]
struct SampleLine {
    at: f64,
    ranks: Vec<usize>,
    #[serde(default)]
    state: Vec<Option<char>>,
    #[serde(default)]
    cpu_s: Vec<Option<f64>>,
    #[serde(default)]
    gpu: Vec<Option<f64>>,
    #[serde(default)]
    memory_mib: Vec<Option<f64>>,
    #[serde(default)]
    power_w: Vec<Option<f64>>,
    #[serde(default)]
    steps: Vec<Option<u64>>,
    #[serde(default)]
    phase: Vec<Option<Activity>>,
}

/// Returns the samples of a submission, by node; empty if there are none. Unreadable lines and files of
/// another schema, or without a valid interval, are skipped.
pub fn samples(folder: &Path, extent: Extent) -> Vec<NodeSamples> {
    files(folder).iter().filter_map(|path| node_samples(path, extent)).collect()
}

/// The recent samples of running submissions; a file is read again after it has grown.
#[derive(Debug, Default)]
pub struct RecentSamples {
    known: BTreeMap<PathBuf, (u64, Option<NodeSamples>)>,
}

impl RecentSamples {
    /// Returns the recent samples of a submission, by node.
    pub fn of(&mut self, folder: &Path) -> Vec<NodeSamples> {
        let mut nodes = Vec::new();
        for path in files(folder) {
            let length = fs::metadata(&path).map_or(0, |data| data.len());
            let read = || (length, node_samples(&path, Extent::Recent));
            let known = self.known.entry(path.clone()).or_insert_with(read);
            if known.0 != length {
                *known = read();
            }
            nodes.extend(known.1.clone());
        }
        nodes
    }

    /// Forgets the files of all submissions that are not current ones of this state, whose directory is `root`.
    pub fn keep_only(&mut self, root: &Path, state: &State) {
        let keys = state.jobs.iter().flat_map(|tracked| {
            tracked.phase.submissions().iter().map(|submission| submission.attempt.key(&tracked.job.name))
        });
        let folders: Vec<PathBuf> = keys.map(|key| report_folder(root, &key.run, &key.name())).collect();
        self.known.retain(|path, _| folders.iter().any(|folder| path.starts_with(folder)));
    }
}

/// Returns the sample files below a folder, in order.
fn files(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder.join("samples")) else { return Vec::new() };
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let mut files: Vec<PathBuf> =
        paths.filter(|path| path.extension().is_some_and(|extension| extension == "jsonl")).collect();
    files.sort();
    files
}

fn node_samples(path: &Path, extent: Extent) -> Option<NodeSamples> {
    let mut file = File::open(path).ok()?;
    let length = file.metadata().ok()?.len();
    let head = read_part(&mut file, 0, Some(HEAD)).ok()?;
    let header: SampleHeader = serde_json::from_str(head.lines().next()?).ok()?;
    if header.schema != SCHEMA || !(header.interval_s > 0.0 && header.interval_s.is_finite()) {
        return None;
    }
    let start = if extent == Extent::All { 0 } else { length.saturating_sub(TAIL) };
    let text = read_part(&mut file, start, None).ok()?;
    // The first line may be truncated, and the last one incomplete.
    let whole = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
    let lines = whole.filter_map(|line| serde_json::from_str::<SampleLine>(line).ok());
    Some(NodeSamples {
        node: NodeName::new(&header.node).ok()?,
        interval: Seconds(header.interval_s),
        slots: header.slots,
        written: modified(path),
        samples: lines.map(SampleLine::into_sample).collect(),
    })
}

fn read_part(file: &mut File, start: u64, most: Option<u64>) -> io::Result<String> {
    file.seek(SeekFrom::Start(start))?;
    let mut bytes = Vec::new();
    file.take(most.unwrap_or(u64::MAX)).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

impl SampleLine {
    fn into_sample(self) -> NodeSample {
        fn of<T: Copy>(list: &[Option<T>], place: usize) -> Option<T> {
            list.get(place).copied().flatten()
        }
        let rank = |(place, &rank): (usize, &usize)| RankSample {
            rank,
            state: of(&self.state, place),
            cpu: of(&self.cpu_s, place).map(Seconds),
            gpu: of(&self.gpu, place),
            memory_mib: of(&self.memory_mib, place),
            power_w: of(&self.power_w, place),
            steps: of(&self.steps, place),
            activity: of(&self.phase, place),
        };
        NodeSample { at: Time(self.at), ranks: self.ranks.iter().enumerate().map(rank).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_or_unknown_is_left_out() {
        let folder = tempfile::tempdir().expect("a folder");
        fs::create_dir(folder.path().join("samples")).expect("a folder");
        let text = "{\"schema\": \"hsched.samples/1\", \"node\": \"n1\", \"interval_s\": 60}\n\
            {\"at\": 100, \"ranks\": [2, 3], \"state\": [\"R\", null], \"cpu_s\": [1.25, null], \"gpu\": [97, null], \
            \"steps\": [12, null], \"phase\": [\"juggle\", \"data\"], \"new\": 1}\nnonsense\n{\"at\": 160, \"ran";
        fs::write(folder.path().join("samples/n1.jsonl"), text).expect("writes");
        fs::write(folder.path().join("samples/n2.jsonl"), text.replace("samples/1", "samples/2"))
            .expect("writes");
        fs::write(
            folder.path().join("samples/n3.jsonl"),
            text.replace("\"interval_s\": 60", "\"interval_s\": -60"),
        )
        .expect("writes");
        fs::write(folder.path().join("samples/progress-2"), "12 step\n").expect("writes");
        let found = samples(folder.path(), Extent::Recent);
        let [NodeSamples { node, interval, slots, samples, .. }] = found.as_slice() else {
            panic!("{found:?}")
        };
        assert_eq!((node.as_str(), *interval, *slots), ("n1", Seconds(60.0), 1));
        let first = RankSample {
            rank: 2,
            state: Some('R'),
            cpu: Some(Seconds(1.25)),
            gpu: Some(97.0),
            steps: Some(12),
            activity: Some(Activity::Other),
            ..RankSample::default()
        };
        let second = RankSample { rank: 3, activity: Some(Activity::Data), ..RankSample::default() };
        assert_eq!(*samples, [NodeSample { at: Time(100.0), ranks: vec![first, second] }]);
    }
}
