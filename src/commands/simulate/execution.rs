//! Flags of the policies that share out single tasks, and whether a simulation does so.

use clap::ValueEnum;
use clap::builder::PossibleValuesParser;

use crate::formats;
use crate::model::Seconds;
use crate::policy::{Assign, Grouping, HlasParameters};
use crate::replay::TaskPolicy;

/// How jobs of `hare`, `hlas` and `hlas-p` run.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Policies hare, hlas and hlas-p")]
pub(super) struct ExecutionArgs {
    /// Whether each task of a job computes by itself at any time, as in the papers, or all GPUs of a job compute
    /// together, as on a cluster.
    #[arg(long, value_enum, default_value_t, value_name = "HOW")]
    pub execution: Execution,
    /// hare: whether a task goes to the GPU that is free first (available), to the GPU on which it ends first
    /// (finish), or also into gaps between earlier tasks (insert).
    #[arg(long, value_name = "HOW", default_value = "finish",
          value_parser = PossibleValuesParser::new(Assign::NAMES.map(|(name, _)| name)))]
    assign: String,
    /// hlas: groups in which GPUs are allocated: individual GPUs (gpus), the GPUs of a node (nodes), or a number of
    /// groups of nearly equal size.
    #[arg(long, value_name = "GROUPS", default_value = "gpus", value_parser = grouping)]
    groups: Grouping,
    /// hlas: thresholds of average service per group, in ascending order, such as 5m,10m,20m; a job that exceeds one
    /// moves down a level [default: 5 rounds of the median job, then doubled four times].
    #[arg(long, value_name = "DURATIONS", value_delimiter = ',', value_parser = service)]
    thresholds: Option<Vec<Seconds>>,
    /// hlas: move a job to the first level when its wait since its last round exceeds this multiple of its
    /// service [default: never].
    #[arg(long, value_name = "FACTOR", value_parser = factor)]
    promote: Option<f64>,
}

/// What is given to a job at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum Execution {
    /// One GPU for one task.
    #[default]
    Tasks,
    /// All GPUs of the job, for whole epochs.
    Gangs,
}

impl ExecutionArgs {
    /// Returns those of these policies that are replayed task by task.
    pub(super) fn task_policies(&self, names: &[String]) -> Vec<TaskPolicy> {
        if self.execution == Execution::Gangs {
            return Vec::new();
        }
        let hlas = |predicts| TaskPolicy::Hlas(HlasParameters { predicts, ..self.hlas() });
        let known = [TaskPolicy::Hare(self.assign()), hlas(false), hlas(true)];
        known.into_iter().filter(|policy| names.iter().any(|name| name == policy.name())).collect()
    }

    fn assign(&self) -> Assign {
        let named = Assign::NAMES.iter().find(|(name, _)| *name == self.assign);
        named.map_or_else(Assign::default, |(_, own)| *own)
    }

    /// Returns the parameters of `hlas`.
    pub(super) fn hlas(&self) -> HlasParameters {
        let thresholds = |own: &Vec<Seconds>| {
            let mut own: Vec<f64> = own.iter().map(|threshold| threshold.0).collect();
            own.sort_by(f64::total_cmp);
            own
        };
        HlasParameters {
            predicts: false,
            grouping: self.groups,
            thresholds: self.thresholds.as_ref().map(thresholds),
            promote: self.promote,
        }
    }
}

fn grouping(text: &str) -> Result<Grouping, String> {
    match text {
        "gpus" => Ok(Grouping::Gpus),
        "nodes" => Ok(Grouping::Nodes),
        _ => match text.parse() {
            Ok(number) if number > 0 => Ok(Grouping::Number(number)),
            _ => Err("must be gpus, nodes or a number of groups, at least 1".to_owned()),
        },
    }
}

fn service(text: &str) -> Result<Seconds, String> {
    formats::parse_duration(text).map_err(|error| error.to_string())
}

fn factor(text: &str) -> Result<f64, String> {
    let number = formats::parse_number(text).map_err(|error| error.to_string())?;
    if number > 0.0 { Ok(number) } else { Err("must be above 0".to_owned()) }
}
