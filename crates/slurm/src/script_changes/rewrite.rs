//! A script with other values of some options: only their bytes change, and a missing option gets a new line.

use super::Setting;
use super::settings::effective;
use crate::script::{OptionSource, ScriptOption, ScriptReading};

/// A script with changed values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RewrittenScript {
    pub text: Vec<u8>,
    /// Changes in line order.
    pub lines: Vec<LineChange>,
}

/// A changed or added line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineChange {
    /// The line number in the old script, from 1; an added line comes after it.
    pub line: usize,
    /// The old line without its line end; `None` for an added one.
    pub before: Option<String>,
    /// The new line or lines.
    pub after: Vec<String>,
}

/// An option that cannot be changed in the script.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotInScript {
    /// The command line sets the option and has precedence.
    #[error("--{name} is given on the command line, which wins over the script: change it there")]
    CommandLine { name: String },
    #[error("the environment sets --{name} ({variable}), and wins over the script: change it there")]
    Environment { name: String, variable: String },
    #[error("the value of --{name} in line {line} cannot be changed in place")]
    Value { name: String, line: usize },
    #[error("the script has no line for options of sbatch")]
    NoPlace,
}

/// Returns a script with these settings.
///
/// # Errors
/// If the command line or the environment sets an option, its value cannot be replaced, or there is no place
/// for a new line.
pub fn rewrite(
    script: &[u8],
    reading: &ScriptReading,
    settings: &[Setting],
) -> Result<RewrittenScript, NotInScript> {
    let mut edits: Vec<Edit> = Vec::new();
    let mut added: Vec<String> = Vec::new();
    for Setting { name, value } in settings {
        let name = || name.clone();
        let Some(option) = effective(reading, &name()) else {
            added.push(format!("#SBATCH --{}={value}", name()));
            continue;
        };
        match &option.source {
            OptionSource::CommandLine(_) => return Err(NotInScript::CommandLine { name: name() }),
            OptionSource::Environment(variable) => {
                return Err(NotInScript::Environment { name: name(), variable: variable.clone() });
            }
            OptionSource::Script { line, value: Some(place) } if is_plain(value) => {
                edits.push(Edit { line: *line, bytes: place.bytes.clone(), value: value.clone() });
            }
            OptionSource::Script { line, .. } => {
                return Err(NotInScript::Value { name: name(), line: *line });
            }
        }
    }
    edits.sort_by_key(|edit| edit.bytes.start);
    let lines = Lines::of(script);
    let mut text = script.to_vec();
    for edit in edits.iter().rev() {
        text.splice(edit.bytes.clone(), edit.value.bytes());
    }
    let mut changes: Vec<LineChange> = Vec::new();
    for edit in &edits {
        if changes.last().is_some_and(|last| last.line == edit.line) {
            continue;
        }
        let on_line: Vec<&Edit> = edits.iter().filter(|other| other.line == edit.line).collect();
        changes.push(lines.change(script, edit.line, &on_line).ok_or(NotInScript::NoPlace)?);
    }
    if !added.is_empty() {
        let after = lines.last_option(script, reading).or_else(|| script.starts_with(b"#!").then_some(1));
        let line = after.ok_or(NotInScript::NoPlace)?;
        let moved: isize = edits.iter().filter(|edit| edit.line <= line).map(Edit::growth).sum();
        let (end, ending) = lines.end(script, line).ok_or(NotInScript::NoPlace)?;
        let at = end.checked_add_signed(moved).ok_or(NotInScript::NoPlace)?;
        // A last line without a line end gets one.
        let new = added.iter().map(|line| if ending { format!("{line}\n") } else { format!("\n{line}") });
        text.splice(at..at, new.collect::<String>().bytes());
        changes.push(LineChange { line, before: None, after: added });
        changes.sort_by_key(|change| (change.line, change.before.is_none()));
    }
    Ok(RewrittenScript { text, lines: changes })
}

/// Replacement bytes for a range.
struct Edit {
    line: usize,
    bytes: std::ops::Range<usize>,
    value: String,
}

impl Edit {
    /// Returns the change in the length of the text.
    fn growth(&self) -> isize {
        self.value.len().cast_signed() - self.bytes.len().cast_signed()
    }
}

/// Returns whether a value needs no quotes in a script.
fn is_plain(value: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.,:+/@%=".contains(c);
    !value.is_empty() && value.chars().all(plain)
}

/// Byte ranges of a script's lines, including line ends.
struct Lines(Vec<std::ops::Range<usize>>);

impl Lines {
    fn of(script: &[u8]) -> Self {
        let mut list = Vec::new();
        let mut start = 0;
        for line in script.split_inclusive(|byte| *byte == b'\n') {
            list.push(start..start + line.len());
            start += line.len();
        }
        Self(list)
    }

    /// Returns the last `#SBATCH` line with an option. `#PBS` and `#BSUB` lines do not count: Slurm reads them
    /// after the first command too, where it ignores `#SBATCH`.
    fn last_option(&self, script: &[u8], reading: &ScriptReading) -> Option<usize> {
        let line = |option: &ScriptOption| match option.source {
            OptionSource::Script { line, .. } => Some(line),
            OptionSource::Environment(_) | OptionSource::CommandLine(_) => None,
        };
        let is_sbatch = |line: &usize| {
            let bytes = self.0.get(line.wrapping_sub(1)).and_then(|range| script.get(range.clone()));
            bytes.is_some_and(|bytes| bytes.starts_with(b"#SBATCH"))
        };
        reading.options.iter().filter_map(line).filter(is_sbatch).max()
    }

    /// Returns where a line ends, and whether it has a line break.
    fn end(&self, script: &[u8], line: usize) -> Option<(usize, bool)> {
        let range = self.0.get(line.checked_sub(1)?)?;
        Some((range.end, script.get(range.clone())?.ends_with(b"\n")))
    }

    fn change(&self, script: &[u8], line: usize, edits: &[&Edit]) -> Option<LineChange> {
        let range = self.0.get(line.checked_sub(1)?)?;
        let before = script.get(range.clone())?;
        let mut after = before.to_vec();
        for edit in edits.iter().rev() {
            let bytes =
                edit.bytes.start.checked_sub(range.start)?..edit.bytes.end.checked_sub(range.start)?;
            if bytes.end > after.len() {
                return None;
            }
            after.splice(bytes, edit.value.bytes());
        }
        let shown = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim_end_matches(['\n', '\r']).to_owned();
        Some(LineChange { line, before: Some(shown(before)), after: vec![shown(&after)] })
    }
}
