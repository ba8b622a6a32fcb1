//! Tables without a header line (`sinfo -h`): read where the values of each column leave no doubt what it holds.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use super::cells::words;
use super::fields::{What, of_what};
use super::header::{Column, Header, Layout};
use super::looks;
use super::series::{is_series, longest_run, series};
use crate::record::value;
use crate::{Gres, amount};
use hsched_model::{NodeName, hostlist};

/// Most names of a line that are looked at to tell what a column holds.
const NAME_LIMIT: usize = 10_000;
/// Most nodes of one line; larger numbers are amounts of memory.
const MOST_NODES: u64 = 20_000;
/// How many names numbered in a row are surely nodes: nobody numbers so many partitions.
const SURELY_NODES: usize = 5;

/// Why lines were not read: what is not certain, or nothing where they are no table of nodes.
type Doubt = Option<String>;

/// Returns the header that lines without one would have.
///
/// # Errors
/// When they are no table of nodes, or it is not certain what its columns hold.
pub(super) fn identify(lines: &[&str]) -> Result<Header, Doubt> {
    let separated = ['|', ';', '\t', ','].map(Layout::Separated);
    let mut doubt = None;
    for layout in separated.into_iter().chain([Layout::Blanks]) {
        let table = shape(lines, layout).ok_or(None).and_then(|header| Table::of(header, lines));
        match table.and_then(Table::identify) {
            Ok(header) => return Ok(header),
            Err(own) => doubt = doubt.or(own),
        }
    }
    Err(doubt)
}

/// Returns columns without names, as many as most lines have. Where others have more words, the last column is
/// free text.
fn shape(lines: &[&str], layout: Layout) -> Option<Header> {
    let count = |line: &&str| match layout {
        Layout::Separated(mark) => line.trim().trim_matches('|').split(mark).count(),
        _ => line.split_whitespace().count(),
    };
    let mut of_count: BTreeMap<usize, Vec<&str>> = BTreeMap::new();
    for line in lines {
        of_count.entry(count(line)).or_default().push(line);
    }
    let (&count, usual) = of_count.iter().rev().max_by_key(|(_, lines)| lines.len())?;
    let last: Vec<&str> = usual.iter().filter_map(|line| line.split_whitespace().next_back()).collect();
    let is_text = matches!(look(&last), Looks::Word | Looks::Other);
    let has_text = layout == Layout::Blanks && is_text && of_count.keys().any(|&own| own > count);
    let column = |index| {
        let field = (has_text && index + 1 == count).then(|| of_what(What::Reason)).flatten();
        Column { field, word: (0, 0), width: None }
    };
    (count > 1).then(|| Header { columns: (0..count).map(column).collect(), layout })
}

/// What all values of a column look like; words for nothing look like anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Looks {
    State,
    /// Whether a partition is up.
    Avail,
    Gres,
    /// Four counts: allocated/idle/other/total.
    Counts,
    Integer,
    Word,
    /// Nothing, or what is none of these.
    Other,
}

/// The values of a table, column by column.
struct Table<'a> {
    header: Header,
    columns: Vec<Vec<&'a str>>,
    looks: Vec<Looks>,
    what: Vec<What>,
}

