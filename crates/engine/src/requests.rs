//! The possible requests of a job: GPUs with the planner's division of the work, accounts, partitions,
//! limits, costs.

mod cost;

use std::collections::{BTreeMap, BTreeSet};

use self::cost::cost;
use hsched_model::{
    Access, Asks, BitRate, Bytes, Cluster, FurtherOptions, GpuAsk, GpuStock, GpuType, Holdings, Job,
    JobDefaults, Node, Partition, QueueChoice, Request, RequestId, RequestOption, SbatchOptions, Seconds,
    SpeedBasis, Unit, Usage,
};
use hsched_plan::throughput::ThroughputMatrix;
use hsched_plan::{ClusterView, MOST_GPUS, Placement, Problem, options, refusal};
use hsched_queue::{NodeUse, QueueNode, QueuePartition, Snapshot, meets, own_preempted};

/// Maximum number of requests per job.
const MOST: usize = 24;

/// Inputs for listing the requests of a job.
#[derive(Clone, Copy, Debug)]
pub struct Listing<'a> {
    pub job: &'a Job,
    /// Supplies nodes and partitions; pending jobs in it are ignored.
    pub snapshot: &'a Snapshot,
    pub defaults: &'a JobDefaults,
    /// Rates between nodes and within one, if the cluster does not give them.
    pub rates: (BitRate, BitRate),
    /// The maximum number of GPUs of each type that jobs may expect; empty means no limit.
    pub capacity: &'a BTreeMap<GpuType, u32>,
    /// The shortest limit that a request may have, if partitions allow it.
    pub at_least: Option<Seconds>,
    /// The parsed `sbatch` options of the job.
    pub options: &'a SbatchOptions,
}

/// Returns the known speeds of some jobs on some types, or why they cannot be read.
pub type SpeedsOf<'a, E> = &'a dyn Fn(&[Job], &[GpuType]) -> Result<ThroughputMatrix, E>;

/// Information about a job that its file does not contain.
pub struct Knows<'a, E> {
    pub speeds: SpeedsOf<'a, E>,
    /// Whether the job can resume after a time limit.
    pub resumes: &'a dyn Fn() -> bool,
}

/// The requests of a job.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct JobRequests {
    /// At most [`JobRequests::MOST`], each with a unique id, counted from 0.
    pub requests: Vec<RequestOption>,
    /// Number of requests before some were dropped because of the maximum.
    pub possible: usize,
    /// Requests dropped because their limit would end the job before it is done, and it cannot resume.
    pub cut: Vec<RequestOption>,
    /// Why some partition offers no request, if this is the case.
    pub nothing: Option<String>,
}

impl JobRequests {
    /// Maximum number of requests per job.
    pub const MOST: usize = MOST;
}

/// Returns the requests of a job on the cluster of a snapshot, with notes on its speeds, accounts and
/// partitions.
///
/// # Errors
/// If its speeds cannot be read.
pub fn requests<E>(
    listing: &Listing,
    knows: &Knows<'_, E>,
    notes: &mut Vec<String>,
) -> Result<JobRequests, E> {
    let Listing { job, snapshot, .. } = *listing;
    let accounts = listing.accounts();
    let (mut list, mut nothing) = (Vec::new(), None);
    for partition in listing.partitions(notes) {
        let queue_partition =
            snapshot.partitions.iter().find(|candidate| Some(&candidate.name) == partition.as_ref());
        if let Some((qos, name)) = queue_partition.and_then(|partition| listing.refused_qos(partition)) {
            notes.push(format!("{}: QOS {qos} may not use partition {name}", job.name));
            continue;
        }
        let shapes = match listing.shapes(knows, partition.as_deref(), notes)? {
            Ok(shapes) => shapes,
            Err(why) => {
                nothing = nothing.or(Some(why));
                continue;
            }
        };
        for account in &accounts {
            let may = |allowed: &BTreeSet<String>| account.as_ref().is_none_or(|name| allowed.contains(name));
            if queue_partition
                .and_then(|partition| partition.accounts.as_ref())
                .is_some_and(|allowed| !may(allowed))
            {
                let (account, partition) =
                    (account.as_deref().unwrap_or(""), partition.as_deref().unwrap_or(""));
                notes.push(format!("{}: account {account} may not use partition {partition}", job.name));
                continue;
            }
            for shape in &shapes {
                list.push(listing.request(shape, queue_partition, partition.as_deref(), account.as_deref()));
            }
        }
    }
    let is_cut = |option: &RequestOption| !option.walltime.suits(false);
    let mut cut = Vec::new();
    if list.iter().any(is_cut) && !(knows.resumes)() {
        (cut, list) = list.into_iter().partition(is_cut);
    }
    let possible = list.len();
    if possible > MOST {
        list = thin(list);
    }
    for (id, option) in (0..).zip(&mut list) {
        option.request.id = RequestId(id);
    }
    Ok(JobRequests { requests: list, possible, cut, nothing })
}

