//! The policies of Gavel: shares of time on each GPU type from an allocation problem, implemented in rounds;
//! and its FIFO.

use std::collections::BTreeMap;

use hsched_model::{Seconds, Time};
use hsched_plan::kit::Want;
use hsched_plan::kit::by_arrival;
use hsched_plan::kit::{LastingOrder, SchedulingState, fastest};
use hsched_plan::{Budget, Entry, Knowledge, Make, Plan, Policy, PolicyError, Problem, Repacking};

pub(super) const MAX_MIN: Entry = Entry {
    name: "gavel-max-min",
    make: Make::Policy {
        make: |parameters| Ok(Box::new(Gavel::max_min(parameters.repacking))),
        watched: false,
    },
    objectives: &[],
    flags: &[],
    knows: &[Knowledge::Speeds],
    knows_replicas: false,
};

pub(super) const MTD: Entry = Entry {
    name: "gavel-mtd",
    make: Make::Policy {
        make: |parameters| Ok(Box::new(Gavel::shortest_total(parameters.repacking))),
        watched: false,
    },
    knows: &[Knowledge::Lengths, Knowledge::Speeds],
    ..MAX_MIN
};

pub(super) const FIFO: Entry = Entry {
    name: "gavel-fifo",
    make: Make::Policy {
        make: |parameters| Ok(Box::new(GavelFifo::new(parameters.repacking))),
        watched: false,
    },
    ..MAX_MIN
};

/// The length of a round in the paper, in seconds.
const ROUND: f64 = 360.0;

/// The assumed share of a job on every type until the first allocation with this job.
const NEWCOMER: f64 = 0.01;

/// Shares up to this count as zero.
const NO_SHARE: f64 = 1e-4;

/// Maximum load of a type in an allocation, as a multiple of its GPUs.
const EXCESS: f64 = 1.03;

/// Number of steps of the search for the level, and of the price updates at each level.
const LEVELS: u32 = 14;
const PRICE_STEPS: u32 = 50;

/// The objective of the shares.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Aim {
    /// Maximises the minimum speed relative to an equal share of the cluster.
    MaxMin,
    /// Minimises the time until all jobs have completed.
    TotalDuration,
}

/// Gavel with shares and rounds.
struct Gavel {
    name: &'static str,
    aim: Aim,
    state: SchedulingState,
    accounts: BTreeMap<usize, Account>,
    /// Time of the last decision.
    last: Time,
    /// Time at which the next round begins.
    next_round: Time,
}

/// The promised and received time of a job.
#[derive(Clone, Debug)]
struct Account {
    since: Time,
    /// Shares of time by type; empty before the first allocation.
    shares: Vec<f64>,
    /// Seconds with GPUs of each type.
    got: Vec<f64>,
}

/// One job of the allocation problem.
struct GavelJob<'a> {
    speeds: &'a [f64],
    /// The speed at level 1.
    target: f64,
    gpus: f64,
}

impl Gavel {
    fn max_min(repacking: Repacking) -> Self {
        Self::new("gavel-max-min", Aim::MaxMin, repacking)
    }

    fn shortest_total(repacking: Repacking) -> Self {
        Self::new("gavel-mtd", Aim::TotalDuration, repacking)
    }

    fn new(name: &'static str, aim: Aim, repacking: Repacking) -> Self {
        Self {
            name,
            aim,
            state: SchedulingState::new(repacking),
            accounts: BTreeMap::new(),
            last: Time::default(),
            next_round: Time::default(),
        }
    }

    /// Counts the time since the last decision; returns whether jobs arrived or left.
    fn count_time(&mut self, problem: &Problem, jobs: &[usize]) -> bool {
        let passed = problem.now.since(self.last).0;
        self.last = problem.now;
        let known = self.accounts.len();
        self.accounts.retain(|job, account| {
            let there = jobs.binary_search(job).is_ok();
            // A job number that now belongs to another job needs a new account.
            there && problem.jobs[*job].progress.arrival.0 <= account.since.0
        });
        let mut changed = self.accounts.len() != known;
        for &job in jobs {
            let types = problem.gpu_types.len();
            let account = self.accounts.entry(job).or_insert_with(|| {
                changed = true;
                Account { since: problem.now, shares: Vec::new(), got: vec![0.0; types] }
            });
            let hold = problem.jobs[job].progress.running().find(|hold| hold.since.0 < problem.now.0);
            if let Some(slot) = hold.and_then(|hold| hold.slots.first()) {
                account.got[slot.gpu_type] += passed;
            }
        }
        changed
    }

