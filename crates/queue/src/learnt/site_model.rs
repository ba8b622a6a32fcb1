//! A model of a site's waits learnt from looks, and whether its estimates are better than the simulation's.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::learnt::queue_figures::{LookJobs, with_player};
use crate::learnt::seen_job::{NumberOf, PlayerEstimate, RequestSize, SeenJob};
use crate::learnt::site_log::{SiteLog, key};
use crate::{Estimate, QueueJob, Request, Snapshot};
use hsched_model::number::to_f64;
use hsched_model::{Seconds, Time};
use hsched_waits::{HazardModel, PastEstimates, Spread, WaitDensity, WaitHistory, WaitRecord};

/// Maximum number of candidate examples, the most recent ones, because each must be read.
pub const MOST_JOBS: usize = 50_000;

/// Maximum number of training examples: training on this many takes half a second.
const MOST_EXAMPLES: usize = 5000;

/// Maximum number of similar requests of one look used for training.
const MOST_ALIKE: usize = 12;

/// Minimum number of observed starts for a model, and of compared jobs for a comparison.
const ENOUGH: usize = 30;

/// Number of days over which the simulation and the learnt model are compared.
const COMPARED_DAYS: f64 = 14.0;

/// Number of days for which one of the compared models is used, unless a newer one would have much more data;
/// a new model each day would take twice as long.
const DAYS_OF_MODEL: f64 = 2.0;

/// Factor by which the number of known jobs must grow before the next model is trained.
const GROWTH: f64 = 1.3;

/// Waits up to this count as immediate starts, in seconds.
const AT_ONCE: f64 = 60.0;

const DAY: f64 = 86_400.0;

/// A learnt model of a site's waits.
#[derive(Clone, Debug)]
pub struct SiteModel {
    history: WaitHistory,
    model: HazardModel,
    pub basis: LearntBasis,
    pub score: PastScore,
}

/// The accuracy of the learnt models of the last two weeks, each on the jobs of the days for which it was used. It
/// is computed again after a day.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct PastScore {
    pub at: Time,
    spread: Spread,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comparison: Option<Comparison>,
}

/// The basis of a learnt estimate.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct LearntBasis {
    /// Days from the first used look to the last.
    pub days: f64,
    /// Number of jobs with observed starts.
    pub starts: usize,
}

impl fmt::Display for LearntBasis {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.days.round() {
            days if days < 1.0 => write!(formatter, "learnt from less than a day of this site"),
            1.0 => write!(formatter, "learnt from 1 day of this site"),
            days => write!(formatter, "learnt from {days} days of this site"),
        }
    }
}

/// The errors of both methods on the same jobs of the last two weeks, which have started or have waited
/// longer than both medians: mean pinball loss of the three quantiles, in decimal logarithms.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    pub starts: usize,
    pub learnt: f64,
    pub player: f64,
}

/// A wait, with the simulation's estimate.
struct SiteExample {
    look: Time,
    wait: WaitRecord,
    player: Option<PlayerEstimate>,
}

impl SiteModel {
    /// Trains on the data of looks; `None` if too few starts were observed. `settled` are jobs that have left
    /// the queue; `score` is the score of an earlier model, which saves most of the work if it is recent.
    pub fn learn(log: &SiteLog, settled: &[SeenJob], score: Option<PastScore>, seed: u64) -> Option<Self> {
        let now = log.looked_at?;
        let examples = examples(log, settled);
        let starts = examples.iter().filter(|example| example.wait.started.is_some()).count();
        if starts < ENOUGH {
            return None;
        }
        let days = now.since(examples.first()?.look).0 / DAY;
        let score = score.filter(|score| now.is_soon_after(score.at, Seconds(DAY)));
        let mut learning = Learning { scores: score.is_none(), ..Learning::default() };
        for look in examples.chunk_by(|a, b| a.look == b.look) {
            learning.add(look, now, seed);
        }
        let Learning { history, mut past, errors, .. } = learning;
        let model = history.learn(now, seed)?;
        let score = score.unwrap_or_else(|| PastScore {
            at: now,
            spread: past.spread(now),
            comparison: Comparison::of(&errors),
        });
        Some(Self { history, model, basis: LearntBasis { days, starts }, score })
    }

    /// Returns whether to use the learnt estimates: if both methods have estimates, whether the learnt ones
    /// were better; otherwise, whether other users' jobs are hidden, which leaves the simulation with little
    /// data.
    pub fn is_used(&self, others_hidden: bool) -> bool {
        self.score.comparison.map_or(others_hidden, |comparison| comparison.learnt < comparison.player)
    }

