//! The story of three jobs on the real and the simulated cluster: wrong speeds, an end, a failure, a node
//! that dies.

use std::collections::BTreeMap;

use hsched_engine::{Action, Answer, End, Event, News, PlannedSubmission, Rules, SubmissionKey, Update};
use hsched_lab::simulate::{
    Delays, Incident, IncidentTime, Play, PlayOptions, SimulatedSite, SimulatedWorld,
};
use hsched_model::{BitRate, Cluster, GpuType, JobName, NodeName, Seconds, Speed, Time};
use hsched_plan::{Moves, Objective};
use serde_json::{Value, json};

use hsched_fixtures::engine_states::{policy, rules};

/// True samples per second on one GPU, by job and GPU type.
pub const TRUE_SPEEDS: [(&str, &[(&str, f64)]); 3] =
    [("short", &[("v100", 300.0)]), ("flaky", &[("t4", 100.0)]), ("long", &[("v100", 300.0), ("t4", 100.0)])];

/// The epoch of `long` after which its node dies.
pub const FATAL_EPOCH: u64 = 9;

/// The node that dies.
pub const FATAL_NODE: &str = "v2";

/// The epoch in which `flaky` fails, the first time.
pub const FAILS_AT: u64 = 6;

/// The nodes, in the format of `dev-cluster`.
pub const NODES: &str = "partition gpu default max_time=infinite default_time=10\n\
    v[1-2] cpus=8 memory=16000 gpus=v100:2 partitions=gpu\n\
    t1     cpus=8 memory=16000 gpus=t4:4   partitions=gpu\n";

/// Durations on the cluster of the tests.
pub const DELAYS: Delays =
    Delays { start: Seconds(0.6), setup: Seconds(0.2), end: Seconds(0.2), node_down: Seconds(4.5) };

/// Interval between turns of the simulated engine.
pub const POLL: Seconds = Seconds(0.6);

/// Returns the job file, with speeds that are wrong; `command` gives a job's command.
pub fn jobs(command: &dyn Fn(&str, u64) -> Value) -> Value {
    let job = |name: &str, samples: u64, epochs: u64, limits: (u32, u32), throughput: Value| {
        json!({
            "name": name, "samples_per_epoch": samples, "epochs": epochs, "global_batch": 60, "model_size": 0,
            "min_gpus": limits.0, "max_gpus": limits.1, "throughput": throughput,
            "checkpoint": {"grace": "10s", "restart_cost": "2s"}, "command": command(name, samples),
        })
    };
    json!({ "jobs": [
        job("short", 600, 14, (2, 2), json!({"v100": 150})),
        job("flaky", 400, 8, (2, 2), json!({"t4": 160})),
        job("long", 1800, 14, (2, 4), json!({"v100": 200, "t4": 90})),
    ]})
}

/// The example is this story, for people to play.
#[test]
fn the_example_is_the_story() {
    let root = crate::real_cluster::repository().join("examples/loop");
    let read = |name: &str| std::fs::read_to_string(root.join(name)).expect("an example");
    let parse = |text: &str| {
        let jobs = hsched_model::formats::jobs::parse(text).expect("jobs");
        jobs.into_iter().map(|mut job| {
            job.launch.command = hsched_model::Command::Shell(String::new());
            job
        })
    };
    assert!(parse(&read("jobs.yaml")).eq(parse(&jobs(&|_, _| json!("x")).to_string())));
    let nodes = read("cluster.nodes");
    assert!(nodes.ends_with(NODES), "{nodes}");
}

/// Returns the actions in a journal: submissions with their GPUs, stops and cancellations, in order.
pub fn actions(journal: &str) -> Vec<String> {
    let lines = journal.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let deed = |line: Value| {
        let (action, job) = (line["action"].as_str()?, line["job"].as_str()?);
        match action {
            "submit" => Some(format!("submit {job} on {}", line["gpus"].as_str()?)),
            "stop" | "cancel" => Some(format!("{action} {job}")),
            _ => None,
        }
    };
    lines.filter_map(deed).collect()
}

