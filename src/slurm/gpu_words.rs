//! GPU models named inside other words, such as features.

use crate::catalogue::{Recognised, recognise};

/// Returns the one GPU model that a feature, partition or node name names, as a whole or in one of its words.
pub(super) fn gpu_word(text: &str) -> Option<Recognised> {
    let known = |text| recognise(text).filter(|known| known.slice.is_none() && known.model().is_some());
    // Numbers alone count nodes and racks.
    let is_word = |word: &&str| !word.bytes().all(|byte| byte.is_ascii_digit());
    let words = || text.split(|c: char| !c.is_ascii_alphanumeric()).filter(is_word);
    known(text).or_else(|| words().find_map(known))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_are_told_from_racks() {
        let check = |text: &str, expected: &str| {
            let label = gpu_word(text).map(|known| known.label());
            assert_eq!(label.as_deref().unwrap_or_default(), expected, "{text}");
        };
        check("A100", "a100");
        check("nvidia_h100_80gb", "h100");
        check("v100-32gb", "v100-32gb");
        check("GPU_SKU:RTX2080TI", "rtx-2080-ti");
        check("gtx1080", "gtx-1080");
        check("gpu-3090", "rtx-3090");
        check("gpu-l40s", "l40s");
        for name in
            ["", "a1", "ib", "skylake", "rack-a3", "gen4", "gpu", "rtx", "t40", "100g", "cn-3090", "3g.40gb"]
        {
            check(name, "");
        }
    }
}
