//! Samples: the activity of a job's ranks once a minute, and the GPU use derived from it.

use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

use hsched_model::number::to_f64;
use hsched_model::{NodeName, Seconds, Time};

/// The samples of one node, in order.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeSamples {
    pub node: NodeName,
    /// Time between two samples.
    pub interval: Seconds,
    /// Number of slots of each GPU; each rank has one.
    pub slots: u32,
    /// When the last sample was written, by the clock of the file system.
    pub written: Option<Time>,
    pub samples: Vec<NodeSample>,
}

/// The activity of a node's ranks at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeSample {
    /// The time by the node's clock.
    pub at: Time,
    pub ranks: Vec<RankSample>,
}

/// The activity of one rank.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RankSample {
    pub rank: usize,
    /// State of the rank's main process in the kernel's notation: `R`, `S`, `D`, `T` and so on.
    pub state: Option<char>,
    /// CPU time of all the rank's processes so far.
    pub cpu: Option<Seconds>,
    /// Utilisation of the rank's GPU, in percent.
    pub gpu: Option<f64>,
    /// Memory in use on the rank's GPU.
    pub memory_mib: Option<f64>,
    /// Power that the rank's GPU draws, in watts.
    pub power_w: Option<f64>,
    /// Number of steps done, if its program reports it.
    pub steps: Option<u64>,
    pub activity: Option<Activity>,
}

/// The current activity of a training program, as it reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Activity {
    /// Before the end of the rank's first step, which may compile.
    Start,
    /// Waiting for data.
    Data,
    /// Computing a step or exchanging gradients.
    Step,
    /// Writing a checkpoint.
    Save,
    Evaluate,
    /// Between two epochs.
    Between,
    /// Waiting for its turn on the GPU.
    Parked,
    /// An activity unknown to this version.
    #[serde(other)]
    Other,
}

/// GPU use according to samples, in GPU-seconds; for a slot, its part of a GPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SampledUse {
    /// Time with known utilisation.
    #[serde(rename = "sampled_s")]
    pub sampled: Seconds,
    /// Part of that time in which GPUs were idle.
    #[serde(rename = "idle_s")]
    pub idle: Seconds,
    /// Time with known power.
    #[serde(rename = "metered_s")]
    pub metered: Seconds,
    /// Energy in that time, in joules.
    pub energy_j: f64,
    /// Number of slots of each GPU, if it had several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slots: Option<u32>,
}

impl RankSample {
    /// Utilisation up to which a GPU counts as idle, in percent.
    pub const IDLE: f64 = 2.0;

    /// Returns whether the rank's GPU was idle; `None` if it was not measured.
    pub fn is_idle(&self) -> Option<bool> {
        self.gpu.map(|percent| percent <= Self::IDLE)
    }
}

impl SampledUse {
    /// Returns the use that the samples of a period show. Each sample stands for the time since the previous
    /// one of its node, at most twice the interval.
    pub fn of(nodes: &[NodeSamples], period: &RangeInclusive<Time>) -> Self {
        let mut total = Self::default();
        for node in nodes {
            total.slots = total.slots.max(Some(node.slots).filter(|slots| *slots > 1));
            for pair in node.samples.windows(2).filter(|pair| period.contains(&pair[1].at)) {
                let time = pair[1].at.since(pair[0].at).0.clamp(0.0, 2.0 * node.interval.0);
                for rank in &pair[1].ranks {
                    total.add(rank, time, node.slots);
                }
            }
        }
        total
    }

    /// Returns whether no sample has data on GPUs and no GPU had several slots.
    pub fn is_empty(&self) -> bool {
        self.sampled.0 <= 0.0 && self.metered.0 <= 0.0 && self.slots.is_none()
    }

    /// Returns the part of each of its GPUs that a submission has.
    pub fn part(&self) -> f64 {
        1.0 / f64::from(self.slots.unwrap_or(1).max(1))
    }

    /// Returns the mean power of a whole GPU in watts, if it was measured.
    pub(crate) fn mean_power(&self) -> Option<f64> {
        (self.metered.0 > 0.0).then(|| self.energy_j / self.metered.0)
    }

    fn add(&mut self, rank: &RankSample, time: f64, slots: u32) {
        let gpu_time = time / f64::from(slots.max(1));
        if let Some(is_idle) = rank.is_idle() {
            self.sampled.0 += gpu_time;
            self.idle.0 += gpu_time * to_f64(u64::from(is_idle));
        }
        if let Some(power) = rank.power_w {
            self.metered.0 += gpu_time;
            self.energy_j += power * gpu_time;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_stands_for_the_time_since_the_one_before() {
        let rank = |gpu: f64, power: f64| RankSample {
            gpu: Some(gpu),
            power_w: Some(power),
            ..RankSample::default()
        };
        let sample = |at, ranks| NodeSample { at: Time(at), ranks };
        let samples = vec![
            sample(0.0, vec![rank(90.0, 999.0)]),
            sample(60.0, vec![rank(90.0, 300.0), RankSample::default()]),
            sample(120.0, vec![rank(0.0, 50.0)]),
            // The time in between is unknown.
            sample(1000.0, vec![rank(2.0, 60.0)]),
        ];
        let node = NodeName::new("n1").expect("a node");
        let nodes = [NodeSamples { node, interval: Seconds(60.0), slots: 1, written: None, samples }];
        let expected = SampledUse {
            sampled: Seconds(240.0),
            idle: Seconds(180.0),
            metered: Seconds(240.0),
            energy_j: 60.0 * 300.0 + 60.0 * 50.0 + 120.0 * 60.0,
            slots: None,
        };
        let always = Time(f64::NEG_INFINITY)..=Time(f64::INFINITY);
        assert_eq!(SampledUse::of(&nodes, &always), expected);
        // The samples of a parked training are those of all its submissions.
        let second = SampledUse::of(&nodes, &(Time(61.0)..=Time(999.0)));
        assert_eq!(
            (second.sampled, second.idle, second.energy_j),
            (Seconds(60.0), Seconds(60.0), 60.0 * 50.0)
        );
        // A run in one of three slots accounts for a third of the GPU.
        let shared = SampledUse::of(&nodes.map(|node| NodeSamples { slots: 3, ..node }), &always);
        let third = |whole: Seconds| Seconds(whole.0 / 3.0);
        let (sampled, idle, metered) =
            (third(expected.sampled), third(expected.idle), third(expected.metered));
        let energy_j = expected.energy_j / 3.0;
        assert_eq!(shared, SampledUse { sampled, idle, metered, energy_j, slots: Some(3) });
    }
}
