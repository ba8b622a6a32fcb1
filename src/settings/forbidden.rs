//! What a site's administrators may switch off for everybody.

/// A feature that can be switched off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Feature {
    /// `hsched submit --race`: several requests for one job.
    Race,
    /// `hsched submit --together`, and `hsched run` in a job of Slurm.
    Together,
    /// `hsched when` and `--queue`, which read the whole queue and what everybody ran.
    Queue,
}

impl Feature {
    /// All features with their names in the setting `forbid`.
    pub const NAMES: [(&'static str, Self); 3] =
        [("race", Self::Race), ("together", Self::Together), ("queue", Self::Queue)];

    /// Returns the feature's name.
    pub fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(_, feature)| *feature == self).map_or("", |(name, _)| name)
    }
}
