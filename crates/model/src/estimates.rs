//! Whether unmeasured speeds may be estimated.

/// The estimates that the user allows for a job. Without them, a job uses only GPU types that its file lists
/// or on which its model was measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Estimates {
    /// No estimates.
    #[default]
    Off,
    /// Estimates from ratios of at least two measured models.
    Learnt,
    /// Also estimates from the job files' own ratios and from the table of GPUs.
    All,
}

impl Estimates {
    /// All values, with their names in files and on the command line.
    pub const NAMES: [(&'static str, Self); 3] =
        [("off", Self::Off), ("learnt", Self::Learnt), ("all", Self::All)];

    /// Returns the name in files and on the command line.
    pub fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(_, estimates)| *estimates == self).map_or("", |(name, _)| name)
    }
}
