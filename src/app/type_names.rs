//! GPU types that jobs name and that the cluster does not have: misspelt ones, and those of other clusters.

use std::collections::BTreeSet;

use hsched_model::catalogue::{self, recognise};
use hsched_model::formats;
use hsched_model::{Cluster, GpuType, Job};
use hsched_plan::{CheckedPlan, Problem, Verdict};

/// Adds a note for each GPU type of a job that neither the cluster nor the catalogue has, but nearly.
///
/// A type of the catalogue is meant for another cluster: a V100 is one letter from a P100.
pub(crate) fn note_misspelt(cluster: &Cluster, jobs: &[Job], notes: &mut Vec<String>) {
    let (known, table): (_, Vec<&str>) = (Problem::types_of(cluster), catalogue::names().collect());
    let is_known = |name: &str| known.iter().any(|own| own.as_str().eq_ignore_ascii_case(name));
    for job in jobs {
        for name in named(job).into_iter().filter(|name| !is_known(name) && recognise(name).is_none()) {
            let own = known.iter().map(GpuType::as_str);
            if let Some(near) = formats::nearest(name, own.chain(table.iter().copied())) {
                notes.push(format!("{}: unknown GPU type {name}; did you mean {near}?", job.name));
            }
        }
    }
}

/// Returns a note for each rejected job whose file names only GPU types that the cluster does not have.
pub(crate) fn of_rejected(jobs: &[Job], problem: &Problem, plan: &CheckedPlan) -> Vec<String> {
    let note = |(job, verdict): (&Job, &Verdict)| {
        let why = matches!(verdict, Verdict::Reject { .. }).then(|| none_here(job, &problem.gpu_types))??;
        Some(format!("{}: {why}", job.name))
    };
    jobs.iter().zip(plan.verdicts()).filter_map(note).collect()
}

/// Returns that a cluster with these GPU types has none of those that a job names, if so.
pub(crate) fn none_here(job: &Job, types: &[GpuType]) -> Option<String> {
    let is_here = |name: &str| {
        types.iter().map(GpuType::as_str).any(|own| {
            let same = || recognise(own).zip(recognise(name)).is_some_and(|(own, other)| own.may_be(&other));
            own.eq_ignore_ascii_case(name) || same()
        })
    };
    // Where the job says which types it may use, a speed on another one does not help.
    let allowed = job.gpu_types.as_ref().map(|types| types.iter().map(GpuType::as_str).collect());
    let named = allowed.unwrap_or_else(|| named(job));
    if named.is_empty() || types.is_empty() || named.iter().any(|name| is_here(name)) {
        return None;
    }
    let here: BTreeSet<&str> = types.iter().map(GpuType::as_str).collect();
    let list = |names: BTreeSet<&str>| names.into_iter().collect::<Vec<_>>().join(", ");
    Some(format!("no {} here: the cluster has {}", list(named), list(here)))
}

/// Returns the GPU types that a job names.
fn named(job: &Job) -> BTreeSet<&str> {
    let named = job.throughput.keys().chain(job.gpu_types.iter().flatten()).chain(job.max_batch.keys());
    named.map(GpuType::as_str).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_of_other_clusters_are_named_with_what_there_is() {
        let jobs = formats::jobs::parse(
            "jobs: [{name: x, samples_per_epoch: 9, epochs: 1, global_batch: 1, model_size: 1MB, command: [x], \
             throughput: {h100: 1, a100: 2}}]",
        )
        .expect("a job");
        let types = |names: &[&str]| -> Vec<GpuType> {
            names.iter().map(|name| GpuType::new(name).expect("a type")).collect()
        };
        let said = none_here(&jobs[0], &types(&["v100", "p100", "v100"]));
        assert_eq!(said.as_deref(), Some("no a100, h100 here: the cluster has p100, v100"));
        assert_eq!(none_here(&jobs[0], &types(&["v100", "nvidia_a100_80gb_pcie"])), None);
        assert_eq!(none_here(&jobs[0], &[]), None);
        let jobs = formats::jobs::parse(
            "jobs: [{name: x, samples_per_epoch: 9, epochs: 1, global_batch: 1, model_size: 1MB, command: [x], \
             gpu_types: [h100], throughput: {v100: 1}}]",
        )
        .expect("a job");
        let said = none_here(&jobs[0], &types(&["v100"]));
        assert_eq!(said.as_deref(), Some("no h100 here: the cluster has v100"));
    }
}
