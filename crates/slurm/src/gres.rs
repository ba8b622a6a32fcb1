//! Generic resources as Slurm prints them: `gpu:v100:4(S:0-1),lscratch:800G` and `gres/gpu:v100=4`.

use crate::amount;
use hsched_model::{Bytes, GpuType};

/// The content of a GRES text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Gres {
    /// GPUs in printed order, each type once with its total count; a count may be 0.
    pub gpus: Vec<(GpuType, u32)>,
    /// All other parts as printed: other resources, and unreadable GPUs.
    pub other: Vec<String>,
}

/// The content of a TRES text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tres {
    pub cpus: Option<u64>,
    pub memory: Option<Bytes>,
    pub nodes: Option<u64>,
    /// The generic resources; the untyped GPU count excludes the typed ones.
    pub gres: Gres,
}

impl Gres {
    /// Parses a GRES text; never fails and never drops a part.
    ///
    /// Reads `Gres` and `GresUsed` of sinfo, `tres-per-node` of squeue and requests: with and without types,
    /// with sockets `(S:0-1)` or devices `(IDX:0,2-3)`, `no_consume`, counts like `2K` and parts that begin
    /// with `gres:` or `gres/`. A part without a count is one GPU. A missing type (`gpu:4`, `gpu:(null):4`)
    /// becomes [`GpuType::untyped`].
    pub fn parse(text: &str) -> Self {
        let mut gres = Self::default();
        for part in parts(text) {
            gres.add(part);
        }
        gres
    }

    /// Returns the number of GPUs of all types.
    pub fn gpu_total(&self) -> u32 {
        self.gpus.iter().fold(0, |sum, (_, count)| sum.saturating_add(*count))
    }

    fn add(&mut self, part: &str) {
        let Some((gpu_type, count)) = gpu(part) else {
            self.other.push(part.to_owned());
            return;
        };
        match self.gpus.iter_mut().find(|(candidate, _)| *candidate == gpu_type) {
            Some((_, sum)) => *sum = sum.saturating_add(count),
            None => self.gpus.push((gpu_type, count)),
        }
    }
}

impl Tres {
    /// Parses a TRES text; never fails. Unknown parts, such as `billing`, are kept in [`Gres::other`].
    pub fn parse(text: &str) -> Self {
        let mut tres = Self::default();
        for part in parts(text) {
            match part.split_once('=') {
                Some(("cpu", cpus)) if amount::count(cpus).is_some() => tres.cpus = amount::count(cpus),
                Some(("mem", memory)) if amount::memory(memory).is_some() => {
                    tres.memory = amount::memory(memory);
                }
                Some(("node", nodes)) if amount::count(nodes).is_some() => tres.nodes = amount::count(nodes),
                _ => tres.gres.add(part),
            }
        }
        tres.gres.subtract_typed();
        tres
    }
}

impl Gres {
    /// Reduces the untyped count by the typed ones, because TRES texts list a total beside its parts.
    fn subtract_typed(&mut self) {
        let untyped = GpuType::untyped();
        let typed = self.gpus.iter().filter(|(gpu_type, _)| *gpu_type != untyped).map(|&(_, count)| count);
        let typed = typed.fold(0, u32::saturating_add);
        for (gpu_type, count) in &mut self.gpus {
            if *gpu_type == untyped {
                *count = count.saturating_sub(typed);
            }
        }
        self.gpus.retain(|(gpu_type, count)| *gpu_type != untyped || *count > 0 || typed == 0);
    }
}

/// Returns the first part that names GPUs without their number, as a truncated column does: `gpu:rtx208`,
/// `gp`.
pub(crate) fn uncounted(text: &str) -> Option<&str> {
    let count =
        |part| without_location(part).rsplit_once([':', '=']).and_then(|(_, count)| amount::count(count));
    let is_of_gpus =
        |part: &str| part.starts_with("gpu:") || part.starts_with("gpu(") || "gpu".starts_with(part);
    let is_mask = |part: &str| part.strip_prefix("gpu:").is_some_and(is_mask);
    parts(text)
        .filter(|part| is_of_gpus(part) && !is_mask(part))
        .find(|part| gpu(part).is_none() || count(part).is_none())
}

/// Splits at the commas outside parentheses and drops Slurm's words for a missing value.
fn parts(text: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0_u32;
    let at_comma = move |c: char| {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ',' && depth == 0
    };
    text.split(at_comma).map(str::trim).filter(|part| !matches!(*part, "" | "(null)" | "N/A"))
}

/// Returns the GPUs of one part, or `None` if it is about something else.
fn gpu(part: &str) -> Option<(GpuType, u32)> {
    let bare = part.strip_prefix("gres:").or_else(|| part.strip_prefix("gres/")).unwrap_or(part);
    let rest = without_location(bare).strip_prefix("gpu")?;
    let mut words: Vec<&str> = match rest.strip_prefix([':', '=']) {
        Some(words) => words.split([':', '=']).filter(|word| *word != "no_consume").collect(),
        None if rest.is_empty() => Vec::new(),
        None => return None,
    };
    let last = words.last().and_then(|word| amount::count(word));
    let count = last.map_or(1, |count| u32::try_from(count).unwrap_or(u32::MAX));
    if last.is_some() {
        words.pop();
    }
    match words.as_slice() {
        [] | ["(null)"] => Some((GpuType::untyped(), count)),
        [name] if !is_mask(name) => Some((GpuType::new(name)?, count)),
        _ => None,
    }
}

/// Returns whether a word is a hexadecimal number, which names no type.
fn is_mask(word: &str) -> bool {
    word.strip_prefix("0x").is_some_and(|digits| digits.bytes().all(|b| b.is_ascii_hexdigit()))
}

/// Strips `(S:0-1)` or `(IDX:0,2-3)` from the end of a part.
fn without_location(part: &str) -> &str {
    let location = part.strip_suffix(')').and_then(|open| open.rsplit_once('('));
    match location {
        Some((head, inside)) if inside.starts_with("S:") || inside.starts_with("IDX:") => head,
        _ => part,
    }
}

#[cfg(test)]
mod tests;
