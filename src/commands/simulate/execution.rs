//! Whether a simulation schedules single tasks, and the flags of the policies that do so.

use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Command, ValueEnum};

use crate::app::policy_flags::argument;
use hsched_lab::replay::TaskPolicy;
use hsched_lab::{LabPolicy, POLICIES, TaskMaker};
use hsched_model::ErrorId;
use hsched_plan::{Flag, Parameters};
use hsched_ui::{Exit, Failure};

/// How jobs run under policies that schedule single tasks in their papers.
#[derive(Debug)]
pub(super) struct ExecutionArgs {
    pub execution: Execution,
    /// The given flags that only apply to a replay of single tasks.
    given: Vec<(&'static Flag, String)>,
}

/// The unit of allocation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum Execution {
    /// One GPU for one task.
    #[default]
    Tasks,
    /// All GPUs of a job, for whole epochs.
    Gangs,
}

impl ExecutionArgs {
    /// Returns those of these policies that are replayed task by task.
    ///
    /// # Errors
    /// If a parameter of a policy is invalid.
    pub(super) fn task_policies(
        &self,
        names: &[String],
        parameters: &Parameters,
    ) -> Result<Vec<Box<dyn TaskPolicy>>, Failure> {
        if self.execution == Execution::Gangs {
            return Ok(Vec::new());
        }
        let mut parameters = parameters.clone();
        for (flag, value) in &self.given {
            parameters = parameters.with(flag.name, value.clone());
        }
        let wanted = makers().filter(|(policy, _)| names.iter().any(|name| name == policy.entry.name));
        let made = wanted.map(|(_, tasks)| (tasks.make)(&parameters));
        made.collect::<Result<_, _>>()
            .map_err(|why: String| Failure::new(Exit::Usage, why).id(ErrorId::PolicyOption))
    }
}

/// Returns all policies that schedule single tasks.
fn makers() -> impl Iterator<Item = (&'static LabPolicy, &'static TaskMaker)> {
    POLICIES.iter().filter_map(|policy| Some((policy, policy.tasks.as_ref()?)))
}

fn flags() -> impl Iterator<Item = &'static Flag> {
    makers().flat_map(|(_, tasks)| tasks.flags.iter().copied())
}

impl clap::Args for ExecutionArgs {
    fn augment_args(command: Command) -> Command {
        let names: Vec<&str> = makers().map(|(policy, _)| policy.entry.name).collect();
        let heading = match names.split_last() {
            Some((last, rest)) => format!("Policies {} and {last}", rest.join(", ")),
            None => String::new(),
        };
        let execution = Arg::new("execution")
            .long("execution")
            .value_name("HOW")
            .value_parser(clap::builder::EnumValueParser::<Execution>::new())
            .default_value("tasks")
            .help_heading(heading.clone())
            .help(
                "Whether each task of a job computes by itself at any time, as in the papers, or all GPUs of a job \
                 compute together, as on a cluster",
            );
        flags().fold(command.arg(execution), |command, flag| command.arg(argument(flag, heading.clone())))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl clap::FromArgMatches for ExecutionArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let given = flags().filter(|flag| matches.value_source(flag.name) == Some(ValueSource::CommandLine));
        let value = |flag: &'static Flag| Some((flag, matches.get_one::<String>(flag.name)?.clone()));
        Ok(Self {
            execution: matches.get_one("execution").copied().unwrap_or_default(),
            given: given.filter_map(value).collect(),
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
