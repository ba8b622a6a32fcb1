//! The data in a saved text about each node, gathered from all places, and the cluster built from them.

use std::collections::BTreeMap;
use std::fmt::Display;

use super::error::{ASK, SavedError};
use super::facts::NodeFacts;
use crate::amount;
use crate::notes::Notes;
use crate::record::{excerpt, partition, value};
use hsched_model::hostlist::{self, natural_order};
use hsched_model::{Cluster, Node, NodeName, Partition};

/// Name of the tables of `sinfo`; their reader adds its own note if there is no GPU column.
pub(super) const TABLE: &str = "a table of sinfo";

/// Maximum number of nodes in a cluster, because a short hostlist can expand to very many.
const NODE_LIMIT: usize = 100_000;
/// Maximum number of node mentions: each node in each of its partitions.
const NAMED_LIMIT: usize = 10_000_000;
/// Maximum number of GPUs in a cluster; a larger count is an error.
const GPU_LIMIT: u64 = 1_000_000;
/// Maximum number of lines that a note quotes.
const LINES_SHOWN: usize = 3;

/// All data gathered so far.
#[derive(Default)]
pub(super) struct NodeStatements {
    pub notes: Notes,
    /// The kind of text that contains nodes.
    what: Option<&'static str>,
    nodes: BTreeMap<NodeName, NodeFacts>,
    partitions: BTreeMap<String, Limits>,
    /// Ignored lines by number, with the reason if it is informative.
    left_out: BTreeMap<usize, (String, String)>,
    /// Why the data cannot be trusted.
    fault: Option<SavedError>,
    cluster: Option<String>,
    /// Number of nodes without a name in the text.
    unnamed: u64,
    /// Number of node mentions.
    named: usize,
}

/// Properties of a partition.
#[derive(Default)]
struct Limits {
    default: bool,
    /// The time limit as printed.
    time: Option<String>,
    /// Why no job can start there: its state, unless it is `up`.
    closed: Option<String>,
}

impl NodeStatements {
    /// Adds data about the nodes of a hostlist, and returns their names.
    ///
    /// The error is a message if the names cannot be parsed.
    pub(super) fn add(&mut self, names: &str, facts: &NodeFacts) -> Result<Vec<NodeName>, String> {
        let text = |error: &dyn Display| error.to_string();
        let names = hostlist::expand(names).map_err(|error| text(&error))?;
        let names: Vec<NodeName> = names
            .iter()
            .map(|name| NodeName::new(name))
            .collect::<Result<_, _>>()
            .map_err(|error| text(&error))?;
        self.named += names.len();
        // Many lines may name the same nodes, so the number of mentions has its own limit.
        let grows = names.len() <= NODE_LIMIT && self.nodes.len() <= NODE_LIMIT;
        if !grows || self.named > NAMED_LIMIT {
            self.fail(SavedError::TooMany { limit: NODE_LIMIT as u64, things: "nodes" });
            return Ok(Vec::new());
        }
        for name in &names {
            for note in self.nodes.entry(name.clone()).or_default().fill(facts) {
                self.notes.of(name, note.to_owned());
            }
        }
        Ok(names)
    }

    /// Adds data about `count` nodes without names, and returns their generated names.
    pub(super) fn add_unnamed(&mut self, count: u64, facts: &NodeFacts) -> Vec<NodeName> {
        let (first, last) = (self.unnamed.saturating_add(1), self.unnamed.saturating_add(count));
        if last > NODE_LIMIT as u64 {
            self.fail(SavedError::TooMany { limit: NODE_LIMIT as u64, things: "nodes" });
        }
        if count == 0 || self.fault.is_some() {
            return Vec::new();
        }
        self.unnamed = last;
        self.add(&format!("unnamed[{first}-{last}]"), facts).unwrap_or_default()
    }

    /// Records the name of the cluster; a text may be about only one.
    pub(super) fn cluster(&mut self, name: &str) {
        let first = self.cluster.get_or_insert_with(|| excerpt(name)).clone();
        if first != excerpt(name) {
            self.fail(SavedError::Clusters { clusters: format!("{first}, {}", excerpt(name)) });
        }
    }

    /// Records why the data cannot be trusted; the first reason is kept.
    pub(super) fn fail(&mut self, fault: SavedError) {
        self.fault.get_or_insert(fault);
    }

    /// Records a line that could not be used.
    pub(super) fn leave_out(&mut self, number: usize, line: &str, why: &str) {
        self.left_out.insert(number, (excerpt(line), why.to_owned()));
    }

    /// Records that the text has node records or tables of this kind.
    pub(super) fn found(&mut self, what: &'static str) {
        self.what.get_or_insert(what);
    }

    /// Returns whether the text contained no possible nodes.
    pub(super) fn is_empty(&self) -> bool {
        self.what.is_none()
    }

    /// Returns whether the data of an added node mention GPUs.
    pub(super) fn has_gpus(&self) -> bool {
        let says = |text: &Option<String>| text.as_ref().is_some_and(|text| text.contains("gpu"));
        self.nodes.values().any(|facts| says(&facts.gres) || says(&facts.tres))
    }

    /// Returns whether a node with that name was added.
    pub(super) fn knows(&self, name: &str) -> bool {
        NodeName::new(name).is_ok_and(|name| self.nodes.contains_key(&name))
    }

    /// Returns whether all nodes of a hostlist were added.
    pub(super) fn knows_all(&self, names: &str) -> bool {
        hostlist::expand(names).is_ok_and(|names| names.iter().all(|name| self.knows(name)))
    }

