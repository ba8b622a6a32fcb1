//! What a saved text says of each node, gathered from all its places, and the cluster made of it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;

use super::error::SavedError;
use crate::model::hostlist::{self, natural_order};
use crate::model::{Bytes, Cluster, GpuStock, Node, NodeName, NodeState, Partition, Usage};
use crate::slurm::notes::Notes;
use crate::slurm::record::{excerpt, one_line, partition, value};
use crate::slurm::stock::stocks;
use crate::slurm::{Gres, Tres, amount};

/// Most nodes of a cluster: a hostlist writes many in a few characters.
const NODE_LIMIT: usize = 100_000;
/// Most times that nodes are named: one by one, each in all its partitions.
const NAMED_LIMIT: usize = 10_000_000;
/// Most GPUs of a cluster; more are no count but a fault.
const GPU_LIMIT: u64 = 1_000_000;

/// What one place says of a node; `None` where it says nothing.
#[derive(Clone, Debug, Default)]
pub(super) struct Facts {
    pub state: Option<String>,
    pub reason: Option<String>,
    /// The node's GRES and what of it is in use.
    pub gres: Option<String>,
    pub gres_used: Option<String>,
    /// The node's TRES and what of them is in use.
    pub tres: Option<String>,
    pub tres_used: Option<String>,
    pub cpus: Option<u64>,
    pub cpus_used: Option<u64>,
    pub memory: Option<Bytes>,
    pub memory_used: Option<Bytes>,
    pub features: Option<BTreeSet<String>>,
    pub partitions: BTreeSet<String>,
}

/// All that was said so far.
#[derive(Default)]
pub(super) struct Gathering {
    pub notes: Notes,
    nodes: BTreeMap<NodeName, Facts>,
    partitions: BTreeMap<String, Limits>,
    /// How many of the nodes have no name in the text.
    unnamed: u64,
    /// How often nodes were named.
    named: usize,
    too_many: bool,
}

/// What is known of a partition.
#[derive(Default)]
struct Limits {
    default: bool,
    /// The time limit as printed.
    time: Option<String>,
}

impl Gathering {
    /// Adds what `place` says of the nodes that a hostlist names, and returns their names.
    ///
    /// What came first stays. Names that cannot be read become notes.
    pub(super) fn add(&mut self, names: &str, place: &str, facts: &Facts) -> Vec<NodeName> {
        let unread = |error: &dyn Display| format!("{place} was not read: {error}");
        let names = match hostlist::expand(names) {
            _ if self.too_many => return Vec::new(),
            Ok(names) => names,
            Err(error) => {
                self.notes.say(unread(&error));
                return Vec::new();
            }
        };
        self.named += names.len();
        // Most are known already where a line names many and is one of many.
        let grows = names.len() <= NODE_LIMIT && self.nodes.len() <= NODE_LIMIT;
        self.too_many = !grows || self.named > NAMED_LIMIT;
        if self.too_many {
            return Vec::new();
        }
        let mut added = Vec::new();
        for name in &names {
            match NodeName::new(name) {
                Ok(name) => {
                    self.nodes.entry(name.clone()).or_default().fill(facts);
                    added.push(name);
                }
                Err(error) => self.notes.say(unread(&error)),
            }
        }
        added
    }

    /// Adds what is said of that many nodes without names, and returns the names that they get here.
    pub(super) fn add_unnamed(&mut self, count: u64, facts: &Facts) -> Vec<NodeName> {
        if count == 0 {
            return Vec::new();
        }
        let (first, last) = (self.unnamed.saturating_add(1), self.unnamed.saturating_add(count));
        if last > NODE_LIMIT as u64 {
            self.too_many = true;
            return Vec::new();
        }
        self.unnamed = last;
        self.add(&format!("unnamed[{first}-{last}]"), "a line without names", facts)
    }

