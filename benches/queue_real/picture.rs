//! Estimated against true waits as a chart: a point for each start and a line for its interval. Both axes are
//! logarithmic.

use std::fmt::Write as _;

/// Sides of the square and its margin.
const SIDE: f64 = 520.0;
const MARGIN: f64 = 56.0;
/// Range of the axes, in minutes; shorter and longer waits are at the edges.
const FROM: f64 = 5.0;
const TO: f64 = 6000.0;
const MARKS: [(f64, &str); 6] =
    [(5.0, "5 min"), (30.0, "30 min"), (120.0, "2 h"), (480.0, "8 h"), (1440.0, "1 d"), (5760.0, "4 d")];
/// Colours by number of GPUs.
const COLOURS: [(u32, &str); 4] = [(1, "#4477aa"), (2, "#228833"), (4, "#ccbb44"), (8, "#ee6677")];

/// The wait of a job and its estimate, in seconds.
pub struct Point {
    pub gpus: u32,
    pub low: f64,
    pub median: f64,
    pub high: f64,
    pub waited: f64,
}

/// Returns the picture as SVG.
pub fn svg(points: &[Point]) -> String {
    let size = SIDE + 2.0 * MARGIN;
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {size} {size}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"{size}\" height=\"{size}\" fill=\"white\"/>\n"
    );
    for (minutes, name) in MARKS {
        let (x, y) = (across(minutes * 60.0), up(minutes * 60.0));
        let (left, right) = (MARGIN, MARGIN + SIDE);
        let below = right + 18.0;
        let _ = writeln!(
            text,
            "<path d=\"M{x:.1} {left}V{right}M{left} {y:.1}H{right}\" stroke=\"#ddd\" fill=\"none\"/>\
             <text x=\"{x:.1}\" y=\"{below}\" text-anchor=\"middle\">{name}</text>\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{name}</text>",
            left - 6.0,
            y + 4.0,
        );
    }
    let (near, far) = (MARGIN, MARGIN + SIDE);
    let _ = writeln!(text, "<path d=\"M{near} {far}L{far} {near}\" stroke=\"#999\"/>");
    for point in points {
        let colour = COLOURS.iter().find(|(gpus, _)| *gpus == point.gpus).map_or("#888", |(_, name)| name);
        let (x, low, high) = (across(point.waited), up(point.low), up(point.high));
        let y = up(point.median);
        let _ = writeln!(
            text,
            "<path d=\"M{x:.1} {low:.1}V{high:.1}\" stroke=\"{colour}\" stroke-opacity=\".4\"/>\
             <circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" fill=\"{colour}\"/>"
        );
    }
    for (row, (gpus, colour)) in (0_u32..).zip(COLOURS) {
        let y = MARGIN + 16.0 + 18.0 * f64::from(row);
        let (dot, word) = (MARGIN + 14.0, MARGIN + 24.0);
        let _ = writeln!(
            text,
            "<circle cx=\"{dot}\" cy=\"{:.1}\" r=\"4\" fill=\"{colour}\"/><text x=\"{word}\" y=\"{y:.1}\">{gpus} GPU{}</text>",
            y - 4.0,
            if gpus == 1 { "" } else { "s" },
        );
    }
    let middle = size / 2.0;
    let _ = writeln!(
        text,
        "<text x=\"{middle}\" y=\"{:.1}\" text-anchor=\"middle\">true wait</text>\
         <text x=\"{middle}\" y=\"30\" text-anchor=\"middle\">foretold: median and interval</text>\n</svg>",
        size - 14.0,
    );
    text
}

/// Returns the position of a wait, from 0 to the side of the square.
fn place(seconds: f64) -> f64 {
    SIDE * ((seconds / 60.0).clamp(FROM, TO) / FROM).ln() / (TO / FROM).ln()
}

fn across(seconds: f64) -> f64 {
    MARGIN + place(seconds)
}

fn up(seconds: f64) -> f64 {
    MARGIN + SIDE - place(seconds)
}
