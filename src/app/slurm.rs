//! Slurm as the batch system of sessions. Another one would be another file like this one, and a crate with its world.

use crate::app::context::Context;
use crate::app::foreseeing::outlooks;
use crate::app::{input, state};
use crate::error::Failure;
use hsched_engine::store::StateDir;
use hsched_engine::{Inquiry, TaggedJob};
use hsched_model::Cluster;
use hsched_slurm::QueuedJob;
use hsched_slurm::live::SlurmWorld;

/// Its name for people.
pub(crate) const NAME: &str = "Slurm";

/// Returns the cluster as a world; `sbatch` are options for each submission.
///
/// # Errors
/// When a template of job scripts cannot be read or no state directory is known.
pub(crate) fn world<'a>(
    context: &'a Context,
    directory: &'a StateDir,
    sbatch: &[String],
) -> Result<SlurmWorld<'a>, Failure> {
    let complete = Box::new(|cluster: &mut Cluster| input::complete(cluster, context));
    let site = state::site(context, sbatch)?;
    let mut world = SlurmWorld::new(&context.slurm, &context.clock, directory, site, complete);
    world.oracle = Some(Box::new(|inquiries: &[Inquiry]| outlooks(context, inquiries)));
    Ok(world)
}

/// Returns the user's jobs in the queue that hsched submitted.
///
/// # Errors
/// When Slurm does not answer.
pub(crate) fn tagged_jobs(context: &Context) -> Result<Vec<TaggedJob>, Failure> {
    let (queue, _) = input::queue(context)?;
    Ok(queue.iter().filter_map(QueuedJob::tagged).collect())
}
