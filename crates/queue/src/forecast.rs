//! When requests would start: first with all jobs running to their limits, then in many futures.

mod table;

use std::ops::Range;

pub(crate) use self::table::QueueTable;
use crate::estimate::{Calibration, Estimate, mean};
use crate::hidden::by_past_waits;
use crate::in_any::in_any;
use crate::in_place_of::in_place_of_others;
use crate::learnt::LearntBasis;
use crate::play::HORIZON;
use crate::{QueuePosition, Refusal, Request, RequestId, Snapshot};
use hsched_model::Seconds;
use hsched_model::number::to_f64;

/// The input of the model.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    pub snapshot: &'a Snapshot,
    /// Each request is simulated alone, in the same futures. Their ids are unique.
    pub requests: &'a [Request],
    pub seed: u64,
    /// Number of futures, unless time runs out first.
    pub samples: usize,
    /// Calibration from past forecasts.
    pub calibration: Option<Calibration>,
}

impl Question<'_> {
    fn seed_of(&self, sample: usize) -> u64 {
        self.seed.wrapping_add(sample as u64)
    }
}

/// The start estimate of one request.
#[derive(Clone, Debug, PartialEq)]
pub struct StartEstimate {
    pub id: RequestId,
    pub start: Start,
}

/// The start of a request, if it can be estimated.
#[derive(Clone, Debug, PartialEq)]
pub enum Start {
    Estimated(Forecast),
    /// The start is unknown, for this reason.
    Unknown(&'static str),
    /// No node can ever hold the request, or no partition accepts it.
    Never,
    /// A limit of the account or QOS never allows the request to start.
    Refused(Refusal),
}

/// A start in less than this many seconds counts as immediate.
const NOW: f64 = 60.0;

/// When a request would start and end, in seconds from the snapshot.
#[derive(Clone, Debug, PartialEq)]
pub struct Forecast {
    /// The start if all jobs ran to their limits and no job arrived; `None` if it is beyond the horizon, or
    /// if the queue was not simulated.
    pub at_limits: Option<Seconds>,
    pub start: Estimate,
    pub finish: Estimate,
    /// Fraction of the futures in which the request finishes before all others.
    pub first: f64,
    /// The start in each simulated future; empty if there are none, or if the time sufficed only for a few.
    pub starts: Vec<Seconds>,
    /// Number of the user's past waits on which the estimate is based, if other users' jobs are hidden;
    /// otherwise 0.
    pub past_waits: usize,
    /// The basis of an estimate that was learnt from looks at the site; otherwise `None`.
    pub learnt: Option<LearntBasis>,
    /// Number of jobs that wait for the same nodes, and how many of these are scheduled before the request.
    pub waiting: usize,
    pub ahead: usize,
}

impl StartEstimate {
    /// Returns the estimate of the request with this id.
    pub fn of(list: &[Self], id: RequestId) -> Option<&Start> {
        list.iter().find(|estimate| estimate.id == id).map(|estimate| &estimate.start)
    }
}

impl Start {
    /// Returns the forecast, if there is one.
    pub fn forecast(&self) -> Option<&Forecast> {
        match self {
            Self::Estimated(forecast) => Some(forecast),
            Self::Unknown(_) | Self::Never | Self::Refused(_) => None,
        }
    }

    /// Returns whether the request starts at once, by the median.
    pub fn is_now(&self) -> bool {
        self.forecast().is_some_and(|forecast| forecast.start.median.0 < NOW)
    }

    /// Returns whether the request can never start.
    pub fn is_never(&self) -> bool {
        matches!(self, Self::Never | Self::Refused(_))
    }
}

impl Forecast {
    /// Returns whether all jobs are assumed to run to their limits: the estimate is based neither on futures nor
    /// on past or learnt waits.
    pub fn is_by_limits(&self) -> bool {
        self.starts.is_empty() && self.past_waits == 0 && self.learnt.is_none()
    }

    /// Returns the number of futures if the estimate is based on too few for an interval.
    pub fn few_futures(&self) -> Option<usize> {
        let is_simulated = self.past_waits == 0 && self.learnt.is_none();
        Some(self.starts.len()).filter(|count| is_simulated && (1..FEW).contains(count))
    }

    /// Returns the mean time to the end, in seconds.
    pub fn mean_finish(&self) -> f64 {
        self.finish.mean.0
    }
}

/// Returns the start estimate of each request, by its id.
///
/// `stop` returns whether time has run out; the simulation with all jobs at their limits is always run,
/// unless other users' jobs are hidden.
pub fn forecast(question: &Question, stop: &(dyn Fn() -> bool + Sync)) -> Vec<StartEstimate> {
    forecast_at(question, &[], stop)
}

/// Returns the start estimates if some requests already have a position in the queue, like a pending job that
/// is changed; the others come last among equal priorities.
pub fn forecast_at(
    question: &Question,
    positions: &[(RequestId, QueuePosition)],
    stop: &(dyn Fn() -> bool + Sync),
) -> Vec<StartEstimate> {
    forecast_of(question, positions, Far::InFew, stop)
}

/// The treatment of requests far behind the best.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Far {
    /// Simulate these requests in only a few futures.
    InFew,
    /// Simulate these requests in the same futures as all others.
    InAll,
}

