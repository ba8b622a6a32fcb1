//! What a machine reported about itself, unprocessed.

/// A machine.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Facts {
    /// Host name, possibly with a domain.
    pub host: String,
    /// CPUs that this process may use; 0 if unknown.
    pub cpus: u64,
    /// Memory in bytes; 0 if unknown.
    pub memory: u64,
    /// Available memory in bytes.
    pub memory_available: u64,
    /// Version of NVIDIA's driver, such as `550.54.15`.
    pub driver: Option<String>,
    /// Newest CUDA version that the driver supports, such as `12.4`.
    pub cuda: Option<String>,
    /// GPUs in NVML's order, which is the order of PCI addresses.
    pub gpus: Vec<GpuDevice>,
    /// Missing information, one sentence each.
    pub notes: Vec<String>,
}

/// A GPU.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GpuDevice {
    /// Name from NVML, such as `NVIDIA H100 80GB HBM3`.
    pub name: String,
    pub uuid: String,
    /// PCI address, such as `00000000:3B:00.0`.
    pub address: String,
    /// Memory in bytes, if NVML reports it.
    pub memory: Option<u64>,
    /// Percentage of the last sample period in which it computed.
    pub utilisation: Option<u32>,
    /// Ids of the processes that use it, as far as this user may see them.
    pub processes: Vec<u32>,
    /// Whether the device is partitioned by MIG; programs then use its `slices`.
    pub mig: bool,
    pub slices: Vec<MigDevice>,
    /// Active links to other GPUs or to switches.
    pub links: Vec<Link>,
    pub pcie: Option<Pcie>,
}

/// A MIG device.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MigDevice {
    /// Name from NVML, such as `NVIDIA A100-SXM4-40GB MIG 1g.5gb`.
    pub name: String,
    pub uuid: String,
    pub memory: Option<u64>,
    pub processes: Vec<u32>,
}

/// A link to another GPU or a switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// NVML's version number of the link; 0 if unknown.
    pub version: u32,
    pub peer: Peer,
}

/// The other end of a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Peer {
    /// A device at this PCI address: another GPU, or a switch.
    Address(String),
    Unknown,
}

/// The maximum speed of a GPU's PCI Express connection; the current speed is lower when idle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pcie {
    pub generation: u32,
    pub lanes: u32,
}
