//! Real submissions to a saturated queue, with the queue before each and its outcome, as snapshots and
//! requests.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use hsched_model::{GpuType, NodeName, Seconds, Time, hostlist};
use hsched_queue::{
    Asks, EndedJob, FurtherOptions, GpuAsk, GpuCount, HeldNodes, NodeHolding, QueueAccount, QueueJob,
    QueueNode, QueuePartition, Request, RequestId, Snapshot,
};
use serde::Deserialize;

/// A recorded submission.
#[derive(Clone, Debug, Deserialize)]
pub struct Submission {
    /// The GPU type.
    pub t: String,
    /// Number of GPUs; more than 4 GPUs are on whole nodes of 4.
    pub g: u32,
    /// Limit in minutes.
    pub lim: f64,
    pub nice: u32,
    /// Actual run time in minutes.
    pub run: f64,
    /// Time of the query, in Unix seconds.
    pub at: f64,
    /// The start according to `sbatch --test-only`, in Unix seconds.
    pub testonly: Option<f64>,
    /// The start according to a later `squeue --start`.
    pub squeue: Option<String>,
    pub snap: Vec<String>,
    pub waited_s: Option<f64>,
}

/// Returns the file of the submissions, which is not part of the project.
pub fn file() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/data/queue/submissions.jsonl")
}

/// Returns the submissions of a text, in order.
pub fn read(text: &str) -> Vec<Submission> {
    text.lines().map(|line| serde_json::from_str(line).expect("a submission")).collect()
}

impl Submission {
    fn asks(&self) -> Asks {
        let nodes = if self.g > 4 { self.g / 4 } else { 1 };
        let gpus = vec![GpuAsk { gpu_type: GpuType::new(&self.t), count: self.g / nodes }];
        Asks { nodes, gpus, ..Asks::default() }
    }

    /// Returns the request, under an account with the submission's priority.
    pub fn request(&self) -> Request {
        Request {
            id: RequestId::default(),
            asks: self.asks(),
            partition: None,
            account: Some("own".to_owned()),
            limit: Seconds(self.lim * 60.0),
            run: Seconds(self.run * 60.0),
            further: FurtherOptions::default(),
        }
    }

    /// Returns the queue before the submission, with the submissions that had ended by then.
    pub fn snapshot(&self, earlier: &[Self]) -> Snapshot {
        let mut snapshot = Snapshot::empty(Time(self.at));
        let names = (1..=3).map(|n| (format!("a{n}"), "a100"));
        let names = names
            .chain((1..=3).map(|n| (format!("v{n}"), "v100")))
            .chain((1..=2).map(|n| (format!("t{n}"), "t4")));
        snapshot.nodes = names.map(|(name, gpu_type)| node(&name, gpu_type)).collect();
        snapshot.partitions = vec![partition()];
        snapshot.jobs = self.snap.iter().map(|line| job(line)).collect();
        snapshot.scheduling.depth = Some(2000);
        snapshot.scheduling.window_s = Some(Seconds(5760.0 * 60.0));
        let priority = Some(100_000 - u64::from(self.nice));
        snapshot.accounts = vec![QueueAccount {
            name: "own".to_owned(),
            default: true,
            priority,
            qos: None,
            allowed_qos: Vec::new(),
        }];
        let first = earlier.first().map_or(self.at, |first| first.at);
        snapshot.history_since = Some(Time(first));
        snapshot.history = Some(earlier.iter().filter_map(|submission| submission.ended(self.at)).collect());
        snapshot
    }

    fn ended(&self, now: f64) -> Option<EndedJob> {
        let started = self.at + self.waited_s?;
        let ended = started + self.run.min(self.lim) * 60.0;
        (ended <= now).then(|| EndedJob {
            user: None,
            account: None,
            qos: None,
            partition: Some("gpu".to_owned()),
            asks: self.asks(),
            limit_s: Some(Seconds(self.lim * 60.0)),
            priority: Some(100_000 - u64::from(self.nice)),
            submitted: Time(self.at),
            started: Some(Time(started)),
            ended: Time(ended),
        })
    }
}

fn node(name: &str, gpu_type: &str) -> QueueNode {
    QueueNode {
        name: NodeName::new(name).expect("a name"),
        partitions: BTreeSet::from(["gpu".to_owned()]),
        gpus: vec![GpuCount { gpu_type: GpuType::new(gpu_type).expect("a type"), count: 4 }],
        cpus: Some(64),
        memory_mib: Some(256_000),
        features: BTreeSet::new(),
        usable: hsched_queue::NodeUse::Up,
    }
}

fn partition() -> QueuePartition {
    let text = r#"{"name": "gpu", "default": true, "max_time_s": 604800}"#;
    serde_json::from_str(text).expect("a partition")
}

/// Reads `%i|%T|%j|%Q|%L|%l|%S|%e|%N|%b|%D|%V|%Y|%r` of squeue.
fn job(line: &str) -> QueueJob {
    let fields: Vec<&str> = line.split('|').collect();
    let [id, state, _, priority, _, limit, start, _, nodes, gres, count, submitted, ..] = fields[..] else {
        panic!("{line}")
    };
    let gpus: Vec<&str> = gres.trim_start_matches("gres:gpu:").split(':').collect();
    let (gpu_type, per_node) = (GpuType::new(gpus[0]), gpus[1].parse().expect("a count"));
    let runs = state == "RUNNING";
    let holds = |name: &String| NodeHolding {
        node: NodeName::new(name).expect("a name"),
        gpus: vec![GpuCount { gpu_type: gpu_type.clone().expect("a type"), count: per_node }],
        cpus: Some(1),
        memory_mib: None,
    };
    let running = runs.then(|| HeldNodes {
        since: time(start),
        holds: hostlist::expand(nodes).expect("nodes").iter().map(holds).collect(),
    });
    let asks = Asks {
        nodes: count.parse().expect("a count"),
        gpus: vec![GpuAsk { gpu_type: gpu_type.clone(), count: per_node }],
        ..Asks::default()
    };
    let text = serde_json::json!({ "id": id, "asks": {}, "partitions": ["gpu"] });
    let job: QueueJob = serde_json::from_value(text).expect("a job");
    QueueJob {
        priority: priority.parse().ok(),
        submitted: Some(time(submitted)),
        limit_s: Some(Seconds(duration(limit))),
        asks,
        running,
        ..job
    }
}

/// Parses a date without a time zone as UTC.
pub fn time(text: &str) -> Time {
    let date = chrono::NaiveDateTime::parse_from_str(text, "%Y-%m-%dT%H:%M:%S").expect("a date");
    #[expect(clippy::cast_precision_loss, reason = "exact for 285 million years")]
    Time(date.and_utc().timestamp() as f64)
}

/// Returns the seconds of `1-00:00:00`, `3:00:00` or `30:00`.
fn duration(text: &str) -> f64 {
    let (days, rest) = text.split_once('-').unwrap_or(("0", text));
    let sum = rest.split(':').fold(0.0, |sum, part| sum * 60.0 + part.parse::<f64>().expect("a number"));
    days.parse::<f64>().expect("a number") * 86_400.0 + sum
}
