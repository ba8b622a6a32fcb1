//! `scontrol show node`, in blocks or in one line per node (`-o`), with or without `-d`.

use std::collections::BTreeMap;

use super::clean::CleanLine;
use super::facts::NodeFacts;
use super::gather::NodeStatements;
use crate::amount;
use crate::record::{excerpt, value};

/// Keys with free-text values, which may contain blanks and equal signs, and the keys that may follow them.
const FREE: [(&str, &[&str]); 4] =
    [("OS", &["RealMemory="]), ("Reason", BEHIND_TEXT), ("Comment", BEHIND_TEXT), ("Extra", BEHIND_TEXT)];

const BEHIND_TEXT: &[&str] =
    &["Reason=", "Comment=", "Extra=", "ReservationName=", "InstanceId=", "InstanceType="];

/// Beginnings of records that are not about nodes.
const OTHERS: [&str; 6] =
    ["JobId=", "ReservationName=", "StepId=", "LicenseName=", "FrontendName=", "UserName="];

/// Adds the data of the records `NodeName=…`; records `PartitionName=…` between them give time limits and
/// states.
///
/// Returns the lines outside records.
pub(super) fn read<'a>(lines: &[CleanLine<'a>], gathering: &mut NodeStatements) -> Vec<CleanLine<'a>> {
    let (records, rest) = records(lines);
    let records: Vec<(usize, BTreeMap<String, String>)> =
        records.iter().map(|record| (record.line, fields(&record.text))).collect();
    let says_states =
        records.iter().any(|(_, fields)| fields.contains_key("NodeName") && fields.contains_key("State"));
    for (line, fields) in records {
        let get = |key: &str| fields.get(key).map(String::as_str);
        if let Some(partition) = get("PartitionName") {
            let default = if get("Default") == Some("YES") { "*" } else { "" };
            gathering.partition(&format!("{partition}{default}"), get("MaxTime"), get("State"));
            continue;
        }
        gathering.found("scontrol show node");
        let name = get("NodeName").unwrap_or_default();
        // If other records have a state, a record without one is truncated.
        let needed = if says_states { "State" } else { "Gres" };
        let added = match () {
            () if gathering.knows(name) => Err("the node appears above".to_owned()),
            () if get(needed).is_none() => Err(format!("it has no {needed}")),
            () => gathering.add(name, &facts(&fields)),
        };
        match added {
            Err(why) => gathering.leave_out(line, &format!("NodeName={name}"), &why),
            Ok(added) => {
                for (key, text) in unreadable(&fields) {
                    let note = format!("its {key} {:?} could not be read", excerpt(text));
                    for node in &added {
                        gathering.notes.of(node, note.clone());
                    }
                }
            }
        }
    }
    rest
}

/// The lines of one node or partition.
struct ScontrolRecord {
    /// Line number of the record's beginning, from 1.
    line: usize,
    text: String,
}

impl ScontrolRecord {
    /// Returns whether the record's last line is free text, which may continue.
    fn ends_in_text(&self) -> bool {
        let last = self.text.lines().next_back().unwrap_or("");
        FREE.iter().any(|(key, _)| last.starts_with(key)) || !starts_with_key(last)
    }
}

/// Returns the records, and the lines outside them.
fn records<'a>(lines: &[CleanLine<'a>]) -> (Vec<ScontrolRecord>, Vec<CleanLine<'a>>) {
    let (mut records, mut rest): (Vec<ScontrolRecord>, Vec<CleanLine<'a>>) = (Vec::new(), Vec::new());
    let mut is_open = false;
    // A terminal breaks the long lines of `-o` at its width, in the middle of words.
    let width = lines.iter().map(|line| line.text.len()).max().unwrap_or(0);
    let mut is_broken = false;
    for line in lines {
        let text = line.text.trim();
        let begins = |key: &&str| text.starts_with(*key);
        let indented = line.text.starts_with([' ', '\t']);
        let goes_on = |record: &ScontrolRecord| starts_with_key(text) || (indented && record.ends_in_text());
        if ["NodeName=", "PartitionName="].iter().any(begins) {
            records.push(ScontrolRecord { line: line.number, text: text.to_owned() });
            (is_open, is_broken) = (true, line.text.len() == width);
        } else if let Some(record) =
            records.last_mut().filter(|_| is_broken && line.command.is_none() && !starts_with_key(text))
        {
            record.text.push_str(&line.text);
            is_broken = line.text.len() == width;
        } else if line.command.is_some() || OTHERS.iter().any(begins) {
            is_open = false;
            rest.push(line.clone());
        } else if let Some(record) = records.last_mut().filter(|record| is_open && goes_on(record)) {
            record.text.push('\n');
            record.text.push_str(text);
            is_broken &= line.text.len() == width;
        } else {
            rest.push(line.clone());
        }
    }
    (records, rest)
}

fn starts_with_key(line: &str) -> bool {
    line.split_whitespace().next().and_then(key).is_some()
}

/// Splits a word such as `State=IDLE` into the key and the rest.
fn key(word: &str) -> Option<(&str, &str)> {
    let (key, rest) = word.split_once('=')?;
    let well = key.starts_with(|c: char| c.is_ascii_uppercase())
        && key.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | ':' | '/'));
    well.then_some((key, rest))
}

