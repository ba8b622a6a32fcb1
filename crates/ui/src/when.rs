//! When each request of a job would start and finish, as a table with a picture.

use std::fmt::Write as _;

use crate::text::wrap;
use crate::{Align, Table, Terminal};
use hsched_model::Seconds;
use hsched_model::formats::counted;
use hsched_model::number::{to_f64, to_u64};
use hsched_queue::{Estimate, Forecast, Start};

/// Jobs and their requests.
#[derive(Clone, Debug)]
pub struct When<'a> {
    pub jobs: Vec<WhenJob<'a>>,
    /// The unit of costs, if any are known.
    pub unit: Option<&'static str>,
    /// Whether the rows of a job are ordered by their mean time to completion.
    pub is_sorted: bool,
}

/// A job and its requests.
#[derive(Clone, Debug)]
pub struct WhenJob<'a> {
    /// The job's name, and the names of jobs with the same estimates.
    pub names: Vec<&'a str>,
    /// The job's position in the queue as text, or why there are no estimates.
    pub place: Option<String>,
    pub rows: Vec<WhenRow<'a>>,
    /// The row to submit, with the reason.
    pub chosen: Option<(usize, &'static str)>,
    pub notes: Vec<String>,
}

/// A request.
#[derive(Clone, Debug)]
pub struct WhenRow<'a> {
    pub gpus: String,
    /// Cluster, partition and account, if they differ between rows.
    pub cluster: Option<&'a str>,
    pub partition: Option<&'a str>,
    pub account: Option<&'a str>,
    pub limit: Seconds,
    pub start: &'a Start,
    pub run: Seconds,
    pub done: Option<Estimate>,
    pub cost: Option<f64>,
    /// A short remark for the reader.
    pub mark: String,
}

/// Maximum columns of the picture.
const PICTURE: usize = 24;
/// Minimum columns of the picture; with less room, there is no picture.
const SMALL_PICTURE: usize = 14;
/// Maximum columns of the text beside the picture.
const BESIDE: usize = 64;

/// A narrower terminal has no room for partition, account and remark beside the numbers.
const NARROW: usize = 72;

/// The meaning of the picture's blocks.
const LEGEND: &str =
    "· waits, ░ may start, █ runs, ▒ may run; STARTS IN, DONE IN: median, 80 % interval in brackets";
const SORTED: &str = "; rows in order of the mean of DONE IN";

/// The meaning of a time without an interval.
const BY_LIMITS: &str = "by limits: as if every job ran until its time limit; not simulated further";

/// The meaning of a number of futures in place of an interval.
const FEW_FUTURES: &str = "futures in brackets: too few for an interval";

/// The longest time in the picture, as a multiple of the best time to completion; for several jobs, as a
/// multiple of the largest of their best times.
const REACH: f64 = 3.0;
const COMMON_REACH: f64 = 1.5;

/// Printed for a job without requests.
const NOTHING: &str = "no start can be estimated";

/// Number of names that a sentence lists.
const NAMED: usize = 3;

/// Returns the meaning of the blocks and words of [`when_table`], and the unit of its costs; empty if it has
/// no rows.
pub fn when_legend(when: &When) -> Vec<String> {
    let rows = || when.jobs.iter().flat_map(|job| &job.rows);
    if rows().next().is_none() {
        return Vec::new();
    }
    let legend = format!("{LEGEND}{}", if when.is_sorted { SORTED } else { "" });
    let bases = || rows().filter_map(|row| Some(Basis::of(row.start.forecast()?)));
    let by_limits = bases().any(|basis| basis == Basis::Limits).then(|| BY_LIMITS.to_owned());
    let few = bases().any(|basis| matches!(basis, Basis::Futures(_))).then(|| FEW_FUTURES.to_owned());
    let cost = when.unit.map(|unit| format!("cost in {unit}"));
    std::iter::once(legend).chain(by_limits).chain(few).chain(cost).collect()
}

