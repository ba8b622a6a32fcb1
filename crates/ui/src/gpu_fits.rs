//! How many GPUs of each model provide a given amount of memory together: sizes of replicas, as a table and
//! as JSON.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::{Align, Table, Terminal};
use hsched_model::Bytes;
use hsched_model::catalogue::{GpuNameMatch, count_for, gpus};

/// A model, or a slice of one, its memory in GB, and the required number; `None` if one is too small and
/// several cannot work together.
struct Fit {
    name: String,
    gb: u32,
    count: Option<u32>,
}

/// Returns the required number for all models, or for the named ones.
fn fits(need: Bytes, known: &[(&String, GpuNameMatch)]) -> Vec<Fit> {
    if known.is_empty() {
        let fit = |gpu: &hsched_model::catalogue::Gpu| {
            let gb = gpu.memory.gb;
            Fit { name: gpu.name.clone(), gb, count: count_for(gb, need) }
        };
        return gpus().iter().map(fit).collect();
    }
    let of_name = |(name, known): &(&String, GpuNameMatch)| {
        // If a name may mean several models, the smallest one is the safe choice.
        Fit { name: (*name).clone(), gb: known.least_memory_gb(), count: known.count_for(need) }
    };
    known.iter().map(of_name).collect()
}

/// Returns the table; for named GPUs, also the job key `replica` with these numbers.
pub fn fits_table(need: Bytes, known: &[(&String, GpuNameMatch)], terminal: Terminal) -> String {
    let fits = fits(need, known);
    let mut table = Table::new(&[
        ("GPU", Align::Left),
        ("GB", Align::Right),
        ("GPUS", Align::Right),
        ("GB TOGETHER", Align::Right),
    ]);
    for fit in &fits {
        let together = fit.count.map_or_else(|| "-".to_owned(), |count| (count * fit.gb).to_string());
        let count = fit.count.map_or_else(|| "-".to_owned(), |count| count.to_string());
        table.row([fit.name.clone(), fit.gb.to_string(), count, together]);
    }
    let mut text = table.show(terminal);
    let sizes: Vec<String> =
        fits.iter().filter_map(|fit| Some(format!("{}: {}", fit.name, fit.count?))).collect();
    if !known.is_empty() && !sizes.is_empty() {
        let _ = write!(text, "\nreplica: {{gpus: {{{}}}}}\n", sizes.join(", "));
    }
    text
}

/// Returns the table as JSON.
pub fn fits_json(need: Bytes, known: &[(&String, GpuNameMatch)]) -> Value {
    let fit = |fit: &Fit| json!({ "name": fit.name, "memory_gb": fit.gb, "gpus": fit.count });
    let fits: Vec<Value> = fits(need, known).iter().map(fit).collect();
    json!({ "schema": "hsched.gpus/1", "memory_bytes": need.0, "fits": fits })
}
