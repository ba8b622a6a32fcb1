//! The reaction to a stuck training.

/// The reaction to a training with idle GPUs, with a stopped rank, or without steps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StuckRule {
    /// Report it.
    #[default]
    Warn,
    /// End the job, which fails.
    Stop,
    /// End and restart it, which uses a retry.
    Restart,
}

impl StuckRule {
    /// All rules with their names in job files.
    pub const NAMES: [(&'static str, Self); 3] =
        [("warn", Self::Warn), ("stop", Self::Stop), ("restart", Self::Restart)];

    /// Returns the rule's name in job files.
    pub fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(_, rule)| *rule == self).map_or("", |(name, _)| name)
    }
}
