//! The rule for one pending request: leave it, change it in place, queue another beside it, or begin anew.

use hsched_model::RequestId;

/// Requests of one job that wait at the same time.
const MOST_ENTRIES: usize = 3;

/// A change must bring the end nearer by this part of the time to it,
const GAIN: f64 = 0.1;

/// and by this many seconds: less is noise of the estimates.
const LEAST_GAIN: f64 = 600.0;

/// What starts within this many seconds starts now.
const NOW: f64 = 60.0;

/// What is known of the requests of a job that wait. All times are means, in seconds from now.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Pending {
    /// When the first of them would start as they are.
    pub start: f64,
    /// When the job would be done as they are.
    pub finish: f64,
    /// How many there are.
    pub entries: usize,
    /// Whether others may be queued beside them: their scripts race for the job.
    pub races: bool,
}

/// Another request that the job could have.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Instead {
    pub id: RequestId,
    /// How long the job would run, in seconds.
    pub run: f64,
    /// How long it would wait if it was submitted now, at the priority of a new job; `None` if that is unknown.
    pub anew: Option<f64>,
    /// How long it would wait if a pending request was changed to it, which keeps its place; `None` where none can be.
    pub in_place: Option<f64>,
    /// Whether the job waits for these GPUs already.
    pub is_there: bool,
}

/// What to do with the pending requests of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestRemedy {
    Keep,
    /// Change the pending request that can be changed: it keeps its place.
    Amend(RequestId),
    /// Queue this one, too: the first to start trains.
    Beside(RequestId),
    /// Cancel what waits and submit this one.
    Replace(RequestId),
}

/// Returns what to do with the pending requests of a job.
///
/// A change must gain a tenth and ten minutes. GPUs that are free are taken at once where the job is done on them before it would
/// start as it is. The first request keeps its place, unless nothing can be queued beside it.
pub(crate) fn remedy(pending: &Pending, others: &[Instead]) -> RequestRemedy {
    let pays = |wait: f64, run: f64| {
        let gain = pending.finish - (wait + run);
        let is_free = wait <= NOW && run <= pending.start;
        is_free && gain > 0.0 || gain >= LEAST_GAIN && gain >= GAIN * pending.finish
    };
    let mut best: Option<(f64, RequestRemedy)> = None;
    let mut consider = |finish: f64, remedy: RequestRemedy| {
        // Of equal ones the first is the gentlest.
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

    /// A job that starts in ten hours and runs for ten.
    const PENDING: Pending = Pending { start: 10.0 * HOUR, finish: 20.0 * HOUR, entries: 1, races: true };

    /// A request with its run and its waits, in hours.
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
        let soon = Pending { start: 0.4 * HOUR, finish: HOUR, ..PENDING };
        assert_eq!(remedy(&soon, &[other(0.6, 30.0, 0.25)]), RequestRemedy::Keep);
        assert_eq!(remedy(&soon, &[other(0.6, 30.0, 0.2)]), RequestRemedy::Amend(RequestId(0)));
    }

    #[test]
    fn other_types_are_queued_beside_the_first_while_there_are_few() {
        let others = [other(12.0, 5.0, None)];
        assert_eq!(remedy(&PENDING, &others), RequestRemedy::Beside(RequestId(0)));
        assert_eq!(remedy(&Pending { entries: 3, ..PENDING }, &others), RequestRemedy::Keep);
        let there = [Instead { is_there: true, ..others[0] }];
        assert_eq!(remedy(&PENDING, &there), RequestRemedy::Keep);
    }

    #[test]
    fn what_cannot_race_is_submitted_anew_only_where_that_gains_at_the_new_priority() {
        let alone = Pending { races: false, ..PENDING };
        assert_eq!(remedy(&alone, &[other(10.0, 9.0, None)]), RequestRemedy::Keep);
        assert_eq!(remedy(&alone, &[other(10.0, 7.0, None)]), RequestRemedy::Replace(RequestId(0)));
        // The place in line is worth more than the same request anew.
        assert_eq!(remedy(&alone, &[other(10.0, 7.0, 7.0)]), RequestRemedy::Amend(RequestId(0)));
    }

    #[test]
    fn free_gpus_that_are_done_before_the_start_are_taken_at_once() {
        // A gain of ten hours of two thousand is below a tenth.
        let late = Pending { start: 2000.0 * HOUR, finish: 2010.0 * HOUR, ..PENDING };
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
