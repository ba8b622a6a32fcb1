//! Pages of the documentation in the terminal: headings, paragraphs, lists, tables and code, without link
//! markup.

use super::table::{Align, Table};
use super::terminal::Terminal;
use super::text::wrap;

/// Maximum width of prose and tables: longer lines are hard to read.
const WIDEST: usize = 100;

/// Indent of everything but headings.
const INDENT: &str = "  ";

/// Returns a page of Markdown as text for a terminal.
pub fn markdown_text(page: &str, terminal: Terminal) -> String {
    let mut text = String::new();
    for block in blocks(page) {
        if !text.is_empty() {
            text.push('\n');
        }
        text.push_str(&block.text(terminal));
    }
    text
}

/// A part of a page, such as a paragraph, a list or a table.
#[derive(Debug, PartialEq, Eq)]
enum Block<'a> {
    Heading(&'a str),
    Code(Vec<&'a str>),
    Rows(Vec<&'a str>),
    /// Items with their marks, such as `- ` or `1. `.
    List(Vec<String>),
    Paragraph(String),
}

/// Returns the blocks of a page; pictures are left out.
fn blocks(page: &str) -> Vec<Block<'_>> {
    let mut blocks = Vec::new();
    let mut lines = page.lines().peekable();
    while let Some(line) = lines.next() {
        if line.trim().is_empty() || line.starts_with("![") {
            continue;
        }
        if line.trim_start().starts_with("```") {
            blocks.push(Block::Code(
                lines.by_ref().take_while(|line| !line.trim_start().starts_with("```")).collect(),
            ));
        } else if let Some(heading) = heading(line) {
            blocks.push(Block::Heading(heading));
        } else if line.starts_with('|') {
            let mut rows = vec![line];
            while let Some(row) = lines.next_if(|line| line.starts_with('|')) {
                rows.push(row);
            }
            blocks.push(Block::Rows(rows));
        } else if is_item(line) {
            let mut items = vec![line.to_owned()];
            while let Some(line) = lines.next_if(|line| is_item(line) || is_prose(line)) {
                match items.last_mut().filter(|_| !is_item(line)) {
                    Some(item) => *item = format!("{item} {}", line.trim()),
                    None => items.push(line.to_owned()),
                }
            }
            blocks.push(Block::List(items));
        } else {
            let mut paragraph = line.to_owned();
            while let Some(line) = lines.next_if(|line| is_prose(line) && !is_item(line)) {
                paragraph = format!("{paragraph} {}", line.trim());
            }
            blocks.push(Block::Paragraph(paragraph));
        }
    }
    blocks
}

fn heading(line: &str) -> Option<&str> {
    let title = line.trim_start_matches('#');
    let level = line.len() - title.len();
    (1..=6).contains(&level).then(|| title.strip_prefix(' ')).flatten()
}

fn is_item(line: &str) -> bool {
    mark(line).is_some()
}

/// Returns the beginning of a list item: its indent and mark.
fn mark(line: &str) -> Option<&str> {
    let inner = line.trim_start();
    let digits = inner.len() - inner.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let after = if digits > 0 { inner[digits..].strip_prefix(". ") } else { inner.strip_prefix("- ") };
    after.map(|after| &line[..line.len() - after.len()])
}

/// Returns whether a line continues a paragraph.
fn is_prose(line: &str) -> bool {
    let begins = |begin| line.trim_start().starts_with(begin);
    !line.trim().is_empty() && !begins("```") && !line.starts_with('|') && heading(line).is_none()
}

impl Block<'_> {
    fn text(&self, terminal: Terminal) -> String {
        let width = terminal.width().min(WIDEST);
        match self {
            Self::Heading(title) if terminal.colour() => format!("\u{1b}[1m{}\u{1b}[0m\n", plain(title)),
            Self::Heading(title) => plain(title) + "\n",
            Self::Code(lines) => lines
                .iter()
                .map(|line| format!("{INDENT}{INDENT}{line}").trim_end().to_owned() + "\n")
                .collect(),
            Self::Rows(rows) => table(rows, terminal, width),
            Self::List(items) => items.iter().map(|item| list_item(item, width)).collect(),
            Self::Paragraph(text) => format!("{INDENT}{}\n", hanging(&plain(text), width, INDENT)),
        }
    }
}

