//! What looks at a site have taught of its waits, and whether that estimates starts better than the player does.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::learnt::density::WaitDensity;
use crate::learnt::hazard_model::HazardModel;
use crate::learnt::interval::{PastEstimates, Spread};
use crate::learnt::queue_figures::LookJobs;
use crate::learnt::seen_job::{NumberOf, PlayerEstimate, RequestSize, SeenJob};
use crate::learnt::site_log::{SiteLog, key};
use crate::learnt::wait_history::WaitHistory;
use crate::learnt::wait_record::{QueueFigures, WaitRecord};
use crate::{Estimate, QueueJob, Request, Snapshot};
use hsched_model::number::to_f64;
use hsched_model::{Seconds, Time};

/// Jobs that are learnt from at most, the latest ones: a model of so many takes half a second.
pub const MOST_EXAMPLES: usize = 5000;

/// Starts from which a site is learnt at least.
const ENOUGH: usize = 30;

/// Days over which the player and what was learnt are compared.
const COMPARED_DAYS: f64 = 14.0;

/// Days for which one of the models is asked that are compared, unless it knows much less than the next would: learning one a day
/// would take twice as long.
const DAYS_OF_MODEL: f64 = 2.0;

/// By how much the jobs that are known grow before the next model is learnt.
const GROWTH: f64 = 1.3;

/// Waits up to this are a start at once, in seconds.
const AT_ONCE: f64 = 60.0;

const DAY: f64 = 86_400.0;

/// What was learnt of a site's waits.
#[derive(Clone, Debug)]
pub struct SiteModel {
    history: WaitHistory,
    model: HazardModel,
    pub basis: LearntBasis,
    pub score: PastScore,
}

/// How right models of the last days were, each asked about the jobs of its days; it holds for a day.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct PastScore {
    pub at: Time,
    spread: Spread,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comparison: Option<Comparison>,
}

/// What a learnt estimate rests on.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct LearntBasis {
    /// From the first look that counts to the last one.
    pub days: f64,
    /// Jobs whose starts were seen.
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

/// The errors of both on the same starts of the last two weeks: the mean pinball loss of the three quantiles, in decimal logarithms.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    pub starts: usize,
    pub learnt: f64,
    pub player: f64,
}

/// A wait with what the player estimated.
struct Example {
    look: Time,
    wait: WaitRecord,
    player: Option<PlayerEstimate>,
}

impl SiteModel {
    /// Learns from what looks have shown; `None` if too few starts were seen. `settled` are jobs that have left the queue, `score` is
    /// that of an earlier model, which saves most of the work if it is not too old.
    pub fn learn(log: &SiteLog, settled: &[SeenJob], score: Option<PastScore>, seed: u64) -> Option<Self> {
        let now = log.looked_at?;
        let examples = examples(log, settled);
        let starts = examples.iter().filter(|example| example.wait.started.is_some()).count();
        if starts < ENOUGH {
            return None;
        }
        let days = now.since(examples.first()?.look).0 / DAY;
        let score = score.filter(|score| (0.0..DAY).contains(&now.since(score.at).0));
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

    /// Returns whether its estimates are to be used: they were better than the player's where both were tried, else where the jobs of
    /// others are hidden, which leaves the player little to go by.
    pub fn is_used(&self, others_hidden: bool) -> bool {
        self.score.comparison.map_or(others_hidden, |comparison| comparison.learnt < comparison.player)
    }

    /// Returns when some requests would start that are made at a look, each alone, in seconds from then. `player` has what the player
    /// estimates of each.
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
            let mut queue: QueueFigures = jobs.figures(&size);
            queue.set_player(player.map(|estimate| estimate.median.0));
            records.push(WaitRecord::of_request(id, &size, now, queue));
        }
        let densities = self.history.alternatives(&records, now).densities(Some(&self.model));
        let estimates = densities.iter().zip(requests).map(|(density, request)| {
            let has_gpus = !request.asks.gpus.is_empty();
            let begin = request.further.begin.map_or(0.0, |begin| begin.since(now).0.max(0.0));
            estimate(&self.score.spread.of(density, has_gpus), begin)
        });
        estimates.collect()
    }

    /// Returns when a job starts that a look has shown pending and that is pending at a moment, in seconds from then: of the waits that
    /// were estimated for it, those are left that are longer than what it has waited. `None` if its wait was not seen from its beginning.
    pub fn pending_start(&self, job: &QueueJob, now: Time, number: NumberOf) -> Option<Estimate> {
        let (record, density) = self.history.wait_of(key(job, number), &self.model)?;
        let waited = now.since(record.asked).0.max(0.0);
        let density = self.score.spread.of(&density, record.has_gpus()).after(waited);
        let left = |wait: f64| Seconds((wait - waited).max(0.0));
        let [low, median, high] = [0.1, 0.5, 0.9].map(|part| left(density.quantile(part)));
        Some(Estimate { low, median, high, mean: left(density.mean_s()) })
    }
}

/// Returns an estimate in seconds, from so many on.
fn estimate(density: &WaitDensity, begin: f64) -> Estimate {
    let [low, median, high] = [0.1, 0.5, 0.9].map(|part| Seconds(begin + density.quantile(part)));
    Estimate { low, median, high, mean: Seconds(begin + density.mean_s()) }
}

/// Returns the latest of what looks have shown, by look.
fn examples(log: &SiteLog, settled: &[SeenJob]) -> Vec<Example> {
    let open: Vec<u64> = log.queue().map(|job| job.job).collect();
    let jobs = settled.iter().map(|job| (job, false));
    let unsettled = log.open.values().map(|job| (job, open.binary_search(&job.job).is_ok()));
    let example = |(job, is_open): (&SeenJob, bool)| {
        let (look, wait) = job.wait(is_open)?;
        Some(Example { look, wait, player: job.player })
    };
    let mut examples: Vec<Example> = jobs.chain(unsettled).filter_map(example).collect();
    examples.sort_by(|a, b| {
        let by_look = a.look.0.total_cmp(&b.look.0);
        by_look.then(a.wait.submitted.0.total_cmp(&b.wait.submitted.0)).then(a.wait.id.cmp(&b.wait.id))
    });
    examples.dedup_by(|a, b| (a.look, a.wait.id) == (b.look, b.wait.id));
    examples.drain(..examples.len().saturating_sub(MOST_EXAMPLES));
    examples
}

/// Models of the last days, each asked about the jobs of its days: how right they were calibrates the next.
#[derive(Default)]
struct Learning {
    scores: bool,
    history: WaitHistory,
    past: PastEstimates,
    model: Option<DaysModel>,
    /// Errors of what was learnt and of the player.
    errors: Vec<[f64; 2]>,
}

/// A model as it was learnt at a look.
struct DaysModel {
    at: Time,
    jobs: usize,
    model: Option<HazardModel>,
    spread: Spread,
}

impl Learning {
    /// Adds the jobs of a look.
    fn add(&mut self, examples: &[Example], now: Time, seed: u64) {
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

    /// Learns anew from the looks so far, if the last model is too old or knows too little.
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

/// Returns the errors of what was learnt and of the player, from the look at which the player was asked; `None` if it was not, or the
/// wait is not known to be longer than both expected.
fn errors(example: &Example, density: &WaitDensity, now: Time) -> Option<[f64; 2]> {
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
