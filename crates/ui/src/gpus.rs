//! The catalogue of GPUs: a table of all, a single entry in full, and both as JSON.

use serde_json::{Value, json};

use crate::{Align, Table, Terminal};
use hsched_model::catalogue::{Gpu, GpuNameMatch, MigSlice, source, spellings};

/// Returns the table of GPUs.
pub fn gpu_table<'a>(gpus: impl IntoIterator<Item = &'a Gpu>, terminal: Terminal) -> String {
    let mut table = Table::new(&[
        ("GPU", Align::Left),
        ("ARCH", Align::Left),
        ("GB", Align::Right),
        ("GB/S", Align::Right),
        ("FP32", Align::Right),
        ("TF32", Align::Right),
        ("FP16", Align::Right),
        ("BF16", Align::Right),
        ("MIG", Align::Right),
    ]);
    for gpu in gpus {
        let rates = gpu.tflops;
        let mut cells = vec![
            gpu.name.clone(),
            gpu.architecture.clone(),
            gpu.memory.gb.to_string(),
            gpu.memory.gb_s.to_string(),
        ];
        cells.extend([rates.fp32, rates.tf32, rates.fp16, rates.bf16].map(known));
        cells.push(gpu.compute_slices().map_or_else(|| "-".into(), |count| count.to_string()));
        table.row(cells);
    }
    table.show(terminal)
}

/// Returns all data about the GPUs that a name may mean, one block for each.
pub fn gpu_details(name: &str, known: &GpuNameMatch, terminal: Terminal) -> String {
    let blocks: Vec<String> =
        known.gpus.iter().map(|gpu| details(gpu, known.slice.as_ref(), terminal)).collect();
    let heading = match blocks.len() {
        1 => format!("{name}: {}", known.label()),
        count => format!("{name}: {}, one of {count}", known.label()),
    };
    format!("{heading}\n\n{}", blocks.join("\n"))
}

fn details(gpu: &Gpu, slice: Option<&MigSlice>, terminal: Terminal) -> String {
    let mut table = Table::new(&[("GPU", Align::Left), ("", Align::Left)]);
    let mut row = |key: &str, value: String| table.row([key.to_owned(), value]);
    row("name", gpu.name.clone());
    row("product", gpu.product.clone());
    let capability = gpu.compute_capability.map(|number| format!(", compute capability {number:.1}"));
    row("architecture", format!("{} {}{}", gpu.vendor, gpu.architecture, capability.unwrap_or_default()));
    row("other names", other_names(gpu).join(", "));
    row("memory", format!("{} GB {}, {} GB/s", gpu.memory.gb, gpu.memory.kind, gpu.memory.gb_s));
    let rates = gpu.tflops;
    let rates = [("fp32", rates.fp32), ("tf32", rates.tf32), ("fp16", rates.fp16), ("bf16", rates.bf16)];
    let rates = rates.iter().filter_map(|(name, rate)| Some(format!("{name} {}", (*rate)?)));
    row("TFLOPS", rates.collect::<Vec<_>>().join(", "));
    if let Some(slice) = slice {
        row("slice", slice_text(gpu, slice));
    }
    if !gpu.mig.is_empty() {
        row("MIG slices", gpu.mig.join(", "));
    }
    if let Some(units) = gpu.rgu {
        row("RGU", units.to_string());
    }
    if let Some(watts) = gpu.watts {
        row("power", format!("{watts} W (nominal)"));
    }
    if let Some(note) = &gpu.note {
        row("note", note.clone());
    }
    for key in &gpu.sources {
        row("source", source(key).unwrap_or(key).to_owned());
    }
    // The heading above the keys adds no information.
    let text = table.render(terminal.width(), false);
    text.split_once('\n').map_or_else(String::new, |(_, rows)| rows.to_owned())
}

/// Returns the short names of this GPU, which may be ambiguous.
fn other_names(gpu: &Gpu) -> Vec<&str> {
    let means =
        |full: &str| hsched_model::catalogue::recognise(full).is_some_and(|known| known.gpus.contains(&gpu));
    let model = Some(gpu.model()).filter(|model| *model != gpu.name);
    let short = spellings().filter(|(_, full)| means(full)).map(|(short, _)| short);
    model.into_iter().chain(short).collect()
}

fn slice_text(gpu: &Gpu, slice: &MigSlice) -> String {
    let compute = gpu
        .compute_slices()
        .map_or_else(String::new, |all| format!("{}/{all} of the compute, ", slice.compute));
    format!("{}: {compute}{} of {} GB", slice.profile, slice.memory_gb, gpu.memory.gb)
}

fn known(rate: Option<f64>) -> String {
    match rate {
        Some(rate) if rate >= 100.0 => format!("{rate:.0}"),
        Some(rate) => rate.to_string(),
        None => "-".into(),
    }
}

/// Returns an entry as JSON; unknown values are null.
pub fn gpu_json(gpu: &Gpu) -> Value {
    let sources: Vec<&str> = gpu.sources.iter().map(|key| source(key).unwrap_or(key)).collect();
    json!({
        "name": gpu.name,
        "model": gpu.model(),
        "product": gpu.product,
        "other_names": other_names(gpu),
        "vendor": gpu.vendor,
        "architecture": gpu.architecture,
        "compute_capability": gpu.compute_capability,
        "form": gpu.form,
        "memory_gb": gpu.memory.gb,
        "memory_kind": gpu.memory.kind,
        "memory_gb_per_s": gpu.memory.gb_s,
        "tflops": {
            "fp32": gpu.tflops.fp32, "tf32": gpu.tflops.tf32, "fp16": gpu.tflops.fp16, "bf16": gpu.tflops.bf16,
        },
        "mig_profiles": gpu.mig,
        "mig_compute_slices": gpu.compute_slices(),
        "rgu": gpu.rgu,
        "watts": gpu.watts,
        "sources": sources,
        "note": gpu.note,
    })
}

/// Returns the possible meanings of a name as JSON.
pub fn recognised_json(name: &str, known: &GpuNameMatch) -> Value {
    let slice = known.slice.as_ref();
    json!({
        "name": name,
        "means": known.label(),
        "slice": slice.map(|slice| json!({
            "profile": slice.profile, "compute_slices": slice.compute, "memory_gb": slice.memory_gb,
        })),
        "gpus": known.gpus.iter().map(|gpu| gpu_json(gpu)).collect::<Vec<_>>(),
    })
}
