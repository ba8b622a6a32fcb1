//! How fast the priorities of pending jobs grow, and how that is known.

use crate::Scheduling;

/// How the growth of priorities is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GrowthSource {
    /// Seen between two looks at the queue.
    Looks,
    /// Computed from `PriorityWeightAge` and `PriorityMaxAge`.
    Weights,
    /// Unknown: priorities are taken to stay as they are.
    Unknown,
}

impl Scheduling {
    /// Returns by how much the priority of a pending job grows in an hour: as seen, else as configured.
    pub fn growth(&self) -> (f64, GrowthSource) {
        let configured =
            self.age.filter(|age| age.max_s.0 > 0.0).map(|age| age.weight * 3600.0 / age.max_s.0);
        match (self.priority_per_hour, configured) {
            (Some(seen), _) => (seen, GrowthSource::Looks),
            (None, Some(configured)) => (configured, GrowthSource::Weights),
            (None, None) => (0.0, GrowthSource::Unknown),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::AgeWeight;
    use hsched_model::Seconds;

    #[test]
    fn growth_is_as_seen_else_as_configured() {
        let age = Some(AgeWeight { weight: 10_000.0, max_s: Seconds(2.0 * 86_400.0) });
        let seen = Scheduling { priority_per_hour: Some(12.0), age, ..Scheduling::default() };
        assert_eq!(seen.growth(), (12.0, GrowthSource::Looks));
        let first = Scheduling { priority_per_hour: None, ..seen };
        assert_eq!(first.growth(), (10_000.0 / 48.0, GrowthSource::Weights));
        assert_eq!(Scheduling::default().growth(), (0.0, GrowthSource::Unknown));
    }
}
