//! Slurm's queue as a world of the engine, and the user's queued jobs with the resources that they hold.

use crate::app::context::Context;
use crate::app::session::Backend;
use crate::app::slurm::cluster;
use crate::app::state;
use crate::app::watch_estimates::start_estimates;
use hsched_engine::live::LiveError;
use hsched_engine::store::StateDir;
use hsched_engine::{BackendKind, Inquiry, Observation, State, TaggedJob};
use hsched_model::{Cluster, ErrorId, Holdings, Job};
use hsched_slurm::live::SlurmWorld;
use hsched_slurm::{QueuedJob, holdings, squeue};
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
    let complete = Box::new(|cluster: &mut Cluster| cluster::complete(cluster, context));
    let site = state::site(context, sbatch)?;
    let mut world = SlurmWorld::new(&context.slurm, &context.clock, directory, site, complete);
    world.start_estimator = Some(Box::new(|inquiries: &[Inquiry]| start_estimates(context, inquiries)));
    Ok(world)
}

/// Returns the user's queued jobs, and notes on unreadable data.
fn queue(context: &Context) -> Result<(Vec<QueuedJob>, Vec<String>), Failure> {
    let printed = context.slurm.ask(&squeue::command())?;
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
