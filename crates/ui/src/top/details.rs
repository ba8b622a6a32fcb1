//! The details of one job, line by line, and a line about all GPUs.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::lateness::late;
use crate::status::{JobSummary, nodes};
use crate::terminal::harmless;
use hsched_engine::{JobState, NodeSamples, RankSample, State};
use hsched_model::number::to_f64;
use hsched_model::{GpuType, Time};

/// Maximum age of samples for the current use of GPUs, in intervals.
const FRESH: f64 = 3.0;

/// Returns the details of a job, the most important first; `samples` are those of its running submission.
pub fn top_details(tracked: &JobState, samples: &[NodeSamples], now: Time) -> Vec<String> {
    let summary = JobSummary::new(tracked);
    let mut lines: Vec<String> = summary.stall().into_iter().chain(late(tracked, now)).collect();
    lines.push(format!("{}: {}", tracked.job.name, summary.last(now)));
    if let Some(attempt) = summary.attempt {
        let place = format!("{} on {}", attempt.gpus, nodes(attempt.gpus.0.keys()));
        let time = summary.epoch_time().map(|time| format!("; epoch {time}")).unwrap_or_default();
        lines.push(format!("{place}{time}"));
    }
    let ranks: Vec<String> = fresh(samples, now).filter_map(rank_text).collect();
    if !ranks.is_empty() {
        lines.push(ranks.join("  "));
    }
    lines.iter().map(|line| harmless(line)).collect()
}

/// Returns a line about the GPUs of all running jobs, by type: their number and, from samples, their use.
/// `samples_of` returns the samples of a job's running submission. `None` if no job runs.
pub fn top_gpus(
    state: &State,
    samples_of: impl Fn(&JobState) -> Vec<NodeSamples>,
    now: Time,
) -> Option<String> {
    let mut counts: BTreeMap<&GpuType, (u32, Vec<f64>)> = BTreeMap::new();
    for tracked in &state.jobs {
        let Some(attempt) = tracked.phase.running() else { continue };
        for (_, gpu_type, count) in attempt.gpus.iter() {
            counts.entry(gpu_type).or_default().0 += count;
        }
        for sample in fresh(&samples_of(tracked), now) {
            let gpu_type = attempt.ranks.get(sample.rank).map(|rank| &rank.gpu_type);
            if let Some((known, use_)) =
                gpu_type.and_then(|gpu_type| counts.get_mut(gpu_type)).zip(sample.gpu)
            {
                known.1.push(use_);
            }
        }
    }
    let one = |(gpu_type, (count, uses)): (&&GpuType, &(u32, Vec<f64>))| {
        let idle = uses.iter().filter(|percent| **percent <= RankSample::IDLE).count();
        let mean = uses.iter().sum::<f64>() / to_f64(uses.len() as u64);
        match (uses.len(), idle) {
            (0, _) => format!("{count} {gpu_type}"),
            (_, 0) => format!("{count} {gpu_type} at {mean:.0} %"),
            _ => format!("{count} {gpu_type} at {mean:.0} %, {idle} idle"),
        }
    };
    let all: Vec<String> = counts.iter().map(one).collect();
    (!all.is_empty()).then(|| format!("GPUs in use: {}", all.join("; ")))
}

/// Returns the last sample of each rank, unless it is too old to show the current use.
fn fresh(samples: &[NodeSamples], now: Time) -> impl Iterator<Item = &RankSample> {
    let is_fresh = move |node: &&NodeSamples| {
        node.samples.last().is_some_and(|last| now.since(last.at).0 <= FRESH * node.interval.0)
    };
    samples.iter().filter(is_fresh).filter_map(|node| node.samples.last()).flat_map(|sample| &sample.ranks)
}

/// Returns the use of a rank's GPU; `None` if unknown.
fn rank_text(rank: &RankSample) -> Option<String> {
    let mut text = format!("rank {} {:.0} %", rank.rank, rank.gpu?);
    if let Some(memory) = rank.memory_mib {
        let _ = write!(text, " {:.1} GiB", memory / 1024.0);
    }
    if let Some(power) = rank.power_w {
        let _ = write!(text, " {power:.0} W");
    }
    Some(text)
}
