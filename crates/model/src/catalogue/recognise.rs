//! Resolves a GPU type as spelled by a cluster to possible GPUs: `tesla_v100-sxm2-32gb`, `a100l`, `3g.20gb`.
//!
//! Slurm's device detection (`AutoDetect=nvml`) turns product names into types: lower case, with `_` for
//! blanks.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use super::gpu::Gpu;
use super::table::{gpus, spelling};
use crate::{Bytes, GpuType, Precision, split_mig};

/// The possible meanings of a name.
#[derive(Clone, Debug, PartialEq)]
pub struct GpuNameMatch {
    /// Never empty; several if the name is ambiguous.
    pub gpus: Vec<&'static Gpu>,
    /// The slice of one of these GPUs; `None` means the whole GPU.
    pub slice: Option<MigSlice>,
}

/// A MIG slice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MigSlice {
    /// The profile, such as `3g.20gb`.
    pub profile: String,
    /// Number of compute slices, out of the GPU's 7 (4 on some models).
    pub compute: u32,
    pub memory_gb: u32,
}

/// Words of product names that do not distinguish GPUs.
const EMPTY_WORDS: [&str; 12] = [
    "nvidia",
    "amd",
    "tesla",
    "quadro",
    "geforce",
    "radeon",
    "instinct",
    "gpu",
    "tensor",
    "core",
    "generation",
    "edition",
];

/// Those of the [`EMPTY_WORDS`] that clusters write without a separator: `teslak80`.
const PREFIXES: [&str; 3] = ["nvidia", "tesla", "quadro"];

/// GPUs by model name without separators; built once, because tables of large clusters look up thousands of
/// names.
static BY_NAME: LazyLock<BTreeMap<String, Vec<&'static Gpu>>> = LazyLock::new(|| {
    let mut by_name = BTreeMap::<_, Vec<_>>::new();
    for gpu in gpus() {
        by_name.entry(words(gpu.model()).concat()).or_default().push(gpu);
    }
    by_name
});

/// Returns the reference GPU units of a whole GPU of a type: the highest among its possible products. `None`
/// if the table has none, or if the type is a MIG slice.
pub fn reference_units(gpu_type: &GpuType) -> Option<f64> {
    let known = recognise(gpu_type.as_str()).filter(|known| known.slice.is_none())?;
    known.gpus.iter().filter_map(|gpu| gpu.rgu).max_by(f64::total_cmp)
}

/// Returns the nominal power in watts of a GPU of a type, or of a slice: the highest among its possible
/// products. `None` if the table has none.
pub fn nominal_watts(gpu_type: &GpuType) -> Option<f64> {
    let known = recognise(gpu_type.as_str())?;
    let share = |gpu: &Gpu| match &known.slice {
        None => Some(1.0),
        Some(slice) => Some(f64::from(slice.compute) / f64::from(gpu.compute_slices()?)),
    };
    known.gpus.iter().filter_map(|gpu| Some(gpu.watts? * share(gpu)?)).max_by(f64::total_cmp)
}

impl GpuNameMatch {
    /// Returns the memory of one GPU, or of the slice, in GB; if the name is ambiguous, that of the smallest
    /// model.
    pub fn least_memory_gb(&self) -> u32 {
        let whole = self.gpus.iter().map(|gpu| gpu.memory.gb).min().unwrap_or(1);
        self.slice.as_ref().map_or(whole, |slice| slice.memory_gb)
    }

    /// Returns the memory of one GPU, or of the slice, in GB; if the name is ambiguous, that of the largest
    /// model.
    pub fn most_memory_gb(&self) -> u32 {
        let whole = self.gpus.iter().map(|gpu| gpu.memory.gb).max().unwrap_or(u32::MAX);
        self.slice.as_ref().map_or(whole, |slice| slice.memory_gb)
    }

    /// Returns the memory of one GPU, or of the slice; if the name is ambiguous, that of the largest model.
    pub(crate) fn most_memory(&self) -> Bytes {
        Bytes(u64::from(self.most_memory_gb()) * GB)
    }

