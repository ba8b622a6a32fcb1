//! Converts the pending and running jobs of a snapshot to numbers.

use std::collections::BTreeMap;

use crate::awaited::AwaitedJobs;
use crate::history::Users;
use crate::limits::{LimitRules, Subject, asked_tres};
use crate::line::{Array, Joins, LineKey, PendingEntry, id_order};
use crate::queue_model::Active;
use crate::ranks::Ranks;
use crate::shape::Shapes;
use crate::{QueueJob, Snapshot};
use hsched_model::Seconds;
use hsched_model::number::to_f64;

/// Value for "no limit" in seconds: one year.
const NO_LIMIT: f64 = 365.0 * 86_400.0;

/// The tables, besides shapes, by which jobs are numbered.
pub(super) struct NumberingContext<'a> {
    pub users: &'a Users<'a>,
    pub ranks: Option<&'a Ranks>,
    pub limits: LimitRules<'a>,
}

/// Partitions that are equivalent for a job: it has the same priority and the same limits in them.
struct PartitionSet {
    partitions: Vec<String>,
    rule: usize,
}

impl NumberingContext<'_> {
    pub(super) fn rule_in(&mut self, job: &QueueJob, snapshot: &Snapshot, partition: Option<&str>) -> usize {
        let amounts = job.running.as_ref().map_or_else(|| asked_tres(&job.asks), crate::HeldNodes::tres);
        let subject = Subject {
            user: job.user.as_deref(),
            account: job.account.as_deref(),
            qos: job.qos.as_deref(),
            partition,
            limit: snapshot.limit_of(job),
        };
        self.limits.of(subject, &amounts)
    }

    /// Returns the partitions in which a pending job may start, with equivalent ones grouped.
    fn ways(&mut self, job: &QueueJob, snapshot: &Snapshot) -> Vec<PartitionSet> {
        let mut ways: Vec<PartitionSet> = Vec::new();
        for group in snapshot.alike(job) {
            let rule = self.rule_in(job, snapshot, group.first().map(String::as_str));
            if self.limits.refusal(rule).is_none() {
                ways.push(PartitionSet { partitions: group, rule });
            }
        }
        ways
    }

    /// Returns the rule of a job by the first of its partitions whose limits allow it. If none does, returns
    /// `None` for a pending job, and the rule by the first partition for a running one.
    pub(super) fn rule_of(&mut self, job: &QueueJob, snapshot: &Snapshot) -> Option<usize> {
        let mut partitions: Vec<Option<&str>> =
            job.partitions.iter().map(|partition| Some(partition.as_str())).collect();
        if partitions.is_empty() {
            partitions.push(None);
        }
        let mut rules = partitions.into_iter().map(|partition| self.rule_in(job, snapshot, partition));
        let first = rules.next()?;
        let rules: Vec<usize> = std::iter::once(first).chain(rules).collect();
        let allowed = rules.into_iter().find(|rule| self.limits.refusal(*rule).is_none());
        allowed.or(job.running.is_some().then_some(first))
    }
}

/// Returns the pending jobs that may start, with an entry for each set of equivalent partitions.
pub(super) fn waiting(
    snapshot: &Snapshot,
    shapes: &mut Shapes,
    known: &mut NumberingContext,
    arrays: &mut BTreeMap<String, usize>,
    awaited: &AwaitedJobs,
) -> Vec<PendingEntry> {
    let unknown = snapshot.middle_priority();
    let joins = |job: &QueueJob| {
        // Jobs at known limits compete whenever the limit has room. The past use that others count is unknown.
        let is_counted = snapshot.limits.is_some() && job.waits_for_limit() && !job.waits_for_decay();
        let competes = !job.waits_for_other || is_counted;
        if competes { Some(Joins::Now) } else { awaited.joins(job, snapshot) }
    };
    let waits = snapshot.jobs.iter().enumerate().filter(|(_, job)| job.running.is_none());
    let waits = waits.filter_map(|(number, job)| Some((number, job, joins(job)?)));
    let mut list = Vec::new();
    for (number, job, joins) in waits {
        let ways = known.ways(job, snapshot);
        let is_one_of = (ways.len() > 1).then_some(number);
        let order = id_order(&job.id);
        let priority = job.priority.map_or(unknown, to_f64);
        let submitted = job.submitted.map_or(f64::NEG_INFINITY, |time| time.0);
        let array = job.array.as_ref().map(|id| {
            let next = arrays.len();
            Array {
                number: *arrays.entry(id.clone()).or_insert(next),
                at_once: job.at_once.unwrap_or(u32::MAX),
            }
        });
        for PartitionSet { partitions, rule } in ways {
            let reservation = job.reservation.as_deref();
            let Some(shape) = shapes.of(&job.asks, &partitions, reservation) else { continue };
            let longest = partitions.first().map(String::as_str);
            list.push(PendingEntry {
                key: LineKey { tier: snapshot.tier(&partitions), priority, submitted, order },
                place: number,
                shape,
                limit: snapshot.limit_in(job.limit_s.map(|limit| limit.0), longest),
                tasks: job.tasks.max(1),
                array,
                habit: known.users.of(job.user.as_deref()),
                counts: snapshot.counted_job(known.ranks, job),
                rule,
                joins: joins.clone(),
                awaited: awaited.numbers_of(job),
                job: is_one_of,
            });
        }
    }
    list
}

