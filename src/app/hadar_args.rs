//! Flags of the policy `hadar`, wherever it decides.

use clap::builder::PossibleValuesParser;

use crate::model::Seconds;
use crate::policy::{HadarParameters, Sharing, Utility, Worth};

/// How `hadar` values jobs.
#[derive(Clone, Debug, PartialEq, clap::Args)]
#[command(next_help_heading = "Policy hadar")]
pub(crate) struct HadarArgs {
    /// hadar: whether the GPUs of a job get equal shares of the batch (equal, as in the paper) or shares that fit
    /// their speeds (balanced).
    #[arg(long, value_name = "HOW", default_value = "equal",
          value_parser = PossibleValuesParser::new(Sharing::NAMES.map(|(name, _)| name)))]
    sharing: String,
    /// hadar: value of completing a job: its steps per second (throughput, as in the paper; favours long jobs), or
    /// its shortest possible run time divided by its completion time (normalised).
    #[arg(long, value_name = "WHAT", default_value = "throughput",
          value_parser = PossibleValuesParser::new(Utility::NAMES.map(|(name, _)| name)))]
    utility: String,
    /// hadar: budget of a job: the value of completing it (finish, as in the paper), or the part of that value that
    /// one round of waiting costs (delay). `--utility normalised --worth delay` gives the best mean completion times.
    #[arg(long, value_name = "WHAT", default_value = "finish",
          value_parser = PossibleValuesParser::new(Worth::NAMES.map(|(name, _)| name)))]
    worth: String,
}

impl HadarArgs {
    /// Returns the parameters, for rounds of this length.
    pub(crate) fn parameters(&self, round: Option<Seconds>) -> HadarParameters {
        let usual = HadarParameters::default();
        HadarParameters {
            sharing: named(&Sharing::NAMES, &self.sharing).unwrap_or(usual.sharing),
            utility: named(&Utility::NAMES, &self.utility).unwrap_or_default(),
            worth: named(&Worth::NAMES, &self.worth).unwrap_or_default(),
            round: round.unwrap_or(usual.round),
        }
    }

    /// Returns the flags that say it, without those that have their usual values.
    pub(crate) fn words(&self) -> Vec<String> {
        let usual = ["equal", "throughput", "finish"];
        let own = [("sharing", &self.sharing), ("utility", &self.utility), ("worth", &self.worth)];
        let differs = own.iter().zip(usual).filter(|((_, value), usual)| value != usual);
        differs.map(|((flag, value), _)| format!("--{flag} {value}")).collect()
    }
}

fn named<T: Copy>(names: &[(&'static str, T)], name: &str) -> Option<T> {
    names.iter().find(|(own, _)| *own == name).map(|(_, value)| *value)
}
