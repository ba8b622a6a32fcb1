//! Where jobs run: on this machine, or in the surrounding allocation.

use clap::builder::ValueParser;

use crate::app::context::Context;
use crate::app::slurm::{self, AllocatedDevices};
use crate::settings::{Feature, own_slurm_job, own_slurm_job_facts, own_slurm_restarts};
use hsched_engine::pool::MemberId;
use hsched_engine::render::Launcher;
use hsched_local::probe::{self, Facts};
use hsched_local::{DeviceCount, Devices, TooFewDevices};
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

/// The options that choose the devices.
#[derive(Clone, Debug, Default, clap::Args)]
pub(super) struct WantedDevices {
    /// Use these devices, such as a100:2 or cpu:4.
    ///
    /// If the machine or the allocation has GPUs, these must be among them, and no others are used. If it has none, the
    /// devices are simulated: programs see no GPU, and hsched warns. With slots, as in a100:4x3, each device takes three
    /// runs at a time, each on one slot; runs see the GPU of their slot.
    #[arg(long, value_name = "TYPE:COUNT[xSLOTS],…", value_parser = ValueParser::from(DeviceCount::parse))]
    pub devices: Option<DeviceCounts>,
    /// Simulate the devices of --devices, even if there are GPUs: programs see none.
    #[arg(long, requires = "devices")]
    simulated: bool,
}

/// A list of devices. The alias keeps clap from treating the type as a repeatable flag.
type DeviceCounts = Vec<DeviceCount>;

impl WantedDevices {
    /// Returns the options as on a command line, with a space before each.
    pub(super) fn words(&self) -> String {
        let Some(devices) = &self.devices else { return String::new() };
        let devices: Vec<String> = devices.iter().map(ToString::to_string).collect();
        format!(" --devices {}{}", devices.join(","), if self.simulated { " --simulated" } else { "" })
    }
}

/// The hint for devices that are not here.
const SIMULATED: &str = "to simulate the devices, so that programs see no GPU, add --simulated";

impl ExecutionTarget {
    /// Returns the wanted devices, each with at least this many slots, else those of the surrounding Slurm
    /// job, else those of this machine, each with this many slots. The wanted devices are simulated if they
    /// are CPUs, if there is no GPU, or if the user says so.
    ///
    /// # Errors
    /// If there are no devices, there are GPUs but not the wanted ones, or Slurm does not answer.
    pub(super) fn find(context: &Context, wanted: &WantedDevices, slots: u32) -> Result<Self, Failure> {
        let Some(counts) = &wanted.devices else {
            let target = match own_slurm_job() {
                Some(job) => Self::allocation(context, JobId(job))?,
                None => Self::machine(context)?,
            };
            return Ok(Self { devices: target.devices.sliced(slots), ..target });
        };
        let with_slots = |count: &DeviceCount| DeviceCount { slots: count.slots.max(slots), ..count.clone() };
        let counts: Vec<DeviceCount> = counts.iter().map(with_slots).collect();
        let facts = probe::look();
        if wanted.simulated || counts.iter().all(|count| count.gpu_type.as_str() == "cpu") {
            return Ok(Self::simulated(context, &counts, &facts));
        }
        let there = match own_slurm_job() {
            Some(job) => Self::allocated(context, JobId(job)).map_err(|failure| failure.hint(SIMULATED))?,
            None => Self::of_machine(Devices::found(&facts), &facts),
        };
        if there.devices.count() == 0 {
            context.warn(&simulation(&counts, there.job, &facts));
            return Ok(Self::simulated(context, &counts, &facts));
        }
        let devices = there.devices.chosen(&counts).map_err(|error| refusal(&error))?;
        Ok(Self { devices, ..there })
    }

