//! The rules for ending a job before its last epoch.

/// The rules for early stops. Each is weaker than the previous one and lets a job stop sooner. `Halving`
/// also depends on other jobs' curves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum StopRule {
    /// Train all epochs.
    Epochs,
    /// Stop if no better value of the metric is expected.
    Best,
    /// Stop when the target is reached.
    Target,
    /// Stop if the job falls behind the others of its sweep.
    Halving,
}

impl StopRule {
    /// All rules with their names in job files.
    pub const NAMES: [(&'static str, Self); 4] = [
        ("epochs", Self::Epochs),
        ("best", Self::Best),
        ("target", Self::Target),
        ("halving", Self::Halving),
    ];

    /// The rules that depend only on the job's curve.
    pub const OF_CURVE: [(&'static str, Self); 3] = [Self::NAMES[0], Self::NAMES[1], Self::NAMES[2]];

    /// Returns the rule's name in job files.
    pub fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(_, rule)| *rule == self).map_or("", |(name, _)| name)
    }
}

/// The early stops that the user allows for a job.
#[derive(Clone, Debug, PartialEq)]
pub struct Stop {
    pub rule: StopRule,
    /// Applies while other jobs wait for GPUs, if it is weaker than `rule`.
    pub when_busy: StopRule,
    /// The job may stop after this many epochs without improvement; `None` means no limit.
    pub patience: Option<u64>,
    /// Minimum number of epochs, regardless of predictions.
    pub not_before: u64,
    /// Number of groups in which halving compares the jobs of a sweep; each is first judged one rung later
    /// than the previous one.
    pub brackets: u32,
    /// Required certainty of a prediction, in [0.5, 1).
    pub confidence: f64,
    /// Whether the job may stop because the target is out of reach.
    pub give_up: bool,
}

impl Stop {
    /// Returns the rule that applies now.
    pub fn rule(&self, busy: bool) -> StopRule {
        if busy && self.rule != StopRule::Halving { self.rule.max(self.when_busy) } else { self.rule }
    }
}

impl Default for Stop {
    fn default() -> Self {
        Self {
            rule: StopRule::Epochs,
            when_busy: StopRule::Epochs,
            patience: None,
            not_before: 0,
            brackets: 1,
            confidence: 0.95,
            give_up: false,
        }
    }
}
