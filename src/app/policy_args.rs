//! Flags for a policy and its parameters, common to all planning commands.

use std::ffi::OsStr;

use clap::Parser as _;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::error::ErrorKind;

use crate::app::named::WordParser;
use crate::app::policy_flags::{AllPolicies, Placers, PolicyFlags};
use hsched_model::ErrorId;
use hsched_plan::{ExecutionMode, Objective, Parameters, Policy, Registry, RegistryError};
use hsched_ui::{Exit, Failure};

/// A policy, its parameters and its objective.
#[derive(Clone, Debug, PartialEq, clap::Args)]
#[command(next_help_heading = "Planning")]
pub(crate) struct PolicyArgs {
    /// Policy that places the jobs. All policies except optimal use every GPU that the jobs can use.
    #[arg(long, value_name = "NAME", default_value = hsched_lab::registry().names()[0],
          value_parser = PolicyName::PLANNED)]
    pub policy: String,
    #[command(flatten)]
    tuning: Tuning,
    #[command(flatten)]
    flags: PolicyFlags<Placers>,
}

/// A policy over time, and its parameters.
#[derive(Clone, Debug, PartialEq, clap::Args)]
#[command(next_help_heading = "Planning")]
pub(crate) struct OverTimeArgs {
    /// Policy that assigns devices to jobs over time, and stops jobs to make room for other jobs.
    #[arg(long, value_name = "NAME", default_value = hsched_lab::registry().names_over_time()[0],
          value_parser = PossibleValuesParser::new(PolicyName::all()))]
    policy: String,
    #[command(flatten)]
    tuning: Tuning,
    #[command(flatten)]
    flags: PolicyFlags<AllPolicies>,
}

/// Parameters of every policy.
#[derive(Clone, Debug, PartialEq, clap::Args)]
#[command(next_help_heading = "Planning")]
pub(crate) struct Tuning {
    /// Objective to minimise.
    #[arg(long, value_name = "WHAT", default_value = "mean-jct",
          value_parser = WordParser(&Objective::NAMES))]
    objective: Objective,
    /// Seed of all random choices.
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
}

/// Parses the name of a policy of one of the sets below; other policies are refused with the reason.
#[derive(Clone)]
pub(crate) struct PolicyName {
    names: fn(&Registry) -> Vec<&'static str>,
}

impl PolicyName {
    /// Policies that place jobs at one point in time.
    const PLANNED: Self = Self { names: |policies| policies.names() };

    /// Policies that decide repeatedly on a live cluster.
    pub(crate) const WATCHED: Self = Self { names: |policies| policies.names_watched() };

    /// Policies that `hsched run` accepts without further files.
    pub(crate) const RUN: Self = Self { names: |policies| policies.names_over_time() };

    /// Returns the names of all policies, including those that need a file.
    pub(crate) fn all() -> Vec<&'static str> {
        let policies = hsched_lab::registry();
        policies.names_over_time().into_iter().chain(policies.names_with_files()).collect()
    }

    /// Returns why a policy over time is not suitable for a command, and which commands accept it.
    fn refusal(name: &str) -> String {
        let watch =
            if hsched_lab::registry().names_watched().contains(&name) { "hsched watch, " } else { "" };
        format!("policy {name} reschedules running jobs; use it with {watch}hsched run or hsched simulate")
    }
}

impl TypedValueParser for PolicyName {
    type Value = String;

    fn parse_ref(
        &self,
        command: &clap::Command,
        argument: Option<&clap::Arg>,
        value: &OsStr,
    ) -> Result<String, clap::Error> {
        let names = (self.names)(&hsched_lab::registry());
        let simulated = Self::all();
        let over_time = simulated.iter().find(|name| value == **name && !names.contains(*name));
        if let Some(name) = over_time {
            let message = Self::refusal(name);
            return Err(command.clone().error(ErrorKind::ValueValidation, format!("{message}\n")));
        }
        PossibleValuesParser::new(names).parse_ref(command, argument, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new((self.names)(&hsched_lab::registry()).into_iter().map(PossibleValue::new)))
    }
}

