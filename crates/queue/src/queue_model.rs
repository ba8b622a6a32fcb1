//! A snapshot as numbers: nodes, shapes, running jobs, pending jobs in order, and possible arrivals.

use std::collections::BTreeMap;
use std::mem;

use crate::arrivals::{Arrivals, PastJob};
use crate::awaited::{AwaitedJob, AwaitedJobs};
use crate::history::{Habits, Users};
use crate::limits::{LimitRules, Refusal, Rule, Subject, asked_tres};
use crate::line::{Joins, PendingEntry, Use};
use crate::parts::QueueParts;
use crate::ranks::Ranks;
use crate::shape::{Amounts, Shape, Shapes};
use crate::snapshot_jobs::{NumberingContext, running, waiting};
use crate::{Request, Snapshot};

/// The data shared by all futures of a queue.
#[derive(Clone, Debug)]
pub(super) struct QueueModel {
    /// Time of the snapshot, in Unix seconds.
    pub now: f64,
    /// Number of GPU types, which are the first resources, followed by CPUs and memory.
    pub gpu_types: usize,
    /// Total resources of each node.
    pub total: Vec<Vec<u64>>,
    /// Periods in which each node is reserved.
    pub closures: Vec<Vec<Closure>>,
    pub sets: Vec<Vec<u32>>,
    pub shapes: Vec<Shape>,
    pub habits: Habits,
    pub rules: SchedulingRules,
    /// Fair-share branches, and the contribution of each one's rank to priorities at the snapshot; `None` if
    /// unknown.
    pub ranks: Option<Ranks>,
    /// Number of arrays; their tasks that run at the time of the snapshot are in `QueuePart::running`.
    pub arrays: usize,
    /// Parts of the queue without common nodes.
    pub parts: Vec<QueuePart>,
    /// The data of each request; `None` if no node can ever hold it or a limit never allows it to start.
    pub requests: Vec<Option<NumberedRequest>>,
    /// For each request, the first limit that never allows it to start, if there is one.
    pub refusals: Vec<Option<Refusal>>,
    /// Rules of limits for jobs; the first one has no effect.
    pub limits: Vec<Rule>,
    /// The number of counters of limits.
    pub counters: usize,
    /// Jobs for whose ends others wait.
    pub awaited: Vec<AwaitedJob>,
    /// By shape: the group of shapes that compete for the same nodes.
    pub rivals: Vec<usize>,
}

/// A request in numbers.
#[derive(Clone, Copy, Debug)]
pub(super) struct NumberedRequest {
    pub part: usize,
    pub shape: usize,
    pub rule: usize,
}

/// A part of the queue whose jobs never compete with jobs of other parts.
#[derive(Clone, Debug, Default)]
pub(super) struct QueuePart {
    /// Pending jobs in scheduling order.
    pub waiting: Vec<PendingEntry>,
    /// Jobs with nodes of the part, and jobs elsewhere that share a limit with jobs of the part.
    pub running: Vec<Active>,
    pub arrivals: Arrivals,
    pub nodes: u32,
    /// Number of tasks after which a pass ends; requests that are simulated alone do not count.
    pub depth: usize,
    /// Interval between passes in seconds; 0 means a pass at every event.
    pub grain: f64,
}

/// A job that runs at the time of the snapshot.
#[derive(Clone, Debug)]
pub(super) struct Active {
    pub since: f64,
    pub limit: f64,
    /// Nodes of the part with the resources that the job holds there.
    pub holds: Vec<(u32, Amounts)>,
    pub habit: usize,
    pub array: Option<usize>,
    pub counts: Use,
    pub rule: usize,
    /// The indices by which jobs refer to this one while they wait for its end.
    pub awaited: Vec<usize>,
}

/// A period for which a node is reserved.
#[derive(Clone, Copy, Debug)]
pub(super) struct Closure {
    pub start: f64,
    pub end: f64,
    pub reservation: usize,
}

/// The scheduling parameters of the cluster.
#[derive(Clone, Copy, Debug)]
pub(super) struct SchedulingRules {
    pub backfill: bool,
    /// Time for which a pass looks ahead, in seconds.
    pub window: f64,
    /// Growth of pending jobs' priority per second.
    pub growth: f64,
}

