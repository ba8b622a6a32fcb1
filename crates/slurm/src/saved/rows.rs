//! One line of a `sinfo` table: its data about each of its nodes.

use std::ops::RangeInclusive;

use super::clean::CleanLine;
use super::facts::NodeFacts;
use super::fields::What;
use super::gather::NodeStatements;
use super::header::Header;
use super::looks;
use crate::record::{excerpt, value};
use crate::{Gres, amount, gres};
use hsched_model::{Availability, GpuType, NodeName, NodeState, hostlist};

/// Untyped counts that are truncated model names (`gpu:2080`): more GPUs than a node has, in at most four
/// digits.
const MODEL_NUMBERS: RangeInclusive<u32> = 129..=9999;

/// A line's data about its nodes.
struct NodeRow<'a> {
    header: &'a Header,
    cells: Vec<&'a str>,
    line: &'a str,
}

/// A cell that ends in the middle of its value.
#[derive(Debug)]
pub(super) struct CutCell<'a> {
    pub column: usize,
    pub name: &'static str,
    pub text: &'a str,
}

/// Why a line has no nodes.
enum Unread<'a> {
    Odd(String),
    Cut(CutCell<'a>),
}

/// The numbers of a line's nodes, or of their CPUs, that are in use, free, and not up.
struct UseCounts {
    used: u64,
    idle: u64,
    other: u64,
    total: u64,
}

/// Adds the data of a line, or skips it and records why.
///
/// The error is the line's truncated cell, if it has one.
pub(super) fn read_row<'a>(
    header: &'a Header,
    line: &'a CleanLine<'_>,
    gathering: &mut NodeStatements,
) -> Result<(), Option<CutCell<'a>>> {
    let added = match header.cells(&line.text) {
        None => Err(Unread::Odd(format!("it does not match the {} columns", header.columns.len()))),
        Some(cells) => {
            let row = NodeRow { header, cells, line: &line.text };
            row.add(gathering).map(|added| row.note(&added, gathering))
        }
    };
    added.map_err(|unread| {
        let (why, cell) = match unread {
            Unread::Odd(why) => (why, None),
            Unread::Cut(cell) => (format!("its {} is truncated", cell.name), Some(cell)),
        };
        gathering.leave_out(line.number, &line.text, &why);
        cell
    })
}

