//! How a job is started: its command, environment, shell lines and Slurm options.
//!
//! Text for an `sbatch` option or a single script line must not contain control characters: a newline would
//! start a new directive.

use std::collections::BTreeSet;

use super::problem::{ValueError, quoted};
use super::reader::{ReaderValue, all};
use crate::{Command, ErrorId, Seconds};

/// Variables that the launcher or Slurm sets for every rank, and those that hsched's job scripts use.
const RESERVED: [&str; 6] =
    ["RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"];
const RESERVED_PREFIXES: [&str; 3] = ["HSCHED_", "SLURM_", "hs_"];

/// Variables read by `hsched_ddp` that only users set.
const OF_USERS: [&str; 1] = ["HSCHED_GATE_LIMIT_S"];

/// Maximum length of an environment variable's name.
const NAME_LIMIT: usize = 200;

/// Returns the text if it contains no control character.
///
/// # Errors
/// If it contains one.
pub fn one_line(text: &str) -> Result<String, ValueError> {
    match text.chars().find(|c| c.is_control()) {
        None => Ok(text.to_owned()),
        Some(character) => {
            Err(ValueError::new(format!("must not contain control characters, got {character:?}"))
                .id(ErrorId::TextFormat))
        }
    }
}

/// Returns the text if it can be an account, partition or quality of service.
///
/// # Errors
/// If it is not a single word, or contains a control character.
pub fn slurm_name(text: &str) -> Result<String, ValueError> {
    if text.is_empty() || text.chars().any(char::is_whitespace) {
        let message = format!("must be one word, got {}", quoted(text));
        return Err(ValueError::new(message).id(ErrorId::TextFormat));
    }
    one_line(text)
}

/// Returns the words of a shell-like line of options.
///
/// # Errors
/// If a quote is unclosed, or a word contains a control character.
pub fn split_words(line: &str) -> Result<Vec<String>, ValueError> {
    let words = shell_words::split(line).map_err(|error| {
        ValueError::new(format!("cannot be split into words: {error}")).id(ErrorId::TextFormat)
    })?;
    words.iter().map(|word| one_line(word)).collect()
}

/// Returns the lines of a block of shell text, without trailing blank lines.
///
/// # Errors
/// If it contains a NUL character.
pub fn shell_lines(block: &str) -> Result<Vec<String>, ValueError> {
    no_nul(block)?;
    Ok(block.trim_end().lines().map(ToOwned::to_owned).collect())
}

/// Returns the text if it can be passed to a shell.
///
/// # Errors
/// If it contains a NUL character.
pub fn no_nul(text: &str) -> Result<String, ValueError> {
    if text.contains('\0') {
        return Err(ValueError::new("must not contain a NUL character").id(ErrorId::TextFormat));
    }
    Ok(text.to_owned())
}

/// Reads an account or partition, or a list of them.
pub(super) fn read_names(value: &ReaderValue<'_>) -> Option<Vec<String>> {
    if !value.is_list() {
        return value.parsed(slurm_name).map(|name| vec![name]);
    }
    let names = all(value.items().iter().map(|item| item.parsed(slurm_name)))?;
    if names.is_empty() {
        value.report(ValueError::new("must not be empty").id(ErrorId::TextFormat));
    }
    Some(names)
}

/// Returns the text if it can be a path.
pub(super) fn path(text: &str) -> Result<String, ValueError> {
    if text.is_empty() {
        return Err(ValueError::new("must not be empty").id(ErrorId::TextFormat));
    }
    one_line(text)
}

/// Placeholder that `hsched import` writes for values that only the user knows.
pub const TODO: &str = "TODO";

/// Reads a positive duration.
pub(super) fn positive(value: &ReaderValue<'_>) -> Option<Seconds> {
    let slurms = |hint| format!("{hint} (Slurm would read it as minutes)");
    let duration = value.duration_with(slurms)?;
    let checked = if duration.0 > 0.0 {
        Ok(duration)
    } else {
        Err(ValueError::new("must be above 0").id(ErrorId::NumberRange))
    };
    value.accept(checked)
}

