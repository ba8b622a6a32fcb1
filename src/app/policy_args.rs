//! Flags that choose a policy and its parameters: the same wherever hsched plans.

use std::ffi::OsStr;

use clap::Parser as _;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::error::ErrorKind;

use crate::app::hadar_args::HadarArgs;
use crate::app::net_file::NetArgs;
use crate::error::Failure;
use crate::exit::Exit;
use crate::policy::{self, Carrying, JpsParameters, Objective, OptimalParameters, Parameters, Policy};

/// A policy, its parameters and what it is to minimise.
#[derive(Clone, Debug, PartialEq, clap::Args)]
#[command(next_help_heading = "Planning")]
pub(crate) struct PolicyArgs {
    /// Policy that places the jobs. All policies except optimal use every GPU that the jobs can use.
    #[arg(long, value_name = "NAME", default_value = policy::names()[0],
          value_parser = PolicyName::PLANNED)]
    pub policy: String,
    #[command(flatten)]
    tuning: Tuning,
}

/// A policy of those that decide over time, and its parameters.
#[derive(Clone, Debug, PartialEq, clap::Args)]
#[command(next_help_heading = "Planning")]
pub(crate) struct OverTimeArgs {
    /// Policy that assigns devices to jobs over time, and stops jobs to make room for other jobs.
    #[arg(long, value_name = "NAME", default_value = policy::names_over_time()[0],
          value_parser = PossibleValuesParser::new(PolicyName::all()))]
    policy: String,
    #[command(flatten)]
    hadar: HadarArgs,
    #[command(flatten)]
    net: NetArgs,
    #[command(flatten)]
    tuning: Tuning,
}

/// What a policy minimises, and its parameters.
#[derive(Clone, Debug, PartialEq, clap::Args)]
#[command(next_help_heading = "Planning")]
pub(crate) struct Tuning {
    /// Objective to minimise.
    #[arg(long, value_name = "WHAT", default_value = "mean-jct",
          value_parser = PossibleValuesParser::new(Objective::NAMES.map(|(name, _)| name)))]
    objective: String,
    /// jps: start of the sampled range of categories, as a fraction of all categories.
    #[arg(long, value_name = "FRACTION", default_value_t = 0.7, value_parser = fraction)]
    alpha: f64,
    /// jps: weight of speed relative to fairness.
    #[arg(long, value_name = "FRACTION", default_value_t = 1.0, value_parser = fraction)]
    beta: f64,
    /// jps: number of categories to sample.
    #[arg(long, value_name = "N", default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..))]
    samples: u32,
    /// Seed of all random choices.
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// optimal: use every GPU that the jobs can use.
    #[arg(long)]
    use_all: bool,
}

/// Reads the name of a policy for one moment, or for [`Self::WATCHED`]; others are refused with the reason.
#[derive(Clone)]
pub(crate) struct PolicyName {
    names: fn() -> Vec<&'static str>,
}

impl PolicyName {
    /// Those that place jobs at one moment.
    const PLANNED: Self = Self { names: policy::names };

    /// Those that decide again and again on a live cluster.
    pub(crate) const WATCHED: Self = Self { names: policy::names_watched };

    /// Those that `hsched run` takes without more files.
    pub(crate) const RUN: Self = Self { names: policy::names_over_time };

    /// Returns the names of all that decide over time, also the one that needs a net.
    fn all() -> Vec<&'static str> {
        policy::names_over_time().into_iter().chain([policy::MLF_RL]).collect()
    }

    /// Says why a policy that decides over time is not for one moment.
    fn refusal(name: &str) -> String {
        let watch = if policy::names_watched().contains(&name) { "hsched watch, " } else { "" };
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
        let names = (self.names)();
        let simulated = Self::all();
        let over_time = simulated.iter().find(|name| value == **name && !names.contains(*name));
        if let Some(name) = over_time {
            let message = Self::refusal(name);
            return Err(command.clone().error(ErrorKind::ValueValidation, format!("{message}\n")));
        }
        PossibleValuesParser::new(names).parse_ref(command, argument, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new((self.names)().into_iter().map(PossibleValue::new)))
    }
}

