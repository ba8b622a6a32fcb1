//! The running and pending jobs of all users, from one call of `squeue`.

use std::collections::BTreeSet;

use crate::holdings::{self, PrintedHoldings};
use crate::notes::Notes;
use crate::queue::array::array;
use crate::queue::waiting::competes;
use crate::record::{excerpt, format, records, unreadable, value};
use crate::{CommandLine, Gres, ParseError, SlurmState, Tres, amount, time};
use hsched_model::{Cluster, GpuType, NodeName, Time, hostlist};
use hsched_queue::{Asks, GpuAsk, GpuCount, HeldNodes, NodeHolding, QueueJob};

/// The requested fields; Slurm 22.05 and later have them all. The nodes that a job excludes need another call
/// of `squeue`.
pub(crate) const FIELDS: [&str; 26] = [
    "JobArrayID",
    "State",
    "UserName",
    "Account",
    "QOS",
    "Partition",
    "PriorityLong",
    "SubmitTime",
    "StartTime",
    "TimeLimit",
    "NumNodes",
    "NumCPUs",
    "NumTasks",
    "tres-alloc",
    "tres-per-node",
    "tres-per-job",
    "tres-per-task",
    "tres-per-socket",
    "NodeList",
    "Feature",
    "Reservation",
    "OverSubscribe",
    "Reason",
    "Dependency",
    "ReqNodes",
    "Nice",
];

/// Number of basic fields: those that earlier versions of hsched requested and may have cached.
const BASIC: usize = 23;

/// The user and the time of a look at the queue.
#[derive(Clone, Copy, Debug)]
pub struct QueueLook<'a> {
    pub at: Time,
    /// The user whose jobs count as the user's own.
    pub user: &'a str,
}

/// The column that shows whether a job has its nodes exclusively, and its name from 26.05 on. Values of the
/// newer column end with a colon, because `NO` has the opposite meaning there.
const OLD_EXCLUSIVE: &str = "OverSubscribe";
const NEW_EXCLUSIVE: &str = "Exclusive:";
const EXCLUSIVE_SINCE: (u32, u32) = (26, 5);

/// Returns the command line that prints the running and pending jobs of all users and partitions, for a
/// release of Slurm.
pub fn command(release: Option<(u32, u32)>) -> CommandLine {
    let is_new = release.is_some_and(|release| release >= EXCLUSIVE_SINCE);
    let fields = FIELDS.map(|field| if is_new && field == OLD_EXCLUSIVE { NEW_EXCLUSIVE } else { field });
    // Without `--all`, jobs in hidden partitions are omitted.
    CommandLine::new("squeue", ["--all", "-h", "-O", &format(&fields)])
}

/// Returns whether a job has its nodes exclusively.
fn is_exclusive(shared: &str) -> bool {
    match shared.trim().strip_suffix(':') {
        Some(new) => new.eq_ignore_ascii_case("node"),
        // `NO` corresponds to `--exclusive`.
        None => shared.trim().eq_ignore_ascii_case("no"),
    }
}

/// Returns the jobs in printed order, and notes on unreadable or assumed values.
///
/// # Errors
/// If no job is read and more than one record is unreadable.
pub fn parse(
    text: &str,
    cluster: &Cluster,
    look: QueueLook<'_>,
) -> Result<(Vec<QueueJob>, Vec<String>), ParseError> {
    let (mut jobs, mut unread, mut notes) = (Vec::new(), Vec::new(), Notes::default());
    for record in records(text) {
        let basic = record.split_first_chunk::<BASIC>();
        // An answer cached by an earlier hsched has only the basic columns. If one column is missing, squeue
        // dropped an unknown one.
        let is_whole = |more: &[&str]| more.is_empty() || more.len() == FIELDS.len() - BASIC;
        if let Some((fields, more)) = basic.filter(|(_, more)| is_whole(more)) {
            jobs.extend(job(fields, more, cluster, look, &mut notes));
        } else {
            let line = excerpt(&record.join("|"));
            unread.push(format!("cannot parse a line of squeue output: {line:?}"));
        }
    }
    if jobs.is_empty() && unread.len() > 1 {
        return Err(unreadable("squeue", text));
    }
    unread.extend(notes.into_lines());
    Ok((jobs, unread))
}