    /// Returns how many GPUs provide this memory together, a power of two; `None` if one slice is too small,
    /// because several slices cannot work together.
    pub fn count_for(&self, need: Bytes) -> Option<u32> {
        count_for(self.least_memory_gb(), need).filter(|count| self.slice.is_none() || *count == 1)
    }
}

/// Bytes per GB in the table, as in its sources.
const GB: u64 = 1_000_000_000;

/// Returns how many GPUs of this size in GB provide this memory together, a power of two.
pub fn count_for(gb: u32, need: Bytes) -> Option<u32> {
    u32::try_from(need.0.div_ceil(u64::from(gb.max(1)) * GB).next_power_of_two()).ok()
}

/// Returns the possible meanings of a GPU type or product name, or `None` if it is not in the table.
///
/// A name with a word that no entry explains, such as `gh200_xxx`, is not recognised.
pub fn recognise(name: &str) -> Option<GpuNameMatch> {
    let Some((parent, profile)) = split_mig(name) else {
        let gpus = whole(name)?;
        return Some(GpuNameMatch { gpus, slice: None });
    };
    let profile = profile.to_ascii_lowercase();
    let (compute, memory) = profile.strip_suffix("gb")?.split_once("g.")?;
    let slice = MigSlice {
        compute: compute.parse().ok()?,
        memory_gb: memory.parse().ok()?,
        profile: profile.clone(),
    };
    let mut gpus = if parent.is_empty() { gpus().iter().collect() } else { whole(parent)? };
    gpus.retain(|gpu| gpu.mig.contains(&profile));
    (!gpus.is_empty()).then_some(GpuNameMatch { gpus, slice: Some(slice) })
}

impl GpuNameMatch {
    /// Returns the model, if it is unambiguous.
    pub fn model(&self) -> Option<&'static str> {
        let first = self.gpus.first()?.model();
        self.gpus.iter().all(|gpu| gpu.model() == first).then_some(first)
    }

    /// Returns the memory in GB, of the slice if there is one, or `None` if it is ambiguous.
    pub fn memory_gb(&self) -> Option<u32> {
        let first = self.gpus.first()?.memory.gb;
        let whole = self.gpus.iter().all(|gpu| gpu.memory.gb == first).then_some(first);
        self.slice.as_ref().map_or(whole, |slice| Some(slice.memory_gb))
    }

    /// Returns whether both names may mean the same GPU; false if one of them may mean several models. A
    /// slice never equals a whole GPU.
    pub fn may_be(&self, other: &Self) -> bool {
        let same_slice = self.slice == other.slice;
        let common = self.gpus.iter().any(|gpu| other.gpus.contains(gpu));
        same_slice && common && self.model().is_some() && other.model().is_some()
    }

    /// Returns true if all possible GPUs support this precision, and false if none does; `None` if they
    /// differ or this is unknown.
    pub fn has(&self, precision: Precision) -> Option<bool> {
        let first = self.gpus.first()?.has(precision)?;
        self.gpus.iter().all(|gpu| gpu.has(precision) == Some(first)).then_some(first)
    }

    /// Returns a short name for messages: `a100`, `a100-80gb`, `3g.20gb of a100-40gb`; an ambiguous name
    /// gives all possible models.
    pub fn label(&self) -> String {
        let models: BTreeSet<&str> = self.gpus.iter().map(|gpu| gpu.model()).collect();
        let whole = Self { gpus: self.gpus.clone(), slice: None };
        let all = gpus().iter().filter(|gpu| models.contains(gpu.model()));
        let sizes: BTreeSet<u32> = all.map(|gpu| gpu.memory.gb).collect();
        let names = models.into_iter().collect::<Vec<_>>().join(" or ");
        let label = match whole.memory_gb() {
            Some(size) if sizes.len() > 1 => format!("{names}-{size}gb"),
            _ => names,
        };
        match &self.slice {
            Some(slice) => format!("{} of {label}", slice.profile),
            None => label,
        }
    }
}

