//! Converts facts about a machine to a node of a cluster, with the same spelling as in Slurm.

use std::collections::BTreeSet;

use super::facts::{Facts, GpuDevice, Peer};
use hsched_model::{BitRate, Bytes, GpuStock, GpuType, Node, NodeName, Usage};

/// The text after " MIG " in the name of a MIG device is its profile.
const MIG: &str = " MIG ";

/// Returns the machine as a node.
///
/// A GPU counts as used while a process computes on it. The rate between GPUs is the maximum of the hardware;
/// it is missing if there is only one GPU, a GPU is divided by MIG, or NVML does not report it.
pub fn node(facts: &Facts) -> Node {
    let short = facts.host.split('.').next().unwrap_or_default();
    let mut node = Node::new(NodeName::new(short).unwrap_or_else(|_| unnamed()));
    node.cpus = (facts.cpus > 0).then_some(Usage { total: facts.cpus, used: 0 });
    node.memory = (facts.memory > 0)
        .then(|| Usage { total: facts.memory, used: facts.memory.saturating_sub(facts.memory_available) });
    for gpu in &facts.gpus {
        for (gpu_type, memory, busy) in units(gpu) {
            let used = u32::from(busy);
            match node.gpus.iter_mut().find(|stock| stock.gpu_type == gpu_type) {
                Some(stock) => {
                    stock.total += 1;
                    stock.used += used;
                    stock.memory = stock.memory.zip(memory).map(|(one, other)| one.min(other));
                }
                None => node.gpus.push(GpuStock { gpu_type, total: 1, used, memory }),
            }
        }
    }
    node.intra_node = rate(&facts.gpus);
    node
}

/// Returns the types of a GPU's units: the GPU itself, or its MIG slices.
pub fn gpu_types(gpu: &GpuDevice) -> Vec<GpuType> {
    units(gpu).into_iter().map(|(gpu_type, ..)| gpu_type).collect()
}

/// Returns the type and memory of each unit of a GPU that programs can use, and whether the unit is in use.
fn units(gpu: &GpuDevice) -> Vec<(GpuType, Option<Bytes>, bool)> {
    if !gpu.mig {
        return vec![(gpu_type(&gpu.name), gpu.memory.map(Bytes), !gpu.processes.is_empty())];
    }
    let slice = |name: &str| {
        let (_, profile) = name.split_once(MIG).unwrap_or(("", name));
        // The name of the GPU is the prefix even if NVML returns only the profile.
        gpu_type(&format!("{} {profile}", gpu.name))
    };
    let slices = gpu.slices.iter();
    slices
        .map(|gpu_slice| {
            (slice(&gpu_slice.name), gpu_slice.memory.map(Bytes), !gpu_slice.processes.is_empty())
        })
        .collect()
}

/// Returns the type in the spelling of Slurm's `AutoDetect=nvml`: lower case, with underscores for spaces and
/// other characters that types cannot have.
fn gpu_type(name: &str) -> GpuType {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '+' | '/');
    let spelled: String =
        name.trim().to_ascii_lowercase().chars().map(|c| if allowed(c) { c } else { '_' }).collect();
    GpuType::new(&spelled).unwrap_or_else(GpuType::untyped)
}

fn unnamed() -> NodeName {
    #[expect(clippy::expect_used, reason = "a constant that is a name")]
    NodeName::new("localhost").expect("a name")
}

/// Returns the rate at which the slowest GPU can send to its neighbour in a ring; `None` if it is unknown.
fn rate(gpus: &[GpuDevice]) -> Option<BitRate> {
    // Slices cannot communicate with each other.
    if gpus.len() < 2 || gpus.iter().any(|gpu| gpu.mig) {
        return None;
    }
    let rate = if linked(gpus) { nvlink } else { pcie };
    let slowest = gpus.iter().map(rate).collect::<Option<Vec<f64>>>()?;
    // Rounded to tenths; more digits would suggest a precision that the estimate does not have.
    BitRate::new((slowest.into_iter().fold(f64::INFINITY, f64::min) * 10.0).round() / 10.0)
}

/// Returns whether links connect all GPUs, directly or through switches; bridged pairs do not.
fn linked(gpus: &[GpuDevice]) -> bool {
    let ends = |gpu: &GpuDevice| {
        let peers = gpu.links.iter().filter_map(|link| match &link.peer {
            Peer::Address(address) => Some(address.to_ascii_lowercase()),
            Peer::Unknown => None,
        });
        peers.chain([gpu.address.to_ascii_lowercase()]).collect::<BTreeSet<_>>()
    };
    let mut outside: Vec<BTreeSet<String>> = gpus.iter().map(ends).collect();
    // On machines with several switches, each link reports the first one that it reaches; all switches form
    // one fabric.
    let mut reached = outside.pop().unwrap_or_default();
    while let Some(place) = outside.iter().position(|ends| !ends.is_disjoint(&reached)) {
        reached.extend(outside.swap_remove(place));
    }
    outside.is_empty()
}

/// Returns the total one-way rate of all links of a GPU, in Gbit/s.
fn nvlink(gpu: &GpuDevice) -> Option<f64> {
    let one = |version| match version {
        // NVML numbers 1.0, 2.0, 2.2, 3.0, 3.1, 4.0 and 5.0 from 1 to 7.
        1 => Some(160.0),
        2..=6 => Some(200.0),
        7 => Some(400.0),
        _ => None,
    };
    let rates = gpu.links.iter().map(|link| one(link.version)).collect::<Option<Vec<f64>>>()?;
    (!rates.is_empty()).then(|| rates.iter().sum())
}