    /// Returns when some requests made at a look would start, each alone, in seconds from then. `player` has
    /// the simulation's estimate of each.
    pub fn estimates(
        &self,
        snapshot: &Snapshot,
        requests: &[Request],
        player: &[Option<Estimate>],
        number: NumberOf,
    ) -> Vec<Estimate> {
        let jobs = LookJobs::new(snapshot, number);
        let now = snapshot.taken_at;
        let mut records = Vec::with_capacity(requests.len());
        for ((id, request), player) in (0..).zip(requests).zip(player) {
            let size = RequestSize::of_request(request, snapshot, number);
            let queue = with_player(jobs.figures(&size), player.map(|estimate| estimate.median.0));
            records.push(size.record(id, now, queue));
        }
        let densities = self.history.alternatives(&records, now).densities(Some(&self.model));
        let estimates = densities.iter().zip(requests).map(|(density, request)| {
            let has_gpus = !request.asks.gpus.is_empty();
            let begin = request.further.begin.map_or(0.0, |begin| begin.since(now).0.max(0.0));
            estimate(&self.score.spread.of(density, has_gpus), begin)
        });
        estimates.collect()
    }

    /// Returns when a pending job seen in a look starts, in seconds from `now`: the distribution of its
    /// estimated wait, restricted to waits longer than its wait so far. `None` if the beginning of its wait
    /// was not observed.
    pub fn pending_start(&self, job: &QueueJob, now: Time, number: NumberOf) -> Option<Estimate> {
        let (record, density) = self.history.wait_of(key(job, number), &self.model)?;
        let waited = now.since(record.asked).0.max(0.0);
        let density = self.score.spread.of(&density, record.has_gpus()).after(waited);
        let left = |wait: f64| Seconds((wait - waited).max(0.0));
        let [low, median, high] = [0.1, 0.5, 0.9].map(|part| left(density.quantile(part)));
        Some(Estimate { low, median, high, mean: left(density.mean_s()) })
    }
}

/// Returns the estimate of a wait that begins `begin` seconds from now, in seconds.
fn estimate(density: &WaitDensity, begin: f64) -> Estimate {
    let [low, median, high] = [0.1, 0.5, 0.9].map(|part| Seconds(begin + density.quantile(part)));
    Estimate { low, median, high, mean: Seconds(begin + density.mean_s()) }
}

/// Returns the training examples from looks, by look.
fn examples(log: &SiteLog, settled: &[SeenJob]) -> Vec<SiteExample> {
    let open: Vec<u64> = log.queue().map(|job| job.job).collect();
    let jobs = settled.iter().map(|job| (job, false));
    let unsettled = log.open.values().map(|job| (job, open.binary_search(&job.job).is_ok()));
    let example = |(job, is_open): (&SeenJob, bool)| {
        let (look, wait) = job.wait(is_open)?;
        Some(SiteExample { look, wait, player: job.player })
    };
    let mut examples: Vec<SiteExample> = jobs.chain(unsettled).filter_map(example).collect();
    examples.sort_by(in_order);
    examples.dedup_by(|a, b| (a.look, a.wait.id) == (b.look, b.wait.id));
    if examples.len() > MOST_EXAMPLES {
        thin(&mut examples);
        examples.sort_by(in_order);
    }
    examples
}

/// Compares two examples by look, then by submission.
fn in_order(a: &SiteExample, b: &SiteExample) -> Ordering {
    let by_look = a.look.0.total_cmp(&b.look.0);
    by_look.then(a.wait.submitted.0.total_cmp(&b.wait.submitted.0)).then(a.wait.id.cmp(&b.wait.id))
}

/// Drops jobs until few enough remain: first among similar requests of one look, which are almost redundant,
/// then at random. This keeps days of looks at a busy site, whereas the most recent jobs alone would cover
/// only hours.
fn thin(examples: &mut Vec<SiteExample>) {
    // The ids are hashes, so this order is random but the same at the next look.
    examples.sort_by_key(|example| example.wait.id);
    let mut counts: BTreeMap<[u64; 7], usize> = BTreeMap::new();
    let count_alike = |example: &SiteExample| {
        let WaitRecord { account, partition, cpus, memory_mib, limit_s, gpus, .. } = example.wait;
        let size = [example.look.0, cpus, memory_mib, limit_s, gpus].map(f64::to_bits);
        let key = [size[0], size[1], size[2], size[3], size[4], u64::from(account), u64::from(partition)];
        let count = counts.entry(key).or_default();
        *count += 1;
        *count
    };
    let places: Vec<usize> = examples.iter().map(count_alike).collect();
    let kept = |most: usize| places.iter().filter(|place| **place <= most).count();
    let most = (1..=MOST_ALIKE).rev().find(|most| kept(*most) <= MOST_EXAMPLES).unwrap_or(1);
    let mut place = places.iter();
    examples.retain(|_| place.next().is_some_and(|place| *place <= most));
    examples.truncate(MOST_EXAMPLES);
}

/// Models of the last days, each applied to the jobs of its days; their accuracy calibrates the next.
#[derive(Default)]
struct Learning {
    scores: bool,
    history: WaitHistory,
    past: PastEstimates,
    model: Option<DaysModel>,
    /// Errors of the learnt model and of the simulation.
    errors: Vec<[f64; 2]>,
}

/// A model trained at a look.
struct DaysModel {
    at: Time,
    jobs: usize,
    model: Option<HazardModel>,
    spread: Spread,
}

