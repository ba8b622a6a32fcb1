//! Slurm as the batch system of commands: its world, its nodes, the user's queue, and direct submissions.
//! `queue_look` reads the snapshot of all jobs, and `permissions` reads the user's rights. Another batch
//! system would need counterparts of these three files, and a crate with its world.

use std::path::Path;

use crate::app::context::Context;
use crate::app::input::{self, ClusterWithNotes};
use crate::app::session::Backend;
use crate::app::state;
use crate::app::watch_estimates::start_estimates;
use hsched_engine::clock::Clock as _;
use hsched_engine::live::LiveError;
use hsched_engine::pool::MemberId;
use hsched_engine::store::{StateDir, StateError};
use hsched_engine::{BackendKind, Inquiry, Observation, State, TaggedJob};
use hsched_local::OtherMembers;
use hsched_model::{Cluster, ErrorId, Holdings, Job, JobId, NodeName, Time};
use hsched_slurm::live::SlurmWorld;
use hsched_slurm::{
    CommandError, CommandOutput, QueuedJob, Runner as _, allocation, holdings, read, sbatch, scontrol_job,
    sinfo, squeue,
};
use hsched_ui::{Exit, Failure};

/// The display name of this batch system.
pub(crate) const NAME: &str = "Slurm";

/// The world of queued jobs.
pub(crate) type QueueWorld<'a> = SlurmWorld<'a>;

impl Backend for QueueWorld<'_> {
    fn backend_kind(&self) -> BackendKind {
        BackendKind::Queue
    }

    fn look(&mut self, state: &State) -> Result<(Observation, Vec<TaggedJob>), LiveError> {
        self.observe_jobs(state)
    }
}

/// Returns the cluster as a world; `sbatch` are options for each submission.
///
/// # Errors
/// If a template of job scripts cannot be read or no state directory is known.
pub(crate) fn world<'a>(
    context: &'a Context,
    directory: &'a StateDir,
    sbatch: &[String],
) -> Result<QueueWorld<'a>, Failure> {
    let complete = Box::new(|cluster: &mut Cluster| input::complete(cluster, context));
    let site = state::site(context, sbatch)?;
    let mut world = SlurmWorld::new(&context.slurm, &context.clock, directory, site, complete);
    world.start_estimator = Some(Box::new(|inquiries: &[Inquiry]| start_estimates(context, inquiries)));
    Ok(world)
}

/// Returns the nodes of the cluster.
///
/// # Errors
/// If Slurm does not answer (exit 69) or prints unreadable output.
pub(crate) fn cluster(context: &Context) -> Result<ClusterWithNotes, Failure> {
    input::printed_cluster(context, &context.ask(&sinfo::command())?)
}

/// Returns the user's queued jobs, and notes on unreadable data.
fn queue(context: &Context) -> Result<(Vec<QueuedJob>, Vec<String>), Failure> {
    let printed = context.ask(&squeue::command())?;
    squeue::parse(&printed)
        .map_err(|error| Failure::from_error(Exit::Failed, &error).id(ErrorId::SlurmOutput))
}

/// Returns the user's queued jobs that hsched submitted.
///
/// # Errors
/// If Slurm does not answer.
pub(crate) fn tagged_jobs(context: &Context) -> Result<Vec<TaggedJob>, Failure> {
    let (queue, _) = queue(context)?;
    Ok(queue.iter().filter_map(QueuedJob::tagged).collect())
}

/// Returns the resources held by the user's jobs, and notes on unreadable data.
///
/// # Errors
/// If Slurm does not answer.
pub(crate) fn held(context: &Context, cluster: &Cluster) -> Result<(Holdings, Vec<String>), Failure> {
    let (queue, mut notes) = queue(context)?;
    let (held, unclear) = holdings(&queue, cluster);
    notes.extend(unclear);
    Ok((held, notes))
}

/// Returns the resources held by these jobs' submissions, with a note on each running one; includes the notes
/// on unreadable data.
///
/// # Errors
/// If Slurm does not answer.
pub(crate) fn held_by(
    context: &Context,
    jobs: &[Job],
    cluster: &Cluster,
) -> Result<(Holdings, Vec<String>), Failure> {
    let (queue, mut notes) = queue(context)?;
    let is_of = |queued: &&QueuedJob| {
        queued.tag().is_some_and(|tag| jobs.iter().any(|job| job.name.as_str() == tag.job))
    };
    let queued_jobs: Vec<&QueuedJob> = queue.iter().filter(is_of).collect();
    for queued in queued_jobs.iter().filter(|queued| queued.holds_nodes()) {
        let (id, name) = (&queued.shown_id, &queued.name);
        notes.push(format!("job {id} ({name}) is running: its GPUs count as free for this plan"));
    }
    let (held, unclear) = holdings(queued_jobs.iter().copied(), cluster);
    notes.extend(unclear);
    Ok((held, notes))
}

/// Returns the remaining nodes of an allocation.
///
/// # Errors
/// If Slurm does not answer.
pub(crate) fn allocated_nodes(context: &Context, job: JobId) -> Result<Vec<NodeName>, Failure> {
    let nodes = allocation::parse(&context.ask(&allocation::command(job))?).nodes;
    Ok(nodes.iter().filter_map(|node| NodeName::new(&node.name).ok()).collect())
}

/// Returns when an allocation ends; `None` if Slurm does not answer at once.
pub(crate) fn allocation_end(context: &Context, job: JobId) -> Option<Time> {
    let output = context.slurm.run(&allocation::command(job)).ok()?;
    allocation::parse(&output.stdout).end.map(Time)
}

/// Returns whether the allocation of a pool member is over, so that no process remains; `None` if Slurm does
/// not answer.
pub(crate) fn is_over(context: &Context, member: &MemberId) -> Option<bool> {
    let pause = |pause| context.clock.sleep(pause);
    says_over(member, read(&context.slurm, &scontrol_job::command(member.job()), &pause))
}

fn says_over(member: &MemberId, answer: Result<CommandOutput, CommandError>) -> Option<bool> {
    match answer {
        Ok(output) => Some(scontrol_job::is_over(&output.stdout, member.restarts())),
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

/// Submits a script with sbatch options; returns the job id.
///
/// # Errors
/// If Slurm refuses it or does not answer.
pub(crate) fn submit(context: &Context, script: &Path, options: &[String]) -> Result<JobId, Failure> {
    let command = sbatch::command(&script.display().to_string(), options);
    let submitted = sbatch::submit(&context.slurm, &command);
    submitted
        .map(|submitted| submitted.id)
        .map_err(|error| Failure::from_error(Exit::Failed, &error).id(ErrorId::SlurmRefused))
}
