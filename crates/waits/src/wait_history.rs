//! The requests seen in looks at a site's queue, with their features: the training data for its waits.

use std::collections::BTreeMap;

use crate::density::WaitDensity;
use crate::features::{ALIKE, InStreams, STREAMS, Streams, features, size_class};
use crate::hazard_model::{Example, HazardModel};
use crate::interval::PastEstimates;
use crate::wait_record::WaitRecord;
use hsched_model::Time;
use hsched_model::number::{to_f64, to_u32};

/// Maximum number of similar requests of one account in one look used for training, because their waits are
/// correlated.
const ALIKE_OF_LOOK: usize = 12;

/// Half-life of a request's weight in days.
const HALF_LIFE_DAYS: f64 = 30.0;

const DAY: f64 = 86_400.0;

/// A request seen in a look, with its features at that time.
#[derive(Clone, Debug)]
struct WaitEntry {
    look: Time,
    record: WaitRecord,
    streams: Streams,
    features: Vec<f32>,
}

/// Requests in order of their looks.
#[derive(Clone, Debug, Default)]
pub struct WaitHistory {
    seen: Vec<WaitEntry>,
    numbers: Numbers,
}

/// Numbers of streams, in order of first appearance.
#[derive(Clone, Debug, Default)]
struct Numbers {
    by_kind: [BTreeMap<[u64; 5], u32>; STREAMS],
}

/// The keys of a request's streams.
fn keys(record: &WaitRecord) -> [[u64; 5]; STREAMS] {
    let WaitRecord { account, partition, cpus, memory_mib, limit_s, gpus, .. } = *record;
    let (account, partition) = (u64::from(account), u64::from(partition));
    [
        [u64::from(record.has_gpus()), 0, 0, 0, 0],
        [partition, 0, 0, 0, 0],
        [u64::from(size_class(record)), 0, 0, 0, 0],
        [account, 0, 0, 0, 0],
        [account, partition, 0, 0, 0],
        [account, cpus.to_bits(), memory_mib.to_bits(), limit_s.to_bits(), gpus.to_bits()],
    ]
}

impl Numbers {
    fn add(&mut self, record: &WaitRecord) {
        for (numbers, key) in self.by_kind.iter_mut().zip(keys(record)) {
            let next = to_u32(to_f64(numbers.len()));
            numbers.entry(key).or_insert(next);
        }
    }

    /// Returns the streams of a request; a new stream gets an unused number.
    fn streams(&self, record: &WaitRecord) -> Streams {
        let mut streams = [0; STREAMS];
        for ((stream, numbers), key) in streams.iter_mut().zip(&self.by_kind).zip(keys(record)) {
            *stream = numbers.get(&key).copied().unwrap_or_else(|| to_u32(to_f64(numbers.len())));
        }
        streams
    }
}

/// Requests of one look with their features, not added to the history yet.
#[derive(Clone, Debug)]
pub struct LookRequests {
    seen: Vec<WaitEntry>,
    /// Index of each queried request.
    places: Vec<usize>,
}

impl WaitHistory {
    /// Returns the requests of a look with their features; the history must have neither that look nor a
    /// later one.
    pub fn look(&mut self, requests: &[WaitRecord], now: Time) -> LookRequests {
        for request in requests {
            self.numbers.add(request);
        }
        self.with_features(requests, now, false)
    }

    /// Returns alternative requests with their features, as if each were the only new request of a look.
    pub fn alternatives(&self, requests: &[WaitRecord], now: Time) -> LookRequests {
        self.with_features(requests, now, true)
    }

    fn with_features(&self, requests: &[WaitRecord], now: Time, alternatives: bool) -> LookRequests {
        let mut order: Vec<usize> = (0..requests.len()).collect();
        let key = |place: &usize| (requests[*place].submitted.0, requests[*place].id);
        order.sort_by(|a, b| key(a).0.total_cmp(&key(b).0).then(key(a).1.cmp(&key(b).1)));
        let mut places = vec![0; order.len()];
        for (place, number) in order.iter().enumerate() {
            places[*number] = place;
        }
        let streams: Vec<Streams> =
            order.iter().map(|number| self.numbers.streams(&requests[*number])).collect();
        let list: Vec<InStreams> = order
            .iter()
            .zip(&streams)
            .map(|(number, streams)| InStreams { record: &requests[*number], streams })
            .collect();
        let earlier = self.seen.iter().map(|seen| InStreams { record: &seen.record, streams: &seen.streams });
        let features = features(earlier, &list, now, alternatives);
        let seen = list.iter().zip(features).map(|(request, features)| WaitEntry {
            look: now,
            record: request.record.clone(),
            streams: *request.streams,
            features,
        });
        LookRequests { seen: seen.collect(), places }
    }

    /// Adds the requests of a look, which must be later than all earlier ones.
    pub fn add(&mut self, look: LookRequests) {
        self.seen.extend(look.seen);
    }

    /// Trains on a subset of the requests with the data known at a given time; `None` if none has started.
    pub fn learn(&self, now: Time, seed: u64) -> Option<HazardModel> {
        let thinned = self.thinned();
        let examples: Vec<Example> = thinned
            .into_iter()
            .map(|(seen, stands_for)| {
                let days = now.since(seen.record.asked).0 / DAY;
                Example {
                    features: &seen.features,
                    wait: seen.record.wait_by(now),
                    weight: stands_for.sqrt() * 0.5f64.powf(days / HALF_LIFE_DAYS),
                }
            })
            .collect();
        HazardModel::learn(&examples, seed)
    }