impl PolicyArgs {
    /// Returns a policy by its name, with these parameters and those of `parameters` that no flag here is about.
    ///
    /// # Errors
    /// When the policy decides over time, and not here.
    pub(crate) fn find(&self, name: &str, parameters: Parameters) -> Result<Box<dyn Policy>, Failure> {
        let found = policy::find(name, self.tuning.of(parameters));
        found.ok_or_else(|| Failure::new(Exit::Usage, PolicyName::refusal(name)))
    }

    /// Returns the flags that say it, without those that have their usual values: `--policy jps --alpha 0.5`.
    pub(crate) fn words(&self) -> String {
        self.tuning.words(&self.policy)
    }

    /// Returns whether anything was chosen.
    pub(crate) fn says_something(&self) -> bool {
        let Nothing { policy, .. } = Nothing::parse_from([""]);
        *self != policy
    }

    /// Returns the seed of all random choices.
    pub(crate) fn seed(&self) -> u64 {
        self.tuning.seed
    }

    /// Returns what is to be minimised.
    pub(crate) fn objective(&self) -> Objective {
        self.tuning.objective()
    }
}

impl OverTimeArgs {
    /// Returns the policy, for devices that nobody else uses.
    ///
    /// # Errors
    /// When it is `mlf-rl` without a net.
    pub(crate) fn find(&self) -> Result<Box<dyn Policy>, Failure> {
        let hadar = self.hadar.parameters(None);
        let net = self.net.net(std::iter::once(self.policy.as_str()))?;
        let parameters = Parameters { carrying: Carrying::Alone, hadar, net, ..Parameters::default() };
        let found = policy::find_over_time(&self.policy, self.tuning.of(parameters));
        found.ok_or_else(|| unregistered(&self.policy))
    }

    /// Returns the flags that say it.
    pub(crate) fn words(&self) -> String {
        let own = if self.policy == "hadar" { self.hadar.words() } else { Vec::new() };
        [vec![self.tuning.words(&self.policy)], own, self.net.words()].concat().join(" ")
    }

    /// Returns the seed of all random choices.
    pub(crate) fn seed(&self) -> u64 {
        self.tuning.seed
    }

    /// Returns what is to be minimised.
    pub(crate) fn objective(&self) -> Objective {
        self.tuning.objective()
    }
}

/// A command line that says nothing of policies.
#[derive(clap::Parser)]
struct Nothing {
    #[command(flatten)]
    policy: PolicyArgs,
}

fn unregistered(name: &str) -> Failure {
    Failure::new(Exit::Internal, format!("policy {name} is not registered"))
}

impl Tuning {
    /// Returns parameters with those that these flags are about.
    fn of(&self, parameters: Parameters) -> Parameters {
        let Self { alpha, beta, samples, use_all, .. } = *self;
        Parameters {
            jps: JpsParameters { alpha, beta, samples },
            optimal: OptimalParameters { use_all },
            ..parameters
        }
    }

    fn words(&self, policy: &str) -> String {
        let usual = Nothing::parse_from([""]).policy.tuning;
        let mut words = vec![format!("--policy {policy}")];
        let mut say = |differs: bool, flag: &str, value: String| {
            words.extend(differs.then(|| format!("--{flag} {value}")));
        };
        say(self.objective != usual.objective, "objective", self.objective.clone());
        if policy == "jps" {
            say(self.alpha != usual.alpha, "alpha", self.alpha.to_string());
            say(self.beta != usual.beta, "beta", self.beta.to_string());
            say(self.samples != usual.samples, "samples", self.samples.to_string());
        }
        say(self.seed != usual.seed, "seed", self.seed.to_string());
        words.extend((self.use_all && policy == "optimal").then(|| "--use-all".to_owned()));
        words.join(" ")
    }

    fn objective(&self) -> Objective {
        let named = Objective::NAMES.iter().find(|(name, _)| *name == self.objective);
        named.map_or_else(Objective::default, |&(_, objective)| objective)
    }
}

fn fraction(text: &str) -> Result<f64, String> {
    let number: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    if (0.0..=1.0).contains(&number) { Ok(number) } else { Err("must be between 0 and 1".into()) }
}