    /// Returns the devices as those of a member of a pool, each GPU with this many slots. Simulated devices are on its
    /// only node.
    ///
    /// # Errors
    /// If this is not a Slurm job, or there are no devices.
    pub(super) fn of_member(context: &Context, wanted: &WantedDevices, slots: u32) -> Result<Self, Failure> {
        let Some(job) = own_slurm_job() else {
            let message = "this state directory belongs to a pool of Slurm jobs, and this is none";
            return Err(Failure::new(Exit::BadInput, message).hint(
                "for another allocation, submit one of the scripts in its folder runs; to add jobs, use hsched add",
            ));
        };
        let target = Self::find(context, wanted, slots)?;
        let member = MemberId::new(JobId(job), own_slurm_restarts());
        let end = match target.end {
            Some(end) => Some(end),
            None => slurm::devices_of(context, JobId(job)).ok().and_then(|allocated| allocated.end),
        };
        let devices = target.devices.of_member(&member);
        let cpus = own_slurm_job_facts().cpus.filter(|_| wanted.devices.is_some());
        let threads = cpus.map(|cpus| (cpus / devices.count() as u64).max(1)).or(target.threads);
        Ok(Self { devices, threads, end, job: Some(JobId(job)), member: Some(member), ..target })
    }

    fn machine(context: &Context) -> Result<Self, Failure> {
        let facts = probe::look();
        let devices = Devices::found(&facts);
        if devices.count() == 0 {
            facts.notes.iter().for_each(|note| context.note(note));
            return Err(Failure::new(Exit::Failed, "hsched found no GPU on this machine")
                .id(ErrorId::NoGpu)
                .hint("to run on its CPUs: --devices cpu:4 (at most 4 ranks at a time)"));
        }
        Ok(Self::of_machine(devices, &facts))
    }

    fn simulated(context: &Context, counts: &[DeviceCount], facts: &Facts) -> Self {
        let devices = Devices::imagined_slots(counts, facts);
        let unknown =
            |gpu_type: &&GpuType| gpu_type.as_str() != "cpu" && recognise(gpu_type.as_str()).is_none();
        for gpu_type in devices.gpu_types().iter().filter(unknown) {
            context
                .note(&format!("{gpu_type}: hsched does not know this GPU type and uses it only as a name"));
        }
        Self::of_machine(devices, facts)
    }

    fn of_machine(devices: Devices, facts: &Facts) -> Self {
        let share = facts.cpus.checked_div(devices.count() as u64).filter(|_| facts.cpus > 0);
        let threads = share.map(|cpus| cpus.max(1));
        Self { devices, launcher: Launcher::Local, threads, end: None, job: None, member: None }
    }

    fn allocation(context: &Context, job: JobId) -> Result<Self, Failure> {
        let target = Self::allocated(context, job)?;
        if target.devices.count() == 0 {
            let message = format!("the current Slurm job {job} has no GPUs");
            return Err(Failure::new(Exit::Failed, message)
                .id(ErrorId::NoGpu)
                .hint("request GPUs with --gres, or define devices with --devices cpu:4"));
        }
        Ok(target)
    }

    /// Returns the devices of a Slurm job, which may have none.
    fn allocated(context: &Context, job: JobId) -> Result<Self, Failure> {
        context.refuse_forbidden(Feature::Together)?;
        let AllocatedDevices { devices, end } = match slurm::devices_of(context, job) {
            Ok(allocated) => allocated,
            Err(failure) => return Self::unanswered(context, failure),
        };
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

/// Returns the warning that simulated devices replace GPUs, as there are none here.
fn simulation(counts: &[DeviceCount], job: Option<JobId>, facts: &Facts) -> String {
    let devices: Vec<String> = counts.iter().map(ToString::to_string).collect();
    let devices = devices.join(",");
    let why = match job {
        Some(job) => format!("the current Slurm job {job} has no GPUs"),
        None if facts.notes.is_empty() => "this machine has no GPU".to_owned(),
        None => facts.notes.join("; "),
    };
    format!("{devices} are simulated devices, and programs see no GPU: {why}")
}

fn refusal(error: &TooFewDevices) -> Failure {
    let present = error.present.join(",");
    Failure::new(Exit::Usage, format!("--devices {error}"))
        .id(ErrorId::DevicesAbsent)
        .hint(format!("to use all of these: --devices {present}"))
        .hint(SIMULATED)
}