impl Snapshot {
    /// Returns the properties of a request that determine its limits.
    pub(super) fn subject_of<'a>(&'a self, request: &'a Request) -> Subject<'a> {
        let account = request.account.as_deref().or_else(|| self.own_account());
        Subject {
            user: self.own_user(),
            account,
            qos: Some(request.further.qos.as_deref().unwrap_or_else(|| self.own_qos(account))),
            partition: request.partition.as_deref(),
            limit: request.limit.0,
        }
    }

    /// Returns these properties of a request in each of its partitions.
    pub(super) fn subjects_of<'a>(&'a self, request: &'a Request) -> Vec<Subject<'a>> {
        let subject = self.subject_of(request);
        let Some(names) = subject.partition else { return vec![subject] };
        names.split(',').map(|name| Subject { partition: Some(name.trim()), ..subject }).collect()
    }

    /// Returns the QOS whose limits count for a job, in descending order of precedence.
    pub(super) fn qualities<'a>(&'a self, subject: Subject<'a>) -> Vec<&'a str> {
        let partition = self.partitions.iter().find(|known| match subject.partition {
            Some(name) => known.name == name,
            None => known.default,
        });
        let of_partition = partition.and_then(|partition| partition.limit_qos.as_deref());
        let flags = subject.qos.and_then(|qos| self.qos_flags.get(qos));
        let mut list: Vec<&str> = of_partition.into_iter().chain(subject.qos).collect();
        if flags.is_some_and(|flags| flags.contains("OverPartQOS")) {
            list.reverse();
        }
        list.dedup();
        list
    }
}

