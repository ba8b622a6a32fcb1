//! When each request of a job would start and be done, as a table with a picture.

use std::fmt::Write as _;

use crate::model::Seconds;
use crate::queue::{Estimate, Outlook};
use crate::ui::text::wrap;
use crate::ui::{Align, Table, Terminal};

/// A job and its requests.
#[derive(Clone, Debug)]
pub struct When<'a> {
    pub job: &'a str,
    /// Its place in line, in words.
    pub place: Option<String>,
    pub rows: Vec<WhenRow<'a>>,
    /// The row to submit, and why.
    pub chosen: Option<(usize, &'static str)>,
    /// In what costs are, where they are known.
    pub unit: Option<&'static str>,
    pub notes: Vec<String>,
}

/// A request.
#[derive(Clone, Debug)]
pub struct WhenRow<'a> {
    pub gpus: String,
    /// Cluster, partition and account, as far as they differ between rows.
    pub cluster: Option<&'a str>,
    pub partition: Option<&'a str>,
    pub account: Option<&'a str>,
    pub limit: Seconds,
    pub outlook: &'a Outlook,
    pub run: Seconds,
    pub done: Option<Estimate>,
    pub cost: Option<f64>,
    /// What its reader should know, in a word or two.
    pub mark: String,
}

/// Columns of the picture in a wide terminal,
const PICTURE: usize = 24;
/// in a narrow one,
const SMALL_PICTURE: usize = 14;
/// and of what stands beside it, at most.
const BESIDE: usize = 64;

/// A terminal of fewer columns has no room for partition, account and note beside the numbers.
const NARROW: usize = 72;

/// What the picture's blocks mean.
const LEGEND: &str = "· waits, ░ may start, █ runs, ▒ may run; STARTS IN: median, DONE IN: mean (the rows' order), eight cases in ten in brackets";

/// The most that the picture shows, as a multiple of the best time to the end.
const REACH: f64 = 3.0;

/// Returns what the blocks of [`when_table`] mean, and in what its costs are.
#[must_use]
pub fn when_legend(unit: Option<&str>) -> Vec<String> {
    let cost = unit.map(|unit| format!("cost in {unit}"));
    std::iter::once(LEGEND.to_owned()).chain(cost).collect()
}

/// Returns the table of a job's requests.
#[must_use]
pub fn when_table(when: &When, terminal: Terminal) -> String {
    let place = when.place.as_deref().unwrap_or("no request can be foretold");
    let mut text = wrap(&format!("{}: {place}", when.job), terminal.width(), "  ");
    text.push('\n');
    if !when.rows.is_empty() {
        text.push_str(&table(when, terminal.width()).show(terminal));
    }
    if let Some((row, why)) = when.chosen {
        let line = format!("* {}: {why} (estimated)", when.rows[row].gpus);
        let _ = writeln!(text, "{}", wrap(&line, terminal.width(), "  "));
    }
    for note in &when.notes {
        let _ = writeln!(text, "{}", wrap(note, terminal.width(), "  "));
    }
    text
}

