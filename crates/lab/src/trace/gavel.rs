//! Gavel's traces and its table of speeds: <https://github.com/stanford-futuredata/gavel>.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::trace::TraceError;
use crate::trace::recorded::JobNames;
use crate::trace::table::{self, NoEntry, ParsedEntries};
use hsched_model::number::to_f64;
use hsched_model::{GpuType, Job, JobName, Seconds, Speed};

/// Measured steps per second of whole jobs by kind of job and number of GPUs, then by GPU type.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GavelSpeeds {
    rows: BTreeMap<(String, u32), BTreeMap<GpuType, f64>>,
}

/// The data of a job in a trace of Gavel.
struct GavelLine<'a> {
    kind: &'a str,
    gpus: u32,
    steps: u64,
    arrival: f64,
    weight: f64,
}

/// Maximum number of epochs of a job, which has no more epochs than steps; Gavel counts only steps.
const EPOCHS: u64 = 100;

/// Samples per step on one GPU if the name of the kind does not state it. The number is arbitrary, because
/// speeds are in steps.
const USUAL_BATCH: u64 = 4;

impl GavelSpeeds {
    /// Parses the table: Gavel's JSON (`{"v100": {"('ResNet-18 (batch size 16)', 1)": {"null": 32.4}}}`), or
    /// CSV with the columns `job_type`, `scale_factor` and one for each GPU type. If there is a column
    /// `table` with several values, only lines with the first value are used.
    ///
    /// # Errors
    /// If the text has neither format, or a line is invalid.
    pub fn parse(text: &str) -> Result<Self, TraceError> {
        if text.trim_start().starts_with('{') {
            return Self::parse_json(text)
                .ok_or_else(|| TraceError::Other("is not Gavel's JSON table of speeds".to_owned()));
        }
        let header = text.lines().next().unwrap_or_default();
        let plain = |name: &&str| {
            !matches!(*name, "table" | "job_type" | "scale_factor") && !name.ends_with("_unconsolidated")
        };
        let types: Vec<(&str, GpuType)> = header
            .split(',')
            .map(str::trim)
            .filter(plain)
            .filter_map(|name| Some((name, GpuType::new(name)?)))
            .collect();
        let mut table: Option<String> = None;
        let mut speeds = Self::default();
        let read = table::read(text, b',', &[&["job_type"], &["scale_factor"]], |cells| {
            let row_table = cells.get(&["table"]).unwrap_or_default();
            if table.get_or_insert_with(|| row_table.to_owned()) != row_table {
                return Err(NoEntry::Skipped("in another table"));
            }
            let key = (cells.text(&["job_type"])?.to_owned(), cells.gpus(&["scale_factor"])?);
            for (name, gpu_type) in &types {
                let steps = if cells.get(&[name]).is_some() { cells.number(&[name])? } else { 0.0 };
                speeds.add(key.clone(), gpu_type, steps);
            }
            Ok(())
        })?;
        match read.bad.first() {
            Some(bad) => Err(TraceError::Other(bad.to_string())),
            None => Ok(speeds),
        }
    }

    fn parse_json(text: &str) -> Option<Self> {
        let value: Value = serde_json::from_str(text).ok()?;
        let mut speeds = Self::default();
        for (name, rows) in value.as_object()? {
            let gpu_type = GpuType::new(name)?;
            for (key, row) in rows.as_object()? {
                // ('ResNet-18 (batch size 16)', 1)
                let (kind, gpus) = key.trim_start_matches('(').trim_end_matches(')').rsplit_once(", ")?;
                let kind = kind.trim_matches(['\'', '"']).to_owned();
                speeds.add((kind, gpus.parse().ok()?), &gpu_type, row.get("null")?.as_f64()?);
            }
        }
        Some(speeds)
    }

    /// Limits the speeds of each kind on all types to its speed on `fastest`; kinds without a speed on that
    /// type stay unchanged.
    ///
    /// Gavel's published results agree only with this limit, for all policies except FIFO with speeds: at low
    /// load, the published mean completion times are those of a cluster with only V100s, although eight kinds
    /// are faster on a P100.
    pub fn cap(&mut self, fastest: &GpuType) {
        for row in self.rows.values_mut() {
            if let Some(most) = row.get(fastest).copied() {
                for steps in row.values_mut() {
                    *steps = steps.min(most);
                }
            }
        }
    }

    fn add(&mut self, key: (String, u32), gpu_type: &GpuType, steps: f64) {
        let row = self.rows.entry(key).or_default();
        // 0 means out of memory.
        if steps.is_finite() && steps > 0.0 {
            row.insert(gpu_type.clone(), steps);
        }
    }

    /// Returns the kinds of jobs that can run on this number of GPUs of some type.
    pub fn kinds(&self, gpus: u32) -> Vec<&str> {
        let runs = |(key, row): &(&(String, u32), &BTreeMap<GpuType, f64>)| key.1 == gpus && !row.is_empty();
        self.rows.iter().filter(runs).map(|(key, _)| key.0.as_str()).collect()
    }

