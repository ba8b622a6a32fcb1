//! `mlf-rl`: a network chooses the next job and its GPU type, or to wait; jobs are never stopped.

use hsched_model::number::to_f64;
use std::sync::Arc;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use crate::LabPolicy;
use crate::mlfs::mlf::priority_inputs;
use crate::mlfs::{MlfsParameters, net_of};
use crate::mlfs::{Net, whole};
use hsched_model::Time;
use hsched_plan::kit::Want;
use hsched_plan::kit::by_arrival;
use hsched_plan::kit::{SchedulingState, fastest};
use hsched_plan::{
    Budget, Entry, Flag, FlagKind, Knowledge, Make, Plan, Policy, PolicyError, Problem, Repacking,
};

pub(crate) const MLF_RL: LabPolicy = LabPolicy::of_gangs(Entry {
    name: "mlf-rl",
    make: Make::Policy {
        make: |parameters| {
            let net = parameters.value(&NETWORK, net_of)?;
            Ok(Box::new(MlfRl::new(Chooser::Likeliest(Arc::new(net)), false)))
        },
        watched: true,
    },
    objectives: &[],
    flags: &[&NETWORK],
    knows: &[Knowledge::Lengths, Knowledge::Speeds, Knowledge::Losses, Knowledge::Deadlines],
    knows_replicas: false,
});

const NETWORK: Flag = Flag {
    name: "network",
    value_name: "FILE",
    kind: FlagKind::File {
        check: |text| net_of(text).map(drop),
        missing: [
            "mlf-rl needs a trained network",
            "train one with hsched train-policy and pass it with --network FILE",
        ],
        hint: "hsched train-policy writes such files",
    },
    usual: None,
    help: "mlf-rl: file of the neural network, as `hsched train-policy` writes it",
};

/// The network's inputs for a candidate, in this order; all between -1 and about 1.
pub(crate) const FEATURES: [&str; 15] = [
    "own_ml",
    "deadline",
    "left",
    "waited",
    "log_left",
    "gpus",
    "log_slack",
    "urgency",
    "fall",
    "used",
    "speed",
    "left_after",
    "queue",
    "rank",
    "degree",
];

/// Maximum number of candidate jobs, by priority.
const MOST_JOBS: usize = 32;

/// How `mlf-rl` makes its choices.
#[derive(Clone, Debug)]
pub enum Chooser {
    /// The candidate with the highest probability.
    Likeliest(Arc<Net>),
    /// A random candidate, drawn by the probabilities.
    Drawn(Arc<Net>, Box<Pcg64Mcg>),
    /// The choice of MLF-H, which networks imitate first.
    Priority,
}

/// A recorded choice.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RecordedChoice {
    pub at: Time,
    /// The features of each candidate; if the policy may wait, the last candidate stands for waiting.
    pub candidates: Vec<Vec<f64>>,
    pub chosen: usize,
}

/// MLF-RL for whole jobs.
pub(crate) struct MlfRl {
    state: SchedulingState,
    parameters: MlfsParameters,
    chooser: Chooser,
    /// The choices; `None` if they are not recorded.
    choices: Option<Vec<RecordedChoice>>,
}

/// A job on GPUs of a type.
#[derive(Clone, Copy)]
struct JobOnType {
    job: usize,
    gpu_type: usize,
}

/// A waiting job.
struct WaitingJob {
    job: usize,
    priority: f64,
    /// Remaining seconds on the job's fastest type.
    left: f64,
}

impl Chooser {
    /// Returns a chooser that draws by a network's probabilities.
    pub fn drawn(net: Arc<Net>, seed: u64) -> Self {
        Self::Drawn(net, Box::new(Pcg64Mcg::seed_from_u64(seed)))
    }

