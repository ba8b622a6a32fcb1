//! The registry entries of `hlas` and `hlas-p`.

use crate::hlas::{Grouping, Hlas, HlasParameters, TasksOfHlas};
use crate::{LabPolicy, TaskMaker};
use hsched_model::formats::{parse_duration, parse_number};
use hsched_plan::{Entry, ExecutionMode, Flag, FlagKind, Knowledge, Make, Parameters};

pub(crate) const HLAS: LabPolicy = LabPolicy {
    entry: Entry {
        name: "hlas",
        make: Make::Policy {
            make: |values| Ok(Box::new(Hlas::new(parameters(values, false)?))),
            watched: true,
        },
        objectives: &[],
        flags: &[&GROUPS, &THRESHOLDS, &PROMOTE],
        knows: &[Knowledge::Speeds],
        knows_replicas: false,
    },
    tasks: Some(TaskMaker {
        flags: &[],
        make: |values| Ok(Box::new(TasksOfHlas { parameters: parameters(values, false)? })),
    }),
};

pub(crate) const HLAS_P: LabPolicy = LabPolicy {
    entry: Entry {
        name: "hlas-p",
        make: Make::Policy {
            make: |values| Ok(Box::new(Hlas::new(parameters(values, true)?))),
            watched: true,
        },
        knows: &[Knowledge::Speeds, Knowledge::Losses],
        ..HLAS.entry
    },
    tasks: Some(TaskMaker {
        flags: &[],
        make: |values| Ok(Box::new(TasksOfHlas { parameters: parameters(values, true)? })),
    }),
};

const GROUPS: Flag = Flag {
    name: "groups",
    value_name: "GROUPS",
    kind: FlagKind::Text(|text| grouping(text).map(drop)),
    usual: Some("gpus"),
    help: "hlas: groups in which GPUs are allocated: individual GPUs (gpus), the GPUs of a node (nodes), or a number of \
           groups of nearly equal size",
};

const THRESHOLDS: Flag = Flag {
    name: "thresholds",
    value_name: "DURATIONS",
    kind: FlagKind::Text(|text| thresholds(text).map(drop)),
    usual: None,
    help: "hlas: thresholds of average service per group, in ascending order, such as 5m,10m,20m; a job that reaches one \
           moves down a level [default: 5 rounds of the median job, then doubled four times]",
};

const PROMOTE: Flag = Flag {
    name: "promote",
    value_name: "FACTOR",
    kind: FlagKind::Text(|text| factor(text).map(drop)),
    usual: None,
    help: "hlas: move a job to the first level when its wait since its last round exceeds this multiple of its service \
           [default: never]",
};

fn parameters(parameters: &Parameters, predicts: bool) -> Result<HlasParameters, String> {
    let thresholds =
        parameters.is_given(&THRESHOLDS).then(|| parameters.value(&THRESHOLDS, thresholds)).transpose()?;
    let promote = parameters.is_given(&PROMOTE).then(|| parameters.value(&PROMOTE, factor)).transpose()?;
    let (grouping, keeps_gpus) =
        (parameters.value(&GROUPS, grouping)?, parameters.carrying != ExecutionMode::Shared);
    Ok(HlasParameters { predicts, grouping, thresholds, promote, keeps_gpus })
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

/// Parses durations separated by commas, in any order; returns them in seconds in ascending order.
fn thresholds(text: &str) -> Result<Vec<f64>, String> {
    let read = |one: &str| parse_duration(one).map(|duration| duration.0).map_err(|error| error.to_string());
    let mut all = text.split(',').map(read).collect::<Result<Vec<f64>, String>>()?;
    all.sort_by(f64::total_cmp);
    Ok(all)
}

fn factor(text: &str) -> Result<f64, String> {
    let number = parse_number(text).map_err(|error| error.to_string())?;
    if number > 0.0 { Ok(number) } else { Err("must be above 0".to_owned()) }
}
