//! The table of GPUs in `gpus.toml`.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Deserialize;

use super::gpu::Gpu;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CatalogueFile {
    sources: BTreeMap<String, String>,
    spellings: BTreeMap<String, String>,
    gpu: Vec<Gpu>,
}

#[expect(clippy::expect_used, reason = "the text is part of the program, and tests read it")]
static TABLE: LazyLock<CatalogueFile> =
    LazyLock::new(|| toml::from_str(include_str!("gpus.toml")).expect("gpus.toml is a table of GPUs"));

/// Returns all GPUs, by vendor and then by architecture, the oldest first.
pub fn gpus() -> &'static [Gpu] {
    &TABLE.gpu
}

/// Returns short names with their full names: `a100l` for `a100-80gb`.
pub fn spellings() -> impl Iterator<Item = (&'static str, &'static str)> {
    TABLE.spellings.iter().map(|(short, full)| (short.as_str(), full.as_str()))
}

/// Returns the full name for a short one.
pub(super) fn spelling(short: &str) -> Option<&'static str> {
    TABLE.spellings.get(short).map(String::as_str)
}

/// Returns all names of GPUs and models, and the short ones.
pub fn names() -> impl Iterator<Item = &'static str> {
    let names = gpus().iter().flat_map(|gpu| [gpu.model(), &gpu.name]);
    names.chain(spellings().map(|(short, _)| short))
}

/// Returns the source with a key from [`Gpu::sources`].
pub fn source(key: &str) -> Option<&'static str> {
    TABLE.sources.get(key).map(String::as_str)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::recognise;
    use super::*;

    #[test]
    fn every_gpu_has_a_name_of_its_own_that_is_recognised() {
        let mut seen = BTreeSet::new();
        for gpu in gpus() {
            assert!(seen.insert(&gpu.name), "{} twice", gpu.name);
            for name in [&gpu.name, &gpu.product, &gpu.product.to_lowercase().replace(' ', "_")] {
                let known = recognise(name).unwrap_or_else(|| panic!("{name} is not recognised"));
                assert!(known.gpus.contains(&gpu), "{name} is {known:?}");
            }
            assert_eq!(recognise(&gpu.name).map(|known| known.gpus), Some(vec![gpu]), "{}", gpu.name);
            let of_model = recognise(gpu.model()).unwrap_or_else(|| panic!("model of {}", gpu.name));
            assert!(of_model.gpus.iter().all(|other| other.model() == gpu.model()), "{of_model:?}");
        }
        assert!(seen.len() >= 60, "{}", seen.len());
    }

    #[test]
    fn short_names_say_what_no_name_says() {
        for (short, full) in spellings() {
            assert!(gpus().iter().all(|gpu| gpu.name != short && gpu.model() != short), "{short}");
            assert!(recognise(full).is_some(), "{short} = {full}");
            assert_eq!(recognise(short), recognise(full), "{short} = {full}");
        }
    }

    #[test]
    fn figures_are_plausible_and_have_sources() {
        for gpu in gpus() {
            let name = &gpu.name;
            assert!((4..=512).contains(&gpu.memory.gb), "{name}");
            assert!((100.0..=10_000.0).contains(&gpu.memory.gb_s), "{name}");
            let rates = gpu.tflops;
            assert!(rates.fp32.is_none_or(|rate| (3.0..=200.0).contains(&rate)), "{name}");
            assert!(rates.tf32.is_none_or(|rate| (9.0..=3000.0).contains(&rate)), "{name}");
            // Half the width gives at least twice the rate.
            let ratio = rates.tf32.zip(rates.bf16).map_or(2.0, |(tf32, bf16)| bf16 / tf32);
            assert!((1.97..=2.03).contains(&ratio), "{name}: bf16 / tf32 = {ratio}");
            assert!(rates.bf16.is_none_or(|bf16| rates.fp16 >= Some(bf16)), "{name}");
            let capability = gpu.compute_capability;
            assert_eq!(capability.is_some(), gpu.vendor == "NVIDIA", "{name}");
            let before_ampere = capability.is_some_and(|number| number < 8.0);
            assert!(!before_ampere || (rates.bf16.is_none() && rates.tf32.is_none()), "{name}");
            assert!(!gpu.sources.is_empty(), "{name}");
            assert!(gpu.sources.iter().all(|key| source(key).is_some()), "{name}: {:?}", gpu.sources);
        }
        let used: BTreeSet<_> = gpus().iter().flat_map(|gpu| &gpu.sources).collect();
        assert_eq!(used, TABLE.sources.keys().collect(), "sources that no entry uses");
    }

    #[test]
    fn mig_profiles_add_up_to_the_gpu() {
        for gpu in gpus().iter().filter(|gpu| !gpu.mig.is_empty()) {
            let slice = |profile: &String| recognise(profile).and_then(|known| known.slice);
            let slices: Option<Vec<_>> = gpu.mig.iter().map(slice).collect();
            let slices = slices.unwrap_or_else(|| panic!("{}: {:?}", gpu.name, gpu.mig));
            let whole = slices.last().expect("a profile");
            assert_eq!(whole.memory_gb, gpu.memory.gb, "{}", gpu.name);
            assert!([4, 7].contains(&whole.compute), "{}", gpu.name);
            assert!(slices.iter().all(|slice| slice.memory_gb <= whole.memory_gb), "{}", gpu.name);
        }
    }
}