/// Returns one table of all requests, with the names of the jobs if there are several, and sentences about
/// the jobs.
pub fn when_table(when: &When, terminal: Terminal) -> String {
    let sentences = match when.jobs.as_slice() {
        [WhenJob { names, .. }] if names.len() == 1 => return one_job(when, terminal),
        jobs => common_sentences(jobs),
    };
    let mut text = String::new();
    if when.jobs.iter().any(|job| !job.rows.is_empty()) {
        text.push_str(&table(when, terminal.width()).show(terminal));
    }
    for sentence in sentences {
        let _ = writeln!(text, "{}", wrap(&sentence, terminal.width(), "  "));
    }
    text
}

fn one_job(when: &When, terminal: Terminal) -> String {
    let job = &when.jobs[0];
    let place = job.place.as_deref().unwrap_or(NOTHING);
    let mut text = wrap(&format!("{}: {place}", job.names[0]), terminal.width(), "  ");
    text.push('\n');
    if !job.rows.is_empty() {
        text.push_str(&table(when, terminal.width()).show(terminal));
    }
    let chosen = job.chosen.map(|(row, why)| {
        let row = &job.rows[row];
        let mean = row.done.map_or(String::new(), |done| format!("mean {}, ", about(done.mean)));
        format!("* {}: {why} ({mean}estimated)", row.gpus)
    });
    for line in chosen.iter().chain(&job.notes) {
        let _ = writeln!(text, "{}", wrap(line, terminal.width(), "  "));
    }
    text
}

/// Returns sentences about several jobs; those that apply to many are printed once.
fn common_sentences(jobs: &[WhenJob]) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for job in jobs.iter().filter(|job| job.names.len() > 1) {
        let count = job.names.len();
        lines.push(format!("{}: {count} jobs with the same requests: {}", label(job), job.names.join(", ")));
    }
    let mut whys: Vec<&str> = jobs.iter().filter_map(|job| Some(job.chosen?.1)).collect();
    whys.dedup();
    lines.extend(whys.into_iter().map(|why| format!("* {why} (estimated)")));
    let mut said: Vec<(&str, Vec<String>)> = Vec::new();
    for job in jobs {
        let nothing = job.rows.is_empty().then_some(NOTHING);
        for text in job.place.as_deref().or(nothing).into_iter().chain(job.notes.iter().map(String::as_str)) {
            match said.iter_mut().find(|(known, _)| *known == text) {
                Some((_, labels)) => labels.push(label(job)),
                None => said.push((text, vec![label(job)])),
            }
        }
    }
    lines.extend(said.into_iter().map(|(text, labels)| {
        let is_labelled = jobs.iter().any(|job| text.starts_with(&format!("{}: ", job.names[0])));
        let is_of_all = labels.len() == jobs.len();
        if is_of_all || is_labelled { text.to_owned() } else { format!("{}: {text}", listed(&labels)) }
    }));
    lines
}

/// Returns the name of a job in a table of several.
fn label(job: &WhenJob) -> String {
    match job.names.len() {
        1 => job.names[0].to_owned(),
        count => format!("{} +{}", job.names[0], count - 1),
    }
}

fn listed(labels: &[String]) -> String {
    let shown = labels[..labels.len().min(NAMED)].join(", ");
    if labels.len() > NAMED { format!("{shown} and {} more", labels.len() - NAMED) } else { shown }
}

fn table(when: &When, width: usize) -> Table {
    let layouts = [(true, false), (false, false), (true, true), (false, true)];
    let layouts = layouts.into_iter().filter(|(_, is_narrow)| *is_narrow || width >= NARROW);
    let mut tables = layouts.map(|(has_names, is_narrow)| table_of(when, width, has_names, is_narrow));
    let whole = tables.find(|table| table.keeps_words(width));
    whole.unwrap_or_else(|| table_of(when, width, false, true))
}

