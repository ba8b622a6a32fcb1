//! The chart of GPUs over time as SVG for papers: one row per GPU, one bar per job on it.

use std::fmt::Write as _;

use super::chart::{STROKES, document};
use super::data::{Report, ReportRun};
use super::page::escaped;
use super::timeline::rows;
use crate::ui::quantity::duration;
use hsched_model::Seconds;
use hsched_model::number::to_f64;

/// Width of both columns of a page in points, and the margin for names.
const WIDTH: f64 = 516.0;
const LEFT: f64 = 62.0;
/// Maximum height of a row, which is that of letters.
const HIGHEST: f64 = 10.0;
const LOWEST: f64 = 1.5;
/// Height of all rows together if there are many.
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
    let mut out = document(WIDTH, all + 22.0);
    // Writing to a `String` cannot fail.
    let _ = writeln!(
        out,
        "<defs><pattern id=\"restart\" width=\"3\" height=\"3\" patternUnits=\"userSpaceOnUse\" patternTransform=\"rotate(45)\">\
         <rect width=\"3\" height=\"3\" fill=\"#fff\"/><path d=\"M0 0V3\" stroke=\"#000\"/></pattern></defs>"
    );
    for (place, gpu) in report.gpus.iter().enumerate() {
        if gpu.index == 0 {
            let _ = writeln!(
                out,
                "<path d=\"M0 {0:.1}H{WIDTH}\" stroke=\"#ccc\" stroke-width=\"0.4\"/>\
                 <text x=\"0\" y=\"{1:.1}\" font-size=\"6\">{2}</text>",
                y(place),
                y(place) + 6.5,
                escaped(&format!("{} {}", gpu.node, gpu.gpu_type))
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
                "<rect x=\"{from:.1}\" y=\"{top:.1}\" width=\"{:.1}\" height=\"{tall:.1}\" fill=\"{colour}\" fill-opacity=\"0.55\" \
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
                    "<text x=\"{:.1}\" y=\"{:.1}\" font-size=\"6\">{}</text>",
                    from + 2.0,
                    top + tall / 2.0 + 2.0,
                    escaped(name)
                );
            }
        }
    }
    for part in 0..=4_u32 {
        let time = begin + (end - begin) * f64::from(part) / 4.0;
        let anchor = ["start", "middle", "middle", "middle", "end"][usize::try_from(part).unwrap_or(0)];
        let _ = writeln!(
            out,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\">{}</text>",
            x(time),
            all + 15.0,
            duration(Seconds(time - begin))
        );
    }
    Some(out + "</svg>\n")
}
