//! Estimates of how much sooner a job starts with each change, from the same futures of the queue.

use super::candidates::{ChangeContext, candidates};
use super::choice::{MOST, shown};
use super::obstacle::obstacle;
use crate::estimate::mean;
use crate::forecast::{FEW, Far, forecast_of};
use crate::{
    Calibration, Change, ChangeSet, Estimate, PastRuns, Question, QueuePosition, Request, RequestId,
    Snapshot, Start, StartEstimate,
};
use hsched_model::Seconds;

/// The possible changes, and the queue.
#[derive(Clone, Copy)]
pub struct ChangeQuestion<'a> {
    /// The queue, without the job itself if it is pending.
    pub snapshot: &'a Snapshot,
    /// The job's request, with the limit that Slurm would apply. Its `run` is the expected run time.
    pub request: &'a Request,
    /// Past runs with the job's name.
    pub past: &'a PastRuns,
    /// Returns the job's run time with a request, if known.
    pub run_of: &'a dyn Fn(&Request) -> Option<Seconds>,
    /// Returns whether the user can make these changes.
    pub is_possible: &'a dyn Fn(&[Change]) -> bool,
    /// Returns the job's position in the queue after these changes; `None` means the position of a new job.
    /// Without changes, this is the job's present position.
    pub position: &'a dyn Fn(&[Change]) -> Option<QueuePosition>,
    pub seed: u64,
    /// Number of futures, unless time runs out first.
    pub samples: usize,
    pub calibration: Option<Calibration>,
}

/// A job's start without changes, and the changes that make it start sooner.
#[derive(Clone, Debug, PartialEq)]
pub struct ChangeEstimates {
    pub as_is: Start,
    /// At most [`ChangeEstimates::MOST`]. Harmless ones come first, then those with drawbacks, then those for
    /// which Slurm may preempt running jobs of the user, each sorted by the median time to the start plus the
    /// increase in run time.
    pub list: Vec<ChangeEstimate>,
}

/// Some changes, and the job's start with them.
#[derive(Clone, Debug, PartialEq)]
pub struct ChangeEstimate {
    pub set: ChangeSet,
    pub request: Request,
    pub start: Start,
    /// Difference of the medians; `None` if the job never starts without changes, or if its start without
    /// changes is unknown.
    pub sooner: Option<Seconds>,
    /// Time from the snapshot to the job's end, if the job's run time is known.
    pub done: Option<Estimate>,
    /// Sort key of changes: the median time to the start, plus the increase in run time.
    pub(crate) worth: f64,
}

/// Minimum gain of a change, in seconds.
const LEAST_GAIN: f64 = 600.0;
/// Minimum gain of a change, as a fraction of the wait.
const LEAST_PART: f64 = 0.05;

/// Maximum number of changes combined in pairs: of the best ones, of the harmless ones among those that gain,
/// and of the other harmless ones.
const PAIRED: usize = 3;

impl ChangeEstimates {
    /// Maximum number of changes shown.
    pub const MOST: usize = MOST;
}

/// Returns when a job starts without changes, and the changes with which it starts notably sooner.
///
/// `stop` returns whether time has run out. If other users' jobs are hidden, nothing can be simulated and no
/// change is listed.
pub fn estimate_changes(question: &ChangeQuestion, stop: &(dyn Fn() -> bool + Sync)) -> ChangeEstimates {
    let site = ChangeContext { snapshot: question.snapshot, request: question.request, past: question.past };
    let sets = if question.snapshot.others_hidden { Vec::new() } else { candidates(site) };
    let sets: Vec<ChangeSet> = sets.into_iter().filter(|set| (question.is_possible)(&set.changes)).collect();
    let harmless: Vec<ChangeSet> = sets.iter().filter(|set| set.is_harmless()).cloned().collect();
    // A few futures show which changes need a closer look.
    let (as_is, singles) = question.played(sets, FEW, stop);
    let singles = question.gaining(&as_is, singles);
    let pairs = question.pairs(&singles, &harmless);
    let pairs = pairs.into_iter().filter(|set| site.is_allowed(set));
    let pairs: Vec<ChangeSet> = pairs.map(|set| site.with_others(set)).collect();
    let mut list = singles;
    if !pairs.is_empty() {
        let (as_is, pairs) = question.played(pairs, FEW, stop);
        list.extend(question.gaining(&as_is, pairs));
    }
    let (as_is, list) = question.compared(as_is, list, stop);
    ChangeEstimates { list: shown(list, notable_gain(&as_is)), as_is }
}

