//! A learning curve and its expected continuation, drawn with characters.

use std::fmt::Write as _;

use hsched_model::number::{to_f64, to_usize};
use hsched_plan::curve::CurvePoint;

/// The data of a picture.
#[derive(Clone, Debug, PartialEq)]
pub struct CurvePicture<'a> {
    pub metric: &'a str,
    pub reports: &'a [CurvePoint],
    /// The expected values after the last report: epoch, mean, and the bounds of 90 % of cases.
    pub expected: Vec<(u64, f64, (f64, f64))>,
    pub target: Option<f64>,
    /// The last epoch.
    pub epochs: u64,
}

/// Height of the picture in lines, and its width on a wide terminal.
const LINES: usize = 12;
const COLUMNS: usize = 64;

/// Columns of the axis labels.
const MARGIN: usize = 11;

impl CurvePicture<'_> {
    /// Returns the minimum and maximum of the drawn values; if they are equal, a range of 1 around them.
    pub(super) fn range(&self) -> (f64, f64) {
        let reports = self.reports.iter().map(|report| report.value);
        let expected = self.expected.iter().flat_map(|(_, mean, (low, high))| [*mean, *low, *high]);
        let all = reports.chain(expected).chain(self.target);
        let (low, high) = all.fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), y| (l.min(y), h.max(y)));
        if high > low { (low, high) } else { (low - 0.5, high + 0.5) }
    }

    /// Returns the position between the first and the last epoch, from 0 to 1.
    pub(super) fn along(&self, epoch: u64) -> f64 {
        to_f64(epoch.saturating_sub(1)) / to_f64(self.epochs.saturating_sub(1).max(1))
    }
}

/// Returns the picture: `●` reports, `─` expected mean, `░` range of 90 % of cases, `┄` target.
pub fn curve_text(picture: &CurvePicture<'_>, width: usize) -> String {
    let columns = COLUMNS.min(width.saturating_sub(MARGIN + 1)).max(10);
    let (low, high) = picture.range();
    let line = |value: f64| place(1.0 - (value - low) / (high - low), LINES);
    let column = |epoch: u64| place(picture.along(epoch), columns);
    let mut cells = vec![vec![' '; columns]; LINES];
    if let Some(target) = picture.target {
        cells[line(target)].fill('┄');
    }
    // An epoch may be wider than a column.
    let mut done = picture.reports.last().map_or(0, |report| column(report.epoch) + 1);
    for (epoch, mean, (low, high)) in &picture.expected {
        let columns = done.min(column(*epoch))..=column(*epoch);
        done = columns.end() + 1;
        for row in &mut cells[line(*high)..=line(*low)] {
            row[columns.clone()].fill('░');
        }
        cells[line(*mean)][columns].fill('─');
    }
    for report in picture.reports {
        cells[line(report.value)][column(report.epoch)] = '●';
    }
    let mut text = String::new();
    for (number, row) in cells.iter().enumerate() {
        let value = high - (high - low) * to_f64(number) / to_f64(LINES - 1);
        let label = if number % 4 == 0 || number == LINES - 1 { short(value) } else { String::new() };
        let row: String = row.iter().collect();
        // Writing to a `String` cannot fail.
        let _ = writeln!(text, "{label:>9} │{}", row.trim_end());
    }
    let _ = writeln!(text, "{:>9} └{}", "", "─".repeat(columns));
    let last = format!("epoch {}", picture.epochs);
    let _ = writeln!(text, "{:>10} 1{last:>1$}", "", columns.saturating_sub(1));
    text
}

/// Returns the index of the cell, of `count`, that is nearest to a position from 0 to 1.
fn place(part: f64, count: usize) -> usize {
    let place = (part.clamp(0.0, 1.0) * to_f64(count - 1)).round();
    to_usize(place)
}

/// Returns a number in a few characters.
pub(super) fn short(value: f64) -> String {
    let size = value.abs();
    match () {
        () if size != 0.0 && !(1e-3..1e6).contains(&size) => format!("{value:.2e}"),
        () if size >= 1000.0 => format!("{value:.0}"),
        () if size >= 10.0 => format!("{value:.2}"),
        () => format!("{value:.4}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_band_and_target_are_drawn() {
        let reports: Vec<CurvePoint> = (1_u32..=6)
            .map(|epoch| CurvePoint { epoch: epoch.into(), value: 1.0 - 0.1 * f64::from(epoch) })
            .collect();
        let expected =
            (7_u32..=12).map(|epoch| (epoch.into(), 0.3, (0.4 - 0.02 * f64::from(epoch), 0.34))).collect();
        let picture =
            CurvePicture { metric: "loss", reports: &reports, expected, target: Some(0.2), epochs: 12 };
        let text = curve_text(&picture, 40);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 14, "{text}");
        assert_eq!(lines[0], "   0.9000 │●", "{text}");
        assert_eq!(lines[9].chars().filter(|&c| c == '─').count(), 15, "{text}");
        assert!(lines[10].contains('┄') && lines[13].ends_with("epoch 12"), "{text}");
    }

    #[test]
    fn one_value_is_a_curve_too() {
        let reports = [CurvePoint { epoch: 1, value: 3.0 }];
        let picture =
            CurvePicture { metric: "x", reports: &reports, expected: Vec::new(), target: None, epochs: 1 };
        assert!(curve_text(&picture, 20).contains('●'));
    }
}
