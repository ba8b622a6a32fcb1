//! The state as JSON (schema `hsched.state/3`), and back.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::store::{StateError, state_before};
use crate::{Phase, State};
use hsched_model::Time;

/// The schema that this version writes.
const SCHEMA: &str = "hsched.state/3";

/// A snapshot of the state. Times are Unix seconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct StateFile {
    pub(super) schema: String,
    /// The last journal line that the state includes.
    pub(super) seq: u64,
    /// When the file was written; version 0.1.0 did not record this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) at: Option<Time>,
    #[serde(flatten)]
    pub(super) claim: Claim,
    /// The state with an empty cache.
    #[serde(flatten)]
    pub(super) state: State,
}

/// Data of a state directory besides the jobs' state.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Claim {
    /// Slurm's name of the cluster with the jobs, or a fixed name for local devices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) cluster: Option<String>,
    /// The applied deferred commands whose files may still exist.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub(super) taken: BTreeSet<String>,
    /// The number of times that the measured speeds had been saved; 0 if never.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(super) speeds: u64,
}

/// Why a text is not a state that this version can use.
#[derive(Debug)]
pub(super) enum UnusableState {
    /// Another version wrote the state.
    Foreign(String),
    /// It is damaged or has other content.
    Wrong(String),
}

impl StateFile {
    /// Returns the snapshot of a state at line `seq` of the journal.
    pub(super) fn new(state: &State, seq: u64, at: Time, claim: Claim) -> Self {
        // The speeds are stored in a separate file.
        let state = State {
            nodes_down: state.nodes_down.clone(),
            nodes_reserved: state.nodes_reserved.clone(),
            memory: state.memory.clone(),
            planned_by: state.planned_by.clone(),
            node_times: state.node_times.clone(),
            jobs: state.jobs.clone(),
            scripts: state.scripts.clone(),
            decided: state.decided,
            wake: state.wake,
            ..State::default()
        };
        Self { schema: SCHEMA.to_owned(), seq, at: Some(at), claim, state }
    }

    /// Reads a snapshot of this version or a previous one.
    ///
    /// # Errors
    /// The fault of the text.
    pub(super) fn parse(text: &[u8]) -> Result<Self, UnusableState> {
        let file = match serde_json::from_slice::<Self>(text) {
            Ok(file) if file.schema == SCHEMA => file,
            other => Self::parse_before(text, other.err())?,
        };
        file.check().map_err(UnusableState::Wrong)?;
        Ok(file)
    }

    /// Parses a snapshot that is damaged or of another version; `error` is the error of reading it as this
    /// version's, if there was one.
    fn parse_before(text: &[u8], error: Option<serde_json::Error>) -> Result<Self, UnusableState> {
        let wrong = |error: serde_json::Error| UnusableState::Wrong(error.to_string());
        let mut value: Value = serde_json::from_slice(text).map_err(wrong)?;
        let schema = value.get("schema").and_then(Value::as_str).unwrap_or("missing").to_owned();
        match error {
            Some(error) if schema == SCHEMA => Err(wrong(error)),
            _ if state_before::upgrade(&mut value) => serde_json::from_value(value).map_err(wrong),
            _ => {
                let what = format!("its schema is {schema}; this version reads {SCHEMA}");
                Err(if is_foreign(&schema) {
                    UnusableState::Foreign(what)
                } else {
                    UnusableState::Wrong(what)
                })
            }
        }
    }

    /// Checks constraints that the types do not express.
    ///
    /// # Errors
    /// The violated constraint.
    pub(super) fn check(&self) -> Result<(), String> {
        let mut names = BTreeSet::new();
        for tracked in &self.state.jobs {
            let name = &tracked.job.name;
            if !names.insert(name) {
                return Err(format!("job {name} appears twice"));
            }
            if matches!(&tracked.phase, Phase::Submitted(submissions) if submissions.is_empty()) {
                return Err(format!("job {name} is submitted but has no submission"));
            }
        }
        Ok(())
    }

    /// Returns whether a version without checksums wrote the snapshot.
    pub(super) fn is_unsealed(&self) -> bool {
        self.schema == state_before::UNSEALED
    }

    /// Returns the file's text.
    ///
    /// # Errors
    /// If the state cannot be represented as JSON.
    pub(super) fn to_json(&self) -> Result<String, StateError> {
        let mut text = serde_json::to_string_pretty(self).map_err(|source| StateError::Json { source })?;
        text.push('\n');
        Ok(text)
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// Returns whether a schema is that of a state in any version.
fn is_foreign(schema: &str) -> bool {
    let version = schema.strip_prefix("hsched.state/").unwrap_or_default();
    !version.is_empty() && version.bytes().all(|byte| byte.is_ascii_digit())
}
