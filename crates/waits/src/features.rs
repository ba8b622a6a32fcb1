//! The features for estimating a request's wait: the request, its rank in its streams, how fast these start
//! jobs, and their past waits.
//!
//! Of the data on earlier requests, only those known at the look are used.

use crate::survival::{Hazards, SurvivalCurve, quantiles};
use crate::wait_record::WaitRecord;
use hsched_model::Time;
use hsched_model::number::to_f64;

/// Number of streams of a request: with GPUs or not, partition, size class, account, account within its
/// partition, and similar requests of its account.
pub(crate) const STREAMS: usize = 6;
const PARTITION: usize = 1;
const ACCOUNT: usize = 3;
const ACCOUNT_IN_PARTITION: usize = 4;
pub(crate) const ALIKE: usize = 5;

/// Streams with curves, each with the stream towards which it is shrunk; `None` is the whole site.
const CURVES: [(usize, Option<usize>); 4] = [
    (PARTITION, None),
    (ACCOUNT_IN_PARTITION, Some(PARTITION)),
    (ALIKE, Some(ACCOUNT_IN_PARTITION)),
    (ACCOUNT, Some(PARTITION)),
];

/// Half-lives of past waits in days, for one curve each.
const HALF_LIVES: [f64; 2] = [2.0, 8.0];

/// Hours since the last start, for a stream without a start.
const LONG_AGO: f64 = 999.0;

const DAY: f64 = 86_400.0;
const HOUR: f64 = 3600.0;

/// The number of each stream of a request.
pub(crate) type Streams = [u32; STREAMS];

/// A request with its streams.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InStreams<'a> {
    pub record: &'a WaitRecord,
    pub streams: &'a Streams,
}

/// Returns the features of the requests of one look, all with the same length; `earlier` are all requests
/// before it.
///
/// `requests` are in order of submission; if they are `alternatives`, each is treated as the only one.
pub(crate) fn features<'a>(
    earlier: impl Iterator<Item = InStreams<'a>>,
    requests: &[InStreams],
    now: Time,
    alternatives: bool,
) -> Vec<Vec<f32>> {
    let tallies = Tallies::new(earlier, requests, now);
    let curves = tallies.hazards(requests);
    let mut ranks = vec![Vec::new(); STREAMS];
    for (stream, ranks) in ranks.iter_mut().enumerate() {
        *ranks = if alternatives {
            vec![StreamPlace::ALONE; requests.len()]
        } else {
            tallies.ranks(stream, requests)
        };
    }
    requests
        .iter()
        .enumerate()
        .map(|(number, request)| {
            let mut row = Vec::with_capacity(128);
            of_request(request.record, &mut row);
            row.extend(request.record.queue.0);
            for (stream, ranks) in ranks.iter().enumerate() {
                tallies.of_stream(stream, request, &ranks[number], &mut row);
            }
            for (slots, curves) in &curves {
                let (hazards, at_risk) = &curves[slots[number]];
                row.extend(hazards.map(narrow));
                row.push(narrow(*at_risk));
            }
            row
        })
        .collect()
}

#[expect(clippy::cast_possible_truncation, reason = "features need no more digits")]
fn narrow(number: f64) -> f32 {
    number as f32
}

/// Adds a request's resources, partition and age, and the weekday and hour (UTC) at which its wait begins.
fn of_request(record: &WaitRecord, row: &mut Vec<f32>) {
    let cpus = record.cpus.max(1.0);
    let limit_h = record.limit_s / HOUR;
    let eligible = record.eligible.map_or(-1.0, |eligible| record.asked.since(eligible).0.max(0.0));
    row.extend(
        [
            record.cpus,
            record.memory_mib,
            record.memory_mib / cpus,
            record.limit_s,
            record.gpus,
            record.cpus * limit_h,
            record.gpus * limit_h,
            f64::from(record.partition),
            record.asked.since(record.submitted).0,
            eligible,
            f64::from(u8::from(record.eligible.is_none())),
            (record.asked.0 / DAY).floor().rem_euclid(7.0),
            (record.asked.0 / HOUR).floor().rem_euclid(24.0),
        ]
        .map(narrow),
    );
}

