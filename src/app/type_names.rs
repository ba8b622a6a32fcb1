//! GPU types named by jobs that the cluster does not have: misspelt ones, and those of other clusters.

use hsched_model::catalogue::{self, recognise};
use hsched_model::formats;
use hsched_model::{Cluster, GpuType, Job};
use hsched_plan::{CheckedPlan, Problem, Verdict};

/// Adds a note for each GPU type of a job that resembles one of the cluster or the catalogue but exists in
/// neither.
///
/// A type in the catalogue is intended for another cluster, although a V100 is only one letter from a P100.
pub(crate) fn note_misspelt(cluster: &Cluster, jobs: &[Job], notes: &mut Vec<String>) {
    let (known, table): (_, Vec<&str>) = (Problem::types_of(cluster), catalogue::names().collect());
    let is_known = |name: &str| known.iter().any(|gpu_type| gpu_type.as_str().eq_ignore_ascii_case(name));
    for job in jobs {
        for name in job.named_types().into_iter().filter(|name| !is_known(name) && recognise(name).is_none())
        {
            let on_cluster = known.iter().map(GpuType::as_str);
            if let Some(near) = formats::nearest(name, on_cluster.chain(table.iter().copied())) {
                notes.push(format!("{}: unknown GPU type {name}; did you mean {near}?", job.name));
            }
        }
    }
}

/// Returns a note for each rejected job whose file names only GPU types missing in the cluster.
pub(crate) fn of_rejected(jobs: &[Job], problem: &Problem, plan: &CheckedPlan) -> Vec<String> {
    let note = |(job, verdict): (&Job, &Verdict)| {
        let why = matches!(verdict, Verdict::Reject { .. }).then(|| job.none_here(&problem.gpu_types))??;
        Some(format!("{}: {why}", job.name))
    };
    jobs.iter().zip(plan.verdicts()).filter_map(note).collect()
}
