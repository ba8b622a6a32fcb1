//! The state as JSON (schema `hsched.state/3`), and back.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::engine::State;
use crate::model::{NodeName, Time};
use crate::policy::Memory;
use crate::spec;
use crate::store::StateError;
use crate::store::state_job::StateJob;

/// The schema that this version writes.
const SCHEMA: &str = "hsched.state/3";

/// The schemas of previous versions: one submission a job; the first also had no checksum and other fingerprints of
/// decisions.
const ONE_SUBMISSION: &str = "hsched.state/2";
const UNSEALED: &str = "hsched.state/1";

/// A snapshot of the state. Times are Unix seconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct StateFile {
    pub(super) schema: String,
    /// The last line of the journal that it takes in.
    pub(super) seq: u64,
    #[serde(flatten)]
    pub(super) head: StateHead,
    pub(super) jobs: Vec<StateJob>,
}

/// All of a state but its jobs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct StateHead {
    /// Slurm's name of the cluster that the jobs are on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) cluster: Option<String>,
    /// The wishes that it takes in and whose files may still be there.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub(super) taken: BTreeSet<String>,
    decided: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    wake: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    memory: Option<StateMemory>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    planned_by: Option<String>,
    nodes_down: Vec<String>,
}

/// What a policy remembers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct StateMemory {
    policy: String,
    version: u32,
    text: String,
}

impl StateMemory {
    fn new(memory: &Memory) -> Self {
        let Memory { policy, version, text } = memory.clone();
        Self { policy, version, text }
    }

    fn memory(self) -> Memory {
        let Self { policy, version, text } = self;
        Memory { policy, version, text }
    }
}

/// Why a text is no state that this version can use.
#[derive(Debug)]
pub(super) enum Unusable {
    /// Another version wrote it.
    Foreign(String),
    /// It is damaged, or something else.
    Wrong(String),
}

impl StateFile {
    /// Returns the snapshot of a state.
    pub(super) fn new(state: &State, seq: u64, cluster: Option<String>, taken: BTreeSet<String>) -> Self {
        Self {
            schema: SCHEMA.to_owned(),
            seq,
            head: StateHead {
                cluster,
                taken,
                decided: state.decided,
                wake: state.wake.map(|time| time.0),
                memory: state.memory.as_ref().map(StateMemory::new),
                planned_by: state.planned_by.clone(),
                nodes_down: state.nodes_down.iter().map(ToString::to_string).collect(),
            },
            jobs: state.jobs.iter().map(StateJob::new).collect(),
        }
    }

    /// Reads a snapshot of this version or a previous one.
    ///
    /// # Errors
    /// What is wrong with the text.
    pub(super) fn parse(text: &[u8]) -> Result<Self, Unusable> {
        let wrong = |error: serde_json::Error| Unusable::Wrong(error.to_string());
        let value: Value = serde_json::from_slice(text).map_err(wrong)?;
        let schema = value.get("schema").and_then(Value::as_str).unwrap_or("missing");
        if ![SCHEMA, ONE_SUBMISSION, UNSEALED].contains(&schema) {
            let what = format!("its schema is {schema}, this version reads {SCHEMA}");
            return Err(if is_foreign(schema) { Unusable::Foreign(what) } else { Unusable::Wrong(what) });
        }
        // From the text again: its errors name line and column.
        let mut file: Self = serde_json::from_slice(text).map_err(wrong)?;
        if file.is_unsealed() {
            file.head.decided = None;
        }
        Ok(file)
    }

    /// Returns whether a version wrote it that knew no checksums.
    pub(super) fn is_unsealed(&self) -> bool {
        self.schema == UNSEALED
    }

    /// Returns the state, with an empty cache.
    ///
    /// # Errors
    /// What in it cannot be.
    pub(super) fn into_state(self) -> Result<State, String> {
        let node = |name: &String| NodeName::new(name).map_err(|error| error.to_string());
        let specs: Vec<&Value> = self.jobs.iter().map(|job| &job.spec).collect();
        let jobs = if specs.is_empty() {
            Vec::new()
        } else {
            spec::jobs::parse(&json!({ "jobs": specs }).to_string())
                .map_err(|problems| problems.to_string())?
        };
        Ok(State {
            nodes_down: self.head.nodes_down.iter().map(node).collect::<Result<_, _>>()?,
            decided: self.head.decided,
            wake: self.head.wake.map(Time),
            memory: self.head.memory.map(StateMemory::memory),
            planned_by: self.head.planned_by,
            jobs: self
                .jobs
                .into_iter()
                .zip(jobs)
                .map(|(own, job)| own.tracked(job))
                .collect::<Result<_, _>>()?,
            ..State::default()
        })
    }

    /// Returns the file's text.
    ///
    /// # Errors
    /// When a number is not finite.
    pub(super) fn to_json(&self) -> Result<String, StateError> {
        let mut text = serde_json::to_string_pretty(self).map_err(|source| StateError::Json { source })?;
        text.push('\n');
        Ok(text)
    }
}

/// Returns whether a schema is that of a state, of whatever version.
fn is_foreign(schema: &str) -> bool {
    let version = schema.strip_prefix("hsched.state/").unwrap_or_default();
    !version.is_empty() && version.bytes().all(|byte| byte.is_ascii_digit())
}
