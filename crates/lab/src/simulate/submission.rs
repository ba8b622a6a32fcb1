//! A job in the simulated queue, from its submission to its end.

use hsched_model::number::{to_f64, to_u64};
use std::collections::BTreeMap;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use crate::simulate::fit::FitRequest;
use crate::simulate::site::SimulatedSite;
use crate::simulate::training::{EpochSteps, RankPace, SimulatedTraining};
use hsched_engine::{End, EpochReport, Gpus, QueueState, RankReport, Sighting, SubmissionKey};
use hsched_model::{
    Access, Cluster, Estimates, GpuType, Job, JobId, OfferedNode, PlacedRank, RankNeeds, Seconds, Time,
};
use hsched_plan::throughput::{Cache, ThroughputMatrix};
use hsched_plan::{Problem, Slot, WorkerNode, epoch_as_shared};

/// A submitted job.
#[derive(Clone, Debug)]
pub(super) struct SimulatedSubmission {
    pub id: JobId,
    pub of: SubmissionKey,
    /// The job with its remaining epochs.
    pub job: Job,
    pub epochs_done: u64,
    /// The submission's number among those of the job, from 1.
    pub number: u32,
    pub submitted: Time,
    pub ranks: Vec<PlacedRank>,
    /// The submission that this one continues.
    pub follows: Option<JobId>,
    pub request: FitRequest,
    pub stage: SimulatedStage,
    /// The reports of the job's ranks so far.
    pub reports: Vec<EpochReport>,
    pub noise: Noise,
}

/// The stage of a submission.
#[derive(Clone, Debug)]
pub(super) enum SimulatedStage {
    Pending,
    Running(Box<SimulatedRun>),
    Ended { end: End, since: Option<Time>, at: Time },
}

/// A job on its GPUs.
#[derive(Clone, Debug)]
pub(super) struct SimulatedRun {
    pub since: Time,
    pub gpus: Gpus,
    pub training: SimulatedTraining,
    /// Times of the signal and of the end at the time limit.
    pub limit: Option<(Time, Time)>,
    /// How the ranks ended, and the time at which Slurm ends the job.
    pub leaving: Option<(End, Time)>,
    /// Whether the job waits for its previous piece to end.
    pub waits: bool,
    /// Whether the job hangs because some of its ranks are on a dead node.
    pub hangs: bool,
}

/// Random variation of computing times.
#[derive(Clone, Debug)]
pub(super) struct Noise {
    random: Pcg64Mcg,
    most: f64,
}

/// Progress that a job has saved: the epoch in which it resumes, and the last saved step of this epoch.
#[derive(Clone, Copy, Debug)]
pub(super) struct SimulatedCheckpoint {
    pub epoch: u64,
    pub step: u64,
    /// Samples per step; a job with another batch cannot use the checkpoint.
    pub batch: u64,
}

impl Noise {
    /// Returns the noise of a submission.
    pub(super) fn new(site: &SimulatedSite, id: JobId) -> Self {
        Self { random: Pcg64Mcg::seed_from_u64(site.seed ^ (u64::from(id.0) << 32)), most: site.noise }
    }

    /// Draws the factor of a computing time.
    fn factor(&mut self) -> f64 {
        1.0 + self.most * (2.0 * self.random.random::<f64>() - 1.0)
    }
}

