//! Selects the remedies of a pending job to show: those that start it notably sooner, without an equally good
//! cheaper one.

use crate::why::{Advice, Remedy};
use crate::{Change, ChangeSet, Forecast};
use hsched_model::{Request, Seconds};

/// Minimum gain of a remedy, in seconds.
const LEAST_GAIN: f64 = 600.0;
/// Minimum gain of a remedy, as a fraction of the wait.
const LEAST_PART: f64 = 0.05;

/// Returns the remedies to show, each once; if the start `as_is` is unknown, all that may help.
pub(super) fn worthwhile(advice: Vec<Advice>, as_is: Option<&Forecast>) -> Vec<Advice> {
    let gains = |advice: &Advice| {
        as_is.is_none_or(|as_is| advice.start.forecast().is_some_and(|after| is_sooner(as_is, after)))
    };
    let list = once(advice.into_iter().filter(gains));
    let notable = LEAST_GAIN.max(as_is.map_or(0.0, |as_is| LEAST_PART * as_is.start.mean.0));
    let is_needed = |advice: &&Advice| {
        let is_as_good = |other: &Advice| {
            // If the unchanged job has no estimate, there are few remedies, and its user decides among them.
            (as_is.is_some() || other.cost() == advice.cost())
                && other.is_cheaper(advice)
                && other.is_about_as_soon(advice, notable)
        };
        !list.iter().any(is_as_good)
    };
    list.iter().filter(is_needed).cloned().collect()
}

/// Returns whether a start is notably sooner than another: by the median or the mean over the futures in
/// which both were simulated, and not later by the other measure.
fn is_sooner(before: &Forecast, after: &Forecast) -> bool {
    if before.starts.is_empty() != after.starts.is_empty() {
        // A result from futures cannot be compared with one in which all jobs run to their limits.
        return false;
    }
    let both = before.starts.len().min(after.starts.len());
    let (same_before, same_after) = (&before.starts[..both], &after.starts[..both]);
    let of_both = |value: fn(&[Seconds]) -> Option<f64>, shown: (f64, f64)| {
        value(same_before).zip(value(same_after)).unwrap_or(shown)
    };
    let shown = (before.start.median.0, after.start.median.0);
    let medians = of_both(median, shown);
    let means = of_both(mean, (before.start.mean.0, after.start.mean.0));
    let gains = |(before, after): (f64, f64)| before - after >= LEAST_GAIN.max(LEAST_PART * before);
    [shown, medians, means].iter().all(|(before, after)| after <= before)
        && (gains(medians) && gains(shown) || gains(means))
}

fn median(starts: &[Seconds]) -> Option<f64> {
    let mut list: Vec<f64> = starts.iter().map(|start| start.0).collect();
    list.sort_by(f64::total_cmp);
    list.get(list.len() / 2).copied()
}

fn mean(starts: &[Seconds]) -> Option<f64> {
    crate::estimate::mean(&starts.iter().map(|start| start.0).collect::<Vec<_>>())
}

/// Returns each remedy once: of two with the same command, the one with more drawbacks.
fn once(advice: impl Iterator<Item = Advice>) -> Vec<Advice> {
    let mut list: Vec<Advice> = Vec::new();
    for item in advice {
        match list.iter_mut().find(|other| is_same(&other.remedy, &item.remedy)) {
            Some(known) if costs(&known.remedy) < costs(&item.remedy) => *known = item,
            Some(_) => {}
            None => list.push(item),
        }
    }
    list
}

/// Returns whether the commands of two remedies are equal.
fn is_same(one: &Remedy, other: &Remedy) -> bool {
    match (one, other) {
        (Remedy::InPlace(one), Remedy::InPlace(other)) | (Remedy::NewJob(one), Remedy::NewJob(other)) => {
            one.changes.len() == other.changes.len()
                && one.changes.iter().all(|change| other.changes.contains(change))
        }
        _ => one == other,
    }
}

fn costs(remedy: &Remedy) -> usize {
    changes(remedy).map_or(0, |set| set.drawbacks.len())
}

fn changes(remedy: &Remedy) -> Option<&ChangeSet> {
    match remedy {
        Remedy::InPlace(set) | Remedy::NewJob(set) => Some(set),
        _ => None,
    }
}

impl Advice {
    /// Returns the rank of the advice's cost: none, some, loss of the place in the queue, loss of another
    /// job.
    pub(super) fn cost(&self) -> u8 {
        match &self.remedy {
            Remedy::InPlace(set) | Remedy::NewJob(set) if set.stops_own() => 3,
            Remedy::InPlace(set) if set.drawbacks.is_empty() => 0,
            Remedy::Release
            | Remedy::StartNow
            | Remedy::NoDependency
            | Remedy::NoReservation
            | Remedy::Throttle(_) => 0,
            Remedy::InPlace(_) => 1,
            Remedy::NewJob(_) => 2,
            Remedy::Cancel { .. } => 3,
        }
    }

    /// Returns whether this advice certainly costs less than another one: nothing, a subset of the other's
    /// changes, or milder changes of the same kinds.
    fn is_cheaper(&self, other: &Self) -> bool {
        if self.cost() != other.cost() {
            return self.cost() == 0;
        }
        let Some((change_set, others)) = changes(&self.remedy).zip(changes(&other.remedy)) else {
            return false;
        };
        let is_part = change_set.changes.len() < others.changes.len()
            && change_set.changes.iter().all(|change| others.changes.contains(change));
        is_part || is_milder((change_set, &self.request), (others, &other.request))
    }

    fn is_about_as_soon(&self, other: &Self, notable: f64) -> bool {
        let starts = self.start.forecast().zip(other.start.forecast());
        starts.is_some_and(|(forecast, other)| {
            forecast.start.median.0 - other.start.median.0 < notable
                && forecast.start.mean.0 - other.start.mean.0 < notable
        })
    }
}

/// Returns whether changes of the same kinds leave a job more resources than others.
fn is_milder((changes, request): (&ChangeSet, &Request), (others, other): (&ChangeSet, &Request)) -> bool {
    let is_amount = |change: &Change| {
        matches!(change, Change::Limit(_) | Change::Memory(_) | Change::Cpus(_) | Change::Gpus { .. })
    };
    let is_of_kind = |(change, other): (&Change, &Change)| {
        change == other
            || is_amount(change) && std::mem::discriminant(change) == std::mem::discriminant(other)
    };
    let leaves = |request: &Request| {
        (
            request.limit.0,
            crate::why::words::all_gpus(&request.asks),
            request.asks.cpus,
            request.asks.memory_mib,
        )
    };
    let (more, less) = (leaves(request), leaves(other));
    changes.changes.len() == others.changes.len()
        && changes.changes.iter().zip(&others.changes).all(is_of_kind)
        && less != more
        && less.0 <= more.0
        && less.1 <= more.1
        && less.2 <= more.2
        && less.3 <= more.3
}
