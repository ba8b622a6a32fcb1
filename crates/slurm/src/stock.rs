//! The GPUs of a node from two texts: the total, and the number in use.

use hsched_model::{GpuStock, GpuType};

/// Returns the GPUs with their use, and notes on inconsistent numbers.
pub(crate) fn stocks(
    gpus: impl IntoIterator<Item = (GpuType, u32)>,
    used: impl IntoIterator<Item = (GpuType, u32)>,
) -> (Vec<GpuStock>, Vec<String>) {
    let mut stocks: Vec<GpuStock> = gpus
        .into_iter()
        .filter(|(_, total)| *total > 0)
        .map(|(gpu_type, total)| GpuStock { gpu_type, total, used: 0, memory: None })
        .collect();
    let notes =
        used.into_iter().filter_map(|(gpu_type, count)| attribute(&mut stocks, &gpu_type, count)).collect();
    (stocks, notes)
}

/// Marks `count` GPUs as used; returns a note if the type is ambiguous or there are too few.
fn attribute(stocks: &mut [GpuStock], gpu_type: &GpuType, count: u32) -> Option<String> {
    if count == 0 {
        return None;
    }
    let same = |stock: &GpuStock| stock.gpu_type.as_str().eq_ignore_ascii_case(gpu_type.as_str());
    let untyped = GpuType::untyped();
    // A side without types is consistent with any types; two sides with different types are not.
    let (certain, candidates) = match stocks.iter().position(same) {
        Some(index) => (true, &mut stocks[index..=index]),
        None => (stocks.len() == 1 && (*gpu_type == untyped || stocks[0].gpu_type == untyped), stocks),
    };
    let total = candidates.iter().fold(0_u32, |sum, stock| sum.saturating_add(stock.total));
    let mut left = count;
    for stock in candidates {
        let taken = left.min(stock.free());
        stock.used += taken;
        left -= taken;
    }
    if left > 0 {
        Some(format!("{count} {gpu_type} in use but the node has {total}; {left} not counted"))
    } else if !certain {
        Some(format!(
            "{count} {gpu_type} in use, but the node lists none; counted as its other types, in order"
        ))
    } else {
        None
    }
}
