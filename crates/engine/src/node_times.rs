//! Slow nodes: how long ranks take for the same work on each node, and which nodes take longer than others.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::pool::MemberId;
use crate::teach::by_rank;
use crate::{EpochReport, JobState, SubmissionRecord};
use hsched_model::number::to_f64;
use hsched_model::{GpuType, NodeName, Precision, Seconds, Time};
use hsched_plan::throughput::{SampleSource, SpeedKey};

/// Times of the ranks on each node, by kind of work.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct NodeTimes(Vec<WorkTimes>);

/// A node on which ranks take longer than on others with the same GPUs.
#[derive(Clone, Debug, PartialEq)]
pub struct SlowNode {
    pub node: NodeName,
    pub gpu_type: GpuType,
    /// The model whose ranks showed it.
    pub model: String,
    /// Fraction by which the node's ranks take longer.
    pub slower: f64,
    /// Time of the first of the uninterrupted slow observations.
    pub since: Time,
    /// Time from which jobs that avoid the node may use it again.
    pub until: Time,
}

/// Work that takes the same time on equal GPUs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct TimedWork {
    model: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    precision: Option<Precision>,
    #[serde(rename = "type")]
    gpu_type: GpuType,
    batch: u64,
    /// Number of ranks that shared the steps if only the length of whole steps is known; 0 for compute times
    /// of one rank.
    #[serde(default, skip_serializing_if = "hsched_model::serde_defaults::is_zero")]
    ranks: u32,
    /// GPUs of each replica that has its own batch; 0 if each GPU has its own batch.
    #[serde(default, skip_serializing_if = "hsched_model::serde_defaults::is_zero")]
    replica: u32,
}

/// Times of the same work on each node: the last few, oldest first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct WorkTimes {
    #[serde(flatten)]
    work: TimedWork,
    nodes: BTreeMap<NodeName, Vec<(Time, f64)>>,
    /// The slow nodes, with the time since which each has been slow.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    slow_since: BTreeMap<NodeName, Time>,
}

/// Minimum fraction by which ranks of a slow node take longer.
const SLOWER: f64 = 0.15;

/// Number of observations that are kept of each node. A node is compared with others only if there are as
/// many of it and, in total, of the others.
const TIMES: usize = 3;

/// How long after its last observation a slow node is avoided.
const AVOIDED: Seconds = Seconds(7.0 * 86_400.0);

/// How long a node's times stay in the comparison after the last of them.
const COMPARED: Seconds = Seconds(30.0 * 86_400.0);

/// The maximum number of kinds of work kept.
const MOST: usize = 64;

impl NodeTimes {
    /// Returns whether no times are known.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Stores the times of the ranks for an epoch that is reported for the first time.
    pub(super) fn observe(&mut self, tracked: &JobState, attempt: &SubmissionRecord, report: &EpochReport) {
        let at = report.at;
        let mut changed = BTreeSet::new();
        for (work, node, seconds) in observations(tracked, attempt, report) {
            let place = self.0.iter().position(|known| known.work == work).unwrap_or_else(|| {
                self.0.push(WorkTimes { work, nodes: BTreeMap::new(), slow_since: BTreeMap::new() });
                self.0.len() - 1
            });
            self.0[place].add(MemberId::plain(&node), at, seconds);
            changed.insert(place);
        }
        for place in changed {
            self.0[place].judge();
        }
        for work in &mut self.0 {
            work.nodes
                .retain(|_, times| times.last().is_some_and(|(last, _)| at.since(*last).0 <= COMPARED.0));
            work.slow_since.retain(|node, _| work.nodes.contains_key(node));
        }
        self.0.retain(|work| !work.nodes.is_empty());
        while self.0.len() > MOST {
            let oldest = self.0.iter().enumerate().min_by(|(_, a), (_, b)| a.last().total_cmp(&b.last()));
            let Some((place, _)) = oldest else { break };
            self.0.remove(place);
        }
    }

    /// Returns whether a model's ranks take longer on a node than elsewhere.
    pub(super) fn is_slow(&self, node: &NodeName, model: &str, at: Time) -> bool {
        let node = MemberId::plain(node);
        let mut of_model = self.0.iter().filter(|work| work.work.model == model);
        of_model.any(|work| work.slow_node(&node, at).is_some())
    }