/// GPUs of one type for a job, with the work divided among them as by the planner.
struct RequestShape {
    gpu_type: GpuType,
    nodes: u32,
    per_node: u32,
    run: Seconds,
    basis: SpeedBasis,
}

impl Listing<'_> {
    /// Returns the accounts that the job may use; `None` is the user's default.
    fn accounts(&self) -> Vec<Option<String>> {
        let launch = &self.job.launch;
        let first = launch.account.as_ref().or(self.defaults.account.as_ref());
        let named: Vec<Option<String>> =
            first.into_iter().chain(&launch.other_accounts).cloned().map(Some).collect();
        if named.is_empty() { vec![None] } else { named }
    }

    /// Returns the QOS of the job's options, the job or the defaults, if one is set.
    fn qos(&self) -> Option<&str> {
        let named = self.options.further.qos.as_ref().or(self.job.launch.qos.as_ref());
        named.or(self.defaults.qos.as_ref()).map(String::as_str)
    }

    /// Returns the job's QOS and the name of a partition if the partition does not accept that QOS.
    fn refused_qos<'a>(&'a self, partition: &'a QueuePartition) -> Option<(&'a str, &'a str)> {
        let (qos, allowed) = self.qos().zip(partition.qos.as_ref())?;
        (!allowed.contains(qos)).then_some((qos, partition.name.as_str()))
    }

    /// Returns the options that no estimate takes into account, including a reservation that is missing from
    /// the snapshot.
    fn not_counted(&self) -> Vec<String> {
        let unknown = self.options.further.reservation.iter().filter(|name| !self.has_reservation(name));
        let unknown = unknown.map(|name| format!("--reservation={name}"));
        self.options.not_counted.iter().cloned().chain(unknown).collect()
    }

    fn has_reservation(&self, name: &str) -> bool {
        self.snapshot.reservations.iter().any(|reservation| reservation.name == name)
    }

    /// Returns whether the job's options allow a node, and the job need not avoid it.
    fn lets_in(&self, node: &QueueNode) -> bool {
        let asks = &self.options.asks;
        let reservation = self.options.further.reservation.as_ref();
        let reserved =
            self.snapshot.reservations.iter().find(|candidate| Some(&candidate.name) == reservation);
        (asks.nodelist.is_empty() || asks.nodelist.contains(&node.name))
            && !asks.exclude.contains(&node.name)
            && !self.job.avoided.contains(&node.name)
            && asks.features.as_deref().is_none_or(|features| meets(features, &node.features))
            && reserved.is_none_or(|reservation| reservation.nodes.contains(&node.name))
    }

    /// Returns the partitions that the job may use; `None` if it names none and the snapshot has no default
    /// partition.
    fn partitions(&self, notes: &mut Vec<String>) -> Vec<Option<String>> {
        let snapshot = self.snapshot;
        let named = self.job.launch.partition.as_ref().or(self.defaults.partition.as_ref());
        let Some(names) = named else {
            let usual = snapshot.partitions.iter().find(|partition| partition.default);
            return vec![usual.map(|partition| partition.name.clone())];
        };
        let is_known = |name: &&str| {
            let in_nodes = || snapshot.nodes.iter().any(|node| node.partitions.contains(*name));
            snapshot.partitions.iter().any(|partition| partition.name == **name) || in_nodes()
        };
        let (known, unknown): (Vec<&str>, Vec<&str>) = names.split(',').map(str::trim).partition(is_known);
        for name in unknown {
            notes.push(format!("{}: this cluster has no partition {name}", self.job.name));
        }
        known.into_iter().map(|name| Some(name.to_owned())).collect()
    }

    /// Returns the GPUs that the job could use in a partition, or why there are none. For one type, it lists
    /// only GPU counts that make the job faster than fewer GPUs do.
    fn shapes<E>(
        &self,
        knows: &Knows<'_, E>,
        partition: Option<&str>,
        notes: &mut Vec<String>,
    ) -> Result<Result<Vec<RequestShape>, String>, E> {
        let mut cluster = cluster(self.snapshot, partition);
        let of = partition.map_or(String::new(), |name| format!(" of partition {name}"));
        if cluster.nodes.is_empty() {
            return Ok(Err(format!("no node{of} accepts new jobs")));
        }
        let refused = self.snapshot.nodes.iter().filter(|node| !self.lets_in(node));
        let refused: BTreeSet<_> = refused.map(|node| &node.name).collect();
        cluster.nodes.retain(|node| !refused.contains(&node.name));
        if cluster.nodes.is_empty() {
            return Ok(Err(format!("the options for sbatch allow no node{of}")));
        }
        let mut job = self.job.clone();
        job.launch.partition = partition.map(str::to_owned);
        let jobs = [job];
        let matrix = (knows.speeds)(&jobs, &Problem::types_of(&cluster))?;
        let access = Access::new(&cluster, &jobs, self.defaults);
        let held = Holdings::new();
        let cluster_view = ClusterView { cluster: &cluster, access: &access, held: &held, rates: self.rates };
        let problem = match Problem::live(cluster_view, &jobs, &matrix) {
            Ok(problem) => problem,
            Err(error) => return Ok(Err(error.to_string())),
        };
        let most_nodes =
            self.snapshot.partitions.iter().find(|candidate| Some(candidate.name.as_str()) == partition);
        let most_nodes = most_nodes.and_then(|partition| partition.max_nodes).unwrap_or(u32::MAX);
        let list = self.of_problem(&problem, most_nodes, self.capacity);
        if list.is_empty() {
            let why = jobs[0].none_here(&problem.gpu_types).or_else(|| refusal(&problem, 0));
            let why = why.or_else(|| self.limits_in_the_way(&problem, partition, most_nodes));
            let otherwise = || "none of its requests fits on the nodes that are up".to_owned();
            return Ok(Err(why.unwrap_or_else(otherwise)));
        }
        for note in problem.jobs[0].notes(&problem) {
            let note = format!("{}: {note}", jobs[0].name);
            // Several partitions may give the same note.
            if !notes.contains(&note) {
                notes.push(note);
            }
        }
        Ok(Ok(list))
    }

    /// Returns which of the limits `capacity` and `MaxNodes` leave no request, if there are requests without them.
    fn limits_in_the_way(
        &self,
        problem: &Problem,
        partition: Option<&str>,
        most_nodes: u32,
    ) -> Option<String> {
        let no_capacity = BTreeMap::new();
        let is_possible = |nodes: u32, capacity| !self.of_problem(problem, nodes, capacity).is_empty();
        let needs_more =
            || "the setting capacity allows fewer GPUs than each of its requests needs".to_owned();
        let needs_nodes = || {
            let (s, of) = (if most_nodes == 1 { "" } else { "s" }, partition.unwrap_or_default());
            format!(
                "each of its requests needs more than {most_nodes} node{s}, the maximum of partition {of} (MaxNodes)"
            )
        };
        match () {
            () if is_possible(most_nodes, &no_capacity) => Some(needs_more()),
            () if is_possible(u32::MAX, self.capacity) => Some(needs_nodes()),
            () if is_possible(u32::MAX, &no_capacity) => Some(format!("{}; {}", needs_more(), needs_nodes())),
            () => None,
        }
    }

    /// Returns the shapes of all types within limits, from a problem with this job alone.
    fn of_problem(
        &self,
        problem: &Problem,
        most_nodes: u32,
        capacity: &BTreeMap<GpuType, u32>,
    ) -> Vec<RequestShape> {
        let mut list = Vec::new();
        for (number, gpu_type) in problem.gpu_types.iter().enumerate() {
            // A request beyond the setting `capacity` would wait too long.
            let expected = capacity.get(gpu_type).copied().unwrap_or(u32::MAX);
            let size = problem.jobs[0].size(number);
            let most = match self.job.most_workers() {
                Some(most) => most.saturating_mul(size),
                None => MOST_GPUS.max(self.job.least_workers().saturating_mul(size)),
            };
            let most = most.min(expected);
            let shape = |placement: Placement| {
                let (nodes, gpus) = (placement.slots.len(), placement.ranks.len());
                let count = |to_u32: usize| u32::try_from(to_u32).unwrap_or(u32::MAX);
                RequestShape {
                    gpu_type: gpu_type.clone(),
                    nodes: count(nodes),
                    per_node: count(gpus / nodes.max(1)),
                    run: placement.jct(self.job.epochs),
                    basis: problem.jobs[0].basis(number),
                }
            };
            list.extend(options(problem, 0, number, (most, most_nodes)).into_iter().map(shape));
        }
        list
    }

    /// Returns a request for a shape in a partition under an account.
    fn request(
        &self,
        shape: &RequestShape,
        partition: Option<&QueuePartition>,
        name: Option<&str>,
        account: Option<&str>,
    ) -> RequestOption {
        let Listing { job, defaults, options: SbatchOptions { further, .. }, .. } = *self;
        let needs = defaults.rank_needs(job);
        let ranks = u64::from(shape.per_node);
        let memory = Bytes(needs.memory).whole_mebibytes() * ranks;
        let asks = Asks {
            nodes: shape.nodes,
            gpus: vec![GpuAsk { gpu_type: Some(shape.gpu_type.clone()), count: shape.per_node }],
            cpus: (needs.cpus > 0).then_some(needs.cpus * ranks),
            memory_mib: (memory > 0).then_some(memory),
            exclude: self.options.asks.exclude.union(&job.avoided).cloned().collect(),
            ..self.options.asks.clone()
        };
        let queue_choice = QueueChoice {
            account: account.map(str::to_owned),
            partition: name.map(str::to_owned),
            longest: partition.and_then(|partition| partition.max_time_s),
            basis: shape.basis,
            at_least: self.at_least,
            billed_per_hour: None,
        };
        let walltime = queue_choice.walltime(job, shape.run, defaults);
        let limit = walltime.limit();
        let piece = if walltime.pieces > 1 { walltime.trains } else { limit };
        let request = Request {
            id: RequestId::default(),
            asks,
            partition: queue_choice.partition.clone(),
            account: queue_choice.account.clone(),
            limit,
            run: Seconds(shape.run.0.min(piece.0)),
            further: FurtherOptions {
                qos: self.qos().map(str::to_owned),
                reservation: further.reservation.clone().filter(|name| self.has_reservation(name)),
                ..further.clone()
            },
        };
        let restart = job.launch.checkpoint.restart_cost.map_or(0.0, |cost| cost.0);
        let run = Seconds(shape.run.0 + f64::from(walltime.further_pieces()) * restart);
        let cost = cost(&request, &shape.gpu_type, partition, run);
        let billed = cost.filter(|cost| cost.unit == Unit::Billing && run.0 > 0.0);
        let billed_per_hour = billed.map(|cost| cost.hours * 3600.0 / run.0);
        RequestOption {
            gpu_type: shape.gpu_type.clone(),
            gpus: shape.nodes * shape.per_node,
            in_one: shape.run,
            run,
            walltime,
            cost,
            preemptible: partition.is_some_and(|partition| partition.preemptible)
                || !self.snapshot.preempting_qos(self.snapshot.qos_of(&request)).is_empty(),
            preempts: own_preempted(self.snapshot, &request).iter().map(|job| job.id.clone()).collect(),
            not_counted: self.not_counted(),
            request,
            queue_choice: QueueChoice { billed_per_hour, ..queue_choice },
        }
    }
}

