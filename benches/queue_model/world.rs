//! A small cluster with rules that are not those of the model: a pass at most once a minute, when a job
//! arrives or ends; only the first pending job of a type has a reservation (EASY); jobs go to the fullest
//! node that has room; and priorities follow the users' past use and the jobs' age.

use hsched_model::{GpuType, Seconds};
use hsched_queue::{Asks, FurtherOptions, GpuAsk, Request, RequestId, Snapshot};
use serde_json::{Value, json};

use crate::made_up::Random;

pub const TYPES: [&str; 3] = ["a100", "v100", "t4"];
const NODES: [usize; 8] = [0, 0, 0, 1, 1, 1, 2, 2];
const PER_NODE: u32 = 4;
const USERS: usize = 8;
/// The user whose requests are tried.
const OWN: usize = USERS - 1;
const MINUTE: f64 = 60.0;
/// Priority that a pending job gains per hour.
const AGE: f64 = 100.0;
const HALF_LIFE: f64 = 7.0 * 86_400.0;
const EPOCH: f64 = 1_800_000_000.0;

#[derive(Clone, Debug)]
pub struct Job {
    pub id: usize,
    user: usize,
    gpu_type: usize,
    nodes: usize,
    per_node: u32,
    limit: f64,
    run: f64,
    submitted: f64,
}

#[derive(Clone, Debug)]
struct Run {
    job: Job,
    on: Vec<usize>,
    since: f64,
}

#[derive(Clone, Debug)]
pub struct World {
    pub now: f64,
    free: Vec<u32>,
    waiting: Vec<Job>,
    running: Vec<Run>,
    /// The future arrivals, the last one first.
    coming: Vec<Job>,
    ended: Vec<Value>,
    used: [f64; USERS],
}

/// A request to try: its GPUs and its run time.
#[derive(Clone, Copy, Debug)]
pub struct Trial {
    pub gpu_type: usize,
    pub nodes: usize,
    pub per_node: u32,
    pub run: f64,
}

impl Trial {
    pub fn limit(&self) -> f64 {
        (self.run * 1.21 / 900.0).ceil() * 900.0
    }

    pub fn request(&self, id: RequestId) -> Request {
        let gpus = vec![GpuAsk { gpu_type: GpuType::new(TYPES[self.gpu_type]), count: self.per_node }];
        let nodes = u32::try_from(self.nodes).expect("few");
        Request {
            id,
            asks: Asks { nodes, gpus, ..Asks::default() },
            partition: None,
            account: Some("own".to_owned()),
            limit: Seconds(self.limit()),
            run: Seconds(self.run),
            further: FurtherOptions::default(),
        }
    }
}

impl World {
    /// Returns a cluster on which jobs arrive for each GPU type with this load, for this number of days after
    /// a first week.
    pub fn new(seed: u64, load: f64, days: f64) -> Self {
        let mut random = Random::new(seed);
        let mut coming = Vec::new();
        for gpu_type in 0..TYPES.len() {
            let gpus =
                NODES.iter().filter(|node_type| **node_type == gpu_type).count() as f64 * f64::from(PER_NODE);
            let mut at = 0.0;
            while at < (7.0 + days) * 86_400.0 {
                let job = draw(&mut random, gpu_type, at);
                let work = f64::from(job.per_node) * job.nodes as f64 * job.run;
                // A gap after each job in proportion to its work gives the load with little noise.
                at += work / gpus / load * 2.0 * random.unit();
                coming.push(job);
            }
        }
        coming.sort_by(|a, b| b.submitted.total_cmp(&a.submitted));
        for (number, job) in coming.iter_mut().rev().enumerate() {
            job.id = number;
        }
        let mut world = Self {
            now: 0.0,
            free: vec![PER_NODE; NODES.len()],
            waiting: Vec::new(),
            running: Vec::new(),
            coming,
            ended: Vec::new(),
            used: [0.0; USERS],
        };
        world.go_until(7.0 * 86_400.0);
        world
    }

    /// Processes events until the clock has reached a time; the last event may lie after it.
    pub fn go_until(&mut self, time: f64) {
        while self.now < time && self.step() {}
    }

    /// Returns the seconds to the end of the request that starts first, among some that are submitted
    /// together now.
    pub fn finish(&self, trials: &[Trial]) -> f64 {
        let mut world = self.clone();
        let first = usize::MAX / 2;
        let job = |(number, trial): (usize, &Trial)| self.job(first + number, trial);
        world.waiting.extend(trials.iter().enumerate().map(job));
        world.pass();
        loop {
            if let Some(run) = world.running.iter().find(|run| run.job.id >= first) {
                return run.since - self.now + run.job.run;
            }
            if !world.step() {
                return f64::INFINITY;
            }
        }
    }

