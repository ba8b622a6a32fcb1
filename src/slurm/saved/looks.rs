//! What the values of a column without a name look like.

use crate::model::{Availability, NodeState};
use crate::slurm::record::value;
use crate::slurm::{Gres, amount};

/// What all values of a column look like; words for nothing look like anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Looks {
    State,
    Gres,
    /// Four counts: allocated/idle/other/total.
    CpusState,
    Integer,
    TimeLimit,
    /// Anything that is no name: loads, dates, whether a partition is up, nothing at all.
    Beside,
    Word,
}

/// Tells whether a text is of some kind.
type Fits<'a> = &'a dyn Fn(&str) -> bool;

/// Returns what the values of a column look like.
pub(super) fn looks(values: &[&str]) -> Looks {
    let said = || values.iter().filter_map(|text| value(text));
    let all = |fits: Fits<'_>| said().all(fits);
    let is_up = |text: &str| ["up", "down", "drain", "inact"].contains(&text);
    if said().next().is_none() || (all(&is_up) && said().any(|text| text == "up")) {
        return Looks::Beside;
    }
    if all(&|text| number(text).is_some()) {
        return Looks::Integer;
    }
    let kinds: [(Fits<'_>, Looks); 5] = [
        (&is_state, Looks::State),
        (&is_gres, Looks::Gres),
        (&|text| work(text).is_some(), Looks::CpusState),
        (&is_beside, Looks::Beside),
        (&|text| amount::duration(text).is_some() || amount::is_unlimited(text), Looks::TimeLimit),
    ];
    kinds.into_iter().find(|(fits, _)| all(fits)).map_or(Looks::Word, |(_, looks)| looks)
}

/// Returns the numbers of a column, 0 where one says nothing; `None` when others are there.
pub(super) fn amounts(values: &[&str]) -> Option<Vec<u64>> {
    values.iter().map(|text| value(text).map_or(Some(0), number)).collect()
}

/// Returns a whole number, which may be the least of several (`64+`).
pub(super) fn number(text: &str) -> Option<u64> {
    let digits = text.strip_suffix('+').unwrap_or(text);
    digits.bytes().all(|b| b.is_ascii_digit()).then(|| digits.parse().ok()).flatten()
}

/// Returns the first and the last count of `allocated/idle/other/total`.
pub(super) fn work(text: &str) -> Option<(u64, u64)> {
    let counts = text.trim().split('/').map(amount::count).collect::<Option<Vec<_>>>()?;
    match *counts.as_slice() {
        [used, _, _, all] => Some((used, all)),
        _ => None,
    }
}

pub(super) fn is_bracketed(text: &str) -> bool {
    text.contains('[') && text.contains(']')
}

/// Returns whether the text is a job's state, which no node has.
pub(super) fn is_job_state(text: &str) -> bool {
    const STATES: [&str; 20] = [
        "RUNNING",
        "PENDING",
        "COMPLETED",
        "CANCELLED",
        "FAILED",
        "TIMEOUT",
        "PREEMPTED",
        "NODE_FAIL",
        "SUSPENDED",
        "OUT_OF_MEMORY",
        "R",
        "PD",
        "CG",
        "CD",
        "F",
        "CA",
        "TO",
        "NF",
        "OOM",
        "PR",
    ];
    STATES.contains(&text.trim().trim_end_matches('+'))
}

/// Returns whether every word of a node's state is a known one.
fn is_state(text: &str) -> bool {
    text.trim_end_matches('+').split('+').all(|word| {
        let base = word.trim_end_matches(['*', '~', '#', '!', '%', '$', '@', '^', '-']);
        let shown = ["unk", "unknown"].iter().any(|own| base.eq_ignore_ascii_case(own));
        shown || (!base.is_empty() && NodeState::parse(base).availability() != Availability::Unknown)
    })
}

/// Returns whether every part is a resource with a count, of whatever name.
fn is_gres(text: &str) -> bool {
    let gres = Gres::parse(text);
    let is_counted = |part: &str| {
        let bare = part.split_once('(').map_or(part, |(bare, _)| bare);
        let count = bare.rsplit_once(':').map(|(_, count)| count);
        bare.starts_with(|c: char| c.is_ascii_alphabetic())
            && !bare.contains(char::is_whitespace)
            && count.is_some_and(|count| amount::count(count).is_some())
    };
    // The last part may be cut off.
    let counted = gres.other.iter().filter(|part| is_counted(part)).count();
    let whole = counted + usize::from(counted > 0 || !gres.gpus.is_empty()) >= gres.other.len();
    // A lone word is no resource, although `gpu` may be asked for without a count.
    let some = !gres.gpus.is_empty() || counted > 0;
    some && whole && text.contains(':')
}

/// Returns whether a value is a load (`8.50`), sockets:cores:threads (`2:16:1`) or a date.
fn is_beside(text: &str) -> bool {
    let is_digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    let load = text.split_once('.').is_some_and(|(whole, part)| is_digits(whole) && is_digits(part));
    let parts: Vec<&str> = text.split(':').collect();
    let topology = parts.len() == 3 && parts.iter().all(|part| is_digits(part)) && parts[2].len() == 1;
    let date = text.len() == 19 && text.as_bytes()[10] == b'T' && text.get(..4).is_some_and(is_digits);
    load || topology || date
}
