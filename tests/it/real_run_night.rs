//! Twelve jobs in allocations of a real Slurm, each too short for all jobs, and the same story in the simulated world.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use hsched_engine::{BackendKind, End, Event, News, Rules, SubmissionKey, Update};
use hsched_lab::find_over_time;
use hsched_lab::simulate::{
    Delays, Incident, IncidentTime, Play, PlayOptions, SimulatedSite, SimulatedWorld,
};
use hsched_model::{Cluster, Job, JobName, NodeName, Seconds, Time};
use hsched_plan::{ExecutionMode, Objective, Parameters};
use serde_json::{Value, json};

use crate::real_cluster::{STEADY, repository, start};
use crate::real_run::Together;
use crate::real_user::{TestUser, wait_for, wait_within};
use hsched_fixtures::sites::rules;
use hsched_fixtures::sites::{cluster, site};

/// The nodes of the allocation, for `dev-cluster`.
const NODES: &str =
    "w[1-2] cpus=16 memory=64000 gpus=v100:2,t4:2\npartition main default max_time=60 default_time=10\n";

/// The same for the simulated world.
const CLUSTER: &str = "nodes: [{name: 'w[1-2]', gpus: {v100: 2, t4: 2}}]\n";

/// Number of jobs that do all their epochs.
const LONG: usize = 10;
const EPOCHS: u64 = 45;

/// Returns a job with the stand-in program, which takes the time predicted by the model.
fn job(name: &str, epochs: u64, max_gpus: u32) -> Value {
    let program = repository().join("examples/stand-in/train.py");
    let speeds = "--speed v100=100 --speed t4=50 --samples-per-epoch 200";
    json!({
        "name": name, "samples_per_epoch": 200, "epochs": epochs, "global_batch": 40, "model_size": 0,
        "throughput": {"v100": 100, "t4": 50}, "max_gpus": max_gpus, "retries": 0,
        "checkpoint": {"grace": "2s", "restart_cost": "1s"},
        "command": format!("exec python3 {} {speeds}", program.display()),
    })
}

fn long(numbers: std::ops::Range<usize>) -> Vec<Value> {
    numbers.map(|number| job(&format!("j{number}"), EPOCHS, 2)).collect()
}

/// Returns the first half of the jobs: one of them fails, and one is cancelled.
fn first() -> Vec<Value> {
    let mut jobs = long(0..4);
    let mut bad = job("bad", 5, 2);
    bad["command"] = json!("exit 3");
    jobs.extend([bad, job("gone", 1000, 1)]);
    jobs
}

/// The events, line by line.
struct Journal(Vec<Value>);

impl Journal {
    fn read(together: &Together<'_>) -> Self {
        let text = |name: &str| fs::read_to_string(together.state.join(name)).unwrap_or_default();
        let lines = [text("journal.old"), text("journal")].concat();
        Self(lines.lines().filter_map(|line| serde_json::from_str(line).ok()).collect())
    }

    fn of(&self, key: &'static str, word: &'static str) -> impl Iterator<Item = &Value> {
        self.0.iter().filter(move |line| line[key] == word)
    }

    fn at(line: &Value) -> f64 {
        line["at"].as_f64().expect("a number")
    }

    /// Returns the GPUs of each submission of a job, in order.
    fn gpus(&self, job: &str) -> Vec<&str> {
        self.of("action", "submit")
            .filter(|line| line["job"] == job)
            .filter_map(|line| line["gpus"].as_str())
            .collect()
    }

    /// Returns the jobs that were moved from slow GPUs to fast ones.
    fn moved(&self) -> Vec<String> {
        let is_up = |pair: &[&str]| pair[0].contains("t4") && !pair[1].contains("t4");
        let stopped = self.of("action", "stop").filter_map(|line| line["job"].as_str());
        stopped.filter(|job| self.gpus(job).windows(2).any(is_up)).map(str::to_owned).collect()
    }

