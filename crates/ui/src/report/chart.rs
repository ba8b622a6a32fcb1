//! Charts for papers as SVG: one column wide, with letters of 8 points and lines that differ without colour.

use std::fmt::Write as _;

use super::page::escaped;
use hsched_model::number::to_f64;

/// Width in points: one column of a two-column page, 3.5 inches.
const WIDTH: f64 = 252.0;
const HEIGHT: f64 = 160.0;
/// Margins: left, top, right, bottom.
const ROOM: (f64, f64, f64, f64) = (38.0, 8.0, 8.0, 30.0);
/// Font size and line height.
pub(super) const FONT: f64 = 8.0;
const LINE: f64 = 11.0;

/// Colours that are distinct for any colour vision (Okabe and Ito), and dash patterns that are distinct in
/// print.
pub(super) const STROKES: [(&str, &str); 7] = [
    ("#0072b2", ""),
    ("#d55e00", "5 2"),
    ("#009e73", "2 2"),
    ("#000000", "7 2 2 2"),
    ("#cc79a7", "1 2"),
    ("#56b4e9", "9 3"),
    ("#e69f00", "4 1 1 1"),
];

/// A chart of lines or dots.
#[derive(Clone, Debug)]
pub(super) struct Chart {
    pub x: Axis,
    pub y: Axis,
    pub series: Vec<Series>,
    /// Whether to draw the diagonal, on which both axes are equal.
    pub diagonal: bool,
}

/// An axis with its label.
#[derive(Clone, Debug)]
pub(super) struct Axis {
    pub label: String,
    pub is_log: bool,
    /// The lower end of the axis, if it is below all values. On a logarithmic axis, smaller values are drawn
    /// there.
    pub from: Option<f64>,
    /// The largest value that is shown, if it is larger than all others.
    pub to: Option<f64>,
}

/// A line or dots.
#[derive(Clone, Debug)]
pub(super) struct Series {
    pub name: String,
    pub shape: PointStyle,
    pub points: Vec<(f64, f64)>,
}

/// How points are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PointStyle {
    Line,
    /// A value is valid until the next one, the last one until the end.
    Steps,
    Dots,
}

/// An axis with the values that it shows.
struct Scale<'a> {
    axis: &'a Axis,
    low: f64,
    high: f64,
}

impl Axis {
    /// Returns a linear axis that begins at 0.
    pub(super) fn from_zero(label: &str) -> Self {
        Self { from: Some(0.0), ..Self::plain(label) }
    }

    /// Returns a linear axis that fits its values.
    pub(super) fn plain(label: &str) -> Self {
        Self { label: label.to_owned(), is_log: false, from: None, to: None }
    }
}

