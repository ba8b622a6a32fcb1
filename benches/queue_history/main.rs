//! Estimates the waits that were recorded on a cluster, each from the data at the look that recorded it.
//!
//! `cargo bench --bench queue_history -- FILE.csv.gz [--days 2021-06-10..2021-07-20]` prints a CSV: job,
//! look, and three quantiles of the wait in seconds. With `--score`, it prints their accuracy. The file has a
//! line for each job that was pending at a daily look.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::disallowed_methods,
    reason = "a measurement of recorded data reads its file and prints"
)]
#![expect(unreachable_pub, reason = "the modules of a bench share helpers")]

mod recording;
mod score;

use std::collections::BTreeMap;
use std::env;
use std::process::ExitCode;

use hsched_model::Time;
use hsched_waits::{PastEstimates, Spread, WINDOW_DAYS, WaitDensity, WaitHistory, WaitRecord};

use recording::Recording;

/// The quantiles that are printed.
const QUANTILES: [f64; 3] = [0.1, 0.5, 0.9];

const DAY: f64 = 86_400.0;

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let (words, is_scored): (Vec<&str>, bool) = match words.as_slice() {
        [words @ .., "--score"] => (words.to_vec(), true),
        words => (words.to_vec(), false),
    };
    let (path, days) = match words.as_slice() {
        [path] => (*path, Some((Time(f64::NEG_INFINITY), Time(f64::INFINITY)))),
        [path, "--days", days] | ["--days", days, path] => (*path, recording::days(days)),
        _ => {
            eprintln!("usage: queue_history FILE.csv.gz [--days YYYY-MM-DD..YYYY-MM-DD] [--score]");
            return ExitCode::from(2);
        }
    };
    let Some(days) = days else {
        eprintln!("--days takes two dates, the first not after the last: 2021-06-10..2021-07-20");
        return ExitCode::from(2);
    };
    let recording = match Recording::read(path) {
        Ok(recording) => recording,
        Err(error) => {
            eprintln!("{path}: {error}");
            return ExitCode::FAILURE;
        }
    };
    let estimates = estimate(&recording.waits, days);
    if is_scored {
        score::print(&recording.waits, &estimates);
    } else if let Err(error) = print(&recording, &estimates) {
        eprintln!("standard output: {error}");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

/// Returns the quantiles of each wait of some days, by its index in the file.
fn estimate(waits: &[WaitRecord], (first, last): (Time, Time)) -> BTreeMap<usize, [f64; 3]> {
    let mut looks: BTreeMap<i64, Vec<usize>> = BTreeMap::new();
    for (place, wait) in waits.iter().enumerate() {
        looks.entry(hsched_model::number::to_i64(wait.asked.0)).or_default().push(place);
    }
    let mut history = WaitHistory::default();
    let mut past = PastEstimates::default();
    let mut found = BTreeMap::new();
    let (mut model, mut learnt_at) = (None, f64::NEG_INFINITY);
    for places in looks.into_values() {
        let now = waits[places[0]].asked;
        if now >= last {
            break;
        }
        let requests: Vec<WaitRecord> = places.iter().map(|place| waits[*place].clone()).collect();
        let look = history.look(&requests, now);
        // Earlier estimates do not affect the requested days.
        if now.0 >= first.0 - (WINDOW_DAYS + 1.0) * DAY {
            if now.0 - learnt_at > DAY / 2.0 {
                (model, learnt_at) = (history.learn(now, SEED), now.0);
            }
            let densities = look.densities(model.as_ref());
            let spread = past.spread(now);
            if now >= first {
                let each = places.iter().zip(&requests).zip(&densities);
                found.extend(each.map(|((place, wait), density)| (*place, quantiles(wait, density, spread))));
            }
            look.keep(&densities, &mut past);
        }
        history.add(look);
    }
    found
}

const SEED: u64 = 1;

fn quantiles(wait: &WaitRecord, density: &WaitDensity, spread: Spread) -> [f64; 3] {
    let density = spread.of(density, wait.gpus > 0.0);
    QUANTILES.map(|part| density.quantile(part))
}

/// Prints a line for each job, in the order of the file.
fn print(recording: &Recording, estimates: &BTreeMap<usize, [f64; 3]>) -> Result<(), csv::Error> {
    let mut lines = csv::Writer::from_writer(std::io::stdout().lock());
    lines.write_record(["job_unique_id", "poll_time", "q10_s", "q50_s", "q90_s"])?;
    for (place, quantiles) in estimates {
        let (id, look) = &recording.names[*place];
        let [low, median, high] = quantiles.map(|seconds| format!("{seconds:.1}"));
        lines.write_record([id, look, &low, &median, &high])?;
    }
    lines.flush()?;
    Ok(())
}
