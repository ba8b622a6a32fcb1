//! A policy that is shown what is left of each job in whole epochs, as `watch` shows it.

use crate::{Budget, Changed, Memory, Plan, Policy, PolicyError, Problem};
use hsched_model::number::to_u64;

/// A policy that is shown how far each job has come.
pub(super) struct WholeEpochs(pub Box<dyn Policy>);

impl Policy for WholeEpochs {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn parameters(&self) -> String {
        self.0.parameters()
    }

    fn needs_budget(&self) -> bool {
        self.0.needs_budget()
    }

    fn decide(&mut self, problem: &Problem, budget: &Budget<'_>) -> Result<Plan, PolicyError> {
        let mut own = Problem { changed: Changed::All, ..problem.clone() };
        for model in &mut own.jobs {
            let left = model.progress.left(problem.now);
            let epochs = to_u64(left.ceil()).max(1);
            (model.epochs, model.progress.epochs_left) = (epochs, epochs);
        }
        self.0.decide(&own, budget)
    }

    fn memory(&self) -> Option<Memory> {
        self.0.memory()
    }

    fn remember(&mut self, memory: &Memory) {
        self.0.remember(memory);
    }
}