    fn allocate(&mut self, problem: &Problem, jobs: &[usize]) {
        let total = &self.state.floor.total;
        let all = f64::from(total.iter().sum::<u32>()).max(1.0);
        let demand = |&job: &usize| {
            let rates = self.state.rates(job);
            let mean = || rates.speeds.iter().zip(total).map(|(speed, count)| speed * f64::from(*count));
            let target = match self.aim {
                Aim::MaxMin => mean().sum::<f64>() / all / f64::from(rates.asks),
                Aim::TotalDuration => problem.jobs[job].progress.left(problem.now),
            };
            GavelJob { speeds: &rates.speeds, target, gpus: f64::from(rates.asks) }
        };
        let demands: Vec<GavelJob<'_>> = jobs.iter().map(demand).collect();
        let shares = shares(&demands, total);
        for (job, shares) in jobs.iter().zip(shares) {
            if let Some(account) = self.accounts.get_mut(job) {
                account.shares = shares;
            }
        }
    }

    /// Returns jobs and types by descending priority, which is the promised share divided by the received
    /// share.
    fn priorities(&self, problem: &Problem, jobs: impl Iterator<Item = usize>) -> Vec<(usize, usize)> {
        let mut list: Vec<(f64, usize, usize)> = Vec::new();
        for job in jobs {
            let Some(account) = self.accounts.get(&job) else { continue };
            let rounds = problem.now.since(account.since).0 + 1.0;
            for (gpu_type, got) in account.got.iter().enumerate() {
                let share = account.shares.get(gpu_type).copied().unwrap_or(NEWCOMER);
                if share > NO_SHARE {
                    list.push((share / ((got + 1.0) / rounds), job, gpu_type));
                }
            }
        }
        list.sort_by(|a, b| b.0.total_cmp(&a.0).then((a.1, a.2).cmp(&(b.1, b.2))));
        list.into_iter().map(|(_, job, gpu_type)| (job, gpu_type)).collect()
    }
}

impl Policy for Gavel {
    fn name(&self) -> &'static str {
        self.name
    }

    fn decide(&mut self, problem: &Problem, _: &Budget<'_>) -> Result<Plan, PolicyError> {
        self.state.sync(problem, &|model, _| by_arrival(model.progress.arrival));
        let mut jobs = self.state.line.running().to_vec();
        jobs.extend(self.state.line.waiting());
        jobs.sort_unstable();
        if self.count_time(problem, &jobs) {
            self.allocate(problem, &jobs);
        }
        let begins = problem.now.0 >= self.next_round.0 - 1e-6;
        if begins {
            self.next_round = problem.now.after(Seconds(ROUND));
        }
        let state = &self.state;
        let stays = |job: &usize| !begins && state.line.is_running(*job);
        let mut room = if begins { state.floor.total.clone() } else { state.floor.idle.clone() };
        let open: Vec<usize> = jobs.iter().copied().filter(|job| !stays(job)).collect();
        let mut chosen: BTreeMap<usize, usize> = BTreeMap::new();
        for (job, gpu_type) in self.priorities(problem, open.iter().copied()) {
            let rates = state.rates(job);
            if !chosen.contains_key(&job) && rates.speeds[gpu_type] > 0.0 && room[gpu_type] >= rates.asks {
                room[gpu_type] -= rates.asks;
                chosen.insert(job, gpu_type);
            }
        }
        // GPUs that no share claims go to the remaining jobs, in order of arrival.
        let mut rest: Vec<usize> = open.iter().copied().filter(|job| !chosen.contains_key(job)).collect();
        rest.sort_by_key(|&job| (by_arrival(problem.jobs[job].progress.arrival), job));
        for job in rest {
            if let Some(gpu_type) = fastest(state.rates(job), &room, None) {
                room[gpu_type] -= state.rates(job).asks;
                chosen.insert(job, gpu_type);
            }
        }
        let wants = open.into_iter().filter_map(|job| {
            let runs = state.line.is_running(job);
            match chosen.get(&job) {
                Some(&gpu_type) if state.type_of(job) == Some(gpu_type) => None,
                Some(&gpu_type) => Some(Want::place(job, state.counts(job, gpu_type))),
                None => runs.then(|| Want::wait(job)),
            }
        });
        let wants: Vec<Want> = wants.collect();
        let changes = self.state.carry_out(problem, wants);
        let wake = (!jobs.is_empty()).then_some(self.next_round);
        Ok(Plan { changes, wake, ..Plan::default() })
    }
}

