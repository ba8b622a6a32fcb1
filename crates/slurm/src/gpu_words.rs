//! GPU models named in other texts, such as node features.

use hsched_model::catalogue::{GpuNameMatch, recognise};

/// Words that negate the name after them: `no-a100`.
const DENIALS: [&str; 5] = ["no", "non", "not", "without", "except"];
/// Words that turn the model before them into another one, which the table may lack: `a6000_ada`.
const OTHER_MODELS: [&str; 9] = ["ada", "blackwell", "ti", "super", "max", "pro", "xt", "xtx", "nvl"];

/// Maximum number of words in a model's name.
const LONGEST: usize = 6;

/// Returns the GPU models that a feature, partition or node name contains, as a whole or among its words.
///
/// Of consecutive words, the longest sequence that names a model counts. The whole text is ignored if a word
/// beside a name negates or changes the name.
pub(super) fn gpu_words(text: &str) -> Vec<GpuNameMatch> {
    let known = |text: &str| recognise(text).filter(|known| known.slice.is_none() && known.model().is_some());
    if let Some(known) = known(text) {
        return vec![known];
    }
    let lower = text.to_ascii_lowercase();
    let words: Vec<&str> = lower.split(|c: char| !c.is_ascii_alphanumeric()).collect();
    // Bare numbers are those of nodes and racks.
    let is_number = |words: &[&str]| words.iter().all(|word| word.bytes().all(|byte| byte.is_ascii_digit()));
    let (mut found, mut start) = (Vec::new(), 0);
    while start < words.len() {
        let runs = (start + 1..=words.len().min(start + LONGEST)).rev();
        let named = |end: usize| {
            let part = &words[start..end];
            let is_own = !is_number(part) && !part[0].is_empty() && !part[part.len() - 1].is_empty();
            Some((end, known(&part.join("_")).filter(|_| is_own)?))
        };
        let Some((end, model)) = runs.into_iter().find_map(named) else {
            start += 1;
            continue;
        };
        let is_denied = start.checked_sub(1).is_some_and(|before| DENIALS.contains(&words[before]));
        if is_denied || words.get(end).is_some_and(|behind| is_other_model(behind)) {
            return Vec::new();
        }
        found.push(model);
        start = end;
    }
    found
}

/// Returns whether the word after a model makes it another model.
pub(super) fn is_other_model(word: &str) -> bool {
    OTHER_MODELS.iter().any(|candidate| word.eq_ignore_ascii_case(candidate))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &[&str]) {
        let labels: Vec<String> = gpu_words(text).iter().map(GpuNameMatch::label).collect();
        assert_eq!(labels, expected, "{text}");
    }

    #[test]
    fn models_are_told_from_racks() {
        check("A100", &["a100"]);
        check("nvidia_h100_80gb", &["h100"]);
        check("v100-32gb", &["v100-32gb"]);
        check("GPU_SKU:RTX2080TI", &["rtx-2080-ti"]);
        check("gtx1080", &["gtx-1080"]);
        check("gpu-3090", &["rtx-3090"]);
        check("gpu-l40s", &["l40s"]);
        for name in
            ["", "a1", "ib", "skylake", "rack-a3", "gen4", "gpu", "rtx", "t40", "100g", "cn-3090", "3g.40gb"]
        {
            check(name, &[]);
        }
    }

    #[test]
    fn a_word_beside_a_model_may_change_or_deny_it() {
        check("a6000_ada", &["rtx-6000-ada"]);
        check("part_rtx_6000_ada", &["rtx-6000-ada"]);
        check("part_a40_ada", &[]);
        check("no-a100", &[]);
        check("gpu_without_v100", &[]);
    }

    #[test]
    fn all_models_of_a_name_are_found() {
        check("gpu_p100_and_v100", &["p100", "v100"]);
        check("a40-h100", &["a40", "h100"]);
        check("a100_part_a100", &["a100", "a100"]);
    }
}
