//! The rows of `sacct`, from text to runs.

use std::collections::{BTreeMap, BTreeSet};

use crate::accounting::amounts::{self, RequestedMemory};
use crate::accounting::columns::{AccountingRow, ColumnPlaces, HeaderError};
use crate::accounting::run::{AccountedRun, AskedMemory, StepUse};
use crate::record::value;
use crate::{SlurmState, Tres};
use hsched_model::number::to_f64;
use hsched_model::{GpuType, Time};

/// The past runs found in a text.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Accounting {
    /// In the order of the text; duplicate rows count once.
    pub runs: Vec<AccountedRun>,
    /// Rows that were skipped.
    pub odd: Vec<OddRow>,
    /// Columns that are missing, at least in a part of the text.
    pub missing: Vec<&'static str>,
    /// The latest end time. A job that had not ended counts with the latest time of its row, which is before
    /// its end.
    pub newest: Option<Time>,
}

/// A row that cannot be interpreted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OddRow {
    /// Line number, from 1.
    pub line: usize,
    pub why: String,
}

/// Columns that distinguish the attempts of jobs.
const OF_JOB: [&str; 5] = ["JobIDRaw", "State", "Submit", "Start", "End"];

/// Columns that distinguish steps.
const OF_STEP: [&str; 8] =
    ["JobIDRaw", "State", "Start", "End", "NTasks", "MaxRSS", "TotalCPU", "TRESUsageInAve"];

impl Accounting {
    /// Reads a text. `date` parses a date, because dates from other machines have no time zone.
    ///
    /// # Errors
    /// If there is no header, or if a header lacks a required column.
    pub fn parse(bytes: &[u8], date: fn(&str) -> Option<Time>) -> Result<Self, HeaderError> {
        let lines: Vec<String> = bytes.split(|byte| *byte == b'\n').map(line_of).collect();
        let numbered = || (1_usize..).zip(&lines).filter(|(_, line)| !line.trim().is_empty());
        let first = numbered().find(|(_, line)| ColumnPlaces::is_header(line)).or_else(|| numbered().next());
        let (number, header) = first.ok_or(HeaderError::Empty)?;
        let mut reader = AccountingReader::new(&ColumnPlaces::of(header, number)?, date);
        for (number, line) in numbered() {
            if ColumnPlaces::is_header(line) {
                reader.begin_pull(&ColumnPlaces::of(line, number)?);
            } else if let Err(why) = reader.read(line) {
                reader.found.odd.push(OddRow { line: number, why });
            }
        }
        Ok(reader.found)
    }
}

/// Returns a line without its line end; invalid UTF-8 becomes `U+FFFD`.
fn line_of(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes.strip_suffix(b"\r").unwrap_or(bytes)).into_owned()
}

/// The job of the last row that was not a step; the following steps belong to it.
struct Above {
    id: String,
    /// `None` if its row is not a run.
    run: Option<usize>,
}

struct AccountingReader {
    columns: ColumnPlaces,
    date: fn(&str) -> Option<Time>,
    found: Accounting,
    above: Option<Above>,
    /// The runs by their distinguishing columns.
    known: BTreeMap<Vec<String>, usize>,
    steps: BTreeSet<(usize, Vec<String>)>,
}

/// The times of a row.
struct RowTimes {
    submit: Option<Time>,
    start: Option<Time>,
    end: Option<Time>,
}

impl AccountingReader {
    fn new(columns: &ColumnPlaces, date: fn(&str) -> Option<Time>) -> Self {
        let (found, known, steps) = Default::default();
        Self { columns: *columns, date, found, above: None, known, steps }
    }

    fn begin_pull(&mut self, columns: &ColumnPlaces) {
        for name in columns.missing() {
            if !self.found.missing.contains(&name) {
                self.found.missing.push(name);
            }
        }
        (self.columns, self.above) = (*columns, None);
    }

    /// Reads a row of a job or of a step.
    ///
    /// # Errors
    /// The problem of the row, which is skipped.
    fn read(&mut self, line: &str) -> Result<(), String> {
        let columns = self.columns;
        let shown = columns.id_of(line).unwrap_or_default().trim();
        let (id, step) = shown.split_once('.').map_or((shown, None), |(id, step)| (id, Some(step)));
        if step.is_none() {
            // The steps of a skipped row are skipped as well.
            self.above = Some(Above { id: id.to_owned(), run: None });
        }
        let row = columns.row(line)?;
        if !id.starts_with(|c: char| c.is_ascii_digit()) {
            return Err("JobIDRaw is not the id of a job".to_owned());
        }
        let times = self.times(&row)?;
        match step {
            None => self.job(&row, &times)?,
            Some(_) => self.step(id, &row, &times)?,
        }
        let latest = times.end.map_or([times.submit, times.start], |end| [Some(end), None]);
        for time in latest.into_iter().flatten() {
            self.found.newest = self.found.newest.filter(|newest| newest.0 >= time.0).or(Some(time));
        }
        Ok(())
    }

