//! How right the model is on real submissions: errors and coverage beside Slurm's own estimates.

use hsched::queue::{Estimate, Outlook, Question, forecast};

use super::submissions::{Submission, file, read, time};

/// Seconds by which a start may miss the interval: even a start at once takes some.
const TOLERANCE: f64 = 150.0;
const SAMPLES: usize = 100;
const HOUR: f64 = 3600.0;

/// A submission that started, and what was foretold.
pub struct Row {
    pub gpus: u32,
    pub waited: f64,
    pub at_limits: f64,
    pub start: Estimate,
    testonly: Option<f64>,
    squeue: Option<f64>,
}

impl Row {
    /// Returns whether it started within the interval.
    pub fn is_held(&self) -> bool {
        (self.start.low.0 - TOLERANCE..=self.start.high.0 + TOLERANCE).contains(&self.waited)
    }
}

/// Foretells those of the submissions that started.
pub fn rows(all: &[Submission], samples: usize) -> Vec<Row> {
    let row = |(number, own): (usize, &Submission)| {
        let (snapshot, requests) = (own.snapshot(&all[..number]), [own.request()]);
        let question =
            Question { snapshot: &snapshot, requests: &requests, seed: 1, samples, calibration: None };
        let Outlook::Estimated(known) = forecast(&question, &|| false).remove(0) else {
            panic!("submission {number} cannot be foretold")
        };
        let squeue = own.squeue.as_deref().filter(|text| text.starts_with("20"));
        Some(Row {
            gpus: own.g,
            waited: own.waited_s?,
            at_limits: known.at_limits.expect("within the horizon").0,
            start: known.start,
            testonly: own.testonly.map(|at| at - own.at),
            squeue: squeue.map(|text| time(text).0 - own.at),
        })
    };
    all.iter().enumerate().filter_map(row).collect()
}

/// Returns the mean and the median error in hours of what is known, with the number.
pub fn errors(rows: &[Row], told: impl Fn(&Row) -> Option<f64>) -> (usize, f64, f64) {
    let mut list: Vec<f64> =
        rows.iter().filter_map(|row| Some((told(row)? - row.waited).abs() / HOUR)).collect();
    list.sort_by(f64::total_cmp);
    (list.len(), list.iter().sum::<f64>() / list.len() as f64, list[list.len() / 2])
}

/// Prints errors and coverage.
pub fn main() {
    let Ok(text) = std::fs::read_to_string(file()) else {
        println!("the submissions are not here; skipped");
        return;
    };
    let rows = rows(&read(&text), SAMPLES);
    println!("| estimate of the start | submissions | mean error | median error |");
    println!("|---|---|---|---|");
    let print = |name: &str, (count, mean, median): (usize, f64, f64)| {
        println!("| {name} | {count} | {mean:.1} h | {median:.2} h |");
    };
    print("`sbatch --test-only`", errors(&rows, |row| row.testonly));
    print("`squeue --start`", errors(&rows, |row| row.squeue));
    print("model, at limits", errors(&rows, |row| Some(row.at_limits)));
    print("model, median of the futures", errors(&rows, |row| Some(row.start.median.0)));
    print("the same where squeue told", errors(&rows, |row| row.squeue.map(|_| row.start.median.0)));
    println!("\n| submissions | count | 80 % interval held |\n|---|---|---|");
    let held = |name: &str, own: &dyn Fn(&&Row) -> bool| {
        let own: Vec<&Row> = rows.iter().filter(own).collect();
        let held = own.iter().filter(|row| row.is_held()).count();
        println!("| {name} | {} | {:.0} % |", own.len(), 100.0 * held as f64 / own.len() as f64);
    };
    held("all", &|_| true);
    held("waited over 10 min", &|row| row.waited > 600.0);
    for gpus in [1, 2, 4, 8] {
        held(&format!("{gpus} GPUs"), &|row| row.gpus == gpus);
    }
}