/// Returns a running or pending job; ended jobs that are still shown are skipped.
fn job(
    fields: &[&str; BASIC],
    more: &[&str],
    cluster: &Cluster,
    look: QueueLook<'_>,
    notes: &mut Notes,
) -> Option<QueueJob> {
    let [id, state, user, account, qos, partitions, priority, submit, start, limit, ..] = *fields;
    let [.., nodes, features, reservation, _, reason] = *fields;
    let owned = |text: &str| value(text).map(str::to_owned);
    let date = |text: &str| time::unix(text).map(Time);
    let id = id.trim();
    let array = array(id);
    let state = SlurmState::parse(state);
    let request = PrintedRequest::of(fields);
    let [dependency, required, nice] = <[&str; 3]>::try_from(more).unwrap_or([""; 3]);
    let asks = Asks { nodelist: names(required), ..request.asks(features) };
    let running = state.holds_nodes(nodes).then(|| {
        let since = date(start).unwrap_or(look.at);
        HeldNodes { since, holds: request.holds(nodes, &asks, cluster, notes) }
    });
    if running.is_none() && !state.is_pending() {
        return None;
    }
    let limit_s = match &running {
        // Only Slurm's cleanup remains, so none of its time limit is left.
        Some(run) if state == SlurmState::Completing => Some(look.at.since(run.since)),
        _ => amount::duration(limit),
    };
    let priority = priority.trim().parse().ok();
    let reason = owned(reason).filter(|_| running.is_none());
    let begin = date(start).filter(|_| reason.as_deref() == Some("BeginTime"));
    let is_held = running.is_none() && (priority == Some(0) || state.is_held());
    Some(QueueJob {
        waits_for_other: is_held || reason.as_deref().is_some_and(|reason| !competes(reason)),
        array: array.as_ref().map(|job_array| job_array.id.clone()),
        tasks: array.as_ref().map_or(1, |job_array| job_array.tasks),
        at_once: array.and_then(|job_array| job_array.at_once),
        id: id.to_owned(),
        ours: user.trim() == look.user,
        user: owned(user),
        account: owned(account),
        qos: owned(qos),
        partitions: value(partitions).unwrap_or_default().split(',').map(str::to_owned).collect(),
        priority,
        submitted: date(submit),
        limit_s,
        asks,
        running,
        reservation: owned(reservation),
        reason,
        begin,
        after: value(dependency).map(after).unwrap_or_default(),
        nice: nice.trim().parse().unwrap_or(0),
    })
}

fn names(hostlist: &str) -> BTreeSet<NodeName> {
    let names = value(hostlist).and_then(|list| hostlist::expand(list).ok()).unwrap_or_default();
    names.iter().filter_map(|name| NodeName::new(name).ok()).collect()
}

/// Returns the ids of the jobs whose ends a dependency waits for:
/// `afterok:12(unfulfilled),afterany:13_*(unfulfilled)`. Empty if it also waits for something else, or for
/// any one of several jobs.
fn after(dependency: &str) -> Vec<String> {
    let id = |item: &str| {
        let (kind, rest) = item.trim().split_once(':')?;
        let id = rest.split(['(', '+']).next()?.trim().trim_end_matches("_*");
        let is_end = matches!(kind, "afterany" | "afterok");
        (is_end && !id.is_empty() && !item.contains("failed")).then(|| id.to_owned())
    };
    let all: Option<Vec<String>> = dependency.split(',').map(id).collect();
    all.filter(|_| !dependency.contains('?')).unwrap_or_default()
}

/// A job's request, as printed.
struct PrintedRequest<'a> {
    nodes: u32,
    cpus: Option<u64>,
    tasks: u32,
    printed_tres: &'a str,
    tres: Tres,
    per_node: &'a str,
    per_job: &'a str,
    per_task: &'a str,
    exclusive: bool,
}

