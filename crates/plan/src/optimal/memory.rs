//! Memory of `optimal` between two decisions: the prices of the last plan of many jobs, by the labels of GPU
//! types.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::bound::Bound;
use crate::{Memory, Problem};

/// The name of the policy.
pub(super) const NAME: &str = "optimal";

/// The version of the stored format. Prices of another version are ignored, which costs the next decision
/// some time.
const VERSION: u32 = 1;

/// Prices from which the next search starts.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
pub(super) struct LastPrices {
    /// Weighted seconds per GPU, by the label of its type.
    by_label: BTreeMap<String, f64>,
}

impl LastPrices {
    /// Returns the prices of a plan.
    pub(super) fn of(problem: &Problem, bound: &Bound) -> Self {
        Self { by_label: problem.labels.iter().cloned().zip(bound.prices.iter().copied()).collect() }
    }

    /// Returns the prices by type; `None` if a type has none.
    pub(super) fn by_type(&self, problem: &Problem) -> Option<Vec<f64>> {
        problem.labels.iter().map(|label| self.by_label.get(label).copied()).collect()
    }

    /// Writes the prices as text; `None` if there are none.
    pub(super) fn write(&self) -> Option<Memory> {
        if self.by_label.is_empty() {
            return None;
        }
        let text = serde_json::to_string(self).ok()?;
        Some(Memory { policy: NAME.to_owned(), version: VERSION, text })
    }

    /// Returns the prices in a memory; empty if it belongs to another policy or version, or is invalid.
    pub(super) fn read(memory: &Memory) -> Self {
        let is_known = memory.policy == NAME && memory.version == VERSION;
        let read: Option<Self> = is_known.then(|| serde_json::from_str(&memory.text).ok()).flatten();
        let is_price = |price: &f64| price.is_finite() && *price >= 0.0;
        read.filter(|prices| prices.by_label.values().all(is_price)).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prices_are_read_as_they_were_written() {
        let prices = LastPrices { by_label: [("v100".to_owned(), 1.0 / 3.0), ("t4".to_owned(), 0.0)].into() };
        let memory = prices.write().expect("something to say");
        assert_eq!(LastPrices::read(&memory), prices);
        let nothing = LastPrices::default();
        assert_eq!(nothing.write(), None);
        for other in [
            Memory { version: 2, ..memory.clone() },
            Memory { policy: "horizon".to_owned(), ..memory.clone() },
            Memory { text: "{".to_owned(), ..memory.clone() },
            Memory { text: r#"{"by_label": {"t4": -1.0}}"#.to_owned(), ..memory },
        ] {
            assert_eq!(LastPrices::read(&other), nothing);
        }
    }
}