fn table(when: &When, width: usize) -> Table {
    // Where there is no room, what tells requests apart is one column, and what else there is to know is below its row.
    let is_narrow = width < NARROW;
    let named = |own: fn(&WhenRow) -> bool| !is_narrow && when.rows.iter().any(own);
    let columns = [
        ("CLUSTER", named(|row| row.cluster.is_some())),
        ("PARTITION", named(|row| row.partition.is_some())),
        ("ACCOUNT", named(|row| row.account.is_some())),
    ];
    let mut headings = vec![("", Align::Left), ("GPUS", Align::Left)];
    headings.extend(columns.iter().filter(|(_, is)| *is).map(|(name, _)| (*name, Align::Left)));
    headings.extend([("LIMIT", Align::Right), ("STARTS IN", Align::Left), ("RUNS", Align::Right)]);
    headings.push(("DONE IN", Align::Left));
    if when.unit.is_some() {
        headings.push(("COST", Align::Right));
    }
    let room = width.saturating_sub(BESIDE + 11 * columns.iter().filter(|(_, is)| *is).count());
    let picture = if room < SMALL_PICTURE { 0 } else { room.clamp(SMALL_PICTURE, PICTURE) };
    if picture > 0 {
        headings.push(("WAIT AND RUN", Align::Left));
    }
    if named(|row| !row.mark.is_empty()) {
        headings.push(("NOTE", Align::Left));
    }
    let done = when.rows.iter().filter_map(|row| row.done);
    let best = done.map(|done| done.mean.0).fold(f64::INFINITY, f64::min);
    let mut table = Table::new(&headings);
    for (number, row) in when.rows.iter().enumerate() {
        let is_chosen = when.chosen.is_some_and(|(own, _)| own == number);
        let all = [row.cluster, row.partition, row.account];
        let places: Vec<&str> = all.into_iter().flatten().filter(|_| is_narrow).collect();
        let asks = [&[row.gpus.as_str()], &places[..]].concat().join(", ");
        let mut cells = vec![if is_chosen { "*" } else { "" }.to_owned(), asks];
        for ((_, is), own) in columns.iter().zip(all) {
            cells.extend(is.then(|| own.unwrap_or("").to_owned()));
        }
        cells.push(clock(row.limit));
        cells.push(start(row.outlook));
        cells.push(about(row.run));
        cells.push(row.done.map_or(String::new(), |done| span(&done, done.mean, is_sampled(row.outlook))));
        if when.unit.is_some() {
            cells.push(row.cost.map_or("unknown".to_owned(), |cost| format!("{cost:.1}")));
        }
        if picture > 0 {
            cells.push(blocks(row, REACH * best, picture));
        }
        if cells.len() < headings.len() {
            cells.push(row.mark.clone());
        }
        table.row(cells);
        if is_narrow && !row.mark.is_empty() {
            table.note(row.mark.clone());
        }
    }
    table
}

fn is_sampled(outlook: &Outlook) -> bool {
    matches!(outlook, Outlook::Estimated(forecast) if forecast.past_waits > 0 || !forecast.starts.is_empty())
}

fn start(outlook: &Outlook) -> String {
    match outlook {
        Outlook::Estimated(forecast) => span(&forecast.start, forecast.start.median, is_sampled(outlook)),
        Outlook::Unknown(_) => "unknown".to_owned(),
        Outlook::Never => "never".to_owned(),
    }
}

/// Returns one number of an estimate with its interval: `1.2 h (0.3–4.0)`; one with all at their limits has none and says so.
fn span(estimate: &Estimate, middle: Seconds, is_sampled: bool) -> String {
    if is_sampled && estimate.high.0 < 60.0 {
        return "now".to_owned();
    }
    if !is_sampled {
        return format!("~{} by limits", about(middle));
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
    // A mean may be outside of what eight cases of ten are: one more case shows it.
    let (low, high) = (estimate.low.0.min(middle.0), estimate.high.0.max(middle.0));
    format!("{} {name} ({}–{})", number(middle), number(Seconds(low)), number(Seconds(high)))
}

/// Returns a time in one unit: `25 min`, `3.4 h`, `18 h`, `5.2 d`.
fn about(time: Seconds) -> String {
    match time.0 {
        seconds if seconds < 60.0 => "< 1 min".to_owned(),
        seconds if seconds < 5400.0 => format!("{:.0} min", seconds / 60.0),
        seconds if seconds < 9.95 * 3600.0 => format!("{:.1} h", seconds / 3600.0),
        seconds if seconds < 100.0 * 3600.0 => format!("{:.0} h", seconds / 3600.0),
        seconds => format!("{:.1} d", seconds / 86_400.0),
    }
}

/// Returns a limit as Slurm takes it: `20:45:00` is `20:45` here, a day and more `1-06:00`.
fn clock(time: Seconds) -> String {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "at most years")]
    let minutes = (time.0 / 60.0).max(0.0) as u64;
    let (days, hours, minutes) = (minutes / 1440, minutes / 60 % 24, minutes % 60);
    if days > 0 { format!("{days}-{hours:02}:{minutes:02}") } else { format!("{hours}:{minutes:02}") }
}

