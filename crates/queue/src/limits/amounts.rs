//! A job's contribution to limits, by Slurm's names.

use std::collections::BTreeMap;

use crate::{Asks, HeldNodes};
use hsched_model::number::to_f64;

/// Amounts by TRES; memory in MiB.
pub(crate) type TresAmounts = BTreeMap<String, f64>;

/// Returns the requested TRES of a job, on all its nodes.
pub(crate) fn asked_tres(asks: &Asks) -> TresAmounts {
    let nodes = f64::from(asks.nodes.max(1));
    let mut amounts = TresAmounts::from([("node".to_owned(), nodes)]);
    for ask in &asks.gpus {
        let count = nodes * f64::from(ask.count);
        add(&mut amounts, "gres/gpu".to_owned(), count);
        if let Some(gpu_type) = &ask.gpu_type {
            add(&mut amounts, format!("gres/gpu:{gpu_type}"), count);
        }
    }
    for (name, amount) in [("cpu", asks.cpus), ("mem", asks.memory_mib)] {
        add(&mut amounts, name.to_owned(), nodes * to_f64(amount.unwrap_or(0)));
    }
    amounts
}

impl HeldNodes {
    /// Returns the TRES that a running job holds.
    pub(crate) fn tres(&self) -> TresAmounts {
        let mut amounts = TresAmounts::from([("node".to_owned(), to_f64(self.holds.len()))]);
        for held in &self.holds {
            for gpu in &held.gpus {
                add(&mut amounts, "gres/gpu".to_owned(), f64::from(gpu.count));
                add(&mut amounts, format!("gres/gpu:{}", gpu.gpu_type), f64::from(gpu.count));
            }
            for (name, amount) in [("cpu", held.cpus), ("mem", held.memory_mib)] {
                add(&mut amounts, name.to_owned(), to_f64(amount.unwrap_or(0)));
            }
        }
        amounts
    }
}

fn add(amounts: &mut TresAmounts, name: String, amount: f64) {
    if amount > 0.0 {
        *amounts.entry(name).or_default() += amount;
    }
}

/// Formats an amount of a TRES, or of jobs, with its unit.
pub(super) fn in_words(tres: Option<&str>, amount: f64, is_minutes: bool) -> String {
    let unit = match tres {
        Some("gres/gpu") => "GPU".to_owned(),
        Some("cpu") => "CPU".to_owned(),
        Some("mem") => "MiB of memory".to_owned(),
        Some("node") => "node".to_owned(),
        Some(name) => {
            name.strip_prefix("gres/gpu:").map_or(name.to_owned(), |gpu_type| format!("{gpu_type} GPU"))
        }
        None => "job".to_owned(),
    };
    let plural = if amount == 1.0 || unit.contains(' ') && !unit.ends_with("GPU") { "" } else { "s" };
    if is_minutes { format!("{amount} {unit}-minutes") } else { format!("{amount} {unit}{plural}") }
}