    fn times(&self, row: &AccountingRow) -> Result<RowTimes, String> {
        let date = |column| amounts::read(row, column, self.date);
        let times = RowTimes { submit: date("Submit")?, start: date("Start")?, end: date("End")? };
        match (times.start, times.end) {
            (Some(start), Some(end)) if end.0 < start.0 => Err("End is before Start".to_owned()),
            _ => Ok(times),
        }
    }

    fn job(&mut self, row: &AccountingRow, times: &RowTimes) -> Result<(), String> {
        let run = run(row, times)?;
        let key = row.key(&OF_JOB);
        let run = match (run, self.known.get(&key)) {
            (_, Some(known)) => Some(*known),
            (Some(run), None) => {
                self.found.runs.push(run);
                let number = self.found.runs.len() - 1;
                self.known.insert(key, number);
                Some(number)
            }
            (None, None) => None,
        };
        if let Some(above) = &mut self.above {
            above.run = run;
        }
        Ok(())
    }

    fn step(&mut self, id: &str, row: &AccountingRow, times: &RowTimes) -> Result<(), String> {
        let above = self.above.as_ref().filter(|above| above.id == id);
        let above = above.ok_or_else(|| format!("a step of job {id}, whose row is not above"))?;
        let used = used(row, times)?;
        let Some(number) = above.run else { return Ok(()) };
        if self.steps.insert((number, row.key(&OF_STEP))) {
            self.found.runs[number].add(&used);
        }
        Ok(())
    }
}

/// Returns the run of a job's row; `None` if the job has not both started and ended.
fn run(row: &AccountingRow, times: &RowTimes) -> Result<Option<AccountedRun>, String> {
    let requested = Tres::parse(row.cell("ReqTRES"));
    let given = Tres::parse(row.cell("AllocTRES"));
    let nodes = amounts::count(row, "NNodes")?.or(given.nodes).or(requested.nodes).unwrap_or(1).max(1);
    let asked = if value(row.cell("ReqTRES")).is_some() { &requested } else { &given };
    let cpus = asked.cpus.or(given.cpus);
    let memory = match amounts::requested_memory(row)? {
        Some(RequestedMemory::PerNode(mib)) => Some(AskedMemory { mib, is_per_cpu: false }),
        Some(RequestedMemory::Whole(mib)) => {
            Some(AskedMemory { mib: mib / to_f64(nodes), is_per_cpu: false })
        }
        Some(RequestedMemory::PerCpu(mib)) => {
            cpus.map(|cpus| AskedMemory { mib: mib * to_f64(cpus) / to_f64(nodes), is_per_cpu: true })
        }
        None => asked.memory.map(|bytes| AskedMemory {
            mib: to_f64(bytes.0) / amounts::MIB / to_f64(nodes),
            is_per_cpu: false,
        }),
    };
    let has_tres = [&row.cell("ReqTRES"), &row.cell("AllocTRES")].iter().any(|text| value(text).is_some());
    let typed = asked
        .gres
        .gpus
        .iter()
        .map(|(gpu_type, _)| gpu_type)
        .find(|gpu_type| **gpu_type != GpuType::untyped());
    let (limit, usage) = (amounts::limit(row)?, used(row, times)?);
    let state = SlurmState::parse(row.cell("State"));
    let is_over = !matches!(state, SlurmState::Pending | SlurmState::Running | SlurmState::Suspended);
    let (Some(started), Some(ended), true) = (times.start, times.end, is_over) else { return Ok(None) };
    let mut run = AccountedRun {
        name: row.cell("JobName").to_owned(),
        partition: value(row.cell("Partition")).map(str::to_owned),
        state,
        submitted: times.submit,
        started,
        ended,
        limit,
        nodes,
        cpus,
        memory,
        gpus: has_tres.then(|| asked.gres.gpu_total()),
        gpu_type: typed.cloned(),
        tasks: 1,
        steps: StepUse { own_cpu: usage.cpu_seconds, ..StepUse::default() },
    };
    run.give(&given);
    Ok(Some(run))
}

/// The resource use in the row of a step or a job.
pub(super) struct StepUsage {
    /// Number of tasks on each node, rounded up.
    pub tasks_a_node: f64,
    pub tasks: u64,
    pub resident_mib: Option<f64>,
    pub cpu_seconds: Option<f64>,
    pub gpu_percent: Option<f64>,
    pub seconds: Option<f64>,
    pub given: Tres,
}

fn used(row: &AccountingRow, times: &RowTimes) -> Result<StepUsage, String> {
    let nodes = amounts::count(row, "NNodes")?.unwrap_or(1).max(1);
    let tasks = amounts::count(row, "NTasks")?.unwrap_or(1).max(1);
    Ok(StepUsage {
        tasks_a_node: to_f64(tasks.div_ceil(nodes)),
        tasks,
        resident_mib: amounts::resident_mib(row)?,
        cpu_seconds: amounts::cpu_time(row)?,
        gpu_percent: amounts::gpu_percent(row),
        seconds: times.start.zip(times.end).map(|(start, end)| end.since(start).0),
        given: Tres::parse(row.cell("AllocTRES")),
    })
}