    /// Returns the slow nodes, by name: nodes whose last times were all longer than those of the same work
    /// elsewhere.
    pub fn slow(&self, at: Time) -> Vec<SlowNode> {
        let mut slow: BTreeMap<NodeName, SlowNode> = BTreeMap::new();
        for found in self.0.iter().flat_map(|work| work.slow(at)) {
            let is_worse = slow.get(&found.node).is_none_or(|known| known.slower < found.slower);
            if is_worse {
                slow.insert(found.node.clone(), found);
            }
        }
        slow.into_values().collect()
    }
}

impl WorkTimes {
    /// Returns the time of the last observation.
    fn last(&self) -> f64 {
        self.nodes.values().flatten().map(|(at, _)| at.0).fold(f64::NEG_INFINITY, f64::max)
    }

    /// Adds a time of a node.
    fn add(&mut self, node: NodeName, at: Time, seconds: f64) {
        let times = self.nodes.entry(node).or_default();
        times.push((at, seconds));
        let surplus = times.len().saturating_sub(TIMES);
        times.drain(..surplus);
    }

    /// Updates which nodes are slow after times have been added.
    fn judge(&mut self) {
        let since = |(node, times): (&NodeName, &Vec<(Time, f64)>)| {
            self.excess(node)?;
            let since = self.slow_since.get(node).or(times.first().map(|(first, _)| first))?;
            Some((node.clone(), *since))
        };
        self.slow_since = self.nodes.iter().filter_map(since).collect();
    }

    fn slow(&self, at: Time) -> impl Iterator<Item = SlowNode> {
        self.nodes.keys().filter_map(move |node| self.slow_node(node, at))
    }

    /// Returns the node with its excess time if it is slow; `None` otherwise, or if its last time is too old.
    fn slow_node(&self, node: &NodeName, at: Time) -> Option<SlowNode> {
        let times = self.nodes.get(node)?;
        let ((first, _), (last, _)) = (times.first()?, times.last()?);
        let until = last.after(AVOIDED);
        if at >= until {
            return None;
        }
        Some(SlowNode {
            node: node.clone(),
            gpu_type: self.work.gpu_type.clone(),
            model: self.work.model.clone(),
            slower: self.excess(node)?,
            // States of earlier versions have no such time.
            since: *self.slow_since.get(node).unwrap_or(first),
            until,
        })
    }

    /// Returns the fraction by which a node's ranks take longer if all its last times were longer; `None`
    /// otherwise.
    fn excess(&self, node: &NodeName) -> Option<f64> {
        let seconds: Vec<f64> = self.nodes.get(node)?.iter().map(|(_, seconds)| *seconds).collect();
        if seconds.len() < TIMES {
            return None;
        }
        let elsewhere = self.elsewhere(node)?;
        let least = seconds.iter().copied().fold(f64::INFINITY, f64::min);
        let is_slow = least >= (1.0 + SLOWER - 1e-9) * elsewhere;
        is_slow.then(|| rounded(median(seconds) / elsewhere - 1.0))
    }

    /// Returns the time of the work on other nodes; `None` if too few observations exist.
    fn elsewhere(&self, node: &NodeName) -> Option<f64> {
        let others = || self.nodes.iter().filter(|(other, _)| *other != node).map(|(_, times)| times);
        let is_known = others().map(Vec::len).sum::<usize>() >= TIMES;
        is_known.then(|| {
            median(others().map(|times| median(times.iter().map(|time| time.1).collect())).collect())
        })
    }
}

