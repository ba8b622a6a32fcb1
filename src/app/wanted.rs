//! Speeds that need a measurement, and the short jobs that measure them.

use std::collections::BTreeSet;
use std::path::Path;

use hsched_model::number::to_f64;
use hsched_model::{ErrorId, Estimates, GpuType, Job, JobName, Replica, Seconds, Speed};
use hsched_plan::throughput::{Cache, SpeedCell, SpeedKey, SpeedOrigin, ThroughputMatrix, UnusableType};
use hsched_ui::{Exit, Failure};

/// A speed that is not known well enough, and a job whose command can measure it.
#[derive(Clone, Debug)]
pub(crate) struct MissingSpeed {
    pub job: Job,
    pub gpu_type: GpuType,
    /// Local batch sizes, the largest first: one or two.
    pub batches: Vec<u64>,
}

/// Returns the speeds to measure: for every job and every GPU type that it may use, if neither the cache nor
/// the job file has one (an estimate does not count); with `all`, also if only the job file has one. Jobs of
/// one model share a probe.
pub(crate) fn wanted(jobs: &[Job], types: &[GpuType], cache: &Cache, all: bool) -> Vec<MissingSpeed> {
    let speeds = ThroughputMatrix::new(jobs, types, cache, Estimates::Off);
    let mut seen = BTreeSet::new();
    let mut wanted = Vec::new();
    for (index, job) in jobs.iter().enumerate() {
        for (gpu_type, cell) in types.iter().zip(speeds.row(index)) {
            let lacks = match cell {
                SpeedCell::Unusable(reason) => *reason == UnusableType::NoThroughput,
                SpeedCell::Known(known) => match known.source {
                    SpeedOrigin::Measured(_) => false,
                    SpeedOrigin::JobFile | SpeedOrigin::OtherName(_) => all,
                    SpeedOrigin::Estimated(_) => true,
                },
            };
            let one = MissingSpeed {
                batches: batches(job, gpu_type),
                job: job.clone(),
                gpu_type: gpu_type.clone(),
            };
            if lacks && seen.insert(one.key()) {
                wanted.push(one);
            }
        }
    }
    wanted
}

/// Returns the batches to try: the part of the global batch that fits one GPU or replica, and about a quarter
/// of it.
fn batches(job: &Job, gpu_type: &GpuType) -> Vec<u64> {
    let quantum = job.batch_quantum.max(1);
    let whole = |batch: u64| (batch / quantum * quantum).max(quantum);
    let memory = job.max_batch.get(gpu_type).copied().unwrap_or(u64::MAX);
    let most = whole(job.global_batch.min(memory));
    let mut batches = vec![most, whole(most / 4)];
    batches.dedup();
    batches
}

impl MissingSpeed {
    pub(crate) fn key(&self) -> SpeedKey {
        SpeedKey::of(&self.job, &self.gpu_type)
    }

    /// Returns the short job that measures a batch: the job's command on one GPU or replica, for one epoch or
    /// `limit`.
    ///
    /// `checkpoints` is where it may save, which is never the job's own directory.
    pub(crate) fn probe(&self, batch: u64, limit: Seconds, checkpoints: &Path) -> Result<Job, Failure> {
        let bad = |message: String| Failure::new(Exit::BadInput, message).id(ErrorId::NameFormat);
        let legal = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '_' };
        let place: String = self.gpu_type.as_str().chars().map(legal).collect();
        let name = format!("{}.probe-{place}-{batch}", self.job.name);
        let name = JobName::new(&name)
            .map_err(|error| bad(error.to_string()).hint("give the job a shorter name"))?;
        let folder = checkpoints.join(name.as_str());
        let folder = folder.to_str().ok_or_else(|| bad(format!("{}: must be UTF-8", folder.display())))?;
        // The run time of the probe is unknown, so the limit is assumed.
        let guess = Speed::rate(to_f64(self.job.samples_per_epoch) / limit.0.max(1.0));
        let mut job = Job {
            name,
            epochs: 1,
            global_batch: batch,
            min_gpus: 1,
            max_gpus: self.job.replica.is_none().then_some(1),
            min_replicas: 1,
            max_replicas: self.job.replica.is_some().then_some(1),
            replica: self.job.replica.as_ref().map(|_| Replica::of(self.key().gpus)),
            gpu_types: Some([self.gpu_type.clone()].into()),
            throughput: guess.map(|speed| (self.gpu_type.clone(), speed)).into_iter().collect(),
            estimate: Some(Estimates::Off),
            retries: 0,
            ..self.job.clone()
        };
        job.launch.time = Some(limit);
        job.launch.env.push(("HSCHED_PROBE".into(), "1".into()));
        let grace = job.launch.checkpoint.grace.map_or(limit.0 / 3.0, |grace| grace.0.min(limit.0 / 3.0));
        job.launch.checkpoint.grace = Some(Seconds(grace.min(30.0)));
        job.launch.checkpoint.dir = Some(folder.to_owned());
        Ok(job)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hsched_model::formats;

