//! Generic resources of a request, such as `gpu:a100:2,shard:4`, parsed as by `sbatch`.

use super::numbers::leading_number;
use super::source::SlurmVersion;

/// A count of one generic resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct GresItem {
    pub name: String,
    /// Type as written.
    pub kind: Option<String>,
    pub count: u64,
}

/// Resources that share GPUs; a job requests either these or GPUs.
const SHARED: [&str; 2] = ["shard", "mps"];

const INVALID: &str = "Invalid generic resource (gres) specification";
const INVALID_TRES: &str = "Invalid Trackable RESource (TRES) specification";

impl GresItem {
    pub(super) fn is_gpu(&self) -> bool {
        self.name == "gpu"
    }
}

/// Returns the resources of `--gres`.
///
/// # Errors
/// Slurm's message.
pub(super) fn gres(text: &str, version: SlurmVersion) -> Result<Vec<GresItem>, String> {
    if text.eq_ignore_ascii_case("none") {
        return Ok(Vec::new());
    }
    let prefix = if version.is_at_least(23, 11) { "gres/" } else { "gres:" };
    if text.split(',').any(str::is_empty) && !version.is_at_least(23, 11) {
        return Err(INVALID_TRES.to_owned());
    }
    let parts = text.split(',').map(|part| part.strip_prefix(prefix).unwrap_or(part));
    items(parts, version)
}

/// Returns the GPUs of `--gpus` and similar options.
///
/// # Errors
/// Slurm's message.
pub(super) fn gpus(text: &str, version: SlurmVersion) -> Result<Vec<GresItem>, String> {
    let parts: Vec<String> =
        text.split(',').filter(|part| !part.is_empty()).map(|part| format!("gpu:{part}")).collect();
    items(parts.iter().map(String::as_str), version)
}

/// Returns the GPUs of `--gpus-per-task`.
///
/// Since 23.11, `sbatch` takes the text before the first `:` or `=` as the type and the digits after it as
/// the number. Without digits it requests no GPUs.
///
/// # Errors
/// Slurm's message.
pub(super) fn gpus_of_task(text: &str, version: SlurmVersion) -> Result<Vec<GresItem>, String> {
    if !version.is_at_least(23, 11) {
        return gpus(text, version);
    }
    let (kind, count) = match text.split_once([':', '=']) {
        Some((kind, count)) => (Some(kind.to_owned()), count),
        None => (None, text),
    };
    let count = leading_number(count).map_or(0, |(number, _)| number);
    let count = u64::try_from(count).map_err(|_| INVALID_TRES.to_owned())?;
    let item = GresItem { name: "gpu".to_owned(), kind, count };
    Ok(Some(item).filter(|item| item.count > 0).into_iter().collect())
}

/// Returns the CPUs and the generic resources of `--tres-per-task`; `sbatch` ignores licenses, and words that
/// have no number.
///
/// # Errors
/// Slurm's message.
pub(super) fn tres_per_task(
    text: &str,
    version: SlurmVersion,
) -> Result<(Option<u64>, Vec<GresItem>), String> {
    let (mut cpus, mut resources) = (None, Vec::new());
    for part in text.split(',').filter(|part| !part.is_empty()) {
        let lower = part.to_ascii_lowercase();
        let refused = ["mem", "energy", "node", "billing", "fs", "vmem", "pages", "bb"];
        if let Some(name) = refused.iter().find(|name| lower.starts_with(**name)) {
            return Err(format!("Invalid TRES for --tres-per-task: {name}"));
        }
        if let Some(rest) = lower.strip_prefix("cpu") {
            let number = rest.get(1..).and_then(leading_number).map_or(0, |(number, _)| number);
            let number = u64::try_from(number).ok().filter(|number| *number > 0);
            cpus = Some(number.ok_or_else(|| "Invalid --tres-per-task=cpu=0".to_owned())?);
        } else if let Some(rest) = part.strip_prefix("gres/").or_else(|| part.strip_prefix("gres:")) {
            resources.extend(items([rest].into_iter(), version)?);
        } else if !lower.starts_with("license") && lower.contains([':', '=']) {
            return Err(INVALID_TRES.to_owned());
        }
    }
    Ok((cpus, resources))
}

/// Returns the type and number of items such as `gpu:a100:2`; items with number 0 are dropped.
fn items<'a>(parts: impl Iterator<Item = &'a str>, version: SlurmVersion) -> Result<Vec<GresItem>, String> {
    let mut all = Vec::new();
    let is_newer = version.is_at_least(23, 11);
    for part in parts.filter(|part| !(part.is_empty() || is_newer && *part == "0")) {
        let item = if is_newer { item(part) } else { older_item(part) }?;
        let is_odd = item.name.is_empty() || item.name.contains(['/', '(', '=']) || item.name == "gres";
        let is_gpu_in_capitals = !item.is_gpu() && item.name.eq_ignore_ascii_case("gpu");
        let is_number = item.name.bytes().all(|byte| byte.is_ascii_digit());
        if is_odd || is_gpu_in_capitals || is_number {
            let is_of_controller = is_newer && is_number && !item.name.is_empty();
            return Err(if is_of_controller { INVALID_TRES } else { INVALID }.to_owned());
        }
        if item.count > 0 {
            all.push(item);
        }
    }
    Ok(all)
}