    /// Returns how many times each epoch of a job was reported.
    fn epochs(&self, job: &str) -> BTreeMap<u64, u32> {
        let mut counts = BTreeMap::new();
        for line in self.of("event", "epoch").filter(|line| line["job"] == job) {
            *counts.entry(line["epoch"].as_u64().expect("a number")).or_default() += 1;
        }
        counts
    }

    /// Returns the median time of the final submissions in addition to their epochs.
    fn latency(&self) -> f64 {
        let around = |ended: &Value| {
            let is_same = |line: &&Value| line["run"] == ended["run"] && line["job"] == ended["job"];
            let epochs: f64 =
                self.of("event", "epoch").filter(is_same).filter_map(|line| line["epoch_s"].as_f64()).sum();
            let submitted = self.of("event", "submitted").find(is_same).expect("a submission");
            ended["end_time"].as_f64().expect("a number") - Self::at(submitted) - epochs
        };
        let mut all: Vec<f64> =
            self.of("event", "ended").filter(|line| line["end"] == "completed").map(around).collect();
        all.sort_by(f64::total_cmp);
        all[all.len() / 2]
    }

    /// Returns the periods in which no job ran, because one allocation had ended and the next had not started.
    fn gaps(&self) -> Vec<(f64, f64)> {
        let mut gaps: Vec<(f64, f64)> = Vec::new();
        for ended in self.of("event", "ended").filter(|line| line["end"] == "was interrupted") {
            let from = ended["end_time"].as_f64().expect("a number");
            let next = self.of("event", "submitted").map(Self::at).find(|at| *at > from).expect("a next one");
            match gaps.last_mut() {
                Some((begin, end)) if *end >= next => *begin = begin.min(from),
                _ => gaps.push((from, next)),
            }
        }
        gaps
    }
}

/// The end of each job, in seconds since the first one was added.
type Ends = BTreeMap<String, f64>;

/// Repeats the events in the simulated world: the same jobs are added and cancelled at the times in a journal, and
/// nodes are down while there is no allocation.
fn simulated(journal: &Journal) -> Ends {
    let begin = journal.of("event", "added").map(Journal::at).next().expect("a first job");
    let jobs = |specs: Vec<Value>| {
        hsched_model::formats::jobs::parse(&json!({ "jobs": specs }).to_string()).expect("jobs")
    };
    let all: Vec<Job> = jobs([first(), long(4..LONG)].concat());
    let since = |line: &Value| Time(Journal::at(line) - begin);
    let mut orders: Vec<(Time, Event)> = Vec::new();
    for line in journal.of("event", "added") {
        let job = all.iter().find(|job| line["job"] == job.name.as_str()).expect("a job").clone();
        orders.push((since(line), Event::Added { job: Box::new(job), restart: false }));
    }
    let cancelled = journal.of("event", "cancel_asked").next();
    let cancelled = since(cancelled.expect("a wish"));
    orders.push((cancelled, Event::CancelAsked { job: name("gone") }));
    let end = End::Failed { exit: 3, signal: 0 };
    // The job fails in its first epoch, in whichever submission that epoch starts.
    let fails = |submission| Incident::Failure { job: name("bad"), submission, epoch: 1, end: end.clone() };
    let mut incidents: Vec<Incident> = (1..10).map(fails).collect();
    for (from, to) in journal.gaps() {
        for node in ["w1", "w2"] {
            let node = NodeName::new(node).expect("a name");
            let at = |moment: f64| IncidentTime::At(Time(moment - begin));
            incidents.push(Incident::NodeDies { node: node.clone(), when: at(from) });
            incidents.push(Incident::NodeReturns { node, when: at(to) });
        }
    }
    let cluster: Cluster = cluster(CLUSTER);
    let delays = Delays { setup: Seconds(journal.latency()), ..Delays::default() };
    let site = SimulatedSite { delays, pinned: true, ..site(cluster, &all) };
    let rules = Rules {
        backend: BackendKind::Devices,
        pinned: true,
        retry_delay: Seconds(0.1),
        restart_cost: Seconds(1.0),
        ..rules()
    };
    let ways = PlayOptions { rules: &rules, objective: Objective::MeanJct, seed: 0, patience: u64::MAX };
    let parameters = Parameters { carrying: ExecutionMode::Alone, ..Parameters::default() };
    let policy = find_over_time("horizon", &parameters).expect("a policy");
    let mut play = Play::new(SimulatedWorld::new(site, incidents, Time(0.0)), orders, policy, ways);
    let mut ends = Ends::new();
    while !play.is_over() && play.world.now().0 < 3000.0 {
        play.turn(&mut |told| {
            if let Update::Event(Event::News {
                of: SubmissionKey { job, .. },
                news: News::Ended { end: End::Completed, at },
            }) = told
            {
                ends.insert(job.to_string(), at.0);
            }
        });
        play.world.pass(Seconds(0.1));
    }
    ends
}

