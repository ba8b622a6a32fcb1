//! Sentences about the limits that keep a job from more or other GPUs.

use super::ExplainedPlan;
use hsched_plan::throughput::SpeedOrigin;
use hsched_plan::{JobExplanation, PlacementLimit};

impl ExplainedPlan<'_> {
    /// Describes a limit; `None` if GPUs are taken by other jobs, which `sentences` mentions with their
    /// price.
    pub(super) fn limit(&self, job: &JobExplanation, limit: &PlacementLimit) -> Option<String> {
        let name = |ty: usize| &self.problem.labels[ty];
        Some(match limit {
            PlacementLimit::Most(obstacle) => format!("cannot use more GPUs: {obstacle}"),
            PlacementLimit::Least { least } if self.problem.jobs[job.job].replica.is_some() => {
                format!("cannot use fewer GPUs: min_replicas is {least}")
            }
            PlacementLimit::Least { least } => format!("cannot use fewer GPUs: min_gpus is {least}"),
            PlacementLimit::Illegal { gpu_type, obstacle } => {
                format!("cannot use another {}: {obstacle}", name(*gpu_type))
            }
            PlacementLimit::NoGain => "no additional GPU would shorten it".into(),
            PlacementLimit::Accumulation { gpu_type, micro_batches, batch, memory } => format!(
                "each {} splits its {batch} samples into {micro_batches} micro-batches: {memory} fit in its memory",
                name(*gpu_type)
            ),
            PlacementLimit::Taken { .. } => return None,
        })
    }

    /// Returns the types on offer that the job cannot use, or cannot use alone, with reasons.
    pub(super) fn unused(&self, job: &JobExplanation) -> Vec<String> {
        let not = |(ty, explanation): (usize, &hsched_plan::TypeExplanation)| {
            let obstacle = explanation.alone.as_ref().err()?;
            Some(format!("cannot use {} alone: {obstacle}", self.problem.labels[ty]))
        };
        let usable = |ty: usize| self.problem.jobs[job.job].types[ty].is_some();
        let types = job.types.iter().enumerate().filter(|(ty, _)| self.explanation.types[*ty].offered > 0);
        let (usable, unusable): (Vec<_>, Vec<_>) = types.partition(|(ty, _)| usable(*ty));
        let never = |(ty, explanation): (usize, &hsched_plan::TypeExplanation)| {
            Some(format!("{} not used: {}", self.problem.labels[ty], explanation.alone.as_ref().err()?))
        };
        unusable.into_iter().filter_map(never).chain(usable.into_iter().filter_map(not)).collect()
    }

    /// Returns the job's speeds on types for which the job file lists none, with their sources.
    pub(super) fn speeds(&self, job: &JobExplanation) -> Vec<String> {
        let model = &self.problem.jobs[job.job];
        let speed = |(column, source): &(usize, SpeedOrigin)| {
            let speed = model.types[*column]?.speed;
            Some(format!("speed on {}: {speed} {source}", self.problem.labels[*column]))
        };
        model.sources.iter().filter_map(speed).collect()
    }
}
