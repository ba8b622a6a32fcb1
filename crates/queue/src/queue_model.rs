//! A snapshot in numbers: nodes, shapes, running jobs, pending jobs in order, and what may arrive.

use std::collections::BTreeMap;

use crate::arrivals::{Arrivals, Past};
use crate::history::{Habits, Ratios};
use crate::limits::{Refusal, Rule, Rules as LimitRules, Subject, asked_tres};
use crate::line::{Array, Key, Use, Waiting};
use crate::parts::Parts;
use crate::shape::{Amounts, Shape, Shapes};
use crate::{Asks, Branch, QueueJob, Request, Shares, Snapshot};
use hsched_model::Seconds;
use hsched_model::number::to_f64;

/// What stands for "no limit", in seconds: a year.
const NO_LIMIT: f64 = 365.0 * 86_400.0;

/// Everything that is the same in all that may become of a queue.
#[derive(Clone, Debug)]
pub(super) struct QueueModel {
    /// When the snapshot was taken, in seconds since 1970.
    pub now: f64,
    /// The first so many resources are GPU types; two more are CPUs and memory.
    pub gpu_types: usize,
    /// What each node has, by resource.
    pub total: Vec<Vec<u64>>,
    /// When each node is closed.
    pub closures: Vec<Vec<Closure>>,
    pub sets: Vec<Vec<u32>>,
    pub shapes: Vec<Shape>,
    pub habits: Vec<Ratios>,
    pub rules: Rules,
    /// Who shares with whom, and what each one's rank adds to his priorities when the snapshot is taken; `None` where unknown.
    pub ranks: Option<Ranks>,
    /// The number of arrays; their tasks that run at first are counted in `Part`.
    pub arrays: usize,
    /// Parts of the queue that have no node in common.
    pub parts: Vec<Part>,
    /// What each request is; `None` where no node could ever hold it.
    pub requests: Vec<Option<Asked>>,
    /// The limit that never lets each request start.
    pub refusals: Vec<Option<Refusal>>,
    /// What limits mean for jobs; the first means nothing.
    pub limits: Vec<Rule>,
    /// The number of counters of limits.
    pub counters: usize,
    /// Groups of shapes that compete for the same nodes.
    pub rivals: Vec<usize>,
}

/// A request in numbers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked {
    pub part: usize,
    pub shape: usize,
    pub rule: usize,
}

/// A part of the queue whose jobs meet no others.
#[derive(Clone, Debug, Default)]
pub(super) struct Part {
    /// In the order in which they are looked at.
    pub waiting: Vec<Waiting>,
    pub running: Vec<Active>,
    pub arrivals: Arrivals,
    pub nodes: u32,
    /// Jobs that a pass looks at.
    pub depth: usize,
    /// Time between passes in seconds, as Slurm's own are apart; 0: whenever something happens.
    pub grain: f64,
}

/// A job that runs when the snapshot is taken.
#[derive(Clone, Debug)]
pub(super) struct Active {
    pub since: f64,
    pub limit: f64,
    pub holds: Vec<(u32, Amounts)>,
    pub habit: usize,
    pub array: Option<usize>,
    pub counts: Use,
    pub rule: usize,
}

/// Fair share when the snapshot is taken.
#[derive(Clone, Debug)]
pub(super) struct Ranks {
    pub shares: Shares,
    /// What its rank adds to the priorities of each branch.
    pub adds: Vec<f64>,
    /// Branches by user and account.
    places: BTreeMap<(String, String), usize>,
}

impl Ranks {
    fn new(shares: &Shares) -> Self {
        let adds = shares.factors_now().into_iter().map(|factor| shares.weight * factor);
        let users = shares.branches.iter().enumerate();
        let place =
            |(place, branch): (usize, &Branch)| Some(((branch.user.clone()?, branch.account.clone()), place));
        Self { adds: adds.collect(), places: users.filter_map(place).collect(), shares: shares.clone() }
    }

    fn branch_of(&self, user: &str, account: Option<&str>) -> Option<usize> {
        match account {
            Some(account) => self.places.get(&(user.to_owned(), account.to_owned())).copied(),
            None => self.shares.branch_of(Some(user), None),
        }
    }
}

impl Snapshot {
    /// Returns what a job of the queue or of the past counts as.
    pub(super) fn counted(
        &self,
        ranks: Option<&Ranks>,
        (user, account): (Option<&str>, Option<&str>),
        (asks, partition): (&Asks, Option<&str>),
    ) -> Use {
        let Some((ranks, user)) = ranks.zip(user) else { return Use::default() };
        Use { branch: ranks.branch_of(user, account), rate: self.billing_rate(asks, partition) }
    }