impl SimulatedSubmission {
    /// Starts the submission on some GPUs; a job without a speed on one of them fails right after its setup.
    pub(super) fn start(
        &mut self,
        site: &SimulatedSite,
        now: Time,
        gpus: Gpus,
        checkpoint: Option<SimulatedCheckpoint>,
    ) {
        let steps = EpochSteps { samples: self.job.samples_per_epoch, batch: self.job.global_batch };
        let epoch = self.epochs_done + 1;
        let fits =
            |checkpoint: &SimulatedCheckpoint| checkpoint.epoch == epoch && checkpoint.batch == steps.batch;
        let pace = self.pace(site, &gpus);
        let failure = pace.is_none().then_some((epoch, End::Failed { exit: 1, signal: 0 }));
        let training = SimulatedTraining {
            pace: pace.unwrap_or(RankPace { compute: Vec::new(), epoch: Seconds(0.0) }),
            epoch,
            last: self.epochs_done + self.job.epochs,
            first_step: checkpoint.filter(fits).map_or(0, |checkpoint| checkpoint.step),
            begun: now.after(site.delays.setup),
            steps,
            stop_after: None,
            failure,
        };
        let walltime =
            self.job.launch.time.into_iter().chain(site.walltime).min_by(|a, b| a.0.total_cmp(&b.0));
        let grace = self.job.launch.checkpoint.grace.unwrap_or(site.grace);
        let limit = walltime.map(|walltime| {
            let warned = (walltime.0 - grace.0).max(walltime.0 / 2.0);
            (now.after(Seconds(warned)), now.after(walltime))
        });
        let running =
            SimulatedRun { since: now, gpus, training, limit, leaving: None, waits: false, hangs: false };
        self.stage = SimulatedStage::Running(Box::new(running));
    }

    /// Returns the pace of the ranks on these GPUs by the cost model with the true speeds; `None` if a speed
    /// is missing.
    pub(super) fn pace(&mut self, site: &SimulatedSite, gpus: &Gpus) -> Option<RankPace> {
        let problem = self.problem(site, gpus)?;
        let model = problem.jobs.first()?;
        let number = |name: &GpuType| problem.gpu_types.iter().position(|gpu_type| gpu_type == name);
        let shares: Vec<(usize, u64)> = self
            .ranks
            .iter()
            .map(|rank| Some((number(&rank.gpu_type)?, rank.batch)))
            .collect::<Option<_>>()?;
        let slots: Vec<Slot> = slots(&problem);
        let comm = epoch_as_shared(&problem, model, &shares, &slots)?.comm;
        let steps = EpochSteps { samples: self.job.samples_per_epoch, batch: self.job.global_batch };
        let steps = to_f64(steps.samples) / to_f64(steps.batch);
        let compute: Vec<Seconds> = shares
            .iter()
            .zip(&self.ranks)
            .map(|(&(gpu_type, batch), rank)| {
                let type_model = model.types[gpu_type]?;
                // A rank runs on its planned node if the job got that node; else the rank counts as on the
                // job's first node.
                let node =
                    Some(&rank.node).filter(|node| gpus.0.contains_key(*node)).or(gpus.0.keys().next());
                let slowness = node.and_then(|node| site.slow.get(node)).copied().unwrap_or(1.0);
                let step = type_model.speed.step(batch, type_model.max_batch) * slowness;
                Some(Seconds(steps * step * self.noise.factor()))
            })
            .collect::<Option<_>>()?;
        let slowest = compute.iter().map(|entry| entry.0).fold(0.0, f64::max);
        Some(RankPace { compute, epoch: Seconds(slowest + comm) })
    }

    /// Returns the problem of this job alone on these GPUs with the true speeds.
    fn problem(&self, site: &SimulatedSite, gpus: &Gpus) -> Option<Problem> {
        let throughput = site.speeds.get(&self.job.model)?.clone();
        let job = [Job { throughput, ..self.job.clone() }];
        let node = |(name, counts): (&_, &BTreeMap<GpuType, u32>)| {
            let gpus = counts.iter().map(|(gpu_type, &count)| (gpu_type.clone(), count)).collect();
            Some(OfferedNode {
                name: Clone::clone(name),
                gpus,
                intra_node: site.cluster.node(name)?.intra_node,
            })
        };
        let nodes: Vec<OfferedNode> = gpus.0.iter().filter_map(node).collect();
        let types = Problem::types_of(&site.cluster);
        let speeds = ThroughputMatrix::new(&job, &types, &Cache::default(), Estimates::Off);
        let access = Access::everywhere(RankNeeds { cpus: 1, memory: 0 });
        let (network, intra_node) = (site.network, site.intra_node);
        Problem::on(&site.cluster, &access, &nodes, &job, &speeds, network, intra_node).ok()
    }

