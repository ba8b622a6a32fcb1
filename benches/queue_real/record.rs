//! Submits to a running cluster and records the queue before each submission, and its outcome.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::time::Duration;

use chrono::DateTime;
use hsched_model::{Cluster, Time};
use hsched_queue::{Asks, Snapshot};
use hsched_slurm::queue::{QueueLook, Texts, history, jobs, reservations_command, shares_command, snapshot};
use hsched_slurm::{CommandLine, Runner, System, TestOnlyAnswer, name_types, sbatch, sinfo, site, time};

use crate::Submission;
use crate::clock::ClusterClock;
use crate::draw::{Draw, DrawnRequest};

/// Interval between queries of the history, in seconds of the cluster's clock.
const HISTORY: f64 = 4.0 * 3600.0;
/// Interval between checks whether the last submissions have started, in seconds of the cluster's clock.
const LOOK: f64 = 1800.0;

/// The parameters of a recording.
pub struct Plan {
    pub seed: u64,
    pub count: u32,
    /// Mean time between submissions.
    pub gap_s: u32,
    /// Hours of the cluster's clock to wait for the last start.
    pub most_hours: u32,
}

/// Submits random jobs to a cluster. After all submissions of the recording, writes it to `out` repeatedly,
/// until all of its jobs have started or the time to wait for the last start is over.
pub fn record(cluster: &Path, plan: &Plan, out: &Path) {
    let mut site = Site::of(cluster);
    let mut draw = Draw::new(plan.seed);
    let mut submissions: Vec<Submission> = Vec::new();
    let (mut next, mut last_look) = (site.clock.now(), 0.0);
    let mut end = f64::INFINITY;
    loop {
        site.clock.wait_until(next);
        let seen = site.look();
        let drawn = draw.next(&seen);
        next += drawn.gap * f64::from(plan.gap_s);
        let submitted = site.submit(drawn, seen);
        if submissions.len() < plan.count as usize {
            submissions.extend(submitted);
            println!("{} of {} submitted", submissions.len(), plan.count);
            continue;
        }
        // More jobs are submitted until the last recorded one has started, because the queue must not drain
        // for the jobs that wait longest.
        let now = site.clock.now();
        end = end.min(now + f64::from(plan.most_hours) * 3600.0);
        if now - last_look < LOOK {
            continue;
        }
        last_look = now;
        site.read_starts(&mut submissions);
        write(&submissions, out);
        let waiting = submissions.iter().filter(|submission| submission.start.is_none()).count();
        println!("{waiting} still wait");
        if waiting == 0 || now > end {
            return;
        }
    }
}

fn write(submissions: &[Submission], out: &Path) {
    let mut file = BufWriter::new(File::create(out).expect("the file can be written"));
    for submission in submissions {
        writeln!(file, "{}", serde_json::to_string(submission).expect("JSON")).expect("written");
    }
}

/// A job to submit.
#[derive(Clone, Copy)]
pub struct Order<'a> {
    pub asks: &'a Asks,
    pub partition: &'a str,
    pub account: Option<&'a str>,
    pub limit_min: u32,
    pub run_min: f64,
}

/// A job that has ended, with the time in Unix seconds.
pub struct Ended {
    pub job: u64,
    pub end: f64,
}

/// Returns the options of a job for sbatch.
fn options(order: &Order<'_>) -> Vec<String> {
    let gpus = &order.asks.gpus[0];
    let gpu_type = gpus.gpu_type.as_ref().expect("a type");
    let mut options = vec![
        format!("--time={}", order.limit_min),
        format!("--nodes={}", order.asks.nodes),
        "--ntasks-per-node=1".to_owned(),
        format!("--gres=gpu:{gpu_type}:{}", gpus.count),
        format!("--cpus-per-task={}", order.asks.cpus.unwrap_or(1)),
        format!("--mem={}", order.asks.memory_mib.unwrap_or(100)),
        format!("--partition={}", order.partition),
        "--chdir=/tmp".to_owned(),
        "--output=/dev/null".to_owned(),
        "--job-name=ours".to_owned(),
    ];
    options.extend(order.account.map(|account| format!("--account={account}")));
    options
}

/// A running cluster.
pub struct Site {
    slurm: System,
    pub clock: ClusterClock,
    user: String,
    config: String,
    partitions: String,
    reservations: String,
    shares: (f64, String),
    history: (f64, String),
    earlier: (f64, String),
    growth: Option<f64>,
}

impl Site {
    pub fn of(cluster: &Path) -> Self {
        let conf = cluster.join("etc/slurm.conf").into_os_string();
        let environment = std::env::vars_os().chain([("SLURM_CONF".into(), conf)]);
        let slurm = System::new(environment, Duration::from_secs(60));
        let ask = |command: &CommandLine| slurm.run(command).expect("Slurm answers").stdout;
        Self {
            user: ask(&CommandLine::new("id", ["-un"])).trim().to_owned(),
            config: ask(&site::config_command()),
            partitions: ask(&site::partitions_command()),
            reservations: ask(&reservations_command()),
            shares: (0.0, String::new()),
            history: (0.0, String::new()),
            earlier: (0.0, String::new()),
            growth: None,
            clock: ClusterClock::of(cluster),
            slurm,
        }
    }