/// A request's position in a stream, among the requests of its look.
#[derive(Clone, Copy, Debug, Default)]
struct StreamPlace {
    before: f64,
    core_hours_before: f64,
    all: f64,
}

impl StreamPlace {
    const ALONE: Self = Self { before: 0.0, core_hours_before: 0.0, all: 1.0 };
}

/// A stream's activity before a look.
#[derive(Clone, Copy, Debug)]
struct StreamTally {
    waiting: f64,
    started_in_a_day: f64,
    last_start_h: f64,
    finished: f64,
    /// Sums over finished jobs: the used fraction of the limit, and the logarithm of the run time.
    used: f64,
    run: f64,
}

impl StreamTally {
    fn empty() -> Self {
        Self {
            waiting: 0.0,
            started_in_a_day: 0.0,
            last_start_h: LONG_AGO,
            finished: 0.0,
            used: 0.0,
            run: 0.0,
        }
    }

    fn add(&mut self, record: &WaitRecord, now: Time) {
        let Some(started) = record.started_by(now) else {
            self.waiting += f64::from(u8::from(record.is_pending_at(now)));
            return;
        };
        let since_h = now.since(started).0 / HOUR;
        self.last_start_h = self.last_start_h.min(since_h);
        if since_h <= 24.0 {
            self.started_in_a_day += 1.0;
        }
        if let Some(ended) = record.ended_by(now) {
            let run = ended.since(started).0;
            self.finished += 1.0;
            self.used += run / record.limit_s.max(1.0);
            self.run += run.max(10.0).log10();
        }
    }

    fn mean(&self, sum: f64) -> f64 {
        if self.finished > 0.0 { sum / self.finished } else { -1.0 }
    }
}

/// The streams of the requests of a look.
struct Tallies {
    /// Index of each stream in the lists below, by kind and number.
    slots: Vec<Vec<usize>>,
    of_streams: Vec<Vec<StreamTally>>,
    /// By half-life: the site's curve, and the curves of the streams that have one, by kind and index.
    curves: Vec<(SurvivalCurve, Vec<Vec<SurvivalCurve>>)>,
}

/// Marks streams without a request in the look.
const ABSENT: usize = usize::MAX;

