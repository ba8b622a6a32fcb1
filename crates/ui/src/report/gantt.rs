//! The chart of GPUs over time as SVG for papers: one row per GPU, one bar per job on it.

use std::fmt::Write as _;

use super::chart::{STROKES, document};
use super::data::{Report, ReportRun};
use super::page::escaped;
use super::timeline::rows;
use crate::text::shortened;
use hsched_model::number::to_f64;

/// Width of both columns of a page in points, and the margin for names.
pub(super) const WIDTH: f64 = 516.0;
const LEFT: f64 = 62.0;
/// Font size of names, and the maximum number of letters in the margin.
const SMALL: f64 = 6.0;
const MOST_LETTERS: usize = 18;
/// Maximum and minimum height of a row.
const HIGHEST: f64 = 10.0;
const LOWEST: f64 = 1.5;
/// Height of all rows together, unless a row would then exceed its maximum or fall below its minimum height.
const HEIGHT: f64 = 320.0;

/// Returns the chart of a run; `None` if no job ran.
pub(super) fn gantt_svg(report: &Report, run: &ReportRun) -> Option<String> {
    let (begin, end) = report.times()?;
    if run.spans.is_empty() {
        return None;
    }
    let height = (HEIGHT / to_f64(report.gpus.len())).clamp(LOWEST, HIGHEST);
    let all = height * to_f64(report.gpus.len());
    let x = |time: f64| LEFT + (time - begin) / (end - begin) * (WIDTH - LEFT - 6.0);
    let y = |place: usize| 4.0 + height * to_f64(place);
    let mut out = document(WIDTH, all + 20.0);
    // Writing to a `String` cannot fail.
    let _ = writeln!(
        out,
        "<defs><pattern id=\"restart\" width=\"3\" height=\"3\" patternUnits=\"userSpaceOnUse\" patternTransform=\"rotate(45)\">\
         <rect width=\"3\" height=\"3\" fill=\"#fff\"/><path d=\"M0 0V3\" stroke=\"#000\"/></pattern></defs>"
    );
    let mut named = f64::NEG_INFINITY;
    for (place, gpu) in report.gpus.iter().enumerate().filter(|(_, gpu)| gpu.index == 0) {
        let top = y(place);
        let _ = writeln!(out, "<path d=\"M0 {top:.1}H{WIDTH}\" stroke=\"#ccc\" stroke-width=\"0.4\"/>");
        // Names must not overlap.
        if top - named >= SMALL {
            named = top;
            let name = shortened(&format!("{} {}", gpu.node, gpu.gpu_type), MOST_LETTERS);
            let _ = writeln!(
                out,
                "<text x=\"0\" y=\"{:.1}\" font-size=\"{SMALL}\">{}</text>",
                top + SMALL,
                escaped(&name)
            );
        }
    }
    for span in &run.spans {
        let colour = STROKES[span.job % STROKES.len()].0;
        let (from, work, until) = (x(span.start), x(span.work), x(span.end));
        for (first, count) in rows(&span.gpus) {
            let (top, tall) = (y(first), height * to_f64(count));
            let _ = writeln!(
                out,
                "<rect x=\"{from:.1}\" y=\"{top:.1}\" width=\"{:.1}\" height=\"{tall:.1}\" fill=\"{colour}\" fill-opacity=\"0.45\" \
                 stroke=\"#fff\" stroke-width=\"0.3\"/>",
                (until - from).max(0.2)
            );
            if work - from > 0.5 {
                let _ = writeln!(
                    out,
                    "<rect x=\"{from:.1}\" y=\"{top:.1}\" width=\"{:.1}\" height=\"{tall:.1}\" fill=\"url(#restart)\"/>",
                    work - from
                );
            }
            let name = &report.jobs[span.job].name;
            if until - from > 4.0 * to_f64(name.chars().count()) && tall > 6.0 {
                let _ = writeln!(
                    out,
                    "<text x=\"{:.1}\" y=\"{:.1}\" font-size=\"{SMALL}\">{}</text>",
                    from + 2.0,
                    top + tall / 2.0 + 2.0,
                    escaped(name)
                );
            }
        }
    }
    time_axis(&mut out, (begin, end), x, all + 4.0);
    Some(out + "</svg>\n")
}

/// Possible intervals between the marks of an axis, in seconds, with their unit.
const STEPS: [(f64, f64, &str); 17] = [
    (1.0, 1.0, "s"),
    (5.0, 1.0, "s"),
    (15.0, 1.0, "s"),
    (60.0, 60.0, "min"),
    (300.0, 60.0, "min"),
    (900.0, 60.0, "min"),
    (1800.0, 60.0, "min"),
    (3600.0, 3600.0, "h"),
    (10_800.0, 3600.0, "h"),
    (21_600.0, 3600.0, "h"),
    (43_200.0, 3600.0, "h"),
    (86_400.0, 86_400.0, "d"),
    (172_800.0, 86_400.0, "d"),
    (432_000.0, 86_400.0, "d"),
    (864_000.0, 86_400.0, "d"),
    (2_592_000.0, 86_400.0, "d"),
    (8_640_000.0, 86_400.0, "d"),
];

/// Draws an axis of the time since `begin` at a height, with at most eleven marks at round times.
pub(super) fn time_axis(out: &mut String, (begin, end): (f64, f64), x: impl Fn(f64) -> f64, y: f64) {
    let rough = (end - begin) / 10.0;
    let found = STEPS.into_iter().find(|(step, _, _)| *step >= rough);
    let (step, unit, name) = found.unwrap_or((rough, rough, ""));
    let (first, last) = (x(begin), x(end));
    let _ = writeln!(out, "<path d=\"M{first:.1} {y:.1}H{last:.1}\" stroke=\"#000\" stroke-width=\"0.5\"/>");
    for time in (0..=10_u32).map(|number| step * f64::from(number)).take_while(|time| begin + time <= end) {
        let at = x(begin + time);
        let text = if time > 0.0 { format!("{} {name}", time / unit) } else { "0".to_owned() };
        let _ = writeln!(
            out,
            "<path d=\"M{at:.1} {y:.1}v3\" stroke=\"#000\" stroke-width=\"0.5\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{text}</text>",
            at.min(WIDTH - 12.0),
            y + 11.0
        );
    }
}
