//! The requests that a job could be submitted with: GPUs as the planner would share them, accounts, partitions, limits, costs.

use std::collections::{BTreeMap, BTreeSet};

use crate::app::context::Context;
use crate::app::folders;
use crate::app::speeds::SpeedArgs;
use crate::app::type_names::none_here;
use crate::error::Failure;
use crate::exit::Exit;
use crate::ui::duration;
use hsched_model::catalogue::recognise;
use hsched_model::{
    Access, Bytes, Cluster, GpuStock, GpuType, Holdings, Job, Node, Partition, Seconds, SpeedBasis, Terms,
    Usage, Walltime,
};
use hsched_plan::{Grounds, Placement, Problem, Sharing, Slot, refusal};
use hsched_queue::{Asks, GpuAsk, NodeUse, QueuePartition, Request, RequestId, Snapshot, Weigh};

/// Requests of one job that are looked at.
const MOST: usize = 24;

/// The most GPUs that are asked for where the job does not say how many it may have.
const USUAL_MOST: u32 = 32;

/// A request and what is known of it before it is in any queue.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct JobRequest {
    pub request: Request,
    pub gpu_type: GpuType,
    pub gpus: u32,
    /// How long the whole training takes, each further piece beginning with a restart.
    pub run: Seconds,
    pub terms: Terms,
    /// Its limit, and how many runs of it the training takes: more than 1 where the partition's longest is too short.
    pub walltime: Walltime,
    pub cost: Option<Cost>,
    /// Whether it may be stopped for others.
    pub preemptible: bool,
}

/// What a run is charged.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Cost {
    pub hours: f64,
    pub unit: Unit,
}

/// In what a cost is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    /// By the partition's `TRESBillingWeights`.
    Billing,
    /// Reference GPU units.
    Rgu,
}

impl Unit {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Billing => "billing-hours",
            Self::Rgu => "RGU-hours",
        }
    }
}

/// The requests of a job; where there are none, why.
pub(crate) type Requests = (Vec<JobRequest>, Option<String>);

/// Returns the requests of a job on the cluster of a snapshot, at most [`MOST`]; adds notes on its speeds and on what was left out.
///
/// # Errors
/// When the measured speeds cannot be read.
pub(crate) fn requests(
    context: &Context,
    speeds: &SpeedArgs,
    job: &Job,
    snapshot: &Snapshot,
    notes: &mut Vec<String>,
) -> Result<Requests, Failure> {
    let accounts = accounts(context, job);
    let (mut list, mut nothing) = (Vec::new(), None);
    for partition in partitions(context, job, snapshot, notes) {
        let own = snapshot.partitions.iter().find(|own| Some(&own.name) == partition.as_ref());
        let shapes = match shapes(context, speeds, job, (snapshot, partition.as_deref()), notes)? {
            Ok(shapes) => shapes,
            Err(why) => {
                nothing = nothing.or(Some(why));
                continue;
            }
        };
        for account in &accounts {
            let may = |allowed: &BTreeSet<String>| account.as_ref().is_none_or(|name| allowed.contains(name));
            if own.and_then(|own| own.accounts.as_ref()).is_some_and(|allowed| !may(allowed)) {
                let (account, partition) =
                    (account.as_deref().unwrap_or(""), partition.as_deref().unwrap_or(""));
                notes.push(format!("{}: account {account} may not use partition {partition}", job.name));
                continue;
            }
            for shape in &shapes {
                list.push(option(context, job, shape, (own, partition.as_deref(), account.as_deref())));
            }
        }
    }
    leave_out_cut(context, job, &mut list, (&mut nothing, notes));
    if list.len() > MOST {
        notes.push(format!(
            "{}: {} requests are possible; hsched looks at {MOST} of \
            them",
            job.name,
            list.len()
        ));
        list = thin(list);
    }
    let nothing = nothing.unwrap_or_else(|| "no request is possible for this job".to_owned());
    let nothing = list.is_empty().then_some(nothing);
    Ok((list, nothing))
}