    /// Returns the seconds to the end of each of some jobs that are submitted now.
    pub fn finishes(&self, trials: &[Trial]) -> Vec<f64> {
        let mut world = self.clone();
        // These ids lie below those of `finish` and above all others.
        let first = usize::MAX / 4;
        let job = |(number, trial): (usize, &Trial)| self.job(first + number, trial);
        world.waiting.extend(trials.iter().enumerate().map(job));
        world.pass();
        let mut finishes = vec![f64::INFINITY; trials.len()];
        loop {
            for run in world.running.iter().filter(|run| run.job.id >= first) {
                finishes[run.job.id - first] = run.since - self.now + run.job.run;
            }
            if finishes.iter().all(|candidate| candidate.is_finite()) || !world.step() {
                return finishes;
            }
        }
    }

    fn job(&self, id: usize, trial: &Trial) -> Job {
        let Trial { gpu_type, nodes, per_node, run } = *trial;
        Job { id, user: OWN, gpu_type, nodes, per_node, limit: trial.limit(), run, submitted: self.now }
    }

    /// Returns whether GPUs for a request are free now.
    pub fn has_free(&self, trial: &Trial) -> bool {
        let able = |node: usize| NODES[node] == trial.gpu_type && self.free[node] >= trial.per_node;
        (0..NODES.len()).filter(|&node| able(node)).count() >= trial.nodes
    }

    /// Advances to the minute of the next event; returns whether there is one.
    fn step(&mut self) -> bool {
        let end = self.running.iter().map(|run| run.since + run.job.run);
        let next = end.chain(self.coming.last().map(|job| job.submitted)).fold(f64::INFINITY, f64::min);
        if next == f64::INFINITY {
            return false;
        }
        let time = ((next / MINUTE).ceil() * MINUTE).max(self.now + MINUTE);
        let decay = 0.5_f64.powf((time - self.now) / HALF_LIFE);
        for used in &mut self.used {
            *used *= decay;
        }
        self.now = time;
        let (over, left) = std::mem::take(&mut self.running)
            .into_iter()
            .partition(|run: &Run| run.since + run.job.run <= time);
        self.running = left;
        for run in over {
            self.end(&run);
        }
        while self.coming.last().is_some_and(|job| job.submitted <= time) {
            self.waiting.extend(self.coming.pop());
        }
        self.pass();
        true
    }

    fn end(&mut self, run: &Run) {
        let job = &run.job;
        for &node in &run.on {
            self.free[node] += job.per_node;
        }
        self.used[job.user] += f64::from(job.per_node) * run.on.len() as f64 * job.run;
        self.ended.push(json!({ "user": format!("u{}", job.user), "asks": asks(job), "limit_s": job.limit,
            "submitted": EPOCH + job.submitted, "started": EPOCH + run.since,
            "ended": EPOCH + run.since + job.run }));
    }

    fn priority(&self, user: usize, waited: f64) -> f64 {
        let mean = self.used.iter().sum::<f64>() / USERS as f64 + 1.0;
        10_000.0 * 0.5_f64.powf(self.used[user] / mean) + AGE * waited / 3600.0
    }