/// Returns the table, with a column for the names of several jobs or with a title for each job. A narrow table has one
/// column for all distinguishing parts of a request, and its notes are below the rows.
fn table_of(when: &When, width: usize, has_names: bool, is_narrow: bool) -> Table {
    let rows = || when.jobs.iter().flat_map(|job| &job.rows);
    let named = |has: fn(&WhenRow) -> bool| !is_narrow && rows().any(has);
    let names = when.jobs.iter().map(|job| label(job).chars().count()).max().unwrap_or(0);
    let has_several = when.jobs.iter().map(|job| job.names.len()).sum::<usize>() > 1;
    let (is_common, has_titles) = (has_several && has_names, has_several && !has_names);
    let is_marked = when.jobs.iter().any(|job| job.chosen.is_some());
    let columns = [
        ("CLUSTER", named(|row| row.cluster.is_some())),
        ("PARTITION", named(|row| row.partition.is_some())),
        ("ACCOUNT", named(|row| row.account.is_some())),
    ];
    let mut headings = Vec::new();
    headings.extend(is_marked.then_some(("", Align::Left)));
    headings.extend(is_common.then_some(("JOB", Align::Left)));
    headings.push(("GPUS", Align::Left));
    headings.extend(columns.iter().filter(|(_, is)| *is).map(|(name, _)| (*name, Align::Left)));
    headings.extend([("LIMIT", Align::Right), ("STARTS IN", Align::Left), ("RUNS", Align::Right)]);
    headings.push(("DONE IN", Align::Left));
    if when.unit.is_some() {
        headings.push(("COST", Align::Right));
    }
    let beside = BESIDE + if is_common { names + 2 } else { 0 };
    let room = width.saturating_sub(beside + 11 * columns.iter().filter(|(_, is)| *is).count());
    let picture = if room < SMALL_PICTURE { 0 } else { room.clamp(SMALL_PICTURE, PICTURE) };
    if picture > 0 {
        headings.push(("WAIT AND RUN", Align::Left));
    }
    if named(|row| !row.mark.is_empty()) {
        headings.push(("NOTE", Align::Left));
    }
    let reach = reach(when);
    let mut table = Table::new(&headings);
    for job in &when.jobs {
        if has_titles && !job.rows.is_empty() {
            table.title(format!("{}:", label(job)));
        }
        for (number, row) in job.rows.iter().enumerate() {
            let is_chosen = job.chosen.is_some_and(|(row, _)| row == number);
            let all = [row.cluster, row.partition, row.account];
            let places: Vec<&str> = all.into_iter().flatten().filter(|_| is_narrow).collect();
            let mut cells = Vec::new();
            cells.extend(is_marked.then(|| if is_chosen { "*" } else { "" }.to_owned()));
            cells.extend(is_common.then(|| label(job)));
            cells.push([&[row.gpus.as_str()], &places[..]].concat().join(", "));
            for ((_, is), cell) in columns.iter().zip(all) {
                cells.extend(is.then(|| cell.unwrap_or("").to_owned()));
            }
            cells.extend(estimates(row, when.unit.is_some()));
            if picture > 0 {
                cells.push(blocks(row, reach, picture));
            }
            if cells.len() < headings.len() {
                cells.push(row.mark.clone());
            }
            table.row(cells);
            if is_narrow && !row.mark.is_empty() {
                table.note(row.mark.clone());
            }
        }
    }
    table
}

/// Returns the cells from LIMIT to COST.
fn estimates(row: &WhenRow, has_costs: bool) -> Vec<String> {
    let done = row.done.map_or(String::new(), |done| {
        row.start.forecast().map_or(String::new(), |forecast| span(&done, Basis::of(forecast)))
    });
    let cost = row.cost.map_or("unknown".to_owned(), |cost| format!("{cost:.1}"));
    let mut cells = vec![clock(row.limit), start(row.start), about(row.run), done];
    cells.extend(has_costs.then_some(cost));
    cells
}

/// Returns the time that corresponds to the whole width of the picture, which is the same in all rows.
fn reach(when: &When) -> f64 {
    let best = |job: &WhenJob| {
        let done = job.rows.iter().filter_map(|row| row.done);
        done.map(|done| done.median.0).fold(f64::INFINITY, f64::min)
    };
    match when.jobs.as_slice() {
        [job] => REACH * best(job),
        jobs => COMMON_REACH * jobs.iter().map(best).filter(|job| job.is_finite()).fold(0.0, f64::max),
    }
}

/// The farthest estimated start, in seconds: 30 days.
const FARTHEST: f64 = 30.0 * 86_400.0;

/// The basis of an estimate, as far as its text differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Basis {
    Interval,
    /// This many futures, too few for an interval.
    Futures(usize),
    Limits,
}