    /// Returns whether no node was added.
    pub(super) fn is_empty(&self) -> bool {
        self.nodes.is_empty()
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
    pub(super) fn partition(&mut self, printed: &str, time: Option<&str>) -> Option<String> {
        let Some((name, is_default)) = partition(printed) else {
            if let Some(printed) = value(printed) {
                self.notes.say(format!("{:?} is no partition's name", excerpt(printed)));
            }
            return None;
        };
        let limits = self.partitions.entry(name.to_owned()).or_default();
        limits.default |= is_default;
        if limits.time.is_none() {
            limits.time = time.and_then(value).map(str::to_owned);
        }
        Some(name.to_owned())
    }

    /// Returns the cluster and the notes; `what` names the kind of text.
    ///
    /// # Errors
    /// When there is no node, or more than can be meant.
    pub(super) fn finish(mut self, what: &'static str) -> Result<(Cluster, Vec<String>), SavedError> {
        if self.too_many || self.nodes.len() > NODE_LIMIT {
            return Err(SavedError::TooMany { limit: NODE_LIMIT as u64, things: "nodes" });
        }
        let mut all: Vec<(NodeName, Facts)> = std::mem::take(&mut self.nodes).into_iter().collect();
        all.sort_by(|(a, _), (b, _)| natural_order(a.as_str(), b.as_str()));
        let nodes: Vec<Node> =
            all.into_iter().map(|(name, facts)| facts.node(name, &mut self.notes)).collect();
        let totals = nodes.iter().flat_map(|node| &node.gpus).map(|stock| u64::from(stock.total));
        if totals.sum::<u64>() > GPU_LIMIT {
            return Err(SavedError::TooMany { limit: GPU_LIMIT, things: "GPUs" });
        }
        let partitions = self.read_partitions();
        let notes = self.notes.into_lines();
        if nodes.is_empty() {
            return Err(SavedError::NoNode { what, notes });
        }
        Ok((Cluster { nodes, partitions, ..Cluster::default() }, notes))
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
                        .say(format!("partition {name}: its time limit is not said; counted as unlimited"));
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

impl Facts {
    /// Takes over what is not known yet.
    fn fill(&mut self, other: &Self) {
        let text = |own: &mut Option<String>, other: &Option<String>| {
            if own.is_none() {
                own.clone_from(other);
            }
        };
        text(&mut self.state, &other.state);
        text(&mut self.reason, &other.reason);
        text(&mut self.gres, &other.gres);
        text(&mut self.gres_used, &other.gres_used);
        text(&mut self.tres, &other.tres);
        text(&mut self.tres_used, &other.tres_used);
        self.cpus = self.cpus.or(other.cpus);
        self.cpus_used = self.cpus_used.or(other.cpus_used);
        self.memory = self.memory.or(other.memory);
        self.memory_used = self.memory_used.or(other.memory_used);
        if self.features.is_none() {
            self.features.clone_from(&other.features);
        }
        self.partitions.extend(other.partitions.iter().cloned());
    }

    fn node(self, name: NodeName, notes: &mut Notes) -> Node {
        let (gpus, other_gres) = self.gpus(&name, notes);
        if self.state.is_none() {
            notes.of(&name, "no state is said; counted as idle".to_owned());
        }
        let features = self.features.unwrap_or_default();
        let memory = |bytes: Option<Bytes>| bytes.map_or(0, |bytes| bytes.0);
        Node {
            state: self
                .state
                .as_deref()
                .map_or_else(NodeState::idle, |state| NodeState::parse(&one_line(state))),
            reason: self.reason.as_deref().and_then(value).map(one_line),
            gpus,
            other_gres,
            cpus: self.cpus.map(|total| Usage { total, used: self.cpus_used.unwrap_or(0) }),
            memory: self.memory.map(|total| Usage { total: total.0, used: memory(self.memory_used) }),
            features,
            partitions: self.partitions,
            ..Node::new(name)
        }
    }

    /// Returns the GPUs with their use, and other resources.
    fn gpus(&self, name: &NodeName, notes: &mut Notes) -> (Vec<GpuStock>, Vec<String>) {
        let gres = |text: &Option<String>| Gres::parse(text.as_deref().unwrap_or_default());
        let tres = |text: &Option<String>| Tres::parse(text.as_deref().unwrap_or_default()).gres;
        let Gres { mut gpus, other } = gres(&self.gres);
        let configured = tres(&self.tres);
        if gpus.iter().all(|(_, count)| *count == 0) && configured.gpu_total() > 0 {
            notes.of(name, "no GPU in its GRES; counted as its TRES say".to_owned());
            gpus.clone_from(&configured.gpus);
        }
        let held = gres(&self.gres_used);
        if self.gres.is_none() && gpus.is_empty() && held.gpu_total() > 0 {
            notes.of(name, "how many GPUs it has is not said; counted are those in use".to_owned());
            gpus.clone_from(&held.gpus);
        }
        let tracked = tres(&self.tres_used);
        // TRES name GPUs only where the site tracks them; then silence about their use is a zero.
        let used = if !held.gpus.is_empty() {
            Some(held.gpus)
        } else if tracked.gpu_total() > 0 || (configured.gpu_total() > 0 && self.tres_used.is_some()) {
            Some(tracked.gpus)
        } else {
            None
        };
        if gpus.iter().any(|(_, count)| *count > 0) && !self.is_without_work() {
            self.note_unsaid(name, used.is_some(), notes);
        }
        let (stocks, unclear) = stocks(gpus, used.unwrap_or_default());
        for note in unclear {
            notes.of(name, note);
        }
        (stocks, other.iter().map(|part| one_line(part)).collect())
    }

    /// Notes what a node with work does not say of its use.
    fn note_unsaid(&self, name: &NodeName, says_gpus: bool, notes: &mut Notes) {
        let cpus = self.cpus.is_none() || self.cpus_used.is_some();
        let memory = self.memory.is_none() || self.memory_used.is_some();
        let unsaid: Vec<&str> = [("GPUs", says_gpus), ("CPUs", cpus), ("memory", memory)]
            .into_iter()
            .filter_map(|(what, said)| (!said).then_some(what))
            .collect();
        if !unsaid.is_empty() {
            let note = format!("the use of its {} is not said; all count as free", unsaid.join(", "));
            notes.of(name, note);
        }
    }

    /// Returns whether the node has surely no job.
    fn is_without_work(&self) -> bool {
        let idle = |state: &String| state.to_ascii_lowercase().starts_with("idle");
        self.cpus_used == Some(0) || self.state.as_ref().is_some_and(idle)
    }
}
