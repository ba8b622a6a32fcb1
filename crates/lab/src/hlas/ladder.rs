//! Levels by attained service, and who is first of those that wait.

use std::cmp::Reverse;
use std::collections::BTreeSet;

/// The levels of jobs that wait, the least served first.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ladder {
    /// Service in seconds of an average group, at which a job goes one level down.
    thresholds: Vec<f64>,
    levels: Vec<Level>,
    /// By job, where it waits.
    places: Vec<Option<(usize, Key)>>,
    /// How many jobs have entered so far.
    entries: u64,
}

/// Those with the most epochs predicted first, then by when they entered.
type Key = (Reverse<u64>, u64, usize);

#[derive(Clone, Debug, Default)]
struct Level {
    /// Jobs with part of their round handed out.
    begun: BTreeSet<Key>,
    others: BTreeSet<Key>,
}

/// Thresholds if not given: so many, the first at so many rounds of the median job, each so much higher than the
/// one before.
const LEVELS: usize = 6;
const FIRST: f64 = 5.0;
const FACTOR: f64 = 2.0;

/// Slack for sums of service, in seconds.
const SLACK: f64 = 1e-9;

impl Ladder {
    /// Returns an empty ladder with these thresholds.
    pub(crate) fn new(thresholds: Vec<f64>) -> Self {
        let levels = vec![Level::default(); thresholds.len() + 1];
        Self { thresholds, levels, ..Self::default() }
    }

    /// Returns thresholds for jobs whose rounds take an average group so long.
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

    /// A job waits from now on, behind those that wait; returns its level.
    pub(crate) fn enter(&mut self, job: usize, service: f64, predicted: u64) -> usize {
        let level = self.level(service);
        let key = (Reverse(predicted), self.entries, job);
        self.entries += 1;
        self.put(job, level, key);
        level
    }

    fn put(&mut self, job: usize, level: usize, key: Key) {
        self.levels[level].others.insert(key);
        if self.places.len() <= job {
            self.places.resize(job + 1, None);
        }
        self.places[job] = Some((level, key));
    }

    /// Part of the round of a job that waits is handed out.
    pub(crate) fn begin(&mut self, job: usize) {
        if let Some((level, key)) = self.places[job] {
            self.levels[level].others.remove(&key);
            self.levels[level].begun.insert(key);
        }
    }

    /// A job no longer waits.
    pub(crate) fn leave(&mut self, job: usize) {
        if let Some((level, key)) = self.places.get_mut(job).and_then(Option::take) {
            self.levels[level].others.remove(&key);
            self.levels[level].begun.remove(&key);
        }
    }

    /// A job that waits goes to the first level, at its place in the order of entries.
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

    /// Returns who is first of those that can use something: of the least served, those with part of their round handed out
    /// before the others.
    pub(crate) fn first(&self, can_use: impl Fn(usize) -> bool) -> Option<usize> {
        let usable = |keys: &BTreeSet<Key>| keys.iter().map(|key| key.2).find(|job| can_use(*job));
        self.levels.iter().find_map(|level| usable(&level.begun).or_else(|| usable(&level.others)))
    }

    /// Returns whether nobody waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.levels.iter().all(|level| level.begun.is_empty() && level.others.is_empty())
    }

    /// Returns those who wait below the first level.
    pub(crate) fn below_first(&self) -> Vec<usize> {
        let below = self.levels.iter().skip(1);
        below.flat_map(|level| level.begun.iter().chain(&level.others)).map(|key| key.2).collect()
    }
}
