//! The data in a saved text about one node, and the node built from it.

use std::collections::BTreeSet;

use crate::notes::Notes;
use crate::record::{one_line, value};
use crate::stock::stocks;
use crate::{Gres, Tres};
use hsched_model::{Availability, Bytes, GpuStock, GpuType, Node, NodeName, NodeState, Usage};

/// Data about a node, from one or more places; `None` if missing in all of them.
#[derive(Clone, Debug, Default)]
pub(super) struct NodeFacts {
    pub state: Option<String>,
    /// Whether the node belongs to a group in which some nodes are not up, without saying which ones.
    pub is_vague: bool,
    pub reason: Option<String>,
    /// The node's GRES, and those in use.
    pub gres: Option<String>,
    pub gres_used: Option<String>,
    /// Whether the text about use was cut off, so that more may be in use.
    pub is_used_cut: bool,
    /// The node's TRES, and those in use.
    pub tres: Option<String>,
    pub tres_used: Option<String>,
    pub cpus: Option<u64>,
    pub cpus_used: Option<u64>,
    pub memory: Option<Bytes>,
    pub memory_used: Option<Bytes>,
    pub features: Option<BTreeSet<String>>,
    pub partitions: BTreeSet<String>,
}

/// Returns how far a state restricts new work on a node; higher is more restrictive.
fn severity(state: &str) -> (Availability, bool) {
    (NodeState::parse(state).availability(), is_busy(state))
}

/// Returns whether a node in this state runs jobs.
fn is_busy(state: &str) -> bool {
    let state = state.to_ascii_lowercase();
    let busy = |word: &str| {
        ["alloc", "mix", "comp", "drng", "draining"].iter().any(|candidate| word.starts_with(candidate))
    };
    state.split('+').any(busy)
}

/// Returns whether a state says that jobs hold all CPUs of the node.
fn is_full(state: &str) -> bool {
    let state = state.to_ascii_lowercase();
    let mut words = state.split('+').map(|word| word.trim_end_matches(|c: char| !c.is_ascii_alphanumeric()));
    words.any(|word| matches!(word, "alloc" | "allocated"))
}

