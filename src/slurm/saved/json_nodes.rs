//! Nodes in Slurm's JSON: `sinfo --json` of all versions, `scontrol show nodes --json`, slurmrestd.

use serde_json::{Map, Value};

use super::error::SavedError;
use super::gather::{Facts, Gathering};
use super::json::{number, set, text, words};
use crate::model::{Bytes, Cluster};
use crate::slurm::record::excerpt;

/// Returns the cluster of a value that holds nodes one by one (`nodes`) or in groups (`sinfo`).
///
/// # Errors
/// When no node can be read.
pub(super) fn parse(value: &Value) -> Result<(Cluster, Vec<String>), SavedError> {
    let mut gathering = Gathering::default();
    let of = |key: &str| value.get(key).and_then(Value::as_array);
    for (index, group) in of("sinfo").into_iter().flatten().enumerate() {
        read_group(group, &format!("sinfo[{index}]"), &mut gathering);
    }
    for (index, node) in of("nodes").or(value.as_array()).into_iter().flatten().enumerate() {
        read_node(node, &format!("nodes[{index}]"), &mut gathering);
    }
    for key in ["errors", "warnings"] {
        for said in of(key).into_iter().flatten() {
            gathering.notes.say(format!("Slurm's {key}: {}", excerpt(&said.to_string())));
        }
    }
    gathering.finish("Slurm's nodes as JSON")
}

fn read_node(node: &Value, place: &str, gathering: &mut Gathering) {
    let name = ["name", "hostname"].iter().find_map(|key| text(&node[*key]).filter(|name| !name.is_empty()));
    let (Some(name), true) = (name, node.is_object()) else {
        return unread(place, node, gathering);
    };
    let place = format!("{place} ({name:?})");
    if gathering.knows(&name) {
        return gathering.notes.say(format!("{place} was not read: the node is named above"));
    }
    let get = |key: &str| text(&node[key]);
    let count = |key: &str| number(&node[key]);
    let facts = Facts {
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
    };
    if facts.state.is_none() && facts.cpus.is_none() && facts.gres.is_none() {
        return unread(&place, node, gathering);
    }
    gathering.add(&name, &place, &facts);
}

/// Reads an entry of `sinfo --json` since 23.11, which stands for all nodes that look the same.
fn read_group(group: &Value, place: &str, gathering: &mut Gathering) {
    let lists = ["nodes", "hostnames"].map(|key| words(&group["nodes"][key]).unwrap_or_default());
    let Some(names) = lists.into_iter().find(|names| !names.is_empty()) else {
        // A partition without nodes has an entry too.
        if number(&group["nodes"]["total"]) != Some(0) {
            unread(place, group, gathering);
        }
        return;
    };
    let count = names.len() as u64;
    let (cpus, memory) = (&group["cpus"], &group["memory"]);
    let used = number(&cpus["allocated"]);
    let facts = Facts {
        state: state(&group["node"]),
        reason: text(&group["reason"]["description"]),
        gres: text(&group["gres"]["total"]),
        gres_used: text(&group["gres"]["used"]),
        cpus: number(&cpus["minimum"]),
        // The group's sum; what each node has of it is not said.
        cpus_used: used.map(|used| used.div_ceil(count)),
        memory: number(&memory["minimum"]).map(mebibytes),
        memory_used: number(&memory["allocated"]).map(mebibytes),
        features: set(&group["features"]["active"]),
        partitions: partition(&group["partition"], gathering).into_iter().collect(),
        ..Facts::default()
    };
    let certain = count == 1 || used == Some(0) || used == number(&cpus["total"]);
    if !certain {
        let note = "several nodes share an entry: their CPUs in use are taken as evenly spread, rounded up";
        gathering.notes.say(note.to_owned());
    }
    if memory["minimum"] != memory["maximum"] || cpus["minimum"] != cpus["maximum"] {
        let note = "several nodes share an entry although they differ in CPUs or memory: the least counts";
        gathering.notes.say(note.to_owned());
    }
    for name in names {
        gathering.add(&name, &format!("{place} ({name:?})"), &facts);
    }
}

/// Remembers the partition of a group and returns its name.
fn partition(partition: &Value, gathering: &mut Gathering) -> Option<String> {
    let name = text(&partition["name"])?;
    let time = &partition["maximums"]["time"];
    let infinite = time["infinite"] == Value::Bool(true);
    let minutes =
        number(time).map(|minutes| format!("{}-{}:{}", minutes / 1440, minutes / 60 % 24, minutes % 60));
    let limit = if infinite { Some("infinite".to_owned()) } else { minutes };
    gathering.partition(&name, limit.as_deref())
}

/// Returns the state: a list, or a text beside a list of flags.
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

fn unread(place: &str, value: &Value, gathering: &mut Gathering) {
    gathering.notes.say(format!("{place} was not read: {}", excerpt(&value.to_string())));
}

/// Returns whether an entry of a list `nodes` is one of Slurm's, and not of a cluster file in JSON.
pub(super) fn is_slurms(node: &Map<String, Value>) -> bool {
    const KEYS: [&str; 6] = ["gres", "real_memory", "tres", "architecture", "hostname", "alloc_cpus"];
    KEYS.iter().any(|key| node.contains_key(*key))
}
