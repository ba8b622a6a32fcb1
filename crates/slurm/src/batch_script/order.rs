//! Where a preparing command runs: in `setup`, which comes first, or in `node_setup` after what it needs.

use std::collections::BTreeSet;

use serde_json::Value;

use super::ImportedJob;
use super::words::assignment;

/// Commands that set variables that the script does not show.
const ENVIRONMENTS: [&str; 5] = ["module ", "source ", ". ", "conda ", "eval "];

/// Variables that jobs have without such a command.
const KNOWN: [&str; 9] =
    ["HOME", "USER", "PWD", "PATH", "HOSTNAME", "TASK", "MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE"];

/// Returns what a command needs from the lines of `node_setup` so far: a variable, or another directory.
pub(super) fn need(text: &str, imported: &ImportedJob) -> Option<String> {
    let lines = lines(imported);
    if let Some(line) = lines.iter().find(|line| moves(line)) {
        return Some((*line).to_owned());
    }
    if let Some(name) = set_by(&lines).into_iter().find(|name| uses(text, name)) {
        return Some(format!("${name}"));
    }
    let line = lines.iter().find(|line| ENVIRONMENTS.iter().any(|word| line.starts_with(word)))?;
    let env = imported.keys.get("env").and_then(Value::as_object);
    let own = assigned(text);
    let is_unknown = |name: &&str| {
        let is_set = KNOWN.contains(name) || name.starts_with("SLURM_") || own.contains(name);
        !is_set && !env.is_some_and(|env| env.contains_key(*name))
    };
    variables(text).into_iter().find(is_unknown).map(|name| format!("${name}, which may come from {line}"))
}

/// Returns whether a command changes the directory of the commands after it.
pub(super) fn moves(text: &str) -> bool {
    ["cd", "pushd", "popd"].contains(&text.split_whitespace().next().unwrap_or_default())
}

/// Returns whether a line of `node_setup` changes the directory.
pub(super) fn has_moved(imported: &ImportedJob) -> bool {
    lines(imported).iter().any(|line| moves(line))
}

/// Returns whether a line of `node_setup` sets a variable.
pub(super) fn is_set(name: &str, imported: &ImportedJob) -> bool {
    set_by(&lines(imported)).contains(name)
}

/// Returns whether a text uses a variable, in arithmetic also without `$`.
pub(super) fn uses(text: &str, name: &str) -> bool {
    let is_of_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    text.match_indices(name).any(|(place, _)| {
        let (before, after) = (&text[..place], &text[place + name.len()..]);
        let is_expanded =
            before.ends_with('$') || ["${", "${#", "${!"].iter().any(|sign| before.ends_with(sign));
        let is_whole = !before.ends_with(is_of_name) && !after.starts_with(is_of_name);
        is_whole && (is_expanded || before.contains("(("))
    })
}

fn lines(imported: &ImportedJob) -> Vec<&str> {
    let lines = imported.keys.get("node_setup").and_then(Value::as_array);
    lines.into_iter().flatten().filter_map(Value::as_str).collect()
}

fn set_by<'a>(lines: &[&'a str]) -> BTreeSet<&'a str> {
    lines.iter().flat_map(|line| assigned(line)).collect()
}

/// Returns the variables that a text sets, also as those of a loop.
pub(super) fn assigned(text: &str) -> BTreeSet<&str> {
    let words: Vec<&str> = text.split(|c: char| c.is_whitespace() || c == ';').collect();
    let of_words = words.iter().filter_map(|word| Some(assignment(word)?.0));
    let of_loops =
        words.windows(2).filter(|pair| ["for", "read", "select"].contains(&pair[0])).map(|pair| pair[1]);
    of_words.chain(of_loops).collect()
}

/// Returns the variables that a text expands.
fn variables(text: &str) -> BTreeSet<&str> {
    let parts = text.split('$').skip(1);
    let names = parts.map(|part| {
        let part = part.strip_prefix('{').unwrap_or(part);
        let part = part.trim_start_matches(['#', '!']);
        let end = part.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        &part[..end.unwrap_or(part.len())]
    });
    names.filter(|name| name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')).collect()
}
