//! The rule for a job's pending requests: keep them, change one in place, queue another, or replace them.

use hsched_model::RequestId;

/// Maximum number of pending requests of one job.
const MOST_ENTRIES: usize = 3;

/// Minimum reduction of the time until the job's end, as a fraction.
const GAIN: f64 = 0.1;

/// Minimum reduction of the time until the job's end, in seconds: smaller differences are noise of the
/// estimates.
const LEAST_GAIN: f64 = 600.0;

/// A start within this many seconds counts as immediate.
const NOW: f64 = 60.0;

/// The estimates for a job's pending requests. All times are means, in seconds from now.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct PendingEstimates {
    /// Start of the first pending request without a change.
    pub start: f64,
    /// End of the job without a change.
    pub finish: f64,
    /// Number of pending requests.
    pub entries: usize,
    /// Whether more requests may be queued beside them, because their scripts race for the job.
    pub races: bool,
}

/// An alternative request of the job.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Instead {
    pub id: RequestId,
    /// Run time of the job, in seconds.
    pub run: f64,
    /// Wait of the request if it is submitted now, with the priority of a new job; `None` if unknown.
    pub anew: Option<f64>,
    /// Wait if a pending request is changed into this one and keeps its place; `None` if no request can be
    /// changed.
    pub in_place: Option<f64>,
    /// Whether the job already waits for these GPUs.
    pub is_there: bool,
}

/// A change of the pending requests of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestRemedy {
    Keep,
    /// Change the pending request, which keeps its place.
    Amend(RequestId),
    /// Queue this request as well; the first to start trains.
    Beside(RequestId),
    /// Cancel the pending requests and submit this one.
    Replace(RequestId),
}

/// Returns the best remedy for the pending requests of a job.
///
/// A change must gain at least 10 % and 10 min. Free GPUs are used at once if the job would end on them
/// before its pending request starts. The first request keeps its place, unless nothing can be queued beside
/// it.
pub(crate) fn remedy(pending: &PendingEstimates, others: &[Instead]) -> RequestRemedy {
    let pays = |wait: f64, run: f64| {
        let gain = pending.finish - (wait + run);
        let is_free = wait <= NOW && run <= pending.start;
        is_free && gain > 0.0 || gain >= LEAST_GAIN && gain >= GAIN * pending.finish
    };
    let mut best: Option<(f64, RequestRemedy)> = None;
    let mut consider = |finish: f64, remedy: RequestRemedy| {
        // Of equal remedies, the first is the least disruptive.
        if best.is_none_or(|(known, _)| finish < known) {
            best = Some((finish, remedy));
        }
    };
    for remedy in others {
        if let Some(wait) = remedy.in_place.filter(|wait| pays(*wait, remedy.run)) {
            consider(wait + remedy.run, RequestRemedy::Amend(remedy.id));
        }
    }
    for remedy in others.iter().filter(|remedy| !remedy.is_there) {
        let Some(wait) = remedy.anew.filter(|wait| pays(*wait, remedy.run)) else { continue };
        if !pending.races {
            consider(wait + remedy.run, RequestRemedy::Replace(remedy.id));
        } else if pending.entries < MOST_ENTRIES {
            consider(wait + remedy.run, RequestRemedy::Beside(remedy.id));
        }
    }
    best.map_or(RequestRemedy::Keep, |(_, remedy)| remedy)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: f64 = 3600.0;

    /// A job that starts in ten hours and runs for ten hours.
    const PENDING: PendingEstimates =
        PendingEstimates { start: 10.0 * HOUR, finish: 20.0 * HOUR, entries: 1, races: true };

    /// Returns a request with its run time and waits, in hours.
    fn other(run: f64, anew: f64, in_place: impl Into<Option<f64>>) -> Instead {
        Instead {
            id: RequestId(0),
            run: run * HOUR,
            anew: Some(anew * HOUR),
            in_place: in_place.into().map(|wait| wait * HOUR),
            is_there: false,
        }
    }

    #[test]
    fn a_change_gains_a_tenth() {
        assert_eq!(remedy(&PENDING, &[]), RequestRemedy::Keep);
        assert_eq!(remedy(&PENDING, &[other(10.0, 30.0, 8.1)]), RequestRemedy::Keep);
        assert_eq!(remedy(&PENDING, &[other(10.0, 30.0, 8.0)]), RequestRemedy::Amend(RequestId(0)));
    }

    #[test]
    fn a_change_gains_ten_minutes() {
        let soon = PendingEstimates { start: 0.4 * HOUR, finish: HOUR, ..PENDING };
        assert_eq!(remedy(&soon, &[other(0.6, 30.0, 0.25)]), RequestRemedy::Keep);
        assert_eq!(remedy(&soon, &[other(0.6, 30.0, 0.2)]), RequestRemedy::Amend(RequestId(0)));
    }

    #[test]
    fn other_types_are_queued_beside_the_first_while_there_are_few() {
        let others = [other(12.0, 5.0, None)];
        assert_eq!(remedy(&PENDING, &others), RequestRemedy::Beside(RequestId(0)));
        assert_eq!(remedy(&PendingEstimates { entries: 3, ..PENDING }, &others), RequestRemedy::Keep);
        let there = [Instead { is_there: true, ..others[0] }];
        assert_eq!(remedy(&PENDING, &there), RequestRemedy::Keep);
    }

    #[test]
    fn what_cannot_race_is_submitted_anew_only_where_that_gains_at_the_new_priority() {
        let alone = PendingEstimates { races: false, ..PENDING };
        assert_eq!(remedy(&alone, &[other(10.0, 9.0, None)]), RequestRemedy::Keep);
        assert_eq!(remedy(&alone, &[other(10.0, 7.0, None)]), RequestRemedy::Replace(RequestId(0)));
        // The place in the queue is worth more than a new submission of the same request.
        assert_eq!(remedy(&alone, &[other(10.0, 7.0, 7.0)]), RequestRemedy::Amend(RequestId(0)));
    }

    #[test]
    fn free_gpus_that_are_done_before_the_start_are_taken_at_once() {
        // A gain of 11 h out of 2010 h is below 10 %.
        let late = PendingEstimates { start: 2000.0 * HOUR, finish: 2010.0 * HOUR, ..PENDING };
        assert_eq!(remedy(&late, &[other(1999.0, 0.0, None)]), RequestRemedy::Beside(RequestId(0)));
        assert_eq!(remedy(&late, &[other(1999.0, 1.0, None)]), RequestRemedy::Keep);
        assert_eq!(remedy(&late, &[other(2001.0, 0.0, None)]), RequestRemedy::Keep);
    }

    #[test]
    fn the_soonest_of_several_is_taken_and_the_gentlest_of_equals() {
        let with = |id: u32, remedy: Instead| Instead { id: RequestId(id), ..remedy };
        let all = [other(10.0, 3.0, 5.0), with(1, other(10.0, 2.0, None)), with(2, other(4.0, 9.0, 8.5))];
        assert_eq!(remedy(&PENDING, &all), RequestRemedy::Beside(RequestId(1)));
        let equal = [other(10.0, 2.0, None), with(1, other(10.0, 9.0, 2.0))];
        assert_eq!(remedy(&PENDING, &equal), RequestRemedy::Amend(RequestId(1)));
    }

    #[test]
    fn nothing_is_done_where_nobody_can_say() {
        let unknown = Instead { anew: None, ..other(1.0, 0.0, None) };
        assert_eq!(remedy(&PENDING, &[unknown]), RequestRemedy::Keep);
    }
}
