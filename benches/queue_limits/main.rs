//! Estimates the starts of submissions that were recorded on a cluster with limits, as CSV.
//!
//! `cargo bench --bench queue_limits -- DIR` reads the files `site.json`, `snapshots.tar.gz` and
//! `submissions.jsonl` of a folder, as `slurm/measure-limits` writes them. If the outcomes of the submissions
//! are known, a score goes to standard error.

#![expect(
    clippy::expect_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a measurement that cannot be made should fail"
)]
#![expect(clippy::disallowed_methods, reason = "a measurement of the world reads its files")]
#![expect(unreachable_pub, reason = "the score is a module of its own")]
#![expect(clippy::cast_precision_loss, reason = "counts of jobs")]

mod score;

use std::collections::BTreeMap;
use std::path::Path;
use std::{env, fs};

use flate2::read::GzDecoder;
use serde::Deserialize;

use hsched_model::{Seconds, Time};
use hsched_queue::{
    Asks, Estimate, FurtherOptions, Question, QueuePosition, Request, RequestId, Snapshot, Start, forecast_at,
};
use hsched_slurm::queue::limits::AccountTable;
use hsched_slurm::queue::{SiteTexts, add_site};

use score::Score;

/// The number of futures of `hsched when`.
const FUTURES: usize = 60;

/// The configuration and the limits of the site, as Slurm shows them to a user.
#[derive(Deserialize)]
struct Site {
    assoc: String,
    assoc_format: String,
    qos: String,
    qos_format: String,
    partitions: String,
    config: String,
}

/// A submission and, if known, its outcome.
#[derive(Deserialize)]
struct Submission {
    n: u64,
    snapshot: String,
    at: f64,
    request: Asked,
    /// Seconds from the look to the start; `None` if the job had not started when the recording ended,
    /// `open_s` after the look.
    waited_s: Option<f64>,
    open_s: Option<f64>,
    /// The start according to `sbatch --test-only`, in Unix seconds.
    test_only: Option<f64>,
}

#[derive(Deserialize)]
struct Asked {
    user: String,
    account: String,
    partition: String,
    qos: Option<String>,
    limit_s: f64,
    priority: f64,
    asks: Asks,
}

fn main() {
    let arguments: Vec<String> = env::args().skip(1).filter(|arg| arg != "--bench").collect();
    let [folder] = arguments.as_slice() else {
        println!("usage: queue_limits DIR");
        return;
    };
    let folder = Path::new(folder);
    let read = |name: &str| fs::read_to_string(folder.join(name)).expect("a file of the folder");
    let site: Site = serde_json::from_str(&read("site.json")).expect("what the site shows");
    let snapshots = snapshots(&folder.join("snapshots.tar.gz"));
    let mut score = Score::default();
    println!("n,q10_s,q50_s,q90_s,never");
    for line in read("submissions.jsonl").lines().filter(|line| !line.trim().is_empty()) {
        let submission: Submission = serde_json::from_str(line).expect("a submission");
        let text = snapshots.get(submission.snapshot.trim_start_matches("./")).expect("its snapshot");
        let mut snapshot = Snapshot::parse(text).expect("a snapshot");
        site.add_to(&mut snapshot, &submission.request);
        let start = start(&submission, &snapshot);
        println!("{},{}", submission.n, row(&start));
        score.add(&submission, &start);
    }
    score.print();
}

impl Site {
    /// Adds the limits that the site shows to a snapshot that was saved without limits.
    fn add_to(&self, snapshot: &mut Snapshot, asked: &Asked) {
        let [associations, qos] = [&self.assoc_format, &self.qos_format]
            .map(|format| format.trim_start_matches("format=").split(',').collect::<Vec<_>>());
        let texts = SiteTexts {
            config: &self.config,
            partitions: &self.partitions,
            associations: AccountTable { fields: &associations, text: &self.assoc },
            qos: AccountTable { fields: &qos, text: &self.qos },
        };
        snapshot.user = Some(asked.user.clone());
        add_site(snapshot, &texts);
        for account in snapshot.accounts.iter_mut().filter(|account| account.name == asked.account) {
            account.qos = asked.qos.clone().or(account.qos.take());
        }
    }
}

/// Returns the texts of an archive by name.
fn snapshots(path: &Path) -> BTreeMap<String, String> {
    let file = fs::File::open(path).expect("the snapshots");
    let mut archive = tar::Archive::new(GzDecoder::new(file));
    let mut texts = BTreeMap::new();
    for entry in archive.entries().expect("an archive") {
        let mut entry = entry.expect("an entry");
        let name = entry.path().expect("a name").to_string_lossy().into_owned();
        let mut text = String::new();
        if std::io::Read::read_to_string(&mut entry, &mut text).is_ok() && !text.is_empty() {
            texts.insert(name.trim_start_matches("./").to_owned(), text);
        }
    }
    texts
}

fn start(submission: &Submission, snapshot: &Snapshot) -> Start {
    let asked = &submission.request;
    let request = Request {
        id: RequestId(0),
        asks: asked.asks.clone(),
        partition: Some(asked.partition.clone()),
        account: Some(asked.account.clone()),
        limit: Seconds(asked.limit_s),
        run: Seconds(asked.limit_s),
        further: FurtherOptions::default(),
    };
    let question =
        Question { snapshot, requests: &[request], seed: submission.n, samples: FUTURES, calibration: None };
    let position =
        QueuePosition { priority: asked.priority, submitted: Time(submission.at), order: u32::MAX };
    forecast_at(&question, &[(RequestId(0), position)], &|| false).remove(0).start
}

/// Returns the columns after the number of the submission.
fn row(start: &Start) -> String {
    match start {
        Start::Estimated(forecast) => {
            let Estimate { low, median, high, .. } = forecast.start;
            format!("{:.0},{:.0},{:.0},", low.0, median.0, high.0)
        }
        Start::Refused(refusal) => format!(",,,{}", refusal.limit),
        Start::Never => ",,,nodes".to_owned(),
        Start::Unknown(_) => ",,,".to_owned(),
    }
}