impl<'a> NodeRow<'a> {
    fn cell(&self, what: What) -> Option<&'a str> {
        self.header.position(what).and_then(|index| self.cells.get(index)).copied()
    }

    fn get(&self, what: What) -> Option<&'a str> {
        self.cell(what).and_then(value)
    }

    fn fills(&self, what: What) -> bool {
        let index = self.header.position(what);
        index.is_some_and(|index| self.header.is_full(index, self.cells[index], self.line))
    }

    /// Adds the line's nodes and returns their names; the error is the reason why there are none.
    fn add(&self, gathering: &mut NodeStatements) -> Result<Vec<NodeName>, Unread<'a>> {
        if let Some(cluster) = self.get(What::Cluster) {
            gathering.cluster(cluster);
        }
        let avail = self.get(What::Avail);
        let partition = self
            .get(What::Partition)
            .and_then(|printed| gathering.partition(printed, self.get(What::TimeLimit), avail));
        let nodes = self.get(What::NodesState).map(|text| looks::counts(text).ok_or(text));
        let nodes =
            nodes.transpose().map_err(|text| Unread::Odd(format!("{text:?} is not a number of nodes")))?;
        let whole = nodes.as_deref().filter(|counts| counts.len() == 4).map(|counts| counts[3]);
        let count = self.get(What::Count).and_then(amount::count).or(whole);
        let names = self.header.names().and_then(|index| value(self.cells[index]));
        if names.is_none() && count == Some(0) {
            return Ok(Vec::new());
        }
        // A line's CPUs are sums over its nodes, whether or not their number is printed.
        let listed = names.and_then(|names| hostlist::expand(names).ok()).map(|names| names.len() as u64);
        let several = count.or(listed).unwrap_or(1).max(1);
        if let Some(cell) = self.cut_cell(listed, count) {
            return Err(Unread::Cut(cell));
        }
        let mut facts = self.facts(several);
        facts.partitions.extend(partition.clone());
        let nodes = nodes.and_then(|counts| UseCounts::new(&counts, several));
        if let (None, Some(nodes), None, Some(_)) = (&facts.state, &nodes, self.header.names(), count) {
            return Ok(nodes.unnamed(&facts, gathering));
        }
        // CPUs distinguish draining nodes from other nodes with work.
        match (&facts.state, self.cpu_split().or(nodes)) {
            (None, Some(split)) => {
                facts.state = split.state(several).map(str::to_owned);
                facts.is_vague = facts.state.is_none() && split.other > 0;
            }
            (Some(state), Some(split)) if split.is_down() && is_up(state) => facts.take_down(),
            _ => {}
        }
        if partition.is_none() && avail.is_some_and(|avail| avail != "up") {
            facts.take_down();
        }
        match (names, count, self.header.names()) {
            (Some(names), ..) => gathering.add(names, &facts).map_err(Unread::Odd),
            (None, Some(count), None) => Ok(gathering.add_unnamed(count, &facts)),
            _ => Err(Unread::Odd("it names no node".to_owned())),
        }
    }

    /// Returns the line's data for each of its `several` nodes.
    fn facts(&self, several: u64) -> NodeFacts {
        let owned = |what| self.get(what).map(str::to_owned);
        // A plus sign marks the minimum over several nodes.
        let least = |what| self.get(what).map(|text| text.trim_end_matches('+'));
        let list = |what| {
            let words = self.get(what)?.split(',').map(str::trim).filter(|word| !word.is_empty());
            Some(words.map(str::to_owned).collect())
        };
        let cpus = self.cpu_split();
        let state = self.cell(What::State).map(str::trim).filter(|state| !matches!(*state, "" | "n/a"));
        NodeFacts {
            state: state.map(str::to_owned),
            reason: owned(What::Reason),
            gres: owned(What::Gres),
            gres_used: self.get(What::GresUsed).map(|text| counted(text).to_owned()),
            is_used_cut: self
                .get(What::GresUsed)
                .is_some_and(|text| is_cut(text) || self.fills(What::GresUsed)),
            // The line has sums over all its nodes.
            cpus: cpus
                .as_ref()
                .map(|cpus| cpus.total / several)
                .or_else(|| least(What::Cpus).and_then(amount::count)),
            cpus_used: cpus.map(|cpus| cpus.used.div_ceil(several)),
            memory: least(What::Memory).and_then(amount::memory),
            memory_used: least(What::AllocMemory).and_then(amount::memory),
            features: list(What::ActiveFeatures).or_else(|| list(What::AvailableFeatures)),
            ..NodeFacts::default()
        }
    }

    fn cpu_split(&self) -> Option<UseCounts> {
        UseCounts::new(&looks::counts(self.get(What::CpusState)?)?, 0)
    }

    /// Returns the cell of the GPUs or of the names, if it ends in the middle of its value.
    fn cut_cell(&self, listed: Option<u64>, count: Option<u64>) -> Option<CutCell<'a>> {
        if let Some(text) = self.get(What::Gres).filter(|gres| counted(gres) != *gres) {
            return Some(CutCell { column: self.header.position(What::Gres)?, name: "GRES", text });
        }
        let column = self.header.names()?;
        let text = value(self.cells[column])?;
        let fills = self.header.is_full(column, text, self.line);
        let may_be_cut = self.header.may_be_cut(column, text, self.line);
        let is_open = text.matches('[').count() > text.matches(']').count();
        let lacks = listed.zip(count).is_some_and(|(listed, count)| listed < count && !text.ends_with(']'));
        let is_cut = is_open || (lacks && may_be_cut) || (fills && text.ends_with(['-', '.', ',']));
        is_cut.then_some(CutCell { column, name: "NODELIST", text })
    }

    /// Adds notes on the line's unreadable or possibly truncated parts.
    fn note(&self, added: &[NodeName], gathering: &mut NodeStatements) {
        let mut say = |note: &str| added.iter().for_each(|node| gathering.notes.of(node, note.to_owned()));
        for what in [What::CpusState, What::Cpus, What::Memory, What::AllocMemory] {
            let Some(text) = self.get(what) else { continue };
            let read = match what {
                What::CpusState => looks::counts(text).is_some(),
                What::Cpus => amount::count(text.trim_end_matches('+')).is_some(),
                _ => amount::memory(text.trim_end_matches('+')).is_some(),
            };
            if !read {
                say(&format!("its {} {:?} could not be read", self.name(what), excerpt(text)));
            }
        }
        for what in [
            What::Nodes,
            What::Partition,
            What::Gres,
            What::GresUsed,
            What::ActiveFeatures,
            What::AvailableFeatures,
            What::Reason,
        ] {
            let Some(text) = self.get(what) else { continue };
            if self.fills(what) || (what != What::Reason && is_cut(text)) {
                let (name, text) = (self.name(what), excerpt(text));
                say(&format!("{name} {text:?} fills its column and may be truncated"));
            }
        }
        let count = self.get(What::Count).and_then(amount::count);
        if let Some(count) = count.filter(|&count| !added.is_empty() && added.len() as u64 != count) {
            let (line, names) = (excerpt(self.line), added.len());
            gathering.notes.say(format!("{line:?} names {names} nodes, but counts {count}"));
        }
    }

    fn name(&self, what: What) -> &'static str {
        self.header.position(what).map_or("", |index| self.header.columns[index].name())
    }
}