/// Returns the wait, its interval and the run as so many blocks, up to `reach` seconds from now.
fn blocks(row: &WhenRow, reach: f64, columns: usize) -> String {
    let (Outlook::Estimated(forecast), true) = (row.outlook, reach.is_finite() && reach > 0.0) else {
        return String::new();
    };
    let Estimate { low, median, high, .. } = forecast.start;
    let (end, last) = (row.done.map_or(0.0, |done| done.median.0), row.done.map_or(0.0, |done| done.high.0));
    let mut text = String::new();
    for column in 0..columns {
        #[expect(clippy::cast_precision_loss, reason = "a few columns")]
        let at = (column as f64 + 0.5) / columns as f64 * reach;
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
mod tests {
    use super::*;
    use crate::queue::Forecast;

    fn estimate(low: f64, median: f64, high: f64) -> Estimate {
        let hours = |own: f64| Seconds(own * 3600.0);
        Estimate { low: hours(low), median: hours(median), high: hours(high), mean: hours(median) }
    }

    #[test]
    fn estimates_never_come_without_their_interval() {
        let span = |estimate: &Estimate, is_sampled| span(estimate, estimate.median, is_sampled);
        assert_eq!(span(&estimate(0.1, 0.5, 1.5), true), "30 min (6–90)");
        assert_eq!(span(&estimate(0.0, 6.4, 17.0), true), "6.4 h (0.0–17)");
        assert_eq!(span(&estimate(24.0, 60.0, 240.0), true), "2.5 d (1.0–10)");
        assert_eq!(span(&estimate(0.0, 0.0, 0.01), true), "now");
        assert_eq!(span(&estimate(31.0, 31.0, 31.0), false), "~31 h by limits");
    }

    #[test]
    fn a_mean_is_inside_its_interval() {
        let minutes = |own: f64| Seconds(own * 60.0);
        let own =
            Estimate { low: minutes(51.0), median: minutes(51.0), high: minutes(51.0), mean: minutes(50.0) };
        assert_eq!(span(&own, own.mean, true), "50 min (50–51)");
        assert_eq!(span(&Estimate { mean: minutes(52.0), ..own }, minutes(52.0), true), "52 min (51–52)");
    }

    #[test]
    fn a_narrow_table_breaks_between_words_alone() {
        let starts = estimate(12.1, 14.2, 19.9);
        let outlook = Outlook::Estimated(Forecast {
            at_limits: None,
            start: starts,
            finish: starts,
            first: 1.0,
            starts: vec![Seconds(0.0)],
            past_waits: 0,
            waiting: 0,
            ahead: 0,
        });
        let row = WhenRow {
            gpus: "16 v100 on 2 nodes".to_owned(),
            cluster: None,
            partition: Some("gpu"),
            account: Some("def-you"),
            limit: Seconds(108_000.0),
            outlook: &outlook,
            run: Seconds(40_000.0),
            done: Some(Estimate { mean: Seconds(100_000.0), ..estimate(20.5, 22.0, 31.5) }),
            cost: Some(118.4),
            mark: "3 pieces of 12 h".to_owned(),
        };
        let when = When {
            job: "x",
            place: None,
            rows: vec![row],
            chosen: None,
            unit: Some("RGU-hours"),
            notes: vec![],
        };
        let text = table(&when, 60).render(60, false);
        assert!(text.lines().all(|line| line.chars().count() <= 60), "{text}");
        for word in ["(12–20)", "28", "(20–32)", "def-you", "3 pieces of 12 h"] {
            assert!(text.contains(word), "{word}: {text}");
        }
    }

    #[test]
    fn limits_are_written_as_slurm_takes_them() {
        assert_eq!(clock(Seconds(74_700.0)), "20:45");
        assert_eq!(clock(Seconds(108_000.0)), "1-06:00");
        assert_eq!(clock(Seconds(900.0)), "0:15");
    }
}
