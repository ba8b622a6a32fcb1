//! When requests would start: first with all jobs at their limits, then in many futures.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Mutex, PoisonError};
use std::thread;

use crate::estimate::{Calibration, Estimate, mean};
use crate::future::Future;
use crate::hidden::by_past_waits;
use crate::in_any::in_any;
use crate::learnt::LearntBasis;
use crate::line::{Joins, Key, Waiting};
use crate::node_timeline::Viewer;
use crate::others::Others;
use crate::play::{Entry, HORIZON, Ours, play};
use crate::queue_model::{NumberedRequest, QueueModel};
use crate::{QueuePosition, Refusal, Request, RequestId, Snapshot};
use hsched_model::Seconds;
use hsched_model::number::to_f64;

/// What is asked of the model.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    pub snapshot: &'a Snapshot,
    /// Each is tried alone, in the same futures. No two have one id.
    pub requests: &'a [Request],
    pub seed: u64,
    /// Futures that are looked at, unless the time is over before.
    pub samples: usize,
    /// What past forecasts have taught.
    pub calibration: Option<Calibration>,
}

impl Question<'_> {
    fn seed_of(&self, sample: usize) -> u64 {
        self.seed.wrapping_add(sample as u64)
    }
}

/// What is known of the start of one request.
#[derive(Clone, Debug, PartialEq)]
pub struct StartEstimate {
    pub id: RequestId,
    pub start: Start,
}

/// When a request starts, as far as anybody can say.
#[derive(Clone, Debug, PartialEq)]
pub enum Start {
    Estimated(Forecast),
    /// Nobody can say, for this reason.
    Unknown(&'static str),
    /// No node could ever hold it.
    Never,
    /// A limit of its account or QOS never lets it start.
    Refused(Refusal),
}

/// When a request would start and end, in seconds from the snapshot.
#[derive(Clone, Debug, PartialEq)]
pub struct Forecast {
    /// When it would start if all ran to their limits and nobody came; `None` where that is beyond the horizon.
    pub at_limits: Option<Seconds>,
    pub start: Estimate,
    pub finish: Estimate,
    /// Part of the futures in which it finishes before all other requests.
    pub first: f64,
    /// When it starts in each future that was looked at.
    pub starts: Vec<Seconds>,
    /// Where the queue is hidden: how many past waits of the user's it rests on; else 0.
    pub past_waits: usize,
    /// What it rests on where it was learnt from looks at the site; else `None`.
    pub learnt: Option<LearntBasis>,
    /// Jobs that wait for the same nodes, and how many of them are looked at before it.
    pub waiting: usize,
    pub ahead: usize,
}

impl StartEstimate {
    /// Returns what is known of the request with this id among some.
    pub fn of(list: &[Self], id: RequestId) -> Option<&Start> {
        list.iter().find(|estimate| estimate.id == id).map(|estimate| &estimate.start)
    }
}

impl Start {
    /// Returns the forecast, where there is one.
    pub fn forecast(&self) -> Option<&Forecast> {
        match self {
            Self::Estimated(forecast) => Some(forecast),
            Self::Unknown(_) | Self::Never | Self::Refused(_) => None,
        }
    }

    /// Returns whether it can never start.
    pub fn is_never(&self) -> bool {
        matches!(self, Self::Never | Self::Refused(_))
    }
}

impl Forecast {
    /// Returns whether it has an interval: it rests on several futures, on past waits, or on what was learnt.
    pub fn has_interval(&self) -> bool {
        !self.starts.is_empty() || self.past_waits > 0 || self.learnt.is_some()
    }

    /// Returns the mean time to its end.
    pub fn mean_finish(&self) -> f64 {
        self.finish.mean.0
    }
}

/// The queue with the requests in it, as it is asked again and again.
#[derive(Clone, Debug)]
pub(super) struct Table {
    pub model: QueueModel,
    /// What each request is in line.
    pub entries: Vec<Option<(usize, Entry)>>,
}

impl Table {
    pub(super) fn new(snapshot: &Snapshot, requests: &[Request]) -> Self {
        Self::placed(snapshot, requests, &[])
    }

