//! The knowledge of policies about jobs; results of policies are comparable only with equal knowledge.

/// Knowledge about jobs that a policy uses, besides their presence and their requested GPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Knowledge {
    /// The remaining epochs of each job.
    Lengths,
    /// The speed of each job on each GPU type.
    Speeds,
    /// Future arrivals of jobs.
    Arrivals,
    /// The losses reported by jobs.
    Losses,
    /// Deadlines and urgencies.
    Deadlines,
}

impl Knowledge {
    /// All kinds, in the order of tables.
    pub const ALL: [Self; 5] = [Self::Lengths, Self::Speeds, Self::Arrivals, Self::Losses, Self::Deadlines];

    /// Returns the name of this knowledge in one word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Lengths => "lengths",
            Self::Speeds => "speeds",
            Self::Arrivals => "arrivals",
            Self::Losses => "losses",
            Self::Deadlines => "deadlines",
        }
    }

    /// Returns several kinds in words.
    pub fn words(several: &[Self]) -> String {
        if several.is_empty() {
            return "nothing".to_owned();
        }
        several.iter().map(|knowledge| knowledge.word()).collect::<Vec<_>>().join(", ")
    }
}
