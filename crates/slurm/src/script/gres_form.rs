//! How to write GPUs that a script requests in a form that Slurm does not take.

use super::gres::{gpus, gres};
use super::source::SlurmVersion;
use crate::gpu_words::gpu_words;
use hsched_model::GpuType;

/// Returns the most likely meaning of a value that Slurm does not accept for an option that requests GPUs,
/// such as `--gres` or `--gpus`: `gpu:v100:4` for `v100:4`, `GPU:v100:4`, `gpu:4:v100` or
/// `gpu:v100:4(S:0)`. `None` if the meaning cannot be guessed, or if the value already has that form.
///
/// `known_types` are the cluster's GPU types, whose case counts.
pub fn gpu_form(option: &str, value: &str, known_types: &[&str]) -> Option<String> {
    let prefix = match option {
        "gres" => "gpu:",
        "tres-per-task" => "gres/gpu:",
        "gpus" | "gpus-per-node" | "gpus-per-socket" | "gpus-per-task" => "",
        _ => return None,
    };
    let parts: Option<Vec<String>> = value
        .split([',', ';'])
        .map(str::trim)
        .filter(|part| !part.is_empty())
        .map(|part| Some(format!("{prefix}{}", gpu_part(part, known_types)?)))
        .collect();
    let form = parts.filter(|parts| !parts.is_empty())?.join(",");
    let is_read = match option {
        "gres" => gres(&form, SlurmVersion::DEFAULT).is_ok(),
        "tres-per-task" => true,
        _ => gpus(&form, SlurmVersion::DEFAULT).is_ok(),
    };
    (is_read && form != value).then_some(form)
}

/// Returns `TYPE:NUMBER` or `NUMBER` from a part such as `gpu:4:v100`; a missing number is 1.
fn gpu_part(part: &str, known_types: &[&str]) -> Option<String> {
    let part = part.split('(').next().unwrap_or_default();
    let mut fields: Vec<&str> =
        part.split([':', '=', '/']).map(str::trim).filter(|field| !field.is_empty()).collect();
    let is_word = |field: &str, words: &[&str]| words.iter().any(|word| field.eq_ignore_ascii_case(word));
    let begins = |fields: &[&str], words: &[&str]| fields.first().is_some_and(|field| is_word(field, words));
    if begins(&fields, &["gres"]) {
        fields.remove(0);
    }
    let is_named = begins(&fields, &["gpu", "gpus"]);
    if is_named {
        fields.remove(0);
    }
    let is_number = |field: &str| field.bytes().all(|byte| byte.is_ascii_digit());
    let (numbers, kinds): (Vec<&str>, Vec<&str>) = fields.iter().partition(|field| is_number(field));
    let kind = match kinds[..] {
        [] => None,
        [kind] => {
            let known = known_types.iter().find(|known| known.eq_ignore_ascii_case(kind));
            let is_model = !gpu_words(kind).is_empty();
            let is_named = is_named && GpuType::new(kind).is_some();
            Some(known.copied().or_else(|| Some(kind).filter(|_| is_named || is_model))?)
        }
        _ => return None,
    };
    match (kind, numbers[..].last()) {
        (None, None) => is_named.then(|| "1".to_owned()),
        (None, Some(number)) => Some((*number).to_owned()),
        (Some(kind), None) => Some(format!("{kind}:1")),
        (Some(kind), Some(number)) => Some(format!("{kind}:{number}")),
    }
}

#[cfg(test)]
mod tests {
    use super::gpu_form;

    #[test]
    fn what_was_meant_has_a_form_that_slurm_takes() {
        let check = |option: &str, value: &str, expected: Option<&str>| {
            assert_eq!(gpu_form(option, value, &["v100", "t4", "titan"]).as_deref(), expected, "{value}");
        };
        for (value, expected) in [
            ("v100:4", Some("gpu:v100:4")),
            ("v100", Some("gpu:v100:1")),
            ("a100:2", Some("gpu:a100:2")),
            ("titan:2", Some("gpu:titan:2")),
            ("4", Some("gpu:4")),
            ("GPU:V100:2", Some("gpu:v100:2")),
            ("gpus:2", Some("gpu:2")),
            ("gres:gpu:2", Some("gpu:2")),
            ("gpu:4:v100", Some("gpu:v100:4")),
            ("gpu:v100:2(IDX:0-1)", Some("gpu:v100:2")),
            ("gpu:2(S:0)", Some("gpu:2")),
            ("gpu:", Some("gpu:1")),
            ("gpu/a100:2", Some("gpu:a100:2")),
            ("gpu:2;gpu:1", Some("gpu:2,gpu:1")),
            ("gpu:v100:4", None),
            ("shard:2", None),
            ("gpu:-1", None),
            ("mic:1", None),
            ("gpu:2,shard:2", None),
            ("", None),
        ] {
            check("gres", value, expected);
        }
        check("tres-per-task", "gres/v100:1", Some("gres/gpu:v100:1"));
        check("tres-per-task", "gpu:2", Some("gres/gpu:2"));
        check("gpus", "gpu:2", Some("2"));
        check("gpus-per-node", "gpu:v100:4", Some("v100:4"));
        check("mem", "4", None);
    }
}
