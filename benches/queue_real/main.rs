//! Accuracy of start estimates on a real Slurm: `record` submits to a running development cluster and keeps
//! the queue before each submission and its outcome; `score` estimates each start from that queue and
//! compares; `each` also prints each start, and `picture` draws the starts; `choose` lets four policies
//! choose requests for equal jobs and compares the times to their ends.
//!
//! `slurm/measure-starts` and `slurm/measure-choice` run them. The estimates are made afterwards, so that one
//! recording serves every version of the model.

#![expect(
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a measurement that cannot be made should fail"
)]
#![expect(unreachable_pub, reason = "the modules of a bench share helpers")]
#![expect(clippy::cast_precision_loss, reason = "counts of jobs")]
#![expect(clippy::disallowed_methods, reason = "a measurement of the world reads its clocks and files")]

mod choose;
mod clock;
mod draw;
mod picture;
mod record;
mod score;

use std::env;
use std::path::Path;

use serde::{Deserialize, Serialize};

use hsched_queue::{Asks, Snapshot};

/// One submission of a recording: a line of its file.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Submission {
    job: u64,
    asks: Asks,
    partition: String,
    account: Option<String>,
    limit_s: f64,
    run_s: f64,
    /// The start according to `sbatch --test-only`, in Unix seconds; queried between the look and the
    /// submission.
    test_only: Option<f64>,
    /// The actual start, in Unix seconds.
    start: Option<f64>,
    /// The queue immediately before the submission.
    snapshot: Snapshot,
}

fn main() {
    let arguments: Vec<String> = env::args().skip(1).filter(|arg| arg != "--bench").collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let number = |text: &str| text.parse::<u32>().expect("a whole number");
    match words.as_slice() {
        ["record", cluster, seed, count, gap, most_hours, out] => {
            let plan = record::Plan {
                seed: number(seed).into(),
                count: number(count),
                gap_s: number(gap),
                most_hours: number(most_hours),
            };
            record::record(Path::new(cluster), &plan, Path::new(out));
        }
        ["choose", cluster, each, gap, most_hours, out] => {
            let often = (number(each), number(gap), number(most_hours));
            choose::choose(Path::new(cluster), often, Path::new(out));
        }
        ["score", files @ ..] if !files.is_empty() => score::score(files, false),
        ["picture", files @ ..] if !files.is_empty() => score::picture(files),
        ["each", files @ ..] if !files.is_empty() => score::score(files, true),
        _ => println!(
            "usage: record CLUSTER_DIR SEED COUNT GAP_S MOST_HOURS OUT | choose CLUSTER_DIR EACH GAP_S MOST_HOURS OUT | score FILE... | each FILE... | picture FILE..."
        ),
    }
}