impl<'a> Table<'a> {
    /// Returns the table of the lines that fall into the columns: three of four must.
    fn of(header: Header, lines: &[&'a str]) -> Result<Self, Doubt> {
        let fitting = || lines.iter().filter_map(|line| Some((*line, header.cells(line)?)));
        let rows: Vec<Vec<&str>> = fitting().map(|(_, cells)| cells).collect();
        let count = header.columns.len();
        if rows.is_empty() || rows.len() * 4 < lines.len() * 3 {
            return Err(None);
        }
        if header.layout == Layout::Blanks && !are_aligned(fitting().map(|(line, _)| line), count) {
            return Err(Some("its columns are not aligned, so some may run together".to_owned()));
        }
        let columns: Vec<Vec<&str>> =
            (0..count).map(|index| rows.iter().map(|row| row[index].trim()).collect()).collect();
        let mut looks: Vec<Looks> = columns.iter().map(|values| look(values)).collect();
        if header.position(What::Reason).is_some() {
            if columns[count - 1].iter().any(|text| text.contains("gpu:")) {
                return Err(Some("its lines have different numbers of columns, some with GPUs".to_owned()));
            }
            looks[count - 1] = Looks::Other;
        }
        let is_of_jobs = columns.iter().any(|values| values.iter().all(|text| looks::is_job_state(text)));
        if is_of_jobs {
            Err(None)
        } else {
            Ok(Self { header, what: vec![What::Other; count], columns, looks })
        }
    }

    fn identify(mut self) -> Result<Header, Doubt> {
        self.assign(self.with(Looks::State).next(), What::State);
        self.assign(self.with(Looks::Avail).next(), What::Avail);
        self.identify_gres()?;
        let names = self.find_names()?;
        self.assign(names, What::Nodes);
        self.identify_counts()?;
        let is_starred = |index: &usize| self.columns[*index].iter().any(|text| text.ends_with('*'));
        self.assign(self.with(Looks::Word).find(is_starred), What::Partition);
        if names.is_none() {
            // A lone number may count nodes or CPUs, or be a weight.
            let is_table = self.what.iter().any(|what| *what != What::Other)
                || self.with(Looks::Counts).next().is_some();
            let number = self.looks.iter().any(|own| matches!(own, Looks::Integer | Looks::Counts));
            let behind = if number { ", and a number may count nodes or CPUs" } else { "" };
            return Err(is_table.then(|| format!("no column can be identified as node names{behind}")));
        }
        let telling = [What::Gres, What::State, What::CpusState, What::NodesState, What::Partition];
        if !telling.iter().any(|what| self.what.contains(what)) {
            return Err(None);
        }
        let has_gpus = |index: &usize| {
            self.what[*index] == What::Other && self.columns[*index].iter().any(|text| text.contains("gpu:"))
        };
        if let Some(index) = (0..self.what.len()).find(has_gpus) {
            return Err(Some(format!(
                "its column {} names GPUs in some lines and something else in others",
                index + 1
            )));
        }
        for (column, what) in self.header.columns.iter_mut().zip(self.what) {
            column.field = if what == What::Other { column.field } else { of_what(what) };
        }
        Ok(self.header)
    }

    /// Returns the columns of which is not known yet what they hold, and which look like this.
    fn with(&self, look: Looks) -> impl Iterator<Item = usize> + use<'a> {
        let found = |&index: &usize| self.looks[index] == look && self.what[index] == What::Other;
        (0..self.what.len()).filter(found).collect::<Vec<_>>().into_iter()
    }

    fn assign(&mut self, index: Option<usize>, what: What) {
        if let Some(index) = index {
            self.what[index] = what;
        }
    }

    fn position(&self, what: What) -> Option<usize> {
        self.what.iter().position(|own| *own == what)
    }

    fn rows(&self) -> std::ops::Range<usize> {
        0..self.columns[0].len()
    }

    /// Returns the GPUs that a column says of a row.
    fn gpus(&self, index: usize, row: usize) -> u64 {
        Gres::parse(self.columns[index][row]).gpu_total().into()
    }

    /// Tells what nodes have from what is in use there.
    fn identify_gres(&mut self) -> Result<(), Doubt> {
        let shows = |index: usize, mark: &str| self.columns[index].iter().any(|text| text.contains(mark));
        let covers = |one, other| self.rows().all(|row| self.gpus(one, row) >= self.gpus(other, row));
        // Nodes without GPUs have nothing here, and 0 in use; idle nodes have nothing in use.
        let has_none = |index: usize| self.columns[index].iter().any(|text| matches!(*text, "" | "(null)"));
        let state = self.position(What::State);
        let idle = |row: usize| state.is_some_and(|state| self.columns[state][row] == "idle");
        let has_idle = |index| self.rows().any(|row| idle(row) && self.gpus(index, row) > 0);
        let (gres, used) = match *self.with(Looks::Gres).collect::<Vec<_>>() {
            [] => return Ok(()),
            [one, _, ..] if self.header.layout == Layout::Separated(',') => {
                let why = format!("its column {} may have been split at a comma", one + 1);
                return Err(Some(why));
            }
            [one] if shows(one, "(IDX:") || shows(one, "gpu:0") => {
                let why =
                    format!("its column {} shows GPUs in use, but no column shows the total (GRES)", one + 1);
                return Err(Some(why));
            }
            [one] if shows(one, "(S:") || has_none(one) || has_idle(one) => (one, None),
            [one] => return Err(Some(format!("its column {} may be GRES or GRES_USED", one + 1))),
            [one, two] if shows(two, "(IDX:") || (covers(one, two) && !shows(one, "(IDX:")) => {
                (one, Some(two))
            }
            [one, two] if shows(one, "(IDX:") || covers(two, one) => (two, Some(one)),
            [one, ..] => return Err(Some(format!("its column {} and others look like GRES", one + 1))),
        };
        self.assign(Some(gres), What::Gres);
        self.assign(used, What::GresUsed);
        Ok(())
    }

