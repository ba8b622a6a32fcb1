//! Tables of `sinfo`: by partition, by node (`-N`), long (`-l`), or in the formats of `-o` and `-O`; with
//! header lines, or with columns given by the user or a prompt.

use std::collections::{BTreeMap, BTreeSet};

use super::clean::CleanLine;
use super::columns::Columns;
use super::error::{ASK, SavedError};
use super::fields::What;
use super::gather::{NodeStatements, TABLE};
use super::header::{CellLayout, Header};
use super::rows::{CutCell, read_reason, read_row};
use super::{looks, refusal};
use crate::record::{excerpt, value};

/// In a table with at most this many lines that are not rows, half of the lines must be rows; in others,
/// three quarters.
const ODD_LINES: usize = 5;

/// At most one of this many lines may be a row that cannot be read.
const LOST_LINES: usize = 10;

/// Columns about partitions rather than nodes.
const OF_PARTITIONS: [&str; 15] = [
    "PARTITION",
    "ALLOCNODES",
    "AVAIL",
    "DEFAULTTIME",
    "GROUPS",
    "JOB_SIZE",
    "MAX_CPUS_PER_NODE",
    "OVERSUBSCRIBE",
    "PREEMPT_MODE",
    "PRIORITY",
    "PRIO_JOB_FACTOR",
    "PRIO_TIER",
    "ROOT",
    "SHARE",
    "TIMELIMIT",
];

/// A header with the lines below it.
struct Section<'a> {
    header: Header,
    lines: Vec<&'a CleanLine<'a>>,
}

/// The tables in a text.
#[derive(Default)]
struct TableKinds<'a> {
    sections: Vec<Section<'a>>,
    /// Lines outside all tables.
    rest: Vec<&'a CleanLine<'a>>,
    /// The first line of a table whose columns are unknown.
    headerless: Option<usize>,
}

