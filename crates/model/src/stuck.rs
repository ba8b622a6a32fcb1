//! What is done about a training that is stuck.

/// What is done about a training whose GPUs do nothing, or that makes no step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StuckRule {
    /// Say so.
    #[default]
    Warn,
    /// End it: the job fails.
    Stop,
    /// End it and start it again, which uses a retry.
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
