//! Candidate remedies for a pending job, before starts are estimated.

use crate::changes::{preempts_others, preempts_own, qos_drawbacks};
use crate::why::advice::Adviser;
use crate::why::room::PendingRoom;
use crate::why::words::all_gpus;
use crate::why::{StateKind, is_component};
use crate::{
    Change, ChangeSet, Drawback, LimitUse, PendingJob, Question, QueueJob, Request, RequestId, Snapshot,
    forecast_at,
};
use hsched_model::number::{to_f64, to_u64};
use hsched_model::{FurtherOptions, Seconds};

/// Maximum number of the user's other jobs whose cancellation is considered.
const CANCELLED: usize = 4;

/// The shortest recommended time limit, and the minimum reduction, in seconds: a quarter of an hour.
const LEAST_LIMIT: f64 = 900.0;

/// Gap between a job's end and the start of the next one, in seconds: Slurm counts in minutes, and looks are
/// slightly old.
const MARGIN: f64 = 120.0;

impl Adviser<'_> {
    /// Returns other partitions, QOS and accounts that accept the job, if its reason is that a current one
    /// does not.
    pub(super) fn elsewhere(&self) -> Vec<Change> {
        const MOST_TRIED: usize = 4;
        let (job, snapshot) = (&self.pending.job, self.snapshot());
        let takes = |job: &QueueJob, name: &String| snapshot.breaches(job, name).is_empty();
        let partitions = snapshot.partitions.iter().map(|partition| &partition.name);
        let others = partitions.filter(|name| !job.partitions.contains(name) && takes(job, name));
        let others = others.map(|name| Change::Partition(name.clone()));
        let with = |change: &dyn Fn(&mut QueueJob)| {
            let mut changed = job.clone();
            change(&mut changed);
            job.partitions.iter().any(|name| takes(&changed, name))
        };
        let associations =
            snapshot.accounts.iter().filter(|account| Some(&account.name) == job.account.as_ref());
        let qos = associations
            .flat_map(|account| &account.allowed_qos)
            .filter(|name| Some(*name) != job.qos.as_ref());
        let qos = qos.filter(|name| with(&|job| job.qos = Some((*name).clone())));
        let accounts = snapshot
            .accounts
            .iter()
            .map(|account| &account.name)
            .filter(|name| Some(*name) != job.account.as_ref());
        let accounts = accounts.filter(|name| with(&|job| job.account = Some((*name).clone())));
        let list: Vec<Change> = match self.reason.name.as_str() {
            "PartitionDown" | "PartitionInactive" | "PartitionTimeLimit" | "PartitionNodeLimit"
            | "PartitionConfig" => others.collect(),
            "QOSNotAllowed" | "InvalidQOS" => {
                qos.map(|name| Change::Qos(name.clone())).chain(others).collect()
            }
            "AccountNotAllowed" | "InvalidAccount" => {
                accounts.map(|name| Change::Account(name.clone())).chain(others).collect()
            }
            _ => Vec::new(),
        };
        list.into_iter().take(MOST_TRIED).collect()
    }

    /// Returns time limits with which the job ends before a preceding job starts (the first, and the
    /// largest), or before a reservation of nodes with room begins.
    pub(super) fn holes(&self, request: &Request) -> Vec<Seconds> {
        let Some(ahead) = &self.explanation.ahead else { return Vec::new() };
        let reserved = PendingRoom::of(self.pending).and_then(|room| room.reserved);
        let until = |at: f64| Seconds(((at - MARGIN) / 60.0).floor() * 60.0);
        let closed = reserved.map(|reservation| until(reservation.start.since(self.snapshot().taken_at).0));
        let jobs = ahead.jobs.first().into_iter().chain(ahead.largest());
        let mut list: Vec<Seconds> = jobs
            .filter_map(|before| {
                let first = PendingJob::take(self.snapshot(), &before.job.id)?;
                let (request, position) = (first.request(RequestId(0)), first.position());
                let requests = [request];
                let question = Question {
                    snapshot: &first.rest,
                    requests: &requests,
                    seed: 0,
                    samples: 0,
                    calibration: None,
                };
                let estimates = forecast_at(&question, &[(RequestId(0), position)], self.stop);
                let at = estimates.first()?.start.forecast()?.at_limits?;
                Some(until(at.0))
            })
            .chain(closed)
            .filter(|limit| limit.0 >= LEAST_LIMIT && limit.0 <= request.limit.0 - LEAST_LIMIT)
            .collect();
        list.sort_by(|a, b| a.0.total_cmp(&b.0));
        list.dedup();
        list
    }

    /// Returns the smallest change with which the job satisfies a limit; `None` if there is none.
    pub(super) fn within(&self, limit: &LimitUse, request: &Request) -> Option<ChangeSet> {
        let minutes = request.limit.0 / 60.0;
        let room = match limit.used {
            Some(used) => limit.max - used,
            None => limit.max,
        };
        let limit_of = |minutes: f64| {
            let shorter = Seconds(minutes.floor() * 60.0);
            (shorter.0 >= 60.0 && shorter.0 < request.limit.0).then_some(Change::Limit(shorter))
        };
        let change = match limit.name.as_str() {
            "MaxTime" | "MaxWall" => limit_of(limit.max)?,
            "MaxNodes" | "TotalNodes" => {
                let nodes = u32::try_from(to_u64(limit.max)).ok().filter(|nodes| *nodes > 0)?;
                Change::Gpus {
                    nodes,
                    per_node: of_32_bits(all_gpus(&request.asks).div_ceil(u64::from(nodes))),
                }
            }
            name if name.contains("Mins") => limit_of(minutes * room / limit.needed.max(1e-9))?,
            "GrpTRES" | "MaxTRES" | "MaxTRESPerUser" | "MaxTRESPerAccount" | "MaxTRESPerNode" | "MinTRES"
                if limit.tres.as_deref().is_some_and(|tres| tres.starts_with("gres/gpu")) =>
            {
                let nodes = request.asks.nodes.max(1);
                let before = of_32_bits(all_gpus(&request.asks) / u64::from(nodes));
                let room = u32::try_from(to_u64(room.max(0.0))).ok()?;
                let per_node = if limit.name == "MaxTRESPerNode" { room } else { room / nodes };
                if per_node > 0 {
                    Change::Gpus { nodes, per_node }
                } else {
                    Change::Gpus { nodes: (room / before.max(1)).max(1), per_node: before.min(room) }
                }
            }
            _ => return None,
        };
        let is_more = limit.name == "MinTRES";
        let is_usable = match &change {
            Change::Gpus { nodes, per_node } => {
                let before = all_gpus(&request.asks);
                let after = u64::from(*nodes) * u64::from(*per_node);
                *per_node > 0
                    && request.asks.gpus.len() == 1
                    && (if is_more {
                        after > before
                    } else {
                        after < before || limit.name.ends_with("Nodes")
                    })
            }
            _ => true,
        };
        is_usable.then(|| ChangeSet { drawbacks: self.drawbacks(&change, request), changes: vec![change] })
    }

    /// Returns the drawbacks of a change.
    pub(super) fn drawbacks(&self, change: &Change, request: &Request) -> Vec<Drawback> {
        let mut changed = request.clone();
        change.apply(&mut changed);
        let mut list = match change {
            Change::Limit(limit) => {
                vec![Drawback::EndsAfter { limit: *limit, need: self.past.need(&changed) }]
            }
            _ => drawbacks_of_kind(change, request, self.snapshot()),
        };
        list.extend(preempts_others(self.snapshot(), request, &changed));
        list
    }

    /// Returns other jobs of the user whose end could help: running jobs and the jobs before this one, the
    /// largest first.
    pub(super) fn others(&self) -> Vec<QueueJob> {
        if self.explanation.kind != StateKind::Waits || !self.pending.job.ours {
            return Vec::new();
        }
        let ahead = |job: &&QueueJob| {
            self.explanation.ahead.iter().flat_map(|ahead| &ahead.jobs).any(|before| before.job.id == job.id)
        };
        let room = PendingRoom::of(self.pending).unwrap_or_default();
        let is_in_the_way = |job: &QueueJob| {
            let holds = job.running.iter().flat_map(|running| &running.holds);
            match &self.explanation.limit {
                Some(limit) => counts_for(job, limit, self.snapshot()),
                None => holds.into_iter().any(|held| room.possible.contains(&held.node)),
            }
        };
        // Given a component's id, Slurm cancels the whole job.
        let running = self.snapshot().jobs.iter().filter(|job| job.ours && !is_component(&job.id));
        let holders = running.filter(|job| job.running.is_some() && is_in_the_way(job) || ahead(job));
        let mut list: Vec<QueueJob> = holders.cloned().collect();
        list.sort_by_key(|job| std::cmp::Reverse(job.gpus()));
        list.truncate(CANCELLED);
        list
    }
}

