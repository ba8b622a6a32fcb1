//! Problems of the settings, each with its place, key and remedy, over all layers.

use std::fmt;

use thiserror::Error;

use super::entry::Origin;
use hsched_model::formats::ValueError;

/// One problem in one layer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingsProblem {
    pub origin: Origin,
    /// The key, such as `capacity.v100`; empty for a whole file and for an unknown variable.
    pub key: String,
    pub error: ValueError,
}

/// All problems of all layers, lowest layer first and by line; never empty.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub struct SettingsProblems(Vec<SettingsProblem>);

impl SettingsProblems {
    /// Returns the problems, lowest layer first.
    pub fn as_slice(&self) -> &[SettingsProblem] {
        &self.0
    }
}

impl From<Vec<SettingsProblem>> for SettingsProblems {
    fn from(mut problems: Vec<SettingsProblem>) -> Self {
        let place = |problem: &SettingsProblem| (problem.origin.layer(), problem.origin.line());
        problems.sort_by_key(place);
        Self(problems)
    }
}

impl From<SettingsProblem> for SettingsProblems {
    fn from(problem: SettingsProblem) -> Self {
        Self(vec![problem])
    }
}

impl fmt::Display for SettingsProblem {
    /// Writes `config.toml:3: capacity.v100: must be at least 0, got -1`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let colon = if self.key.is_empty() { "" } else { ": " };
        write!(f, "{}: {}{colon}{}", self.origin, self.key.escape_debug(), self.error)
    }
}

impl fmt::Display for SettingsProblems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.0.iter().enumerate() {
            write!(f, "{}{problem}", if index == 0 { "" } else { "\n" })?;
        }
        Ok(())
    }
}

impl std::error::Error for SettingsProblem {}
