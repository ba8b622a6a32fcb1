//! A recording of a cluster's waits: a CSV file with a line for each job that was pending at a look.

use std::collections::BTreeMap;
use std::error::Error;
use std::fs::File;
use std::io::Read;

use chrono::{NaiveDate, NaiveDateTime};
use flate2::read::MultiGzDecoder;

use hsched_model::Time;
use hsched_model::number::{to_f64, to_u32};
use hsched_waits::{FIGURES, QueueFigures, WaitRecord};

/// The columns on the state of the queue.
const FIGURE_COLUMNS: [&str; 22] = [
    "q_jobs_above",
    "q_cores_above",
    "q_mem_above",
    "q_core_hours_above",
    "q_p_jobs_above",
    "q_p_core_hours_above",
    "q_a_jobs_above",
    "q_gpus_above",
    "q_p_gpus_above",
    "q_gpu_hours_above",
    "q_p_gpu_hours_above",
    "r_jobs_above",
    "r_cores_above",
    "r_mem_above",
    "r_core_hours_above",
    "r_p_jobs_above",
    "r_p_core_hours_above",
    "r_a_jobs_above",
    "r_gpus_above",
    "r_p_gpus_above",
    "r_gpu_hours_above",
    "r_p_gpu_hours_above",
];

/// The jobs of a recording, with their ids and looks as in the file.
pub struct Recording {
    pub names: Vec<(String, String)>,
    pub waits: Vec<WaitRecord>,
}

/// Returns the period of the looks from one day to another, both included.
pub fn days(text: &str) -> Option<(Time, Time)> {
    let (first, last) = text.split_once("..")?;
    let midnight = |text: &str| {
        let date = NaiveDate::parse_from_str(text.trim(), "%Y-%m-%d").ok()?;
        Some(seconds(date.and_hms_opt(0, 0, 0)?))
    };
    let (first, last) = (midnight(first)?, midnight(last)?);
    (first <= last).then_some((first, Time(last.0 + 86_400.0)))
}

fn seconds(time: NaiveDateTime) -> Time {
    Time(to_f64(time.and_utc().timestamp()))
}

/// Returns the time of a date in UTC, with or without a time of day.
fn time(text: &str) -> Option<Time> {
    let text = text.trim().replace('T', " ");
    let text = text.trim_end_matches('Z').trim_end_matches("+00:00");
    let at = NaiveDateTime::parse_from_str(text, "%Y-%m-%d %H:%M:%S%.f").ok();
    let day = || NaiveDate::parse_from_str(text, "%Y-%m-%d").ok()?.and_hms_opt(0, 0, 0);
    at.or_else(day).map(seconds)
}

impl Recording {
    /// Reads a file, compressed with gzip or not. A row without the time of its look belongs to no day and is
    /// skipped, with a message on standard error. Other missing values of a row are unknown or get a default.
    pub fn read(path: &str) -> Result<Self, Box<dyn Error>> {
        let mut bytes = Vec::new();
        File::open(path)?.read_to_end(&mut bytes)?;
        if bytes.starts_with(&[0x1f, 0x8b]) {
            let mut text = Vec::new();
            MultiGzDecoder::new(bytes.as_slice()).read_to_end(&mut text)?;
            bytes = text;
        }
        let text = String::from_utf8_lossy(&bytes);
        let mut reader = csv::ReaderBuilder::new().flexible(true).from_reader(text.as_bytes());
        let header = reader.headers()?.clone();
        let place: BTreeMap<&str, usize> =
            header.iter().enumerate().map(|(place, name)| (name.trim(), place)).collect();
        if !place.contains_key("poll_time") {
            return Err("its header has no column poll_time".into());
        }
        let mut recording = Self { names: Vec::new(), waits: Vec::new() };
        let mut numbers = Numbers::default();
        for row in reader.records() {
            let row = row?;
            let field = |name: &str| place.get(name).and_then(|place| row.get(*place)).unwrap_or_default();
            let Some(asked) = time(field("poll_time")) else {
                let line = row.position().map_or(0, csv::Position::line);
                eprintln!("{path}: line {line} has no poll_time, and is left out");
                continue;
            };
            recording.names.push((field("job_unique_id").to_owned(), field("poll_time").to_owned()));
            recording.waits.push(wait(&field, asked, &mut numbers));
        }
        Ok(recording)
    }
}

/// Numbers in place of the names of accounts and partitions.
#[derive(Default)]
struct Numbers {
    accounts: BTreeMap<String, u32>,
    partitions: BTreeMap<String, u32>,
}

/// Returns the number of a name, which may itself be a number.
fn numbered(names: &mut BTreeMap<String, u32>, name: &str) -> u32 {
    let next = u32::MAX - to_u32(to_f64(names.len()));
    name.parse().unwrap_or_else(|_| *names.entry(name.to_owned()).or_insert(next))
}

/// Returns a job. An `eligible_time` after the look was unknown at the look and is removed; `start_time` and
/// `end_time` are the outcome.
fn wait<'a>(field: &impl Fn(&str) -> &'a str, asked: Time, numbers: &mut Numbers) -> WaitRecord {
    let number = |name: &str| field(name).trim().parse::<f64>().ok().filter(|value| value.is_finite());
    let mut queue = QueueFigures::default();
    for (figure, name) in queue.0.iter_mut().zip(FIGURE_COLUMNS) {
        *figure = field(name).trim().parse().unwrap_or(f32::NAN);
    }
    debug_assert!(FIGURE_COLUMNS.len() <= FIGURES);
    WaitRecord {
        id: field("job_unique_id").trim().parse().unwrap_or_default(),
        asked,
        submitted: time(field("submit_time")).unwrap_or(asked),
        eligible: time(field("eligible_time")).filter(|eligible| *eligible <= asked),
        account: numbered(&mut numbers.accounts, field("account_id").trim()),
        partition: numbered(&mut numbers.partitions, field("partition_id_x").trim()),
        cpus: number("req_cpus").unwrap_or(1.0),
        memory_mib: number("req_mem_total").unwrap_or_default(),
        limit_s: number("time_limit_sec").unwrap_or_default(),
        gpus: gpus(field("req_tres")),
        queue,
        started: time(field("start_time")),
        ended: time(field("end_time")),
        pending_until: None,
    }
}

/// Returns the GPUs of a request's TRES.
fn gpus(tres: &str) -> f64 {
    let counts = tres.split(',').filter_map(|part| part.trim().split_once('='));
    let mut of_gpus = counts.filter(|(name, _)| name.starts_with("gres/gpu"));
    of_gpus.find_map(|(_, count)| count.parse().ok()).unwrap_or_default()
}
