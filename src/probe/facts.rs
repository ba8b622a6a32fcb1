//! What a machine said of itself, as it said it.

/// A machine.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Facts {
    /// Host name, perhaps with a domain.
    pub host: String,
    /// CPUs that this process may use; 0 if unknown.
    pub cpus: u64,
    /// Memory in bytes; 0 if unknown.
    pub memory: u64,
    /// Memory in bytes that programs can still have.
    pub memory_available: u64,
    /// Version of NVIDIA's driver, such as `550.54.15`.
    pub driver: Option<String>,
    /// Newest CUDA that the driver serves, such as `12.4`.
    pub cuda: Option<String>,
    /// GPUs in NVML's order, which is that of their PCI addresses.
    pub gpus: Vec<GpuDevice>,
    /// What could not be told, a sentence each.
    pub notes: Vec<String>,
}

/// A GPU.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GpuDevice {
    /// Name as NVML has it, such as `NVIDIA H100 80GB HBM3`.
    pub name: String,
    pub uuid: String,
    /// PCI address, such as `00000000:3B:00.0`.
    pub address: String,
    /// Memory in bytes, where NVML tells.
    pub memory: Option<u64>,
    /// Part of the last sample period in which it computed, in percent.
    pub utilisation: Option<u32>,
    /// Process ids of those who compute on it, as far as this user may see.
    pub processes: Vec<u32>,
    /// Whether it is cut into MIG slices; then `slices` are what programs can have.
    pub mig: bool,
    pub slices: Vec<MigDevice>,
    /// Links to other GPUs that are up.
    pub links: Vec<Link>,
    pub pcie: Option<Pcie>,
}

/// A MIG device.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MigDevice {
    /// Name as NVML has it, such as `NVIDIA A100-SXM4-40GB MIG 1g.5gb`.
    pub name: String,
    pub uuid: String,
    pub memory: Option<u64>,
    pub processes: Vec<u32>,
}

/// A link to another GPU or a switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// NVML's number of the generation; 0 where it does not tell.
    pub version: u32,
    pub peer: Peer,
}

/// What is at the other end of a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Peer {
    /// Something at this PCI address: another GPU, or a switch.
    Address(String),
    Unknown,
}

/// The PCI Express connection of a GPU at its best; when idle it is slower.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pcie {
    pub generation: u32,
    pub lanes: u32,
}