/// Reads a list of words, or one line for the shell.
pub(super) fn read_command(value: &ReaderValue<'_>) -> Option<Command> {
    let empty = || ValueError::new("must not be empty").id(ErrorId::TextFormat);
    if !value.is_list() {
        let line = value.parsed(no_nul)?;
        if line.trim() == TODO {
            value.report(
                ValueError::new(format!("is still {TODO}"))
                    .id(ErrorId::ExampleValue)
                    .hint("write what each rank runs"),
            );
            return None;
        }
        return value.accept(if line.trim().is_empty() { Err(empty()) } else { Ok(Command::Shell(line)) });
    }
    let words = all(value.items().iter().map(|item| item.parsed(no_nul)))?;
    if words.first().is_none_or(String::is_empty) {
        value.report(empty());
    }
    Some(Command::Words(words))
}

/// Reads a map of variables, or a list of `NAME=value`, which also keeps its order in JSON.
pub(super) fn read_env(value: &ReaderValue<'_>) -> Option<Vec<(String, String)>> {
    if !value.is_list() {
        return all(value.entries().into_iter().map(|(name, item)| {
            let checked = item.accept(variable(name));
            let text = item.parsed(no_nul);
            Some((checked?, text?))
        }));
    }
    let mut seen = BTreeSet::new();
    all(value.items().iter().map(|item| {
        let (name, text) = item.parsed(|text| {
            let (name, text) = text.split_once('=').ok_or_else(|| {
                ValueError::new(format!("must be NAME=value, got {}", quoted(text))).id(ErrorId::EnvVariable)
            })?;
            Ok((variable(name)?, no_nul(text)?))
        })?;
        if !seen.insert(name.clone()) {
            item.report(ValueError::new(format!("sets {name} twice")).id(ErrorId::EnvVariable));
        }
        Some((name, text))
    }))
}

/// Returns the name if it can be an environment variable of a job.
pub(super) fn variable(name: &str) -> Result<String, ValueError> {
    let starts_well = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    let fits = name.len() <= NAME_LIMIT && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    if !starts_well || !fits {
        let hint = "use only letters, digits and _, and do not start with a digit";
        return Err(ValueError::new(format!("{} is not a valid variable name", quoted(name)))
            .id(ErrorId::EnvVariable)
            .hint(hint));
    }
    let is_reserved =
        RESERVED.contains(&name) || RESERVED_PREFIXES.iter().any(|prefix| name.starts_with(prefix));
    if is_reserved && !OF_USERS.contains(&name) {
        let prefix = RESERVED_PREFIXES.into_iter().find(|prefix| name.starts_with(prefix));
        let message = match prefix {
            Some("SLURM_") => format!("names that begin with SLURM_ are Slurm's; a job cannot set {name}"),
            Some(prefix) => {
                format!("names that begin with {prefix} are hsched's own; a job cannot set {name}")
            }
            None => format!("hsched sets {name} for every rank; a job cannot set it"),
        };
        return Err(ValueError::new(message).id(ErrorId::EnvVariable).hint("remove it"));
    }
    Ok(name.to_owned())
}

/// Reads shell lines: a list with one item each, or one block of text.
pub(super) fn read_lines(value: &ReaderValue<'_>) -> Option<Vec<String>> {
    if value.is_list() || value.is_nothing() {
        return all(value.items().iter().map(|item| item.parsed(no_nul)));
    }
    value.parsed(shell_lines)
}

/// Reads words: a list with one item each, or one text, which is split as by a shell.
pub(super) fn read_words(value: &ReaderValue<'_>) -> Option<Vec<String>> {
    if value.is_list() || value.is_nothing() {
        return all(value.items().iter().map(|item| item.parsed(one_line)));
    }
    value.parsed(split_words)
}
