//! The activity of one rank over time, from the samples of its node.

use crate::{NodeSamples, RankSample};
use hsched_model::number::to_f64;
use hsched_model::{NodeName, Seconds, Time};

/// CPU use below which a rank without a known GPU counts as idle.
const ASLEEP: f64 = 0.02;

/// Tolerance for clock differences.
const SKEW: Seconds = Seconds(60.0);

/// The samples of one rank, in order; never empty.
pub(super) struct Track<'a> {
    pub rank: usize,
    pub node: &'a NodeName,
    pub points: Vec<(Time, &'a RankSample)>,
}

/// Returns the tracks of all ranks since a submission started, sorted by rank.
pub(super) fn tracks(nodes: &[NodeSamples], started: Time) -> Vec<Track<'_>> {
    let mut tracks: Vec<Track<'_>> = Vec::new();
    for node in nodes {
        let samples = node.samples.iter().filter(|sample| sample.at.0 >= started.0 - SKEW.0);
        for sample in samples {
            for rank in &sample.ranks {
                if let Some(track) = tracks.iter_mut().find(|track| track.rank == rank.rank) {
                    track.points.push((sample.at, rank));
                } else {
                    tracks.push(Track { rank: rank.rank, node: &node.node, points: vec![(sample.at, rank)] });
                }
            }
        }
    }
    tracks.sort_by_key(|track| track.rank);
    tracks
}

impl Track<'_> {
    pub(super) fn last(&self) -> &RankSample {
        self.points[self.points.len() - 1].1
    }

    /// Returns the time of the last sample.
    pub(super) fn end(&self) -> Time {
        self.points[self.points.len() - 1].0
    }

    /// Returns the time of the first sample from which a condition holds for all later samples.
    pub(super) fn since(&self, holds: impl Fn(&RankSample) -> bool) -> Time {
        let trailing = self.points.iter().rev().take_while(|(_, sample)| holds(sample));
        trailing.last().map_or(self.end(), |(at, _)| *at)
    }

    /// Returns the time since which the rank has been idle; `None` if it was active in its last sample or the
    /// data are insufficient.
    pub(super) fn quiet_since(&self) -> Option<Time> {
        let mut since = None;
        for place in (0..self.points.len()).rev() {
            let before = place.checked_sub(1).map(|place| self.points[place]);
            if !is_quiet(self.points[place], before) {
                break;
            }
            since = Some(self.points[place].0);
        }
        since
    }

    /// Returns the time since which the rank has made no step; `None` if it does not count steps.
    pub(super) fn same_step_since(&self) -> Option<Time> {
        let steps = self.last().steps?;
        Some(self.since(|sample| sample.steps == Some(steps)))
    }

    /// Returns the mean time of a step, if known.
    pub(super) fn step(&self) -> Option<f64> {
        let (begin, first) = self.points.iter().find_map(|(at, sample)| Some((at, sample.steps?)))?;
        let steps = self.last().steps?.checked_sub(first).filter(|steps| *steps > 0)?;
        let until = self.same_step_since()?;
        Some(until.since(*begin).0 / to_f64(steps))
    }

    /// Returns the CPUs that the rank has used on average since its first sample.
    pub(super) fn load(&self) -> Option<f64> {
        load(self.points[self.points.len() - 1], self.points[0])
    }
}

/// Returns whether a rank was idle at a sample; `before` is the previous sample.
fn is_quiet(now: (Time, &RankSample), before: Option<(Time, &RankSample)>) -> bool {
    let is_new = |steps: u64| before.and_then(|(_, other)| other.steps).is_some_and(|other| steps > other);
    if now.1.steps.is_some_and(is_new) {
        return false;
    }
    now.1
        .is_idle()
        .unwrap_or_else(|| before.and_then(|before| load(now, before)).is_some_and(|load| load < ASLEEP))
}

/// Returns the CPUs in use between two samples.
fn load(now: (Time, &RankSample), before: (Time, &RankSample)) -> Option<f64> {
    let time = now.0.since(before.0).0;
    (time > 0.0).then_some((now.1.cpu?.0 - before.1.cpu?.0) / time)
}