/// Leaves out what a time limit would end before the job is done, where the job cannot go on after that; says so, and what to do.
fn leave_out_cut(
    context: &Context,
    job: &Job,
    list: &mut Vec<JobRequest>,
    (nothing, notes): (&mut Option<String>, &mut Vec<String>),
) {
    let all = list.len();
    let cut = |own: &JobRequest| !own.walltime.suits(false);
    if !list.iter().any(cut) || folders::resumes(context, job) {
        return;
    }
    let mut limits: Vec<(u64, String)> =
        list.iter().filter(|own| cut(own)).map(|own| (own.walltime.minutes, own.walltime.length())).collect();
    limits.sort();
    limits.dedup();
    let limits = limits.into_iter().map(|(_, length)| length).collect::<Vec<_>>().join(", ");
    let shortest = list.iter().map(|own| own.run.0).fold(f64::INFINITY, f64::min);
    list.retain(|own| !cut(own));
    let loses = Walltime::LOSES;
    if list.is_empty() {
        let run = duration(Seconds(shortest));
        *nothing = Some(format!(
            "every time limit here ({limits}) is shorter than the job ({run} at best), and {loses}"
        ));
    } else {
        let left_out = all - list.len();
        notes.push(format!(
            "{}: {left_out} of {all} requests are left out: their time limit ({limits}) is shorter than \
             the job, and {loses}",
            job.name
        ));
    }
}

/// Returns the accounts that a job may be submitted with; `None` is the user's default.
fn accounts(context: &Context, job: &Job) -> Vec<Option<String>> {
    let first = job.launch.account.as_ref().or(context.settings.jobs.account.as_ref());
    let named: Vec<Option<String>> =
        first.into_iter().chain(&job.launch.other_accounts).cloned().map(Some).collect();
    if named.is_empty() { vec![None] } else { named }
}

/// Returns the partitions that a job may go to; `None` where the snapshot knows none.
fn partitions(
    context: &Context,
    job: &Job,
    snapshot: &Snapshot,
    notes: &mut Vec<String>,
) -> Vec<Option<String>> {
    let named = job.launch.partition.as_ref().or(context.settings.jobs.partition.as_ref());
    let Some(names) = named else {
        let usual = snapshot.partitions.iter().find(|own| own.default);
        return vec![usual.map(|own| own.name.clone())];
    };
    let is_known = |name: &&str| {
        let in_nodes = || snapshot.nodes.iter().any(|node| node.partitions.contains(*name));
        snapshot.partitions.iter().any(|own| own.name == **name) || in_nodes()
    };
    let (known, unknown): (Vec<&str>, Vec<&str>) = names.split(',').map(str::trim).partition(is_known);
    for name in unknown {
        notes.push(format!("{}: this cluster has no partition {name}", job.name));
    }
    known.into_iter().map(|name| Some(name.to_owned())).collect()
}

/// GPUs of one type for a job, as the planner would share the work over them.
struct Shape {
    gpu_type: GpuType,
    nodes: u32,
    per_node: u32,
    run: Seconds,
    basis: SpeedBasis,
}

/// Returns the GPUs that a job could use in a partition, or why there are none; of one type only such that more GPUs make it faster.
fn shapes(
    context: &Context,
    speeds: &SpeedArgs,
    job: &Job,
    (snapshot, partition): (&Snapshot, Option<&str>),
    notes: &mut Vec<String>,
) -> Result<Result<Vec<Shape>, String>, Failure> {
    let cluster = cluster(snapshot, partition);
    if cluster.nodes.is_empty() {
        let of = partition.map_or(String::new(), |name| format!(" of partition {name}"));
        return Ok(Err(format!("no node{of} accepts new jobs")));
    }
    let mut job = job.clone();
    job.launch.partition = partition.map(str::to_owned);
    let jobs = [job];
    let settings = &context.settings;
    let matrix = speeds.matrix(context, &jobs, &Problem::types_of(&cluster))?;
    let access = Access::new(&cluster, &jobs, &settings.jobs);
    let held = Holdings::new();
    let rates = (settings.network, settings.intra_node);
    let grounds = Grounds { cluster: &cluster, access: &access, held: &held, rates };
    let problem = Problem::live(grounds, &jobs, &matrix)
        .map_err(|error| Failure::from_error(Exit::BadInput, &error))?;
    let most_nodes = snapshot.partitions.iter().find(|own| Some(own.name.as_str()) == partition);
    let most_nodes = most_nodes.and_then(|own| own.max_nodes).unwrap_or(u32::MAX);
    let mut list = Vec::new();
    for gpu_type in 0..problem.gpu_types.len() {
        // Nobody wants to wait for more GPUs of a type than the setting `capacity` lets them expect.
        let expected = settings.capacity.get(&problem.gpu_types[gpu_type]).copied();
        let most = jobs[0].max_gpus.unwrap_or(USUAL_MOST).min(expected.unwrap_or(u32::MAX));
        list.extend(of_type(&problem, gpu_type, (most, most_nodes), jobs[0].epochs));
    }
    if list.is_empty() {
        let why = none_here(&jobs[0], &problem.gpu_types).or_else(|| refusal(&problem, 0));
        return Ok(Err(why.unwrap_or_else(|| {
            "none of its requests fits on the nodes that are \
            up"
            .to_owned()
        })));
    }
    for note in problem.jobs[0].notes(&problem) {
        let note = format!("{}: {note}", jobs[0].name);
        // The same holds in all partitions.
        if !notes.contains(&note) {
            notes.push(note);
        }
    }
    Ok(Ok(list))
}

