//! Whether speeds that were never measured may be estimated.

/// Which estimates a job's owner allows. Without them a job goes only to GPU types that its file lists, or on which
/// its model was measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Estimates {
    /// None.
    #[default]
    Off,
    /// Those by ratios that at least two measured models have shown.
    Learnt,
    /// Those by the job files' own ratios and the table of GPUs, too.
    All,
}

impl Estimates {
    /// All with their names in files and on the command line.
    pub const NAMES: [(&'static str, Self); 3] =
        [("off", Self::Off), ("learnt", Self::Learnt), ("all", Self::All)];

    /// Returns the name in files and on the command line.
    pub fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(_, estimates)| *estimates == self).map_or("", |(name, _)| name)
    }
}