/// Returns an epoch's observations for each node: the compute time of a step on its ranks or, for an epoch on
/// one node without such times, the mean length of a step. The length of a submission's first epoch is not
/// used, because it may include the startup.
fn observations(
    tracked: &JobState,
    attempt: &SubmissionRecord,
    report: &EpochReport,
) -> Vec<(TimedWork, NodeName, f64)> {
    let job = &tracked.job;
    // The time of a replica on several nodes says nothing about any one of them.
    if job.has_replicas() && job.replica.as_ref().is_some_and(|replica| !replica.same_node) {
        return Vec::new();
    }
    let work = |gpu_type: &GpuType, batch: u64, ranks: u32| TimedWork {
        model: job.model.clone(),
        precision: job.precision,
        gpu_type: gpu_type.clone(),
        batch,
        ranks,
        replica: Some(SpeedKey::of(job, gpu_type).gpus).filter(|gpus| *gpus > 1).unwrap_or_default(),
    };
    if report.ranks.is_empty() {
        let types = attempt.gpus.by_type();
        let is_whole = report.epoch > attempt.epochs_before + 1;
        let length = report.length.filter(|length| is_whole && length.0 > 0.0);
        let (Some(length), 1, 1) = (length, attempt.gpus.0.len(), types.len()) else { return Vec::new() };
        let (Some(node), Some((gpu_type, ranks))) = (attempt.gpus.0.keys().next(), types.first_key_value())
        else {
            return Vec::new();
        };
        let steps = to_f64(job.samples_per_epoch) / to_f64(job.global_batch);
        return vec![(work(gpu_type, job.global_batch, *ranks), node.clone(), length.0 / steps)];
    }
    // Ranks of one node are slow or fast together.
    let mut found: Vec<(TimedWork, NodeName, Vec<f64>)> = Vec::new();
    for rank in &report.ranks {
        let Some(node) = rank.node.clone().or_else(|| attempt.node_of(rank.rank)) else { continue };
        let samples = by_rank(tracked, attempt, rank, report.at);
        for sample in
            samples.into_iter().filter(|sample| sample.source == SampleSource::Report && sample.seconds > 0.0)
        {
            let work = work(&sample.key.gpu_type, sample.batch, 0);
            match found.iter_mut().find(|(known, host, _)| *known == work && *host == node) {
                Some((_, _, seconds)) => seconds.push(sample.seconds),
                None => found.push((work, node.clone(), vec![sample.seconds])),
            }
        }
    }
    found.into_iter().map(|(work, node, seconds)| (work, node, median(seconds))).collect()
}

impl SubmissionRecord {
    /// Returns the node of a rank, if known: Slurm may have chosen other nodes than the plan.
    pub(super) fn node_of(&self, rank: usize) -> Option<NodeName> {
        let nodes = &self.gpus.0;
        if let (1, Some((node, _))) = (nodes.len(), nodes.first_key_value()) {
            return Some(node.clone());
        }
        let planned: BTreeSet<&NodeName> = self.ranks.iter().map(|rank| &rank.node).collect();
        let is_as_planned = planned.into_iter().eq(nodes.keys());
        self.ranks.get(rank).filter(|_| is_as_planned).map(|rank| rank.node.clone())
    }
}

/// Returns a fraction rounded to three decimals, the precision of measurements.
fn rounded(part: f64) -> f64 {
    (part * 1000.0).round() / 1000.0
}