    fn pass(&mut self) {
        let mut order: Vec<(f64, Job)> = self.waiting.drain(..).map(|job| (0.0, job)).collect();
        for (priority, job) in &mut order {
            *priority = self.priority(job.user, self.now - job.submitted);
        }
        order.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.id.cmp(&b.1.id)));
        // The reservation of each type: its nodes and its start.
        let mut reserved: [Option<(Vec<usize>, f64)>; 3] = [None, None, None];
        let mut own_started = false;
        for (_, job) in order {
            if job.id >= usize::MAX / 2 && own_started {
                continue;
            }
            if let Some(on) = self.place(&job, reserved[job.gpu_type].as_ref()) {
                for &node in &on {
                    self.free[node] -= job.per_node;
                }
                own_started |= job.id >= usize::MAX / 2;
                self.running.push(Run { job, on, since: self.now });
            } else {
                if reserved[job.gpu_type].is_none() {
                    reserved[job.gpu_type] = self.reservation(&job);
                }
                self.waiting.push(job);
            }
        }
    }

    /// Returns nodes on which a job can start without delaying the job with the reservation, the fullest
    /// first.
    fn place(&self, job: &Job, reserved: Option<&(Vec<usize>, f64)>) -> Option<Vec<usize>> {
        let is_open = |node: usize| {
            reserved.is_none_or(|(nodes, from)| !nodes.contains(&node) || self.now + job.limit <= *from)
        };
        let able =
            |&node: &usize| NODES[node] == job.gpu_type && self.free[node] >= job.per_node && is_open(node);
        let mut nodes: Vec<usize> = (0..NODES.len()).filter(able).collect();
        nodes.sort_by_key(|&node| self.free[node]);
        nodes.truncate(job.nodes);
        (nodes.len() == job.nodes).then_some(nodes)
    }

    /// Returns the nodes that will first have room for a job according to the limits of running jobs, and the
    /// time at which they will.
    fn reservation(&self, job: &Job) -> Option<(Vec<usize>, f64)> {
        let ready = |node: usize| {
            let mut free = self.free[node];
            let mut ends: Vec<(f64, u32)> = self
                .running
                .iter()
                .filter(|run| run.on.contains(&node))
                .map(|run| (run.since + run.job.limit, run.job.per_node))
                .collect();
            ends.sort_by(|a, b| a.0.total_cmp(&b.0));
            let mut at = self.now;
            for (end, gpus) in ends {
                if free >= job.per_node {
                    break;
                }
                (free, at) = (free + gpus, end);
            }
            at
        };
        let mut nodes: Vec<(f64, usize)> = (0..NODES.len())
            .filter(|&node| NODES[node] == job.gpu_type)
            .map(|node| (ready(node), node))
            .collect();
        nodes.sort_by(|a, b| a.0.total_cmp(&b.0));
        let from = nodes.get(job.nodes - 1)?.0;
        Some((nodes[..job.nodes].iter().map(|(_, node)| *node).collect(), from))
    }

    /// Returns the queue that Slurm would show.
    pub fn snapshot(&self) -> Snapshot {
        let nodes: Vec<Value> = NODES
            .iter()
            .enumerate()
            .map(|(node, &gpu_type)| {
                json!({ "name": format!("n{node}"),
                "gpus": [{ "type": TYPES[gpu_type], "count": PER_NODE }] })
            })
            .collect();
        let mut jobs = Vec::new();
        for run in &self.running {
            let job = &run.job;
            let held = |node: &usize| {
                json!({ "node": format!("n{node}"),
                "gpus": [{ "type": TYPES[job.gpu_type], "count": job.per_node }] })
            };
            let mut value = self.shown(job, run.since - job.submitted);
            value["running"] =
                json!({ "since": EPOCH + run.since, "holds": run.on.iter().map(held).collect::<Vec<_>>() });
            jobs.push(value);
        }
        jobs.extend(self.waiting.iter().map(|job| self.shown(job, self.now - job.submitted)));
        let text = json!({ "schema": "hsched.queue/1", "taken_at": EPOCH + self.now, "nodes": nodes, "jobs": jobs,
            "scheduling": { "priority_per_hour": AGE, "window_s": 4.0 * 86_400.0 }, "history": self.ended,
            "accounts": [{ "name": "own", "priority": whole(self.priority(OWN, 0.0)) }] });
        Snapshot::parse(&text.to_string()).expect("a snapshot")
    }

    fn shown(&self, job: &Job, waited: f64) -> Value {
        json!({ "id": job.id.to_string(), "user": format!("u{}", job.user), "asks": asks(job), "limit_s": job.limit,
            "submitted": EPOCH + job.submitted, "priority": whole(self.priority(job.user, waited)) })
    }
}

fn whole(priority: f64) -> u64 {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "above 0 and below 2^32")]
    let whole = priority as u64;
    whole
}

fn asks(job: &Job) -> Value {
    json!({ "nodes": job.nodes, "gpus": [{ "type": TYPES[job.gpu_type], "count": job.per_node }] })
}

fn draw(random: &mut Random, gpu_type: usize, submitted: f64) -> Job {
    let gpus = random.choose(&[1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 4, 4, 4, 4, 8]);
    let limit = random.choose(&[3600.0, 3600.0, 10_800.0, 10_800.0, 43_200.0, 43_200.0, 86_400.0]);
    let chance = random.unit();
    let part = match chance {
        _ if chance < 0.2 => 0.01 + 0.09 * random.unit(),
        _ if chance < 0.85 => 0.1 + 0.8 * random.unit(),
        _ => 1.0,
    };
    // Some users submit more than others.
    let user = random.choose(&[0, 0, 0, 1, 1, 2, 3, 4, 5, 6, OWN]);
    let (nodes, per_node) = if gpus > PER_NODE { (2, PER_NODE) } else { (1, gpus) };
    Job { id: 0, user, gpu_type, nodes, per_node, limit, run: (limit * part).max(MINUTE), submitted }
}
