//! Speed samples from reports: the ranks' compute times, or else the length of whole epochs.

use std::collections::BTreeMap;

use crate::node_times::NodeTimes;
use crate::{End, EpochReport, JobState, RankReport, StepTiming, SubmissionKey, SubmissionRecord};
use hsched_model::number::to_f64;
use hsched_model::{Estimates, GpuType, Job, NodeName, PlacedRank, Seconds, Time};
use hsched_plan::throughput::{Cache, Sample, SampleSource, SpeedCell, SpeedKey, ThroughputMatrix};

/// The known speeds before a report.
#[derive(Clone, Copy)]
pub(super) struct KnownSpeeds<'a> {
    pub cache: &'a Cache,
    pub node_times: &'a NodeTimes,
}

/// Returns the speed samples of an epoch: from its ranks' compute times or, if none is reported, from its
/// length. If the length is not reported and no measurement supports the job's assumed speeds yet, `seen` is
/// used: the time since the previous epoch. Slow nodes give no information about the speed of a GPU type.
pub(super) fn by_epoch(
    tracked: &JobState,
    attempt: &SubmissionRecord,
    report: &EpochReport,
    seen: Option<Seconds>,
    KnownSpeeds { cache, node_times }: KnownSpeeds<'_>,
) -> Vec<Sample> {
    let is_slow = |node: &NodeName| node_times.is_slow(node, &tracked.job.model, report.at);
    if !report.ranks.is_empty() {
        let node = |rank: &RankReport| rank.node.clone().or_else(|| attempt.node_of(rank.rank));
        let ranks = report.ranks.iter().filter(|rank| !node(rank).is_some_and(|node| is_slow(&node)));
        let samples = ranks.flat_map(|rank| by_rank(tracked, attempt, rank, report.at));
        return typical(samples.collect());
    }
    if attempt.gpus.0.keys().any(is_slow) {
        return Vec::new();
    }
    // The first epoch after a stop may have begun before it, and its remaining length is unknown.
    let resumed = report.epoch == attempt.epochs_before + 1 && tracked.may_have_saved();
    let length = report.length.or(seen.filter(|_| tracked.unmeasured)).filter(|_| !resumed);
    length.map_or_else(Vec::new, |length| infer(&tracked.job, attempt, length, report.at, cache))
}

/// Minimum length of a job whose start and end may count as training.
const LONG: Seconds = Seconds(600.0);

/// Returns one sample for each GPU type, batch and source, with the median time: the times of ranks in one
/// epoch are not independent.
fn typical(mut samples: Vec<Sample>) -> Vec<Sample> {
    let kind = |sample: &Sample| (sample.key.clone(), sample.source, sample.batch);
    samples.sort_by(|a, b| kind(a).cmp(&kind(b)).then(a.seconds.total_cmp(&b.seconds)));
    let same = |a: &Sample, b: &Sample| kind(a) == kind(b);
    samples.chunk_by(same).map(|alike| alike[(alike.len() - 1) / 2].clone()).collect()
}

/// Returns the samples from the length of a whole job that completed in one submission without a report. The
/// job must be a command, or long enough for its start and end to be negligible. The samples are dropped at
/// the first report.
pub(super) fn by_the_whole(
    tracked: &JobState,
    of: &SubmissionKey,
    end: &End,
    ended: Time,
    cache: &Cache,
) -> Vec<Sample> {
    let silent = tracked.epochs_done == 0 && !tracked.may_have_saved();
    let Some(submission) = tracked.submission(of).filter(|_| silent && *end == End::Completed) else {
        return Vec::new();
    };
    let attempt = &submission.attempt;
    let length = attempt.started.map(|started| ended.since(started));
    let is_long = |length: &Seconds| *length >= LONG || tracked.job.is_command();
    let Some(length) = length.filter(is_long) else { return Vec::new() };
    let epoch = Seconds(length.0 / to_f64(tracked.job.epochs));
    infer(&tracked.job, attempt, epoch, ended, cache)
}