/// Returns the result of [`forecast_at`], with requests far behind the best simulated in a few or in all
/// futures.
pub(super) fn forecast_of(
    question: &Question,
    positions: &[(RequestId, QueuePosition)],
    far: Far,
    stop: &(dyn Fn() -> bool + Sync),
) -> Vec<StartEstimate> {
    if question.snapshot.others_hidden {
        return by_past_waits(question.snapshot, question.requests);
    }
    if let Some(estimates) = in_any(question, positions, far, stop) {
        return estimates;
    }
    if let Some(estimates) = in_place_of_others(question, positions, far, stop) {
        return estimates;
    }
    let table = QueueTable::placed(question.snapshot, question.requests, positions);
    let mut starts: Vec<Vec<f64>> = vec![Vec::new(); question.requests.len()];
    let at_limits = table.at_limits();
    let finish = |(at, request): (&Option<f64>, &Request)| at.map(|at| at + request.run.0);
    let foretold: Vec<Option<f64>> = at_limits.iter().zip(question.requests).map(finish).collect();
    let mut hopeful = match far {
        Far::InFew => not_far(&foretold, VERY_FAR),
        Far::InAll => vec![true; foretold.len()],
    };
    let behind: Vec<bool> = hopeful.iter().map(|is_hopeful| !is_hopeful).collect();
    let few = question.samples.min(FEW);
    let sample = |samples: Range<usize>, meant: &[bool], starts: &mut [Vec<f64>]| {
        let seeds: Vec<u64> = samples.map(|sample| question.seed_of(sample)).collect();
        let found = table.samples(&seeds, meant, stop);
        found.into_iter().flatten().for_each(|(request, start)| starts[request].push(start));
    };
    sample(0..few, &hopeful, &mut starts);
    if question.samples > FEW {
        if far == Far::InFew {
            hopeful = not_far(&mean_finishes(&starts, question.requests), FAR);
        }
        sample(FEW..question.samples, &hopeful, &mut starts);
    }
    sample(0..few, &behind, &mut starts);
    let whole = (0..starts.len()).filter(|&request| hopeful[request] && table.entries[request].is_some());
    let whole = whole.map(|request| starts[request].len()).min().unwrap_or(0);
    let first = first_to_finish(&starts, question.requests, whole);
    let mut start = |number: usize| match (table.entries[number], at_limits[number]) {
        _ if question.snapshot.has_unread_limit(&question.requests[number]) => Start::Unknown(UNREAD_LIMIT),
        (None, _) => table.model.refusals[number].clone().map_or(Start::Never, Start::Refused),
        (Some((part, entry)), at_limits) => {
            let run = question.requests[number].run.0;
            // With fewer futures than this, the estimate has no interval.
            if starts[number].len() < FEW.min(question.samples) {
                starts[number].clear();
            }
            let delays = if starts[number].is_empty() {
                at_limits.into_iter().collect()
            } else {
                starts[number].clone()
            };
            let finish: Vec<f64> = delays.iter().map(|start| start + run).collect();
            Start::Estimated(Forecast {
                at_limits: at_limits.filter(|at| *at < HORIZON).map(Seconds),
                start: Estimate::of(&delays, question.calibration),
                finish: Estimate::of(&finish, question.calibration),
                first: first[number],
                starts: starts[number].iter().map(|start| Seconds(*start)).collect(),
                past_waits: 0,
                learnt: None,
                waiting: table.rivals(part, &entry).count(),
                ahead: table.ahead(part, &entry),
            })
        }
    };
    let estimate =
        |(number, request): (usize, &Request)| StartEstimate { id: request.id, start: start(number) };
    question.requests.iter().enumerate().map(estimate).collect()
}

/// Maximum number of parallel futures, because a login node is shared by many users.
const THREADS: usize = 4;

/// Reason for a missing estimate if an applicable limit could not be read, or is used up.
const UNREAD_LIMIT: &str = "a limit of your account or QOS is reached, and Slurm does not show for how long";

/// With backfill, requests that together need at most 1/`FEW_OF` of a part's nodes are simulated together.
const FEW_OF: u32 = 10;

/// Minimum number of futures for an interval. After this many, requests far behind the best are no longer
/// simulated.
pub(super) const FEW: usize = 10;

/// Maximum time to the end of a request that is not far behind, as a multiple of the best request's time to
/// the end.
const FAR: f64 = 2.0;

/// The same multiple in the first simulation, in which all jobs run to their limits.
const VERY_FAR: f64 = 4.0;

/// Returns which requests are not far behind the best, by their times to the end; requests without one count
/// as far.
fn not_far(finishes: &[Option<f64>], far: f64) -> Vec<bool> {
    let best = finishes.iter().flatten().copied().fold(f64::INFINITY, f64::min);
    finishes.iter().map(|known| known.is_some_and(|finish| finish <= far * best)).collect()
}

fn mean_finishes(starts: &[Vec<f64>], requests: &[Request]) -> Vec<Option<f64>> {
    let finish = |(starts, request): (&Vec<f64>, &Request)| mean(starts).map(|start| start + request.run.0);
    starts.iter().zip(requests).map(finish).collect()
}

/// Returns in what fraction of the first `futures` futures each request finishes before the others; ties are
/// shared.
fn first_to_finish(starts: &[Vec<f64>], requests: &[Request], futures: usize) -> Vec<f64> {
    let mut won = vec![0.0; starts.len()];
    for future in 0..futures {
        let finish = |number: usize| starts[number].get(future).map(|start| start + requests[number].run.0);
        let best = (0..starts.len()).filter_map(finish).fold(f64::INFINITY, f64::min);
        let winners: Vec<usize> = (0..starts.len()).filter(|&number| finish(number) == Some(best)).collect();
        let share = 1.0 / to_f64(winners.len());
        for number in winners {
            won[number] += share;
        }
    }
    let all = to_f64(futures.max(1));
    won.into_iter().map(|share| share / all).collect()
}
