//! Runs: jobs that are submitted together, with the plan as it is written to disk.

use crate::{Attempt, Gpus, Kind, Piece, SubmissionKey, named_ranks};
use hsched_model::{Job, JobDefaults, PlacedRank, Seconds, Terms, Time, Walltime};
use hsched_plan::plan_file::PlanFile;
use hsched_plan::{CheckedPlan, Placement, Problem};

/// Jobs that are submitted together, by one plan.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// Unique.
    pub id: String,
    /// The jobs of the plan as they are still to be trained.
    pub jobs: Vec<Job>,
    /// The epochs of each that are done, by job.
    pub epochs_done: Vec<u64>,
    /// What the plan was made for: names and speeds of the GPUs that placements number.
    pub problem: Problem,
    /// The plan as it is written down; what scripts need to know of the nodes stands there.
    pub file: PlanFile,
    /// What is submitted, in this order.
    pub submissions: Vec<Intent>,
}

/// A submission of a run as it is meant.
#[derive(Clone, Debug, PartialEq)]
pub struct Intent {
    /// The job's place in the run.
    pub job: usize,
    /// Its number among the job's copies; 0 where there is one.
    pub copy: u32,
    /// Whether it races with the job's other submissions of the run: the first to start trains, and the others leave.
    pub race: bool,
    /// The run whose race it joins, where that is not its own.
    pub joins: Option<String>,
    /// The piece after which it goes on.
    pub follows: Option<Piece>,
    pub placement: Placement,
    /// What it asks of the queue, where it was chosen among several requests of its job.
    pub terms: Option<Terms>,
    /// Other ranks with which its script can do the job, should its request be changed while it waits.
    pub spares: Vec<Vec<PlacedRank>>,
    /// The least time limit that its job's past calls for ([`Tracked::least_limit`](crate::Tracked::least_limit)).
    pub least_limit: Option<Seconds>,
}

impl Intent {
    /// Returns a submission that races with no other.
    #[must_use]
    pub fn new(job: usize, copy: u32, placement: Placement) -> Self {
        Self {
            job,
            copy,
            race: false,
            joins: None,
            follows: None,
            placement,
            terms: None,
            spares: Vec::new(),
            least_limit: None,
        }
    }

    /// Returns what a checked plan submits of these jobs: those that it gives GPUs, each once.
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
    /// Returns what tells a submission of this run from every other one.
    #[must_use]
    pub fn key(&self, intent: &Intent) -> SubmissionKey {
        let job = self.jobs[intent.job].name.clone();
        SubmissionKey { job, run: self.id.clone(), copy: intent.copy }
    }

    /// Returns the walltime that a submission asks for: by its terms, or else by those of its job's partition.
    #[must_use]
    pub fn walltime(&self, intent: &Intent, defaults: &JobDefaults) -> Walltime {
        let job = &self.jobs[intent.job];
        let usual = || {
            let basis = intent.placement.basis(&self.problem.jobs[intent.job]);
            Terms::usual(self.file.time_limit(job, defaults), basis)
        };
        let terms = intent.terms.clone().unwrap_or_else(usual);
        let terms = Terms { at_least: terms.at_least.or(intent.least_limit), ..terms };
        terms.walltime(job, intent.placement.jct(job.epochs), defaults)
    }

    /// Returns the GPUs on which a submission is planned.
    #[must_use]
    pub fn gpus(&self, intent: &Intent) -> Gpus {
        Gpus::of(&named_ranks(&self.problem, &intent.placement))
    }

    /// Returns a submission as what is known of it when it is about to be made.
    #[must_use]
    pub fn attempt(&self, intent: &Intent, meant: Time) -> Attempt {
        let Intent { job, copy, race, ref joins, ref follows, ref placement, ref terms, ref spares, .. } =
            *intent;
        let planned = (&self.problem, job, placement);
        Attempt {
            copy,
            race,
            joins: joins.clone(),
            follows: follows.clone(),
            terms: terms.clone(),
            tables: spares.iter().filter_map(|ranks| Kind::of(ranks)).collect(),
            ..Attempt::planned(&self.id, planned, self.epochs_done[job], meant)
        }
    }
}