/// Returns the samples from a rank's epoch: times of (micro-)steps on its GPU.
pub(super) fn by_rank(
    tracked: &JobState,
    attempt: &SubmissionRecord,
    report: &RankReport,
    at: Time,
) -> Vec<Sample> {
    let Some(rank) = attempt.ranks.get(report.rank) else { return Vec::new() };
    let job = &tracked.job;
    let (batch, _) = rank.micro_batches(job);
    let mean = Seconds(report.compute.0 * to_f64(batch) / to_f64(report.samples.max(1)));
    let step = report.step.unwrap_or(StepTiming { batch, time: mean });
    let sample_of = |timed, steps, source| sample(job, &rank.gpu_type, timed, steps, at, source);
    let probes = report.probes.iter().map(|&timed| sample_of(timed, 1, SampleSource::Probe));
    let steps = report.samples.div_ceil(step.batch.max(1));
    let epoch = (report.samples > 0).then(|| sample_of(step, steps, SampleSource::Report));
    probes.chain(epoch).collect()
}

/// Returns the samples for a submission's GPU types from an epoch's length.
///
/// Its steps took the epoch's length minus the predicted communication. If all GPUs are of one type, the rank
/// with the most samples took that long. With several types, the slowest rank is unknown, so all estimates
/// are scaled by the factor that makes the slowest rank take that long.
fn infer(job: &Job, attempt: &SubmissionRecord, epoch: Seconds, at: Time, cache: &Cache) -> Vec<Sample> {
    let mut busiest: BTreeMap<&GpuType, &PlacedRank> = BTreeMap::new();
    for rank in &attempt.ranks {
        let busiest_rank = busiest.entry(&rank.gpu_type).or_insert(rank);
        if rank.batch > busiest_rank.batch {
            *busiest_rank = rank;
        }
    }
    let types: Vec<GpuType> = busiest.keys().copied().cloned().collect();
    // A job planned with an estimate corrects that estimate.
    let job = &Job { estimate: Some(Estimates::All), ..job.clone() };
    let speeds = ThroughputMatrix::new(std::slice::from_ref(job), &types, cache, Estimates::All);
    let thought = |(rank, cell): (&PlacedRank, &SpeedCell)| match cell {
        SpeedCell::Known(known) => Some(known.speed.step(rank.batch, memory(job, rank))),
        SpeedCell::Unusable(_) => None,
    };
    let thought: Option<Vec<f64>> = busiest.values().copied().zip(speeds.row(0)).map(thought).collect();
    let Some(slowest) = thought.as_ref().and_then(|times| times.iter().copied().max_by(f64::total_cmp))
    else {
        return Vec::new();
    };
    let steps = to_f64(job.samples_per_epoch) / to_f64(job.global_batch);
    let factor = (epoch.0 - attempt.communication.0) / steps / slowest;
    if !(factor.is_finite() && factor > 0.0) {
        return Vec::new();
    }
    let one = |(rank, time): (&PlacedRank, f64)| {
        let (batch, passes) = rank.micro_batches(job);
        let time = Seconds(factor * time / to_f64(passes));
        let count = job.samples_per_epoch.div_ceil(job.global_batch) * passes;
        sample(job, &rank.gpu_type, StepTiming { batch, time }, count, at, SampleSource::Epoch)
    };
    busiest.values().copied().zip(thought.into_iter().flatten()).map(one).collect()
}

fn sample(
    job: &Job,
    gpu_type: &GpuType,
    StepTiming { batch, time }: StepTiming,
    steps: u64,
    at: Time,
    source: SampleSource,
) -> Sample {
    Sample { key: SpeedKey::of(job, gpu_type), batch, seconds: time.0, steps, at: at.0, source }
}

/// Returns how many samples fit into the memory of a rank's GPU, if the job states this.
fn memory(job: &Job, rank: &PlacedRank) -> Option<u64> {
    job.max_batch.get(&rank.gpu_type).copied()
}