impl PolicyArgs {
    /// Returns a policy by name, with the values of these flags; `parameters` has the other values.
    ///
    /// # Errors
    /// If the policy decides over time and is not suitable here, or a flag names an invalid file.
    pub(crate) fn find(&self, name: &str, parameters: Parameters) -> Result<Box<dyn Policy>, Failure> {
        let parameters = self.flags.parameters(parameters, &[])?;
        hsched_lab::find(name, &parameters).map_err(|error| match error {
            RegistryError::Elsewhere(name) => {
                Failure::new(Exit::Usage, PolicyName::refusal(&name)).id(ErrorId::PolicyUnfit)
            }
            other => unregistered(&other),
        })
    }

    /// Returns the corresponding flags: the policy, and the flags that differ from their defaults, such as
    /// `--policy jps --alpha 0.5`.
    pub(crate) fn words(&self) -> String {
        self.tuning.words(&self.policy, self.flags.words(&self.policy))
    }

    /// Returns whether any flag differs from its default.
    pub(crate) fn says_something(&self) -> bool {
        let Nothing { policy, .. } = Nothing::parse_from([""]);
        *self != policy
    }

    /// Returns the seed of all random choices.
    pub(crate) fn seed(&self) -> u64 {
        self.tuning.seed
    }

    /// Returns the objective.
    pub(crate) fn objective(&self) -> Objective {
        self.tuning.objective
    }
}

impl OverTimeArgs {
    /// Returns the policy for devices without other users.
    ///
    /// # Errors
    /// If it needs a file that is missing or invalid.
    pub(crate) fn find(&self) -> Result<Box<dyn Policy>, Failure> {
        self.finder()?().map_err(|error| unregistered(&error))
    }

    /// Returns a function that makes the policy, always with the same result.
    fn finder(&self) -> Result<impl Fn() -> Result<Box<dyn Policy>, RegistryError> + use<>, Failure> {
        let parameters = Parameters { carrying: ExecutionMode::Alone, ..Parameters::default() };
        let parameters = self.flags.parameters(parameters, &[&self.policy])?;
        let name = self.policy.clone();
        Ok(move || hsched_lab::find_over_time(&name, &parameters))
    }

    /// Returns a function that makes as many of these policies as needed.
    #[expect(clippy::expect_used, reason = "the policy was found once")]
    pub(crate) fn maker(&self) -> Result<impl Fn() -> Box<dyn Policy> + use<>, Failure> {
        let find = self.finder()?;
        find().map_err(|error| unregistered(&error))?;
        Ok(move || find().expect("the policy"))
    }

    /// Returns the corresponding flags.
    pub(crate) fn words(&self) -> String {
        self.tuning.words(&self.policy, self.flags.words(&self.policy))
    }

    /// Returns the seed of all random choices.
    pub(crate) fn seed(&self) -> u64 {
        self.tuning.seed
    }

    /// Returns the objective.
    pub(crate) fn objective(&self) -> Objective {
        self.tuning.objective
    }
}

/// A command line without policy flags.
#[derive(clap::Parser)]
struct Nothing {
    #[command(flatten)]
    policy: PolicyArgs,
}

/// Returns the failure of a name or value that the command line should not have accepted.
fn unregistered(error: &RegistryError) -> Failure {
    Failure::from_error(Exit::Internal, error)
}

impl Tuning {
    /// Returns the equivalent flags: the policy, options that differ from the defaults, and `policy_words`.
    fn words(&self, policy: &str, policy_words: Vec<String>) -> String {
        let usual = Nothing::parse_from([""]).policy.tuning;
        let mut words = vec![format!("--policy {policy}")];
        words.extend(
            (self.objective != usual.objective).then(|| format!("--objective {}", self.objective.name())),
        );
        words.extend(policy_words);
        words.extend((self.seed != usual.seed).then(|| format!("--seed {}", self.seed)));
        words.join(" ")
    }
}
