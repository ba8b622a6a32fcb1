//! The columns of a table, as named by its header line.

use super::cells::words;
use super::fields::{Field, What, in_header};
use super::refusal;

/// Width of reasons in sinfo's default formats.
const REASON_WIDTH: usize = 20;

/// A column of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Column {
    /// `None` if its content is unknown.
    pub field: Option<&'static Field>,
    /// Byte range of the header's word. Without a header line, the range is empty: at the start of a column
    /// of fixed width, else at 0.
    pub word: (usize, usize),
    /// Width, if known.
    pub width: Option<usize>,
}

/// The way in which a table's lines are split into cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CellLayout {
    Separated(char),
    /// By blanks.
    Blanks,
    /// By fixed column widths; columns may touch.
    Fixed,
}

/// A table's columns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub columns: Vec<Column>,
    pub layout: CellLayout,
}

impl Column {
    pub(super) fn what(&self) -> What {
        self.field.map_or(What::Other, |field| field.what)
    }

    /// Returns whether the column's values may contain blanks.
    pub(super) fn is_text(&self) -> bool {
        matches!(self.what(), What::Reason | What::Text)
    }

    /// Returns whether the column is named in a header line.
    pub(super) fn has_name(&self) -> bool {
        self.word.0 < self.word.1
    }

    pub(super) fn name(&self) -> &'static str {
        self.field.map_or("", |field| field.header)
    }
}

impl Header {
    /// Parses a line as a header, or returns `None`: every word must name a field. If the cells have
    /// separators, half of the cells are enough, provided that one of them is the column of node names and
    /// the line is not the header of a table of jobs.
    pub(super) fn read(line: &str) -> Option<Self> {
        let separated = ['|', ';', '\t', ','].into_iter().find_map(|mark| Self::separated(line, mark));
        separated.or_else(|| Self::blank(line))
    }

    fn separated(line: &str, mark: char) -> Option<Self> {
        let mut columns = Vec::new();
        let mut start = 0;
        for cell in line.split(mark) {
            let width = (cell.len() > cell.trim().len()).then_some(cell.len());
            let word = (start, start + cell.trim_end().len());
            columns.push(Column { field: in_header(cell.trim()), word, width });
            start += cell.len() + mark.len_utf8();
        }
        // Separators may also end and begin the line.
        let is_empty = |column: &Column| {
            line.get(column.word.0..column.word.1).is_none_or(|word| word.trim().is_empty())
        };
        columns.pop_if(|last| is_empty(last));
        if columns.first().is_some_and(is_empty) {
            columns.remove(0);
        }
        let known = columns.iter().filter(|column| column.field.is_some()).count();
        let header = Self { columns, layout: CellLayout::Separated(mark) };
        let is_known = known == header.columns.len() && known > 1;
        let is_alike = known > 1 && known * 2 >= header.columns.len() && header.names().is_some();
        (is_known || (is_alike && !refusal::is_header_of_jobs(line))).then_some(header)
    }

    fn blank(line: &str) -> Option<Self> {
        let mut columns: Vec<Column> = Vec::new();
        for (start, word) in words(line) {
            let field = in_header(word)?;
            let end = start + word.len();
            // A truncated name, or blanks after the last name, show the width of the column.
            let is_cut = word.len() < field.header.len();
            let is_padded = end < line.len() && line[end..].trim().is_empty();
            let width = if is_padded { Some(line.len() - start) } else { is_cut.then_some(word.len()) };
            columns.push(Column { field: Some(field), word: (start, end), width });
        }
        (!columns.is_empty()).then_some(Self { columns, layout: CellLayout::Blanks })
    }

    /// Returns the index of the first column with this content.
    pub(super) fn position(&self, what: What) -> Option<usize> {
        self.columns.iter().position(|column| column.what() == what)
    }

    /// Returns whether the table has a column with this content.
    pub(super) fn has(&self, what: What) -> bool {
        self.position(what).is_some()
    }

    /// Returns the index of the column with node names.
    pub(super) fn names(&self) -> Option<usize> {
        self.position(What::Nodes).or_else(|| self.position(What::Host))
    }