impl UseCounts {
    /// Parses the parts of `allocated/idle/other/total`, or of `allocated/idle` for `several` nodes.
    fn new(counts: &[u64], several: u64) -> Option<Self> {
        match *counts {
            [used, idle, other, total] => Some(Self { used, idle, other, total }),
            [used, idle] => {
                let other = several.saturating_sub(used).saturating_sub(idle);
                Some(Self { used, idle, other, total: several })
            }
            _ => None,
        }
    }

    /// Returns whether all of them are down.
    fn is_down(&self) -> bool {
        self.other == self.total && self.total > 0
    }

    /// Returns the state of each of `several` nodes, or `None` if they differ and cannot be told apart.
    fn state(&self, several: u64) -> Option<&'static str> {
        match self {
            Self { idle, total, .. } if idle == total => Some("idle"),
            _ if self.is_down() => Some("down"),
            Self { used, total, .. } if used == total => Some("allocated"),
            Self { other, .. } if several == 1 && *other > 0 => Some("draining"),
            // Some of the nodes may be idle, but it is unknown which. GPUs of mixed nodes are free only if
            // the text shows their use.
            Self { other, .. } if *other == 0 => Some("mixed"),
            _ => None,
        }
    }

    /// Adds nodes without names in each state.
    fn unnamed(&self, facts: &NodeFacts, gathering: &mut NodeStatements) -> Vec<NodeName> {
        let parts = [("allocated", self.used), ("idle", self.idle), ("down", self.other)];
        let add = |(state, count): (&str, u64)| {
            let state = Some(state.to_owned());
            gathering.add_unnamed(count, &NodeFacts { state, ..facts.clone() })
        };
        parts.into_iter().flat_map(add).collect()
    }
}

/// Returns whether jobs may start on nodes in this state.
fn is_up(state: &str) -> bool {
    NodeState::parse(state).availability() == Availability::Up
}

/// Returns a GRES text up to where it was certainly cut off: sinfo always prints GPUs with their number.
fn counted(text: &str) -> &str {
    let is_model =
        |gpu_type: &GpuType, count| *gpu_type == GpuType::untyped() && MODEL_NUMBERS.contains(count);
    let silly = Gres::parse(text).gpus.iter().any(|(gpu_type, count)| is_model(gpu_type, count));
    let end = if silly { Some(0) } else { gres::uncounted(text).and_then(|part| text.find(part)) };
    end.map_or(text, |end| &text[..end])
}

/// Returns whether a value is truncated.
fn is_cut(text: &str) -> bool {
    let text = text.trim();
    let open = |start: char, end: char| text.matches(start).count() > text.matches(end).count();
    open('(', ')') || open('[', ']') || text.ends_with([',', ':'])
}

/// Reads a line of `sinfo -R`, which adds a reason to nodes of another table.
pub(super) fn read_reason(header: &Header, line: &CleanLine<'_>, gathering: &mut NodeStatements) {
    let cells = header.cells(&line.text);
    let get = |index: Option<usize>| Some(value(cells.as_ref()?.get(index?)?)?.to_owned());
    let (names, reason) = (get(header.names()), get(header.position(What::Reason)));
    let known = names.filter(|names| gathering.knows_all(names));
    let added = known.map(|names| gathering.add(&names, &NodeFacts { reason, ..NodeFacts::default() }));
    if !matches!(added, Some(Ok(_))) {
        gathering.leave_out(line.number, &line.text, "its node is not in another table");
    }
}