    fn jobs(more: &str) -> Vec<Job> {
        let text = format!(
            "jobs:\n  - {{name: a, model: m, samples_per_epoch: 1000, epochs: 9, global_batch: 100, model_size: 0, \
             throughput: {{v100: 50}}, command: [x]{more}}}\n  - {{name: b, model: m, samples_per_epoch: 1000, \
             epochs: 9, global_batch: 100, model_size: 0, throughput: {{v100: 50}}, command: [x]}}\n"
        );
        formats::jobs::parse(&text).expect("jobs")
    }

    fn check(more: &str, all: bool, expected: &[(&str, &[u64])]) {
        let types = ["t4", "v100"].map(|name| GpuType::new(name).expect("a type"));
        let found = wanted(&jobs(more), &types, &Cache::default(), all);
        let found: Vec<(&str, &[u64])> = found
            .iter()
            .map(|missing_speed| (missing_speed.gpu_type.as_str(), missing_speed.batches.as_slice()))
            .collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn what_nobody_knows_is_measured_once_for_a_model() {
        check("", false, &[("t4", &[100, 25])]);
        check("", true, &[("t4", &[100, 25]), ("v100", &[100, 25])]);
        check(", max_batch: {t4: 30}", false, &[("t4", &[30, 7])]);
        check(", max_batch: {t4: 30}, batch_quantum: 10", false, &[("t4", &[30, 10])]);
        check(", batch_quantum: 100", false, &[("t4", &[100])]);
    }

    #[test]
    fn a_probe_leaves_the_job_itself_alone() {
        let types = [GpuType::new("t4").expect("a type")];
        let wanted =
            wanted(&jobs(", checkpoint: {dir: mine, grace: 300s}"), &types, &Cache::default(), false);
        let probe =
            wanted[0].probe(25, Seconds(60.0), Path::new("/state/runs/r/checkpoints")).expect("a job");
        assert_eq!(probe.name.as_str(), "a.probe-t4-25");
        assert_eq!((probe.epochs, probe.global_batch, probe.max_gpus, probe.retries), (1, 25, Some(1), 0));
        let checkpoint = &probe.launch.checkpoint;
        assert_eq!(checkpoint.dir.as_deref(), Some("/state/runs/r/checkpoints/a.probe-t4-25"));
        assert_eq!((checkpoint.grace, probe.launch.time), (Some(Seconds(20.0)), Some(Seconds(60.0))));
    }

    #[test]
    fn a_probe_of_replicas_has_one() {
        let types = ["t4", "v100", "a100"].map(|name| GpuType::new(name).expect("a type"));
        let found = wanted(&jobs(", replica: {gpus: {t4: 4, v100: 2}}"), &types, &Cache::default(), true);
        let sizes: Vec<(&str, u32)> = found
            .iter()
            .filter(|missing_speed| missing_speed.job.name.as_str() == "a")
            .map(|missing_speed| (missing_speed.gpu_type.as_str(), missing_speed.key().gpus))
            .collect();
        assert_eq!(sizes, [("t4", 4), ("v100", 2)]);
        let probe = found[0].probe(100, Seconds(60.0), Path::new("/state")).expect("a job");
        assert_eq!(probe.replica, Some(Replica::of(4)));
        assert_eq!((probe.min_replicas, probe.max_replicas, probe.max_gpus), (1, Some(1), None));
    }
}
