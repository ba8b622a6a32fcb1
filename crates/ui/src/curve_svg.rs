//! A learning curve and its expected continuation as an SVG picture for pages and papers.

use std::fmt::Write as _;

use crate::CurvePicture;
use crate::curve::short;

/// Size of the picture in pixels, and its margins: left, top, right, bottom.
const SIZE: (f64, f64) = (720.0, 400.0);
const ROOM: (f64, f64, f64, f64) = (70.0, 30.0, 20.0, 40.0);

/// Returns the picture as an SVG document.
pub fn curve_svg(picture: &CurvePicture<'_>) -> String {
    let (low, high) = picture.range();
    let (right, bottom) = (SIZE.0 - ROOM.2, SIZE.1 - ROOM.3);
    let x = |epoch: u64| ROOM.0 + picture.along(epoch) * (right - ROOM.0);
    let y = |value: f64| bottom - (value - low) / (high - low) * (bottom - ROOM.1);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} {1}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
         <text x=\"{2}\" y=\"18\">{3}</text>\n",
        SIZE.0,
        SIZE.1,
        ROOM.0,
        escaped(picture.metric)
    );
    // Writing to a `String` cannot fail.
    for part in 0..5 {
        let value = low + (high - low) * f64::from(part) / 4.0;
        let (at, label) = (y(value), short(value));
        let _ = writeln!(
            out,
            "<line x1=\"{}\" x2=\"{right}\" y1=\"{at:.1}\" y2=\"{at:.1}\" stroke=\"#ddd\"/>\
             <text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{label}</text>",
            ROOM.0,
            ROOM.0 - 6.0,
            at + 4.0
        );
    }
    let _ = writeln!(
        out,
        "<text x=\"{}\" y=\"{1}\">1</text><text x=\"{right}\" y=\"{1}\" text-anchor=\"end\">epoch {2}</text>",
        ROOM.0,
        bottom + 20.0,
        picture.epochs
    );
    let point = |epoch: u64, value: f64| format!("{:.1},{:.1}", x(epoch), y(value));
    let upper = picture.expected.iter().map(|(epoch, _, (_, high))| point(*epoch, *high));
    let lower = picture.expected.iter().rev().map(|(epoch, _, (low, _))| point(*epoch, *low));
    let band: Vec<String> = upper.chain(lower).collect();
    let mean: Vec<String> = picture.expected.iter().map(|(epoch, mean, _)| point(*epoch, *mean)).collect();
    let seen: Vec<String> = picture.reports.iter().map(|report| point(report.epoch, report.value)).collect();
    if !band.is_empty() {
        let _ =
            writeln!(out, "<polygon points=\"{}\" fill=\"#1f77b4\" fill-opacity=\"0.2\"/>", band.join(" "));
    }
    let line = |points: &[String], style: &str| {
        format!("<polyline points=\"{}\" fill=\"none\" {style}/>\n", points.join(" "))
    };
    out.push_str(&line(&mean, "stroke=\"#1f77b4\" stroke-dasharray=\"5 4\""));
    out.push_str(&line(&seen, "stroke=\"#1f77b4\" stroke-width=\"2\""));
    if let Some(target) = picture.target {
        let ends = [point(1, target), point(picture.epochs, target)];
        out.push_str(&line(&ends, "stroke=\"#d62728\" stroke-dasharray=\"2 3\""));
    }
    out.push_str("</svg>\n");
    out
}

/// Returns a text with escaped characters for XML.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use hsched_plan::curve::CurvePoint;

    #[test]
    fn a_picture_has_all_its_parts() {
        let reports = [CurvePoint { epoch: 1, value: 2.0 }, CurvePoint { epoch: 2, value: 1.0 }];
        let expected = vec![(3, 0.8, (0.5, 1.0)), (4, 0.7, (0.4, 1.0))];
        let picture =
            CurvePicture { metric: "a<b", reports: &reports, expected, target: Some(0.6), epochs: 4 };
        let svg = curve_svg(&picture);
        assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n") && svg.contains("a&lt;b"));
        assert_eq!((svg.matches("<polyline").count(), svg.matches("<polygon").count()), (3, 1));
        // The first report is the highest point; the lower bound at the last epoch is the lowest.
        assert!(svg.contains("70.0,30.0") && svg.contains("700.0,360.0"), "{svg}");
    }
}
