//! The GPUs of each node of a pool's Slurm jobs: `4`, `v100:2,t4:2` or `cpu:8`.

use hsched_local::Devices;
use hsched_model::{GpuType, Node};

/// The GPUs of a node.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum NodeGpus {
    /// A number of GPUs of any type.
    Any(u32),
    Typed(Vec<(GpuType, u32)>),
    /// A number of concurrent runs on CPUs.
    Cpus(u32),
}

impl NodeGpus {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        match text.trim().parse::<u32>() {
            Ok(0) => Err("at least 1 GPU is needed".to_owned()),
            Ok(count) => Ok(Self::Any(count)),
            Err(_) => match Devices::parse(text).map_err(|error| error.to_string())?.as_slice() {
                [(gpu_type, count)] if gpu_type.as_str() == "cpu" => Ok(Self::Cpus(*count)),
                counts => Ok(Self::Typed(counts.to_vec())),
            },
        }
    }

    pub(super) fn count(&self) -> u32 {
        match self {
            Self::Any(count) | Self::Cpus(count) => *count,
            Self::Typed(counts) => counts.iter().map(|(_, count)| count).sum(),
        }
    }

    /// Returns the number of devices of each type; `None` if they may have any type.
    pub(super) fn by_type(&self) -> Option<Vec<(GpuType, u32)>> {
        match self {
            Self::Any(_) => None,
            Self::Typed(counts) => Some(counts.clone()),
            Self::Cpus(count) => GpuType::new("cpu").map(|cpu| vec![(cpu, *count)]),
        }
    }

    /// Returns whether a node has these GPUs, in use or not.
    pub(super) fn are_in(&self, node: &Node) -> bool {
        let of_type = |gpu_type: &GpuType| {
            node.gpus.iter().filter(|stock| stock.gpu_type == *gpu_type).map(|stock| stock.total).sum::<u32>()
        };
        match self {
            Self::Any(count) => node.gpu_total() >= *count,
            Self::Typed(counts) => counts.iter().all(|(gpu_type, count)| of_type(gpu_type) >= *count),
            Self::Cpus(_) => true,
        }
    }

    /// Returns the value of `--gres`; `None` if no GPUs are requested.
    pub(super) fn gres(&self, chosen: Option<&GpuType>) -> Option<String> {
        match (self, chosen) {
            (Self::Any(count), Some(gpu_type)) => Some(format!("gpu:{gpu_type}:{count}")),
            (Self::Any(count), None) => Some(format!("gpu:{count}")),
            (Self::Typed(counts), _) => {
                let all: Vec<String> =
                    counts.iter().map(|(gpu_type, count)| format!("gpu:{gpu_type}:{count}")).collect();
                Some(all.join(","))
            }
            (Self::Cpus(_), _) => None,
        }
    }

    /// Returns the type if there is only one.
    pub(super) fn only_type(&self) -> Option<&GpuType> {
        match self {
            Self::Typed(counts) if counts.len() == 1 => counts.first().map(|(gpu_type, _)| gpu_type),
            _ => None,
        }
    }
}
