//! `scontrol show node`, in blocks or one line per node (`-o`), with or without `-d`.

use std::collections::BTreeMap;

use super::error::SavedError;
use super::gather::{Facts, Gathering};
use super::recognise::is_prompt;
use crate::model::Cluster;
use crate::slurm::amount;
use crate::slurm::record::{excerpt, value};

/// Keys whose values are free text, which may hold blanks and equal signs, and what may follow them.
const FREE: [(&str, &[&str]); 4] =
    [("OS", &["RealMemory="]), ("Reason", BEHIND_TEXT), ("Comment", BEHIND_TEXT), ("Extra", BEHIND_TEXT)];

const BEHIND_TEXT: &[&str] =
    &["Reason=", "Comment=", "Extra=", "ReservationName=", "InstanceId=", "InstanceType="];

/// Returns the cluster of the records `NodeName=…`; those `PartitionName=…` between them say time limits.
///
/// # Errors
/// When no node can be read.
pub(super) fn parse(text: &str) -> Result<(Cluster, Vec<String>), SavedError> {
    let mut gathering = Gathering::default();
    for record in records(text, &mut gathering) {
        let line = record.line;
        let fields = fields(&record.text);
        if let Some(partition) = fields.get("PartitionName") {
            let default = fields.get("Default").is_some_and(|word| word == "YES");
            let printed = format!("{partition}{}", if default { "*" } else { "" });
            gathering.partition(&printed, fields.get("MaxTime").map(String::as_str));
            continue;
        }
        let name = fields.get("NodeName").map_or("", String::as_str);
        let place = format!("line {line} ({:?})", excerpt(&format!("NodeName={name}")));
        if gathering.knows(name) {
            gathering.notes.say(format!("{place} was not read: the node is named above"));
        } else if fields.contains_key("State") {
            let added = gathering.add(name, &place, &facts(&fields));
            for (key, text) in unreadable(&fields) {
                for node in &added {
                    gathering.notes.of(node, format!("its {key} {:?} could not be read", excerpt(text)));
                }
            }
        } else {
            gathering.notes.say(format!("{place} was not read: it says no State"));
        }
    }
    gathering.finish("scontrol show node")
}

/// The lines of one node or partition.
struct Record {
    /// Line on which it begins, from 1.
    line: usize,
    text: String,
}

/// Returns the records; lines outside of them become a note.
fn records(text: &str, gathering: &mut Gathering) -> Vec<Record> {
    let mut records: Vec<Record> = Vec::new();
    let (mut open, mut outside) = (false, Vec::new());
    for (index, line) in text.lines().enumerate() {
        let begins = ["NodeName=", "PartitionName="].iter().any(|key| line.trim_start().starts_with(key));
        let indented = line.starts_with([' ', '\t']);
        if begins {
            records.push(Record { line: index + 1, text: line.trim().to_owned() });
            open = true;
        } else if line.trim().is_empty() || is_prompt(line) {
            open = false;
        } else if let (true, true, Some(record)) =
            (open, indented || starts_with_key(line), records.last_mut())
        {
            record.text.push('\n');
            record.text.push_str(line.trim());
        } else {
            open = false;
            outside.push((index + 1, line));
        }
    }
    for (number, line) in outside {
        let line = excerpt(line);
        gathering.notes.say(format!("line {number} was not read: it belongs to no node: {line:?}"));
    }
    records
}

fn starts_with_key(line: &str) -> bool {
    line.split_whitespace().next().and_then(key).is_some()
}

/// Returns the key and the rest of a word such as `State=IDLE`.
fn key(word: &str) -> Option<(&str, &str)> {
    let (key, rest) = word.split_once('=')?;
    let well = key.starts_with(|c: char| c.is_ascii_uppercase())
        && key.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | ':' | '/'));
    well.then_some((key, rest))
}

