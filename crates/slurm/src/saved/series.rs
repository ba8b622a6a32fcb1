//! Names that are numbered in a row, as those of nodes are.

use std::collections::{BTreeMap, BTreeSet};

use crate::record::value;
use hsched_model::catalogue;

/// Returns whether words are single names that are numbered in a row (`n1`, `n2`, `n3`, …), padded with zeros
/// (`gpu01`) or of a domain (`g1.example.org`), and not models of GPUs.
pub(super) fn is_series(words: &[&str]) -> bool {
    let names: BTreeSet<&str> = words.iter().copied().filter(|text| value(text).is_some()).collect();
    let models = names.iter().filter(|name| catalogue::recognise(name).is_some()).count();
    if models * 2 > names.len() || names.iter().any(|name| name.contains([',', '*'])) {
        return false;
    }
    let is_formal = |name: &&str| {
        let (host, digits) = numbered(name);
        (digits.len() > 1 && digits.starts_with('0')) || (host.len() < name.len() && !digits.is_empty())
    };
    names.iter().any(is_formal) || series(words).values().any(|own| own.len() >= 3 && longest_run(own) >= 2)
}

/// Returns a name without its domain, and the digits at the end of that.
fn numbered(name: &str) -> (&str, &str) {
    let host = name.split('.').next().unwrap_or(name);
    (host, &host[host.trim_end_matches(|c: char| c.is_ascii_digit()).len()..])
}

/// Returns the numbers of names by what stands before them.
pub(super) fn series<'a>(names: &[&'a str]) -> BTreeMap<&'a str, BTreeSet<u64>> {
    let mut series: BTreeMap<&str, BTreeSet<u64>> = BTreeMap::new();
    for (host, digits) in names.iter().map(|name| numbered(name)) {
        series.entry(&host[..host.len() - digits.len()]).or_default().extend(digits.parse::<u64>());
    }
    series
}

/// Returns how many numbers follow each other at most.
pub(super) fn longest_run(numbers: &BTreeSet<u64>) -> usize {
    let (mut longest, mut run, mut last) = (0, 0, None);
    for &number in numbers {
        run = if last == number.checked_sub(1) && last.is_some() { run + 1 } else { 1 };
        longest = longest.max(run);
        last = Some(number);
    }
    longest
}