/// Parses an item from its end: a number after the last `=` or `:`, else a type.
fn item(part: &str) -> Result<GresItem, String> {
    let (name, kind, count) = match part.rfind('=').or_else(|| part.rfind(':')) {
        None => (part, None, 1),
        Some(place) => {
            let (name, last) = (&part[..place], &part[place + 1..]);
            match number(last) {
                Some(count) => (name, None, count),
                None if last.is_empty() || part.as_bytes()[place] == b'=' => {
                    return Err(INVALID_TRES.to_owned());
                }
                None => (name, Some(last), 1),
            }
        }
    };
    let (name, kind) = match (name.split_once(':'), kind) {
        (Some(_), Some(_)) => return Err(INVALID_TRES.to_owned()),
        (Some((name, kind)), None) => (name, Some(kind).filter(|kind| !kind.is_empty())),
        (None, kind) => (name, kind),
    };
    Ok(GresItem { name: name.to_owned(), kind: kind.map(str::to_owned), count })
}

/// Parses an item from its start, as versions before 23.11 do: name, type, number.
fn older_item(part: &str) -> Result<GresItem, String> {
    let invalid = || INVALID.to_owned();
    let mut fields = part.splitn(3, ':');
    let name = fields.next().unwrap_or_default();
    let (kind, count) = match (fields.next(), fields.next()) {
        (None, _) => (None, 1),
        (Some(""), _) => return Err(invalid()),
        (Some(last), None) => number(last).map_or((Some(last), 1), |count| (None, count)),
        (Some(kind), Some(count)) => (Some(kind), number(count).ok_or_else(invalid)?),
    };
    Ok(GresItem { name: name.to_owned(), kind: kind.map(str::to_owned), count })
}

/// Returns a number such as `2` or `4K`.
fn number(text: &str) -> Option<u64> {
    let (number, unit) = leading_number(text).filter(|_| text.starts_with(|c: char| c.is_ascii_digit()))?;
    let factor: u64 = match unit.to_ascii_lowercase().as_str() {
        "" => 1,
        "k" | "kib" => 1 << 10,
        "kb" => 1000,
        "m" | "mib" => 1 << 20,
        "mb" => 1_000_000,
        "g" | "gib" => 1 << 30,
        "gb" => 1_000_000_000,
        "t" | "tib" => 1 << 40,
        "tb" => 1_000_000_000_000,
        "p" | "pib" => 1 << 50,
        "pb" => 1_000_000_000_000_000,
        _ => return None,
    };
    u64::try_from(number).ok()?.checked_mul(factor)
}

/// GPUs of one type, or of any type, by the unit in which each option counts them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct GpuCounts {
    pub kind: Option<String>,
    pub per_job: u64,
    pub per_node: u64,
    /// The largest of several per-node counts, which Slurm uses for the job's total.
    pub most_per_node: u64,
    pub per_socket: u64,
    pub per_task: u64,
}

/// Accessor for the count that an option sets.
type CountOf = fn(&mut GpuCounts) -> &mut u64;

/// The requested generic resources, by option.
#[derive(Clone, Debug, Default)]
pub(super) struct GresLists {
    pub job: Vec<GresItem>,
    /// The GPUs of `--gpus-per-node`, then those of `--gres`.
    pub node: Vec<GresItem>,
    pub socket: Vec<GresItem>,
    pub task: Vec<GresItem>,
}

impl GresLists {
    /// Returns the GPUs; of several items of the same type in one list, the last one counts.
    ///
    /// # Errors
    /// Slurm's message about GPUs with and without a type, and about GPUs beside resources that share GPUs.
    pub(super) fn gpus(&self) -> Result<Vec<GpuCounts>, String> {
        let mut all: Vec<GpuCounts> = Vec::new();
        let lists: [(&[GresItem], CountOf); 4] = [
            (&self.job, |gpus| &mut gpus.per_job),
            (&self.node, |gpus| &mut gpus.per_node),
            (&self.socket, |gpus| &mut gpus.per_socket),
            (&self.task, |gpus| &mut gpus.per_task),
        ];
        for (items, field) in lists {
            for item in items.iter().filter(|item| item.is_gpu()) {
                let place =
                    all.iter().position(|gpu_counts| gpu_counts.kind == item.kind).unwrap_or_else(|| {
                        all.push(GpuCounts { kind: item.kind.clone(), ..GpuCounts::default() });
                        all.len() - 1
                    });
                *field(&mut all[place]) = item.count;
                all[place].most_per_node = all[place].most_per_node.max(all[place].per_node);
            }
        }
        if all.iter().any(|gpu_counts| gpu_counts.kind.is_none())
            && all.iter().any(|gpu_counts| gpu_counts.kind.is_some())
        {
            return Err("Invalid GRES specification (with and without type identification)".to_owned());
        }
        let is_shared = |item: &GresItem| SHARED.contains(&item.name.as_str());
        if !all.is_empty() && self.items().any(is_shared) {
            return Err(INVALID.to_owned());
        }
        Ok(all)
    }