/// Returns groups of shapes that must be in one part: the shapes of each awaited job and of the jobs that
/// wait for it, and the shapes of a job in several partitions.
fn chained(waiting: &[PendingEntry], awaited: usize) -> Vec<Vec<usize>> {
    let mut shapes = vec![Vec::new(); awaited];
    for job in waiting {
        let others = match &job.joins {
            Joins::After(others) => others.as_slice(),
            Joins::Now | Joins::At(_) => &[],
        };
        job.awaited.iter().chain(others).for_each(|number| shapes[*number].push(job.shape));
    }
    // Entries in several partitions belong to one job.
    let several = waiting.windows(2).filter(|pair| pair[0].job.is_some() && pair[0].job == pair[1].job);
    shapes.extend(several.map(|pair| vec![pair[0].shape, pair[1].shape]));
    shapes
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
    /// Returns the model of a snapshot with some possible requests.
    pub(super) fn new(snapshot: &Snapshot, requests: &[Request]) -> Self {
        let mut shapes = Shapes::new(snapshot);
        let (users, habits) = Users::new(snapshot);
        let mut arrays = BTreeMap::new();
        let growth = snapshot.growth().per_hour / 3600.0;
        let ranks = snapshot.shares.as_ref().map(Ranks::new);
        let mut known =
            NumberingContext { users: &users, ranks: ranks.as_ref(), limits: LimitRules::new(snapshot) };
        let awaited = AwaitedJobs::of(snapshot);
        let waiting = waiting(snapshot, &mut shapes, &mut known, &mut arrays, &awaited);
        let running = running(snapshot, &shapes, &mut known, &arrays, &awaited);
        let past = PastJob::of(snapshot, &mut shapes, &mut known);
        let asked: Vec<(Option<usize>, usize)> = requests
            .iter()
            .map(|request| {
                let partitions: Vec<String> = request.partition.iter().cloned().collect();
                let shape = shapes.of(&request.asks, &partitions, request.further.reservation.as_deref());
                (shape, known.limits.of(snapshot.subject_of(request), &asked_tres(&request.asks)))
            })
            .collect();
        let refusals: Vec<Option<Refusal>> =
            asked.iter().map(|(_, rule)| known.limits.refusal(*rule).cloned()).collect();
        let (limits, counters) = known.limits.finish();
        let total: Vec<Vec<u64>> = snapshot.nodes.iter().map(|node| shapes.total(node)).collect();
        let gpu_types = shapes.gpu_types.len();
        let rivals = QueueParts::new(&shapes.list, &shapes.sets, total.len(), &[]).of_shape;
        let jobs = waiting.iter().map(|job| (job.shape, job.rule));
        let jobs = jobs.chain(past.iter().map(|job| (job.shape, job.rule)));
        let jobs = jobs.chain(asked.iter().filter_map(|(shape, rule)| Some(((*shape)?, *rule))));
        let coupled = coupled(jobs, &limits, counters);
        let groups = [&coupled[..], &chained(&waiting, awaited.list.len())].concat();
        let parts = QueueParts::new(&shapes.list, &shapes.sets, total.len(), &groups);
        // The shapes that a counter couples are in one part.
        let part_of_shapes = |shapes: &Vec<usize>| shapes.first().map(|shape| parts.of_shape[*shape]);
        let of_counter: Vec<Option<usize>> = coupled.iter().map(part_of_shapes).collect();
        let request = |(shape, rule): &(Option<usize>, usize)| {
            let shape = shape.filter(|_| limits[*rule].refusal().is_none())?;
            Some(NumberedRequest { part: parts.of_shape[shape], shape, rule: *rule })
        };
        let requests = asked.iter().map(request).collect();
        let mut model = Self {
            now: snapshot.taken_at.0,
            gpu_types,
            closures: closures(snapshot),
            total,
            sets: shapes.sets,
            shapes: shapes.list,
            habits,
            rules: rules(snapshot, growth),
            ranks,
            arrays: arrays.len(),
            parts: vec![QueuePart::default(); parts.count],
            requests,
            refusals,
            limits,
            counters,
            awaited: awaited.list,
            rivals,
        };
        let depth = snapshot.scheduling.depth.unwrap_or(USUAL_DEPTH);
        model.divide(&parts, &of_counter, waiting, running, depth);
        let mut arrived: Vec<Vec<PastJob>> = vec![Vec::new(); parts.count];
        for job in past {
            arrived[parts.of_shape[job.shape]].push(job);
        }
        for (part, past) in arrived.into_iter().enumerate() {
            let gpus = parts.gpus(part, &model.total, gpu_types);
            model.parts[part].arrivals = Arrivals::new(past, snapshot, &model, gpus);
        }
        model
    }

    /// Returns the nodes that could hold a shape, possibly with repetitions.
    pub(super) fn nodes_of(&self, shape: usize) -> impl Iterator<Item = u32> {
        self.shapes[shape].places.iter().flat_map(|place| &self.sets[*place]).copied()
    }

    /// Assigns jobs to parts, together with each part's share of the jobs that a pass processes. `of_counter`
    /// has the part whose jobs each counter of limits concerns.
    fn divide(
        &mut self,
        parts: &QueueParts,
        of_counter: &[Option<usize>],
        waiting: Vec<PendingEntry>,
        running: Vec<Active>,
        depth: u32,
    ) {
        let all = waiting.len().max(1);
        for job in waiting {
            self.parts[parts.of_shape[job.shape]].waiting.push(job);
        }
        for mut job in running {
            // No pending job can use nodes of several parts, so each part gets only the running job's nodes
            // in that part. A part without nodes of the job may have jobs that share a limit with it.
            let part_of = |node: u32| parts.of_node[node as usize];
            let counters = self.limits[job.rule].counters();
            let mut parts_of_job: Vec<usize> = job.holds.iter().map(|(node, _)| part_of(*node)).collect();
            parts_of_job.extend(counters.filter_map(|counter| of_counter[counter]));
            parts_of_job.sort_unstable();
            parts_of_job.dedup();
            for part in parts_of_job {
                let holds = job.holds.iter().filter(|(node, _)| part_of(*node) == part).cloned().collect();
                // Fair share sums up the usage of all parts.
                let counts = mem::take(&mut job.counts);
                self.parts[part].running.push(Active { holds, counts, ..job.clone() });
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

/// Up to this number of nodes in a part, a pass for every event is fast.
const FEW_NODES: usize = 32;

/// Interval between passes for more nodes, which combines frequent events: five minutes, in seconds.
const GRAIN: f64 = 300.0;

/// Slurm's default of `bf_max_job_test`.
const USUAL_DEPTH: u32 = 500;

/// Slurm's default of `bf_window`, in seconds.
const USUAL_WINDOW: f64 = 86_400.0;

fn rules(snapshot: &Snapshot, growth: f64) -> SchedulingRules {
    let scheduling = &snapshot.scheduling;
    SchedulingRules {
        backfill: scheduling.backfill.unwrap_or(true),
        window: scheduling.window_s.map_or(USUAL_WINDOW, |window| window.0),
        growth,
    }
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