    /// Returns the steps per second of a kind on a number of GPUs of a type.
    pub(crate) fn steps_per_second(&self, kind: &str, gpus: u32, gpu_type: &GpuType) -> Option<f64> {
        self.rows.get(&(kind.to_owned(), gpus))?.get(gpu_type).copied()
    }

    /// Returns the steps per second of a kind on a number of GPUs of its fastest type; 0 if it runs on none.
    pub fn fastest(&self, kind: &str, gpus: u32) -> f64 {
        let row = self.rows.get(&(kind.to_owned(), gpus));
        row.into_iter().flat_map(BTreeMap::values).copied().fold(0.0, f64::max)
    }

    /// Returns a job of a kind with a number of steps, of fixed size and with the measured speeds; `None` if
    /// the table has no speed.
    pub fn job(&self, name: JobName, kind: &str, gpus: u32, steps: u64) -> Option<Job> {
        let row = self.rows.get(&(kind.to_owned(), gpus)).filter(|row| !row.is_empty())?;
        let batch = local_batch(kind);
        let epochs = EPOCHS.min(steps.max(1));
        let samples = steps.max(1).div_ceil(epochs) * batch * u64::from(gpus);
        let mut job = Job::only_planned(name, samples, epochs, batch * u64::from(gpus)).on_exactly(gpus);
        job.model = format!("{kind} on {gpus}");
        let speed = |(gpu_type, steps): (&GpuType, &f64)| {
            Some((gpu_type.clone(), Speed::rate(steps * to_f64(batch))?))
        };
        job.throughput = row.iter().filter_map(speed).collect();
        Some(job)
    }
}

/// Returns the samples per step on one GPU from the name of the kind.
fn local_batch(kind: &str) -> u64 {
    let number =
        kind.rsplit_once("batch size ").and_then(|(_, rest)| rest.trim_end_matches(')').parse().ok());
    number.filter(|batch| (1..=1_000_000).contains(batch)).unwrap_or(USUAL_BATCH)
}

/// Parses a trace of Gavel with its speeds: its native lines (ten fields separated by tabs, the last five
/// being steps, GPUs, priority, SLO and arrival), or CSV with the columns `job_type`, `scale_factor`,
/// `total_steps`, `arrival_s` (or `arrival_time`) and, if jobs have weights, `priority_weight`.
///
/// # Errors
/// If a column is missing.
pub fn gavel(text: &str, speeds: &GavelSpeeds) -> Result<ParsedEntries<Job>, TraceError> {
    let mut names = JobNames::default();
    let mut job = |number: usize, line: &GavelLine<'_>| {
        let name = names.unique(&format!("job-{number}"));
        let unknown =
            || NoEntry::Bad(format!("the speeds have no {:?} with scale factor {}", line.kind, line.gpus));
        let mut job = speeds.job(name, line.kind, line.gpus, line.steps).ok_or_else(unknown)?;
        job.arrival = Seconds(line.arrival);
        job.weight = line.weight;
        Ok(job)
    };
    if text.lines().next().is_some_and(|line| line.contains('\t')) {
        let mut read = ParsedEntries::default();
        for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            let result = gavel_line(line).and_then(|line| job(number, &line));
            read.add(number as u64 + 1, result);
        }
        return Ok(read);
    }
    let arrival: &[&str] = &["arrival_s", "arrival_time"];
    let mut number = 0;
    table::read(text, b',', &[&["job_type"], &["scale_factor"], &["total_steps"], arrival], |cells| {
        number += 1;
        let line = GavelLine {
            kind: cells.text(&["job_type"])?,
            gpus: cells.gpus(&["scale_factor"])?,
            steps: cells.whole(&["total_steps"])?,
            arrival: cells.number(arrival)?,
            weight: if cells.get(&["priority_weight"]).is_some() {
                cells.number(&["priority_weight"])?
            } else {
                1.0
            },
        };
        job(number - 1, &line)
    })
}

fn gavel_line(line: &str) -> Result<GavelLine<'_>, NoEntry> {
    let fields: Vec<&str> = line.split('\t').map(str::trim).collect();
    let count = fields.len();
    if count < 6 {
        return Err(NoEntry::Bad(format!("has {count} fields between tabs; lines of Gavel have ten")));
    }
    let wrong = |what: &str, text: &str| NoEntry::Bad(format!("{what} must be a number, got {text:?}"));
    let number = |place: usize, what: &str| {
        let text = fields[count - place];
        text.parse()
            .ok()
            .filter(|number: &f64| number.is_finite() && *number >= 0.0)
            .ok_or_else(|| wrong(what, text))
    };
    let whole = |place: usize, what: &str| {
        fields[count - place].parse::<u64>().map_err(|_| wrong(what, fields[count - place]))
    };
    let gpus = whole(4, "the scale factor")?;
    Ok(GavelLine {
        kind: fields[0],
        gpus: u32::try_from(gpus).map_err(|_| NoEntry::Bad(format!("{gpus} GPUs are too many")))?,
        steps: whole(5, "the number of steps")?,
        arrival: number(1, "the arrival")?,
        weight: number(3, "the priority")?.max(1e-6),
    })
}