    /// Returns all items.
    pub(super) fn items(&self) -> impl Iterator<Item = &GresItem> {
        [&self.job, &self.node, &self.socket, &self.task].into_iter().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEW: SlurmVersion = SlurmVersion::DEFAULT;
    const OLD: SlurmVersion = SlurmVersion { year: 22, month: 5 };

    fn show(items: Result<Vec<GresItem>, String>) -> Option<String> {
        let show = |item: &GresItem| {
            format!("{}/{}/{}", item.name, item.kind.as_deref().unwrap_or_default(), item.count)
        };
        Some(items.ok()?.iter().map(show).collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn items_are_read_by_both_versions() {
        for version in [OLD, NEW] {
            let check = |text: &str, expected: Option<&str>| {
                assert_eq!(show(gres(text, version)).as_deref(), expected, "{text} {version:?}");
            };
            check("gpu", Some("gpu//1"));
            check("gpu:2", Some("gpu//2"));
            check("gpu:a100", Some("gpu/a100/1"));
            check("gpu:a100:2,tmpfs:100G", Some("gpu/a100/2 tmpfs//107374182400"));
            check("gpu:0", Some(""));
            check("NONE", Some(""));
            check("gpu:-1", Some("gpu/-1/1"));
            check(",gpu:1", Some("gpu//1").filter(|_| version == NEW));
            check("gpu:1,", Some("gpu//1").filter(|_| version == NEW));
            for text in ["gpu:", ":gpu:2", "gpu:2:a100", "gpu:2(S:0)", "gpu/a100:2", "GPU:2", "2"] {
                check(text, None);
            }
        }
        assert_eq!(show(gres("gpu:a100=2", NEW)).as_deref(), Some("gpu/a100/2"));
        assert_eq!(show(gres("gpu:a100=2", OLD)).as_deref(), Some("gpu/a100=2/1"));
        assert_eq!((show(gres("gres:gpu:2", NEW)), show(gres("gres/gpu:2", OLD))), (None, None));
        assert_eq!(show(gres("gres/gpu:2", NEW)).as_deref(), Some("gpu//2"));
        assert_eq!(show(gpus("a100:2,v100:4", NEW)).as_deref(), Some("gpu/a100/2 gpu/v100/4"));
        assert_eq!(show(gpus("", NEW)).as_deref(), Some(""));
        assert_eq!(show(gpus("=2", NEW)).as_deref(), Some("gpu//2"));
        assert_eq!((show(gres("0", NEW)).as_deref(), show(gres("0", OLD))), (Some(""), None));
    }

    #[test]
    fn gpus_of_a_task_have_a_number_in_newer_versions() {
        let check = |text: &str, version: SlurmVersion, expected: Option<&str>| {
            assert_eq!(show(gpus_of_task(text, version)).as_deref(), expected, "{text} {version:?}");
        };
        for (text, expected) in [
            ("2", Some("gpu//2")),
            ("a100:2", Some("gpu/a100/2")),
            ("a100=2", Some("gpu/a100/2")),
            ("2k", Some("gpu//2")),
            ("a100:1,h100:1", Some("gpu/a100/1")),
            ("a100", Some("")),
            ("gpu:a100:2", Some("")),
            ("0", Some("")),
            ("-1", None),
        ] {
            check(text, NEW, expected);
        }
        check("a100", OLD, Some("gpu/a100/1"));
    }

    #[test]
    fn resources_of_a_task_name_their_kind() {
        let read = |text: &str| tres_per_task(text, NEW).ok().map(|(cpus, items)| (cpus, show(Ok(items))));
        assert_eq!(read("cpu=4,gres/gpu:a100:1"), Some((Some(4), Some("gpu/a100/1".to_owned()))));
        assert_eq!(read("cpu:4"), Some((Some(4), Some(String::new()))));
        assert_eq!(read("gpu"), Some((None, Some(String::new()))));
        for text in ["gpu:1", "mem=4G", "cpu=0", "cpu", "node=1"] {
            assert_eq!(read(text), None, "{text}");
        }
    }

    #[test]
    fn gpus_of_both_kinds_and_shares_of_gpus_are_refused() {
        let lists = |job: &str, node: &str| GresLists {
            job: gpus(job, NEW).expect("GPUs"),
            node: gres(node, NEW).expect("resources"),
            ..GresLists::default()
        };
        let mixed = lists("4", "gpu:a100:4").gpus();
        assert_eq!(
            mixed,
            Err("Invalid GRES specification (with and without type identification)".to_owned())
        );
        assert_eq!(lists("1", "shard:1").gpus(), Err(INVALID.to_owned()));
        let later = lists("", "gpu:1,gpu:3").gpus().expect("GPUs");
        assert_eq!(later.iter().map(|gpu_counts| gpu_counts.per_node).collect::<Vec<_>>(), [3]);
    }
}
