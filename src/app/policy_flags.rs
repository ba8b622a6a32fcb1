//! The command-line flags of individual policies, from the registry.

use std::marker::PhantomData;
use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, StringValueParser, TypedValueParser};
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command};

use crate::app::input;
use hsched_model::ErrorId;
use hsched_plan::{Entry, Flag, FlagKind, Parameters};
use hsched_ui::{Exit, Failure};

/// Selects the policies whose flags a command has.
pub(crate) trait PolicyFlagSet {
    /// Returns whether the command has the flags of a policy.
    fn has(entry: &Entry) -> bool;
}

/// Policies that place all jobs at one point in time.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Placers {}

/// Policies over time for a cluster with other users.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum WatchedOverTime {}

/// All policies.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum AllPolicies {}

/// The policy flags that were given.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PolicyFlags<O> {
    values: Vec<(&'static Flag, String)>,
    offer: PhantomData<O>,
}

impl PolicyFlagSet for Placers {
    fn has(entry: &Entry) -> bool {
        entry.is_placer()
    }
}

impl PolicyFlagSet for WatchedOverTime {
    fn has(entry: &Entry) -> bool {
        entry.is_watched() && !entry.is_placer()
    }
}

impl PolicyFlagSet for AllPolicies {
    fn has(_: &Entry) -> bool {
        true
    }
}

impl<O: PolicyFlagSet> PolicyFlags<O> {
    /// Returns `parameters` with the values of these flags; files are read. A file that one of `policies`
    /// needs must be given.
    ///
    /// # Errors
    /// If a policy needs a file that was not given, or a file is invalid.
    pub(crate) fn parameters(
        &self,
        parameters: Parameters,
        policies: &[&str],
    ) -> Result<Parameters, Failure> {
        let registry = hsched_lab::registry();
        for flag in policies.iter().filter_map(|name| registry.entry(name)).flat_map(|entry| entry.flags) {
            if let FlagKind::File { missing: [what, hint], .. } = flag.kind
                && !self.values.iter().any(|(candidate, _)| candidate.name == flag.name)
            {
                return Err(Failure::new(Exit::Usage, what).id(ErrorId::PolicyOption).hint(hint));
            }
        }
        self.values.iter().try_fold(parameters, |parameters, (flag, value)| {
            let value = content(flag, value)?;
            Ok(parameters.with(flag.name, value))
        })
    }

    /// Returns the flags of a policy with non-default values, as on a command line.
    pub(crate) fn words(&self, policy: &str) -> Vec<String> {
        let registry = hsched_lab::registry();
        let known_flags: Vec<&str> =
            registry.entry(policy).iter().flat_map(|entry| entry.flags).map(|flag| flag.name).collect();
        let given = self
            .values
            .iter()
            .filter(|(flag, value)| known_flags.contains(&flag.name) && flag.usual != Some(value.as_str()));
        given
            .map(|(flag, value)| match flag.kind {
                FlagKind::Switch => format!("--{}", flag.name),
                _ => format!("--{} {}", flag.name, shell_words::quote(value)),
            })
            .collect()
    }
}

/// Returns the value of a flag, or the content if it names a file.
fn content(flag: &Flag, value: &str) -> Result<String, Failure> {
    let FlagKind::File { check, hint, .. } = flag.kind else { return Ok(value.to_owned()) };
    let path = PathBuf::from(value);
    let text = input::text(&path)?;
    check(&text).map_err(|why| {
        Failure::new(Exit::BadInput, format!("{}: {why}", input::name(&path)))
            .id(ErrorId::PolicyOption)
            .hint(hint)
    })?;
    Ok(text)
}

/// Returns the flags of the offered policies, each once, with the names of the policies that have it.
fn flags<O: PolicyFlagSet>() -> Vec<(&'static Flag, Vec<&'static str>)> {
    let mut flags: Vec<(&'static Flag, Vec<&'static str>)> = Vec::new();
    for entry in hsched_lab::registry().entries().filter(|entry| O::has(entry)) {
        for &flag in entry.flags {
            match flags.iter_mut().find(|(candidate, _)| candidate.name == flag.name) {
                Some((_, owners)) => owners.push(entry.name),
                None => flags.push((flag, vec![entry.name])),
            }
        }
    }
    flags
}

/// Returns the argument of a flag.
pub(crate) fn argument(flag: &'static Flag, heading: String) -> Arg {
    let argument = Arg::new(flag.name).long(flag.name).help(flag.help).help_heading(heading);
    let argument = match flag.kind {
        FlagKind::Switch => return argument.action(ArgAction::SetTrue),
        FlagKind::Choice(words) => argument.value_parser(PossibleValuesParser::new(words)),
        FlagKind::Text(check) => {
            argument.value_parser(StringValueParser::new().try_map(move |text| check(&text).map(|()| text)))
        }
        FlagKind::File { .. } => {
            argument.value_parser(StringValueParser::new()).value_hint(clap::ValueHint::FilePath)
        }
    };
    argument.value_name(flag.value_name).default_value(flag.usual)
}

impl<O: PolicyFlagSet> clap::Args for PolicyFlags<O> {
    fn augment_args(command: Command) -> Command {
        flags::<O>().into_iter().fold(command, |command, (flag, owners)| {
            let heading = match owners.as_slice() {
                [one] => format!("Policy {one}"),
                several => format!("Policies {}", several.join(" and ")),
            };
            command.arg(argument(flag, heading))
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<O: PolicyFlagSet> clap::FromArgMatches for PolicyFlags<O> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let given = |(flag, _): &(&'static Flag, Vec<&str>)| {
            matches.value_source(flag.name) == Some(ValueSource::CommandLine)
        };
        let value = |(flag, _): (&'static Flag, Vec<&str>)| match flag.kind {
            FlagKind::Switch => (flag, String::new()),
            _ => (flag, matches.get_one::<String>(flag.name).cloned().unwrap_or_default()),
        };
        Ok(Self { values: flags::<O>().into_iter().filter(given).map(value).collect(), offer: PhantomData })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