    fn counted_job(&self, ranks: Option<&Ranks>, job: &QueueJob) -> Use {
        let partition = job.partitions.first().map(String::as_str);
        self.counted(ranks, (job.user.as_deref(), job.account.as_deref()), (&job.asks, partition))
    }
}

/// A time in which a node is kept for a reservation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Closure {
    pub start: f64,
    pub end: f64,
    pub reservation: usize,
}

/// How the cluster schedules.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules {
    pub backfill: bool,
    /// How far a pass looks ahead, in seconds.
    pub window: f64,
    /// Growth of the priority of waiting jobs, per second.
    pub growth: f64,
}

/// What jobs are numbered by, beside their shapes.
pub(super) struct Known<'a> {
    pub habits: &'a Habits<'a>,
    pub ranks: Option<&'a Ranks>,
    pub limits: LimitRules<'a>,
}

impl Known<'_> {
    /// Returns the rule of a job of the queue; `None` if a limit never lets it start.
    pub(super) fn rule_of(&mut self, job: &QueueJob, snapshot: &Snapshot) -> Option<usize> {
        let amounts = job.running.as_ref().map_or_else(|| asked_tres(&job.asks), crate::Running::tres);
        let subject = Subject {
            user: job.user.as_deref(),
            account: job.account.as_deref(),
            qos: job.qos.as_deref(),
            partition: None,
            limit: snapshot.limit_of(job),
        };
        // A job starts in the first of its partitions whose limits allow it.
        let mut partitions: Vec<Option<&str>> =
            job.partitions.iter().map(|partition| Some(partition.as_str())).collect();
        if partitions.is_empty() {
            partitions.push(None);
        }
        let mut rules = partitions
            .into_iter()
            .map(|partition| self.limits.of(Subject { partition, ..subject }, &amounts));
        let first = rules.next()?;
        let rules: Vec<usize> = std::iter::once(first).chain(rules).collect();
        let allowed = rules.into_iter().find(|rule| self.limits.refusal(*rule).is_none());
        allowed.or(job.running.is_some().then_some(first))
    }
}

impl Snapshot {
    /// Returns what the limits of a request depend on.
    fn subject_of<'a>(&'a self, request: &'a Request) -> Subject<'a> {
        let account = request.account.as_deref().or_else(|| self.own_account());
        Subject {
            user: self.own_user(),
            account,
            qos: Some(self.own_qos(account)),
            partition: request.partition.as_deref(),
            limit: request.limit.0,
        }
    }
}

/// Returns the shapes that a counter of limits couples, for each counter.
fn coupled(jobs: impl Iterator<Item = (usize, usize)>, limits: &[Rule], counters: usize) -> Vec<Vec<usize>> {
    let mut shapes = vec![Vec::new(); counters];
    for (shape, rule) in jobs {
        limits[rule].counters().for_each(|counter| shapes[counter].push(shape));
    }
    shapes
}

impl QueueModel {
    /// Returns the model of a snapshot in which some requests may be made.
    pub(super) fn new(snapshot: &Snapshot, requests: &[Request]) -> Self {
        let mut shapes = Shapes::new(snapshot);
        let habits = Habits::new(snapshot);
        let mut arrays = BTreeMap::new();
        let growth = snapshot.scheduling.growth().0 / 3600.0;
        let ranks = snapshot.shares.as_ref().map(Ranks::new);
        let mut known = Known { habits: &habits, ranks: ranks.as_ref(), limits: LimitRules::new(snapshot) };
        let waiting = waiting(snapshot, &mut shapes, &mut known, &mut arrays);
        let running = running(snapshot, &shapes, &mut known, &arrays);
        let past = Past::of(snapshot, &mut shapes, &mut known);
        let asked: Vec<(Option<usize>, usize)> = requests
            .iter()
            .map(|request| {
                let partitions: Vec<String> = request.partition.iter().cloned().collect();
                let shape = shapes.of(&request.asks, &partitions, None);
                (shape, known.limits.of(snapshot.subject_of(request), &asked_tres(&request.asks)))
            })
            .collect();
        let refusals: Vec<Option<Refusal>> =
            asked.iter().map(|(_, rule)| known.limits.refusal(*rule).cloned()).collect();
        let (limits, counters) = known.limits.finish();
        let total: Vec<Vec<u64>> = snapshot.nodes.iter().map(|node| shapes.total(node)).collect();
        let gpu_types = shapes.gpu_types.len();
        let rivals = Parts::new(&shapes.list, &shapes.sets, total.len(), &[]).of_shape;
        let jobs = waiting.iter().map(|job| (job.shape, job.rule));
        let jobs = jobs.chain(past.iter().map(|job| (job.shape, job.rule)));
        let jobs = jobs.chain(asked.iter().filter_map(|(shape, rule)| Some(((*shape)?, *rule))));
        let parts = Parts::new(&shapes.list, &shapes.sets, total.len(), &coupled(jobs, &limits, counters));
        let request = |(shape, rule): &(Option<usize>, usize)| {
            let shape = shape.filter(|_| limits[*rule].refusal.is_none())?;
            Some(Asked { part: parts.of_shape[shape], shape, rule: *rule })
        };
        let requests = asked.iter().map(request).collect();
        let mut model = Self {
            now: snapshot.taken_at.0,
            gpu_types,
            closures: closures(snapshot),
            total,
            sets: shapes.sets,
            shapes: shapes.list,
            habits: habits.list,
            rules: rules(snapshot, growth),
            ranks,
            arrays: arrays.len(),
            parts: vec![Part::default(); parts.count],
            requests,
            refusals,
            limits,
            counters,
            rivals,
        };
        let depth = snapshot.scheduling.depth.unwrap_or(USUAL_DEPTH);
        model.divide(&parts, waiting, running, depth);
        for part in 0..parts.count {
            let is_here = |past: &&Past| parts.of_shape[past.shape] == part;
            let past_here: Vec<Past> = past.iter().filter(is_here).cloned().collect();
            model.parts[part].arrivals =
                Arrivals::new(past_here, snapshot, &model, parts.gpus(part, &model.total, gpu_types));
        }
        model
    }

