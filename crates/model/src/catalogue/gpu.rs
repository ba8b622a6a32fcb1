//! One entry of the table: a product, what it has, and what it can compute.

use serde::Deserialize;

use crate::Precision;

/// A GPU as Slurm counts them: one die where a board has several.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Gpu {
    /// Its name here, such as `a100-sxm4-80gb`.
    pub name: String,
    /// Its model where several products share one.
    model: Option<String>,
    /// The name that its driver gives.
    pub product: String,
    #[serde(default = "nvidia")]
    pub vendor: String,
    pub architecture: String,
    /// NVIDIA's number of what its cores can do.
    pub compute_capability: Option<f64>,
    /// How it is built in: `pcie`, `sxm4`, `nvl`.
    pub form: Option<String>,
    pub memory: GpuMemory,
    pub tflops: Tflops,
    /// MIG profiles, such as `3g.20gb`; empty where it cannot be cut.
    #[serde(default)]
    pub mig: Vec<String>,
    /// Reference GPU units of the Digital Research Alliance of Canada.
    pub rgu: Option<f64>,
    /// Nominal power in watts.
    pub watts: Option<f64>,
    /// Keys of the table's sources.
    pub sources: Vec<String>,
    pub note: Option<String>,
}

/// A GPU's own memory.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GpuMemory {
    /// Size as the product's name counts it.
    pub gb: u32,
    /// Such as `hbm2e`.
    pub kind: String,
    /// Bandwidth in GB/s.
    pub gb_s: f64,
}

/// Peak rates in 10^12 operations per second, without sparsity.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tflops {
    /// Of the ordinary cores.
    pub fp32: Option<f64>,
    /// Of the tensor cores, as the rest.
    pub tf32: Option<f64>,
    pub fp16: Option<f64>,
    pub bf16: Option<f64>,
}

/// First compute capability (Ampere's) with TF32 and BF16.
const AMPERE: f64 = 8.0;

impl Gpu {
    /// Returns the model: products that share one run a job at about the same speed.
    pub fn model(&self) -> &str {
        self.model.as_deref().unwrap_or(&self.name)
    }

    /// Returns the number of slices of the smallest kind that it can be cut into.
    pub fn compute_slices(&self) -> Option<u32> {
        self.mig.last()?.split_once('g')?.0.parse().ok()
    }

    /// Returns whether the GPU has this arithmetic, or `None` where that is not known.
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
