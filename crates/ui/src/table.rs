//! Plain tables without borders that fit a width; wide cells wrap between words.

use std::collections::BTreeMap;

use tabled::builder::Builder;
use tabled::settings::object::{Columns, Rows};
use tabled::settings::{Alignment, Color, Modify, Padding, Style};

use crate::Terminal;
use crate::text::{shortened, unbroken, wrap, wrap_cut};

/// Spaces between columns.
const GAP: usize = 2;

/// Indent of notes below rows.
const NOTE: &str = "  ";

/// Maximum length of words that are not names, such as states and GPU types.
const SHORT: usize = 12;
/// Width below which columns are not narrowed.
const NARROWEST: usize = 6;

/// Rows of text under headings.
#[derive(Clone, Debug)]
pub struct Table {
    headings: Vec<(String, Align)>,
    rows: Vec<Vec<String>>,
    /// Notes below rows, by row number.
    notes: BTreeMap<usize, String>,
    /// Titles above rows, by row number.
    titles: BTreeMap<usize, String>,
}

/// Alignment of a column's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    /// Words, which are aligned to the left.
    Left,
    /// Numbers, which are aligned to the right.
    Right,
}

impl Table {
    /// Returns a table without rows.
    pub fn new(headings: &[(&'static str, Align)]) -> Self {
        Self::of_headings(headings.iter().map(|(heading, align)| ((*heading).to_owned(), *align)).collect())
    }

    /// Returns a table without rows whose headings are computed at run time.
    pub(super) fn of_headings(headings: Vec<(String, Align)>) -> Self {
        Self { headings, rows: Vec::new(), notes: BTreeMap::new(), titles: BTreeMap::new() }
    }

    /// Adds a row, one cell per heading.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// Adds a sentence below the last row.
    pub fn note(&mut self, text: String) {
        if let Some(last) = self.rows.len().checked_sub(1) {
            self.notes.insert(last, text);
        }
    }

    /// Adds a line above the next row.
    pub(super) fn title(&mut self, text: String) {
        self.titles.insert(self.rows.len(), text);
    }

    /// Returns whether the table has no rows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Returns whether the table fits a terminal with one line for each row.
    pub(super) fn fits(&self, terminal: Terminal) -> bool {
        let widths = self.whole_widths();
        widths.iter().sum::<usize>() + GAP * widths.len().saturating_sub(1) <= terminal.width()
    }

    /// Returns whether all words fit a width without being cut.
    pub(super) fn keeps_words(&self, width: usize) -> bool {
        let least = |(column, whole): (usize, usize)| {
            whole.min(self.longest_word(column).max(length(&self.headings[column].0)).max(NARROWEST))
        };
        let least = self.whole_widths().into_iter().enumerate().map(least);
        least.sum::<usize>() + GAP * self.headings.len().saturating_sub(1) <= width
    }

    /// Returns the table for a terminal. In a pipe or a file, words are never cut, so that programs find
    /// whole words.
    pub fn show(&self, terminal: Terminal) -> String {
        self.lines(terminal.width(), terminal.colour(), terminal.cuts())
    }

    /// Returns the table's lines, each with a line feed at its end. They are at most `width` columns long,
    /// unless the narrowest columns need more.
    pub fn render(&self, width: usize, colour: bool) -> String {
        self.lines(width, colour, true)
    }

    /// Returns the table's lines without cutting words that are longer than their column.
    pub(super) fn render_whole(&self, width: usize, colour: bool) -> String {
        self.lines(width, colour, false)
    }

    fn lines(&self, width: usize, colour: bool, cuts: bool) -> String {
        let wrap = if cuts { wrap_cut } else { wrap };
        let mut builder = Builder::default();
        builder.push_record(self.headings.iter().map(|(heading, _)| heading.as_str()));
        let widths = self.widths(width, cuts);
        // Heights of the rows in lines, headings first.
        let mut heights = vec![1];
        for row in &self.rows {
            let cell = |(cell, &width): (&String, &usize)| {
                // A single word that does not fit is shortened, because its parts on several lines would look
                // like several words.
                if cuts && unbroken(cell).len() == 1 { shortened(cell, width) } else { wrap(cell, width, "") }
            };
            let cells: Vec<String> = row.iter().zip(&widths).map(cell).collect();
            heights.push(cells.iter().map(|cell| cell.lines().count()).max().unwrap_or(1).max(1));
            builder.push_record(cells);
        }
        let mut table = builder.build();
        table.with(Style::empty());
        // Spaces between columns; those after the last column are removed below.
        table.with(Padding::new(0, GAP, 0, 0));
        for (column, (_, align)) in self.headings.iter().enumerate() {
            if *align == Align::Right {
                table.with(Modify::new(Columns::one(column)).with(Alignment::right()));
            }
        }
        if colour {
            table.with(Modify::new(Rows::first()).with(Color::BOLD));
        }
        let rendered = table.to_string();
        let mut lines = rendered.lines();
        let mut text = String::new();
        for (number, height) in heights.into_iter().enumerate() {
            let title = number.checked_sub(1).and_then(|row| self.titles.get(&row));
            for line in title.into_iter().flat_map(|title| wrapped(title, width)) {
                text.push_str(&line);
                text.push('\n');
            }
            for line in lines.by_ref().take(height) {
                text.push_str(line.trim_end());
                text.push('\n');
            }
            let note = number.checked_sub(1).and_then(|row| self.notes.get(&row));
            for line in note.into_iter().flat_map(|note| wrapped(note, width - NOTE.len())) {
                text.push_str(NOTE);
                text.push_str(&line);
                text.push('\n');
            }
        }
        text
    }

    /// Returns the widths of the columns: the widest are narrowed until all fit, first between words, and
    /// then within words if these may be cut.
    fn widths(&self, total: usize, cuts: bool) -> Vec<usize> {
        let mut widths = self.whole_widths();
        let room = total.saturating_sub(GAP * widths.len().saturating_sub(1));
        let headings: Vec<usize> =
            self.headings.iter().map(|(heading, _)| length(heading).max(NARROWEST)).collect();
        let words = headings.iter().enumerate().map(|(index, least)| self.longest_word(index).max(*least));
        let words: Vec<usize> = words.collect();
        // Names are shortened in the middle before short words such as states, and short words before numbers
        // lose a digit.
        let least_of = |may_lose: &dyn Fn(usize) -> bool| -> Vec<usize> {
            (0..words.len())
                .map(|place| if may_lose(place) { headings[place] } else { words[place] })
                .collect()
        };
        // Intervals, such as `(0.4–2.3)`, are aligned to the left, but they are numbers.
        let is_text = |place: usize| {
            self.headings[place].1 == Align::Left
                && self.longest_words(place).any(|word| word.contains(char::is_alphabetic))
        };
        let names = least_of(&|place| is_text(place) && words[place] > SHORT);
        let texts = least_of(&is_text);
        let stages = [words, names, texts, headings];
        for least in stages.iter().take(if cuts { stages.len() } else { 1 }) {
            while widths.iter().sum::<usize>() > room {
                let wider = widths.iter_mut().zip(least).filter(|(width, least)| **width > **least);
                match wider.max_by_key(|(width, _)| **width) {
                    Some((widest, _)) => *widest -= 1,
                    None => break,
                }
            }
        }
        widths
    }

    /// Returns the widths of the columns without line breaks.
    fn whole_widths(&self) -> Vec<usize> {
        let column = |(index, (heading, _)): (usize, &(String, Align))| {
            let cells = self.rows.iter().map(|row| length(&row[index]));
            cells.max().unwrap_or(0).max(length(heading))
        };
        self.headings.iter().enumerate().map(column).collect()
    }

    /// Returns the length of the longest word of a column that cannot be broken.
    fn longest_word(&self, column: usize) -> usize {
        self.words(column).map(|word| length(&word)).max().unwrap_or(0)
    }

    /// Returns the longest words of a column, which have the same length.
    fn longest_words(&self, column: usize) -> impl Iterator<Item = String> {
        let longest = self.longest_word(column);
        self.words(column).filter(move |word| length(word) == longest)
    }

    /// Returns the words of a column that cannot be broken.
    fn words(&self, column: usize) -> impl Iterator<Item = String> {
        self.rows.iter().flat_map(move |row| unbroken(&row[column]))
    }
}

fn wrapped(text: &str, width: usize) -> Vec<String> {
    wrap_cut(text, width, "").lines().map(str::to_owned).collect()
}

fn length(text: &str) -> usize {
    text.chars().count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_columns_fit_a_narrow_terminal() {
        let mut table = Table::new(&[("RUN", Align::Left); 7]);
        table.row(
            ["20261121-190801-a1b2c3", "17", "2 t4 + 1 v100", "a[1-2],b1", "4", "10 min 00 s", "lost a node"]
                .map(str::to_owned),
        );
        let text = table.render(60, false);
        assert!(text.lines().all(|line| line.chars().count() <= 60), "{text}");
    }

    #[test]
    fn names_lose_their_middle_before_states_do() {
        let mut table = Table::new(&[("JOB", Align::Left), ("STATE", Align::Left), ("HOURS", Align::Right)]);
        table.row(["bert-large-squad-0137", "completed", "1234.56"].map(str::to_owned));
        assert_eq!(
            table.render(32, false),
            "JOB           STATE        HOURS\nbert…ad-0137  completed  1234.56\n"
        );
        let narrow = table.render(24, false);
        assert!(narrow.contains("1234.56") && !narrow.contains("completed"), "{narrow}");
    }

    #[test]
    fn names_are_cut_before_intervals() {
        let mut table = Table::new(&[("JOB", Align::Left), ("STARTS", Align::Left)]);
        table.title("one:".to_owned());
        table.row(["resnet101", "0.6 h (0.4–2.3)"].map(str::to_owned));
        assert!(table.keeps_words(20) && !table.keeps_words(19));
        assert_eq!(table.render(18, false), "JOB      STARTS\none:\nre…t101  0.6 h\n         (0.4–2.3)\n");
    }

    #[test]
    fn no_word_is_cut_in_a_pipe() {
        let mut table = Table::new(&[("RUN", Align::Left), ("FILE", Align::Left)]);
        let path = "/a/long/path/of/a/file/that/nobody/types/again.out";
        table.row(["20261121-190801-a1b2c3".to_owned(), path.to_owned()]);
        table.note(path.repeat(2));
        assert!(!table.render(40, false).contains(path));
        let text = table.lines(40, false, false);
        assert!(text.contains(path) && text.contains("20261121-190801-a1b2c3"), "{text}");
    }

    #[test]
    fn wide_cells_wrap_between_words() {
        let mut table = Table::new(&[("JOB", Align::Left), ("GPUS", Align::Left), ("EPOCH", Align::Right)]);
        table.row(["a".into(), "2 v100 n1, 2 t4 n2, 1 p100 n3".into(), "83.8 s".into()]);
        table.row(["long-name".into(), "1 v100 n1".into(), "1 s".into()]);
        let text = table.render(34, false);
        let expected = "\
JOB        GPUS              EPOCH
a          2 v100 n1, 2 t4  83.8 s
           n2, 1 p100 n3
long-name  1 v100 n1           1 s
";
        assert_eq!(text, expected);
    }
}
