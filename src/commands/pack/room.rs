//! Whether a Slurm job of a pool has room for a job, which must run in a single Slurm job.

use crate::commands::pack::gpus::NodeGpus;
use hsched_model::{ByType, Cluster, ErrorId, Estimates, GpuType, Job, formats};
use hsched_plan::throughput::{Cache, SpeedCell, ThroughputMatrix, UnusableType, replica_size};
use hsched_ui::{Exit, Failure};

/// The GPUs of each Slurm job of a pool.
pub(super) struct PoolRoom<'a> {
    pub gpus: &'a NodeGpus,
    pub nodes: u32,
}

/// GPUs of a node that a job can use.
struct NodeOffer {
    /// `None` if they may have any type.
    gpu_type: Option<GpuType>,
    count: u32,
    /// GPUs of each worker: the number of GPUs of a replica, or 1.
    size: u32,
}

impl PoolRoom<'_> {
    /// Refuses a job that can never run here.
    pub(super) fn check(&self, job: &Job) -> Result<(), Failure> {
        let offers = self.offers(job)?;
        let rooms = offers.iter().map(|offer| self.workers(job, offer.count, offer.size));
        let room = rooms.fold(0, u32::saturating_add);
        if room >= job.least_workers() {
            return Ok(());
        }
        let (name, least) = (&job.name, job.least_workers());
        let (message, id, more) = if job.replica.is_none() {
            let usable = if room < self.capacity() { " that it can use" } else { "" };
            let message = format!("{name} needs {least} GPUs, and each Slurm job has {room}{usable}");
            (format!("{message}: a job runs in one of them"), ErrorId::KeysConflict, "--gpus or --nodes")
        } else if room == 0 && !may_spread(job) {
            let (size, count) = (words(&offers, |offer| offer.size), words(&offers, |offer| offer.count));
            let node = format!("a node of each Slurm job has {count}");
            let message = format!("a replica of {name} needs {size} on one node, and {node}");
            (message, ErrorId::Replicas, "--gpus")
        } else {
            let replicas = formats::counted(least as usize, "replica");
            let message = format!("{name} needs {replicas}, and each Slurm job has room for {room}");
            (format!("{message}: a job runs in one of them"), ErrorId::Replicas, "--gpus or --nodes")
        };
        Err(Failure::new(Exit::BadInput, message)
            .id(id)
            .hint(format!("increase {more}, or submit {name} without --pack")))
    }

    /// Returns whether jobs can all run if the GPUs are of this type; `types` are those of the cluster.
    pub(super) fn suits(&self, jobs: &[Job], gpu_type: &GpuType, types: &[GpuType]) -> bool {
        let place = types.iter().position(|known| known == gpu_type);
        let fits = |job: &Job| {
            let size = worker_sizes(job, types).swap_remove(place?).ok()?;
            (self.workers(job, self.gpus.count(), size) >= job.least_workers()).then_some(())
        };
        jobs.iter().all(|job| fits(job).is_some())
    }

    /// Returns a sentence if the cluster does not have the nodes of a Slurm job; `None` also without known nodes.
    pub(super) fn lack(&self, cluster: &Cluster) -> Option<String> {
        let gres = self.gpus.gres(None)?;
        let count = cluster.nodes.iter().filter(|node| self.gpus.are_in(node)).count();
        let is_lacking = count < self.nodes as usize && !cluster.nodes.is_empty();
        let (needed, there) =
            (formats::counted(self.nodes as usize, "node"), formats::counted(count, "such node"));
        is_lacking.then(|| {
            format!("a Slurm job of {needed} with {gres} each cannot start: the cluster has {there}")
        })
    }

    /// Returns how many workers of a job fit if each node has this many GPUs for the job and each worker
    /// needs `size` of them.
    fn workers(&self, job: &Job, count: u32, size: u32) -> u32 {
        if may_spread(job) {
            count.saturating_mul(self.nodes) / size
        } else {
            (count / size).saturating_mul(self.nodes)
        }
    }

    /// Returns the number of GPUs of a Slurm job, without regard to slots; for `cpu:N`, the number of
    /// concurrent runs.
    pub(super) fn capacity(&self) -> u32 {
        self.gpus.count().saturating_mul(self.nodes)
    }

    /// Returns the GPUs of a node that a job can use.
    ///
    /// # Errors
    /// If it can use none of their types.
    fn offers(&self, job: &Job) -> Result<Vec<NodeOffer>, Failure> {
        let Some(counts) = self.gpus.by_type() else {
            let size = least_size(job);
            return Ok(vec![NodeOffer { gpu_type: None, count: self.gpus.count(), size }]);
        };
        let types: Vec<GpuType> = counts.iter().map(|(gpu_type, _)| gpu_type.clone()).collect();
        let (mut offers, mut reasons) = (Vec::new(), Vec::new());
        for ((gpu_type, count), size) in counts.into_iter().zip(worker_sizes(job, &types)) {
            match size {
                Ok(size) => offers.push(NodeOffer { gpu_type: Some(gpu_type), count, size }),
                Err(why) => reasons.push(format!("{gpu_type}: {why}")),
            }
        }
        if !offers.is_empty() {
            return Ok(offers);
        }
        let (name, why) = (&job.name, reasons.join("; "));
        let id = if job.replica.is_some() { ErrorId::Replicas } else { ErrorId::KeysConflict };
        Err(Failure::new(Exit::BadInput, format!("{name} can run on no GPU of a Slurm job ({why})"))
            .id(id)
            .hint(format!("give --gpus a type that it can use, or submit {name} without --pack")))
    }
}

