//! The name of a GPU type, as spelled by the cluster.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// A GPU type such as `v100` or `a100_3g.20gb`, spelled as in the cluster's GRES.
///
/// Cheap to clone: plans hold one per rank.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct GpuType(Arc<str>);

impl GpuType {
    /// The type of GPUs for which the cluster names none (`gpu:4`).
    pub const UNTYPED: &'static str = "gpu";

    /// Returns the type, or `None` if the text is not a valid GRES type: it is too long, does not begin with
    /// a letter or digit, or has characters other than letters, digits, `-`, `_`, `.`, `+` and `/`.
    pub fn new(name: &str) -> Option<Self> {
        let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '+' | '/');
        let starts_well = name.starts_with(|c: char| c.is_ascii_alphanumeric());
        (starts_well && name.len() <= 100 && name.chars().all(allowed)).then(|| Self(Arc::from(name)))
    }

    /// Returns the type for untyped GPUs.
    pub fn untyped() -> Self {
        Self(Arc::from(Self::UNTYPED))
    }

    /// Returns the type's text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns whether this is a MIG slice (`1g.10gb`, `a100_3g.20gb`), which NCCL cannot put in a ring.
    pub fn is_mig_slice(&self) -> bool {
        split_mig(&self.0).is_some()
    }
}

impl TryFrom<String> for GpuType {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        Self::new(&name).ok_or_else(|| format!("{name:?} is not a GPU type"))
    }
}

impl From<GpuType> for String {
    fn from(gpu_type: GpuType) -> Self {
        gpu_type.0.as_ref().to_owned()
    }
}

/// Splits a GPU type at its MIG profile: `a100` and `3g.20gb` of `a100_3g.20gb`.
///
/// The first part is empty if the type is only a profile; `None` if it has no profile.
pub fn split_mig(name: &str) -> Option<(&str, &str)> {
    let separators = ['_', '-', '/', '+'];
    let profile = name.split(separators).find(|part| is_slice_profile(part))?;
    let parent = name.split_once(profile)?.0;
    Some((parent.trim_end_matches(separators), profile))
}

/// Returns whether `part` has the form `<digits>g.<digits>gb` of a MIG profile.
fn is_slice_profile(part: &str) -> bool {
    let all_digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    part.to_ascii_lowercase()
        .strip_suffix("gb")
        .and_then(|rest| rest.split_once("g."))
        .is_some_and(|(compute, memory)| all_digits(compute) && all_digits(memory))
}

impl fmt::Display for GpuType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mig_slices_are_told_from_whole_gpus() {
        let is_slice = |name: &str| GpuType::new(name).expect("a type").is_mig_slice();
        for slice in ["1g.10gb", "a100_3g.20gb", "nvidia_h100_80gb_hbm3_1g.10gb", "A100-2G.10GB"] {
            assert!(is_slice(slice), "{slice}");
        }
        for whole in ["a100", "gpu", "nvidia_h100_80gb_hbm3", "1080", "rtx8000", "g.gb"] {
            assert!(!is_slice(whole), "{whole}");
        }
    }

    #[test]
    fn types_that_break_a_gres_request_are_refused() {
        for bad in ["", "a,b", "a:b", "a b", "$(x)", "(null)", "-x"] {
            assert!(GpuType::new(bad).is_none(), "{bad:?}");
        }
    }
}
