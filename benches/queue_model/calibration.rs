//! Accuracy of the model on real submissions: errors and coverage, compared with Slurm's own estimates.

use crate::foretold::{Row, errors, rows};
use crate::submissions::{file, read};

/// The number of futures of `hsched when`.
const SAMPLES: usize = 60;

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
    let held = |name: &str, includes: &dyn Fn(&&Row) -> bool| {
        let subset: Vec<&Row> = rows.iter().filter(includes).collect();
        let held = subset.iter().filter(|row| row.is_held()).count();
        println!("| {name} | {} | {:.0} % |", subset.len(), 100.0 * held as f64 / subset.len() as f64);
    };
    held("all", &|_| true);
    held("waited over 10 min", &|row| row.waited > 600.0);
    for gpus in [1, 2, 4, 8] {
        held(&format!("{gpus} GPUs"), &|row| row.gpus == gpus);
    }
}