impl Chart {
    /// Returns the chart as an SVG document.
    pub(super) fn svg(&self) -> String {
        let points = || self.series.iter().flat_map(|series| &series.points);
        let (mut x, mut y) = (
            Scale::new(&self.x, points().map(|point| point.0)),
            Scale::new(&self.y, points().map(|point| point.1)),
        );
        if self.diagonal {
            let (low, high) = (x.low.min(y.low), x.high.max(y.high));
            (x.low, x.high, y.low, y.high) = (low, high, low, high);
        }
        let (right, bottom) = (WIDTH - ROOM.2, HEIGHT - ROOM.3);
        let at_x = |value: f64| ROOM.0 + x.along(value) * (right - ROOM.0);
        let at_y = |value: f64| bottom - y.along(value) * (bottom - ROOM.1);
        let legend = self.legend();
        let mut out = document(WIDTH, HEIGHT + legend.1);
        // Writing to a `String` cannot fail.
        for tick in y.ticks() {
            let _ = writeln!(
                out,
                "<line x1=\"{0}\" x2=\"{right}\" y1=\"{1:.1}\" y2=\"{1:.1}\" stroke=\"#ccc\" stroke-width=\"0.5\"/>\
                 <text x=\"{2}\" y=\"{3:.1}\" text-anchor=\"end\">{4}</text>",
                ROOM.0,
                at_y(tick),
                ROOM.0 - 3.0,
                at_y(tick) + 2.8,
                short(tick)
            );
        }
        for tick in x.ticks() {
            let _ = writeln!(
                out,
                "<line x1=\"{0:.1}\" x2=\"{0:.1}\" y1=\"{bottom}\" y2=\"{1}\" stroke=\"#000\" stroke-width=\"0.5\"/>\
                 <text x=\"{0:.1}\" y=\"{2}\" text-anchor=\"middle\">{3}</text>",
                at_x(tick),
                bottom + 3.0,
                bottom + 11.0,
                short(tick)
            );
        }
        let _ = writeln!(
            out,
            "<path d=\"M{0} {1}V{bottom}H{right}\" fill=\"none\" stroke=\"#000\" stroke-width=\"0.7\"/>\
             <text x=\"{2:.1}\" y=\"{3}\" text-anchor=\"middle\">{4}</text>\
             <text transform=\"translate(8 {5:.1}) rotate(-90)\" text-anchor=\"middle\">{6}</text>",
            ROOM.0,
            ROOM.1,
            f64::midpoint(ROOM.0, right),
            bottom + 22.0,
            escaped(&self.x.label),
            f64::midpoint(ROOM.1, bottom),
            escaped(&self.y.label)
        );
        if self.diagonal {
            let _ = writeln!(
                out,
                "<path d=\"M{:.1} {:.1}L{:.1} {:.1}\" stroke=\"#888\" stroke-width=\"0.7\" stroke-dasharray=\"2 2\"/>",
                at_x(x.low),
                at_y(x.low),
                at_x(x.high),
                at_y(x.high)
            );
        }
        for (series, (colour, dashes)) in self.series.iter().zip(STROKES.iter().cycle()) {
            series.draw(&mut out, colour, dashes, &at_x, &at_y);
        }
        out + &legend.0 + "</svg>\n"
    }

    /// Returns the legend below the chart, and its height; empty if there is only one line.
    fn legend(&self) -> (String, f64) {
        let (mut out, mut x, mut y) = (String::new(), ROOM.0, HEIGHT + 4.0);
        if self.series.len() < 2 {
            return (out, 0.0);
        }
        for (series, (colour, dashes)) in self.series.iter().zip(STROKES.iter().cycle()) {
            let width = 24.0 + 0.55 * FONT * to_f64(series.name.chars().count());
            if x > ROOM.0 && x + width > WIDTH {
                (x, y) = (ROOM.0, y + LINE);
            }
            let _ = writeln!(
                out,
                "<path d=\"M{x:.1} {0}h14\" stroke=\"{colour}\" stroke-width=\"1.4\" stroke-dasharray=\"{dashes}\"/>\
                 <text x=\"{1:.1}\" y=\"{2}\">{3}</text>",
                y - 2.5,
                x + 17.0,
                y,
                escaped(&series.name)
            );
            x += width;
        }
        (out, y - HEIGHT + 6.0)
    }
}

impl Series {
    fn draw(
        &self,
        out: &mut String,
        colour: &str,
        dashes: &str,
        at_x: &dyn Fn(f64) -> f64,
        at_y: &dyn Fn(f64) -> f64,
    ) {
        if self.shape == PointStyle::Dots {
            for (x, y) in &self.points {
                let _ = writeln!(
                    out,
                    "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"1.5\" fill=\"{colour}\" fill-opacity=\"0.6\"/>",
                    at_x(*x),
                    at_y(*y)
                );
            }
            return;
        }
        let mut path = String::new();
        for (place, (x, y)) in self.points.iter().enumerate() {
            let (x, y) = (at_x(*x), at_y(*y));
            let _ = match (place, self.shape) {
                (0, _) => write!(path, "M{x:.1} {y:.1}"),
                (_, PointStyle::Steps) => write!(path, "H{x:.1}V{y:.1}"),
                _ => write!(path, "L{x:.1} {y:.1}"),
            };
        }
        if self.shape == PointStyle::Steps {
            let _ = write!(path, "H{:.1}", WIDTH - ROOM.2);
        }
        let _ = writeln!(
            out,
            "<path d=\"{path}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.2\" stroke-dasharray=\"{dashes}\"/>"
        );
    }
}

