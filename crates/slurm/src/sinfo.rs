//! The cluster from `sinfo`, in one call regardless of its size.

use std::collections::BTreeMap;

use crate::record::{excerpt, format, one_line, partition, records, unreadable, value};
use crate::stock::stocks;
use crate::{CommandLine, Gres, ParseError, amount};
use hsched_model::hostlist::{self, natural_order};
use hsched_model::{Cluster, Node, NodeName, NodeState, Partition, Usage};

/// The requested fields; Slurm 22.05 and later have them all.
///
/// `StateComplete` lists all flags, whereas the other states show only one; 20.11 leaves it empty, so
/// `StateLong` follows it in the same value. `features_act` are a node's active features; `Features` would
/// add those that a reboot could activate. `Partition` marks the default with a `*`. The reason comes last
/// because it is free text.
pub(super) const FIELDS: [&str; 11] = [
    "NodeList",
    "Partition",
    "Time",
    "StateComplete:/,StateLong",
    "Gres",
    "GresUsed",
    "CPUsState",
    "Memory",
    "AllocMem",
    "features_act",
    "Reason",
];

/// Returns the complete state, or the long one if the complete one is empty.
fn either(states: &str) -> &str {
    match states.split_once('/') {
        Some((complete, long)) if complete.trim().is_empty() => long,
        Some((complete, _)) => complete,
        None => states,
    }
}

/// Returns the command line that prints every node once per partition.
pub fn command() -> CommandLine {
    CommandLine::new("sinfo", ["-h", "-N", "-O", &format(&FIELDS)])
}

/// Returns the cluster, and notes on guessed or unreadable values.
///
/// Nodes are in the natural order of their names, partitions with the default first and then by name, because
/// the order in sinfo's output varies between calls.
///
/// # Errors
/// If no record can be read although the output is not empty.
pub fn parse(text: &str) -> Result<(Cluster, Vec<String>), ParseError> {
    let mut reading = SinfoReading::default();
    for record in records(text) {
        match <[&str; FIELDS.len()]>::try_from(record) {
            Ok(fields) => reading.line(fields),
            Err(record) => reading.note_unread(&record.join("|")),
        }
    }
    if reading.nodes.is_empty() && !text.trim().is_empty() {
        return Err(unreadable("sinfo", text));
    }
    let mut nodes: Vec<Node> = reading.nodes.into_values().collect();
    nodes.sort_by(|a, b| natural_order(a.name.as_str(), b.name.as_str()));
    let mut partitions = reading.partitions;
    partitions.sort_by(|a, b| b.default.cmp(&a.default).then_with(|| natural_order(&a.name, &b.name)));
    let cluster = Cluster { nodes, partitions, ..Cluster::default() };
    Ok((cluster, reading.notes))
}

/// The data of the lines read so far.
#[derive(Default)]
struct SinfoReading {
    nodes: BTreeMap<NodeName, Node>,
    partitions: Vec<Partition>,
    notes: Vec<String>,
}

impl SinfoReading {
    fn line(&mut self, fields: [&str; FIELDS.len()]) {
        let [names, partition, time, ..] = fields;
        let Ok(names) = hostlist::expand(names) else {
            return self.note_unread(&fields.join("|"));
        };
        let partition = self.partition(partition, time);
        for name in names {
            let Ok(name) = NodeName::new(&name) else {
                self.note_unread(&fields.join("|"));
                continue;
            };
            let notes = &mut self.notes;
            let node = self.nodes.entry(name.clone()).or_insert_with(|| node(name, fields, notes));
            node.partitions.extend(partition.clone());
        }
    }

    /// Records the partition and returns its name.
    fn partition(&mut self, printed: &str, time: &str) -> Option<String> {
        let (name, default) = partition(printed)?;
        if !self.partitions.iter().any(|partition| partition.name == name) {
            let max_time = amount::duration(time);
            if max_time.is_none() && !amount::is_unlimited(time) && value(time).is_some() {
                let time = excerpt(time);
                self.notes.push(format!("partition {name}: its time limit {time:?} could not be read"));
            }
            self.partitions.push(Partition { name: name.to_owned(), default, max_time });
        }
        Some(name.to_owned())
    }

    fn note_unread(&mut self, line: &str) {
        self.notes.push(format!("cannot parse a line of sinfo output: {:?}", excerpt(line)));
    }
}

fn node(name: NodeName, fields: [&str; FIELDS.len()], notes: &mut Vec<String>) -> Node {
    let [_, _, _, state, gres, used, cpus, memory, used_memory, features, reason] = fields;
    let Gres { gpus, other } = Gres::parse(gres);
    let (stocks, unclear) = stocks(gpus, Gres::parse(used).gpus);
    notes.extend(unclear.iter().map(|note| format!("{name}: {note}")));
    for (what, text, known) in
        [("CPUs", cpus, cpu_usage(cpus)), ("memory", memory, usage(memory, used_memory))]
    {
        if known.is_none() && value(text).is_some() {
            notes.push(format!("{name}: its {what} {:?} could not be read", excerpt(text)));
        }
    }
    Node {
        state: NodeState::parse(&one_line(either(state))),
        reason: value(reason).map(one_line),
        gpus: stocks,
        other_gres: other.iter().map(|part| one_line(part)).collect(),
        cpus: cpu_usage(cpus),
        memory: usage(memory, used_memory),
        features: value(features).into_iter().flat_map(|all| all.split(',')).map(one_line).collect(),
        ..Node::new(name)
    }
}

/// Parses the CPUs of `allocated/idle/other/total`.
pub(crate) fn cpu_usage(text: &str) -> Option<Usage> {
    let counts = text.trim().split('/').map(amount::count).collect::<Option<Vec<_>>>()?;
    match counts.as_slice() {
        &[used, _, _, total] => Some(Usage { total, used }),
        _ => None,
    }
}

/// Returns memory in bytes from two amounts in MiB; an unknown used amount counts as 0.
pub(crate) fn usage(total: &str, used: &str) -> Option<Usage> {
    // A plus sign marks the minimum over several nodes in one line.
    let bytes = |text: &str| amount::memory(text.trim().trim_end_matches('+')).map(|bytes| bytes.0);
    Some(Usage { total: bytes(total)?, used: bytes(used).unwrap_or(0) })
}

#[cfg(test)]
pub(crate) mod tests;
