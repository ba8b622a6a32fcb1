//! `hsched inventory --local`: this machine as a cluster of one node, with each GPU.

use serde_json::{Value, json};

use crate::app::context::Context;
use crate::app::input::ClusterWithNotes;
use hsched_local::probe::{Facts, GpuDevice, gpu_types, node};
use hsched_model::{BitRate, Bytes, Cluster, GpuType};
use hsched_ui::{Align, Table, Terminal};

/// Returns the cluster with only this machine.
///
/// A rate in the settings overrides the estimate.
pub(super) fn seen(context: &Context, facts: &Facts) -> ClusterWithNotes {
    let mut local_node = node(facts);
    local_node.intra_node =
        context.settings.node_rates.get(&local_node.name).copied().or(local_node.intra_node);
    ClusterWithNotes {
        cluster: Cluster { nodes: vec![local_node], ..Cluster::default() },
        notes: facts.notes.clone(),
    }
}

/// Returns a line for each GPU; empty if there are none.
pub(super) fn table(facts: &Facts, terminal: Terminal) -> String {
    if facts.gpus.is_empty() {
        return String::new();
    }
    let mut table = Table::new(&[
        ("DEVICE", Align::Right),
        ("TYPE", Align::Left),
        ("MEMORY", Align::Right),
        ("BUSY", Align::Right),
        ("PROCESSES", Align::Right),
        ("UUID", Align::Left),
    ]);
    for (index, gpu) in facts.gpus.iter().enumerate() {
        let count = gpu.processes.len() + gpu.slices.iter().map(|slice| slice.processes.len()).sum::<usize>();
        table.row([
            index.to_string(),
            type_text(gpu),
            gpu.memory
                .map_or_else(|| "-".into(), |bytes| format!("{} GiB", Bytes(bytes).whole_mebibytes() / 1024)),
            gpu.utilisation.map_or_else(|| "-".into(), |percent| format!("{percent} %")),
            count.to_string(),
            gpu.uuid.clone(),
        ]);
    }
    let version = |text: &Option<String>| text.clone().unwrap_or_else(|| "unknown".into());
    let devices = table.show(terminal);
    let rate = node(facts).intra_node;
    let links =
        rate.map_or_else(|| "unknown".into(), |rate| format!("about {} Gbit/s", rate.gigabits_per_second()));
    let (driver, cuda) = (version(&facts.driver), version(&facts.cuda));
    format!("\n{devices}\ndriver {driver}, CUDA up to {cuda}; links of each GPU to the others: {links}\n")
}

/// Returns the type of a GPU, or the types of its MIG slices, for one cell.
fn type_text(gpu: &GpuDevice) -> String {
    let types: Vec<String> = gpu_types(gpu).iter().map(GpuType::to_string).collect();
    if types.is_empty() { format!("{}, in MIG mode without slices", gpu.name) } else { types.join(" ") }
}

/// Returns the machine's data as JSON.
pub(super) fn json(facts: &Facts) -> Value {
    let types = |gpu: &GpuDevice| gpu_types(gpu).iter().map(GpuType::to_string).collect::<Vec<_>>();
    let gpu = |gpu: &GpuDevice| {
        let slices = gpu.slices.iter().zip(types(gpu));
        let slices: Vec<Value> = slices
            .map(|(slice, gpu_type)| {
                json!({ "type": gpu_type, "uuid": slice.uuid, "memory_bytes": slice.memory, "processes": slice.processes })
            })
            .collect();
        json!({
            "name": gpu.name,
            "type": if gpu.mig { None } else { types(gpu).pop() },
            "uuid": gpu.uuid,
            "pci": gpu.address,
            "memory_bytes": gpu.memory,
            "utilisation_percent": gpu.utilisation,
            "processes": gpu.processes,
            "mig": gpu.mig,
            "slices": slices,
            "nvlinks": gpu.links.len(),
            "pcie": gpu.pcie.map(|pcie| json!({ "generation": pcie.generation, "lanes": pcie.lanes })),
        })
    };
    json!({
        "host": facts.host,
        "driver": facts.driver,
        "cuda": facts.cuda,
        "intra_node_gbps": node(facts).intra_node.map(BitRate::gigabits_per_second),
        "gpus": facts.gpus.iter().map(gpu).collect::<Vec<_>>(),
    })
}
