//! Values of options that request GPUs, with another type or number.

/// Options that request GPUs, and whether their values begin with the resource's name.
pub(super) const GPU_OPTIONS: [(&str, bool); 4] =
    [("gres", true), ("gpus", false), ("gpus-per-node", false), ("gpus-per-task", false)];

/// Options that request GPUs in forms that are not rewritten.
pub(super) const OTHER_GPU_OPTIONS: [&str; 3] = ["gpus-per-socket", "ntasks-per-gpu", "tres-per-task"];

/// Returns a value with another GPU type or count; `None` if it has no GPUs, several kinds of GPUs, or an
/// unknown form. A value without a type gets none.
pub(super) fn with_gpus(
    option: &str,
    value: &str,
    gpu_type: Option<&str>,
    count: Option<u32>,
) -> Option<String> {
    let (_, is_named) = GPU_OPTIONS.iter().find(|(name, _)| *name == option)?;
    let mut is_changed = false;
    let mut items: Vec<String> = Vec::new();
    for item in value.split(',') {
        let bare = item.strip_prefix("gres:").or_else(|| item.strip_prefix("gres/")).unwrap_or(item);
        // Since 23.11, `=` may precede the count.
        let mut fields: Vec<&str> = bare.split([':', '=']).collect();
        if *is_named && fields[0] != "gpu" {
            items.push(item.to_owned());
            continue;
        }
        // With several kinds of GPUs it is unclear which one is meant.
        if std::mem::replace(&mut is_changed, true) {
            return None;
        }
        if *is_named {
            fields.remove(0);
        }
        let is_count = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let (own_type, own_count) = match fields[..] {
            [] => (None, None),
            [count] if is_count(count) => (None, Some(count.to_owned())),
            [gpu_type] => (Some(gpu_type), None),
            [gpu_type, count] if is_count(count) => (Some(gpu_type), Some(count.to_owned())),
            _ => return None,
        };
        let own_type = if own_type.is_some() { gpu_type.or(own_type) } else { None };
        let own_count = count.map(|count| count.to_string()).or(own_count);
        let prefix = is_named.then(|| item[..item.len() - bare.len()].to_owned() + "gpu");
        let parts = prefix.into_iter().chain(own_type.map(str::to_owned)).chain(own_count);
        items.push(parts.collect::<Vec<_>>().join(":"));
    }
    is_changed.then(|| items.join(","))
}

#[cfg(test)]
mod tests {
    use super::with_gpus;

    #[test]
    fn only_the_type_and_the_count_change() {
        let check = |option: &str, value: &str, gpu_type: Option<&str>, count: Option<u32>, expected| {
            assert_eq!(with_gpus(option, value, gpu_type, count).as_deref(), expected, "{value}");
        };
        check("gres", "gpu:a100:4", Some("h100"), None, Some("gpu:h100:4"));
        check("gres", "gpu:a100:4", None, Some(2), Some("gpu:a100:2"));
        check("gres", "gpu:a100", None, Some(2), Some("gpu:a100:2"));
        check("gres", "gpu", None, Some(2), Some("gpu:2"));
        check("gres", "tmp:100,gres:gpu:4", None, Some(2), Some("tmp:100,gres:gpu:2"));
        check("gpus", "a100:4", Some("h100"), Some(8), Some("h100:8"));
        check("gres", "tmp=100,gpu:v100=2", Some("a100"), None, Some("tmp=100,gpu:a100:2"));
        check("gres", "gpu=2", None, Some(4), Some("gpu:4"));
        check("gpus", "v100=2", Some("a100"), None, Some("a100:2"));
        check("gpus-per-node", "4", None, Some(2), Some("2"));
        check("gpus-per-task", "v100", Some("a100"), None, Some("a100"));
        // Without a type, none can be changed.
        check("gpus", "4", Some("h100"), None, Some("4"));
        check("gres", "gpu:a100:2,gpu:v100:2", None, Some(2), None);
        check("gres", "shard:4", None, Some(2), None);
        check("gres", "gpu:a100:2:x", None, Some(2), None);
        check("mem", "4", None, Some(2), None);
    }
}
