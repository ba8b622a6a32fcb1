//! Plans that trade off mean completion time, fairness and cost: a picture and a table.

use std::fmt::Write as _;

use hsched_model::number::{to_f64, to_usize};
use hsched_model::{Seconds, Unit};

use crate::quantity::{duration, percent};
use crate::text::wrap;
use crate::{Align, Table, Terminal};

/// The metrics of a plan.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ParetoRow {
    /// Number of placed jobs.
    pub placed: usize,
    /// Mean completion time, in seconds.
    pub mean: f64,
    pub fairness: f64,
    pub cost: Option<f64>,
    /// Upper bound on the relative distance between its mean and the smallest mean of any plan that is at
    /// least as fair.
    pub gap: Option<f64>,
}

/// Height of the picture in lines, and its width on a wide terminal.
const LINES: usize = 10;
const COLUMNS: usize = 60;

/// Columns of the axis labels.
const MARGIN: usize = 9;

/// Returns the picture (if there are several plans), the table and the notes; `jobs` is the number of all
/// jobs.
pub fn pareto_text(
    rows: &[ParetoRow],
    unit: Option<Unit>,
    jobs: usize,
    notes: &[String],
    terminal: Terminal,
) -> String {
    let mut text = String::new();
    if let Some(first) = rows.first() {
        let plans = if rows.len() == 1 { "1 plan".to_owned() } else { format!("{} plans", rows.len()) };
        // Writing to a `String` cannot fail.
        let _ = writeln!(
            text,
            "{plans} for {} of {jobs} jobs; no other plan found beats one of them\n",
            first.placed
        );
        if rows.len() > 1 {
            text.push_str(&picture(rows, terminal.width()));
            text.push('\n');
        }
        text.push_str(&table(rows, unit).show(terminal));
        let legend = "GAP: how far the mean completion time is at most above that of any plan at least as fair; \
                      --format json has the plans, each as submit reads it";
        let _ = writeln!(text, "\n{}", wrap(legend, terminal.width(), "  "));
    } else {
        let _ = writeln!(text, "no job is placed; hsched plan says why");
    }
    for note in notes {
        let _ = writeln!(text, "{}", wrap(note, terminal.width(), "  "));
    }
    text
}

fn table(rows: &[ParetoRow], unit: Option<Unit>) -> Table {
    let cost = unit.map(|unit| match unit {
        Unit::Billing => "BILLING-HOURS",
        Unit::Rgu => "RGU-HOURS",
    });
    let mut headings = vec![
        ("PLAN", Align::Right),
        ("MEAN", Align::Right),
        ("VS FIRST", Align::Right),
        ("FAIRNESS", Align::Right),
    ];
    headings.extend(cost.map(|unit| (unit, Align::Right)));
    headings.push(("GAP", Align::Right));
    let mut table = Table::new(&headings);
    for (number, row) in rows.iter().enumerate() {
        let mut cells = vec![
            mark(number).to_string(),
            duration(Seconds(row.mean)),
            format!("+{:.1} %", 100.0 * (row.mean / rows[0].mean - 1.0)),
            format!("{:.4}", row.fairness),
        ];
        if unit.is_some() {
            cells.push(row.cost.map_or_else(|| "-".to_owned(), |cost| format!("{cost:.1}")));
        }
        cells.push(match row.gap {
            None => "-".to_owned(),
            Some(gap) if gap <= 1e-9 => "none".to_owned(),
            Some(gap) => percent(gap),
        });
        table.row(cells);
    }
    table
}

/// Returns the character for a plan: 1 to 9, then letters, then `*`.
fn mark(number: usize) -> char {
    u32::try_from(number + 1).ok().and_then(|number| char::from_digit(number, 36)).unwrap_or('*')
}

/// Draws the plans with mean completion time to the right and fairness upwards.
fn picture(rows: &[ParetoRow], width: usize) -> String {
    let columns = COLUMNS.min(width.saturating_sub(MARGIN + 2)).max(10);
    let range = |value: fn(&ParetoRow) -> f64| {
        let all = rows.iter().map(value);
        all.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), figure| {
            (low.min(figure), high.max(figure))
        })
    };
    let (means, fairness) = (range(|row| row.mean), range(|row| row.fairness));
    let mut cells = vec![vec![' '; columns]; LINES];
    // If several fall into one cell, the first is shown.
    for (number, row) in rows.iter().enumerate().rev() {
        let line = LINES - 1 - place(row.fairness, fairness, LINES);
        cells[line][place(row.mean, means, columns)] = mark(number);
    }
    let mut text = format!("{:>MARGIN$}\n", "fairness");
    for (number, row) in cells.iter().enumerate() {
        let label = match number {
            0 => format!("{:.4}", fairness.1),
            _ if number == LINES - 1 => format!("{:.4}", fairness.0),
            _ => String::new(),
        };
        let row: String = row.iter().collect();
        let _ = writeln!(text, "{label:>MARGIN$} │{}", row.trim_end());
    }
    let _ = writeln!(text, "{:>MARGIN$} └{}", "", "─".repeat(columns));
    let (low, high) = (duration(Seconds(means.0)), duration(Seconds(means.1)));
    let rest = columns.saturating_sub(low.chars().count());
    let _ = writeln!(text, "{:>MARGIN$}  {low}{high:>rest$}", "mean");
    text
}

/// Returns the index of the cell, of `count`, that is nearest to a value between two bounds.
fn place(value: f64, (low, high): (f64, f64), count: usize) -> usize {
    let part = if high > low { (value - low) / (high - low) } else { 0.0 };
    to_usize((part.clamp(0.0, 1.0) * to_f64(count - 1)).round())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans_stand_where_their_figures_are() {
        let row = |mean, fairness| ParetoRow { placed: 4, mean, fairness, cost: None, gap: Some(0.0) };
        let text = picture(&[row(100.0, 0.5), row(150.0, 0.9), row(200.0, 1.0)], 32);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 13, "{text}");
        assert_eq!(lines[1], "   1.0000 │                    3", "{text}");
        assert_eq!(lines[3], "          │          2", "{text}");
        assert_eq!(lines[10], "   0.5000 │1", "{text}");
        assert_eq!(lines[12], "     mean  100.0 s       200.0 s", "{text}");
        assert_eq!((mark(8), mark(9), mark(40)), ('9', 'a', '*'));
    }
}