    /// Returns whether the table has the number of nodes that a line represents; NODES(A/I) omits some.
    pub(super) fn counts_nodes(&self) -> bool {
        self.has(What::Count) || self.columns.iter().any(|column| column.name() == "NODES(A/I/O/T)")
    }

    /// Returns whether the table lists nodes, and not only reasons why some are down (`sinfo -R`).
    pub(super) fn shows_nodes(&self) -> bool {
        let has_stamp = self.columns.iter().any(|column| column.name() == "TIMESTAMP");
        let is_reasons =
            self.has(What::Reason) && has_stamp && self.columns.len() <= 5 && !self.has(What::Gres);
        (self.names().is_some() && !is_reasons) || (self.counts_nodes() && self.columns.len() > 1)
    }

    /// Returns whether a line certainly belongs to these columns although it does not match them.
    pub(super) fn is_meant(&self, line: &str) -> bool {
        match self.layout {
            CellLayout::Separated(mark) => line.matches(mark).count() + 1 >= self.columns.len(),
            CellLayout::Blanks | CellLayout::Fixed => false,
        }
    }

    /// Returns whether a column may have a width that truncates its values.
    pub(super) fn may_truncate(&self, index: usize) -> bool {
        let has_width = self.columns.get(index).is_some_and(|column| column.width.is_some());
        has_width || !matches!(self.layout, CellLayout::Separated(_))
    }

    /// Returns whether a value fills its column, so that the rest may have been cut off.
    pub(super) fn is_full(&self, index: usize, cell: &str, line: &str) -> bool {
        let Some(column) = self.columns.get(index) else { return false };
        // sinfo makes these columns as wide as their longest value.
        if self.is_sinfos_own() && matches!(column.what(), What::Partition | What::Nodes) {
            return false;
        }
        let next = self.columns.get(index + 1).map(|next| next.word.0).filter(|&next| next > 0);
        let distance = next.map(|next| next - column.word.0);
        // A blank separates columns. If the name fills its column, the width of the column is ambiguous.
        let between = distance.map(|distance| distance - 1).filter(|&width| width > column.name().len());
        let shown = match self.layout {
            CellLayout::Fixed => distance,
            CellLayout::Blanks => between,
            CellLayout::Separated(_) => None,
        };
        let reason_width = (column.what() == What::Reason).then_some(REASON_WIDTH);
        let width = column.width.or(shown).or(reason_width);
        let whole = cell.len() == cell.trim_end().len();
        match width {
            Some(width)
                if self.layout == CellLayout::Blanks && column.has_name() && reason_width.is_none() =>
            {
                // Right-aligned values begin elsewhere.
                line.get(column.word.0..column.word.0 + width) == Some(cell)
            }
            Some(width) => whole && cell.len() == width,
            None => false,
        }
    }

    /// Returns whether a value may be the beginning of a longer one.
    ///
    /// A column truncates its name like its values, so a value shorter than the column's name is complete.
    pub(super) fn may_be_cut(&self, index: usize, cell: &str, line: &str) -> bool {
        let Some(column) = self.columns.get(index) else { return false };
        if self.is_sinfos_own() && column.what() == What::Nodes {
            return false;
        }
        let name = column.word.1 - column.word.0;
        let next = self.columns.get(index + 1).map_or(0, |next| next.word.0);
        let shown = next.saturating_sub(column.word.0 + 1).max(name);
        let is_open = match (self.layout, column.width) {
            (_, Some(_)) => false,
            (CellLayout::Separated(_), None) => cell.len() == name || !column.has_name(),
            (CellLayout::Blanks | CellLayout::Fixed, None) => cell.len() >= shown,
        };
        is_open || self.is_full(index, cell, line)
    }

    /// Returns whether the columns begin like sinfo's default ones.
    fn is_sinfos_own(&self) -> bool {
        let begins = |names: &[&str]| {
            names.len() <= self.columns.len()
                && names.iter().zip(&self.columns).all(|(name, column)| column.name() == *name)
        };
        begins(&["PARTITION", "AVAIL", "TIMELIMIT"]) || begins(&["NODELIST", "NODES", "PARTITION", "STATE"])
    }
}