impl<'a> Scale<'a> {
    fn new(axis: &'a Axis, values: impl Iterator<Item = f64>) -> Self {
        let least = axis.from.filter(|_| axis.is_log).unwrap_or(f64::MIN_POSITIVE);
        let values = values.filter(|value| value.is_finite() && (!axis.is_log || *value >= least));
        let range = |(low, high): (f64, f64), value: f64| (low.min(value), high.max(value));
        let ends = axis.from.into_iter().chain(axis.to);
        let (mut low, mut high) = values.chain(ends).fold((f64::INFINITY, f64::NEG_INFINITY), range);
        if low > high {
            (low, high) = (0.0, 1.0);
        }
        if high <= low {
            high = low + if low.abs() > 0.0 { low.abs() } else { 1.0 };
        }
        Self { axis, low, high }
    }

    /// Returns the position of a value, from 0 to 1.
    fn along(&self, value: f64) -> f64 {
        let of = |value: f64| if self.axis.is_log { value.max(self.low).ln() } else { value };
        ((of(value) - of(self.low)) / (of(self.high) - of(self.low))).clamp(0.0, 1.0)
    }

    /// Returns round values on the axis: powers of ten on a logarithmic axis that contains at least two,
    /// otherwise at most eight values.
    fn ticks(&self) -> Vec<f64> {
        if self.axis.is_log {
            let powers = (-9..15).map(|power| 10_f64.powi(power));
            let ticks: Vec<f64> = powers.filter(|tick| (self.low..=self.high).contains(tick)).collect();
            if ticks.len() > 1 {
                return ticks;
            }
        }
        let step = (self.high - self.low) / 5.0;
        let power = 10_f64.powf(step.log10().floor());
        let step =
            [1.0, 2.0, 5.0, 10.0].map(|part| part * power).into_iter().find(|candidate| *candidate >= step);
        let step = step.unwrap_or(power);
        let first = (self.low / step).ceil();
        let tick = |number: u32| (first + f64::from(number)) * step;
        (0..8).map(tick).take_while(|tick| *tick <= self.high + 1e-9 * step).collect()
    }
}

/// Returns the beginning of a document of this size.
pub(super) fn document(width: f64, height: f64) -> String {
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}pt\" height=\"{height}pt\" viewBox=\"0 0 {width} {height}\" \
         font-family=\"Helvetica, Arial, sans-serif\" font-size=\"{FONT}\">\n"
    )
}

/// Returns a short form of a number.
fn short(value: f64) -> String {
    let size = value.abs();
    let digits = |value: f64| format!("{value:.3}").trim_end_matches('0').trim_end_matches('.').to_owned();
    match size {
        _ if size >= 1e9 || size > 0.0 && size < 1e-3 => format!("{value:.0e}"),
        _ if size >= 1e6 => digits(value / 1e6) + " M",
        _ if size >= 1e4 => digits(value / 1e3) + " k",
        _ => digits(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ticks(is_log: bool, values: &[f64]) -> Vec<f64> {
        let axis = Axis { is_log, ..Axis::plain("") };
        Scale::new(&axis, values.iter().copied()).ticks()
    }

    #[test]
    fn ticks_are_round_and_few() {
        assert_eq!(ticks(false, &[0.0, 1.0]), [0.0, 0.2, 0.4, 0.2 * 3.0, 0.8, 1.0]);
        assert_eq!(ticks(false, &[3.0, 47.0]), [10.0, 20.0, 30.0, 40.0]);
        assert_eq!(ticks(true, &[2.0, 4000.0]), [10.0, 100.0, 1000.0]);
        assert_eq!(ticks(false, &[5.0]).len(), 6);
        assert!(!ticks(false, &[f64::NAN]).is_empty());
    }

    #[test]
    fn numbers_are_short() {
        assert_eq!(
            [0.0, 0.2, 12.5, 1500.0, 5e5, 2e7, 3e9, 3e-5].map(short),
            ["0", "0.2", "12.5", "1500", "500 k", "20 M", "3e9", "3e-5"]
        );
    }
}
