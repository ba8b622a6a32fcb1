//! Selects and orders the changes to show among those that make a job start sooner.

use crate::{Change, ChangeEstimate, ChangeSet, Request, RequestId};

/// Maximum number of changes shown of each kind: harmless ones, and those with a drawback.
const MOST_OF_KIND: usize = 4;

/// Maximum number of changes shown.
pub(super) const MOST: usize = 2 * MOST_OF_KIND;

/// Returns the changes to show, numbered from 1: the harmless ones, then those with drawbacks that gain more;
/// those for which Slurm may preempt running jobs of the user come last.
///
/// `notable` is the smallest difference between two changes that counts, in seconds.
pub(super) fn shown(mut list: Vec<ChangeEstimate>, notable: f64) -> Vec<ChangeEstimate> {
    list.sort_by(|a, b| a.worth.total_cmp(&b.worth));
    let is_worth_it = |place: usize| {
        let estimate = &list[place];
        let is_better = |(number, other): (usize, &ChangeEstimate)| {
            let is_as_good = is_part(&other.set, &estimate.set)
                || is_milder(other, estimate)
                // Of several changes that differ only in names and start at about the same time, the first is
                // enough.
                || number < place && is_alike(&other.set, &estimate.set);
            // No change that may stop a running job replaces one that stops none.
            is_as_good && harm(&other.set) <= harm(&estimate.set) && other.worth - estimate.worth < notable
        };
        !list.iter().enumerate().any(is_better)
    };
    let kept: Vec<ChangeEstimate> =
        (0..list.len()).filter(|&place| is_worth_it(place)).map(|place| list[place].clone()).collect();
    let (harmless, costly): (Vec<_>, Vec<_>) =
        kept.into_iter().partition(|estimate| estimate.set.is_harmless());
    let free = harmless.first().map_or(f64::INFINITY, |estimate| estimate.worth);
    let costly = costly.into_iter().filter(|estimate| estimate.worth <= free - notable);
    let (stopping, costly): (Vec<_>, Vec<_>) = costly.partition(|estimate| estimate.set.stops_own());
    let costly = costly.into_iter().chain(stopping).take(MOST_OF_KIND);
    let all = harmless.into_iter().take(MOST_OF_KIND).chain(costly);
    let numbered = |(estimate, number): (ChangeEstimate, u32)| ChangeEstimate {
        request: Request { id: RequestId(number), ..estimate.request },
        ..estimate
    };
    all.zip(1..).map(numbered).collect()
}

/// Returns the rank of the harm that changes may do to running jobs: none, to those of others, to those of the user.
fn harm(set: &ChangeSet) -> u8 {
    if set.stops_own() { 2 } else { u8::from(set.stops_others()) }
}

/// Returns whether a larger set contains all changes of a set.
fn is_part(part: &ChangeSet, whole: &ChangeSet) -> bool {
    part.changes.len() < whole.changes.len()
        && part.changes.iter().all(|change| whole.changes.contains(change))
}

/// Returns whether changes differ only in the names of partition, account or QOS.
fn is_alike(one: &ChangeSet, other: &ChangeSet) -> bool {
    let is_name =
        |change: &Change| matches!(change, Change::Partition(_) | Change::Account(_) | Change::Qos(_));
    let is_same = |(change, other): (&Change, &Change)| {
        change == other || is_name(change) && std::mem::discriminant(change) == std::mem::discriminant(other)
    };
    one.changes.len() == other.changes.len() && one.changes.iter().zip(&other.changes).all(is_same)
}

/// Returns whether `milder` has changes of the same kinds as `other` and leaves the job more resources.
fn is_milder(milder: &ChangeEstimate, other: &ChangeEstimate) -> bool {
    let kinds = |estimate: &ChangeEstimate| {
        estimate.set.changes.iter().map(std::mem::discriminant).collect::<Vec<_>>()
    };
    let leaves = |estimate: &ChangeEstimate| {
        let Request { limit, asks, .. } = &estimate.request;
        let gpus: u64 = asks.gpus.iter().map(|ask| u64::from(ask.count)).sum();
        (limit.0, gpus.saturating_mul(u64::from(asks.nodes)), asks.cpus, asks.memory_mib)
    };
    let (more, less) = (leaves(milder), leaves(other));
    let is_less = less.0 <= more.0 && less.1 <= more.1 && less.2 <= more.2 && less.3 <= more.3;
    kinds(milder) == kinds(other) && is_less && less != more
}