/// Adds the data of all tables among the lines; tables complement each other.
///
/// Returns the first line of a table that was not read because its columns are unknown.
pub(super) fn read(
    lines: &[CleanLine<'_>],
    columns: Option<&Columns>,
    gathering: &mut NodeStatements,
) -> Option<usize> {
    let mut tables = match columns {
        Some(columns) => TableKinds::of_columns(lines, columns),
        None => TableKinds::find(lines, gathering),
    };
    tables.find_touching();
    let has_gres = |sections: &[&Section<'_>]| sections.iter().any(|section| section.header.has(What::Gres));
    // If the user names the columns, the lines are nodes even if their states are listed with reasons.
    let is_meant = |header: &Header| columns.is_some() && header.has(What::State);
    let (nodes, reasons): (Vec<_>, Vec<_>) =
        tables.sections.iter().partition(|section| is_meant(&section.header) || section.header.shows_nodes());
    let (named, counted): (Vec<_>, Vec<_>) =
        nodes.into_iter().partition(|section| section.header.names().is_some());
    // Nodes without names may be the same as named ones elsewhere.
    let by_count = named.is_empty() || (has_gres(&counted) && !has_gres(&named));
    let (read, unread) = if by_count && gathering.is_empty() { (counted, named) } else { (named, counted) };
    if !read.is_empty() {
        gathering.found(TABLE);
        if !has_gres(&read) && !read.iter().any(|section| section.header.has(What::GresUsed)) {
            gathering.notes.say(format!("no GRES column: nodes count as having no GPUs; {ASK} prints them"));
        }
    }
    let unnamed = read.iter().filter(|section| section.header.names().is_none()).count();
    if unnamed > 1 {
        gathering.fail(SavedError::Counted);
    }
    for section in &read {
        section.read(gathering);
    }
    for line in unread.iter().flat_map(|section| &section.lines) {
        gathering.leave_out(line.number, &line.text, "another table shows the nodes");
    }
    for section in &reasons {
        section.lines.iter().for_each(|line| read_reason(&section.header, line, gathering));
    }
    tables.rest.iter().for_each(|line| gathering.leave_out(line.number, &line.text, ""));
    tables.headerless
}

impl<'a> TableKinds<'a> {
    /// Returns all lines except prompts and header lines as one table.
    fn of_columns(lines: &'a [CleanLine<'a>], columns: &Columns) -> Self {
        let is_row = |line: &&CleanLine<'_>| line.command.is_none() && Header::read(&line.text).is_none();
        let (lines, rest) = lines.iter().partition(is_row);
        let section = Section { header: columns.header().clone(), lines };
        Self { sections: vec![section], rest, headerless: None }
    }

    fn find(lines: &'a [CleanLine<'a>], gathering: &mut NodeStatements) -> Self {
        let mut tables = Self::default();
        // Lines without a header line, and the columns according to a prompt.
        let (mut run, mut asked): (Vec<&CleanLine<'_>>, Option<Header>) = (Vec::new(), None);
        let mut is_open = false;
        for line in lines {
            let header = Header::read(&line.text)
                .filter(|header| header.columns.len() > 1 || header.names().is_some());
            if let Some(name) = line.text.trim().strip_prefix("CLUSTER: ") {
                gathering.cluster(name.trim());
            } else if let Some(command) = &line.command {
                tables.close(&mut run, asked.take());
                asked = Columns::of_command(command).map(|columns| columns.header().clone());
                is_open = false;
            } else if let Some(header) = header {
                // A program that sorts lines may put the header line anywhere among them.
                let lines = if fits(&header, &run) { std::mem::take(&mut run) } else { Vec::new() };
                tables.close(&mut run, asked.take());
                tables.sections.push(Section { header, lines });
                is_open = true;
            } else if refusal::is_header_of_jobs(&line.text) {
                tables.close(&mut run, asked.take());
                tables.rest.push(line);
                is_open = false;
            } else if let (true, Some(section)) = (is_open, tables.sections.last_mut()) {
                section.lines.push(line);
            } else {
                run.push(line);
            }
        }
        tables.close(&mut run, asked);
        // Tables of jobs may have the same columns as those of nodes.
        for section in std::mem::take(&mut tables.sections) {
            if section.is_of_jobs() {
                tables.rest.extend(section.lines);
            } else {
                tables.sections.push(section);
            }
        }
        tables
    }

    /// Makes a table of adjacent lines without a header line, if a prompt gives their columns; otherwise, the
    /// lines belong to no table.
    fn close(&mut self, run: &mut Vec<&'a CleanLine<'a>>, asked: Option<Header>) {
        let lines = std::mem::take(run);
        // The typed command may not be the one that printed these lines.
        if let Some(header) = asked.filter(|header| fits(header, &lines)) {
            return self.sections.push(Section { header, lines });
        }
        let texts: Vec<&str> = lines.iter().map(|line| line.text.as_ref()).collect();
        // A header line that was not understood is not a row, and the lines below it do have a header.
        let is_headed = texts.iter().any(|text| refusal::has_field(text));
        if !is_headed && refusal::is_headerless(&texts) {
            self.headerless = self.headerless.or(lines.first().map(|line| line.number));
        }
        self.rest.extend(lines);
    }

    /// Finds tables with touching columns: their lines have fewer words, but match the layout of the header
    /// line.
    fn find_touching(&mut self) {
        for Section { header, lines, .. } in &mut self.sections {
            let has_places = header.columns.get(1).is_some_and(|column| column.word.0 > 0);
            let words = |line: &CleanLine<'_>| line.text.split_whitespace().count();
            let touching = lines.iter().any(|line| words(line) < header.columns.len());
            // A single odd line does not show the layout of the others.
            let fitting = lines.iter().filter(|line| header.slices(&line.text).is_some()).count();
            if header.layout == CellLayout::Blanks && has_places && touching && fitting * 2 > lines.len() {
                header.layout = CellLayout::Fixed;
            }
        }
    }
}

/// Returns whether at least half of the lines match the columns; false without lines.
fn fits(header: &Header, lines: &[&CleanLine<'_>]) -> bool {
    let fitting = lines.iter().filter(|line| header.cells(&line.text).is_some()).count();
    fitting > 0 && fitting * 2 >= lines.len()
}

impl Section<'_> {
    fn read(&self, gathering: &mut NodeStatements) {
        if self.header.names().is_none() {
            gathering.notes.say("the table has no node names; hsched numbers the nodes".to_owned());
            self.check_repeats(gathering);
        }
        let lines = self.lines.len();
        let (mut others, mut cut) = (Vec::new(), Vec::new());
        for line in &self.lines {
            if let Err(cell) = read_row(&self.header, line, gathering) {
                others.push(line);
                cut.extend(cell);
            }
        }
        if let Some(cell) = cut.iter().find(|cell| self.is_cut_by_width(cell, &cut)) {
            gathering.fail(SavedError::Cut { column: cell.name, text: excerpt(cell.text) });
        }
        let read = lines - others.len();
        // A few odd lines surround a table; many such lines, or several that are rows, are lost nodes.
        let lost = others.iter().filter(|line| self.header.is_meant(&line.text)).count();
        if lost * LOST_LINES > lines || read * 2 < lines || (others.len() > ODD_LINES && read * 4 < lines * 3)
        {
            gathering.fail(SavedError::Columns { read, lines, columns: self.header.columns.len() });
        }
        self.check_names(gathering);
    }

    /// Returns whether the width of its column has truncated a cell; otherwise the line itself is damaged.
    ///
    /// A width truncates several cells at the same place and leaves none longer.
    fn is_cut_by_width(&self, cell: &CutCell<'_>, all: &[CutCell<'_>]) -> bool {
        let is_alike =
            |other: &&CutCell<'_>| other.column == cell.column && other.text.len() == cell.text.len();
        let cells = self.lines.iter().filter_map(|line| self.header.cells(&line.text));
        let longest = cells.filter_map(|cells| value(cells[cell.column])).map(str::len).max();
        let has_width = self.header.may_truncate(cell.column) && longest <= Some(cell.text.len());
        all.len() * 2 >= self.lines.len() || has_width || all.iter().filter(is_alike).count() > 1
    }

    fn is_of_jobs(&self) -> bool {
        let of_job =
            |line: &&CleanLine<'_>| line.text.split(['|', ' ', '\t', ',', ';']).any(looks::is_job_state);
        !self.lines.is_empty() && self.lines.iter().all(of_job)
    }

    /// Refuses names that occur twice in a partition, or with contradictory data: sinfo prints each node once
    /// per partition, always with the same data, so these are truncated names.
    fn check_names(&self, gathering: &mut NodeStatements) {
        let Some(names) = self.header.names() else { return };
        let partition = self.header.position(What::Partition);
        let of_node = [What::Gres, What::GresUsed, What::CpusState].map(|what| self.header.position(what));
        let (mut seen, mut said) = (BTreeSet::new(), BTreeMap::new());
        let rows = || self.lines.iter().filter_map(|line| Some((&line.text, self.header.cells(&line.text)?)));
        let longest = rows().filter_map(|(_, cells)| value(cells[names])).map(str::len).max();
        for (line, cells) in rows() {
            let Some(name) = value(cells[names]) else { continue };
            // A column that holds longer names does not truncate shorter ones.
            if Some(name.len()) < longest || !self.header.may_be_cut(names, name, line) {
                continue;
            }
            let option = of_node.map(|index| index.map(|index| cells[index].trim()));
            let twice = partition.is_some_and(|partition| !seen.insert((name, cells[partition].trim())));
            if twice {
                gathering.fail(SavedError::Cut { column: "NODELIST", text: excerpt(name) });
            } else if *said.entry(name).or_insert(option) != option {
                gathering.fail(SavedError::Differ { name: excerpt(name) });
            }
        }
    }

    /// Refuses nodes without names if the same GPUs appear in the lines of several partitions, or in two
    /// identical lines (`-N`), because they may be the same nodes.
    fn check_repeats(&self, gathering: &mut NodeStatements) {
        let gres = self.header.position(What::Gres);
        let is_of_partition = |index: &usize| OF_PARTITIONS.contains(&self.header.columns[*index].name());
        let of_partition: Vec<usize> = (0..self.header.columns.len()).filter(is_of_partition).collect();
        let (mut first_in, mut seen) = (BTreeMap::<&str, Vec<&str>>::new(), BTreeSet::new());
        for cells in self.lines.iter().filter_map(|line| self.header.cells(&line.text)) {
            let partition: Vec<&str> = of_partition.iter().map(|&index| cells[index].trim()).collect();
            let gres = gres.map_or("", |gres| cells[gres].trim());
            let is_other = *first_in.entry(gres).or_insert_with(|| partition.clone()) != partition;
            if seen.insert(cells) && !is_other {
                continue;
            }
            if gres.contains("gpu") {
                gathering.fail(SavedError::Repeated { gres: gres.to_owned() });
            } else {
                let note = "nodes without GPUs that are in several partitions may be counted several times";
                gathering.notes.say(note.to_owned());
            }
        }
    }
}