impl NodeFacts {
    /// Adds missing data from another place; returns notes on contradictions.
    ///
    /// Of different states and numbers of GPUs in use, those that leave less free win; the partitions are
    /// combined; of other data, the first win.
    pub(super) fn fill(&mut self, other: &Self) -> Vec<&'static str> {
        let mut notes = Vec::new();
        if let (Some(state), Some(said)) = (&self.state, &other.state)
            && severity(state) != severity(said)
        {
            notes.push("its lines show different states; hsched uses the less available one");
            if severity(state) < severity(said) {
                self.state = Some(said.clone());
            }
        }
        if let (Some(gres), Some(said)) = (&self.gres, &other.gres)
            && Gres::parse(gres).gpus != Gres::parse(said).gpus
        {
            notes.push("its lines show different GRES; hsched uses the first");
        }
        if let (Some(used), Some(said)) = (&self.gres_used, &other.gres_used)
            && Gres::parse(used).gpu_total() < Gres::parse(said).gpu_total()
        {
            notes.push("its lines show different numbers of GPUs in use; hsched uses the largest");
            self.gres_used = Some(said.clone());
        }
        let text = |field: &mut Option<String>, other: &Option<String>| {
            if field.is_none() {
                field.clone_from(other);
            }
        };
        text(&mut self.state, &other.state);
        text(&mut self.reason, &other.reason);
        text(&mut self.gres, &other.gres);
        text(&mut self.gres_used, &other.gres_used);
        text(&mut self.tres, &other.tres);
        text(&mut self.tres_used, &other.tres_used);
        self.is_vague |= other.is_vague;
        self.is_used_cut |= other.is_used_cut;
        self.cpus = self.cpus.or(other.cpus);
        self.cpus_used = self.cpus_used.or(other.cpus_used);
        self.memory = self.memory.or(other.memory);
        self.memory_used = self.memory_used.or(other.memory_used);
        if self.features.is_none() {
            self.features.clone_from(&other.features);
        }
        self.partitions.extend(other.partitions.iter().cloned());
        notes
    }

    /// Marks the node so that no job can start there.
    pub(super) fn take_down(&mut self) {
        self.state = Some(match self.state.take() {
            Some(state) if NodeState::parse(&state).availability() == Availability::Down => state,
            Some(state) => format!("{state}+down"),
            None => "down".to_owned(),
        });
    }

    /// Returns whether GPUs are known to be in use, but not how many the node has.
    pub(super) fn says_only_use(&self) -> bool {
        let count = |text: &Option<String>| Gres::parse(text.as_deref().unwrap_or_default()).gpu_total();
        let tres = Tres::parse(self.tres.as_deref().unwrap_or_default());
        self.gres.is_none() && tres.gres.gpu_total() == 0 && count(&self.gres_used) > 0
    }

    pub(super) fn node(mut self, name: NodeName, notes: &mut Notes) -> Node {
        // A node without an idle CPU has no GPU to offer, even if no job holds its GPUs.
        let is_full = self.state.as_deref().is_some_and(is_full);
        if is_full {
            self.cpus_used = self.cpus;
        }
        let state = match &self.state {
            Some(state) => NodeState::parse(&one_line(state)),
            None if self.is_vague => {
                notes.of(
                    &name,
                    "its line counts nodes that are not up, but does not say which: hsched counts none of \
                        them as free"
                        .to_owned(),
                );
                NodeState::parse("unknown")
            }
            None => {
                notes.of(&name, "no state is given; hsched assumes idle".to_owned());
                NodeState::idle()
            }
        };
        let is_up = state.availability() == Availability::Up;
        let (mut gpus, other_gres) = self.gpus(&name, is_up, notes);
        if is_full && self.cpus.is_none() && gpus.iter().any(|stock| stock.free() > 0) {
            let note = "is allocated, so it has no idle CPUs: hsched counts none of its GPUs as free";
            notes.of(&name, note.to_owned());
            for stock in &mut gpus {
                stock.used = stock.total;
            }
        }
        let memory = |bytes: Option<Bytes>| bytes.map_or(0, |bytes| bytes.0);
        Node {
            state,
            reason: self.reason.as_deref().and_then(value).map(one_line),
            gpus,
            other_gres,
            cpus: self.cpus.map(|total| Usage { total, used: self.cpus_used.unwrap_or(0) }),
            memory: self.memory.map(|total| Usage { total: total.0, used: memory(self.memory_used) }),
            features: self.features.unwrap_or_default(),
            partitions: self.partitions,
            ..Node::new(name)
        }
    }

    /// Returns the GPUs with their use, and the other resources.
    ///
    /// On a node that runs jobs, GPUs not known to be free count as in use.
    fn gpus(&self, name: &NodeName, is_up: bool, notes: &mut Notes) -> (Vec<GpuStock>, Vec<String>) {
        let gres = |text: &Option<String>| Gres::parse(text.as_deref().unwrap_or_default());
        let tres = |text: &Option<String>| Tres::parse(text.as_deref().unwrap_or_default()).gres;
        let Gres { mut gpus, other } = gres(&self.gres);
        let configured = tres(&self.tres);
        if gpus.iter().all(|(_, count)| *count == 0) && configured.gpu_total() > 0 {
            notes.of(name, "its GRES has no GPUs; hsched uses its TRES".to_owned());
            gpus.clone_from(&configured.gpus);
        }
        let held = gres(&self.gres_used);
        let tracked = tres(&self.tres_used);
        // TRES list GPUs only if the site tracks them; in that case a missing use means zero.
        let used = if !held.gpus.is_empty() {
            Some(held.gpus)
        } else if tracked.gpu_total() > 0 || (configured.gpu_total() > 0 && self.tres_used.is_some()) {
            Some(tracked.gpus)
        } else {
            None
        };
        let has_work = is_up && !self.is_without_work() && gpus.iter().any(|(_, count)| *count > 0);
        if has_work {
            self.note_unsaid(name, used.is_some(), notes);
        }
        let is_unsaid = |gpu_type: &GpuType| match &used {
            None => true,
            Some(used) => self.is_used_cut && used.iter().all(|(candidate, _)| candidate != gpu_type),
        };
        let unsaid: Vec<GpuType> =
            gpus.iter().map(|(gpu_type, _)| gpu_type.clone()).filter(is_unsaid).collect();
        let (mut stocks, unclear) = stocks(gpus, used.unwrap_or_default());
        if has_work {
            for stock in stocks.iter_mut().filter(|stock| unsaid.contains(&stock.gpu_type)) {
                stock.used = stock.total;
            }
        }
        for note in unclear {
            notes.of(name, note);
        }
        (stocks, other.iter().map(|part| one_line(part)).collect())
    }

    /// Adds a note on unknown use of a node that runs jobs.
    fn note_unsaid(&self, name: &NodeName, says_gpus: bool, notes: &mut Notes) {
        if !says_gpus {
            notes.of(name, "has jobs, but their GPUs are not shown: hsched counts none as free".to_owned());
        }
        let cpus = self.cpus.is_none() || self.cpus_used.is_some();
        let memory = self.memory.is_none() || self.memory_used.is_some();
        let unsaid: Vec<&str> = [("CPUs", cpus), ("memory", memory)]
            .into_iter()
            .filter_map(|(what, said)| (!said).then_some(what))
            .collect();
        if !unsaid.is_empty() {
            let note = format!("its use of {} is not given; hsched counts all as free", unsaid.join(", "));
            notes.of(name, note);
        }
    }

    /// Returns whether the node is known to run no job, or has no data that show one.
    fn is_without_work(&self) -> bool {
        match (&self.state, self.cpus_used) {
            (_, Some(0)) => true,
            (Some(state), _) => !is_busy(state),
            (None, used) => used.is_none(),
        }
    }
}
