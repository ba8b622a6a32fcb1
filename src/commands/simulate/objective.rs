//! The objectives of policies that accept one.

use crate::app::context::Context;
use crate::app::named::WordParser;
use crate::commands::simulate::sweep::HADARE;
use hsched_lab::hadare::ForkObjective;
use hsched_model::ErrorId;
use hsched_plan::Objective;
use hsched_ui::{Exit, Failure};

/// An objective.
#[derive(Debug, clap::Args)]
pub(super) struct ObjectiveArgs {
    /// Objective to minimise, for the policies of `hsched plan`, for horizon (mean-jct or weighted) and for hadare
    /// (mean-jct or makespan). Other policies have their own objective. hadare: with mean-jct, jobs that can complete
    /// within the round are the first to get nodes; with makespan, the job that ends last gets the next node.
    #[arg(long, value_name = "WHAT", default_value = "mean-jct",
          value_parser = WordParser(&Objective::NAMES))]
    pub objective: Objective,
}

impl ObjectiveArgs {
    /// Returns the objective, and notes which of these policies do not use it, unless it is the default.
    ///
    /// # Errors
    /// If `hadare` does not support the objective.
    pub(super) fn of(&self, policies: &[String], context: &Context) -> Result<Objective, Failure> {
        let objective = self.objective;
        if policies.iter().any(|name| name == HADARE) && ForkObjective::of(objective).is_none() {
            let [one, other] = [Objective::MeanJct, Objective::Makespan].map(Objective::name);
            let message = format!("hadare minimises {one} or {other}, not {}", objective.name());
            return Err(Failure::new(Exit::Usage, message).id(ErrorId::PolicyUnfit));
        }
        let known = hsched_lab::registry();
        let goes_by_it = |name: &str| {
            name == HADARE || known.entry(name).is_some_and(|entry| entry.objectives.contains(&objective))
        };
        let ignoring: Vec<&str> =
            policies.iter().map(String::as_str).filter(|name| !goes_by_it(name)).collect();
        if objective != Objective::default() && !ignoring.is_empty() {
            context.note(&format!(
                "--objective {} has no effect with {}",
                objective.name(),
                ignoring.join(" and ")
            ));
        }
        Ok(objective)
    }
}
