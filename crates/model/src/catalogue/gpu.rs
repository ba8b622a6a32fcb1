//! One entry of the table: a product, its properties, and its supported precisions.

use serde::Deserialize;

use crate::Precision;

/// A GPU in the sense of Slurm: each die of a board with several counts as one.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Gpu {
    /// The GPU's name in the table, such as `a100-sxm4-80gb`.
    pub name: String,
    /// The GPU's model if several products share one.
    model: Option<String>,
    /// The product name that the GPU's driver reports.
    pub product: String,
    #[serde(default = "nvidia")]
    pub vendor: String,
    pub architecture: String,
    /// NVIDIA's compute capability.
    pub compute_capability: Option<f64>,
    /// Form factor: `pcie`, `sxm4`, `nvl`.
    pub form: Option<String>,
    pub memory: GpuMemory,
    pub tflops: Tflops,
    /// MIG profiles, such as `3g.20gb`, the largest last; empty if the GPU does not support MIG.
    #[serde(default)]
    pub mig: Vec<String>,
    /// Reference GPU units of the Digital Research Alliance of Canada.
    pub rgu: Option<f64>,
    /// Nominal power in watts.
    pub watts: Option<f64>,
    /// Keys of the sources in the table.
    pub sources: Vec<String>,
    pub note: Option<String>,
}

/// A GPU's own memory.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GpuMemory {
    /// Size as given in the product name.
    pub gb: u32,
    /// Kind of memory, such as `hbm2e`.
    pub kind: String,
    /// Bandwidth in GB/s.
    pub gb_s: f64,
}

/// Peak rates in 10^12 operations per second, without sparsity.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tflops {
    /// Rate of the ordinary cores.
    pub fp32: Option<f64>,
    /// Rate of the tensor cores, as for the following fields.
    pub tf32: Option<f64>,
    pub fp16: Option<f64>,
    pub bf16: Option<f64>,
}

/// First compute capability (Ampere's) with TF32 and BF16.
const AMPERE: f64 = 8.0;

impl Gpu {
    /// Returns the model: products with the same model run a job at about the same speed.
    pub fn model(&self) -> &str {
        self.model.as_deref().unwrap_or(&self.name)
    }

    /// Returns the number of slices of the smallest size into which the GPU can be divided; `None` if it does
    /// not support MIG.
    pub fn compute_slices(&self) -> Option<u32> {
        self.mig.last()?.split_once('g')?.0.parse().ok()
    }

    /// Returns whether the GPU supports this precision, or `None` if that is unknown.
    pub fn has(&self, precision: Precision) -> Option<bool> {
        let rate = if precision == Precision::Tf32 { self.tflops.tf32 } else { self.tflops.bf16 };
        match self.compute_capability {
            _ if precision.is_everywhere() => Some(true),
            Some(capability) => Some(capability >= AMPERE),
            None => rate.map(|_| true),
        }
    }
}

fn nvidia() -> String {
    "NVIDIA".into()
}