impl Basis {
    fn of(forecast: &Forecast) -> Self {
        match forecast.few_futures() {
            _ if forecast.is_by_limits() => Self::Limits,
            Some(count) => Self::Futures(count),
            None => Self::Interval,
        }
    }
}

/// Returns when a request starts: `now`, the median with the interval, such as `1.2 h (0.3–4.0)`, the median
/// by limits or from a few futures, `> 30 d`, `unknown` or `never`.
pub fn start(start: &Start) -> String {
    match start {
        Start::Estimated(forecast) if forecast.start.median.0 >= FARTHEST => "> 30 d".to_owned(),
        Start::Estimated(forecast) => span(&forecast.start, Basis::of(forecast)),
        Start::Unknown(_) => "unknown".to_owned(),
        Start::Never | Start::Refused(_) => "never".to_owned(),
    }
}

/// Returns the median of an estimate with its interval, such as `1.2 h (0.3–4.0)`, or `now` if the interval
/// ends within a minute; an estimate by time limits or from a few futures has no interval and says so.
fn span(estimate: &Estimate, basis: Basis) -> String {
    match basis {
        Basis::Limits => return format!("~{} by limits", about(estimate.median)),
        _ if estimate.high.0 < 60.0 => return "now".to_owned(),
        Basis::Futures(count) => {
            return format!("~{} ({})", about(estimate.median), counted(count, "future"));
        }
        Basis::Interval => {}
    }
    let (unit, name) = match estimate.high.0 {
        high if high < 7200.0 => (60.0, "min"),
        high if high < 100.0 * 3600.0 => (3600.0, "h"),
        _ => (86_400.0, "d"),
    };
    let number = |time: Seconds| {
        let value = time.0 / unit;
        if unit > 60.0 && value < 9.95 { format!("{value:.1}") } else { format!("{value:.0}") }
    };
    format!("{} {name} ({}–{})", number(estimate.median), number(estimate.low), number(estimate.high))
}

/// Returns a time in one unit: `25 min`, `3.4 h`, `18 h`, `5.2 d`.
pub fn about(time: Seconds) -> String {
    match time.0 {
        seconds if seconds < 60.0 => "< 1 min".to_owned(),
        seconds if seconds < 5400.0 => format!("{:.0} min", seconds / 60.0),
        seconds if seconds < 9.95 * 3600.0 => format!("{:.1} h", seconds / 3600.0),
        seconds if seconds < 100.0 * 3600.0 => format!("{:.0} h", seconds / 3600.0),
        seconds => format!("{:.1} d", seconds / 86_400.0),
    }
}

/// Returns a limit without seconds: `20:45` for 20 h 45 min, and `1-06:00` for a day or more.
fn clock(time: Seconds) -> String {
    let minutes = to_u64((time.0 / 60.0).max(0.0));
    let (days, hours, minutes) = (minutes / 1440, minutes / 60 % 24, minutes % 60);
    if days > 0 { format!("{days}-{hours:02}:{minutes:02}") } else { format!("{hours}:{minutes:02}") }
}

/// Returns the wait, its interval and the run as blocks, up to `reach` seconds from now.
fn blocks(row: &WhenRow, reach: f64, columns: usize) -> String {
    let (Start::Estimated(forecast), true) = (row.start, reach.is_finite() && reach > 0.0) else {
        return String::new();
    };
    let Estimate { low, median, high, .. } = forecast.start;
    let (end, last) = (row.done.map_or(0.0, |done| done.median.0), row.done.map_or(0.0, |done| done.high.0));
    let mut text = String::new();
    for column in 0..columns {
        let at = (to_f64(column) + 0.5) / to_f64(columns) * reach;
        text.push(match at {
            _ if at >= median.0 && at < end => '█',
            _ if at >= low.0 && at < median.0 => '░',
            _ if at >= end && at < last => '▒',
            _ if at >= median.0 && at < high.0 => '▒',
            _ if at < low.0 => '·',
            _ => ' ',
        });
    }
    let text = text.trim_end().to_owned();
    if last > reach { text + ">" } else { text }
}

#[cfg(test)]
mod tests;