    /// Records a printed partition (`gpu*` is the default), and returns its name.
    ///
    /// `state` is `up`, or why no job starts in the partition.
    pub(super) fn partition(
        &mut self,
        printed: &str,
        time: Option<&str>,
        state: Option<&str>,
    ) -> Option<String> {
        let Some((name, is_default)) = partition(printed) else {
            if let Some(printed) = value(printed) {
                self.notes.say(format!("{:?} is not a partition name", excerpt(printed)));
            }
            return None;
        };
        let limits = self.partitions.entry(name.to_owned()).or_default();
        limits.default |= is_default;
        if limits.time.is_none() {
            limits.time = time.and_then(value).map(str::to_owned);
        }
        let closed = state.and_then(value).filter(|state| !state.eq_ignore_ascii_case("up"));
        limits.closed = limits.closed.take().or(closed.map(excerpt));
        Some(name.to_owned())
    }

    /// Returns the cluster and the notes.
    ///
    /// # Errors
    /// If there is no node, there are too many nodes or GPUs, or the data cannot be trusted.
    pub(super) fn finish(mut self) -> Result<(Cluster, Vec<String>), SavedError> {
        if let Some(fault) = self.fault {
            return Err(fault);
        }
        self.note_left_out();
        self.note_without_gres();
        self.close_partitions();
        let mut all: Vec<(NodeName, NodeFacts)> = std::mem::take(&mut self.nodes).into_iter().collect();
        if all.len() > NODE_LIMIT {
            return Err(SavedError::TooMany { limit: NODE_LIMIT as u64, things: "nodes" });
        }
        all.sort_by(|(a, _), (b, _)| natural_order(a.as_str(), b.as_str()));
        let used_alone = all.iter().find(|(_, facts)| facts.says_only_use());
        if let Some((name, _)) = used_alone {
            return Err(SavedError::UsedAlone { node: name.to_string() });
        }
        let nodes: Vec<Node> =
            all.into_iter().map(|(name, facts)| facts.node(name, &mut self.notes)).collect();
        let totals = nodes.iter().flat_map(|node| &node.gpus).map(|stock| u64::from(stock.total));
        if totals.sum::<u64>() > GPU_LIMIT {
            return Err(SavedError::TooMany { limit: GPU_LIMIT, things: "GPUs" });
        }
        let partitions = self.read_partitions();
        let notes = self.notes.into_lines();
        if nodes.is_empty() {
            return Err(SavedError::NoNode { what: self.what.unwrap_or("output of Slurm"), notes });
        }
        Ok((Cluster { nodes, partitions, ..Cluster::default() }, notes))
    }

    /// Adds a note with the number of ignored lines and some examples, first those that may have been rows.
    fn note_left_out(&mut self) {
        let count = self.left_out.len();
        let (rows, others): (Vec<_>, Vec<_>) =
            self.left_out.iter().partition(|(_, (_, why))| !why.is_empty());
        let shown = rows.into_iter().chain(others).take(LINES_SHOWN).map(|(number, (line, why))| {
            let why = if why.is_empty() { String::new() } else { format!(" ({why})") };
            format!("line {number} {line:?}{why}")
        });
        let shown: Vec<String> = shown.collect();
        let lines = if count == 1 { "1 line was".to_owned() } else { format!("{count} lines were") };
        let more = if count > LINES_SHOWN { ", …" } else { "" };
        if count > 0 {
            self.notes.say(format!("{lines} left out: {}{more}", shown.join(", ")));
        }
    }

    /// Adds a note if no node has GRES or TRES; the reader of tables adds its own note.
    fn note_without_gres(&mut self) {
        let is_silent = |facts: &NodeFacts| facts.gres.is_none() && facts.tres.is_none();
        if !self.nodes.is_empty() && self.what != Some(TABLE) && self.nodes.values().all(is_silent) {
            self.notes.say(format!("no GRES: nodes count as having no GPUs; {ASK} prints them"));
        }
    }

    /// Marks nodes down if all of their partitions are closed, because no job starts there.
    fn close_partitions(&mut self) {
        let closed = |name: &String| self.partitions.get(name).is_some_and(|limits| limits.closed.is_some());
        for facts in self.nodes.values_mut() {
            if !facts.partitions.is_empty() && facts.partitions.iter().all(closed) {
                facts.take_down();
            }
        }
        for (name, limits) in &self.partitions {
            if let Some(state) = &limits.closed {
                self.notes
                    .say(format!("partition {name} is {state}: nodes in no other partition count as down"));
            }
        }
    }

    /// Returns the partitions with known properties besides the name, the default first.
    fn read_partitions(&mut self) -> Vec<Partition> {
        let mut partitions = Vec::new();
        for (name, limits) in std::mem::take(&mut self.partitions) {
            let time = limits.time.as_deref();
            let max_time = time.and_then(amount::duration);
            let clear = max_time.is_some() || time.is_some_and(amount::is_unlimited);
            match time.filter(|_| !clear) {
                Some(time) => {
                    let time = excerpt(time);
                    self.notes.say(format!("partition {name}: its time limit {time:?} could not be read"));
                }
                None if limits.default && !clear => {
                    self.notes
                        .say(format!("partition {name}: no time limit is given; hsched assumes unlimited"));
                }
                None => {}
            }
            if limits.default || clear {
                partitions.push(Partition { name, default: limits.default, max_time });
            }
        }
        partitions.sort_by(|a, b| b.default.cmp(&a.default).then_with(|| natural_order(&a.name, &b.name)));
        partitions
    }
}
