//! Tables without a header line (`sinfo -h`): what each column holds, by what its values look like.

use std::collections::{BTreeMap, BTreeSet};

use super::looks::{Looks, amounts, is_bracketed, is_job_state, looks, work};
use super::table_columns::{Column, Header, Layout, What};
use crate::model::{NodeName, hostlist};
use crate::slurm::gpu_words::gpu_word;
use crate::slurm::record::value;

/// Width of the columns of `sinfo -O`, where nobody asked for another.
const WIDTH: usize = 20;
/// Most names that are looked at to tell what a column holds.
const NAME_LIMIT: usize = 10_000;
/// Numbers from here on are no CPUs but memory in MiB.
const LEAST_MEMORY: u64 = 4096;

/// The values of a table, column by column.
struct Table<'a> {
    columns: Vec<Vec<&'a str>>,
    looks: Vec<Looks>,
    what: Vec<What>,
}

/// Returns the header that lines without one would have under a header, or `None` where they are no
/// table of nodes: they must say the nodes' names or their number, and a state or resources.
pub(super) fn guess(lines: &[&str]) -> Option<Header> {
    let separated = ['|', ';', '\t', ','].map(Layout::Separated);
    separated.into_iter().chain([Layout::Words, Layout::Fixed]).find_map(|layout| of_layout(lines, layout))
}

fn of_layout(lines: &[&str], layout: Layout) -> Option<Header> {
    let (count, free_end) = column_count(lines, &layout)?;
    let column = |index| Column {
        what: if free_end && index + 1 == count { What::Reason } else { What::Other },
        name: "",
        start: index * WIDTH,
        width: (layout == Layout::Fixed).then_some(WIDTH),
    };
    let mut header = Header { columns: (0..count).map(column).collect(), layout };
    let rows: Vec<Vec<&str>> = lines.iter().map(|line| header.cells(line)).collect::<Option<_>>()?;
    let is_whole = |cell: &&str| !cell.trim().contains(char::is_whitespace);
    if header.layout == Layout::Fixed && !rows.iter().flatten().all(is_whole) {
        return None;
    }
    let columns: Vec<Vec<&str>> =
        (0..count).map(|index| rows.iter().map(|row| row[index]).collect()).collect();
    let looks = columns.iter().map(|values| looks(values)).collect();
    let mut table = Table { columns, looks, what: vec![What::Other; count] };
    table.assign();
    if free_end && !matches!(table.what[count - 1], What::Other | What::Reason) {
        return None;
    }
    if !table.is_of_nodes() {
        return None;
    }
    for (column, what) in header.columns.iter_mut().zip(table.what) {
        // A free text stays one where nothing better is known.
        column.what = if what == What::Other { column.what } else { what };
        column.name = column.what.name();
    }
    Some(header)
}

/// Returns how many columns the lines have, and whether the last is free text with blanks.
fn column_count(lines: &[&str], layout: &Layout) -> Option<(usize, bool)> {
    let count = |line: &&str| match *layout {
        Layout::Separated(separator) => {
            let line = line.trim_end();
            line.strip_suffix(separator).unwrap_or(line).split(separator).count()
        }
        Layout::Words => line.split_whitespace().count(),
        Layout::Fixed => line.trim_end().len().div_ceil(WIDTH),
    };
    let (least, most) = (lines.iter().map(count).min()?, lines.iter().map(count).max()?);
    match layout {
        Layout::Fixed => (most > 1).then_some((most, false)),
        Layout::Words => (least > 1).then_some((least, least < most)),
        Layout::Separated(_) => (least > 1 && least == most).then_some((least, false)),
    }
}