impl ChangeQuestion<'_> {
    /// Simulates the job without changes, and with the best of some changes, in the same futures.
    fn compared(
        &self,
        as_is: Start,
        mut list: Vec<ChangeEstimate>,
        stop: &(dyn Fn() -> bool + Sync),
    ) -> (Start, Vec<ChangeEstimate>) {
        if self.samples <= FEW {
            return (as_is, list);
        }
        list.sort_by(|a, b| a.worth.total_cmp(&b.worth));
        let (harmless, costly): (Vec<_>, Vec<_>) =
            list.iter().partition(|estimate| estimate.set.is_harmless());
        let best = harmless.into_iter().take(MOST).chain(costly.into_iter().take(MOST));
        let (whole, played) =
            self.played(best.map(|estimate| estimate.set.clone()).collect(), self.samples, stop);
        let futures = |start: &Start| start.forecast().map_or(0, |forecast| forecast.starts.len());
        if futures(&whole) < futures(&as_is) {
            // Time ran out before this simulation had as many futures as the first one.
            return (as_is, list);
        }
        let list = self.gaining(&whole, played);
        (whole, list)
    }

    /// Simulates the job without changes and with each of some sets of changes, in at most `samples` futures.
    fn played(
        &self,
        sets: Vec<ChangeSet>,
        samples: usize,
        stop: &(dyn Fn() -> bool + Sync),
    ) -> (Start, Vec<(ChangeSet, Request, Start)>) {
        let numbered = |number: u32, request: Request| {
            let run = (self.run_of)(&request).unwrap_or(request.run);
            let run = Seconds(run.0.min(request.limit.0));
            Request { id: RequestId(number), run, ..request }
        };
        let mut requests = vec![numbered(0, self.request.clone())];
        let mut positions: Vec<(RequestId, QueuePosition)> = Vec::new();
        positions.extend((self.position)(&[]).map(|position| (RequestId(0), position)));
        for (number, set) in (1..).zip(&sets) {
            let request = numbered(number, set.applied(self.request));
            positions.extend((self.position)(&set.changes).map(|position| (request.id, position)));
            requests.push(request);
        }
        let question = Question {
            snapshot: self.snapshot,
            requests: &requests,
            seed: self.seed,
            samples: self.samples.min(samples),
            calibration: self.calibration,
        };
        let estimates = forecast_of(&question, &positions, Far::InAll, stop);
        let start =
            |request: &Request| StartEstimate::of(&estimates, request.id).cloned().unwrap_or(Start::Never);
        let is_stuck = obstacle(self.snapshot, self.request).is_some();
        let as_is = if is_stuck { Start::Never } else { start(&requests[0]) };
        let changed = sets.into_iter().zip(requests.drain(1..));
        (as_is, changed.map(|(set, request)| (set, request.clone(), start(&request))).collect())
    }

    /// Returns the changes with which the job starts and ends notably sooner; all with which it starts, if
    /// `as_is` has no forecast.
    fn gaining(&self, as_is: &Start, played: Vec<(ChangeSet, Request, Start)>) -> Vec<ChangeEstimate> {
        let run_now = (self.run_of)(self.request);
        let gain = |(set, request, start): (ChangeSet, Request, Start)| {
            let forecast = start.forecast()?;
            let longer =
                run_now.zip((self.run_of)(&request)).map_or(0.0, |(before, after)| after.0 - before.0);
            let before = as_is.forecast();
            if before.is_some_and(|before| before.starts.is_empty() != forecast.starts.is_empty()) {
                // A result from futures cannot be compared with one in which all jobs run to their limits.
                return None;
            }
            let gain = before.map(|before| {
                earlier(&before.starts, &forecast.starts, before.start, forecast.start) - longer
            });
            let sooner = before.map(|before| Seconds(before.start.median.0 - forecast.start.median.0));
            // The output shows the median, so a gain in the mean without one in the median would not be
            // visible.
            let notable = notable_gain(as_is);
            let is_notable =
                gain.is_none_or(|gain| gain >= notable && sooner.is_some_and(|gained| gained.0 >= notable));
            let worth = forecast.start.median.0 + longer;
            let done = (self.run_of)(&request).map(|run| forecast.start.later(run));
            is_notable.then_some(ChangeEstimate { set, request, start, sooner, done, worth })
        };
        played.into_iter().filter_map(gain).collect()
    }

    /// Returns the possible pairs among the best changes, and among harmless changes: the best ones, and some
    /// that gain nothing alone.
    fn pairs(&self, singles: &[ChangeEstimate], harmless: &[ChangeSet]) -> Vec<ChangeSet> {
        let mut best: Vec<&ChangeEstimate> = singles.iter().collect();
        best.sort_by(|a, b| a.worth.total_cmp(&b.worth));
        let sets = || best.iter().map(|estimate| &estimate.set);
        let gaining: Vec<&ChangeSet> = sets().filter(|set| set.is_harmless()).take(PAIRED).collect();
        let idle = harmless.iter().filter(|set| sets().all(|changes| changes != *set)).take(PAIRED);
        let harmless: Vec<&ChangeSet> = gaining.into_iter().chain(idle).collect();
        let best: Vec<&ChangeSet> = sets().take(PAIRED).collect();
        let mut pairs: Vec<ChangeSet> = Vec::new();
        for list in [harmless, best] {
            for (number, first) in list.iter().enumerate() {
                let pair = list[number + 1..].iter().filter_map(|second| first.and(second));
                for pair in pair.filter(|pair| (self.is_possible)(&pair.changes)) {
                    if !pairs.contains(&pair) {
                        pairs.push(pair);
                    }
                }
            }
        }
        pairs
    }
}

/// Returns the minimum gain of a change for a job, in seconds.
fn notable_gain(as_is: &Start) -> f64 {
    let wait = as_is.forecast().map_or(0.0, |forecast| forecast.start.median.0);
    LEAST_GAIN.max(LEAST_PART * wait)
}

/// Returns how many seconds earlier a start is on average, over the futures in which both were simulated;
/// without such futures, the difference of the means.
fn earlier(before: &[Seconds], after: &[Seconds], as_is: Estimate, changed: Estimate) -> f64 {
    let differences: Vec<f64> = before.iter().zip(after).map(|(before, after)| before.0 - after.0).collect();
    mean(&differences).unwrap_or(as_is.mean.0 - changed.mean.0)
}
