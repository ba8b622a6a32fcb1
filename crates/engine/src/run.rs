//! Runs: jobs that are submitted together, with the stored form of their plan.

use crate::{GpuRequest, Gpus, Piece, SubmissionKey, SubmissionRecord, named_ranks};
use hsched_model::{Job, JobDefaults, PlacedRank, QueueChoice, Seconds, Time, Walltime};
use hsched_plan::plan_file::PlanFile;
use hsched_plan::{CheckedPlan, Placement, Problem};

/// Jobs submitted together by one plan.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// Unique id.
    pub id: String,
    /// The jobs of the plan with their remaining epochs.
    pub jobs: Vec<Job>,
    /// The finished epochs of each job.
    pub epochs_done: Vec<u64>,
    /// The problem that the plan solves; placements index its GPUs.
    pub problem: Problem,
    /// The plan in its stored form, with the node data that scripts need.
    pub file: PlanFile,
    /// The submissions, in this order.
    pub submissions: Vec<PlannedSubmission>,
}

/// A submission of a run before it is sent to Slurm.
#[derive(Clone, Debug, PartialEq)]
pub struct PlannedSubmission {
    /// The job's index in the run.
    pub job: usize,
    /// The copy's number among the job's copies, from 0.
    pub copy: u32,
    /// Whether the submission races with the job's other submissions of the run: the first to start trains,
    /// and the others end.
    pub race: bool,
    /// The run whose race the submission joins, if that is another run.
    pub joins: Option<String>,
    /// The piece that the submission continues.
    pub follows: Option<Piece>,
    pub placement: Placement,
    /// The submission's queue choice, if it was chosen among several requests of its job.
    pub queue_choice: Option<QueueChoice>,
    /// Other ranks that the submission's script can use, in case its request is changed while it is pending.
    pub spares: Vec<Vec<PlacedRank>>,
    /// The shortest time limit that its job's history requires
    /// ([`JobState::least_limit`](crate::JobState::least_limit)).
    pub least_limit: Option<Seconds>,
}

impl PlannedSubmission {
    /// Returns a submission that races with no other.
    pub fn new(job: usize, copy: u32, placement: Placement) -> Self {
        Self {
            job,
            copy,
            race: false,
            joins: None,
            follows: None,
            placement,
            queue_choice: None,
            spares: Vec::new(),
            least_limit: None,
        }
    }

    /// Returns the submissions of a checked plan for these jobs: those that it gives GPUs, each once.
    pub fn of<'a>(
        plan: &'a CheckedPlan,
        jobs: impl IntoIterator<Item = usize> + 'a,
    ) -> impl Iterator<Item = Self> + 'a {
        let intent = |job: usize| {
            let placement = plan.verdicts().get(job)?.placement()?.clone();
            Some(Self::new(job, 0, placement))
        };
        jobs.into_iter().filter_map(intent)
    }
}

impl Run {
    /// Returns the unique key of a submission of this run.
    pub fn key(&self, intent: &PlannedSubmission) -> SubmissionKey {
        let job = self.jobs[intent.job].name.clone();
        SubmissionKey { job, run: self.id.clone(), copy: intent.copy }
    }

    /// Returns the walltime of a submission, from its queue choice or else from its job's partition.
    pub fn walltime(&self, intent: &PlannedSubmission, defaults: &JobDefaults) -> Walltime {
        let job = &self.jobs[intent.job];
        let usual = || {
            let basis = intent.placement.basis(&self.problem.jobs[intent.job]);
            QueueChoice::usual(self.file.time_limit(job, defaults), basis)
        };
        let queue_choice = intent.queue_choice.clone().unwrap_or_else(usual);
        let queue_choice =
            QueueChoice { at_least: queue_choice.at_least.or(intent.least_limit), ..queue_choice };
        queue_choice.walltime(job, intent.placement.jct(job.epochs), defaults)
    }

    /// Returns the GPUs on which a submission is planned.
    pub fn gpus(&self, intent: &PlannedSubmission) -> Gpus {
        Gpus::of(&named_ranks(&self.problem, &intent.placement))
    }

    /// Returns the record of a submission that is about to be made.
    pub fn attempt(&self, intent: &PlannedSubmission, meant: Time) -> SubmissionRecord {
        let PlannedSubmission {
            job,
            copy,
            race,
            ref joins,
            ref follows,
            ref placement,
            ref queue_choice,
            ref spares,
            ..
        } = *intent;
        SubmissionRecord {
            copy,
            race,
            joins: joins.clone(),
            follows: follows.clone(),
            queue_choice: queue_choice.clone(),
            tables: spares.iter().filter_map(|ranks| GpuRequest::of(ranks)).collect(),
            ..SubmissionRecord::planned(&self.id, &self.problem, job, placement, self.epochs_done[job], meant)
        }
    }
}
