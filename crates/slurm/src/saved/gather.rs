//! What a saved text says of each node, gathered from all its places, and the cluster made of it.

use std::collections::BTreeMap;
use std::fmt::Display;

use super::error::{ASK, SavedError};
use super::facts::NodeFacts;
use crate::amount;
use crate::notes::Notes;
use crate::record::{excerpt, partition, value};
use hsched_model::hostlist::{self, natural_order};
use hsched_model::{Cluster, Node, NodeName, Partition};

/// What tables are called: they tell themselves whether they have a column of GPUs.
pub(super) const TABLE: &str = "a table of sinfo";

/// Most nodes of a cluster: a hostlist writes many in a few characters.
const NODE_LIMIT: usize = 100_000;
/// Most times that nodes are named: one by one, each in all its partitions.
const NAMED_LIMIT: usize = 10_000_000;
/// Most GPUs of a cluster; more are no count but a fault.
const GPU_LIMIT: u64 = 1_000_000;
/// Most lines that a note repeats.
const LINES_SHOWN: usize = 3;

/// All that was said so far.
#[derive(Default)]
pub(super) struct NodeStatements {
    pub notes: Notes,
    /// What shows nodes.
    what: Option<&'static str>,
    nodes: BTreeMap<NodeName, NodeFacts>,
    partitions: BTreeMap<String, Limits>,
    /// Lines of which nothing was read, by number, and why where that helps.
    left_out: BTreeMap<usize, (String, String)>,
    /// Why what was read must not be believed.
    fault: Option<SavedError>,
    cluster: Option<String>,
    /// How many of the nodes have no name in the text.
    unnamed: u64,
    /// How often nodes were named.
    named: usize,
}

/// Facts about a partition.
#[derive(Default)]
struct Limits {
    default: bool,
    /// The time limit as printed.
    time: Option<String>,
    /// Why no job can start there: its state, where that is not `up`.
    closed: Option<String>,
}

impl NodeStatements {
    /// Adds what `place` says of the nodes that a hostlist names, and returns their names.
    ///
    /// Names that cannot be read are an error for people.
    pub(super) fn add(&mut self, names: &str, facts: &NodeFacts) -> Result<Vec<NodeName>, String> {
        let text = |error: &dyn Display| error.to_string();
        let names = hostlist::expand(names).map_err(|error| text(&error))?;
        let names: Vec<NodeName> = names
            .iter()
            .map(|name| NodeName::new(name))
            .collect::<Result<_, _>>()
            .map_err(|error| text(&error))?;
        self.named += names.len();
        // Most are known already where a line names many and is one of many.
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

    /// Adds what is said of that many nodes without names, and returns the names that they get here.
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

    /// Remembers the name of the cluster of which is spoken: there must be one alone.
    pub(super) fn cluster(&mut self, name: &str) {
        let first = self.cluster.get_or_insert_with(|| excerpt(name)).clone();
        if first != excerpt(name) {
            self.fail(SavedError::Clusters { clusters: format!("{first}, {}", excerpt(name)) });
        }
    }

    /// Remembers why what is read must not be believed; the first reason stays.
    pub(super) fn fail(&mut self, fault: SavedError) {
        self.fault.get_or_insert(fault);
    }

    /// Remembers a line of which nothing was read.
    pub(super) fn leave_out(&mut self, number: usize, line: &str, why: &str) {
        self.left_out.insert(number, (excerpt(line), why.to_owned()));
    }

    /// Remembers that the text has records or tables of nodes, of this kind.
    pub(super) fn found(&mut self, what: &'static str) {
        self.what.get_or_insert(what);
    }

    /// Returns whether nothing was found that could be nodes.
    pub(super) fn is_empty(&self) -> bool {
        self.what.is_none()
    }

    /// Returns whether a node with GPUs was added.
    pub(super) fn has_gpus(&self) -> bool {
        let says = |text: &Option<String>| text.as_ref().is_some_and(|text| text.contains("gpu"));
        self.nodes.values().any(|facts| says(&facts.gres) || says(&facts.tres))
    }

    /// Returns whether a node of that name was added.
    pub(super) fn knows(&self, name: &str) -> bool {
        NodeName::new(name).is_ok_and(|name| self.nodes.contains_key(&name))
    }

    /// Returns whether all nodes that a hostlist names were added.
    pub(super) fn knows_all(&self, names: &str) -> bool {
        hostlist::expand(names).is_ok_and(|names| names.iter().all(|name| self.knows(name)))
    }

    /// Remembers a partition as printed (`gpu*` is the default), and returns its name.
    ///
    /// `state` is the partition's: `up`, or why no job starts there.
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
    /// When there is no node, or what was read must not be believed.
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

    /// Says how many lines were left out, and which: first those that may have been rows.
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

    /// Says that nothing tells of GPUs, unless every node says that it has none.
    fn note_without_gres(&mut self) {
        let is_silent = |facts: &NodeFacts| facts.gres.is_none() && facts.tres.is_none();
        if !self.nodes.is_empty() && self.what != Some(TABLE) && self.nodes.values().all(is_silent) {
            self.notes.say(format!("no GRES: nodes count as having no GPUs; {ASK} prints them"));
        }
    }

    /// Takes the nodes down of which all partitions are closed: no job starts there.
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

    /// Returns the partitions of which more than the name is known, the default first.
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