impl Table<'_> {
    /// Finds out what each column holds.
    fn assign(&mut self) {
        self.first(Looks::State, What::State);
        self.first(Looks::TimeLimit, What::TimeLimit);
        self.assign_gres();
        self.assign_cpus_state();
        if let Some(names) = self.find_names() {
            self.what[names] = What::Nodes;
        }
        self.assign_numbers();
        self.assign_words();
    }

    fn with(&self, look: Looks) -> impl Iterator<Item = usize> {
        (0..self.what.len())
            .filter(move |&index| self.looks[index] == look && self.what[index] == What::Other)
    }

    fn position(&self, what: What) -> Option<usize> {
        self.what.iter().position(|own| *own == what)
    }

    fn first(&mut self, look: Looks, what: What) {
        let first = self.with(look).next();
        if let Some(index) = first {
            self.what[index] = what;
        }
    }

    /// Tells what nodes have from what is in use there: only the latter has `(IDX:…)`, or nothing.
    fn assign_gres(&mut self) {
        let found: Vec<usize> = self.with(Looks::Gres).collect();
        let shows = |index: usize, mark: &str| self.columns[index].iter().any(|text| text.contains(mark));
        let is_use = |index| shows(index, "(IDX:") || (shows(index, "gpu:0") && !shows(index, "(S:"));
        let (all, used) = match *found {
            [one] if is_use(one) => (None, Some(one)),
            [one] => (Some(one), None),
            [one, two, ..] if shows(one, "(IDX:") && !shows(two, "(IDX:") => (Some(two), Some(one)),
            [one, two, ..] => (Some(one), Some(two)),
            [] => (None, None),
        };
        for (index, what) in [(all, What::Gres), (used, What::GresUsed)] {
            if let Some(index) = index {
                self.what[index] = what;
            }
        }
    }

    /// Nodes are counted in the same way as CPUs; there are fewer of them.
    fn assign_cpus_state(&mut self) {
        let sum = |index: &usize| {
            self.columns[*index].iter().filter_map(|text| work(text)).map(|(_, all)| all).max()
        };
        if let Some(index) = self.with(Looks::CpusState).max_by_key(sum) {
            self.what[index] = What::CpusState;
        }
    }

    /// Returns the column of node names.
    fn find_names(&self) -> Option<usize> {
        let named = self.with(Looks::Word).filter(|&index| self.may_be_names(index));
        let score = |&index: &usize| {
            let values = &self.columns[index];
            let bracketed = values.iter().any(|text| is_bracketed(text));
            let distinct = values.iter().collect::<BTreeSet<_>>().len();
            (bracketed, self.is_numbered(index), distinct, std::cmp::Reverse(index))
        };
        named.max_by_key(score)
    }

    fn is_numbered(&self, index: usize) -> bool {
        let values = &self.columns[index];
        values.iter().filter(|text| text.contains(|c: char| c.is_ascii_digit())).count() * 2 > values.len()
    }

    fn may_be_names(&self, index: usize) -> bool {
        let values = &self.columns[index];
        let bracketed = values.iter().any(|text| is_bracketed(text));
        // Where one line stands for several nodes, their names are in brackets or behind commas.
        let numbers: Vec<Vec<u64>> =
            self.with(Looks::Integer).filter_map(|column| amounts(&self.columns[column])).collect();
        let has_memory = numbers.iter().any(|all| all.iter().any(|&number| number >= LEAST_MEMORY));
        let counts = |all: &Vec<u64>| all.iter().any(|&number| number > 1) && !(has_memory && are_fours(all));
        let distinct = values.iter().collect::<BTreeSet<_>>().len() == values.len();
        let unlike_counts = self.is_numbered(index) || (distinct && !numbers.iter().any(counts));
        let mut seen = 0;
        let readable = |text: &&str| {
            if seen > NAME_LIMIT || value(text).is_none() {
                return true;
            }
            hostlist::expand(text).is_ok_and(|names| {
                seen += names.len();
                let looked_at = || names.iter().take(NAME_LIMIT);
                looked_at().all(|name| NodeName::new(name).is_ok())
                    && looked_at().any(|name| gpu_word(name).is_none())
            })
        };
        // Words behind commas are features, unless something counts them.
        let single = bracketed || self.are_counted(index) || !values.iter().any(|text| text.contains(','));
        single && (bracketed || (unlike_counts && self.agrees(index))) && values.iter().all(readable)
    }

    /// Returns whether another column says how many names there are in each row of this one.
    fn are_counted(&self, index: usize) -> bool {
        let expected: Vec<u64> = self.columns[index].iter().map(|text| name_count(text)).collect();
        self.with(Looks::Integer)
            .any(|column| amounts(&self.columns[column]).is_some_and(|all| all == expected))
    }

    /// Returns whether rows of the same value have the same resources, as rows of one node have.
    fn agrees(&self, index: usize) -> bool {
        let mut known: BTreeMap<&str, (Option<&str>, Option<u64>)> = BTreeMap::new();
        let cell = |what, row: usize| Some(self.columns[self.position(what)?][row].trim());
        (0..self.columns[index].len()).all(|row| {
            let cpus = cell(What::CpusState, row).and_then(work).map(|(_, all)| all);
            let own = (cell(What::Gres, row), cpus);
            *known.entry(self.columns[index][row].trim()).or_insert(own) == own
        })
    }

    /// Tells the number of nodes, CPUs and memory apart.
    fn assign_numbers(&mut self) {
        let found: Vec<(usize, Vec<u64>)> = self
            .with(Looks::Integer)
            .filter_map(|index| Some((index, amounts(&self.columns[index])?)))
            .collect();
        if let ([(only, all)], None) = (found.as_slice(), self.position(What::Nodes))
            && self.have_cpus(all)
        {
            self.what[*only] = What::Count;
            return;
        }
        let (large, mut small): (Vec<_>, Vec<_>) =
            found.into_iter().partition(|(_, all)| all.iter().any(|&number| number >= LEAST_MEMORY));
        self.assign_memory(&large);
        let count = match self.position(What::Nodes) {
            Some(names) => {
                let expanded: Vec<u64> = self.columns[names].iter().map(|text| name_count(text)).collect();
                small.iter().position(|(_, all)| *all == expanded)
            }
            None => node_count(&small),
        };
        if let Some(count) = count {
            self.what[small.remove(count).0] = What::Count;
        }
        if let ([(index, _)], None) = (small.as_slice(), self.position(What::CpusState)) {
            self.what[*index] = What::Cpus;
        }
    }

    /// Returns whether each row has at least a CPU for each of so many nodes, as far as it says.
    fn have_cpus(&self, nodes: &[u64]) -> bool {
        let Some(cpus) = self.position(What::CpusState) else { return true };
        let enough = |(text, &nodes): (&&str, &u64)| work(text).is_none_or(|(_, all)| all >= nodes);
        self.columns[cpus].iter().zip(nodes).all(enough)
    }

    /// A node has more memory than is in use or free there. In use is none of it where no CPU is.
    fn assign_memory(&mut self, found: &[(usize, Vec<u64>)]) {
        let above = |one: &[u64], other: &[u64]| one.iter().zip(other).all(|(one, other)| one >= other);
        let Some((all, _)) = found.iter().find(|(_, all)| found.iter().all(|(_, other)| above(all, other)))
        else {
            return;
        };
        self.what[*all] = What::Memory;
        let idle: Vec<bool> = match self.position(What::CpusState) {
            Some(cpus) => {
                self.columns[cpus].iter().map(|text| work(text).is_some_and(|(used, _)| used == 0)).collect()
            }
            None => return,
        };
        let in_use = |(index, numbers): &&(usize, Vec<u64>)| {
            index != all && numbers.iter().zip(&idle).all(|(&number, &idle)| !idle || number == 0)
        };
        if let Some((index, _)) = found.iter().find(in_use) {
            self.what[*index] = What::AllocMemory;
        }
    }

    fn assign_words(&mut self) {
        let words: Vec<usize> = self.with(Looks::Word).collect();
        let any = |index: usize, found: &dyn Fn(&str) -> bool| {
            self.columns[index].iter().any(|text| found(text.trim()))
        };
        let is_text =
            |index: usize| any(index, &|text| text.contains(char::is_whitespace) || text.contains('='));
        let (texts, words): (Vec<usize>, Vec<usize>) = words.into_iter().partition(|&index| is_text(index));
        let listed = |index: usize| any(index, &|text| text.contains(','));
        let always = |index: usize| !any(index, &|text| value(text).is_none());
        let starred = words.iter().copied().find(|&index| any(index, &|text| text.ends_with('*')));
        let partition =
            starred.or_else(|| words.iter().copied().find(|&index| always(index) && !listed(index)));
        // Who wrote a reason stands beside it.
        let features = words.iter().copied().find(|&index| Some(index) != partition && texts.is_empty());
        let found = [
            (partition, What::Partition),
            (features, What::ActiveFeatures),
            (texts.first().copied(), What::Reason),
        ];
        for (index, what) in found {
            if let Some(index) = index {
                self.what[index] = what;
            }
        }
    }

    /// Returns whether enough is known to speak of nodes, and nothing speaks of jobs.
    fn is_of_nodes(&self) -> bool {
        let jobs = self.columns.iter().any(|values| values.iter().all(|text| is_job_state(text)));
        let has = |what| self.position(what).is_some();
        let gres = has(What::Gres) || has(What::GresUsed);
        let names = self.position(What::Nodes);
        let lists = names.is_some_and(|names| self.columns[names].iter().any(|text| is_bracketed(text)));
        // Two words in a row may be anything.
        let several = self.columns.first().is_some_and(|values| values.len() > 1);
        let numbered = names.is_some_and(|names| self.is_numbered(names));
        // Partitions have sums of CPUs too.
        let resources = gres || (has(What::CpusState) && numbered);
        let sure = resources || (has(What::State) && (several || numbered || has(What::Count)));
        let shares = lists && has(What::Partition) && self.what.len() <= 3;
        !jobs && ((names.is_some() && (sure || shares)) || (has(What::Count) && (gres || has(What::State))))
    }
}

fn name_count(text: &str) -> u64 {
    let several = text.contains([',', '[']);
    if several { hostlist::expand(text).map_or(0, |names| names.len() as u64) } else { 1 }
}

fn are_fours(numbers: &[u64]) -> bool {
    numbers.iter().all(|&number| number >= 4 && number.is_multiple_of(4))
}

/// Returns which of several numbers says how many nodes a line stands for; CPUs come in fours.
fn node_count(numbers: &[(usize, Vec<u64>)]) -> Option<usize> {
    let fours = |(_, all): &&(usize, Vec<u64>)| are_fours(all);
    match numbers {
        [] => None,
        [_] => Some(0),
        several => {
            let others = several.iter().filter(|column| !fours(column)).count();
            (others == 1).then(|| several.iter().position(|column| !fours(&column)))?
        }
    }
}
