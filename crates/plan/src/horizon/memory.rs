//! The policy's memory as text: prices by the labels of GPU types.

use serde::{Deserialize, Serialize};

use crate::Memory;
use crate::horizon::outlook::{Crowd, Gap, PriceOutlook};
use crate::horizon::path::{LEVELS, PricePath};

/// The name of the policy.
pub(super) const NAME: &str = "horizon";

/// The version of the stored format. A memory of another version is ignored, which costs some decisions at
/// poor prices.
const VERSION: u32 = 1;

/// The content of the text.
#[derive(Debug, Deserialize, Serialize)]
struct HorizonMemory {
    gpu_types: Vec<TypePrices>,
    /// Mean time between decisions in seconds, the number of averaged intervals, and the time of the last
    /// decision that counts.
    gap: f64,
    gaps: u32,
    last: Option<f64>,
    crowd: Option<Crowd>,
}

/// Prices of one GPU type.
#[derive(Debug, Deserialize, Serialize)]
struct TypePrices {
    label: String,
    now: f64,
    /// Prices by level of [`LEVELS`].
    path: Vec<f64>,
}

/// Writes an outlook as text; `None` if nothing was decided yet.
pub(super) fn write(outlook: &PriceOutlook, labels: &[String]) -> Option<Memory> {
    if outlook.path.levels.is_empty() || labels.len() != outlook.prices.len() {
        return None;
    }
    let prices = |(gpu_type, label): (usize, &String)| TypePrices {
        label: label.clone(),
        now: outlook.prices[gpu_type],
        path: outlook.path.levels.iter().map(|level| level[gpu_type]).collect(),
    };
    let text = HorizonMemory {
        gpu_types: labels.iter().enumerate().map(prices).collect(),
        gap: outlook.gap.mean,
        gaps: outlook.gap.count,
        last: outlook.gap.last,
        crowd: outlook.crowd,
    };
    let text = serde_json::to_string(&text).ok()?;
    Some(Memory { policy: NAME.to_owned(), version: VERSION, text })
}

/// Returns the outlook in a memory for GPU types with these labels; `None` if the memory is of another policy
/// or version, lacks one of the types, or is invalid.
pub(super) fn read(memory: &Memory, labels: &[String]) -> Option<PriceOutlook> {
    if memory.policy != NAME || memory.version != VERSION {
        return None;
    }
    let text: HorizonMemory = serde_json::from_str(&memory.text).ok()?;
    let known = |label: &String| text.gpu_types.iter().find(|prices| prices.label == *label);
    let known_prices: Vec<&TypePrices> = labels.iter().map(known).collect::<Option<_>>()?;
    let is_price = |price: &f64| price.is_finite() && *price >= 0.0;
    let valid = |prices: &&TypePrices| {
        prices.path.len() == LEVELS.len() && prices.path.iter().chain([&prices.now]).all(is_price)
    };
    if !known_prices.iter().all(valid) || !text.gap.is_finite() {
        return None;
    }
    let level = |level: usize| known_prices.iter().map(|prices| prices.path[level]).collect();
    Some(PriceOutlook {
        prices: known_prices.iter().map(|prices| prices.now).collect(),
        path: PricePath { levels: (0..LEVELS.len()).map(level).collect() },
        gap: Gap { mean: text.gap.max(0.0), count: text.gaps, last: text.last, quiet: 0.0 },
        crowd: text.crowd,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_memory_is_read_as_it_was_written() {
        let labels = ["v100", "t4"].map(str::to_owned);
        let mut outlook = PriceOutlook {
            prices: vec![0.1, 1.0 / 3.0],
            path: PricePath::new(2, 7.0),
            ..PriceOutlook::default()
        };
        outlook.gap.pass(5.0);
        outlook.gap.pass(9.5);
        outlook.crowd = Some(Crowd { jobs: 2, arrivals: 0.1 });
        let memory = write(&outlook, &labels).expect("something to say");
        assert_eq!(read(&memory, &labels).as_ref(), Some(&outlook));
        let turned = read(&memory, &["t4", "v100"].map(str::to_owned)).expect("the same types");
        assert_eq!(turned.prices, [1.0 / 3.0, 0.1]);
        assert_eq!(read(&memory, &["a100".to_owned()]), None, "other types");
        assert_eq!(read(&Memory { version: 2, ..memory.clone() }, &labels), None);
        assert_eq!(read(&Memory { text: "{}".to_owned(), ..memory }, &labels), None);
        assert_eq!(write(&PriceOutlook::default(), &labels), None);
    }
}