    fn ask(&self, command: &CommandLine) -> String {
        self.slurm.run(command).expect("Slurm answers").stdout
    }

    pub fn look(&mut self) -> Snapshot {
        let now = self.clock.now();
        if now - self.history.0 > HISTORY {
            #[expect(clippy::cast_possible_truncation, reason = "whole seconds")]
            let at = DateTime::from_timestamp(now as i64, 0).expect("a date");
            self.history = (now, self.ask(&history::command(at, &[])));
            self.shares = (now, self.ask(&shares_command()));
        }
        let (mut cluster, _): (Cluster, _) = sinfo::parse(&self.ask(&sinfo::command())).expect("nodes");
        name_types(&mut cluster, &std::collections::BTreeMap::new());
        let at = self.clock.now();
        let squeue = self.ask(&jobs::command(hsched_slurm::site::Config::parse(&self.config).release()));
        let texts = Texts {
            squeue: &squeue,
            cluster: &cluster,
            config: Some(&self.config),
            partitions: Some(&self.partitions),
            reservations: Some(&self.reservations),
            shares: Some((Time(self.shares.0), &self.shares.1)),
            default_account: None,
            limits: None,
            history: Some((Time(self.history.0), &self.history.1)),
            later: None,
            earlier: (self.earlier.0 > 0.0).then_some((Time(self.earlier.0), self.earlier.1.as_str())),
        };
        let mut seen = snapshot(texts, QueueLook { at: Time(at), user: &self.user }).expect("a snapshot");
        self.growth = seen.scheduling.priority_per_hour.or(self.growth);
        seen.scheduling.priority_per_hour = self.growth;
        // The load begins with many jobs at once, which is not typical of any user.
        seen.history_since = seen.history_since.map(|since| Time(since.0 + 3600.0));
        if at - self.earlier.0 > 3600.0 {
            self.earlier = (at, squeue);
        }
        seen
    }

    /// Runs `--test-only`, and submits; `None` if Slurm refuses.
    fn submit(&self, drawn: DrawnRequest, seen: Snapshot) -> Option<Submission> {
        let order = Order {
            asks: &drawn.asks,
            partition: &drawn.partition,
            account: drawn.account.as_deref(),
            limit_min: drawn.limit_min,
            run_min: drawn.run_min,
        };
        let test_only = self.test_only(&order);
        let job = self.order(&order)?;
        Some(Submission {
            job,
            limit_s: f64::from(drawn.limit_min) * 60.0,
            run_s: drawn.run_min * 60.0,
            asks: drawn.asks,
            partition: drawn.partition,
            account: drawn.account,
            test_only,
            start: None,
            snapshot: seen,
        })
    }

    /// Returns the start of a job according to `sbatch --test-only`, in Unix seconds.
    pub fn test_only(&self, order: &Order<'_>) -> Option<f64> {
        let command = sbatch::test_command(&self.script(order), &options(order));
        let test = sbatch::test(&self.slurm, &command).expect("Slurm answers");
        if let TestOnlyAnswer::Starts(date) = test { time::unix(&date) } else { None }
    }

    /// Submits a job; returns its number, or `None` if Slurm refuses it.
    pub fn order(&self, order: &Order<'_>) -> Option<u64> {
        let parsable = std::iter::once("--parsable".to_owned()).chain(options(order));
        let command = CommandLine { stdin: Some(self.script(order)), ..CommandLine::new("sbatch", parsable) };
        match self.slurm.run(&command) {
            Ok(output) => output.stdout.trim().split(';').next()?.parse().ok(),
            Err(error) => {
                println!("{error}");
                None
            }
        }
    }

    fn script(&self, order: &Order<'_>) -> String {
        format!("#!/bin/sh\nexec sleep {:.3}\n", self.clock.real_seconds(order.run_min * 60.0))
    }

    /// Returns the jobs that have ended among our jobs in the accounting records from an hour before a given time.
    pub fn ended(&self, since: f64) -> Vec<Ended> {
        let ended = |line: &str| {
            let (job, end) = line.split_once('|')?;
            Some(Ended { job: job.parse().ok()?, end: time::unix(end)? })
        };
        self.accounted(since, "JobIDRaw,End").lines().filter_map(ended).collect()
    }

    /// Returns the accounting records of our jobs from an hour before a given time.
    fn accounted(&self, since: f64, what: &str) -> String {
        #[expect(clippy::cast_possible_truncation, reason = "whole seconds")]
        let [from, until] = [since - 3600.0, self.clock.now() + 86400.0]
            .map(|at| time::text(DateTime::from_timestamp(at as i64, 0).expect("a date")));
        let fields = ["-n", "-X", "-P", "--name=ours", "-o", what, "-S", &from, "-E", &until];
        self.ask(&CommandLine::new("sacct", fields))
    }

    /// Records the starts that accounting shows.
    fn read_starts(&self, submissions: &mut [Submission]) {
        let Some(first) = submissions.first() else { return };
        let printed = self.accounted(first.snapshot.taken_at.0, "JobIDRaw,Start");
        for line in printed.lines() {
            let Some((job, start)) = line.split_once('|') else { continue };
            let submission = submissions.iter_mut().find(|submission| job.parse() == Ok(submission.job));
            if let Some(submission) = submission {
                submission.start = time::unix(start).or(submission.start);
            }
        }
    }
}
