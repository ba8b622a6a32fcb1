//! The problem that a policy decides on, built from the state and the cluster: open jobs, and the GPUs that
//! they have or may get.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::{
    AfterStop, BackendKind, JobState, KeptOff, Phase, Rules, Stage, State, StopProgress, Submission,
    SubmissionRecord,
};
use hsched_model::number::to_f64;
use hsched_model::{
    Access, Cluster, GoalMode, GpuType, HeldResources, Holdings, Job, JobName, NodeName, Seconds, Time,
};
use hsched_plan::throughput::ThroughputMatrix;
use hsched_plan::{
    ClusterView, Eligibility, HeldPlacement, JobStartEstimates, MOST_GPUS, Objective, Problem, Progress,
    Slot, WaitForecast, epoch_as_shared,
};

/// A policy's problem, and how it maps to the state.
pub(super) struct View {
    pub problem: Problem,
    /// The jobs, in the problem's order.
    pub names: Vec<JobName>,
    /// The jobs' indices in the state.
    places: Vec<usize>,
    /// The nodes that each job must avoid.
    avoided: Vec<BTreeSet<NodeName>>,
}

/// Inputs of a problem besides the jobs.
#[derive(Clone, Copy)]
pub(super) struct ProblemContext<'a> {
    pub objective: Objective,
    pub seed: u64,
    pub forecasts: &'a [WaitForecast],
    pub start_estimates: Option<&'a Vec<JobStartEstimates>>,
    /// Whether jobs can queue for GPUs in use.
    pub queues: bool,
}

impl View {
    /// Returns the view for a decision; `None` if all jobs have ended.
    pub(super) fn new(
        state: &State,
        at: Time,
        cluster: &Cluster,
        rules: &Rules,
        aims: ProblemContext<'_>,
    ) -> Option<Self> {
        let is_open = |place: &usize| !state.jobs[*place].phase.is_over();
        let places: Vec<usize> = (0..state.jobs.len()).filter(is_open).collect();
        let open: Vec<&JobState> = places.iter().map(|&place| &state.jobs[place]).collect();
        let kept_off = KeptOff::new(state, cluster, &rules.defaults, at);
        let planned: Vec<Arc<Job>> = open.iter().map(|tracked| kept_off.planned(tracked)).collect();
        let jobs: Vec<&Job> = planned.iter().map(AsRef::as_ref).collect();
        let access = Access::new(cluster, jobs.iter().copied(), &rules.defaults);
        let types = Problem::types_of(cluster);
        let mut speeds = ThroughputMatrix::new(&jobs, &types, &state.cache, rules.defaults.estimate);
        for (number, tracked) in open.iter().enumerate() {
            tracked.avoids.iter().for_each(|gpu_type| speeds.leave_out(number, gpu_type));
        }
        let held = held(&open, &access);
        let cluster_view =
            ClusterView { cluster, access: &access, held: &held, rates: (rules.network, rules.intra_node) };
        let mut problem = Problem::live(cluster_view, &jobs, &speeds).ok()?;
        problem.limit(&rules.capacity);
        (problem.objective, problem.seed, problem.now) = (aims.objective, aims.seed, at);
        problem.forecasts = aims.forecasts.to_vec();
        problem.start_estimates = aims.start_estimates.cloned();
        for (job, model) in jobs.iter().zip(&mut problem.jobs).filter(|_| aims.queues) {
            // Waiting for half of a cluster requires the user's consent.
            let sizes =
                (0..model.types.len()).filter(|&ty| model.types[ty].is_some()).map(|ty| model.size(ty));
            let size = sizes.min().unwrap_or(1);
            let most = job.most_workers().unwrap_or(MOST_GPUS / size).max(model.min_gpus);
            model.max_gpus = model.max_gpus.min(most);
        }
        for model in problem.jobs.iter_mut().filter(|_| rules.most_gpus.is_some()) {
            model.max_gpus = model.max_gpus.min(rules.most_gpus.unwrap_or(u32::MAX).max(model.min_gpus));
        }
        let mut nowhere = Nowhere::new(cluster, rules);
        for (number, tracked) in open.iter().enumerate() {
            let is_nowhere = nowhere.why(&tracked.job).is_some();
            problem.jobs[number].epochs = tracked.epochs_left().max(1);
            let job_progress = progress(tracked, number, &problem, at, rules, is_nowhere);
            problem.jobs[number].progress = job_progress;
            problem.jobs[number].aims.deadline = tracked.deadline();
            if let Some(losses) = losses(tracked) {
                Arc::make_mut(&mut problem.jobs[number].rounds).losses = losses;
            }
        }
        let names = open.iter().map(|tracked| tracked.job.name.clone()).collect();
        let avoided = jobs.iter().map(|job| job.avoided.clone()).collect();
        Some(Self { problem, names, places, avoided })
    }

