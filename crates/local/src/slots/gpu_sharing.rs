//! Which runs have shared a GPU, and which ran out of memory because of it.

#![expect(clippy::disallowed_methods, reason = "it reads the end of what a run has printed")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use crate::devices::{Devices, Lease};
use hsched_engine::{End, SubmissionKey};
use hsched_model::JobName;

/// Length of the end of an output that is searched, in bytes.
const TAIL: u64 = 1 << 16;

/// Messages of programs that have run out of memory, in lower case.
const SHORTAGES: [&str; 6] = [
    "out of memory",
    "outofmemory",
    "cannot allocate memory",
    "memoryerror",
    "bad_alloc",
    "resource_exhausted",
];

/// The jobs that share GPUs, and those that failed because of the sharing.
#[derive(Debug, Default)]
pub(crate) struct GpuSharing {
    /// Submissions that have shared one of their GPUs with another.
    met: BTreeSet<SubmissionKey>,
    /// Output file of each running submission that may share its GPUs, and the length of the file before the
    /// start.
    outputs: BTreeMap<SubmissionKey, (PathBuf, u64)>,
    /// Jobs that ran out of memory beside others.
    alone: BTreeSet<JobName>,
}

impl GpuSharing {
    /// Records that a submission starts on its devices.
    pub(crate) fn begin(&mut self, of: &SubmissionKey, output: &Path, devices: &Devices) {
        // An exclusive submission waits until the others have ended.
        let shares = |lease: &&Lease| devices.has_slots() && lease.beside.is_empty();
        let Some(lease) = devices.lease(of).filter(shares) else { return };
        let others: Vec<SubmissionKey> =
            lease.devices.iter().flat_map(|place| devices.sharers(place)).cloned().collect();
        if !others.is_empty() {
            self.met.extend(others);
            self.met.insert(of.clone());
        }
        let length = output.metadata().map_or(0, |metadata| metadata.len());
        self.outputs.insert(of.clone(), (output.to_owned(), length));
    }

    /// Returns the jobs that get GPUs exclusively because they ran out of memory beside others.
    pub(crate) fn alone(&self) -> &BTreeSet<JobName> {
        &self.alone
    }

    /// Adds jobs that ran out of memory elsewhere.
    pub(crate) fn learn(&mut self, alone: impl IntoIterator<Item = JobName>) {
        self.alone.extend(alone);
    }

    /// Returns whether a job gets GPUs exclusively because it ran out of memory beside others.
    pub(crate) fn wants_alone(&self, job: &JobName) -> bool {
        self.alone.contains(job)
    }

    /// Records that a submission has ended; returns whether it ran out of memory that others on its GPU may
    /// have used. This is assumed once per job; from then on, the job gets GPUs exclusively.
    pub(crate) fn is_to_blame(&mut self, of: &SubmissionKey, end: &End) -> bool {
        let (has_met, output) = (self.met.remove(of), self.outputs.remove(of));
        let Some((path, from)) = output.filter(|_| has_met) else { return false };
        let lacked = match end {
            End::OutOfMemory | End::Failed { exit: 137, .. } | End::Failed { signal: 9, .. } => true,
            End::Failed { .. } => tail(&path, from).is_ok_and(|text| tells_shortage(&text)),
            _ => false,
        };
        lacked && self.alone.insert(of.job.clone())
    }
}

/// Returns the end of the file's part after an offset.
fn tail(path: &Path, from: u64) -> io::Result<String> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(from.max(length.saturating_sub(TAIL)).min(length)))?;
    let mut bytes = Vec::new();
    file.take(TAIL).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn tells_shortage(text: &str) -> bool {
    let text = text.to_lowercase();
    SHORTAGES.iter().any(|shortage| text.contains(shortage))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slots::tests::{devices, key, take};

    #[test]
    fn a_run_that_lacks_memory_beside_others_is_tried_alone_once() {
        let folder = tempfile::tempdir().expect("a folder");
        let output = folder.path().join("a.out");
        let failed = End::Failed { exit: 1, signal: 0 };
        let begin = |sharing: &mut GpuSharing, devices: &mut Devices, job: &str, text: &str| {
            take(devices, job, sharing.wants_alone(&key(job).job)).expect("a slot");
            std::fs::write(&output, "CUDA out of memory, an hour ago\n").expect("a file");
            sharing.begin(&key(job), &output, devices);
            let before = "CUDA out of memory, an hour ago\n";
            std::fs::write(&output, format!("{before}{text}")).expect("a file");
        };
        let (mut sharing, mut slots) = (GpuSharing::default(), devices("a100:1x2"));
        begin(&mut sharing, &mut slots, "a", "torch.OutOfMemoryError: CUDA out of memory.\n");
        assert!(!sharing.is_to_blame(&key("a"), &failed), "it had the GPU alone");
        slots.give_back(&key("a"));
        begin(&mut sharing, &mut slots, "b", "");
        begin(&mut sharing, &mut slots, "a", "a mistake\n");
        assert!(!sharing.is_to_blame(&key("a"), &failed), "it failed otherwise");
        slots.give_back(&key("a"));
        begin(&mut sharing, &mut slots, "a", "RuntimeError: CUDA out of memory\n");
        assert!(sharing.is_to_blame(&key("a"), &failed));
        assert!(sharing.wants_alone(&key("a").job));
        slots.give_back(&key("a"));
        begin(&mut sharing, &mut slots, "a", "RuntimeError: CUDA out of memory\n");
        assert!(!sharing.is_to_blame(&key("b"), &End::Completed));
        slots.give_back(&key("b"));
        assert!(!sharing.is_to_blame(&key("a"), &failed), "alone it is the run's own fault");
    }
}