/// Returns shares of time by type for each job at the highest level: the greatest z at which every job has z
/// times its target speed, no job's shares exceed one, and no type has more load than GPUs (up to
/// [`EXCESS`]).
///
/// Gives the types prices: at each level, every job takes the cheapest shares that reach its speed.
fn shares(demands: &[GavelJob<'_>], total: &[u32]) -> Vec<Vec<f64>> {
    let most = |demand: &GavelJob<'_>| demand.speeds.iter().copied().fold(0.0, f64::max) / demand.target;
    let able = || demands.iter().filter(|demand| most(demand) > 0.0);
    let (mut low, mut high) = (0.0, able().map(most).fold(f64::INFINITY, f64::min));
    let mut best = vec![vec![0.0; total.len()]; demands.len()];
    if !high.is_finite() {
        return best;
    }
    for step in 0..LEVELS {
        let level = if step == 0 { high } else { f64::midpoint(low, high) };
        let (shares, excess) = at_level(demands, total, level);
        if excess <= EXCESS {
            (best, low) = (shares, level);
            if step == 0 {
                break;
            }
        } else {
            high = level;
        }
    }
    best
}

/// Returns the shares at a level, and the load of the fullest type divided by its GPUs.
fn at_level(demands: &[GavelJob<'_>], total: &[u32], level: f64) -> (Vec<Vec<f64>>, f64) {
    let mut prices = vec![1.0; total.len()];
    let mut sums = vec![vec![0.0; total.len()]; demands.len()];
    let mut used = vec![0.0; total.len()];
    for _ in 0..PRICE_STEPS {
        let mut load = vec![0.0; total.len()];
        for (demand, sum) in demands.iter().zip(&mut sums) {
            for (gpu_type, share) in cheapest(demand, level * demand.target, &prices).into_iter().flatten() {
                sum[gpu_type] += share / f64::from(PRICE_STEPS);
                load[gpu_type] += share * demand.gpus;
            }
        }
        for (gpu_type, price) in prices.iter_mut().enumerate() {
            let filled = load[gpu_type] / f64::from(total[gpu_type].max(1));
            *price *= (0.3 * (filled - 1.0).clamp(-1.0, 1.0)).exp();
            used[gpu_type] += filled / f64::from(PRICE_STEPS);
        }
    }
    (sums, used.into_iter().fold(0.0, f64::max))
}

/// Returns the cheapest shares that give a job a speed: one type, or a slower and a faster one that use all
/// its time.
fn cheapest(demand: &GavelJob<'_>, speed: f64, prices: &[f64]) -> [Option<(usize, f64)>; 2] {
    let mut best = f64::INFINITY;
    let mut shares = [None, None];
    let usable = || demand.speeds.iter().copied().enumerate().filter(|(_, speed)| *speed > 0.0);
    for (slow, below) in usable() {
        if below >= speed - 1e-12 {
            let share = (speed / below).min(1.0);
            if prices[slow] * share < best {
                best = prices[slow] * share;
                shares = [Some((slow, share)), None];
            }
            continue;
        }
        for (fast, above) in usable().filter(|(_, above)| *above > speed) {
            let share = (speed - below) / (above - below);
            let cost = prices[fast] * share + prices[slow] * (1.0 - share);
            if cost < best {
                best = cost;
                shares = [Some((fast, share)), Some((slow, 1.0 - share))];
            }
        }
    }
    shares
}

/// Gavel's FIFO: in order of arrival, each job gets the fastest type with enough free GPUs; later jobs are
/// stopped for it.
struct GavelFifo {
    state: SchedulingState,
    running: LastingOrder,
}

impl GavelFifo {
    fn new(repacking: Repacking) -> Self {
        Self { state: SchedulingState::new(repacking), running: LastingOrder::default() }
    }
}

impl Policy for GavelFifo {
    fn name(&self) -> &'static str {
        "gavel-fifo"
    }

    fn decide(&mut self, problem: &Problem, _: &Budget<'_>) -> Result<Plan, PolicyError> {
        let state = &mut self.state;
        state.sync(problem, &|model, _| by_arrival(model.progress.arrival));
        self.running.sync(problem, state, |seat| (0, seat.arrival));
        let wants = state.in_lasting_order(&mut self.running);
        Ok(Plan { changes: state.carry_out(problem, wants), ..Plan::default() })
    }
}