    /// Gives each part its jobs, and its share of the jobs that a pass looks at.
    fn divide(&mut self, parts: &Parts, waiting: Vec<Waiting>, running: Vec<Active>, depth: u32) {
        let all = waiting.len().max(1);
        for job in waiting {
            self.parts[parts.of_shape[job.shape]].waiting.push(job);
        }
        for job in running {
            // A job on nodes of several parts, which no waiting job could be, counts in each.
            let mut parts_held: Vec<usize> =
                job.holds.iter().map(|(node, _)| parts.of_node[*node as usize]).collect();
            parts_held.sort_unstable();
            parts_held.dedup();
            for part in parts_held {
                self.parts[part].running.push(job.clone());
            }
        }
        let depth = usize::try_from(depth).unwrap_or(usize::MAX);
        for (number, part) in self.parts.iter_mut().enumerate() {
            let nodes = parts.of_node.iter().filter(|part| **part == number).count();
            part.nodes = u32::try_from(nodes).unwrap_or(u32::MAX);
            part.grain = if nodes > FEW_NODES { GRAIN } else { 0.0 };
            part.waiting.sort_by(|a, b| a.key.cmp(&b.key));
            part.depth = (depth.saturating_mul(part.waiting.len()).div_ceil(all)).max(10);
        }
    }
}

/// Nodes of a part in which a pass for everything that happens takes no time.
const FEW_NODES: usize = 32;

/// Time between passes where more nodes are: what happens every minute is taken together. Five minutes, in seconds.
const GRAIN: f64 = 300.0;

/// Slurm's own `bf_max_job_test`.
const USUAL_DEPTH: u32 = 500;

/// Slurm's own `bf_window`.
const USUAL_WINDOW: f64 = 86_400.0;

fn rules(snapshot: &Snapshot, growth: f64) -> Rules {
    let scheduling = &snapshot.scheduling;
    Rules {
        backfill: scheduling.backfill.unwrap_or(true),
        window: scheduling.window_s.map_or(USUAL_WINDOW, |window| window.0),
        growth,
    }
}

fn waiting(
    snapshot: &Snapshot,
    shapes: &mut Shapes,
    known: &mut Known,
    arrays: &mut BTreeMap<String, usize>,
) -> Vec<Waiting> {
    let unknown = snapshot.middle_priority();
    // At known limits, jobs compete as long as the limit has room.
    let competes =
        |job: &&QueueJob| !job.waits_for_other || snapshot.limits.is_some() && job.waits_for_limit();
    let waits = snapshot.jobs.iter().filter(|job| job.running.is_none()).filter(competes);
    let mut list = Vec::new();
    for (order, job) in (0_u32..).zip(waits) {
        let Some(shape) = shapes.of(&job.asks, &job.partitions, job.reservation.as_deref()) else { continue };
        let Some(rule) = known.rule_of(job, snapshot) else { continue };
        let priority = job.priority.map_or(unknown, to_f64);
        let submitted = job.submitted.map_or(f64::NEG_INFINITY, |time| time.0);
        let array = job.array.as_ref().map(|id| {
            let next = arrays.len();
            Array {
                number: *arrays.entry(id.clone()).or_insert(next),
                at_once: job.at_once.unwrap_or(u32::MAX),
            }
        });
        list.push(Waiting {
            key: Key { tier: snapshot.tier(&job.partitions), priority, submitted, order },
            shape,
            limit: snapshot.limit_of(job),
            tasks: job.tasks.max(1),
            array,
            habit: known.habits.of(job.user.as_deref()),
            counts: snapshot.counted_job(known.ranks, job),
            rule,
        });
    }
    list
}