/// Returns the running jobs with their resources.
pub(super) fn running(
    snapshot: &Snapshot,
    shapes: &Shapes,
    known: &mut NumberingContext,
    arrays: &BTreeMap<String, usize>,
    awaited: &AwaitedJobs,
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
        Some(Active {
            since: running.since.0,
            limit: snapshot.longest_run(job, running.since.0),
            holds,
            habit: known.users.of(job.user.as_deref()),
            array: job.array.as_ref().and_then(|id| arrays.get(id)).copied(),
            counts: snapshot.counted_job(known.ranks, job),
            rule: known.rule_of(job, snapshot).unwrap_or(0),
            awaited: awaited.numbers_of(job),
        })
    };
    snapshot.jobs.iter().filter_map(&mut active).collect()
}

impl Snapshot {
    /// Returns the partition of jobs that name none, which may be closed; `None` if unknown.
    pub fn default_partition(&self) -> Option<&str> {
        let open = self.partitions.iter().find(|partition| partition.default);
        open.map(|partition| partition.name.as_str()).or(self.closed_default.as_deref())
    }

    /// Returns the state of a partition that starts no jobs; `None` for any other. One in the state `DRAIN` accepts
    /// no new jobs, but starts those that are queued.
    pub(super) fn stopped_partition(&self, name: &str) -> Option<&str> {
        self.closed_partitions.get(name).map(String::as_str).filter(|state| *state != "DRAIN")
    }

    /// Returns the maximum run time of a job that sets no walltime.
    pub fn longest_limit(&self, job: &QueueJob) -> Seconds {
        Seconds(self.limit_in(None, job.partitions.first().map(String::as_str)))
    }

    /// Returns the walltime of a job in seconds: its own, else its first partition's maximum or default, else
    /// one year; always from a minute to a year.
    pub(super) fn limit_of(&self, job: &QueueJob) -> f64 {
        self.limit_in(job.limit_s.map(|limit| limit.0), job.partitions.first().map(String::as_str))
    }

    pub(super) fn limit_in(&self, limit: Option<f64>, partition: Option<&str>) -> f64 {
        let partition = self.partitions.iter().find(|known| partition == Some(known.name.as_str()));
        let longest =
            partition.and_then(|known| known.max_time_s.or(known.default_time_s)).map(|time| time.0);
        // Slurm counts in minutes; a shorter limit would end a job before it began.
        limit.or(longest).unwrap_or(NO_LIMIT).clamp(60.0, NO_LIMIT)
    }

    /// Returns the highest `PriorityTier` of some partitions, 1 if none is known.
    pub(super) fn tier(&self, partitions: &[String]) -> u32 {
        let named = self.partitions.iter().filter(|partition| partitions.contains(&partition.name));
        named.filter_map(|partition| partition.tier).max().unwrap_or(1)
    }

    /// Returns the partitions of a pending job that accept its walltime and number of nodes, or all if none
    /// does, grouped by tier, exclusive use of nodes and QOS.
    fn alike(&self, job: &QueueJob) -> Vec<Vec<String>> {
        let known = |name: &String| self.partitions.iter().find(|partition| partition.name == *name);
        let lets_in = |name: &&String| {
            known(name).is_none_or(|partition| {
                let is_short =
                    job.limit_s.is_none_or(|limit| partition.max_time_s.is_none_or(|most| limit <= most));
                is_short && partition.max_nodes.is_none_or(|most| job.asks.nodes <= most)
            })
        };
        let mut open: Vec<&String> = job.partitions.iter().filter(lets_in).collect();
        if open.is_empty() {
            open = job.partitions.iter().collect();
        }
        let kind = |name: &String| {
            known(name).map(|partition| (partition.tier, partition.exclusive, partition.limit_qos.as_deref()))
        };
        let mut groups: Vec<Vec<String>> = Vec::new();
        for name in open {
            match groups.iter_mut().find(|group| kind(&group[0]) == kind(name)) {
                Some(group) => group.push(name.clone()),
                None => groups.push(vec![name.clone()]),
            }
        }
        if groups.is_empty() { vec![Vec::new()] } else { groups }
    }

    fn has_whole_nodes(&self, job: &QueueJob) -> bool {
        let mut partitions = self.partitions.iter();
        self.scheduling.whole_nodes
            || job.asks.exclusive
            || partitions.any(|partition| partition.exclusive && job.partitions.contains(&partition.name))
    }

    /// Returns the median priority of pending jobs; 0 if none is known.
    fn middle_priority(&self) -> f64 {
        let waiting = self.jobs.iter().filter(|job| job.running.is_none());
        let mut known: Vec<u64> = waiting.filter_map(|job| job.priority).collect();
        known.sort_unstable();
        known.get(known.len() / 2).map_or(0.0, |priority| to_f64(*priority))
    }
}