/// The expected actions, on any cluster.
pub const ACTIONS: [&str; 9] = [
    "submit short on 2 v100",
    "submit flaky on 2 t4",
    "submit long on 2 t4 + 2 v100",
    // The speeds of its job file were wrong, and so were its ranks' shares.
    "stop long",
    "submit long on 2 t4 + 2 v100",
    // The job failed once.
    "submit flaky on 2 t4",
    // The short job has ended, and its GPUs suit the long job better.
    "stop long",
    "submit long on 4 v100",
    // The node has died.
    "submit long on 2 t4 + 2 v100",
];

/// Returns the end of each job from a journal, in seconds since the first was added.
pub fn ends(journal: &str) -> BTreeMap<String, f64> {
    let lines: Vec<Value> = journal.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let begin = lines.first().and_then(|line| line["at"].as_f64()).expect("a first line");
    let end = |line: &Value| {
        let ended = line["event"] == "ended" && line["end"] == "completed";
        Some((line["job"].as_str()?.to_owned(), line["end_time"].as_f64()? - begin)).filter(|_| ended)
    };
    lines.iter().filter_map(end).collect()
}

/// Returns durations on a real cluster from its journal: they depend on the machine and its load.
pub fn delays(journal: &str) -> Delays {
    let lines: Vec<Value> = journal.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let of = |run: &Value, event: &str| -> Vec<&Value> {
        lines.iter().filter(|line| line["run"] == *run && line["event"] == event).collect()
    };
    let number = |value: &Value| value.as_f64().expect("a number");
    // Time of a whole submission in addition to its epochs: queueing, start and end.
    let around =
        lines.iter().filter(|line| line["event"] == "ended" && line["end"] == "completed").map(|ended| {
            let lines_of = |event: &str| -> Vec<&Value> {
                of(&ended["run"], event).into_iter().filter(|line| line["job"] == ended["job"]).collect()
            };
            let epochs: f64 = lines_of("epoch").iter().map(|line| number(&line["epoch_s"])).sum();
            number(&ended["end_time"]) - number(&lines_of("submitted")[0]["at"]) - epochs
        });
    let around: Vec<f64> = around.collect();
    #[expect(clippy::cast_precision_loss, reason = "three jobs")]
    let around = around.iter().sum::<f64>() / around.len() as f64;
    let start = Seconds((around - DELAYS.setup.0 - DELAYS.end.0).max(0.1));
    let long = |line: &&Value| line["job"] == "long";
    let dies = lines.iter().filter(long).find(|line| line["epoch"] == FATAL_EPOCH).expect("an epoch");
    let lost = lines.iter().filter(long).find(|line| line["end"] == "lost a node").expect("an end");
    let node_down = Seconds(number(&lost["end_time"]) - number(&dies["at"]));
    Delays { start, node_down, ..DELAYS }
}

/// Seconds that the epochs took, by job and the number of its submission.
pub type Epochs = BTreeMap<(String, usize), Vec<f64>>;

/// Returns the length of the epochs from a journal.
pub fn epochs(journal: &str) -> Epochs {
    let lines: Vec<Value> = journal.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let (mut number, mut epochs) = (BTreeMap::new(), Epochs::new());
    for line in &lines {
        let Some(job) = line["job"].as_str().map(str::to_owned) else { continue };
        match line["event"].as_str() {
            Some("submitted") => *number.entry(job).or_insert(0) += 1,
            Some("epoch") => {
                let length = line["epoch_s"].as_f64().expect("a number");
                epochs.entry((job.clone(), number[&job])).or_default().push(length);
            }
            _ => {}
        }
    }
    epochs
}

/// The result of the story in the simulated cluster.
pub struct Played {
    pub actions: Vec<String>,
    /// The end of each job.
    pub ends: BTreeMap<String, f64>,
    pub epochs: Epochs,
}

