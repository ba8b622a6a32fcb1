//! One line of the doctor's output.

use serde_json::{Value, json};

/// The subject of a check, its finding, and advice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Check {
    pub name: &'static str,
    pub level: Level,
    pub found: String,
    pub advice: Option<String>,
}

/// Severity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Level {
    Ok,
    /// It works, but the user should know.
    Note,
    /// Something will fail.
    Problem,
}

impl Level {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Note => "note",
            Self::Problem => "problem",
        }
    }
}

impl Check {
    pub(super) fn ok(name: &'static str, found: impl Into<String>) -> Self {
        Self { name, level: Level::Ok, found: found.into(), advice: None }
    }

    pub(super) fn note(name: &'static str, found: impl Into<String>) -> Self {
        Self { level: Level::Note, ..Self::ok(name, found) }
    }

    pub(super) fn problem(name: &'static str, found: impl Into<String>) -> Self {
        Self { level: Level::Problem, ..Self::ok(name, found) }
    }

    pub(super) fn advise(self, advice: impl Into<String>) -> Self {
        Self { advice: Some(advice.into()), ..self }
    }

    /// Returns finding and advice as text, without terminal control characters.
    pub(super) fn text(&self) -> String {
        let text = match &self.advice {
            Some(advice) => format!("{} → {advice}", self.found),
            None => self.found.clone(),
        };
        text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
    }

    pub(super) fn json(&self) -> Value {
        json!({ "check": self.name, "status": self.level.word(), "found": self.found, "advice": self.advice })
    }
}
