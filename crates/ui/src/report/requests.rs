//! The requests of `hsched when` as SVG for papers: a row for each, with its estimated start and finish.

use std::fmt::Write as _;

use super::chart::{FONT, STROKES, document};
use super::data::{Report, ReportOption};
use super::gantt::{WIDTH, time_axis};
use super::page::escaped;
use hsched_model::number::to_f64;

/// Height of a row, in points.
const ROW: f64 = 10.0;
/// Assumed width of a letter in names, whose lengths determine where the chart begins.
const LETTER: f64 = 0.52 * FONT;

/// Returns the chart; `None` if no request has an estimate.
pub(super) fn requests_svg(report: &Report) -> Option<String> {
    let rows: Vec<&ReportOption> = report.options.iter().filter(|option| option.finish_s.is_some()).collect();
    let end = rows.iter().filter_map(|row| row.finish_s).map(|[_, _, late]| late).max_by(f64::total_cmp)?;
    let longest = rows.iter().map(|row| name(row).chars().count()).max()?;
    let left = (LETTER * to_f64(longest) + 4.0).min(0.6 * WIDTH);
    let x = |time: f64| left + time / end.max(1.0) * (WIDTH - left - 6.0);
    let all = ROW * to_f64(rows.len());
    let mut out = document(WIDTH, all + 40.0);
    for (place, row) in rows.iter().enumerate() {
        let y = 4.0 + ROW * (to_f64(place) + 0.5);
        let weight = if row.chosen { "bold" } else { "normal" };
        // Writing to a String cannot fail.
        let _ = writeln!(
            out,
            "<path d=\"M{left:.1} {y:.1}H{WIDTH}\" stroke=\"#ddd\" stroke-width=\"0.4\"/>\
             <text x=\"0\" y=\"{:.1}\" font-weight=\"{weight}\">{}</text>",
            y + 2.8,
            escaped(&name(row))
        );
        for (number, times) in [row.start_s, row.finish_s].into_iter().enumerate() {
            if let Some(times) = times {
                interval(&mut out, number, y + [-1.2, 1.2][number], times.map(x));
            }
        }
    }
    time_axis(&mut out, (0.0, end), x, all + 4.0);
    let y = all + 34.0;
    for (number, (at, text)) in
        [(left, "start"), (left + 60.0, "finish: medians and 80 % intervals; bold: chosen")]
            .into_iter()
            .enumerate()
    {
        mark(&mut out, number, (at + 4.0, y - 2.8));
        let _ = writeln!(out, "<text x=\"{:.1}\" y=\"{y:.1}\">{text}</text>", at + 10.0);
    }
    Some(out + "</svg>\n")
}

/// Returns a short description of a request.
fn name(row: &ReportOption) -> String {
    let gpus = format!("{}: {} {}", row.job, row.gpus, row.gpu_type);
    [Some(gpus), row.partition.clone(), row.account.clone()]
        .into_iter()
        .flatten()
        .collect::<Vec<_>>()
        .join(" ")
}

fn interval(out: &mut String, number: usize, y: f64, [early, middle, late]: [f64; 3]) {
    let colour = STROKES[number].0;
    let _ =
        writeln!(out, "<path d=\"M{early:.1} {y:.1}H{late:.1}\" stroke=\"{colour}\" stroke-width=\"0.9\"/>");
    mark(out, number, (middle, y));
}

/// Draws a start as a dot and a finish as a hollow square, so that they differ even without colour.
fn mark(out: &mut String, number: usize, (x, y): (f64, f64)) {
    let colour = STROKES[number].0;
    let _ = match number {
        0 => writeln!(out, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"2\" fill=\"{colour}\"/>"),
        _ => writeln!(
            out,
            "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"3.6\" height=\"3.6\" fill=\"#fff\" stroke=\"{colour}\"/>",
            x - 1.8,
            y - 1.8
        ),
    };
}
