//! A value as typed, and its origin.

use std::fmt;
use std::path::PathBuf;

use super::keys::Key;

/// A layer of settings; later ones take precedence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Layer {
    Default,
    Site,
    User,
    Project,
    Environment,
    Flag,
}

/// Where a value was typed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Built in.
    Default,
    /// A site, user or project file and the line in it; 0 for the whole file.
    File { layer: Layer, path: PathBuf, line: usize },
    /// An environment variable, by its name.
    Environment { variable: String },
    /// A command-line flag, such as `--set` or `--account`.
    Flag { name: String },
}

/// An unchecked value for a key.
#[derive(Clone, Debug)]
pub(super) struct SettingEntry {
    pub(super) key: &'static Key,
    /// Key inside a table; empty for other settings.
    pub(super) item: String,
    pub(super) typed: EntryValue,
    pub(super) origin: Origin,
}

/// The typed value.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum EntryValue {
    /// Text without a type from a variable, a flag or a default, which may stand for any type.
    Word(String),
    Text(String),
    /// A TOML integer or float in decimal digits.
    Number(String),
    Switch(bool),
    List(Vec<String>),
    /// A value that no key accepts, described for messages.
    Other(&'static str),
}

impl Origin {
    /// Returns the layer of the origin.
    pub fn layer(&self) -> Layer {
        match self {
            Self::Default => Layer::Default,
            Self::File { layer, .. } => *layer,
            Self::Environment { .. } => Layer::Environment,
            Self::Flag { .. } => Layer::Flag,
        }
    }

    /// Returns the line in a file; 0 for other origins.
    pub fn line(&self) -> usize {
        match self {
            Self::File { line, .. } => *line,
            Self::Default | Self::Environment { .. } | Self::Flag { .. } => 0,
        }
    }
}

impl fmt::Display for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Default => "default",
            Self::Site => "site",
            Self::User => "user",
            Self::Project => "project",
            Self::Environment => "environment",
            Self::Flag => "flag",
        })
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.pad("default"),
            Self::File { path, line: 0, .. } => f.pad(&path.display().to_string()),
            Self::File { path, line, .. } => f.pad(&format!("{}:{line}", path.display())),
            Self::Environment { variable } => f.pad(variable),
            Self::Flag { name } => f.pad(name),
        }
    }
}