    /// Returns a job of the problem from the state on which the view is based.
    pub(super) fn tracked<'s>(&self, state: &'s State, job: usize) -> &'s JobState {
        &state.jobs[self.places[job]]
    }

    /// Returns a job of the problem from the state, mutably.
    pub(super) fn tracked_mut<'s>(&self, state: &'s mut State, job: usize) -> &'s mut JobState {
        &mut state.jobs[self.places[job]]
    }

    /// Returns a job with its remaining epochs and the nodes that it must avoid now.
    pub(super) fn rest(&self, state: &State, job: usize) -> Job {
        Job { avoided: self.avoided[job].clone(), ..self.tracked(state, job).rest() }
    }
}

impl JobState {
    /// Returns the submissions that policies see. A queued next piece is left out until its predecessor ends,
    /// because the engine handles it; in the job's list of submissions, it comes after its predecessor.
    fn shown(&self) -> impl Iterator<Item = &Submission> {
        self.phase.submissions().iter().filter(|submission| !self.is_next(&submission.attempt))
    }
}

/// Returns the losses of the finished epochs, if the job reports its loss after each.
fn losses(tracked: &JobState) -> Option<Vec<f64>> {
    let falls = tracked.job.target.as_ref().is_some_and(|target| target.mode == GoalMode::Min);
    let is_whole = tracked.curve.len() as u64 == tracked.epochs_done && tracked.epochs_done > 0;
    (falls && is_whole).then(|| tracked.curve.iter().map(|report| report.value).collect())
}

/// Returns the resources held by running submissions. Submissions that are pending or being stopped hold
/// nothing here, but their nodes are listed.
fn held(open: &[&JobState], access: &Access) -> Holdings {
    let mut held = Holdings::new();
    for (number, tracked) in open.iter().enumerate() {
        let needs = access.needs(number);
        for submission in tracked.shown() {
            for (node, gpu_type, count) in submission.attempt.gpus.iter() {
                let on_node: &mut HeldResources = held.entry(node.clone()).or_default();
                if submission.is_running() {
                    *on_node.gpus.entry(gpu_type.clone()).or_default() += count;
                    on_node.cpus += u64::from(count) * needs.cpus;
                    on_node.memory += u64::from(count) * needs.memory;
                }
            }
        }
    }
    held
}

fn progress(
    tracked: &JobState,
    number: usize,
    problem: &Problem,
    at: Time,
    rules: &Rules,
    is_nowhere: bool,
) -> Progress {
    let hold = |submission: &Submission| {
        let slots = problem.slots(submission.attempt.gpus.iter());
        let stage = stage(tracked, submission, number, problem, &slots, at);
        HeldPlacement { slots, since: submission.attempt.meant, epoch: submission.attempt.epoch.0, stage }
    };
    // The holds are in the order of the submissions, because the plan executor maps one to the other.
    let holds: Vec<HeldPlacement> = tracked.shown().map(hold).collect();
    let under_way = |hold: &HeldPlacement| match hold.stage {
        hsched_plan::HoldStage::Running { epoch, under_way, .. } if epoch > 0.0 => under_way / epoch,
        _ => 0.0,
    };
    let under_way = holds.iter().map(under_way).fold(0.0, f64::max);
    let so_far = progress_so_far(tracked, at);
    Progress {
        arrival: tracked.added,
        work_left: so_far.work_left - under_way,
        waits: match () {
            () if is_nowhere => Eligibility::Never,
            () if tracked.awaits.is_some() => Eligibility::Never,
            () if is_ready(tracked, at) => Eligibility::Ready,
            () => Eligibility::Later,
        },
        holds,
        restart_cost: restart_cost(tracked, rules),
        saves: tracked.job.launch.checkpoint.is_given(),
        ..so_far
    }
}

/// Returns the cost of stopping a job and starting it on other GPUs. Without a queue, this is the measured
/// cost of its starts, once one is known.
fn restart_cost(tracked: &JobState, rules: &Rules) -> Seconds {
    let measured = tracked.startup.filter(|_| rules.backend == BackendKind::Devices);
    measured.or(tracked.job.launch.checkpoint.restart_cost).unwrap_or(rules.restart_cost)
}

/// Returns a job's progress, without its present placement.
fn progress_so_far(tracked: &JobState, at: Time) -> Progress {
    let past = tracked.past.iter().map(|past| (&past.attempt, past.ended));
    let attempts = past.chain(tracked.phase.submissions().iter().map(|submission| (&submission.attempt, at)));
    let started: Vec<(&SubmissionRecord, Time, Time)> =
        attempts.filter_map(|(attempt, until)| Some((attempt, attempt.started?, until))).collect();
    let held = |(attempt, since, until): &(&SubmissionRecord, Time, Time)| {
        let gpus: u32 = attempt.gpus.iter().map(|(_, _, count)| count).sum();
        f64::from(gpus) * until.since(*since).0
    };
    let (work, work_left) = (to_f64(tracked.job.epochs), to_f64(tracked.epochs_left()));
    Progress {
        started: started.iter().map(|(_, since, _)| *since).min_by(|a, b| a.0.total_cmp(&b.0)),
        epochs_left: tracked.epochs_left(),
        work,
        work_left,
        attained: started.iter().map(held).sum(),
        as_of: at,
        moves: u32::try_from(started.len().saturating_sub(1)).unwrap_or(u32::MAX),
        ..Progress::default()
    }
}

