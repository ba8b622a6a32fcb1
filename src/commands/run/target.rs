//! Where jobs run: on this machine, or in the surrounding allocation.

use crate::app::context::Context;
use crate::app::slurm::{self, AllocatedDevices};
use crate::settings::{Feature, own_slurm_job, own_slurm_job_facts, own_slurm_restarts};
use hsched_engine::pool::MemberId;
use hsched_engine::render::Launcher;
use hsched_local::probe::{self, Facts};
use hsched_local::{DeviceCount, Devices};
use hsched_model::catalogue::recognise;
use hsched_model::{ErrorId, GpuType, JobId, Time};
use hsched_ui::{Exit, Failure};

/// The devices for jobs, and how ranks are started on them.
#[derive(Clone, Debug)]
pub(super) struct ExecutionTarget {
    pub devices: Devices,
    pub launcher: Launcher,
    /// Threads of a rank if its job sets none; `None` leaves the choice to the program.
    pub threads: Option<u64>,
    /// End of the allocation.
    pub end: Option<Time>,
    /// The Slurm job of these nodes. If set, other machines may write reports and deferred commands, and the
    /// operating system does not notify hsched of their changes.
    pub job: Option<JobId>,
    /// The pool member that this process is.
    pub member: Option<MemberId>,
}

impl ExecutionTarget {
    /// Returns the devices of `counts`, else those of the surrounding Slurm job, else those of this machine,
    /// each with this many slots. The devices of `counts` are real GPUs if there are enough of these types,
    /// otherwise simulated ones.
    ///
    /// # Errors
    /// If there are no devices, or Slurm does not answer.
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
        let with_slots = |count: &DeviceCount| DeviceCount { slots: count.slots.max(slots), ..count.clone() };
        let counts: Vec<DeviceCount> = counts.iter().map(with_slots).collect();
        let Some(there) = Self::gpus_at_hand(context, &counts) else {
            return Self::machine(context, Some(&counts));
        };
        if let Some(devices) = there.devices.chosen(&counts) {
            return Ok(Self { devices, ..there });
        }
        let types: Vec<String> = there.devices.gpu_types().iter().map(ToString::to_string).collect();
        context.note(&format!(
            "the GPUs here ({}) are not those of --devices: programs see no GPU",
            types.join(", ")
        ));
        Self::machine(context, Some(&counts))
    }

    /// Returns the GPUs of the surrounding Slurm job, else those of this machine, if there are any and
    /// `counts` asks for GPUs.
    fn gpus_at_hand(context: &Context, counts: &[DeviceCount]) -> Option<Self> {
        if counts.iter().all(|count| count.gpu_type.as_str() == "cpu") {
            return None;
        }
        match own_slurm_job() {
            Some(job) => Self::allocation(context, JobId(job)).ok(),
            None if Devices::found(&probe::look()).count() == 0 => None,
            None => Self::machine(context, None).ok(),
        }
    }

    /// Returns the devices as those of a member of a pool; `counts` has the same meaning as in
    /// [`Self::find`].
    ///
    /// # Errors
    /// If this is not a Slurm job, or there are no devices.
    pub(super) fn of_member(context: &Context, counts: Option<&[DeviceCount]>) -> Result<Self, Failure> {
        let Some(job) = own_slurm_job() else {
            let message = "this state directory belongs to a pool of Slurm jobs, and this is none";
            return Err(Failure::new(Exit::BadInput, message).hint(
                "for another allocation, submit one of the scripts in its folder runs; to add jobs, use hsched add",
            ));
        };
        let target = Self::find(context, counts, 1)?;
        let member = MemberId::new(JobId(job), own_slurm_restarts());
        let end = match target.end {
            Some(end) => Some(end),
            None => slurm::devices_of(context, JobId(job)).ok().and_then(|allocated| allocated.end),
        };
        let devices = target.devices.of_member(&member);
        let cpus = own_slurm_job_facts().cpus.filter(|_| counts.is_some());
        let threads = cpus.map(|cpus| (cpus / devices.count() as u64).max(1)).or(target.threads);
        Ok(Self { devices, threads, end, job: Some(JobId(job)), member: Some(member), ..target })
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
                .id(ErrorId::NoGpu)
                .hint("to run on its CPUs: --devices cpu:4 (at most 4 ranks at a time)"));
        }
        let unknown =
            |gpu_type: &&GpuType| gpu_type.as_str() != "cpu" && recognise(gpu_type.as_str()).is_none();
        for gpu_type in counts.is_some().then(|| devices.gpu_types()).iter().flatten().filter(unknown) {
            context
                .note(&format!("{gpu_type}: hsched does not know this GPU type and uses it only as a name"));
        }
        let threads = (facts.cpus > 0).then(|| (facts.cpus / devices.count() as u64).max(1));
        Ok(Self { devices, launcher: Launcher::Local, threads, end: None, job: None, member: None })
    }

    fn allocation(context: &Context, job: JobId) -> Result<Self, Failure> {
        context.refuse_forbidden(Feature::Together)?;
        let AllocatedDevices { devices, end } = match slurm::devices_of(context, job) {
            Ok(allocated) => allocated,
            Err(failure) => return Self::unanswered(context, failure),
        };
        if devices.count() == 0 {
            let message = format!("the current Slurm job {job} has no GPUs");
            return Err(Failure::new(Exit::Failed, message)
                .id(ErrorId::NoGpu)
                .hint("request GPUs with --gres, or define devices with --devices cpu:4"));
        }
        Ok(Self { devices, launcher: Launcher::Steps, threads: None, end, job: Some(job), member: None })
    }

    /// Returns the GPUs of this machine for a job with one node if Slurm does not answer. Ranks are then
    /// processes, as job steps need an answer of Slurm.
    fn unanswered(context: &Context, failure: Failure) -> Result<Self, Failure> {
        let job_facts = own_slurm_job_facts();
        if job_facts.nodes != Some(1) {
            return Err(failure.hint("in a job on one node, hsched run does not need Slurm's answer"));
        }
        let facts = probe::look();
        let devices =
            Devices::visible(&Facts { cpus: job_facts.cpus.unwrap_or(facts.cpus), ..facts }, &job_facts.gpus);
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
        Ok(Self {
            devices,
            launcher: Launcher::Local,
            threads: None,
            end: job_facts.end.map(Time),
            job: None,
            member: None,
        })
    }

    /// Returns the maximum number of CPUs of a rank whose job sets none: CPUs per device on the node with the
    /// lowest ratio.
    pub(super) fn fair_cpus(&self) -> Option<u32> {
        let shares = self.devices.cluster().nodes;
        let shares = shares.iter().filter(|node| node.gpu_total() > 0);
        let shares = shares.filter_map(|node| Some(node.cpus?.total / u64::from(node.gpu_total())));
        shares.min().map(|cpus| u32::try_from(cpus).unwrap_or(u32::MAX).max(1))
    }
}
