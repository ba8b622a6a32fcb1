//! What policies know of jobs: a policy that knows more is not better for it.

/// Something about jobs that a policy goes by, beside the GPUs that they ask for and that they are there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Knowledge {
    /// How much each job has left to train.
    Lengths,
    /// How fast each job is on each GPU type.
    Speeds,
    /// When jobs arrive that are not there yet.
    Arrivals,
    /// The losses that jobs have reported.
    Losses,
    /// Deadlines and urgencies.
    Deadlines,
}

impl Knowledge {
    /// Everything, in the order of tables.
    pub const ALL: [Self; 5] = [Self::Lengths, Self::Speeds, Self::Arrivals, Self::Losses, Self::Deadlines];

    /// Returns it in a word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Lengths => "lengths",
            Self::Speeds => "speeds",
            Self::Arrivals => "arrivals",
            Self::Losses => "losses",
            Self::Deadlines => "deadlines",
        }
    }

    /// Returns several in words.
    pub fn words(several: &[Self]) -> String {
        if several.is_empty() {
            return "nothing".to_owned();
        }
        several.iter().map(|knowledge| knowledge.word()).collect::<Vec<_>>().join(", ")
    }
}