/// Returns a submission's stage, as policies see it.
fn stage(
    tracked: &JobState,
    submission: &Submission,
    number: usize,
    problem: &Problem,
    slots: &[Slot],
    at: Time,
) -> hsched_plan::HoldStage {
    let Submission { attempt, stage } = submission;
    match stage {
        Stage::Meant => hsched_plan::HoldStage::Submitting,
        Stage::Pending if attempt.job_id.is_none() => hsched_plan::HoldStage::Submitting,
        Stage::Pending => hsched_plan::HoldStage::Queued,
        Stage::Running => {
            let epoch = present_epoch(problem, number, attempt, slots).unwrap_or(attempt.epoch.0);
            let begun = tracked.epoch_at.into_iter().chain(attempt.started);
            let begun = begun.map(|time| time.0).max_by(f64::total_cmp);
            let under_way = begun.map_or(0.0, |begun| at.since(Time(begun)).0.min(epoch));
            let busy_until = attempt.started.unwrap_or(at);
            hsched_plan::HoldStage::Running {
                epoch,
                under_way,
                movable: is_movable(tracked, submission),
                busy_until,
            }
        }
        Stage::Stopping { .. } => hsched_plan::HoldStage::Leaving {
            started: attempt.started.is_some(),
            gives_back: gives_back(submission, at),
        },
    }
}

/// Returns the time of an epoch with the ranks' present shares, or with those that they are about to adopt.
fn present_epoch(problem: &Problem, job: usize, attempt: &SubmissionRecord, slots: &[Slot]) -> Option<f64> {
    let model = &problem.jobs[job];
    let number = |name: &GpuType| {
        let known = |gpu_type: &usize| problem.gpu_types[*gpu_type] == *name;
        let mut usable = (0..problem.gpu_types.len()).filter(known);
        usable.clone().find(|&gpu_type| model.types[gpu_type].is_some()).or_else(|| usable.next())
    };
    let shares = attempt.shares_to_come().map(|(gpu_type, batch)| Some((number(gpu_type)?, batch)));
    let time = epoch_as_shared(problem, model, &shares.collect::<Option<Vec<_>>>()?, slots)?;
    Some(time.total())
}

/// Jobs that can run nowhere because they need more GPUs than any job gets, or because their partition has no
/// node, which is determined once for each partition.
pub(super) struct Nowhere<'a> {
    cluster: &'a Cluster,
    rules: &'a Rules,
    by_partition: BTreeMap<String, Option<String>>,
}

impl<'a> Nowhere<'a> {
    pub(super) fn new(cluster: &'a Cluster, rules: &'a Rules) -> Self {
        Self { cluster, rules, by_partition: BTreeMap::new() }
    }

    /// Returns why a job can run nowhere; `None` if it can run.
    pub(super) fn why(&mut self, job: &Job) -> Option<String> {
        let (least, most) = (job.least_gpus(), self.rules.most_gpus.unwrap_or(u32::MAX));
        if least > most {
            return Some(format!("it needs {least} GPUs, and a slot is a fraction of one"));
        }
        let partition = self.cluster.partition_of(job, &self.rules.defaults)?;
        if !self.by_partition.contains_key(partition) {
            let why = self.cluster.unknown_partition(partition).map(|(unknown, known)| {
                let known = known.into_iter().collect::<Vec<&str>>().join(", ");
                format!("no node of this cluster is in partition {unknown:?}; partitions: {known}")
            });
            self.by_partition.insert(partition.to_owned(), why);
        }
        self.by_partition.get(partition)?.clone()
    }
}

/// Returns whether a waiting job may get GPUs now.
pub(super) fn is_ready(tracked: &JobState, at: Time) -> bool {
    let is_due = |not_before: Option<Time>| not_before.is_none_or(|moment| moment <= at);
    tracked.stray.is_none()
        && tracked.awaits.is_none()
        && matches!(&tracked.phase, Phase::Waiting { not_before, .. } if is_due(*not_before))
}

/// Returns whether a submission may be stopped to move the job: it runs, has finished an epoch, so its speeds
/// there are measured, and the job has epochs left.
pub(super) fn is_movable(tracked: &JobState, submission: &Submission) -> bool {
    let has_trained = tracked.epochs_done > submission.attempt.epochs_before;
    submission.is_running() && submission.attempt.job_id.is_some() && has_trained && tracked.epochs_left() > 0
}

/// Returns whether a submission that is stopped for a move is about to release its GPUs; one that Slurm fails
/// to end does not count.
pub(super) fn gives_back(submission: &Submission, at: Time) -> bool {
    match submission.stage {
        Stage::Stopping { then: AfterStop::GoOn, request, since } => {
            request != StopProgress::Killed || at.since(since) < Rules::STUCK
        }
        _ => false,
    }
}