    /// Returns the same where some requests have a position in the queue already.
    pub(super) fn placed(
        snapshot: &Snapshot,
        requests: &[Request],
        positions: &[(RequestId, QueuePosition)],
    ) -> Self {
        let model = QueueModel::new(snapshot, requests);
        let entries = (0_u32..).zip(requests).zip(&model.requests);
        let entries = entries.map(|((number, request), known)| {
            let NumberedRequest { part, shape, rule } = (*known)?;
            let estimate = snapshot.priority_of(request);
            let partitions: Vec<String> = request.partition.iter().cloned().collect();
            let key = Key {
                tier: snapshot.tier(&partitions),
                priority: estimate.priority,
                submitted: model.now,
                // After all that wait, before all that come.
                order: u32::MAX / 4 + number,
            };
            let key = match positions.iter().find(|(id, _)| *id == request.id) {
                Some((_, QueuePosition { priority, submitted })) => {
                    Key { priority: *priority, submitted: submitted.0, ..key }
                }
                None => key,
            };
            let entry = Entry {
                key,
                shape,
                limit: request.limit.0,
                run: request.run.0.min(request.limit.0),
                job: number as usize,
                branch: model
                    .ranks
                    .as_ref()
                    .and_then(|ranks| ranks.shares.branch_of(None, request.account.as_deref())),
                rule,
                begin: request.further.begin.map_or(f64::NEG_INFINITY, |begin| begin.0),
            };
            Some((part, entry))
        });
        let entries = entries.collect();
        Self { model, entries }
    }

    /// Returns when some requests of a part start after the snapshot, each alone in a future; the horizon where one does not before.
    /// `None` when stopped.
    fn starts_alone(
        &self,
        part: usize,
        entries: &[Entry],
        future: &Future,
        others: Option<&mut Others>,
        stop: &dyn Fn() -> bool,
    ) -> Option<Vec<f64>> {
        let starts = play(&self.model, part, future, others, Ours { entries, viewer: Viewer::Guest }, stop)?;
        let after = |at: f64| (at - self.model.now).min(HORIZON);
        Some(starts.into_iter().map(|start| start.map_or(HORIZON, after)).collect())
    }

    /// Returns some requests by part, in groups of those that may be tried in one play: a play for each would be as exact and take
    /// as much longer as there are.
    fn groups(&self, meant: &[bool]) -> Vec<(usize, Vec<usize>)> {
        let mut groups: Vec<(usize, Vec<usize>, u32)> = Vec::new();
        for (number, known) in self.entries.iter().enumerate().filter(|(number, _)| meant[*number]) {
            let Some((part, entry)) = known else { continue };
            let nodes = self.model.shapes[entry.shape].nodes;
            let most = if self.model.rules.backfill { self.model.parts[*part].nodes / FEW_OF } else { 0 };
            let fitting = |group: &&mut (usize, Vec<usize>, u32)| {
                group.0 == *part && group.2.saturating_add(nodes) <= most
            };
            match groups.iter_mut().find(fitting) {
                Some(group) => {
                    group.1.push(number);
                    group.2 += nodes;
                }
                None => groups.push((*part, vec![number], nodes)),
            }
        }
        groups.into_iter().map(|(part, list, _)| (part, list)).collect()
    }
}

/// Returns what is known of the start of each request, by its id.
///
/// `stop` is asked whether the time is over; the first look, with all jobs at their limits, is taken in any case.
pub fn forecast(question: &Question, stop: &(dyn Fn() -> bool + Sync)) -> Vec<StartEstimate> {
    forecast_at(question, &[], stop)
}

/// Returns the same where some requests have a position in the queue already, as a pending job that is changed has; those without one
/// come last of their priority.
pub fn forecast_at(
    question: &Question,
    positions: &[(RequestId, QueuePosition)],
    stop: &(dyn Fn() -> bool + Sync),
) -> Vec<StartEstimate> {
    forecast_of(question, positions, Far::InFew, stop)
}

/// What becomes of requests far behind the best.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Far {
    /// They are looked at in a few futures only.
    InFew,
    /// They are looked at in the same futures as all others.
    InAll,
}

/// Returns what [`forecast_at`] does, with requests far behind the best looked at in few or in all futures.
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
    let table = Table::placed(question.snapshot, question.requests, positions);
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
            // A few futures make no interval.
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

impl Table {
    /// Returns the waiting jobs that compete with an entry for nodes, in order.
    fn rivals(&self, part: usize, entry: &Entry) -> impl Iterator<Item = &Waiting> {
        let rivals = &self.model.rivals;
        let group = rivals[entry.shape];
        let mut several = BTreeSet::new();
        let waiting = self.model.parts[part].waiting.iter().filter(|job| job.joins == Joins::Now);
        // Those for several partitions are one job.
        let each_once = waiting.filter(move |job| job.job.is_none_or(|number| several.insert(number)));
        each_once.filter(move |job| rivals[job.shape] == group)
    }

