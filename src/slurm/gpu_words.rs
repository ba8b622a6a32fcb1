//! Names of GPU models inside other words, such as features.

/// Models, as sites write them in features; with the makers' product lines before them or not.
const MODELS: [&str; 60] = [
    "a2", "a10", "a10g", "a16", "a30", "a40", "a100", "a800", "a2000", "a4000", "a4500", "a5000", "a6000",
    "b100", "b200", "b300", "gb200", "gb300", "gh200", "h20", "h100", "h200", "h800", "k20", "k40", "k80",
    "l4", "l40", "l40s", "m40", "m60", "mi50", "mi60", "mi100", "mi210", "mi250", "mi250x", "mi300",
    "mi300a", "mi300x", "mi325x", "mi355x", "p4", "p40", "p100", "p4000", "p5000", "p6000", "t4", "v100",
    "v100s", "1080ti", "2080ti", "3080", "3090", "4090", "5090", "rtx6000", "rtx8000", "titan",
];

/// Beginnings of words that are followed by a model.
const LINES: [&str; 6] = ["geforce", "nvidia", "quadro", "tesla", "rtx", "gtx"];

/// Returns the name of the GPU model that a feature, partition or node name holds, in small letters.
pub(super) fn gpu_word(text: &str) -> Option<String> {
    let lower = text.to_ascii_lowercase();
    let is_model = |word: &&str| {
        let short = LINES.iter().fold(*word, |rest, line| rest.strip_prefix(line).unwrap_or(rest));
        let named = |name: &str| MODELS.contains(&name);
        named(word)
            || named(short)
            || (short.len() < word.len() && short.starts_with(|c: char| c.is_ascii_digit()))
    };
    lower.split(|c: char| !c.is_ascii_alphanumeric()).find(is_model).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_are_told_from_racks() {
        let check = |text: &str, expected: &str| {
            assert_eq!(gpu_word(text).as_deref().unwrap_or_default(), expected, "{text}");
        };
        check("A100", "a100");
        check("nvidia_h100_80gb", "h100");
        check("GPU_SKU:RTX2080TI", "rtx2080ti");
        check("gtx1080", "gtx1080");
        check("gpu-l40s", "l40s");
        for name in ["", "a1", "ib", "skylake", "rack-a3", "gen4", "gpu", "rtx", "t40", "100g"] {
            check(name, "");
        }
    }
}
