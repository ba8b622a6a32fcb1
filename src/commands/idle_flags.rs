//! Flags of policies that were not chosen, which are reported instead of silently ignored.

use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Command};

use crate::app::policy_args::PolicyName;
use crate::commands::simulate::HADARE;

/// Arguments that name policies.
const CHOOSING: [&str; 2] = ["policy", "compare"];

/// Returns a sentence for each flag of the command line that none of the chosen policies has. The help of a
/// policy's own flag begins with the policy's name and a colon.
pub(super) fn sentences(program: &Command, matches: &ArgMatches) -> Vec<String> {
    let Some((name, submatches)) = matches.subcommand() else { return Vec::new() };
    let Some(command) = program.find_subcommand(name) else { return Vec::new() };
    let values = |argument| submatches.try_get_many::<String>(argument).ok().flatten().into_iter().flatten();
    let chosen: Vec<&str> = CHOOSING.into_iter().flat_map(values).map(String::as_str).collect();
    let given = |argument: &&Arg| {
        submatches.value_source(argument.get_id().as_str()) == Some(ValueSource::CommandLine)
    };
    let sentence = |argument: &Arg| {
        let owner = owner(argument)?;
        let flag = argument.get_long()?;
        let is_idle = !chosen.iter().any(|name| is_of(name, &owner));
        is_idle.then(|| {
            format!("--{flag} is for policy {owner}; it has no effect with {}", chosen.join(" and "))
        })
    };
    if chosen.is_empty() {
        Vec::new()
    } else {
        command.get_arguments().filter(given).filter_map(sentence).collect()
    }
}

/// Returns the policy to which a flag belongs, if any.
fn owner(argument: &Arg) -> Option<String> {
    let help = argument.get_help()?.to_string();
    let (name, _) = help.split_once(": ")?;
    let is_policy = PolicyName::all().into_iter().any(|known| is_of(known, name)) || name == HADARE;
    is_policy.then(|| name.to_owned())
}

/// Returns whether a policy has this name or is a variant of it: `hlas-p` is one of `hlas`.
fn is_of(policy: &str, name: &str) -> bool {
    policy.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
}