/// Returns the shapes of one type, each faster than all smaller ones.
fn of_type(problem: &Problem, gpu_type: usize, (most, most_nodes): (u32, u32), epochs: u64) -> Vec<Shape> {
    let model = &problem.jobs[0];
    let largest = problem.nodes.iter().map(|node| node.up[gpu_type]).max().unwrap_or(0);
    let most = model.max_gpus.min(most);
    let on_one = (1..=largest).map(|count| (1, count));
    let on_several = (2..=most_nodes.min(USUAL_MOST)).map(|nodes| (nodes, largest));
    let mut list: Vec<Shape> = Vec::new();
    for (nodes, per_node) in on_one.chain(on_several) {
        let gpus = nodes.saturating_mul(per_node);
        if gpus < model.min_gpus || gpus > most || largest == 0 {
            continue;
        }
        let mut able: Vec<usize> =
            (0..problem.nodes.len()).filter(|&node| problem.nodes[node].up[gpu_type] >= per_node).collect();
        able.truncate(nodes as usize);
        let slots: Vec<Slot> = able.iter().map(|&node| Slot { node, gpu_type, count: per_node }).collect();
        if slots.len() < nodes as usize {
            continue;
        }
        let Some(placement) = Placement::new(problem, 0, &slots, Sharing::Balanced) else { continue };
        let run = placement.jct(epochs);
        if list.iter().all(|own| run.0 < own.run.0 * 0.98) {
            let basis = model.basis(gpu_type);
            list.push(Shape { gpu_type: problem.gpu_types[gpu_type].clone(), nodes, per_node, run, basis });
        }
    }
    list
}

/// Returns the nodes of a partition that take new jobs, as if nobody used them.
fn cluster(snapshot: &Snapshot, partition: Option<&str>) -> Cluster {
    let mut nodes = Vec::new();
    for own in &snapshot.nodes {
        let is_in = partition.is_none_or(|name| own.partitions.contains(name));
        if own.usable != NodeUse::Up || !is_in {
            continue;
        }
        let mut node = Node::new(own.name.clone());
        let mut stocks: BTreeMap<&GpuType, u32> = BTreeMap::new();
        for stock in &own.gpus {
            *stocks.entry(&stock.gpu_type).or_default() += stock.count;
        }
        let stock = |(gpu_type, total): (&GpuType, u32)| GpuStock {
            gpu_type: gpu_type.clone(),
            total,
            used: 0,
            memory: None,
        };
        node.gpus = stocks.into_iter().map(stock).collect();
        node.cpus = own.cpus.map(|total| Usage { total, used: 0 });
        node.memory = own.memory_mib.map(|total| Usage { total: total.saturating_mul(1 << 20), used: 0 });
        node.partitions.clone_from(&own.partitions);
        node.features.clone_from(&own.features);
        nodes.push(node);
    }
    let known = snapshot.partitions.iter().map(|own| Partition {
        name: own.name.clone(),
        default: own.default,
        max_time: own.max_time_s,
    });
    Cluster { nodes, partitions: known.collect(), ..Cluster::default() }
}

