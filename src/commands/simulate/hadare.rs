//! Flags of the policy `hadare`.

use hsched_lab::hadare::{ForkObjective, HadareParameters};
use hsched_model::Seconds;
use hsched_model::formats;
use hsched_plan::Objective;

/// How `hadare` forks jobs.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Policy hadare")]
pub(super) struct HadareArgs {
    /// hadare: time in each round for reading and merging copies, such as 5s.
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = formats::parse_duration)]
    overhead: Seconds,
}

impl HadareArgs {
    /// Returns the parameters of `hadare` for this length of rounds and an objective that it supports.
    ///
    /// # Errors
    /// If no time is left to train.
    pub(super) fn parameters(
        &self,
        round: Option<Seconds>,
        objective: Objective,
    ) -> Result<HadareParameters, String> {
        let usual = HadareParameters::default();
        let parameters = HadareParameters {
            round: round.unwrap_or(usual.round),
            overhead: self.overhead,
            objective: ForkObjective::of(objective).unwrap_or_default(),
        };
        if parameters.training() <= 0.0 {
            let (overhead, round) = (self.overhead.0, parameters.round.0);
            return Err(format!("--overhead {overhead}s leaves no time to train in a round of {round}s"));
        }
        Ok(parameters)
    }
}