    /// Records the ranks' reports of the epoch that has just ended.
    pub(super) fn report(&mut self, now: Time) {
        let SimulatedStage::Running(running) = &self.stage else { return };
        let training = &running.training;
        let part = training.part();
        let rank = |(number, (rank, compute)): (usize, (&PlacedRank, &Seconds))| {
            let samples = to_u64((to_f64(rank.samples) * part).round());
            let compute = Seconds(compute.0 * part);
            RankReport {
                rank: number,
                node: None,
                samples,
                compute,
                step: None,
                probes: Vec::new(),
                share: None,
            }
        };
        let report = EpochReport {
            epoch: training.epoch,
            at: now,
            length: Some(now.since(training.begun)),
            ranks: self.ranks.iter().zip(&training.pace.compute).enumerate().map(rank).collect(),
            metrics: self.metric(training.epoch).into_iter().collect(),
        };
        self.reports.push(report);
    }

    /// Returns the target's metric that a job with losses reports.
    fn metric(&self, epoch: u64) -> Option<(String, f64)> {
        let place = usize::try_from(epoch.checked_sub(1)?).ok()?;
        Some((self.job.target.as_ref()?.metric.clone(), *self.job.losses.get(place)?))
    }

    /// Returns the submission as the queue shows it.
    pub(super) fn sighting(&self) -> Sighting {
        let queue_state = match &self.stage {
            SimulatedStage::Pending => QueueState::Pending,
            SimulatedStage::Running(running) => {
                QueueState::Running { since: Some(running.since), gpus: Some(running.gpus.clone()) }
            }
            SimulatedStage::Ended { end, since, at } => {
                QueueState::Ended { end: end.clone(), at: Some(*at), since: *since }
            }
        };
        let submit_time = Some(format!("{:.0}", self.submitted.0));
        Sighting { of: self.of.clone(), job_id: self.id, submit_time, state: queue_state, reason: None }
    }

    /// Ends the submission.
    pub(super) fn end(&mut self, end: End, at: Time) {
        let since = self.running().map(|running| running.since);
        self.stage = SimulatedStage::Ended { end, since, at };
    }

    /// Returns the running job, if it runs.
    pub(super) fn running(&self) -> Option<&SimulatedRun> {
        match &self.stage {
            SimulatedStage::Running(running) => Some(running),
            SimulatedStage::Pending | SimulatedStage::Ended { .. } => None,
        }
    }

    /// Returns the running job for modification, if it runs.
    pub(super) fn running_mut(&mut self) -> Option<&mut SimulatedRun> {
        match &mut self.stage {
            SimulatedStage::Running(running) => Some(running),
            SimulatedStage::Pending | SimulatedStage::Ended { .. } => None,
        }
    }
}

impl SimulatedRun {
    /// Returns the time of the next event; `None` if the job waits or hangs and has no time limit.
    pub(super) fn next(&self) -> Option<Time> {
        if let Some((_, at)) = &self.leaving {
            return Some(*at);
        }
        let is_asked = self.training.stop_after.is_some();
        let limit = self.limit.map(|(warned, over)| if is_asked { over } else { warned });
        let doing = (!self.hangs && !self.waits).then(|| self.training.next().0);
        doing.into_iter().chain(limit).min_by(|a, b| a.0.total_cmp(&b.0))
    }
}

/// Returns all GPUs of a problem.
fn slots(problem: &Problem) -> Vec<Slot> {
    let of_node = |(node, worker_node): (usize, &WorkerNode)| {
        let slot = move |(gpu_type, &count): (usize, &u32)| Slot { node, gpu_type, count };
        worker_node.gpus.iter().enumerate().map(slot).filter(|slot| slot.count > 0).collect::<Vec<_>>()
    };
    problem.nodes.iter().enumerate().flat_map(of_node).collect()
}

/// Returns the cluster with the GPUs of jobs marked as in use.
pub(super) fn with_use<'a>(cluster: &Cluster, held: impl Iterator<Item = &'a Gpus>) -> Cluster {
    let mut seen = cluster.clone();
    for gpus in held {
        for (name, gpu_type, count) in gpus.iter() {
            let node = seen.nodes.iter_mut().find(|node| node.name == *name);
            let stock = node.and_then(|node| node.gpus.iter_mut().find(|stock| stock.gpu_type == *gpu_type));
            if let Some(stock) = stock {
                stock.used += count;
            }
        }
    }
    seen
}