/// Returns whether the GPUs of a replica may be on several nodes.
fn may_spread(job: &Job) -> bool {
    job.replica.as_ref().is_some_and(|replica| !replica.same_node)
}

/// Returns the GPUs of a worker on the type that needs the fewest, of those that a job can use.
fn least_size(job: &Job) -> u32 {
    match job.replica.as_ref().map(|replica| &replica.gpus) {
        None => 1,
        Some(ByType::All(size)) => *size,
        Some(ByType::Each(sizes)) => {
            let types: Vec<GpuType> = sizes.keys().cloned().collect();
            let usable = worker_sizes(job, &types).into_iter().flatten().min();
            usable.or_else(|| sizes.values().copied().min()).unwrap_or(1)
        }
    }
}

/// Returns the GPUs of each worker of a job on each type, or why it cannot use the type. Speeds do not
/// matter, because `hsched run` assumes those that it does not know.
fn worker_sizes(job: &Job, types: &[GpuType]) -> Vec<Result<u32, UnusableType>> {
    let matrix = ThroughputMatrix::new(&[job], types, &Cache::default(), Estimates::Off);
    let size = |(gpu_type, cell): (&GpuType, &SpeedCell)| match cell {
        SpeedCell::Unusable(why) if *why != UnusableType::NoThroughput => Err(*why),
        _ => {
            let size = job.replica.as_ref().and_then(|replica| replica_size(&replica.gpus, gpu_type, types));
            Ok(size.unwrap_or(1))
        }
    };
    types.iter().zip(matrix.row(0)).map(size).collect()
}

/// Returns a number of each offer with its type: `4 v100 or 8 t4`.
fn words(offers: &[NodeOffer], number: impl Fn(&NodeOffer) -> u32) -> String {
    let one = |offer: &NodeOffer| match &offer.gpu_type {
        Some(gpu_type) => format!("{} {gpu_type}", number(offer)),
        None => formats::counted(number(offer) as usize, "GPU"),
    };
    offers.iter().map(one).collect::<Vec<_>>().join(" or ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slurm_job_that_no_nodes_can_hold_is_named() {
        let text = "nodes: [{name: 'a[1-2]', gpus: {v100: 5}}, {name: b, gpus: {v100: 1, t4: 4}}]";
        let cluster = formats::cluster::parse(text).expect("a cluster");
        let check = |gpus: &str, nodes: u32, expected: Option<&str>| {
            let gpus = NodeGpus::parse(gpus).expect("GPUs");
            assert_eq!(PoolRoom { gpus: &gpus, nodes }.lack(&cluster).as_deref(), expected, "{gpus:?}");
            assert_eq!(PoolRoom { gpus: &gpus, nodes }.lack(&Cluster::default()), None);
        };
        check("v100:5", 2, None);
        check("v100:1,t4:4", 1, None);
        check("5", 3, None);
        check("cpu:100", 1, None);
        let of = "a Slurm job of 1 node with gpu:v100:200 each cannot start: the cluster has 0 such nodes";
        check("v100:200", 1, Some(of));
        let of = "a Slurm job of 3 nodes with gpu:v100:5 each cannot start: the cluster has 2 such nodes";
        check("v100:5", 3, Some(of));
    }

    #[test]
    fn a_type_suits_if_the_fewest_workers_of_each_job_fit() {
        let types = ["a100", "t4"].map(|name| GpuType::new(name).expect("a type"));
        let suited = |nodes: u32, more: &str| {
            let text = format!(
                "jobs: [{{name: a, samples_per_epoch: 100, epochs: 1, global_batch: 8, model_size: 0, \
                 throughput: {{a100: 1, t4: 1}}, replica: {{gpus: {{a100: 4, t4: 2}}{more}}}, min_replicas: 2, \
                 command: x}}]"
            );
            let jobs = formats::jobs::parse(&text).expect("a job");
            let gpus = NodeGpus::Any(4);
            let room = PoolRoom { gpus: &gpus, nodes };
            types.each_ref().map(|gpu_type| room.suits(&jobs, gpu_type, &types))
        };
        assert_eq!(suited(1, ""), [false, true]);
        assert_eq!(suited(2, ""), [true, true]);
        assert_eq!(suited(1, ", same_node: false"), [false, true]);
    }
}