fn name(text: &str) -> JobName {
    JobName::new(text).expect("a name")
}

/// Six jobs are added later, one fails, one is cancelled, one moves, and the allocation is too short by half: all others
/// complete in the next ones, and each epoch is done once. In the simulated world the story ends at the same time.
#[test]
#[ignore = "a timed test: it needs a machine that does nothing else (tests/long)"]
fn a_night_of_jobs_goes_from_one_allocation_to_the_next() {
    let nodes = tempfile::NamedTempFile::new().expect("a file");
    fs::write(nodes.path(), NODES).expect("writes");
    let Some(cluster) = start(nodes.path(), STEADY) else { return };
    let user = TestUser::new(&cluster, "night", "");
    let run = Together::submit(user, &json!({ "jobs": first() }).to_string(), "2m");
    wait_for("an epoch", || (run.job("gone").1 > 0).then_some(()));
    run.user.write("more.yaml", &json!({ "jobs": long(4..LONG) }).to_string());
    run.hsched(&["add", "more.yaml"]);
    run.hsched(&["cancel", "gone"]);
    let ended = wait_within(Duration::from_secs(900), || {
        run.user.ask("squeue", &["--noheader"]).trim().is_empty().then_some(())
    });
    let log = run.log();
    assert!(ended.is_some() && log.contains("the allocation ends soon"), "{log}");
    let journal = Journal::read(&run);
    for number in 0..LONG {
        let name = format!("j{number}");
        assert_eq!(run.job(&name), ("completed".into(), EPOCHS), "{name}: {log}");
        let once: BTreeMap<u64, u32> = (1..=EPOCHS).map(|epoch| (epoch, 1)).collect();
        assert_eq!(journal.epochs(&name), once, "{name}");
    }
    assert_eq!((run.job("bad").0, run.job("gone").0), ("failed".into(), "cancelled".into()));
    assert!(!journal.moved().is_empty(), "nobody moved to faster GPUs: {log}");

    let begin = journal.of("event", "added").map(Journal::at).next().expect("a first job");
    let end = |line: &Value| Some((line["job"].as_str()?.to_owned(), line["end_time"].as_f64()? - begin));
    let real: Ends =
        journal.of("event", "ended").filter(|line| line["end"] == "completed").filter_map(end).collect();
    let simulated = simulated(&journal);
    println!(
        "ends in seconds, real {real:.1?}, simulated {simulated:.1?}; moved {:?}; latency {:.2}, without an allocation {:.1?}",
        journal.moved(),
        journal.latency(),
        journal.gaps()
    );
    assert_eq!((real.len(), simulated.len()), (LONG, LONG));
    let last = |ends: &Ends| ends.values().copied().fold(0.0, f64::max);
    let (real, simulated) = (last(&real), last(&simulated));
    assert!((real - simulated).abs() <= 0.05 * real, "the end: real {real:.1}, simulated {simulated:.1}");
}
