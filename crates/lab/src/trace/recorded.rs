//! Jobs of which only the arrival, the length and the number of GPUs are known.

use std::collections::{BTreeMap, BTreeSet};

use crate::trace::TraceError;
use crate::trace::table::{self, NoEntry, ParsedEntries};
use hsched_model::number::{to_f64, to_u64};
use hsched_model::{Estimates, GpuType, Job, JobName, Seconds, Speed};

/// The record of a job.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordedJob {
    /// Any text; it is converted to a job name.
    pub name: String,
    /// Submission time in seconds from an arbitrary origin.
    pub arrival: f64,
    /// Run time in seconds, above 0.
    pub seconds: f64,
    /// At least 1.
    pub gpus: u32,
    /// Types to which the run time applies, at least one.
    pub gpu_types: BTreeSet<GpuType>,
}

/// Approximate length of an epoch of a recorded job, whose save interval is unknown.
const EPOCH_SECONDS: f64 = 600.0;

/// Maximum length of a name from a record.
const LONGEST_NAME: usize = 60;

/// Returns the jobs, of fixed size and with the recorded work, in order of arrival with the first at 0.
///
/// With `estimate`, the jobs may use other types at speeds from the table of GPUs.
pub fn jobs(mut records: Vec<RecordedJob>, estimate: bool) -> Vec<Job> {
    records.sort_by(|a, b| a.arrival.total_cmp(&b.arrival));
    let first = records.first().map_or(0.0, |record| record.arrival);
    let mut names = JobNames::default();
    let job = |record: RecordedJob| {
        let epochs = (record.seconds / EPOCH_SECONDS).ceil().clamp(1.0, 1e6);
        let samples = 600_u64;
        let speed = Speed::rate(epochs * to_f64(samples) / record.seconds)?;
        let samples_per_epoch = samples * u64::from(record.gpus);
        // One sample per rank and step, so a rank's samples per second are the job's steps per second. There is no
        // gradient exchange, because the recorded time includes it.
        let mut job = Job::only_planned(
            names.unique(&record.name),
            samples_per_epoch,
            to_u64(epochs),
            u64::from(record.gpus),
        )
        .on_exactly(record.gpus);
        job.throughput = record.gpu_types.into_iter().map(|gpu_type| (gpu_type, speed)).collect();
        job.arrival = Seconds(record.arrival - first);
        job.estimate = estimate.then_some(Estimates::All);
        Some(job)
    };
    records.into_iter().filter_map(job).collect()
}

/// Unique job names.
#[derive(Default)]
pub(super) struct JobNames {
    given: BTreeMap<String, u32>,
}

impl JobNames {
    /// Returns a name similar to this text that no other job has.
    #[expect(clippy::expect_used, reason = "letters, digits, - _ and . after a letter or digit are a name")]
    pub(super) fn unique(&mut self, text: &str) -> JobName {
        let plain = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '_' };
        let name: String = text.chars().map(plain).take(LONGEST_NAME).collect();
        let name = name.trim_start_matches(|c: char| !c.is_ascii_alphanumeric());
        let name = if name.is_empty() { "job" } else { name };
        let mut candidate = name.to_owned();
        loop {
            let count = self.given.entry(candidate.clone()).or_default();
            *count += 1;
            if *count == 1 {
                return JobName::new(&candidate).expect("a name");
            }
            candidate = format!("{name}.{count}");
        }
    }
}

/// Parses CSV like that of the Philly trace: arrival, run time and number of GPUs of each job. `gpu_type` is
/// the type of the GPUs.
///
/// # Errors
/// If a column is missing.
pub fn philly(text: &str, gpu_type: &GpuType) -> Result<ParsedEntries<RecordedJob>, TraceError> {
    let (submit, duration): (&[&str], &[&str]) =
        (&["submit_s", "submit_time", "submit"], &["duration_s", "duration"]);
    let gpus: &[&str] = &["num_gpus", "num_gpu", "gpus"];
    table::read(text, b',', &[submit, duration, gpus], |cells| {
        let record = RecordedJob {
            name: cells
                .get(&["job_id", "jobid", "id"])
                .map_or_else(|| "job".to_owned(), |id| format!("job-{id}")),
            arrival: cells.number(submit)?,
            seconds: cells.number(duration)?,
            gpus: cells.gpus(gpus)?,
            gpu_types: BTreeSet::from([gpu_type.clone()]),
        };
        usable(record)
    })
}

/// Parses the tasks of Alibaba's clusters: `num_gpu` is the number of GPUs, which is 1 for a task with a
/// fraction of a GPU; `gpu_spec` lists the GPU types that the task may use.
///
/// # Errors
/// If a column is missing.
pub fn alibaba(text: &str) -> Result<ParsedEntries<RecordedJob>, TraceError> {
    let needed: [&[&str]; 5] = [
        &["num_gpu"],
        &["gpu_spec"],
        &["submit_s", "creation_time"],
        &["start_s", "scheduled_time"],
        &["end_s", "deletion_time"],
    ];
    let mut all: BTreeSet<GpuType> = BTreeSet::new();
    let mut found = table::read(text, b',', &needed, |cells| {
        let mut gpu_types = BTreeSet::new();
        for word in cells.get(needed[1]).unwrap_or_default().split('|').filter(|word| !word.is_empty()) {
            let wrong = || NoEntry::Bad(format!("gpu_spec has {word:?}, which is not a GPU type"));
            gpu_types.insert(GpuType::new(&word.to_ascii_lowercase()).ok_or_else(wrong)?);
        }
        all.extend(gpu_types.iter().cloned());
        let gpus = cells.gpus(needed[0])?;
        if cells.get(needed[3]).is_none() || cells.get(needed[4]).is_none() {
            return Err(NoEntry::Skipped("never started or never ended"));
        }
        let name = cells.get(&["idx", "name"]).map_or_else(|| "task".to_owned(), |id| format!("task-{id}"));
        let (arrival, start, end) =
            (cells.number(needed[2])?, cells.number(needed[3])?, cells.number(needed[4])?);
        if end < start {
            return Err(NoEntry::Bad(format!("ends at {end}, before its start at {start}")));
        }
        usable(RecordedJob { name, arrival, seconds: end - start, gpus, gpu_types })
    })?;
    // A task without types may use all types that other tasks name.
    for record in found.entries.iter_mut().filter(|record| record.gpu_types.is_empty()) {
        record.gpu_types.clone_from(&all);
    }
    Ok(found)
}

/// Returns the record if its job ran on GPUs.
///
/// # Errors
/// Otherwise, with the reason.
pub fn usable(record: RecordedJob) -> Result<RecordedJob, NoEntry> {
    match record {
        RecordedJob { gpus: 0, .. } => Err(NoEntry::Skipped("no GPUs")),
        RecordedJob { seconds: 0.0, .. } => Err(NoEntry::Skipped("run time is 0")),
        record => Ok(record),
    }
}