impl Tallies {
    fn new<'a>(earlier: impl Iterator<Item = InStreams<'a>>, requests: &[InStreams], now: Time) -> Self {
        let mut slots: Vec<Vec<usize>> = vec![Vec::new(); STREAMS];
        let mut tallies: Vec<Vec<StreamTally>> = vec![Vec::new(); STREAMS];
        for request in requests {
            for ((stream, slots), tallies) in request.streams.iter().zip(&mut slots).zip(&mut tallies) {
                let stream = *stream as usize;
                if slots.len() <= stream {
                    slots.resize(stream + 1, ABSENT);
                }
                if slots[stream] == ABSENT {
                    slots[stream] = tallies.len();
                    tallies.push(StreamTally::empty());
                }
            }
        }
        let of = |stream: usize| vec![SurvivalCurve::empty(); tallies[stream].len()];
        let of_streams = || CURVES.map(|(stream, _)| of(stream)).into();
        let curves = HALF_LIVES.map(|_| (SurvivalCurve::empty(), of_streams())).into();
        let mut all = Self { slots, of_streams: tallies, curves };
        earlier.for_each(|earlier| all.add(earlier, now));
        all
    }

    fn slot(&self, stream: usize, number: u32) -> Option<usize> {
        self.slots[stream].get(number as usize).copied().filter(|slot| *slot != ABSENT)
    }

    fn add(&mut self, InStreams { record, streams }: InStreams, now: Time) {
        let slots: Vec<Option<usize>> =
            (0..STREAMS).map(|stream| self.slot(stream, streams[stream])).collect();
        for (slot, tallies) in slots.iter().zip(&mut self.of_streams) {
            if let Some(slot) = slot {
                tallies[*slot].add(record, now);
            }
        }
        let (log_wait, has_started) = record.wait_by(now);
        let days = now.since(record.asked).0 / DAY;
        for (half_life, (site, curves)) in HALF_LIVES.iter().zip(&mut self.curves) {
            let weight = 0.5f64.powf(days / half_life);
            site.add(log_wait, has_started, weight);
            for ((stream, _), curves) in CURVES.iter().zip(curves) {
                if let Some(slot) = slots[*stream] {
                    curves[slot].add(log_wait, has_started, weight);
                }
            }
        }
    }

    /// Returns for each curve the index of each request's stream in a list, and that list: quantiles, and the
    /// weight of its waits.
    #[expect(clippy::type_complexity, reason = "a list for each curve")]
    fn hazards(&self, requests: &[InStreams]) -> Vec<(Vec<usize>, Vec<([f64; 3], f64)>)> {
        let slot = |stream: usize, request: &InStreams| {
            self.slot(stream, request.streams[stream]).unwrap_or_default()
        };
        let mut list = Vec::new();
        for (site, curves) in &self.curves {
            let site = site.hazards(None);
            let mut known: Vec<Vec<Hazards>> = vec![Vec::new(); STREAMS];
            for ((stream, parent), curves) in CURVES.iter().zip(curves) {
                let mut parents = vec![&site; curves.len()];
                if let Some(parent) = parent {
                    for request in requests {
                        parents[slot(*stream, request)] = &known[*parent][slot(*parent, request)];
                    }
                }
                let hazards: Vec<Hazards> =
                    curves.iter().zip(parents).map(|(curve, parent)| curve.hazards(Some(parent))).collect();
                let shown = hazards.iter().zip(curves);
                let shown =
                    shown.map(|(hazards, curve)| (quantiles(hazards, [0.2, 0.5, 0.8]), curve.weight()));
                list.push((requests.iter().map(|request| slot(*stream, request)).collect(), shown.collect()));
                known[*stream] = hazards;
            }
        }
        list
    }

    fn ranks(&self, stream: usize, requests: &[InStreams]) -> Vec<StreamPlace> {
        let mut sums = vec![StreamPlace::default(); self.of_streams[stream].len()];
        let slots: Vec<usize> = requests
            .iter()
            .map(|request| self.slot(stream, request.streams[stream]).unwrap_or_default())
            .collect();
        let mut ranks = Vec::with_capacity(requests.len());
        for (slot, request) in slots.iter().zip(requests) {
            let sum = &mut sums[*slot];
            ranks.push(*sum);
            sum.before += 1.0;
            sum.core_hours_before += request.record.cpus * request.record.limit_s / HOUR;
        }
        for (slot, rank) in slots.iter().zip(&mut ranks) {
            rank.all = sums[*slot].before;
        }
        ranks
    }

    /// Adds a stream's data.
    fn of_stream(&self, stream: usize, request: &InStreams, rank: &StreamPlace, row: &mut Vec<f32>) {
        let slot = self.slot(stream, request.streams[stream]).unwrap_or_default();
        let tally = &self.of_streams[stream][slot];
        let ahead = rank.before + tally.waiting;
        row.extend(
            [
                rank.before,
                rank.all,
                rank.core_hours_before,
                tally.waiting,
                ((ahead + 1.0) / (tally.started_in_a_day + 0.5)).log10(),
                tally.started_in_a_day,
                tally.last_start_h,
                tally.mean(tally.used),
                tally.mean(tally.run),
            ]
            .map(narrow),
        );
    }
}

/// Returns the class of a request's size, by its limit, cores and GPUs.
pub(crate) fn size_class(record: &WaitRecord) -> u32 {
    let above = |value: f64, bounds: &[f64]| bounds.iter().filter(|bound| value > **bound).count();
    let hours = above(record.limit_s / HOUR, &[1.0, 3.0, 12.0, 24.0, 72.0, 168.0]);
    let cores = above(record.cpus, &[1.0, 4.0, 16.0, 32.0, 128.0]);
    let gpus = above(record.gpus, &[0.0, 1.0, 4.0]);
    hsched_model::number::to_u32(to_f64(hours * 100 + cores * 10 + gpus))
}
