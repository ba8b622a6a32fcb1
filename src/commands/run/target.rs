//! Where jobs run: this machine, or the allocation that hsched runs in.

use crate::app::context::Context;
use crate::error::Failure;
use crate::exit::Exit;
use crate::local::{Device, DeviceCount, Devices};
use crate::probe::{self, Facts};
use crate::settings::{Feature, own_slurm_job, own_slurm_job_facts};
use hsched_engine::render::Launcher;
use hsched_model::catalogue::recognise;
use hsched_model::{GpuType, JobId, Node, NodeName, Time, Usage};
use hsched_slurm::allocation::{self, AllocatedNode};

/// The devices for jobs, and how ranks are started on them.
#[derive(Clone, Debug)]
pub(super) struct ExecutionTarget {
    pub devices: Devices,
    pub launcher: Launcher,
    /// How many threads a rank may use where its job does not say; `None` leaves it to the program.
    pub threads: Option<u64>,
    /// When the allocation ends.
    pub end: Option<Time>,
    /// The Slurm job whose nodes these are. Other machines write reports and deferred commands then: of files that those change the
    /// system tells nothing.
    pub job: Option<JobId>,
}

impl ExecutionTarget {
    /// Returns the devices of `counts`, or else of the Slurm job that this process runs in, or else of this machine, each with so many
    /// slots. Devices with slots are those at hand, where there are such.
    ///
    /// # Errors
    /// When there are none, or Slurm does not answer.
    pub(super) fn find(
        context: &Context,
        counts: Option<&[DeviceCount]>,
        slots: u32,
    ) -> Result<Self, Failure> {
        let Some(counts) = counts else {
            let target = match own_slurm_job() {
                Some(job) => Self::allocation(context, JobId(job))?,
                None => Self::machine(context, None)?,
            };
            return Ok(Self { devices: target.devices.sliced(|_| slots), ..target });
        };
        if counts.iter().any(|count| count.slots > 1) {
            let is_there = || Devices::found(&probe::look()).count() > 0;
            let there = match own_slurm_job() {
                Some(job) => Self::allocation(context, JobId(job)).ok(),
                None => is_there().then(|| Self::machine(context, None)).and_then(Result::ok),
            };
            let chosen = there.and_then(|there| Some((there.devices.chosen(counts)?, there)));
            if let Some((devices, there)) = chosen {
                return Ok(Self { devices, ..there });
            }
        }
        let with_slots = |count: &DeviceCount| DeviceCount { slots: count.slots.max(slots), ..count.clone() };
        let counts: Vec<DeviceCount> = counts.iter().map(with_slots).collect();
        Self::machine(context, Some(&counts))
    }

    fn machine(context: &Context, counts: Option<&[DeviceCount]>) -> Result<Self, Failure> {
        let facts = probe::look();
        let devices = match counts {
            Some(counts) => Devices::imagined_slots(counts, &facts),
            None => Devices::found(&facts),
        };
        if devices.count() == 0 {
            facts.notes.iter().for_each(|note| context.note(note));
            return Err(Failure::new(Exit::Failed, "hsched found no GPU on this machine")
                .hint("to run on its CPUs: --devices cpu:4 (at most 4 ranks at a time)"));
        }
        let unknown =
            |gpu_type: &&GpuType| gpu_type.as_str() != "cpu" && recognise(gpu_type.as_str()).is_none();
        for gpu_type in counts.is_some().then(|| devices.gpu_types()).iter().flatten().filter(unknown) {
            context
                .note(&format!("{gpu_type}: hsched does not know this GPU type and uses it only as a name"));
        }
        let threads = (facts.cpus > 0).then(|| (facts.cpus / devices.count() as u64).max(1));
        Ok(Self { devices, launcher: Launcher::Local, threads, end: None, job: None })
    }

    fn allocation(context: &Context, job: JobId) -> Result<Self, Failure> {
        context.refuse_forbidden(Feature::Together)?;
        let text = match context.ask(&allocation::command(job)) {
            Ok(text) => text,
            Err(failure) => return Self::unanswered(context, failure),
        };
        let allocation = allocation::parse(&text);
        let nodes: Vec<(Node, Vec<Device>)> = allocation.nodes.iter().filter_map(node).collect();
        let devices = Devices::new(nodes);
        if devices.count() == 0 {
            let message = format!("the current Slurm job {job} has no GPUs");
            return Err(Failure::new(Exit::Failed, message)
                .hint("request GPUs with --gres, or define devices with --devices cpu:4"));
        }
        Ok(Self {
            devices,
            launcher: Launcher::Steps,
            threads: None,
            end: allocation.end.map(Time),
            job: Some(job),
        })
    }

    /// Returns the GPUs of this machine for a job of one node of which Slurm tells nothing: ranks are processes then, as steps
    /// need Slurm's answer.
    fn unanswered(context: &Context, failure: Failure) -> Result<Self, Failure> {
        let own = own_slurm_job_facts();
        if own.nodes != Some(1) {
            return Err(failure.hint("in a job on one node, hsched run does not need Slurm's answer"));
        }
        let facts = probe::look();
        let devices = Devices::visible(&Facts { cpus: own.cpus.unwrap_or(facts.cpus), ..facts }, &own.gpus);
        if devices.count() == 0 {
            return Err(
                failure.hint("the variables of this job, such as CUDA_VISIBLE_DEVICES, name no GPUs either")
            );
        }
        context.note(&format!(
            "{}; using the GPUs of this node: {}; ranks run as processes, not as steps",
            failure.message,
            devices.count()
        ));
        Ok(Self { devices, launcher: Launcher::Local, threads: None, end: own.end.map(Time), job: None })
    }

    /// Returns how many CPUs a rank gets at most where its job does not say: as many as there are for each device of the
    /// node with the fewest.
    pub(super) fn fair_cpus(&self) -> Option<u32> {
        let shares = self.devices.cluster().nodes;
        let shares = shares.iter().filter(|node| node.gpu_total() > 0);
        let shares = shares.filter_map(|node| Some(node.cpus?.total / u64::from(node.gpu_total())));
        shares.min().map(|cpus| u32::try_from(cpus).unwrap_or(u32::MAX).max(1))
    }
}

/// Returns a node of an allocation; programs know its devices by their places.
fn node(own: &AllocatedNode) -> Option<(Node, Vec<Device>)> {
    let mut node = Node::new(NodeName::new(&own.name).ok()?);
    node.cpus = own.cpus.map(|total| Usage { total, used: 0 });
    node.memory = own.memory.map(|memory| Usage { total: memory.0, used: 0 });
    let device = |(place, gpu_type): (usize, &GpuType)| Device {
        gpu_type: gpu_type.clone(),
        name: place.to_string(),
        memory: None,
    };
    Some((node, own.devices.iter().enumerate().map(device).collect()))
}
