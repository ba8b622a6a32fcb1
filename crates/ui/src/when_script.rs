//! When a script would start, and the changes that make it start sooner, as text.

use std::fmt::Write as _;

use crate::text::wrap;
use crate::{Align, Table, Terminal};

/// A change of a script, as the texts of a table row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptRow {
    pub starts: String,
    pub sooner: String,
    /// When the job finishes, if known.
    pub done: Option<String>,
    pub change: String,
    pub costs: String,
    /// Whether Slurm may stop other jobs of the user for the change.
    pub stops_own: bool,
}

/// A changed or added line of a script.
#[derive(Clone, Copy, Debug)]
pub struct DiffLine<'a> {
    pub line: usize,
    pub before: Option<&'a str>,
    pub after: &'a [String],
}

/// Returns sentences, the table of changes and notes.
pub fn script_text(sentences: &[String], rows: &[ScriptRow], notes: &[String], terminal: Terminal) -> String {
    let mut text = String::new();
    for sentence in sentences {
        let _ = writeln!(text, "{}", wrap(sentence, terminal.width(), "  "));
    }
    let numbered = || (1..).zip(rows);
    let (stopping, others): (Vec<_>, Vec<_>) = numbered().partition(|(_, row)| row.stops_own);
    if !others.is_empty() {
        text.push('\n');
        text.push_str(&table(&others).show(terminal));
    }
    if !stopping.is_empty() {
        text.push_str("\nAt the cost of another job of yours:\n");
        text.push_str(&table(&stopping).show(terminal));
    }
    if !notes.is_empty() {
        text.push('\n');
    }
    for note in notes {
        let _ = writeln!(text, "{}", wrap(note, terminal.width(), "  "));
    }
    text
}

fn table(rows: &[(usize, &ScriptRow)]) -> Table {
    let has_done = rows.iter().all(|(_, row)| row.done.is_some());
    let mut headings = vec![("", Align::Right), ("STARTS", Align::Left), ("SOONER BY", Align::Left)];
    headings.extend(has_done.then_some(("DONE", Align::Left)));
    headings.extend([("CHANGE", Align::Left), ("COSTS YOU", Align::Left)]);
    let mut table = Table::new(&headings);
    for (number, row) in rows {
        let mut cells = vec![number.to_string(), row.starts.clone(), row.sooner.clone()];
        cells.extend(row.done.clone().filter(|_| has_done));
        cells.extend([row.change.clone(), row.costs.clone()]);
        table.row(cells);
    }
    table
}

/// Returns the changes of a script, line by line.
pub fn script_diff(name: &str, lines: &[DiffLine]) -> String {
    let mut text = format!("--- {name}\n+++ {name}\n");
    for DiffLine { line, before, after } in lines {
        let place = if before.is_some() { "line" } else { "after line" };
        let _ = writeln!(text, "@@ {place} {line} @@");
        if let Some(old) = before {
            let _ = writeln!(text, "-{old}");
        }
        for new in *after {
            let _ = writeln!(text, "+{new}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_diff_has_the_lines_and_their_numbers() {
        let after = ["#SBATCH -t 8".to_owned()];
        let added = ["#SBATCH --mem=1G".to_owned()];
        let lines = [
            DiffLine { line: 2, before: Some("#SBATCH -t 9"), after: &after },
            DiffLine { line: 3, before: None, after: &added },
        ];
        assert_eq!(
            script_diff("a.sh", &lines),
            "--- a.sh\n+++ a.sh\n@@ line 2 @@\n-#SBATCH -t 9\n+#SBATCH -t 8\n@@ after line 3 @@\n+#SBATCH --mem=1G\n"
        );
    }
}