    /// Returns the waiting jobs that compete with an entry and are looked at before it, in order.
    pub(super) fn before(&self, part: usize, entry: &Entry) -> impl Iterator<Item = &Waiting> {
        let key = entry.key;
        self.rivals(part, entry).take_while(move |job| job.key.cmp(&key) != Ordering::Greater)
    }

    /// Returns how many waiting jobs are looked at before an entry.
    fn ahead(&self, part: usize, entry: &Entry) -> usize {
        self.before(part, entry).count()
    }

    fn at_limits(&self) -> Vec<Option<f64>> {
        let mut list = vec![None; self.entries.len()];
        for (part, group) in self.groups(&vec![true; list.len()]) {
            let starts =
                self.starts_alone(part, &self.entries_of(&group), &Future::at_limits(), None, &|| false);
            for (number, start) in group.into_iter().zip(starts.into_iter().flatten()) {
                list[number] = Some(start);
            }
        }
        list
    }

    /// Returns the entries of some requests.
    fn entries_of(&self, group: &[usize]) -> Vec<Entry> {
        group.iter().filter_map(|&number| self.entries[number].map(|(_, entry)| entry)).collect()
    }

    /// Tries each request that is meant in the futures of some seeds, several at a time; returns the first of these for which there
    /// was time, each with the requests and their starts.
    fn samples(
        &self,
        seeds: &[u64],
        meant: &[bool],
        stop: &(dyn Fn() -> bool + Sync),
    ) -> Vec<Vec<(usize, f64)>> {
        let next = AtomicUsize::new(0);
        let found = Mutex::new(BTreeMap::new());
        let work = || {
            while let Some(seed) = seeds.get(next.fetch_add(1, Relaxed)) {
                let Some(starts) = self.sample(*seed, meant, stop) else { break };
                found.lock().unwrap_or_else(PoisonError::into_inner).insert(*seed, starts);
            }
        };
        let threads = thread::available_parallelism().map_or(1, usize::from).min(THREADS).min(seeds.len());
        thread::scope(|scope| {
            for _ in 1..threads {
                scope.spawn(work);
            }
            work();
        });
        let mut found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
        seeds.iter().map_while(|seed| found.remove(seed)).collect()
    }

    /// Tries each request that is meant in one future; `None` if there was no time for all.
    fn sample(&self, seed: u64, meant: &[bool], stop: &dyn Fn() -> bool) -> Option<Vec<(usize, f64)>> {
        let future = Future::of(&self.model, seed);
        let mut others = Others::new(&self.model, &future);
        let mut starts = Vec::new();
        for (part, group) in self.groups(meant) {
            let entries = self.entries_of(&group);
            let found = self.starts_alone(part, &entries, &future, others.as_mut(), stop)?;
            starts.extend(group.into_iter().zip(found));
        }
        Some(starts)
    }
}

/// Futures that are looked at side by side: a login node belongs to many.
const THREADS: usize = 4;

/// Why there is no number if a limit that holds for a request could not be read.
const UNREAD_LIMIT: &str = "a limit of your account or QOS holds up your jobs, and Slurm does not show it";

/// Requests that keep no more than this part of the nodes are tried together: one in ten.
const FEW_OF: u32 = 10;

/// Futures after which requests far behind the best are not looked at any more.
pub(super) const FEW: usize = 10;

/// How far behind the best a request may be, as a multiple of the mean time to the end.
const FAR: f64 = 2.0;

/// How far behind it may be with all jobs at their limits to be looked at before the others.
const VERY_FAR: f64 = 4.0;

/// Returns which requests are not far behind the best, by their times to the end; those without one are far.
fn not_far(finishes: &[Option<f64>], far: f64) -> Vec<bool> {
    let best = finishes.iter().flatten().copied().fold(f64::INFINITY, f64::min);
    finishes.iter().map(|known| known.is_some_and(|finish| finish <= far * best)).collect()
}

fn mean_finishes(starts: &[Vec<f64>], requests: &[Request]) -> Vec<Option<f64>> {
    let finish = |(starts, request): (&Vec<f64>, &Request)| mean(starts).map(|start| start + request.run.0);
    starts.iter().zip(requests).map(finish).collect()
}

/// Returns in what part of the first so many futures each request finishes first; those that finish together share it.
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
