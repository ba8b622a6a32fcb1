//! The figures of a report for papers: pictures (`--svg`) and their data (`--csv`), by file name.

use super::chart::{Axis, Chart, PointStyle, Series};
use super::data::{Report, ReportRun, ReportSweep};
use super::gantt::gantt_svg;
use super::requests::requests_svg;
use hsched_model::number::to_f64;

/// A unit of a time axis: its name and its length in seconds.
type TimeUnit = (&'static str, f64);

/// Returns the unit in which the longest time of an axis is a handy number.
fn unit(longest: f64) -> TimeUnit {
    match longest {
        seconds if seconds < 180.0 => ("s", 1.0),
        seconds if seconds < 10_800.0 => ("min", 60.0),
        _ => ("h", 3600.0),
    }
}

/// Ratio of the largest to the smallest value above which an axis is logarithmic.
const WIDE: f64 = 30.0;

/// Returns the pictures, each with its file name without extension.
pub fn figures(report: &Report) -> Vec<(String, String)> {
    let mut all = Vec::new();
    for run in &report.runs {
        let name = if report.runs.len() > 1 { format!("gantt-{}", run.name) } else { "gantt".to_owned() };
        all.extend(gantt_svg(report, run).map(|svg| (file_name(&name), svg)));
    }
    let charts = [
        ("completion", completion(report)),
        ("queue", over_time(report, "jobs waiting", |run| &run.queue)),
        ("in-use", over_time(report, "GPUs in use", |run| &run.in_use)),
        ("epochs", epochs(report)),
        ("waits", waits(report)),
        ("points", points(report)),
    ];
    all.extend(charts.into_iter().filter_map(|(name, chart)| Some((name.to_owned(), chart?.svg()))));
    all.extend(requests_svg(report).map(|svg| ("requests".to_owned(), svg)));
    all.extend(
        report.sweeps.iter().map(|report_sweep| {
            (file_name(&format!("sweep-{}", report_sweep.name)), sweep(report_sweep).svg())
        }),
    );
    all
}

/// Returns a file name without characters that are special to shells or file systems.
fn file_name(text: &str) -> String {
    let plain =
        |letter: char| if letter.is_ascii_alphanumeric() || "-_.".contains(letter) { letter } else { '_' };
    text.chars().map(plain).collect()
}

/// Returns a chart of the fraction of jobs that complete within a time.
fn completion(report: &Report) -> Option<Chart> {
    let times: Vec<(&ReportRun, Vec<f64>)> =
        report.runs.iter().map(|run| (run, run.completion_times(&report.jobs))).collect();
    let all = || times.iter().flat_map(|(_, times)| times.iter().copied().filter(|time| *time > 0.0));
    let (least, most) = (all().min_by(f64::total_cmp)?, all().max_by(f64::total_cmp)?);
    let is_log = most > WIDE * least;
    let (name, unit) = unit(most);
    let series = |(run, times): &(&ReportRun, Vec<f64>)| {
        let share = |place: usize| to_f64(place) / to_f64(report.jobs.len());
        let done = times.iter().enumerate().map(|(place, time)| (time / unit, share(place + 1)));
        let points = times.first().map(|first| (first / unit, 0.0)).into_iter().chain(done).collect();
        Series { name: run.name.clone(), shape: PointStyle::Steps, points }
    };
    Some(Chart {
        x: Axis { is_log, ..Axis::plain(&format!("completion time ({name})")) },
        y: Axis { to: Some(1.0), ..Axis::from_zero("share of jobs") },
        series: times.iter().map(series).collect(),
        diagonal: false,
    })
}

fn over_time(report: &Report, label: &str, of: fn(&ReportRun) -> &Vec<(f64, f64)>) -> Option<Chart> {
    let (begin, end) = report.times()?;
    let (name, unit) = unit(end - begin);
    let series = |run: &ReportRun| {
        let points = of(run).iter().map(|(at, value)| ((at - begin) / unit, *value)).collect();
        Series { name: run.name.clone(), shape: PointStyle::Steps, points }
    };
    let series: Vec<Series> = report.runs.iter().filter(|run| !of(run).is_empty()).map(series).collect();
    let (x, y) = (Axis::from_zero(&format!("time ({name})")), Axis::from_zero(label));
    (!series.is_empty()).then_some(Chart { x, y, series, diagonal: false })
}

fn epochs(report: &Report) -> Option<Chart> {
    let points = report.epochs.iter().map(|epoch| (epoch.predicted_s, epoch.observed_s)).collect();
    against(points, ("predicted epoch (s)", "observed epoch (s)"), 0.0)
}

fn waits(report: &Report) -> Option<Chart> {
    let known = || report.waits.iter().filter_map(|wait| Some((wait.q50_s, wait.waited_s?)));
    let (name, unit) = unit(known().fold(0.0, |most: f64, (said, real)| most.max(said).max(real)));
    let points = known().map(|(said, real)| (said / unit, real / unit)).collect();
    let labels = [format!("estimated wait ({name})"), format!("real wait ({name})")];
    against(points, (&labels[0], &labels[1]), 60.0 / unit)
}

/// Returns a chart of predicted and actual values. If the values differ by orders of magnitude, its axes are
/// logarithmic and begin at the smallest positive value, or at `least` if that is larger.
fn against(points: Vec<(f64, f64)>, (x, y): (&str, &str), least: f64) -> Option<Chart> {
    let positive = || points.iter().flat_map(|(x, y)| [*x, *y]).filter(|value| *value > 0.0);
    let low = positive().fold(f64::INFINITY, f64::min).max(least);
    let is_log = positive().fold(0.0, f64::max) > WIDE * low;
    let axis =
        |label: &str| Axis { is_log, from: Some(if is_log { low } else { 0.0 }), ..Axis::plain(label) };
    let is_there = !points.is_empty();
    let series = vec![Series { name: String::new(), shape: PointStyle::Dots, points }];
    is_there.then(|| Chart { x: axis(x), y: axis(y), series, diagonal: true })
}

fn sweep(sweep: &ReportSweep) -> Chart {
    let series = sweep.runs.iter().map(|run| Series {
        name: run.name.clone(),
        shape: PointStyle::Line,
        points: run
            .curve
            .iter()
            .map(|(epoch, value)| (to_f64(usize::try_from(*epoch).unwrap_or(0)), *value))
            .collect(),
    });
    Chart {
        x: Axis::plain("epoch"),
        y: Axis::plain(&sweep.metric),
        series: series.collect(),
        diagonal: false,
    }
}

/// Returns a chart of the results against the first varied parameter of `simulate --sweep`.
fn points(report: &Report) -> Option<Chart> {
    let varied = report.points.first()?.values.keys().next()?;
    let has_ratio = report.points.iter().all(|point| point.ratio.is_some());
    let (name_of_unit, unit) =
        unit(report.points.iter().filter_map(|point| point.mean_jct_s).fold(0.0, f64::max));
    let mut series: Vec<Series> = Vec::new();
    for point in &report.points {
        let rest: Vec<String> = point
            .values
            .iter()
            .filter(|(name, _)| *name != varied)
            .map(|(name, value)| format!(", {name} {value}"))
            .collect();
        let name = format!("{}{}", point.policy, rest.concat());
        let value = if has_ratio { point.ratio } else { point.mean_jct_s.map(|time| time / unit) };
        let Some(at) = point.values.get(varied).zip(value).map(|(x, y)| (*x, y)) else { continue };
        match series.iter_mut().find(|series| series.name == name) {
            Some(series) => series.points.push(at),
            None => series.push(Series { name, shape: PointStyle::Line, points: vec![at] }),
        }
    }
    let time = format!("mean completion time ({name_of_unit})");
    let label = if has_ratio { "mean over bound" } else { &time };
    Some(Chart { x: Axis::plain(varied), y: Axis::plain(label), series, diagonal: false })
}
