//! GPU types named by a job that a cluster may not have.

use std::collections::BTreeSet;

use crate::catalogue::recognise;
use crate::{GpuType, Job};

impl Job {
    /// Returns the GPU types that the job names in `throughput`, `gpu_types` and `max_batch`.
    pub fn named_types(&self) -> BTreeSet<&str> {
        let named =
            self.throughput.keys().chain(self.gpu_types.iter().flatten()).chain(self.max_batch.keys());
        named.map(GpuType::as_str).collect()
    }

    /// Returns a message if the job names GPU types and a cluster with these types has none of them; `None`
    /// also if the list is empty.
    pub fn none_here(&self, types: &[GpuType]) -> Option<String> {
        let is_here = |name: &str| {
            types.iter().map(GpuType::as_str).any(|known| {
                let same = || {
                    recognise(known)
                        .zip(recognise(name))
                        .is_some_and(|(recognised, other)| recognised.may_be(&other))
                };
                known.eq_ignore_ascii_case(name) || same()
            })
        };
        // If the job restricts its types, speeds for other types are irrelevant.
        let allowed = self.gpu_types.as_ref().map(|types| types.iter().map(GpuType::as_str).collect());
        let named = allowed.unwrap_or_else(|| self.named_types());
        if named.is_empty() || types.is_empty() || named.iter().any(|name| is_here(name)) {
            return None;
        }
        let here: BTreeSet<&str> = types.iter().map(GpuType::as_str).collect();
        let list = |names: BTreeSet<&str>| names.into_iter().collect::<Vec<_>>().join(", ");
        Some(format!("no {} here: the cluster has {}", list(named), list(here)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_of_other_clusters_are_named_with_what_there_is() {
        let jobs = crate::formats::jobs::parse(
            "jobs: [{name: x, samples_per_epoch: 9, epochs: 1, global_batch: 1, model_size: 1MB, command: [x], \
             throughput: {h100: 1, a100: 2}}]",
        )
        .expect("a job");
        let types = |names: &[&str]| -> Vec<GpuType> {
            names.iter().map(|name| GpuType::new(name).expect("a type")).collect()
        };
        let said = jobs[0].none_here(&types(&["v100", "p100", "v100"]));
        assert_eq!(said.as_deref(), Some("no a100, h100 here: the cluster has p100, v100"));
        assert_eq!(jobs[0].none_here(&types(&["v100", "nvidia_a100_80gb_pcie"])), None);
        assert_eq!(jobs[0].none_here(&[]), None);
        let jobs = crate::formats::jobs::parse(
            "jobs: [{name: x, samples_per_epoch: 9, epochs: 1, global_batch: 1, model_size: 1MB, command: [x], \
             gpu_types: [h100], throughput: {v100: 1}}]",
        )
        .expect("a job");
        let said = jobs[0].none_here(&types(&["v100"]));
        assert_eq!(said.as_deref(), Some("no h100 here: the cluster has v100"));
    }
}