/// Returns the median of some numbers; NaN for an empty list.
fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    let middle = numbers.len() / 2;
    match numbers.as_slice() {
        [] => f64::NAN,
        all if all.len() % 2 == 1 => all[middle],
        all => f64::midpoint(all[middle - 1], all[middle]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RankReport;
    use hsched_model::PlacedRank;

    fn node(name: &str) -> NodeName {
        NodeName::new(name).expect("a node")
    }

    /// Returns the times of one kind of work, 1 s apart.
    fn times(nodes: &[(&str, &[f64])]) -> NodeTimes {
        let work = TimedWork {
            model: "m".to_owned(),
            precision: None,
            gpu_type: GpuType::new("t4").expect("a type"),
            batch: 8,
            ranks: 0,
            replica: 0,
        };
        let list = |seconds: &[f64]| {
            (1_u32..).zip(seconds).map(|(at, length)| (Time(f64::from(at)), *length)).collect()
        };
        let nodes = nodes.iter().map(|(name, seconds)| (node(name), list(seconds))).collect();
        NodeTimes(vec![WorkTimes { work, nodes, slow_since: BTreeMap::new() }])
    }

    fn names(times: &NodeTimes, at: f64) -> Vec<String> {
        times.slow(Time(at)).into_iter().map(|slow| slow.node.to_string()).collect()
    }

    /// Two replicas, each on one node; the first rank of a replica reports.
    #[test]
    fn replicas_are_compared_with_those_of_the_same_size() {
        let found = |gpus: u32| {
            let text = format!(
                "jobs: [{{name: a, model: m, samples_per_epoch: 100, epochs: 9, global_batch: 10, model_size: 0, \
                 throughput: {{t4: 1}}, replica: {{gpus: {gpus}}}, command: x}}]"
            );
            let job = hsched_model::formats::jobs::parse(&text).expect("a job").remove(0);
            let rank = |rank: u32| PlacedRank {
                node: node(if rank < gpus { "n1" } else { "n2" }),
                gpu_type: GpuType::new("t4").expect("a type"),
                local_rank: rank % gpus,
                batch: 5,
                samples: 50,
            };
            let ranks = (0..2 * gpus).map(rank).collect();
            let attempt = SubmissionRecord::new("r", ranks, Seconds(1.0), 0, Time(0.0));
            let reported = |rank: u32, compute: f64| RankReport {
                rank: usize::try_from(rank).expect("a rank"),
                samples: 50,
                compute: Seconds(compute),
                node: None,
                step: None,
                probes: Vec::new(),
                share: None,
            };
            let ranks = vec![reported(0, 10.0), reported(gpus, 20.0)];
            let report = EpochReport { epoch: 2, at: Time(9.0), length: None, ranks, metrics: Vec::new() };
            observations(&JobState::new(job, Time(0.0)), &attempt, &report)
        };
        let (two, four) = (found(2), found(4));
        let nodes = |found: &[(TimedWork, NodeName, f64)]| -> Vec<(String, f64)> {
            found.iter().map(|(_, node, seconds)| (node.to_string(), *seconds)).collect()
        };
        assert_eq!(nodes(&two), [("n1".to_owned(), 1.0), ("n2".to_owned(), 2.0)]);
        assert!(two[0].0 == two[1].0 && two[0].0 != four[0].0, "{two:?} {four:?}");
    }

    #[test]
    fn a_node_is_slow_that_took_longer_three_times() {
        let node_times = times(&[("a", &[1.0, 1.0, 1.01]), ("b", &[1.0]), ("c", &[1.16, 1.2, 1.3])]);
        let slow = node_times.slow(Time(10.0));
        assert_eq!(slow.len(), 1);
        assert_eq!(
            (slow[0].node.as_str(), slow[0].since, slow[0].until),
            ("c", Time(1.0), Time(3.0 + AVOIDED.0))
        );
        assert!((slow[0].slower - 0.2).abs() < 1e-9, "{slow:?}");
        // Two slow times are too few, as are three with a normal one in between.
        assert_eq!(names(&times(&[("a", &[1.0, 1.0, 1.0]), ("c", &[1.3, 1.3])]), 10.0), [""; 0]);
        assert_eq!(names(&times(&[("a", &[1.0, 1.0, 1.0]), ("c", &[1.3, 1.1, 1.3])]), 10.0), [""; 0]);
        // With too few times on other nodes, a node is not compared.
        assert_eq!(names(&times(&[("a", &[1.0, 1.0]), ("c", &[1.3, 1.3, 1.3])]), 10.0), [""; 0]);
    }

    #[test]
    fn it_is_slow_since_the_first_of_its_slow_times() {
        let mut known = times(&[("a", &[1.0, 1.0, 1.0])]);
        let mut since = |at: f64, seconds: f64| {
            known.0[0].add(node("c"), Time(at), seconds);
            known.0[0].judge();
            known.slow(Time(at)).first().map(|slow| slow.since.0)
        };
        assert_eq!([since(10.0, 1.0), since(20.0, 1.3), since(30.0, 1.3)], [None; 3]);
        assert_eq!([since(40.0, 1.3), since(50.0, 1.3), since(60.0, 1.3)], [Some(20.0); 3]);
        assert_eq!([since(70.0, 1.0), since(80.0, 1.3), since(90.0, 1.3)], [None; 3]);
        assert_eq!([since(100.0, 1.3), since(110.0, 1.3)], [Some(80.0); 2]);
    }

    #[test]
    fn it_is_tried_again_after_a_week() {
        let node_times = times(&[("a", &[1.0, 1.0, 1.0]), ("c", &[1.3, 1.3, 1.3])]);
        assert_eq!(names(&node_times, AVOIDED.0 + 2.9), ["c"]);
        assert_eq!(names(&node_times, AVOIDED.0 + 3.0), [""; 0]);
    }
}
