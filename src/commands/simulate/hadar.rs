//! Flags of the policies `hadar` and `hadare`.

use clap::builder::PossibleValuesParser;

use crate::formats;
use crate::model::Seconds;
use crate::policy::{ForkObjective, HadarParameters, HadareParameters, Sharing, Utility, Worth};

/// How `hadar` values jobs.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Policies hadar and hadare")]
pub(super) struct HadarArgs {
    /// Whether each GPU of a job takes an equal part of the batch, as in the paper, or one that fits its speed.
    #[arg(long, value_name = "HOW", default_value = "equal",
          value_parser = PossibleValuesParser::new(Sharing::NAMES.map(|(name, _)| name)))]
    sharing: String,
    /// What finishing is worth: steps per second (throughput), as in the paper, which serves long jobs first, or the time
    /// alone over the time from arrival to completion (normalised).
    #[arg(long, value_name = "WHAT", default_value = "throughput",
          value_parser = PossibleValuesParser::new(Utility::NAMES.map(|(name, _)| name)))]
    utility: String,
    /// What a job pays with: that worth (finish), as in the paper, or what of it a round's wait costs (delay). The best mean
    /// completion times are with --utility normalised --worth delay.
    #[arg(long, value_name = "WHAT", default_value = "finish",
          value_parser = PossibleValuesParser::new(Worth::NAMES.map(|(name, _)| name)))]
    worth: String,
    /// hadare: what of every round goes by in reading and merging copies, such as 5s.
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = overhead)]
    overhead: Seconds,
    /// hadare: whether jobs that are near to their end take the nodes that they need for it (mean-jct), or the job that
    /// ends last gets the next node (makespan).
    #[arg(long, value_name = "WHAT", default_value = "mean-jct",
          value_parser = PossibleValuesParser::new(ForkObjective::NAMES.map(|(name, _)| name)))]
    objective: String,
}

impl HadarArgs {
    /// Returns the parameters, for rounds of this length.
    pub(super) fn parameters(&self, round: Option<Seconds>) -> HadarParameters {
        let usual = HadarParameters::default();
        HadarParameters {
            sharing: named(&Sharing::NAMES, &self.sharing).unwrap_or(usual.sharing),
            utility: named(&Utility::NAMES, &self.utility).unwrap_or_default(),
            worth: named(&Worth::NAMES, &self.worth).unwrap_or_default(),
            round: round.unwrap_or(usual.round),
        }
    }
}

impl HadarArgs {
    /// Returns the parameters of `hadare`, for rounds of this length.
    ///
    /// # Errors
    /// When no time is left to train.
    pub(super) fn hadare(&self, round: Option<Seconds>) -> Result<HadareParameters, String> {
        let usual = HadareParameters::default();
        let parameters = HadareParameters {
            round: round.unwrap_or(usual.round),
            overhead: self.overhead,
            objective: named(&ForkObjective::NAMES, &self.objective).unwrap_or_default(),
        };
        if parameters.training() <= 0.0 {
            let (overhead, round) = (self.overhead.0, parameters.round.0);
            return Err(format!("--overhead {overhead}s leaves nothing of a round of {round}s"));
        }
        Ok(parameters)
    }
}

fn overhead(text: &str) -> Result<Seconds, String> {
    formats::parse_duration(text).map_err(|error| error.to_string())
}

fn named<T: Copy>(names: &[(&'static str, T)], name: &str) -> Option<T> {
    names.iter().find(|(own, _)| *own == name).map(|(_, value)| *value)
}