    /// Returns the column of node names: partitions and features have neither brackets nor are they numbered
    /// in a row.
    fn find_names(&self) -> Result<Option<usize>, Doubt> {
        let are_names =
            |index: &usize| self.columns[*index].iter().all(|text| value(text).is_none_or(are_names));
        let lists = |index: &usize| self.columns[*index].iter().any(|text| text.contains('['));
        let mut found: Vec<usize> = self.with(Looks::Word).filter(are_names).collect();
        let are_lists = found.iter().any(lists);
        if are_lists {
            found.retain(lists);
        } else {
            found.retain(|&index| is_series(&self.columns[index]) && self.agrees(index));
        }
        let is_joined = |index: &usize| {
            self.columns[*index].iter().any(|text| text.starts_with(|c: char| c.is_ascii_digit()))
        };
        if let Some(index) = found.iter().find(|index| is_joined(index)) {
            return Err(Some(format!(
                "its column {} may be a number and names that run together",
                index + 1
            )));
        }
        // Host names stand beside the names that they are.
        found.dedup_by(|one, other| self.columns[*one] == self.columns[*other]);
        match *found {
            [one, two, ..] => {
                Err(Some(format!("its columns {} and {} may both be node names", one + 1, two + 1)))
            }
            [one] if !are_lists && self.may_be_partitions(one) => {
                Err(Some(format!("its column {} may name nodes or partitions", one + 1)))
            }
            _ => Ok(found.first().copied()),
        }
    }

    /// Returns whether single names may be those of partitions with several nodes each: partitions are sometimes
    /// numbered too.
    fn may_be_partitions(&self, index: usize) -> bool {
        let names = &self.columns[index];
        let is_starred = |other: usize| self.columns[other].iter().any(|text| text.ends_with('*'));
        let is_clear = names.iter().any(|name| name.contains('.'))
            || series(names).values().any(|own| longest_run(own) >= SURELY_NODES)
            || self.with(Looks::Word).any(is_starred);
        !is_clear
            && (self.position(What::Avail).is_some()
                || self.with(Looks::Integer).any(|column| self.may_count_nodes(column))
                || self.with(Looks::Counts).any(|column| self.may_split_nodes(column))
                || self.has_two_states(index))
    }

    /// Returns whether numbers may say how many nodes each line stands for.
    fn may_count_nodes(&self, column: usize) -> bool {
        let state = self.position(What::State);
        let is_without = |row: usize| state.is_some_and(|state| self.columns[state][row] == "n/a");
        let numbers = || self.rows().filter_map(|row| Some((row, number(self.columns[column][row])?)));
        numbers().any(|(_, count)| count > 1)
            && numbers().all(|(row, count)| count <= MOST_NODES && (count > 0 || is_without(row)))
    }

    /// Returns whether counts may be of nodes: lines of one state have no nodes of several kinds, while the CPUs
    /// of a node may be partly in use.
    fn may_split_nodes(&self, column: usize) -> bool {
        let counts = || self.columns[column].iter().filter_map(|text| looks::counts(text));
        let is_mixed = |counts: Vec<u64>| matches!(*counts, [used, idle, ..] if used > 0 && idle > 0);
        counts().any(|counts| counts.last().is_some_and(|&total| total > 1))
            && (self.position(What::State).is_none() || !counts().any(is_mixed))
    }

    /// Returns whether a name stands in lines of different states, and nothing else tells that it is one node.
    fn has_two_states(&self, index: usize) -> bool {
        let Some(state) = self.position(What::State) else { return false };
        let mut known: BTreeMap<&str, &str> = BTreeMap::new();
        let differs = |row: usize| {
            let own = self.columns[state][row];
            *known.entry(self.columns[index][row]).or_insert(own) != own
        };
        self.with(Looks::Counts).next().is_none() && self.rows().any(differs)
    }

    /// Returns whether rows of the same value have the same resources, as rows of one node have.
    fn agrees(&self, index: usize) -> bool {
        let mut known: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        let resources: Vec<usize> = self.with(Looks::Counts).chain(self.position(What::Gres)).collect();
        let total = |text: &'a str| text.rsplit('/').next().unwrap_or(text);
        self.rows().all(|row| {
            let own: Vec<&str> = resources.iter().map(|&index| total(self.columns[index][row])).collect();
            *known.entry(self.columns[index][row]).or_insert_with(|| own.clone()) == own
        })
    }