/// Returns the values by key; the first value of a key is kept.
fn fields(record: &str) -> BTreeMap<String, String> {
    let mut fields: BTreeMap<String, String> = BTreeMap::new();
    // Later lines of a multi-line reason have no key.
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

/// Returns the end of a reason's `[user@time]`; another key may follow only after it.
fn end_of_stamp(text: &str) -> Option<usize> {
    text.match_indices(']').map(|(at, _)| at + 1).find(|&end| {
        let closed = text[end..].is_empty() || text[end..].starts_with(char::is_whitespace);
        let inside = text[..end - 1].rsplit_once('[').map(|(_, inside)| inside);
        closed && inside.is_some_and(is_stamp)
    })
}

/// Returns where the first of these keys begins, or the end of the text.
fn start_of_key(text: &str, keys: &[&str]) -> usize {
    let begins = |at: usize| text[..at].chars().next_back().is_none_or(char::is_whitespace);
    let places = keys.iter().flat_map(|key| text.match_indices(key).map(|(at, _)| at));
    places.filter(|&at| begins(at)).min().unwrap_or(text.len())
}

/// Returns whether the text inside brackets has the form `user@time`.
fn is_stamp(inside: &str) -> bool {
    let words = inside.split_once('@');
    words.is_some_and(|(user, _)| !user.is_empty() && !inside.contains(char::is_whitespace))
}

fn facts(fields: &BTreeMap<String, String>) -> NodeFacts {
    let get = |key: &str| fields.get(key).cloned();
    let count = |key: &str| fields.get(key).and_then(|text| amount::count(text));
    let memory = |key: &str| fields.get(key).and_then(|text| amount::memory(text));
    let list = |key: &str| {
        let text = value(fields.get(key)?).unwrap_or_default();
        Some(text.split(',').filter(|word| !word.is_empty()).map(str::to_owned).collect())
    };
    NodeFacts {
        state: get("State"),
        reason: get("Reason").map(|reason| without_stamp(&reason).to_owned()),
        gres: get("Gres"),
        gres_used: get("GresUsed"),
        tres: get("CfgTRES"),
        tres_used: get("AllocTRES"),
        // Cores reserved for the system are not available to jobs.
        cpus: count("CPUEfctv").or_else(|| count("CPUTot")),
        cpus_used: count("CPUAlloc"),
        memory: memory("RealMemory"),
        memory_used: memory("AllocMem"),
        features: list("ActiveFeatures").or_else(|| list("AvailableFeatures")).or_else(|| list("Features")),
        partitions: list("Partitions").unwrap_or_default(),
        ..NodeFacts::default()
    }
}

/// Returns the invalid counts and amounts of a record.
fn unreadable(fields: &BTreeMap<String, String>) -> Vec<(&'static str, &str)> {
    let keys = ["CPUEfctv", "CPUTot", "CPUAlloc", "RealMemory", "AllocMem"];
    let text = |key| Some((key, value(fields.get(key)?)?));
    keys.into_iter().filter_map(text).filter(|(_, text)| amount::memory(text).is_none()).collect()
}

/// Returns a reason without its author and time, as sinfo prints it.
fn without_stamp(reason: &str) -> &str {
    match reason.rsplit_once('[') {
        Some((text, stamp)) if stamp.strip_suffix(']').is_some_and(is_stamp) => text.trim_end(),
        _ => reason,
    }
}