/// Returns the values by key; what comes first stays.
fn fields(record: &str) -> BTreeMap<String, String> {
    let mut fields: BTreeMap<String, String> = BTreeMap::new();
    // Lines of a reason that has several follow without a key.
    let mut last: Option<String> = None;
    for line in record.lines() {
        let mut rest = line.trim();
        if !starts_with_key(rest) {
            if let Some(text) = last.as_ref().and_then(|key| fields.get_mut(key)) {
                text.push(' ');
                text.push_str(rest);
            }
            continue;
        }
        while !rest.is_empty() {
            let (word, after) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
            rest = after.trim_start();
            let Some((key, first)) = key(word) else { continue };
            let mut text = first.to_owned();
            if let Some((_, next)) = FREE.iter().find(|(free, _)| *free == key) {
                let stamp = (key == "Reason").then(|| end_of_stamp(after)).flatten();
                let end = stamp.unwrap_or_else(|| start_of_key(after, next));
                text = format!("{first} {}", &after[..end]);
                rest = after[end..].trim_start();
            }
            last = Some(key.to_owned());
            fields.entry(key.to_owned()).or_insert_with(|| text.trim().to_owned());
        }
    }
    fields
}

/// Returns where the `[user@time]` of a reason ends: only there another key may follow it.
fn end_of_stamp(text: &str) -> Option<usize> {
    text.match_indices(']').map(|(at, _)| at + 1).find(|&end| {
        let closed = text[end..].is_empty() || text[end..].starts_with(char::is_whitespace);
        let inside = text[..end - 1].rsplit_once('[').map(|(_, inside)| inside);
        closed && inside.is_some_and(is_stamp)
    })
}

/// Returns where the first of these keys begins, or the text's end.
fn start_of_key(text: &str, keys: &[&str]) -> usize {
    let begins = |at: usize| text[..at].chars().next_back().is_none_or(char::is_whitespace);
    let places = keys.iter().flat_map(|key| text.match_indices(key).map(|(at, _)| at));
    places.filter(|&at| begins(at)).min().unwrap_or(text.len())
}

/// Returns whether the inside of brackets reads `user@time`.
fn is_stamp(inside: &str) -> bool {
    let words = inside.split_once('@');
    words.is_some_and(|(user, _)| !user.is_empty() && !inside.contains(char::is_whitespace))
}

fn facts(fields: &BTreeMap<String, String>) -> Facts {
    let get = |key: &str| fields.get(key).cloned();
    let count = |key: &str| fields.get(key).and_then(|text| amount::count(text));
    let memory = |key: &str| fields.get(key).and_then(|text| amount::memory(text));
    let list = |key: &str| {
        let text = value(fields.get(key)?).unwrap_or_default();
        Some(text.split(',').filter(|word| !word.is_empty()).map(str::to_owned).collect())
    };
    Facts {
        state: get("State"),
        reason: get("Reason").map(|reason| without_stamp(&reason).to_owned()),
        gres: get("Gres"),
        gres_used: get("GresUsed"),
        tres: get("CfgTRES"),
        tres_used: get("AllocTRES"),
        // Cores kept for the system are no CPUs of jobs.
        cpus: count("CPUEfctv").or_else(|| count("CPUTot")),
        cpus_used: count("CPUAlloc"),
        memory: memory("RealMemory"),
        memory_used: memory("AllocMem"),
        features: list("ActiveFeatures").or_else(|| list("AvailableFeatures")).or_else(|| list("Features")),
        partitions: list("Partitions").unwrap_or_default(),
    }
}

/// Returns the counts and amounts of a record that are none.
fn unreadable(fields: &BTreeMap<String, String>) -> Vec<(&'static str, &str)> {
    let keys = ["CPUEfctv", "CPUTot", "CPUAlloc", "RealMemory", "AllocMem"];
    let text = |key| Some((key, value(fields.get(key)?)?));
    keys.into_iter().filter_map(text).filter(|(_, text)| amount::memory(text).is_none()).collect()
}

/// Returns a reason without who gave it and when, as sinfo prints it.
fn without_stamp(reason: &str) -> &str {
    match reason.rsplit_once('[') {
        Some((text, stamp)) if stamp.strip_suffix(']').is_some_and(is_stamp) => text.trim_end(),
        _ => reason,
    }
}