    /// Tells counts of nodes from counts of CPUs by how many nodes a line stands for.
    fn identify_counts(&mut self) -> Result<(), Doubt> {
        let Some(names) = self.position(What::Nodes) else { return Ok(()) };
        let count = |text: &&str| hostlist::expand(text).ok().map(|names| names.len() as u64);
        let nodes: Vec<Option<u64>> = self.columns[names].iter().map(count).collect();
        for index in self.with(Looks::Counts) {
            let compared: Vec<Ordering> = self
                .rows()
                .filter_map(|row| Some(nodes[row]?.cmp(looks::counts(self.columns[index][row])?.last()?)))
                .collect();
            let what =
                if compared.iter().all(|order| order.is_eq()) { What::NodesState } else { What::CpusState };
            if compared.iter().any(|order| order.is_gt()) || self.position(what).is_some() {
                let why = format!("the numbers in its column {} match neither nodes nor CPUs", index + 1);
                return Err(Some(why));
            }
            self.assign(Some(index), what);
        }
        Ok(())
    }
}

/// Returns whether the words of lines, but for the last, begin or end below each other, or stand equally far apart;
/// one line of ten may differ.
fn are_aligned<'a>(lines: impl Iterator<Item = &'a str>, count: usize) -> bool {
    // Where each word begins and ends.
    let ends = |(start, word): (usize, &str)| (start, start + word.len());
    let rows: Vec<Vec<(usize, usize)>> =
        lines.map(|line| words(line).into_iter().map(ends).collect()).collect();
    let same = |places: Vec<Option<usize>>| {
        let mut known: BTreeMap<Option<usize>, usize> = BTreeMap::new();
        for place in places {
            *known.entry(place).or_default() += 1;
        }
        let most = known.values().max().copied().unwrap_or(0);
        rows.len() - most <= (rows.len() / 10).max(1)
    };
    (1..count.saturating_sub(1)).all(|index| {
        let gap = |row: &Vec<(usize, usize)>| Some(row.get(index)?.0 - row.get(index - 1)?.1);
        same(rows.iter().map(|row| row.get(index).map(|&(start, _)| start)).collect())
            || same(rows.iter().map(|row| row.get(index).map(|&(_, end)| end)).collect())
            || same(rows.iter().map(gap).collect())
    })
}

/// Tells whether a value is of some kind.
type Fits<'a> = &'a dyn Fn(&str) -> bool;

/// Returns what the values of a column look like.
fn look(values: &[&str]) -> Looks {
    let said = || values.iter().filter_map(|text| value(text));
    // One line of ten may be no row of the table.
    let odd = (values.len() / 10).max(usize::from(values.len() > 3));
    let all = |fits: Fits<'_>| {
        let others = said().filter(|text| !fits(text)).count();
        others == 0 || (others <= odd && others * 2 < said().count())
    };
    let is_avail = |text: &str| ["up", "down", "drain", "inact", "inactive"].contains(&text);
    if said().next().is_none() {
        return Looks::Other;
    }
    if all(&is_avail) && said().any(|text| text == "up" || text.starts_with("inact")) {
        return Looks::Avail;
    }
    let is_word = |text: &str| {
        text.contains(|c: char| c.is_ascii_alphabetic())
            && !text.contains(|c: char| c.is_whitespace() || c == '=')
    };
    let kinds: [(Fits<'_>, Looks); 5] = [
        (&|text| number(text).is_some(), Looks::Integer),
        (&looks::is_state, Looks::State),
        // Those of jobs begin otherwise.
        (&|text| looks::is_gres(text) && !text.starts_with("gres"), Looks::Gres),
        (&|text| looks::counts(text).is_some_and(|counts| counts.len() == 4), Looks::Counts),
        (&is_word, Looks::Word),
    ];
    kinds.into_iter().find(|(fits, _)| all(fits)).map_or(Looks::Other, |(_, looks)| looks)
}

/// Returns a whole number, which may be the least of several (`64+`).
fn number(text: &str) -> Option<u64> {
    amount::count(text.strip_suffix('+').unwrap_or(text))
}

fn are_names(text: &str) -> bool {
    let is_name = |name: &String| NodeName::new(name).is_ok();
    hostlist::expand(text).is_ok_and(|names| names.iter().take(NAME_LIMIT).all(is_name))
}
