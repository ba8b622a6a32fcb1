//! Splits the lines of a table into the cells of its columns.

use super::fields::What;
use super::header::{CellLayout, Column, Header};
use super::looks;
use crate::amount;
use crate::record::value;

/// Maximum number of separators inside the values of a line.
const MOST_MARKS: usize = 12;

impl Column {
    /// Returns whether parts of a line between separators may form one value of this column.
    fn may_join(&self, parts: &[(usize, &str)], mark: char) -> bool {
        match self.what() {
            _ if self.is_text() => true,
            What::Gres | What::GresUsed if mark == ',' => {
                parts.len() == 1 || parts.iter().all(|(_, part)| part.contains(':'))
            }
            What::Nodes | What::Host if mark == ',' => parts.iter().all(|(_, part)| !part.contains(':')),
            What::ActiveFeatures | What::AvailableFeatures if mark == ',' => {
                !parts.iter().any(|(_, part)| looks::is_gres(part))
            }
            _ => parts.len() == 1,
        }
    }
}

impl Header {
    /// Returns the cells of a line, or `None` if it does not match these columns.
    pub(super) fn cells<'a>(&self, line: &'a str) -> Option<Vec<&'a str>> {
        match self.layout {
            CellLayout::Separated(mark) => self.separated_cells(line, mark),
            CellLayout::Blanks => self.words(line),
            CellLayout::Fixed => self.slices(line).or_else(|| self.words(line)),
        }
    }

    fn separated_cells<'a>(&self, line: &'a str, mark: char) -> Option<Vec<&'a str>> {
        let count = self.columns.len();
        let line = if mark == '\t' { line.trim_end_matches(' ') } else { line.trim() };
        let mut parts = split(line, mark);
        let is_empty = |part: Option<&(usize, &str)>| part.is_some_and(|(_, part)| part.trim().is_empty());
        let mut found = Vec::new();
        if mark == ',' && parts.len() > count {
            self.join(line, mark, &parts, Vec::new(), &mut found);
        }
        // Separators may also end and begin a line.
        if parts.len() > count && is_empty(parts.last()) {
            parts.pop();
        }
        if parts.len() > count && mark == '|' && is_empty(parts.first()) {
            parts.remove(0);
        }
        if parts.len() == count && mark != ',' {
            return Some(parts.iter().map(|&(_, part)| part).collect());
        }
        // The separator may also occur inside values; exactly one way to join the parts must be plausible.
        self.join(line, mark, &parts, Vec::new(), &mut found);
        found.dedup();
        found.truncate(2);
        found.pop().filter(|_| found.is_empty())
    }

    /// Adds to `found` all ways to join parts of a line into plausible cells, where a value may contain the
    /// separator.
    fn join<'a>(
        &self,
        line: &'a str,
        mark: char,
        parts: &[(usize, &'a str)],
        cells: Vec<&'a str>,
        found: &mut Vec<Vec<&'a str>>,
    ) {
        let Some(column) = self.columns.get(cells.len()) else {
            if parts.is_empty() && self.is_likely(&cells) {
                found.push(cells);
            }
            return;
        };
        let left = self.columns.len() - cells.len() - 1;
        if parts.len() > left + 1 + MOST_MARKS {
            return;
        }
        for taken in 1..=parts.len().saturating_sub(left) {
            let (joined, rest) = parts.split_at(taken);
            let (Some(first), Some(last)) = (joined.first(), joined.last()) else { return };
            if column.may_join(joined, mark) {
                let value = &line[first.0..last.0 + last.1.len()];
                self.join(line, mark, rest, [cells.as_slice(), &[value]].concat(), found);
            }
        }
    }

    /// Returns the words of a line as cells. Several rules are tried in turn; usually, each word is a cell,
    /// and there are as many words as columns.
    fn words<'a>(&self, line: &'a str) -> Option<Vec<&'a str>> {
        let (found, count) = (words(line), self.columns.len());
        let likely = |cells: &Vec<&'a str>| self.is_likely(cells);
        let one_by_one = || (found.len() == count).then(|| found.iter().map(|&(_, word)| word).collect());
        let below_names = || self.below_names(line, &found).filter(likely);
        // Most nodes have no reservation, so with a free-text column the number of words is ambiguous.
        let may_lack = self.columns.iter().any(|column| column.name() == "RESERVATION");
        if may_lack && self.columns.iter().any(Column::is_text) {
            return below_names();
        }
        let placed = if may_lack { below_names() } else { None };
        placed
            .or_else(|| one_by_one().filter(likely))
            .or_else(|| self.with_text(line, &found).filter(likely))
            .or_else(below_names)
            .or_else(|| self.with_a_gap(&found).filter(likely))
    }

    /// Returns the cells if the only free-text column has several words, or is the last column and empty.
    fn with_text<'a>(&self, line: &'a str, found: &[(usize, &'a str)]) -> Option<Vec<&'a str>> {
        let count = self.columns.len();
        let index = self.columns.iter().position(Column::is_text)?;
        let several = self.columns.iter().filter(|column| column.is_text()).count() > 1;
        if several || found.len() + 1 < count || (found.len() < count && index + 1 < count) {
            return None;
        }
        let last = (index + found.len()).saturating_sub(count);
        let text =
            if found.len() < count { "" } else { &line[found[index].0..found[last].0 + found[last].1.len()] };
        let before = found[..index].iter().map(|&(_, word)| word);
        Some(before.chain([text]).chain(found.iter().skip(last + 1).map(|&(_, word)| word)).collect())
    }

    /// Returns the cells if each word stands below one name of the header line, or continues the free text to
    /// its left. Cells of optional fields may be empty.
    fn below_names<'a>(&self, line: &'a str, found: &[(usize, &'a str)]) -> Option<Vec<&'a str>> {
        let mut cells = vec![""; self.columns.len()];
        let mut starts = vec![0; self.columns.len()];
        for &(start, word) in found {
            let end = start + word.len();
            let meets = |column: &&Column| column.has_name() && column.word.0 < end && start < column.word.1;
            let behind = |column: &Column| column.has_name() && column.word.1 <= start;
            let index = match self.columns.iter().filter(meets).count() {
                1 => self.columns.iter().position(|column| meets(&column))?,
                // A free text may be longer than the name of its column.
                0 => self.columns.iter().rposition(behind).filter(|&index| self.columns[index].is_text())?,
                _ => return None,
            };
            if cells[index].is_empty() {
                starts[index] = start;
            } else if !self.columns[index].is_text() {
                return None;
            }
            cells[index] = &line[starts[index]..end];
        }
        self.is_whole(&cells).then_some(cells)
    }

    /// Returns whether only cells of optional fields are empty.
    fn is_whole(&self, cells: &[&str]) -> bool {
        let is_zero = self.position(What::Count).is_some_and(|count| cells[count].trim() == "0");
        let may_lack = |column: &Column| match column.what() {
            What::Reason | What::Text | What::Other => true,
            What::Nodes => is_zero,
            _ => false,
        };
        cells.iter().zip(&self.columns).all(|(cell, column)| !cell.trim().is_empty() || may_lack(column))
    }

    /// Returns the cells if one is empty: the reservation of most nodes, or the nodes of an empty partition.
    fn with_a_gap<'a>(&self, found: &[(usize, &'a str)]) -> Option<Vec<&'a str>> {
        let gap = self.columns.iter().position(|column| column.name() == "RESERVATION");
        let last = self.columns.len() - 1;
        let gap = gap.or((self.columns[last].what() == What::Nodes).then_some(last))?;
        let mut cells: Vec<&str> = found.iter().map(|&(_, word)| word).collect();
        if cells.len() + 1 != self.columns.len() {
            return None;
        }
        cells.insert(gap, "");
        self.is_whole(&cells).then_some(cells)
    }

    /// Returns the cells between the columns' start positions, or `None` if the line does not have that
    /// layout.
    pub(super) fn slices<'a>(&self, line: &'a str) -> Option<Vec<&'a str>> {
        let ends = self.columns.iter().skip(1).map(|column| column.word.0).chain([usize::MAX]);
        let cell = |(column, end): (&Column, usize)| {
            let (start, end) = (column.word.0.min(line.len()), end.min(line.len()));
            line.get(start..end)
        };
        let cells: Vec<&str> = self.columns.iter().zip(ends).map(cell).collect::<Option<_>>()?;
        let fits = |(cell, column): (&&str, &Column)| {
            // With known widths, values may be right-aligned.
            let begins = !column.has_name() || !cell.starts_with(' ') || cell.trim().is_empty();
            begins && (column.is_text() || !cell.trim().contains(char::is_whitespace))
        };
        let fits = cells.iter().zip(&self.columns).all(fits);
        (fits && self.is_whole(&cells) && self.is_likely(&cells)).then_some(cells)
    }

    /// Returns whether every cell is plausible for its column.
    pub(super) fn is_likely(&self, cells: &[&str]) -> bool {
        let named = self.names().is_some_and(|index| cells[index].contains(|c: char| c.is_ascii_digit()));
        cells.iter().zip(&self.columns).all(|(cell, column)| {
            let Some(text) = value(cell) else { return true };
            let is_word = !text.contains(char::is_whitespace);
            match column.what() {
                What::Count => amount::count(text).is_some(),
                What::NodesState | What::CpusState => text.contains('/') || text == "?",
                // An unknown word may be a new state, or the line may not belong to the table.
                What::State => {
                    let is_one = |c: char| c.is_ascii_alphanumeric() || "_+-*~#!%$@^".contains(c);
                    text.chars().all(is_one) && !looks::is_job_state(text) && (named || looks::is_state(text))
                }
                What::Avail => {
                    ["up", "down", "drain", "inact"].iter().any(|candidate| text.starts_with(candidate))
                }
                What::Gres | What::GresUsed => {
                    is_word && text.starts_with(|c: char| c.is_ascii_alphabetic()) && text.contains(':')
                }
                What::TimeLimit => {
                    amount::is_unlimited(text) || text.starts_with(|c: char| c.is_ascii_digit())
                }
                What::Nodes | What::Host => is_word && !text.contains([':', '(']),
                What::Partition => is_word,
                _ => true,
            }
        })
    }
}

/// Returns the parts of a line between separators with their byte offsets; commas inside brackets do not
/// separate.
fn split(line: &str, mark: char) -> Vec<(usize, &str)> {
    let mut depth = 0_i32;
    let is_mark = |c: char| {
        depth += i32::from(matches!(c, '[' | '(')) - i32::from(matches!(c, ']' | ')'));
        c == mark && (mark != ',' || depth <= 0)
    };
    let mut start = 0;
    let place = |part| {
        let cell = (start, part);
        start += str::len(part) + mark.len_utf8();
        cell
    };
    line.split(is_mark).map(place).collect()
}

/// Returns the words of a line with their byte offsets.
pub(super) fn words(line: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    let mut rest = line;
    loop {
        let trimmed = rest.trim_start();
        if trimmed.is_empty() {
            return found;
        }
        let length = trimmed.find(char::is_whitespace).unwrap_or(trimmed.len());
        found.push((line.len() - trimmed.len(), &trimmed[..length]));
        rest = &trimmed[length..];
    }
}
