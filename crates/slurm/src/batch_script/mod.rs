//! Imports batch scripts as entries of a job file, and lists the parts that could not be imported with their
//! lines.
//!
//! Missing values are left to be filled in, and differences in behaviour are listed.

mod blocks;
mod body;
mod command;
mod options;
mod order;
mod programs;
mod resources;
mod tasks;
#[cfg(test)]
mod tests;
mod training;
mod words;
mod write;

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::script::{ScriptReading, ScriptSource, read_script};
use hsched_model::JobName;
use hsched_model::formats::parse_type;

/// The part of a job that a script describes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ImportedJob {
    /// Keys of the job file with their values.
    pub keys: BTreeMap<&'static str, Value>,
    /// Remarks on options and commands that were not imported or that differ, in line order.
    pub remarks: Vec<Remark>,
    /// The script's text about values that only the user knows, by key.
    pub hints: BTreeMap<&'static str, String>,
    /// The tasks of a job array in Slurm's notation and their line, if they were not turned into a sweep.
    pub array: Option<(usize, String)>,
    /// Keys besides the required ones that the user must fill in, with the reason.
    pub todos: BTreeMap<&'static str, String>,
}

/// A sentence about a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remark {
    /// Line number, from 1; for a continued line, the first.
    pub line: usize,
    pub text: String,
}

/// A line of a script with its number; lines continued by a backslash count as one.
#[derive(Clone, Debug, PartialEq, Eq)]
struct LogicalLine {
    number: usize,
    text: String,
}

/// Reads a batch script; `name` is the job's name if the script sets none.
pub fn read(script: &str, name: &str) -> ImportedJob {
    let reading = read_script(&ScriptSource {
        script: Some(script.as_bytes()),
        file_name: name,
        command_line: &[],
        environment: &BTreeMap::new(),
        version: None,
    });
    let mut imported = ImportedJob::default();
    imported.set_name(None, name);
    options::read(&reading, &mut imported);
    resources::read(&reading, &mut imported);
    let lines = lines(script);
    let first_command = lines.iter().position(|line| !line.text.is_empty() && !line.text.starts_with('#'));
    let body = tasks::rewrite(&lines[first_command.unwrap_or(lines.len())..], &mut imported);
    body::read(&body, processes(&reading), &mut imported);
    imported.remarks.sort_by_key(|remark| remark.line);
    imported
}

/// Returns the requested numbers of tasks and of GPUs; 1 if the script does not determine them.
fn processes(reading: &ScriptReading) -> Processes {
    let total = reading.request.as_ref().map(|request| &request.total);
    Processes {
        tasks: total.and_then(|resource_request| resource_request.ntasks).unwrap_or(1),
        gpus: total.and_then(|resource_request| resource_request.gpus_total).unwrap_or(1),
    }
}

/// Number of tasks, which `srun` starts, and of GPUs.
#[derive(Clone, Copy, Debug)]
struct Processes {
    tasks: u64,
    gpus: u64,
}

impl ImportedJob {
    /// Adds a sentence about a line.
    pub fn remark(&mut self, line: usize, text: impl Into<String>) {
        self.remarks.push(Remark { line, text: text.into() });
    }

    /// Marks a key to be filled in.
    pub fn todo(&mut self, key: &'static str, why: impl Into<String>) {
        self.todos.entry(key).or_insert_with(|| why.into());
    }

    /// Appends to a key with a list.
    pub fn push(&mut self, key: &'static str, value: impl Into<Value>) {
        if let Value::Array(items) = self.keys.entry(key).or_insert_with(|| json!([])) {
            items.push(value.into());
        }
    }

    /// Adds an entry to a key with a map.
    pub fn put(&mut self, key: &'static str, name: &str, value: &str) {
        if let Value::Object(map) = self.keys.entry(key).or_insert_with(|| json!({})) {
            map.insert(name.to_owned(), json!(value));
        }
    }

    /// Names the job after the script's job name, or else `other`, without invalid characters.
    pub fn set_name(&mut self, script_name: Option<&(usize, String)>, other: &str) {
        let wanted = script_name.map_or(other, |(_, name)| name);
        let plain = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '-' };
        let name: String = wanted.chars().map(plain).take(100).collect();
        let name = name.trim_start_matches(['-', '_', '.']);
        let name = if JobName::new(name).is_ok() { name } else { "job" };
        if let Some((line, _)) = script_name.filter(|(_, written)| written != name) {
            self.remark(
                *line,
                format!("the name {wanted:?} became {name}: names have letters, digits, - _ ."),
            );
        }
        self.keys.insert("name", json!(name));
    }

    /// Limits the job to GPU types, if all of the names are valid.
    fn set_types(&mut self, line: usize, types: Vec<&String>) {
        let mut sorted = types;
        sorted.sort();
        sorted.dedup();
        if let Some(wrong) = sorted.iter().find(|candidate| parse_type(candidate).is_err()) {
            self.remark(line, format!("{wrong:?} is not a GPU type: set gpu_types yourself"));
        } else if !sorted.is_empty() {
            self.keys.insert("gpu_types", json!(sorted));
        }
    }
}

/// Returns the lines of a script with their numbers, without surrounding blanks and with continued lines
/// joined.
fn lines(script: &str) -> Vec<LogicalLine> {
    let mut lines: Vec<LogicalLine> = Vec::new();
    let mut continued = false;
    for (place, text) in script.lines().enumerate() {
        let text = text.trim_end_matches('\r');
        let is_comment = text.trim_start().starts_with('#');
        let (text, goes_on) = match text.strip_suffix('\\') {
            Some(begin) if !is_comment || continued => (begin, true),
            _ => (text, false),
        };
        match lines.last_mut().filter(|_| continued) {
            Some(last) => {
                last.text.push(' ');
                last.text.push_str(text.trim());
            }
            None => lines.push(LogicalLine { number: place + 1, text: text.trim().to_owned() }),
        }
        continued = goes_on;
    }
    for line in &mut lines {
        line.text.truncate(line.text.trim_end().len());
    }
    lines
}
