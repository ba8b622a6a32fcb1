//! Training speeds of GPU models relative to a V100.

use hsched_model::{Bytes, GpuType};

/// A GPU type and its training speed.
#[derive(Clone, Debug, PartialEq)]
pub struct GpuSpeed {
    pub gpu_type: GpuType,
    /// Training speed as a multiple of a V100's, above zero.
    pub speed: f64,
    /// Memory of one GPU, if known.
    pub memory: Option<Bytes>,
}

/// Type, speed, memory in GiB; in the order in which types are added to recipes.
///
/// V100, A10, A100 and H100: `ResNet-50` in fp16 on one GPU (833, 638, 1582 and 2791 images/s) in Lambda's
/// published `PyTorch` benchmarks. P100 and T4: mean over the models of the TPDS 2024 paper
/// (docs/planning.md).
const KNOWN: [(&str, f64, u64); 6] = [
    ("v100", 1.0, 32),
    ("p100", 0.71, 16),
    ("t4", 0.49, 16),
    ("a100", 1.9, 80),
    ("h100", 3.35, 80),
    ("a10", 0.77, 24),
];

impl GpuSpeed {
    /// Returns the types with known speeds: a V100 first, then types that are often combined with it.
    pub fn known() -> Vec<Self> {
        let known = |&(name, speed, memory): &(&str, f64, u64)| {
            Some(Self { gpu_type: GpuType::new(name)?, speed, memory: Some(Bytes(memory << 30)) })
        };
        KNOWN.iter().filter_map(known).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_of_the_table_is_a_type() {
        assert_eq!(GpuSpeed::known().len(), KNOWN.len());
    }
}