/// Maximum number of words in a name; longer names are not recognised.
const MOST_WORDS: usize = 16;

/// Returns the GPUs that a name without a slice may mean.
fn whole(name: &str) -> Option<Vec<&'static Gpu>> {
    let words = words(name);
    // No model name has this many words, and trying all combinations would be slow.
    if words.len() > MOST_WORDS {
        return None;
    }
    // The longest prefix wins: `h100_nvl` is a model, `h100_pcie` a model and a form factor.
    let splits =
        (0..words.len()).flat_map(|start| (start + 1..=words.len()).rev().map(move |end| (start, end)));
    splits.into_iter().find_map(|(start, end)| {
        let mut found = named(&words[start..end].concat())?;
        for word in words[..start].iter().chain(&words[end..]) {
            found.retain(|gpu| says(gpu, word));
        }
        (!found.is_empty()).then_some(found)
    })
}

/// Returns the GPUs of a model, by its name or a short name without separators.
fn named(squeezed: &str) -> Option<Vec<&'static Gpu>> {
    BY_NAME.get(squeezed).cloned().or_else(|| whole(spelling(squeezed)?))
}

/// Returns whether a word before or after the model's name applies to the GPU: a form factor, or a kind or
/// size of memory.
fn says(gpu: &Gpu, word: &str) -> bool {
    let size = ["gb", "gib", "g", ""].iter().find_map(|unit| word.strip_suffix(unit)?.parse::<u32>().ok());
    let sxm = || gpu.form.as_deref().is_some_and(|form| form.starts_with("sxm"));
    match word {
        "sxm" | "nvlink" => sxm(),
        _ => size == Some(gpu.memory.gb) || gpu.form.as_deref() == Some(word) || gpu.memory.kind == word,
    }
}