/// Wraps a text with a hanging indent.
fn hanging(text: &str, width: usize, indent: &str) -> String {
    let lines = wrap(text, width.saturating_sub(indent.len()).max(1), "");
    lines.replace('\n', &format!("\n{indent}"))
}

fn list_item(item: &str, width: usize) -> String {
    let mark = mark(item).unwrap_or_default();
    let indent = " ".repeat(INDENT.len() + mark.len());
    format!("{INDENT}{mark}{}\n", hanging(&plain(&item[mark.len()..]), width, &indent))
}

/// Returns the rows of a table, without the line below its headings.
fn table(rows: &[&str], terminal: Terminal, width: usize) -> String {
    let is_rule = |row: &&&str| row.chars().all(|c| matches!(c, '|' | '-' | ':' | ' '));
    let mut records = rows.iter().filter(|row| !is_rule(row)).map(|row| cells(row));
    let headings = records.next().unwrap_or_default();
    let columns = headings.len();
    let mut table = Table::of_headings(headings.into_iter().map(|heading| (heading, Align::Left)).collect());
    for mut record in records {
        record.resize(columns, String::new());
        table.row(record);
    }
    let lines = table.render_whole(width - INDENT.len(), terminal.colour());
    lines.lines().map(|line| format!("{INDENT}{line}").trim_end().to_owned() + "\n").collect()
}

/// Returns the cells of a row: `\|` and bars in code do not end one.
fn cells(row: &str) -> Vec<String> {
    let mut cells = vec![String::new()];
    let mut in_code = false;
    let mut is_escaped = false;
    for character in row.trim().trim_start_matches('|').chars() {
        match character {
            '|' if !in_code && !is_escaped => cells.push(String::new()),
            _ => {
                in_code ^= character == '`';
                if let Some(cell) = cells.last_mut() {
                    if is_escaped && character == '|' {
                        cell.pop();
                    }
                    cell.push(character);
                }
            }
        }
        is_escaped = character == '\\';
    }
    // An empty text after the last bar is not a cell.
    if cells.last().is_some_and(|cell| cell.trim().is_empty()) {
        cells.pop();
    }
    cells.iter().map(|cell| plain(cell.trim())).collect()
}

/// Returns a text without the markup of links and emphasis; code keeps its backticks.
fn plain(text: &str) -> String {
    let mut plain = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('[') {
        let link = after.split_once("](").and_then(|(label, tail)| Some((label, tail.split_once(')')?.1)));
        let is_in_code = before.matches('`').count() % 2 == 1;
        if let Some((label, tail)) = link.filter(|(label, _)| !is_in_code && !label.contains('[')) {
            plain.push_str(before);
            plain.push_str(label);
            rest = tail;
            continue;
        }
        plain.push_str(before);
        plain.push('[');
        rest = after;
        if is_in_code && let Some((code, tail)) = rest.split_once('`') {
            plain.push_str(code);
            plain.push('`');
            rest = tail;
        }
    }
    plain.push_str(rest);
    plain.replace("**", "")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TerminalKind;

    fn check(page: &str, expected: &str) {
        let kind = TerminalKind { columns: Some(40), ..TerminalKind::default() };
        assert_eq!(markdown_text(page, Terminal::new(Some(false), kind)), expected);
    }

    #[test]
    fn prose_is_filled_and_links_lose_their_targets() {
        check(
            "# A page\n\nOne **word** and [a link](page.md#there), in lines\nof `any[0]` length [x].\n",
            "A page\n\n  One word and a link, in lines of\n  `any[0]` length [x].\n",
        );
    }

    #[test]
    fn lists_hang_and_code_stays_as_it_is() {
        check(
            "- first item that is long enough to need two lines\n- second\n  continues\n\n```sh\na   b\n```\n",
            "  - first item that is long enough to\n    need two lines\n  - second continues\n\n    a   b\n",
        );
    }

    #[test]
    fn tables_fit_the_terminal() {
        check(
            "| key | meaning |\n|---|---|\n| `a\\|b` | what the key means, in several words |\n",
            "  key    meaning\n  `a|b`  what the key means, in several\n         words\n",
        );
    }
}