fn option(
    context: &Context,
    job: &Job,
    shape: &Shape,
    (partition, name, account): (Option<&QueuePartition>, Option<&str>, Option<&str>),
) -> JobRequest {
    let defaults = &context.settings.jobs;
    let needs = defaults.rank_needs(job);
    let ranks = u64::from(shape.per_node);
    let memory = Bytes(needs.memory).whole_mebibytes() * ranks;
    let asks = Asks {
        nodes: shape.nodes,
        gpus: vec![GpuAsk { gpu_type: Some(shape.gpu_type.clone()), count: shape.per_node }],
        cpus: (needs.cpus > 0).then_some(needs.cpus * ranks),
        memory_mib: (memory > 0).then_some(memory),
        ..Asks::default()
    };
    let terms = Terms {
        account: account.map(str::to_owned),
        partition: name.map(str::to_owned),
        longest: partition.and_then(|own| own.max_time_s),
        basis: shape.basis,
        at_least: None,
    };
    let walltime = terms.walltime(job, shape.run, defaults);
    let limit = walltime.limit();
    let piece = if walltime.pieces > 1 { walltime.trains } else { limit };
    let request = Request {
        id: RequestId::default(),
        asks,
        partition: terms.partition.clone(),
        account: terms.account.clone(),
        limit,
        run: Seconds(shape.run.0.min(piece.0)),
    };
    let restart = job.launch.checkpoint.restart_cost.map_or(0.0, |cost| cost.0);
    let run = Seconds(shape.run.0 + f64::from(walltime.further_pieces()) * restart);
    let cost = cost(&request, &shape.gpu_type, partition, run);
    JobRequest {
        gpu_type: shape.gpu_type.clone(),
        gpus: shape.nodes * shape.per_node,
        run,
        walltime,
        cost,
        preemptible: partition.is_some_and(|own| own.preemptible),
        request,
        terms,
    }
}

/// Returns what a run costs: what the partition bills, else reference GPU units where the type has them.
fn cost(
    request: &Request,
    gpu_type: &GpuType,
    partition: Option<&QueuePartition>,
    run: Seconds,
) -> Option<Cost> {
    let (asks, nodes) = (&request.asks, f64::from(request.asks.nodes));
    let gpus: f64 = asks.gpus.iter().map(|ask| f64::from(ask.count)).sum::<f64>() * nodes;
    if let Some(billing) = partition.and_then(|own| own.billing.as_ref()) {
        #[expect(clippy::cast_precision_loss, reason = "CPUs and MiB of a node")]
        let amount = |own: Option<u64>| own.unwrap_or(0) as f64 * nodes;
        let weight = |name: &str| billing.weights.get(name).copied();
        let gpu = weight(&format!("gres/gpu:{gpu_type}")).or_else(|| weight("gres/gpu")).unwrap_or(0.0);
        let parts = [
            gpu * gpus,
            weight("cpu").unwrap_or(0.0) * amount(asks.cpus),
            weight("mem").unwrap_or(0.0) * amount(asks.memory_mib) / 1024.0,
        ];
        let billed = match billing.weigh {
            Weigh::Sum => parts.iter().sum(),
            Weigh::Max => parts.into_iter().fold(0.0, f64::max),
        };
        return Some(Cost { hours: billed * run.0 / 3600.0, unit: Unit::Billing });
    }
    let known = recognise(gpu_type.as_str()).filter(|known| known.slice.is_none())?;
    // Products of one model may differ: the dearest is not too little.
    let units = known.gpus.iter().filter_map(|gpu| gpu.rgu).max_by(f64::total_cmp)?;
    Some(Cost { hours: units * gpus * run.0 / 3600.0, unit: Unit::Rgu })
}

/// Leaves out requests until few enough are left: first those for odd numbers of GPUs, then the longest.
fn thin(mut list: Vec<JobRequest>) -> Vec<JobRequest> {
    let is_odd = |own: &JobRequest| !own.gpus.is_power_of_two();
    list.sort_by(|a, b| is_odd(a).cmp(&is_odd(b)).then(a.run.0.total_cmp(&b.run.0)));
    list.truncate(MOST);
    list
}
