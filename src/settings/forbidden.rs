//! Features that a site's administrators can forbid for all users.

/// A feature that can be forbidden.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Feature {
    /// `hsched submit --race`: several requests for one job.
    Race,
    /// `hsched submit --pack` and `--together`, and `hsched run` inside a Slurm job.
    Together,
    /// `hsched when`, `why`, `--queue` and all other estimates that read the whole queue, with the jobs of
    /// all users.
    Queue,
}

impl Feature {
    /// All features with their names in the setting `forbid`.
    pub const NAMES: [(&'static str, Self); 3] =
        [("race", Self::Race), ("together", Self::Together), ("queue", Self::Queue)];

    /// Returns the name of the feature.
    pub fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(_, feature)| *feature == self).map_or("", |(name, _)| name)
    }
}