fn of_32_bits(count: u64) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// Returns whether a job of the user may count towards a limit.
fn counts_for(job: &QueueJob, limit: &LimitUse, snapshot: &Snapshot) -> bool {
    let account = job.account.as_deref().unwrap_or_default();
    match limit.holder.split(':').collect::<Vec<_>>()[..] {
        ["a", name] => snapshot.accounts_above(account).contains(&name),
        ["u", name, _] => name == account,
        // The QOS may be that of a partition.
        ["q" | "qu" | "qa", ..] => true,
        _ => false,
    }
}

/// Returns the drawbacks of a change of anything but the limit, except that Slurm may preempt running jobs of
/// other users.
fn drawbacks_of_kind(change: &Change, request: &Request, snapshot: &Snapshot) -> Vec<Drawback> {
    match change {
        Change::Gpus { nodes, per_node } => {
            let (before, after) = (all_gpus(&request.asks), u64::from(*nodes) * u64::from(*per_node));
            (after < before)
                .then(|| Drawback::RunsLonger(to_f64(before) / to_f64(after)))
                .into_iter()
                .collect()
        }
        Change::Partition(name) => {
            let known =
                snapshot.partitions.iter().find(|partition| partition.name == *name && partition.preemptible);
            let changed = Request { partition: Some(name.clone()), ..request.clone() };
            let preempted = known.map(|partition| Drawback::MayBePreempted { of: partition.name.clone() });
            preempted.into_iter().chain(preempts_own(snapshot, request, &changed)).collect()
        }
        Change::Account(account) => {
            let changed = Request { account: Some(account.clone()), ..request.clone() };
            let charged = Drawback::Charged { account: account.clone() };
            std::iter::once(charged).chain(qos_drawbacks(snapshot, request, &changed)).collect()
        }
        Change::Qos(qos) => {
            let further = FurtherOptions { qos: Some(qos.clone()), ..request.further.clone() };
            qos_drawbacks(snapshot, request, &Request { further, ..request.clone() })
        }
        _ => Vec::new(),
    }
}