/// Plays the story in the simulated cluster.
pub fn simulated(delays: Delays, poll: Seconds) -> Played {
    let policy = policy(Moves::Auto { margin: 0.5 });
    let rules = Rules { retry_delay: Seconds(1.0), ..rules() };
    let text = jobs(&|_, _| json!("x")).to_string();
    let jobs = hsched_model::formats::jobs::parse(&text).expect("jobs");
    let orders = jobs
        .into_iter()
        .map(|job| (Time(0.0), Event::Added { job: Box::new(job), restart: false }))
        .collect();
    let ways = PlayOptions { rules: &rules, objective: Objective::MeanJct, seed: 0, patience: u64::MAX };
    let mut play = Play::new(SimulatedWorld::new(site(delays), incidents(), Time(0.0)), orders, policy, ways);
    let (mut actions, mut ends) = (Vec::new(), BTreeMap::new());
    let (mut number, mut epochs) = (BTreeMap::new(), Epochs::new());
    while !play.is_over() && play.world.now().0 < 300.0 {
        play.turn(&mut |told| match told {
            Update::Action(action) => actions.extend(in_words(action)),
            Update::Event(Event::News {
                of: SubmissionKey { job, .. },
                news: News::Ended { end: End::Completed, at },
            }) => {
                ends.insert(job.to_string(), at.0);
            }
            Update::Event(Event::Answer {
                of: SubmissionKey { job, .. },
                answer: Answer::Submitted { .. },
            }) => {
                *number.entry(job.to_string()).or_insert(0) += 1;
            }
            Update::Event(Event::News { of: SubmissionKey { job, .. }, news: News::Epoch(report) }) => {
                let job = job.to_string();
                let length = report.length.expect("a length").0;
                epochs.entry((job.clone(), number[&job])).or_default().push(length);
            }
            Update::Event(_) => {}
        });
        play.world.pass(poll);
    }
    Played { actions, ends, epochs }
}

fn in_words(action: &Action) -> Vec<String> {
    match action {
        Action::Submit(run) => {
            let word = |planned: &PlannedSubmission| {
                format!("submit {} on {}", run.jobs[planned.job].name, run.gpus(planned))
            };
            run.submissions.iter().map(word).collect()
        }
        Action::Stop { of: SubmissionKey { job, .. }, .. } => vec![format!("stop {job}")],
        Action::Cancel { of: SubmissionKey { job, .. }, .. } => vec![format!("cancel {job}")],
        Action::Share { .. } => panic!("nobody says a share here"),
        Action::Amend { .. } | Action::Wait { .. } | Action::GiveUp { .. } | Action::Learn { .. } => {
            Vec::new()
        }
    }
}

fn site(delays: Delays) -> SimulatedSite {
    let nodes = "nodes:\n  - {name: 'v[1-2]', gpus: {v100: 2}}\n  - {name: t1, gpus: {t4: 4}}\n";
    let cluster: Cluster = hsched_model::formats::cluster::parse(nodes).expect("a cluster");
    let speed = |&(gpu_type, rate): &(&str, f64)| {
        (GpuType::new(gpu_type).expect("a type"), Speed::rate(rate).expect("a rate"))
    };
    let speeds =
        TRUE_SPEEDS.iter().map(|(job, rates)| ((*job).to_owned(), rates.iter().map(speed).collect()));
    let rate = BitRate::new(10.0).expect("a rate");
    SimulatedSite { delays, ..SimulatedSite::new(cluster, [rate, rate], speeds.collect()) }
}

fn incidents() -> Vec<Incident> {
    let name = |text| JobName::new(text).expect("a name");
    let fails = Incident::Failure {
        job: name("flaky"),
        submission: 1,
        epoch: FAILS_AT,
        end: End::Failed { exit: 1, signal: 0 },
    };
    let when = IncidentTime::Reported { job: name("long"), epoch: FATAL_EPOCH };
    vec![fails, Incident::NodeDies { node: NodeName::new(FATAL_NODE).expect("a name"), when }]
}

#[test]
fn the_simulated_cluster_plays_the_same_story() {
    let Played { actions, ends, .. } = simulated(DELAYS, POLL);
    assert_eq!(actions, ACTIONS);
    assert_eq!(ends.len(), 3, "{ends:?}");
}
