//! A policy that receives each job's remaining work in whole epochs, as `watch` reports it.

use crate::{Budget, Plan, Policy, PolicyError, Problem, ProblemChanges};
use hsched_model::number::to_u64;

/// A policy that receives jobs' progress in whole epochs.
pub(super) struct WholeEpochs(pub Box<dyn Policy>);

impl Policy for WholeEpochs {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn inner(&self) -> Option<&dyn Policy> {
        Some(self.0.as_ref())
    }

    fn inner_mut(&mut self) -> Option<&mut dyn Policy> {
        Some(self.0.as_mut())
    }

    fn decide(&mut self, problem: &Problem, budget: &Budget<'_>) -> Result<Plan, PolicyError> {
        let mut whole = Problem { changed: ProblemChanges::All, ..problem.clone() };
        for model in &mut whole.jobs {
            let left = model.progress.left(problem.now);
            let epochs = to_u64(left.ceil()).max(1);
            (model.epochs, model.progress.epochs_left) = (epochs, epochs);
        }
        self.0.decide(&whole, budget)
    }
}