/// Returns the one-way rate of a GPU's PCI Express lanes, in Gbit/s.
fn pcie(gpu: &GpuDevice) -> Option<f64> {
    let pcie = gpu.pcie?;
    // Transfers per second times the efficiency of the line code.
    let lane = match pcie.generation {
        1 => 2.0,
        2 => 4.0,
        3 => 8.0 * 128.0 / 130.0,
        4 => 16.0 * 128.0 / 130.0,
        5 => 32.0 * 128.0 / 130.0,
        _ => return None,
    };
    Some(lane * f64::from(pcie.lanes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::facts::{Link, MigDevice, Pcie};

    fn gpu(name: &str, address: &str, peers: &[&str]) -> GpuDevice {
        GpuDevice {
            name: name.to_owned(),
            address: address.to_owned(),
            memory: Some(32 << 30),
            links: peers
                .iter()
                .map(|peer| Link { version: 2, peer: Peer::Address((*peer).to_owned()) })
                .collect(),
            pcie: Some(Pcie { generation: 3, lanes: 16 }),
            ..GpuDevice::default()
        }
    }

    fn machine(gpus: Vec<GpuDevice>) -> Node {
        node(&Facts {
            host: "Box7.example.org".into(),
            cpus: 8,
            memory: 64 << 30,
            memory_available: 60 << 30,
            gpus,
            ..Facts::default()
        })
    }

    fn rate(gpus: Vec<GpuDevice>) -> Option<f64> {
        machine(gpus).intra_node.map(BitRate::gigabits_per_second)
    }

    #[test]
    fn types_are_spelled_as_slurm_finds_them() {
        let check = |name: &str, expected: &str| assert_eq!(gpu_type(name).as_str(), expected);
        check("NVIDIA H100 80GB HBM3", "nvidia_h100_80gb_hbm3");
        check("Tesla V100-SXM2-16GB", "tesla_v100-sxm2-16gb");
        check("NVIDIA RTX 6000 Ada Generation", "nvidia_rtx_6000_ada_generation");
        check("Odd (TM) Ü", "odd__tm___");
        check("", "gpu");
    }

    #[test]
    fn equal_gpus_are_counted_and_busy_ones_are_used() {
        let busy = GpuDevice { processes: vec![7], ..gpu("Tesla T4", "1", &[]) };
        let seen = machine(vec![gpu("Tesla V100", "0", &[]), busy, gpu("Tesla T4", "2", &[])]);
        let stock: Vec<_> =
            seen.gpus.iter().map(|stock| (stock.gpu_type.as_str(), stock.total, stock.used)).collect();
        assert_eq!((seen.name.as_str(), stock), ("Box7", vec![("tesla_v100", 1, 0), ("tesla_t4", 2, 1)]));
        assert_eq!(
            (seen.gpus[0].memory, seen.memory.map(Usage::free)),
            (Some(Bytes(32 << 30)), Some(60 << 30))
        );
    }

    #[test]
    fn slices_are_types_of_their_own() {
        let slice = |name: &str, pid: &[u32]| MigDevice {
            name: name.to_owned(),
            processes: pid.to_vec(),
            ..MigDevice::default()
        };
        let cut = GpuDevice {
            mig: true,
            slices: vec![
                slice("NVIDIA A100-SXM4-40GB MIG 3g.20gb", &[]),
                slice("NVIDIA A100-SXM4-40GB MIG 1g.5gb+me", &[9]),
                slice("MIG 1g.5gb", &[]),
            ],
            ..gpu("NVIDIA A100-SXM4-40GB", "0", &[])
        };
        let types: Vec<String> = gpu_types(&cut).iter().map(GpuType::to_string).collect();
        let whole = "nvidia_a100-sxm4-40gb";
        assert_eq!(types[..2], [format!("{whole}_3g.20gb"), format!("{whole}_1g.5gb+me")]);
        assert!(gpu_types(&cut).iter().all(GpuType::is_mig_slice), "{types:?}");
        assert_eq!(machine(vec![cut.clone(), gpu("A", "1", &[])]).intra_node, None);
        assert_eq!(machine(vec![GpuDevice { slices: Vec::new(), ..cut }]).gpus, []);
    }

    #[test]
    fn the_rate_is_that_of_the_links_that_join_all() {
        let v100 = |address: &str, peers: &[&str]| gpu("V100", address, peers);
        assert_eq!(rate(vec![v100("0", &["1", "1"]), v100("1", &["0", "0"])]), Some(400.0));
        // A chain, and GPUs on one switch.
        assert_eq!(rate(vec![v100("0", &["1"]), v100("1", &["0", "2"]), v100("2", &["1"])]), Some(200.0));
        assert_eq!(rate(vec![v100("A", &["s", "s"]), v100("B", &["S", "S"])]), Some(400.0));
        // Two bridged pairs, connected by PCI Express.
        let pairs =
            [("0", "1"), ("1", "0"), ("2", "3"), ("3", "2")].map(|(device, peer)| v100(device, &[peer]));
        assert_eq!(rate(pairs.to_vec()), Some(126.0));
        assert_eq!(rate(vec![v100("0", &[])]), None);
        assert_eq!(rate(vec![v100("0", &[]), GpuDevice { pcie: None, ..v100("1", &[]) }]), None);
    }

    #[test]
    fn a_machine_that_says_nothing_is_still_a_node() {
        let seen = node(&Facts::default());
        assert_eq!(
            (seen.name.as_str(), seen.gpus.len(), seen.cpus, seen.memory),
            ("localhost", 0, None, None)
        );
    }
}