fn running(
    snapshot: &Snapshot,
    shapes: &Shapes,
    known: &mut Known,
    arrays: &BTreeMap<String, usize>,
) -> Vec<Active> {
    let number: BTreeMap<_, u32> = snapshot.nodes.iter().map(|node| &node.name).zip(0..).collect();
    let (cpus, memory) = shapes.host();
    let mut active = |job: &QueueJob| {
        let running = job.running.as_ref()?;
        let mut holds = Vec::new();
        for held in &running.holds {
            let Some(&node) = number.get(&held.node) else { continue };
            let mut amounts: BTreeMap<u16, u64> = BTreeMap::new();
            for held_gpus in &held.gpus {
                let gpu = shapes.gpu(&held_gpus.gpu_type);
                if let Some(gpu) = gpu {
                    *amounts.entry(gpu).or_default() += u64::from(held_gpus.count);
                }
            }
            for (number, amount) in [(cpus, held.cpus), (memory, held.memory_mib)] {
                amounts.extend(amount.map(|amount| (number, amount)));
            }
            if snapshot.has_whole_nodes(job) {
                let total = shapes.total(&snapshot.nodes[node as usize]);
                amounts = (0..).zip(total).filter(|(_, amount)| *amount > 0).collect();
            }
            holds.push((node, amounts.into_iter().collect()));
        }
        (!holds.is_empty()).then(|| Active {
            since: running.since.0,
            limit: snapshot.limit_of(job),
            holds,
            habit: known.habits.of(job.user.as_deref()),
            array: job.array.as_ref().and_then(|id| arrays.get(id)).copied(),
            counts: snapshot.counted_job(known.ranks, job),
            rule: known.rule_of(job, snapshot).unwrap_or(0),
        })
    };
    snapshot.jobs.iter().filter_map(&mut active).collect()
}

fn closures(snapshot: &Snapshot) -> Vec<Vec<Closure>> {
    let of = |node: &crate::QueueNode| {
        let reservations = snapshot
            .reservations
            .iter()
            .enumerate()
            .filter(|(_, reservation)| reservation.nodes.contains(&node.name));
        reservations
            .map(|(number, reservation)| Closure {
                start: reservation.start.0,
                end: reservation.end.0,
                reservation: number,
            })
            .collect()
    };
    snapshot.nodes.iter().map(of).collect()
}

impl Snapshot {
    /// Returns the longest that a job may run which names no walltime.
    pub fn longest_limit(&self, job: &QueueJob) -> Seconds {
        Seconds(self.limit_in(None, job.partitions.first().map(String::as_str)))
    }

    /// Returns the walltime of a job: its own, else its partition's longest, else a year.
    fn limit_of(&self, job: &QueueJob) -> f64 {
        self.limit_in(job.limit_s.map(|limit| limit.0), job.partitions.first().map(String::as_str))
    }

    pub(super) fn limit_in(&self, limit: Option<f64>, partition: Option<&str>) -> f64 {
        let partition = self.partitions.iter().find(|known| partition == Some(known.name.as_str()));
        let longest =
            partition.and_then(|known| known.max_time_s.or(known.default_time_s)).map(|time| time.0);
        // Slurm counts in minutes; less would make a job end before it began.
        limit.or(longest).unwrap_or(NO_LIMIT).clamp(60.0, NO_LIMIT)
    }

    /// Returns the highest `PriorityTier` of some partitions.
    pub(super) fn tier(&self, partitions: &[String]) -> u32 {
        let named = self.partitions.iter().filter(|partition| partitions.contains(&partition.name));
        named.filter_map(|partition| partition.tier).max().unwrap_or(1)
    }

    fn has_whole_nodes(&self, job: &QueueJob) -> bool {
        let mut partitions = self.partitions.iter();
        self.scheduling.whole_nodes
            || job.asks.exclusive
            || partitions.any(|partition| partition.exclusive && job.partitions.contains(&partition.name))
    }

    /// Returns the median priority of the jobs that wait; 0 where none is known.
    fn middle_priority(&self) -> f64 {
        let waiting = self.jobs.iter().filter(|job| job.running.is_none());
        let mut known: Vec<u64> = waiting.filter_map(|job| job.priority).collect();
        known.sort_unstable();
        known.get(known.len() / 2).map_or(0.0, |priority| to_f64(*priority))
    }
}