    /// Returns a subset of the requests, evenly spaced among similar ones of a look, each with the number
    /// that it represents.
    fn thinned(&self) -> Vec<(&WaitEntry, f64)> {
        let key = |seen: &WaitEntry| (seen.look.0.to_bits(), seen.streams[ALIKE]);
        let mut groups: BTreeMap<(u64, u32), Vec<&WaitEntry>> = BTreeMap::new();
        for seen in &self.seen {
            groups.entry(key(seen)).or_default().push(seen);
        }
        let mut kept = Vec::new();
        for group in groups.values() {
            let step = group.len().div_ceil(ALIKE_OF_LOOK);
            let places = (step / 2..group.len()).step_by(step);
            let stands_for = to_f64(group.len()) / to_f64(places.len().max(1));
            kept.extend(places.map(|place| (group[place], stands_for)));
        }
        kept
    }

    /// Returns the record of the request with this id, and the density of its wait since `asked`.
    pub fn wait_of(&self, id: u64, model: &HazardModel) -> Option<(&WaitRecord, WaitDensity)> {
        let seen = self.seen.iter().rev().find(|seen| seen.record.id == id)?;
        Some((&seen.record, model.density(&seen.features)))
    }

    /// Returns the number of requests.
    pub fn len(&self) -> usize {
        self.seen.len()
    }

    pub fn is_empty(&self) -> bool {
        self.seen.is_empty()
    }
}

impl LookRequests {
    /// Returns the densities of the waits, in request order; without a model, the general assumption.
    pub fn densities(&self, model: Option<&HazardModel>) -> Vec<WaitDensity> {
        let density = |place: &usize| match model {
            Some(model) => model.density(&self.seen[*place].features),
            None => WaitDensity::unknown(),
        };
        self.places.iter().map(density).collect()
    }

    /// Stores the estimates, for later calibration.
    pub fn keep(&self, densities: &[WaitDensity], estimates: &mut PastEstimates) {
        for (place, density) in self.places.iter().zip(densities) {
            estimates.add(&self.seen[*place].record, density.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wait_record::QueueFigures;

    /// Ten jobs per day of each of two accounts: those of the first wait some minutes, those of the second at
    /// least half a day.
    fn day(day: u32) -> Vec<WaitRecord> {
        let asked = Time(f64::from(day) * DAY);
        let job = |number: u32| {
            let account = number % 2;
            let wait = if account == 0 { 500.0 } else { 40_000.0 + 5_000.0 * f64::from(number) };
            let started = Time(asked.0 + wait);
            WaitRecord {
                id: u64::from(number),
                asked,
                submitted: Time(asked.0 - f64::from(number)),
                eligible: Some(asked),
                account,
                partition: 7,
                cpus: 4.0,
                memory_mib: 1000.0,
                limit_s: 3600.0,
                gpus: 1.0,
                queue: QueueFigures::default(),
                started: Some(started),
                ended: Some(Time(started.0 + 600.0)),
                pending_until: None,
            }
        };
        (0..20).map(job).collect()
    }

    /// Returns the medians of the last day's jobs; `change` is first applied to all jobs.
    fn medians(days: u32, change: impl Fn(&mut WaitRecord, Time)) -> Vec<f64> {
        let mut history = WaitHistory::default();
        let now = Time(f64::from(days) * DAY);
        for number in 0..days {
            let mut requests = day(number);
            for request in &mut requests {
                change(request, now);
            }
            let look = history.look(&requests, requests[0].asked);
            history.add(look);
        }
        let mut requests = day(days);
        for request in &mut requests {
            change(request, now);
        }
        let model = history.learn(now, 1);
        let densities = history.look(&requests, now).densities(model.as_ref());
        densities.iter().map(|density| density.quantile(0.5)).collect()
    }

    #[test]
    fn accounts_with_different_waits_are_told_apart() {
        let medians = medians(12, |_, _| {});
        let mean =
            |account: usize| medians.iter().skip(account).step_by(2).sum::<f64>() / to_f64(medians.len() / 2);
        assert!((300.0..900.0).contains(&mean(0)), "{}", mean(0));
        assert!((40_000.0..200_000.0).contains(&mean(1)), "{}", mean(1));
    }

    #[test]
    fn no_estimate_knows_what_comes_later() {
        let hide = |request: &mut WaitRecord, now: Time| {
            request.started = request.started.filter(|started| *started <= now);
            request.ended = request.ended.filter(|ended| *ended <= now);
        };
        assert_eq!(medians(6, |_, _| {}), medians(6, hide));
    }

    #[test]
    fn the_order_of_the_requests_does_not_matter() {
        let mut history = WaitHistory::default();
        let look = history.look(&day(0), Time(0.0));
        history.add(look);
        let model = history.learn(Time(DAY), 1);
        let mut requests = day(1);
        let forwards = history.look(&requests, Time(DAY)).densities(model.as_ref());
        requests.reverse();
        let mut backwards = history.look(&requests, Time(DAY)).densities(model.as_ref());
        backwards.reverse();
        assert_eq!(forwards, backwards);
    }
}
