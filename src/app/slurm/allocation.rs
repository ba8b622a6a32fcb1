//! The allocation in which hsched runs, and those of the members of its pool.

use std::path::{Path, PathBuf};

use crate::app::context::Context;
use hsched_engine::pool::MemberId;
use hsched_engine::store::StateError;
use hsched_local::{Device, Devices, OtherMembers};
use hsched_model::{ErrorId, GpuType, JobId, Node, NodeName, Time, Usage};
use hsched_slurm::allocation::{self, AllocatedNode};
use hsched_slurm::{
    CommandError, CommandOutput, RequestError, Runner as _, pool_jobs, sbatch, scancel, scontrol_job,
};
use hsched_ui::{Exit, Failure};

/// The devices of an allocation, and its end.
pub(crate) struct AllocatedDevices {
    pub devices: Devices,
    /// `None` if it has no time limit.
    pub end: Option<Time>,
}

/// An allocation of a pool in the queue.
pub(crate) struct PoolAllocation {
    pub job: JobId,
    pub is_pending: bool,
    /// The submitted script.
    pub script: PathBuf,
}

/// Returns the devices of an allocation.
///
/// # Errors
/// If Slurm does not answer.
pub(crate) fn devices_of(context: &Context, job: JobId) -> Result<AllocatedDevices, Failure> {
    let allocation = allocation::parse(&context.slurm.ask(&allocation::command(job))?, job);
    let devices = Devices::new(allocation.nodes.iter().filter_map(node).collect());
    Ok(AllocatedDevices { devices, end: allocation.end.map(Time) })
}

/// Returns a node of an allocation; programs address its devices by index.
fn node(allocated_node: &AllocatedNode) -> Option<(Node, Vec<Device>)> {
    let mut node = Node::new(NodeName::new(&allocated_node.name).ok()?);
    node.cpus = allocated_node.cpus.map(|total| Usage { total, used: 0 });
    node.memory = allocated_node.memory.map(|memory| Usage { total: memory.0, used: 0 });
    let device = |(place, gpu_type): (usize, &GpuType)| Device {
        gpu_type: gpu_type.clone(),
        name: place.to_string(),
        memory: None,
    };
    Some((node, allocated_node.devices.iter().enumerate().map(device).collect()))
}

/// Returns the remaining nodes of an allocation.
///
/// # Errors
/// If Slurm does not answer.
pub(crate) fn allocated_nodes(context: &Context, job: JobId) -> Result<Vec<NodeName>, Failure> {
    let nodes = allocation::parse(&context.slurm.ask(&allocation::command(job))?, job).nodes;
    Ok(nodes.iter().filter_map(|node| NodeName::new(&node.name).ok()).collect())
}

/// Returns when an allocation ends; `None` if it has no time limit, or Slurm does not answer at once.
pub(crate) fn allocation_end(context: &Context, job: JobId) -> Option<Time> {
    let output = context.slurm.run(&allocation::command(job)).ok()?;
    allocation::parse(&output.stdout, job).end.map(Time)
}

/// Returns whether the allocation of a pool member is over, so that no process remains; `None` if Slurm does
/// not answer.
pub(crate) fn is_over(context: &Context, member: &MemberId) -> Option<bool> {
    says_over(member, context.slurm.read(&scontrol_job::command(member.job())))
}

fn says_over(member: &MemberId, answer: Result<CommandOutput, CommandError>) -> Option<bool> {
    match answer {
        Ok(output) => Some(scontrol_job::is_over(&output.stdout, member.job(), member.restarts())),
        Err(error) if scontrol_job::is_unknown(&error) => Some(true),
        Err(_) => None,
    }
}

/// Records which members of a pool are over, according to Slurm.
///
/// # Errors
/// If a file of the pool cannot be read or written.
pub(crate) fn mark_dead(context: &Context, root: &Path) -> Result<(), StateError> {
    let Some(mut others) = OtherMembers::find(root)? else { return Ok(()) };
    for member in others.members()? {
        if is_over(context, &member) == Some(true) {
            others.mark_over(&member)?;
        }
    }
    Ok(())
}

/// Records which members of a pool are over, for the member `leader` that is about to leave: asks Slurm once
/// for each other member, and stops after the first failure.
///
/// # Errors
/// If a file of the pool cannot be read or written.
pub(crate) fn mark_dead_soon(
    context: &Context,
    others: &mut OtherMembers,
    leader: &MemberId,
) -> Result<(), StateError> {
    for member in others.members()?.iter().filter(|member| *member != leader) {
        match says_over(member, context.slurm.run(&scontrol_job::command(member.job()))) {
            Some(true) => others.mark_over(member)?,
            Some(false) => {}
            None => break,
        }
    }
    Ok(())
}

/// Returns the allocations of these scripts in the user's queue; `None` if Slurm does not answer, or does not list the
/// running Slurm job `own` of this process, so that the list cannot be complete.
pub(crate) fn pool_allocations(
    context: &Context,
    scripts: &[PathBuf],
    own: Option<JobId>,
) -> Option<Vec<PoolAllocation>> {
    let printed = context.slurm.ask(&pool_jobs::command()).ok()?;
    if own.is_some_and(|own| !pool_jobs::has(&printed, own)) {
        return None;
    }
    let jobs = pool_jobs::parse(&printed, scripts).into_iter();
    let allocation = |job: pool_jobs::PoolJob| PoolAllocation {
        job: job.id,
        is_pending: job.state.is_pending(),
        script: job.script.into(),
    };
    Some(jobs.map(allocation).collect())
}

/// Cancels a job of this name unless it has started; returns whether Slurm accepted the request.
pub(crate) fn cancel_pending(context: &Context, name: &str, job: JobId) -> bool {
    scancel::send(&context.slurm, &scancel::cancel_pending(name, job)).is_ok()
}

/// Why a script was not submitted.
pub(crate) struct NotSubmitted {
    pub failure: Failure,
    /// Whether Slurm may have received the submission nevertheless.
    pub is_unclear: bool,
}

impl NotSubmitted {
    pub(super) fn of(error: &RequestError) -> Self {
        let failure = Failure::from_error(Exit::Failed, error).id(ErrorId::SlurmRefused);
        Self { failure, is_unclear: matches!(error, RequestError::Unclear { .. }) }
    }
}

impl From<NotSubmitted> for Failure {
    fn from(refused: NotSubmitted) -> Self {
        refused.failure
    }
}

/// Submits a script with sbatch options; returns the job id.
///
/// # Errors
/// If Slurm refuses it or does not answer.
pub(crate) fn submit(context: &Context, script: &Path, options: &[String]) -> Result<JobId, NotSubmitted> {
    let command = sbatch::command(&script.display().to_string(), options);
    let submitted = sbatch::submit(&context.slurm, &command);
    submitted.map(|submitted| submitted.id).map_err(|error| NotSubmitted::of(&error))
}