/// Returns the nodes of a partition that accept new jobs, all counted as idle.
fn cluster(snapshot: &Snapshot, partition: Option<&str>) -> Cluster {
    let mut nodes = Vec::new();
    for queue_node in &snapshot.nodes {
        let is_in = partition.is_none_or(|name| queue_node.partitions.contains(name));
        if queue_node.usable != NodeUse::Up || !is_in {
            continue;
        }
        let mut node = Node::new(queue_node.name.clone());
        let mut stocks: BTreeMap<&GpuType, u32> = BTreeMap::new();
        for stock in &queue_node.gpus {
            *stocks.entry(&stock.gpu_type).or_default() += stock.count;
        }
        let stock = |(gpu_type, total): (&GpuType, u32)| GpuStock {
            gpu_type: gpu_type.clone(),
            total,
            used: 0,
            memory: None,
        };
        node.gpus = stocks.into_iter().map(stock).collect();
        node.cpus = queue_node.cpus.map(|total| Usage { total, used: 0 });
        node.memory =
            queue_node.memory_mib.map(|total| Usage { total: total.saturating_mul(1 << 20), used: 0 });
        node.partitions.clone_from(&queue_node.partitions);
        node.features.clone_from(&queue_node.features);
        nodes.push(node);
    }
    let known = snapshot.partitions.iter().map(|partition| Partition {
        name: partition.name.clone(),
        default: partition.default,
        max_time: partition.max_time_s,
    });
    Cluster { nodes, partitions: known.collect(), ..Cluster::default() }
}

/// Drops requests until few enough remain: first those whose GPU count is no power of two, then the longest.
fn thin(mut list: Vec<RequestOption>) -> Vec<RequestOption> {
    let is_odd = |option: &RequestOption| !option.gpus.is_power_of_two();
    list.sort_by(|a, b| is_odd(a).cmp(&is_odd(b)).then(a.run.0.total_cmp(&b.run.0)));
    list.truncate(MOST);
    list
}