/// Returns a name's words in lower case, without the uninformative ones.
fn words(name: &str) -> Vec<String> {
    let name = name.to_ascii_lowercase();
    let word = |word: &str| {
        let rest = PREFIXES.iter().find_map(|prefix| word.strip_prefix(prefix));
        rest.unwrap_or(word).to_owned()
    };
    let parts = name.split(|c: char| !c.is_ascii_alphanumeric());
    parts.map(word).filter(|word| !word.is_empty() && !EMPTY_WORDS.contains(&word.as_str())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn label(name: &str) -> String {
        recognise(name).map_or_else(|| "-".into(), |known| known.label())
    }

    #[test]
    fn names_of_clusters_are_recognised() {
        let check = |name: &str, expected: &str| assert_eq!(label(name), expected, "{name}");
        check("a100", "a100");
        check("A100", "a100");
        check("a100l", "a100-80gb");
        check("nvidia_a100_80gb_pcie", "a100-80gb");
        check("nvidia_a100-sxm4-40gb", "a100-40gb");
        check("NVlink_A100_40GB", "a100-40gb");
        check("a100_80", "a100-80gb");
        check("v100l", "v100-32gb");
        check("tesla_v100-sxm2-32gb", "v100-32gb");
        check("Tesla_V100", "v100");
        check("teslak80", "k80");
        check("rtx8000", "rtx-8000");
        check("quadro_rtx_6000", "rtx-6000");
        check("nvidia_rtx_6000_ada_generation", "rtx-6000-ada");
        check("nvidia_rtx_a6000", "rtx-a6000");
        check("2080ti", "rtx-2080-ti");
        check("nvidia_geforce_rtx_2080_ti", "rtx-2080-ti");
        check("nvidia_h100_80gb_hbm3", "h100");
        check("nvidia_h100_nvl", "h100-nvl");
        check("nvidia_gh200_480gb", "gh200-96gb");
        check("amd_instinct_mi210", "mi210");
    }

    #[test]
    fn slices_are_not_the_whole_and_know_their_parent() {
        let check = |name: &str, expected: &str| assert_eq!(label(name), expected, "{name}");
        check("a100_3g.20gb", "3g.20gb of a100-40gb");
        check("nvidia_h100_80gb_hbm3_1g.10gb", "1g.10gb of h100");
        check("3g.20gb", "3g.20gb of a100-40gb");
        check("A100-2G.10GB", "2g.10gb of a100-40gb");
        let (slice, whole) = (recognise("a100_3g.20gb").expect("known"), recognise("a100").expect("known"));
        assert!(!slice.may_be(&whole));
        assert!(slice.may_be(&recognise("nvidia_a100-sxm4-40gb_3g.20gb").expect("known")));
        assert_eq!((slice.memory_gb(), whole.memory_gb()), (Some(20), None));
        // The same profile of two models implies no speed.
        let open = recognise("3g.40gb").expect("known");
        assert!(!open.may_be(&recognise("h100_3g.40gb").expect("known")));
    }

    #[test]
    fn what_a_word_leaves_unexplained_is_not_recognised() {
        for name in
            ["gpu", "tesla", "nvidia", "gh200_xxx", "a100_64gb", "v100-quad", "h100_10gb", "", "_", "80gb"]
        {
            assert_eq!(label(name), "-", "{name}");
        }
    }

    #[test]
    fn only_names_that_agree_are_names_of_one_gpu() {
        let check = |one: &str, other: &str, expected| {
            let (one, other) = (recognise(one).expect("known"), recognise(other).expect("known"));
            assert_eq!(one.may_be(&other), expected, "{one:?} {other:?}");
        };
        check("a100", "nvidia_a100_80gb_pcie", true);
        check("a100-40gb", "nvidia_a100_80gb_pcie", false);
        check("v100", "v100s", false);
    }

    #[test]
    fn tf32_and_bf16_begin_with_ampere() {
        let check = |name: &str, precision, expected| {
            assert_eq!(recognise(name).and_then(|known| known.has(precision)), expected, "{name}");
        };
        check("v100", Precision::Bf16, Some(false));
        check("t4", Precision::Tf32, Some(false));
        check("t4", Precision::Fp16, Some(true));
        check("a100", Precision::Bf16, Some(true));
        check("3g.40gb", Precision::Tf32, Some(true));
        check("mi250x", Precision::Bf16, Some(true));
        check("mi250x", Precision::Tf32, None);
    }

    /// Types of real clusters and of Slurm's own examples that name no known model.
    const NAMELESS: [&str; 31] = [
        "48gb",
        "a",
        "aa",
        "aaa",
        "aaaa",
        "b100",
        "c100",
        "d100",
        "fake2",
        "geforce_rtx_2060",
        "gh200_xxx",
        "gpu1",
        "gpu2",
        "gtx",
        "gtx560",
        "k20m1",
        "kepler",
        "map",
        "model_a",
        "model_b",
        "nvidia",
        "pcie-16gb",
        "rtx",
        "single",
        "special",
        "tesla",
        "ti",
        "type1",
        "v100-quad",
        "volta",
        "what",
    ];

    #[test]
    #[expect(clippy::disallowed_methods, reason = "tests use files")]
    #[expect(clippy::print_stdout, reason = "a test that is skipped says why")]
    fn gres_of_real_clusters_are_recognised() {
        let path =
            concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data/slurm-samples/gres_strings.csv");
        let Ok(text) = std::fs::read_to_string(path) else {
            println!("skipped: no samples at {path}");
            return;
        };
        let types: BTreeSet<&str> = text.split("gpu:").skip(1).filter_map(gres_type).collect();
        let (known, unknown): (Vec<&str>, Vec<&str>) =
            types.iter().partition(|name| recognise(name).is_some());
        println!("{} of {} types are recognised", known.len(), types.len());
        assert_eq!(unknown, NAMELESS);
    }

    /// Returns the type in the text after `gpu:`, if there is one before the count.
    fn gres_type(rest: &str) -> Option<&str> {
        let (name, count) = rest.split_once(':')?;
        let typed =
            name.starts_with(|c: char| c.is_ascii_alphanumeric()) && !name.contains([',', '(', ' ', '\n']);
        (typed && count.starts_with(|c: char| c.is_ascii_digit())).then_some(name)
    }
}
