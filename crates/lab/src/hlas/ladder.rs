//! Levels by attained service, and the first waiting job.

use std::cmp::Reverse;
use std::collections::BTreeSet;

/// The levels of waiting jobs, the least served first.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ladder {
    /// Service thresholds between levels, in seconds of an average group.
    thresholds: Vec<f64>,
    levels: Vec<LadderLevel>,
    /// By job, its place while it waits.
    places: Vec<Option<(usize, LadderKey)>>,
    /// Number of entries so far.
    entries: u64,
}

/// Ordered by predicted epochs, the most first, then by entry.
type LadderKey = (Reverse<u64>, u64, usize);

#[derive(Clone, Debug, Default)]
struct LadderLevel {
    /// Jobs with a partly assigned round.
    begun: BTreeSet<LadderKey>,
    others: BTreeSet<LadderKey>,
}

/// Default thresholds: the number of levels, the first threshold as a multiple of the median round, and the
/// ratio between successive thresholds.
const LEVELS: usize = 6;
const FIRST: f64 = 5.0;
const FACTOR: f64 = 2.0;

/// Tolerance for sums of service, in seconds.
const SLACK: f64 = 1e-9;

impl Ladder {
    /// Returns an empty ladder with these thresholds.
    pub(crate) fn new(thresholds: Vec<f64>) -> Self {
        let levels = vec![LadderLevel::default(); thresholds.len() + 1];
        Self { thresholds, levels, ..Self::default() }
    }

    /// Returns default thresholds from the jobs' times per round on an average group.
    pub(crate) fn usual_thresholds(mut rounds: Vec<f64>) -> Vec<f64> {
        rounds.sort_by(f64::total_cmp);
        let middle = rounds.len() / 2;
        let median = match rounds.len() {
            0 => return Vec::new(),
            odd if odd % 2 == 1 => rounds[middle],
            _ => f64::midpoint(rounds[middle - 1], rounds[middle]),
        };
        std::iter::successors(Some(FIRST * median), |successor| Some(successor * FACTOR))
            .take(LEVELS - 1)
            .collect()
    }

    /// Returns the level of a service, from 0.
    pub(crate) fn level(&self, service: f64) -> usize {
        self.thresholds.iter().filter(|threshold| **threshold - SLACK <= service).count()
    }

    /// Adds a waiting job to its level, after the entries with at least as many predicted epochs; returns the
    /// level.
    pub(crate) fn enter(&mut self, job: usize, service: f64, predicted: u64) -> usize {
        let level = self.level(service);
        let key = (Reverse(predicted), self.entries, job);
        self.entries += 1;
        self.put(job, level, key);
        level
    }

    fn put(&mut self, job: usize, level: usize, key: LadderKey) {
        self.levels[level].others.insert(key);
        if self.places.len() <= job {
            self.places.resize(job + 1, None);
        }
        self.places[job] = Some((level, key));
    }

    /// Records that part of a waiting job's round was assigned.
    pub(crate) fn begin(&mut self, job: usize) {
        if let Some((level, key)) = self.places[job] {
            self.levels[level].others.remove(&key);
            self.levels[level].begun.insert(key);
        }
    }

    /// Removes a job that no longer waits.
    pub(crate) fn leave(&mut self, job: usize) {
        if let Some((level, key)) = self.places.get_mut(job).and_then(Option::take) {
            self.levels[level].others.remove(&key);
            self.levels[level].begun.remove(&key);
        }
    }

    /// Moves a waiting job to the first level, at its position by predicted epochs and entry.
    pub(crate) fn promote(&mut self, job: usize) {
        if let Some((_, key)) = self.places[job] {
            let is_begun = self.levels.iter().any(|level| level.begun.contains(&key));
            self.leave(job);
            self.put(job, 0, key);
            if is_begun {
                self.begin(job);
            }
        }
    }

    /// Returns the first job that can use the free GPUs: on the first level with such a job, jobs with a
    /// partly assigned round come first.
    pub(crate) fn first(&self, can_use: impl Fn(usize) -> bool) -> Option<usize> {
        let usable = |keys: &BTreeSet<LadderKey>| keys.iter().map(|key| key.2).find(|job| can_use(*job));
        self.levels.iter().find_map(|level| usable(&level.begun).or_else(|| usable(&level.others)))
    }

    /// Returns whether a waiting job is on the first level.
    pub(crate) fn is_on_first(&self, job: usize) -> bool {
        matches!(self.places.get(job), Some(Some((0, _))))
    }

    /// Returns whether no job waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.levels.iter().all(|level| level.begun.is_empty() && level.others.is_empty())
    }

    /// Returns the jobs that wait below the first level.
    pub(crate) fn below_first(&self) -> Vec<usize> {
        let below = self.levels.iter().skip(1);
        below.flat_map(|level| level.begun.iter().chain(&level.others)).map(|key| key.2).collect()
    }
}