impl<'a> PrintedRequest<'a> {
    fn of(fields: &[&'a str; BASIC]) -> Self {
        let [.., nodes, cpus, tasks, tres, per_node, per_job, per_task, _, _, _, _, shared, _] = *fields;
        let printed_tres = tres;
        let tres = Tres::parse(tres);
        // For a range of nodes (`-N 1-2`), the column has the maximum and the TRES have the minimum.
        let nodes = tres.nodes.or_else(|| amount::count(nodes.split('-').next().unwrap_or_default()));
        Self {
            nodes: u32::try_from(nodes.unwrap_or(1)).unwrap_or(u32::MAX).max(1),
            cpus: tres.cpus.or_else(|| amount::count(cpus)),
            tasks: tasks.trim().parse().unwrap_or(1),
            printed_tres,
            tres,
            per_node,
            per_job,
            per_task,
            exclusive: is_exclusive(shared),
        }
    }

    fn asks(&self, features: &str) -> Asks {
        let nodes = u64::from(self.nodes);
        Asks {
            nodes: self.nodes,
            gpus: self.gpus(),
            cpus: self.cpus.map(|cpus| cpus.div_ceil(nodes)),
            memory_mib: self.tres.memory.map(|bytes| bytes.whole_mebibytes().div_ceil(nodes)),
            exclusive: self.exclusive,
            features: value(features).map(str::to_owned),
            ..Asks::default()
        }
    }

    /// Returns the GPUs per node as requested; the accounting TRES omit values that the user left open.
    fn gpus(&self) -> Vec<GpuAsk> {
        let known = |gres: &Gres| gres.gpu_total() > 0;
        let per_node = Gres::parse(self.per_node);
        if known(&per_node) {
            return gpu_asks(&per_node, 1, 1);
        }
        let per_task = Gres::parse(self.per_task);
        if known(&per_task) {
            return gpu_asks(&per_task, self.tasks, self.nodes);
        }
        let per_job = Gres::parse(self.per_job);
        gpu_asks(if known(&per_job) { &per_job } else { &self.tres.gres }, 1, self.nodes)
    }

    /// Returns the resources that a running job holds; totals are assumed to be spread evenly over its nodes.
    fn holds(&self, nodes: &str, asks: &Asks, cluster: &Cluster, notes: &mut Notes) -> Vec<NodeHolding> {
        let given = PrintedHoldings {
            nodes,
            tres: self.printed_tres,
            cpus: self.cpus,
            per_node: self.per_node,
            per_job: self.per_job,
        };
        if let Ok(shares) = holdings::held_by(&given, cluster) {
            return shares.into_iter().map(|(node, held)| of_share(node, held)).collect();
        }
        let names = hostlist::expand(nodes).unwrap_or_default();
        let names: Vec<NodeName> = names.iter().filter_map(|name| NodeName::new(name).ok()).collect();
        for name in &names {
            notes.of(
                name,
                "Slurm does not show the GPUs of some jobs; hsched assumes the GPUs that they \
                 requested"
                    .to_owned(),
            );
        }
        names.into_iter().map(|node| assumed(node, asks, cluster)).collect()
    }
}

/// Returns a request of `gres` × `times` spread over nodes, rounded up.
fn gpu_asks(gres: &Gres, times: u32, nodes: u32) -> Vec<GpuAsk> {
    let ask = |(gpu_type, count): &(GpuType, u32)| GpuAsk {
        gpu_type: (*gpu_type != GpuType::untyped()).then(|| gpu_type.clone()),
        count: count.saturating_mul(times).div_ceil(nodes),
    };
    gres.gpus.iter().filter(|(_, count)| *count > 0).map(ask).collect()
}

fn of_share(node: NodeName, held: hsched_model::HeldResources) -> NodeHolding {
    let gpus = held.gpus.into_iter().map(|(gpu_type, count)| GpuCount { gpu_type, count }).collect();
    NodeHolding { node, gpus, cpus: Some(held.cpus), memory_mib: Some(held.memory >> 20) }
}

/// Returns a job's request on a node as held there; for GPUs of any type, the node's first type.
fn assumed(node: NodeName, asks: &Asks, cluster: &Cluster) -> NodeHolding {
    let first = cluster.node(&node).and_then(|node| node.gpus.first()).map(|stock| stock.gpu_type.clone());
    let count = |ask: &GpuAsk| {
        let gpu_type = ask.gpu_type.clone().or_else(|| first.clone())?;
        Some(GpuCount { gpu_type, count: ask.count })
    };
    let gpus = asks.gpus.iter().filter_map(count).collect();
    NodeHolding { node, gpus, cpus: asks.cpus, memory_mib: asks.memory_mib }
}

#[cfg(test)]
mod tests;
