//! The rules by which a job may end before its last epoch.

/// The rules by which a job may stop early. Each is weaker than the one before: it lets a job stop sooner. `Halving` is no
/// question of its curve alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum StopRule {
    /// Train all epochs.
    Epochs,
    /// Stop when no better value of the metric is to be expected.
    Best,
    /// Stop when the target is reached.
    Target,
    /// Stop where it falls behind the other jobs of its sweep.
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

    /// Those that judge a job by its curve alone.
    pub const OF_CURVE: [(&'static str, Self); 3] = [Self::NAMES[0], Self::NAMES[1], Self::NAMES[2]];

    /// Returns the rule's name in job files.
    pub fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(_, rule)| *rule == self).map_or("", |(name, _)| name)
    }
}

/// What a job's owner allows.
#[derive(Clone, Debug, PartialEq)]
pub struct Stop {
    pub rule: StopRule,
    /// Holds while others wait for GPUs, if it is weaker than `rule`.
    pub when_busy: StopRule,
    /// The job may stop when so many epochs have brought nothing better; `None` is no limit.
    pub patience: Option<u64>,
    /// Epochs that are trained whatever is expected.
    pub not_before: u64,
    /// In how many groups halving compares the jobs of a sweep, each judged for the first time a rung later than the one before.
    pub brackets: u32,
    /// How certain a prediction must be, in (0.5, 1).
    pub confidence: f64,
    /// Whether it may stop because the target is out of reach.
    pub give_up: bool,
}

impl Stop {
    /// Returns the rule that holds now.
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
