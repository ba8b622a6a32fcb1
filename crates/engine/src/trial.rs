//! GPU types on trial: types that a job's file does not list.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use hsched_model::GpuType;
use hsched_plan::{Placement, Problem};

/// Why a GPU type is on trial for a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TypeTrial {
    /// The job's model was not measured there, so its speed is an estimate.
    Estimated,
    /// The job's model was measured there, but the job file does not list the type.
    Unlisted,
}

/// The types on trial of one submission.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trials(pub BTreeMap<GpuType, TypeTrial>);

impl Trials {
    /// Returns the types on trial among those of a placement; `job` is the job's index in the problem.
    pub fn of(problem: &Problem, job: usize, placement: &Placement) -> Self {
        let trial = |number: usize| {
            let model = problem.jobs.get(job)?;
            let trial = match () {
                () if model.is_estimated(number) => TypeTrial::Estimated,
                () if model.unlisted.contains(&number) => TypeTrial::Unlisted,
                () => return None,
            };
            Some((problem.gpu_types[number].clone(), trial))
        };
        Self(placement.slots.iter().filter_map(|slot| trial(slot.gpu_type)).collect())
    }

    /// Returns whether no type is on trial.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns which speeds are estimated, as the end of a sentence about the submission; empty if none is.
    pub fn clause(&self) -> String {
        let estimated = self.0.iter().filter(|(_, trial)| **trial == TypeTrial::Estimated);
        let names: Vec<&str> = estimated.map(|(gpu_type, _)| gpu_type.as_str()).collect();
        match names.as_slice() {
            [] => String::new(),
            [one] => format!(" (estimated: speed on {one} was never measured)"),
            many => format!(" (estimated: speeds on {} were never measured)", many.join(", ")),
        }
    }
}