    fn choose(&mut self, candidates: &[Vec<f64>], of_priority: usize) -> usize {
        match self {
            Self::Priority => of_priority,
            Self::Likeliest(net) => {
                let parts = net.probabilities(candidates);
                // Of equally likely candidates, this takes the first.
                (0..parts.len()).rev().max_by(|&a, &b| parts[a].total_cmp(&parts[b])).unwrap_or(of_priority)
            }
            Self::Drawn(net, random) => {
                let mut left = random.random::<f64>();
                let parts = net.probabilities(candidates);
                let drawn = parts.iter().position(|part| {
                    left -= part;
                    left < 0.0
                });
                drawn.unwrap_or(parts.len() - 1)
            }
        }
    }
}

impl MlfRl {
    /// Returns the policy; if `keeps` is set, it records its choices.
    pub(crate) fn new(chooser: Chooser, keeps: bool) -> Self {
        let choices = keeps.then(Vec::new);
        Self { state: SchedulingState::default(), parameters: MlfsParameters::default(), chooser, choices }
    }

    /// Returns the recorded choices and clears them.
    pub(crate) fn take_choices(&mut self) -> Vec<RecordedChoice> {
        self.choices.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Returns the waiting jobs by MLF-H's priority.
    fn waiting(&self, state: &SchedulingState, problem: &Problem) -> Vec<WaitingJob> {
        let waiting = state.line.waiting().map(|job| {
            let (model, rates) = (&problem.jobs[job], state.rates(job));
            let waited = problem.now.since(model.progress.arrival).0;
            let inputs = priority_inputs(model, rates, problem.now, waited);
            WaitingJob {
                job,
                priority: whole(inputs.parts(&self.parameters), &self.parameters).whole,
                left: inputs.left,
            }
        });
        let mut waiting: Vec<WaitingJob> = waiting.collect();
        let arrival = |waiting: &WaitingJob| problem.jobs[waiting.job].progress.arrival.0;
        waiting.sort_by(|a, b| {
            let first = b.priority.total_cmp(&a.priority);
            first.then(arrival(a).total_cmp(&arrival(b))).then(a.job.cmp(&b.job))
        });
        waiting
    }

    /// Returns the next job with its GPUs; `None` if no job can start, or the choice is to wait.
    fn next(
        &mut self,
        state: &SchedulingState,
        problem: &Problem,
        waiting: &[WaitingJob],
        room: &[u32],
        may_wait: bool,
    ) -> Option<JobOnType> {
        let mut found = Vec::new();
        let mut jobs = 0;
        let mut of_priority = 0;
        for waiting_job in waiting {
            let rates = state.rates(waiting_job.job);
            let fits = (0..room.len()).filter(|&ty| room[ty] >= rates.asks && rates.speeds[ty] > 0.0);
            let before = found.len();
            found.extend(fits.map(|gpu_type| JobOnType { job: waiting_job.job, gpu_type }));
            if before == 0 && !found.is_empty() {
                let best = fastest(rates, room, None);
                of_priority = found.iter().position(|possible| Some(possible.gpu_type) == best).unwrap_or(0);
            }
            jobs += usize::from(found.len() > before);
            if jobs == MOST_JOBS {
                break;
            }
        }
        if found.is_empty() {
            return None;
        }
        let ranks = ranks(waiting);
        let mut candidates: Vec<Vec<f64>> = found
            .iter()
            .map(|possible| self.features(state, problem, waiting, &ranks, *possible, room))
            .collect();
        if may_wait {
            candidates.push(Self::of_cluster(state, waiting.len(), room));
        }
        let chosen = self.chooser.choose(&candidates, of_priority);
        if let Some(choices) = &mut self.choices {
            choices.push(RecordedChoice { at: problem.now, candidates, chosen });
        }
        found.get(chosen).copied()
    }

    /// Returns the network's inputs for waiting, which describe only the cluster.
    fn of_cluster(state: &SchedulingState, queue: usize, room: &[u32]) -> Vec<f64> {
        let mut features = vec![0.0; FEATURES.len()];
        features[12] = queue_length(queue);
        features[14] = 1.0 - part(room.iter().sum(), state.floor.total.iter().sum());
        features
    }

    fn features(
        &self,
        state: &SchedulingState,
        problem: &Problem,
        waiting: &[WaitingJob],
        ranks: &[f64],
        JobOnType { job, gpu_type }: JobOnType,
        room: &[u32],
    ) -> Vec<f64> {
        let (model, rates, now) = (&problem.jobs[job], state.rates(job), problem.now);
        let waited = now.since(model.progress.arrival).0;
        let inputs = priority_inputs(model, rates, now, waited);
        let (ml, _) = inputs.parts(&self.parameters);
        let total = state.floor.total[gpu_type];
        let speed = rates.speeds[gpu_type] / rates.best;
        let soon = |time: f64| saturating(self.parameters.unit / time.max(60.0));
        // How much time a start now leaves before the deadline; -1 if the job would miss it, 1 without a
        // deadline.
        let slack = inputs.to_deadline.map_or(1.0, |time| {
            let slack = time - inputs.left / speed;
            if slack < 0.0 { -1.0 } else { (libm::log(1.0 + slack / 60.0) / 10.0).min(1.0) }
        });
        let place = waiting.iter().position(|waiting| waiting.job == job).unwrap_or(0);
        vec![
            ml / 10.0,
            inputs.to_deadline.map_or(0.0, soon),
            soon(inputs.left),
            saturating(waited / self.parameters.unit),
            libm::log(1.0 + inputs.left / 60.0) / 10.0,
            part(rates.asks, state.floor.total.iter().sum()),
            slack,
            model.aims.urgency / 10.0,
            inputs.fall(),
            1.0 - part(room[gpu_type], total),
            speed,
            part(room[gpu_type] - rates.asks, total),
            queue_length(waiting.len()),
            ranks[place],
            1.0 - part(room.iter().sum(), state.floor.total.iter().sum()),
        ]
    }
}

impl Policy for MlfRl {
    fn name(&self) -> &'static str {
        "mlf-rl"
    }

