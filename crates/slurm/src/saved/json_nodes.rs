//! Nodes in Slurm's JSON: `sinfo --json` of all versions, `scontrol show nodes --json`, slurmrestd.

use serde_json::Value;

use super::facts::NodeFacts;
use super::gather::NodeStatements;
use super::json::{number, set, text, words};
use crate::record::excerpt;
use hsched_model::Bytes;

/// Adds the data of a value with single nodes (`nodes`) or groups (`sinfo`).
pub(super) fn read(value: &Value, gathering: &mut NodeStatements) {
    gathering.found("Slurm's nodes as JSON");
    let of = |key: &str| value.get(key).and_then(Value::as_array);
    for (index, group) in of("sinfo").into_iter().flatten().enumerate() {
        read_group(group, &format!("sinfo[{index}]"), gathering);
    }
    for (index, node) in of("nodes").or(value.as_array()).into_iter().flatten().enumerate() {
        read_node(node, &format!("nodes[{index}]"), gathering);
    }
    for key in ["errors", "warnings"] {
        for said in of(key).into_iter().flatten() {
            gathering.notes.say(format!("Slurm's {key}: {}", excerpt(&said.to_string())));
        }
    }
}

fn read_node(node: &Value, place: &str, gathering: &mut NodeStatements) {
    let name = ["name", "hostname"].iter().find_map(|key| text(&node[*key]).filter(|name| !name.is_empty()));
    let (Some(name), true) = (name, node.is_object()) else {
        return unread(place, node, "it has no name", gathering);
    };
    let place = format!("{place} ({name:?})");
    if gathering.knows(&name) {
        return gathering.notes.say(format!("{place} was not read: the node appears above"));
    }
    let get = |key: &str| text(&node[key]);
    let count = |key: &str| number(&node[key]);
    let facts = NodeFacts {
        state: state(node),
        reason: get("reason"),
        gres: get("gres"),
        gres_used: get("gres_used"),
        tres: get("tres"),
        tres_used: node.get("tres_used").map(|used| text(used).unwrap_or_default()),
        cpus: count("effective_cpus").filter(|&cpus| cpus > 0).or_else(|| count("cpus")),
        cpus_used: count("alloc_cpus"),
        memory: count("real_memory").map(mebibytes),
        memory_used: count("alloc_memory").map(mebibytes),
        features: set(&node["active_features"]).or_else(|| set(&node["features"])),
        partitions: set(&node["partitions"]).unwrap_or_default(),
        ..NodeFacts::default()
    };
    if facts.state.is_none() && facts.cpus.is_none() && facts.gres.is_none() {
        return unread(&place, node, "it has no state, cpus or gres", gathering);
    }
    if let Err(why) = gathering.add(&name, &facts) {
        gathering.notes.say(format!("{place} was not read: {why}"));
    }
}

/// Reads an entry of `sinfo --json` since 23.11, which represents all nodes with equal data.
fn read_group(group: &Value, place: &str, gathering: &mut NodeStatements) {
    let lists = ["nodes", "hostnames"].map(|key| words(&group["nodes"][key]).unwrap_or_default());
    let Some(names) = lists.into_iter().find(|names| !names.is_empty()) else {
        // Partitions without nodes also have an entry.
        if number(&group["nodes"]["total"]) != Some(0) {
            unread(place, group, "it names no nodes", gathering);
        }
        return;
    };
    let count = names.len() as u64;
    let (cpus, memory) = (&group["cpus"], &group["memory"]);
    let used = number(&cpus["allocated"]);
    let facts = NodeFacts {
        state: state(&group["node"]),
        reason: text(&group["reason"]["description"]),
        gres: text(&group["gres"]["total"]),
        gres_used: text(&group["gres"]["used"]),
        cpus: number(&cpus["minimum"]),
        // The number is the group's sum; the share of each node is unknown.
        cpus_used: used.map(|used| used.div_ceil(count)),
        memory: number(&memory["minimum"]).map(mebibytes),
        memory_used: number(&memory["allocated"]).map(mebibytes),
        features: set(&group["features"]["active"]),
        partitions: partition(&group["partition"], gathering).into_iter().collect(),
        ..NodeFacts::default()
    };
    let certain = count == 1 || used == Some(0) || used == number(&cpus["total"]);
    if !certain {
        let note = "several nodes share an entry: hsched divides their CPUs in use evenly and rounds up";
        gathering.notes.say(note.to_owned());
    }
    if memory["minimum"] != memory["maximum"] || cpus["minimum"] != cpus["maximum"] {
        let note = "several nodes with different CPUs or memory share an entry: hsched uses the smallest \
            values";
        gathering.notes.say(note.to_owned());
    }
    for name in names {
        if let Err(why) = gathering.add(&name, &facts) {
            gathering.notes.say(format!("{place} ({name:?}) was not read: {why}"));
        }
    }
}

/// Records the partition of a group and returns its name.
fn partition(partition: &Value, gathering: &mut NodeStatements) -> Option<String> {
    let name = text(&partition["name"])?;
    let time = &partition["maximums"]["time"];
    let infinite = time["infinite"] == Value::Bool(true);
    let minutes =
        number(time).map(|minutes| format!("{}-{}:{}", minutes / 1440, minutes / 60 % 24, minutes % 60));
    let limit = if infinite { Some("infinite".to_owned()) } else { minutes };
    let state = words(&partition["partition"]["state"]).map(|words| words.join("+"));
    gathering.partition(&name, limit.as_deref(), state.as_deref())
}

/// Returns a node's state, joined by `+`. In JSON, it is a list, or a text with a separate list of flags.
fn state(node: &Value) -> Option<String> {
    let mut all = match &node["state"] {
        Value::String(text) => vec![text.clone()],
        other => words(other)?,
    };
    all.extend(words(&node["state_flags"]).unwrap_or_default());
    (!all.is_empty()).then(|| all.join("+"))
}

fn mebibytes(count: u64) -> Bytes {
    Bytes(count.saturating_mul(1 << 20))
}

fn unread(place: &str, value: &Value, why: &str, gathering: &mut NodeStatements) {
    gathering.notes.say(format!("{place} was not read: {why}: {}", excerpt(&value.to_string())));
}

/// Returns whether an entry of a list `nodes`, or a single value, is a node of Slurm.
pub(super) fn is_node(value: &Value) -> bool {
    const KEYS: [&str; 7] =
        ["gres", "real_memory", "tres", "architecture", "alloc_cpus", "gres_used", "state"];
    let named = value.get("name").or(value.get("hostname")).is_some_and(Value::is_string);
    let known = KEYS.iter().any(|key| value.get(*key).is_some());
    named && known && value.get("gpus").is_none() && !is_foreign(value)
}

/// Returns whether a node has GPUs neither in Slurm's form (`gres`) nor in that of a cluster file (a map
/// `gpus`).
pub(super) fn is_foreign(node: &Value) -> bool {
    let names_gpus =
        || node.as_object().is_some_and(|node| node.keys().any(|key| key.to_lowercase().contains("gpu")));
    match node.get("gpus") {
        Some(gpus) => !gpus.is_object(),
        None => node.get("gres").is_none() && names_gpus(),
    }
}