impl Learning {
    /// Adds the jobs of a look.
    fn add(&mut self, examples: &[SiteExample], now: Time, seed: u64) {
        let Some(at) = examples.first().map(|example| example.look) else { return };
        let waits: Vec<WaitRecord> = examples.iter().map(|example| example.wait.clone()).collect();
        let look = self.history.look(&waits, at);
        if self.scores && now.since(at).0 <= COMPARED_DAYS * DAY && self.history.len() >= ENOUGH {
            self.renew(at, seed);
            if let Some(DaysModel { model: Some(model), spread, .. }) = &self.model {
                let densities = look.densities(Some(model));
                look.keep(&densities, &mut self.past);
                for (example, density) in examples.iter().zip(&densities) {
                    let density = spread.of(density, example.wait.gpus > 0.0);
                    self.errors.extend(errors(example, &density, now));
                }
            }
        }
        self.history.add(look);
    }

    /// Trains again on the looks so far, if the last model is too old or has too little data.
    fn renew(&mut self, at: Time, seed: u64) {
        let jobs = self.history.len();
        let is_good = |last: &DaysModel| {
            at.since(last.at).0 < DAYS_OF_MODEL * DAY && to_f64(jobs) < GROWTH * to_f64(last.jobs)
        };
        if !self.model.as_ref().is_some_and(is_good) {
            let (model, spread) = (self.history.learn(at, seed), self.past.spread(at));
            self.model = Some(DaysModel { at, jobs, model, spread });
        }
    }
}

impl Comparison {
    fn of(errors: &[[f64; 2]]) -> Option<Self> {
        let starts = errors.len();
        let mean = |which: usize| errors.iter().map(|errors| errors[which]).sum::<f64>() / to_f64(starts);
        (starts >= ENOUGH).then(|| Self { starts, learnt: mean(0), player: mean(1) })
    }
}

/// Returns the errors of the learnt model and of the simulation, from the look of the simulation's estimate;
/// `None` if there is no such estimate, or if the job has not started and its wait so far does not exceed
/// both medians.
fn errors(example: &SiteExample, density: &WaitDensity, now: Time) -> Option<[f64; 2]> {
    let player = example.player?;
    let waited = player.at.since(example.wait.asked).0.max(0.0);
    let density = density.after(waited);
    let learnt = [0.1, 0.5, 0.9].map(|part| density.quantile(part) - waited);
    let told = [player.low_s, player.median_s, player.high_s];
    let (log_wait, has_started) = example.wait.wait_by(now);
    let wait = 10f64.powf(log_wait) - waited;
    let is_over = has_started || wait > learnt[1].max(told[1]);
    is_over.then(|| [pinball(learnt, wait), pinball(told, wait)])
}

/// Returns the mean pinball loss of three quantiles, in decimal logarithms.
fn pinball(quantiles: [f64; 3], wait: f64) -> f64 {
    let log = |seconds: f64| seconds.max(AT_ONCE).log10();
    let loss = |(quantile, part): (f64, f64)| {
        let above = log(wait) - log(quantile);
        (part * above).max((part - 1.0) * above)
    };
    quantiles.into_iter().zip([0.1, 0.5, 0.9]).map(loss).sum::<f64>() / 3.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use hsched_waits::QueueFigures;

    /// A job of an hourly look; its number is arbitrary, like a hash.
    fn example(number: u64, hour: u32, cpus: f64) -> SiteExample {
        let look = Time(f64::from(hour) * 3600.0);
        let size = RequestSize {
            owner: 1,
            partition: 2,
            cpus,
            memory_mib: 1000.0,
            limit_s: 3600.0,
            gpus: 1.0,
            priority: 0.0,
        };
        let id = number.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        SiteExample { look, wait: size.record(id, look, QueueFigures::default()), player: None }
    }

    #[test]
    fn of_many_jobs_days_are_kept_and_like_ones_left_out() {
        let different =
            (0..4_000_u32).map(|number| example(u64::from(number), number / 10, f64::from(number % 10)));
        let alike = (0..9_000_u32).map(|number| example(u64::from(10_000 + number), 500, 99.0));
        let mut examples: Vec<SiteExample> = different.chain(alike).collect();
        thin(&mut examples);
        let count = |is: &dyn Fn(&SiteExample) -> bool| examples.iter().filter(|example| is(example)).count();
        assert_eq!(count(&|example| example.wait.cpus < 50.0), 4_000);
        assert_eq!(count(&|example| example.wait.cpus > 50.0), MOST_ALIKE);
    }

    #[test]
    fn of_different_jobs_a_part_is_kept_of_each_day() {
        let mut examples: Vec<SiteExample> = (0..10_000_u32)
            .map(|number| example(u64::from(number), number / 10, f64::from(number)))
            .collect();
        thin(&mut examples);
        assert_eq!(examples.len(), MOST_EXAMPLES);
        let early = examples.iter().filter(|example| example.look.0 < 500.0 * 3600.0).count();
        assert!((2_300..2_700).contains(&early), "{early}");
    }
}