    fn decide(&mut self, problem: &Problem, _: &Budget<'_>) -> Result<Plan, PolicyError> {
        let mut state = std::mem::take(&mut self.state);
        state.sync(problem, &|model, _| by_arrival(model.progress.arrival));
        let mut waiting = self.waiting(&state, problem);
        let mut room = state.floor.idle.clone();
        let runs = !state.line.running().is_empty();
        let mut wants: Vec<Want> = Vec::new();
        while let Some(possible) = self.next(&state, problem, &waiting, &room, runs || !wants.is_empty()) {
            room[possible.gpu_type] -= state.rates(possible.job).asks;
            wants.push(Want::place(possible.job, state.counts(possible.job, possible.gpu_type)));
            waiting.retain(|other| other.job != possible.job);
        }
        let changes = state.floor.carry_out(problem, wants, Repacking::Off);
        self.state = state;
        Ok(Plan { changes, ..Plan::default() })
    }
}

/// Returns the rank of each job by remaining time, from 0 to below 1.
fn ranks(waiting: &[WaitingJob]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..waiting.len()).collect();
    order.sort_by(|&a, &b| waiting[a].left.total_cmp(&waiting[b].left).then(a.cmp(&b)));
    let mut ranks = vec![0.0; waiting.len()];
    for (rank, job) in order.into_iter().enumerate() {
        ranks[job] = share(rank, waiting.len());
    }
    ranks
}

fn saturating(value: f64) -> f64 {
    value / (1.0 + value)
}

fn part(count: u32, all: u32) -> f64 {
    if all > 0 { f64::from(count) / f64::from(all) } else { 0.0 }
}

fn share(count: usize, all: usize) -> f64 {
    to_f64(count) / to_f64(all)
}

fn queue_length(jobs: usize) -> f64 {
    saturating(to_f64(jobs) / 10.0)
}
