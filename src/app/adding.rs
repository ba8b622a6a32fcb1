//! Adds jobs to the state for `watch` or `run` to place: the effect of each addition, and which process
//! carries it out.

use serde_json::{Value, json};

use crate::app::after::refuse_unknown;
use crate::app::context::Context;
use crate::app::copies::refuse_others;
use crate::app::deferred_commands;
use crate::app::session::{JobsLook, Session};
use crate::app::slurm;
use crate::app::state;
use crate::app::submission::in_queue;
use hsched_engine::store::{DeferredChange, StateDir};
use hsched_engine::{BackendKind, Event, JobState, Outcome, Phase, ResumePoint, State, TaggedJob, apply};
use hsched_model::{Job, JobName};
use hsched_ui::{Exit, Failure};

/// Options for adding jobs.
pub(crate) struct AdditionOptions<'a> {
    pub context: &'a Context,
    /// Additional sbatch options for every submission.
    pub sbatch: &'a [String],
    pub restart: bool,
    pub dry_run: bool,
    /// The policy with which `watch` should plan, as on the command line.
    pub planned_by: Option<String>,
    /// Whether the jobs wait for `watch` or `run` if Slurm does not answer or does not exist.
    pub is_patient: bool,
    /// Additional check, with the state known at the addition; an error refuses the jobs.
    pub check: fn(&[Job], &State) -> Result<(), Failure>,
}

/// The effect of adding a job, and where the job begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Addition {
    pub job: JobName,
    before: Before,
    beginning: ResumePoint,
}

/// The state's entry with the name of an added job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Before {
    Nothing,
    Waits,
    Ended {
        outcome: &'static str,
    },
    /// The same run of a sweep, which stays unchanged.
    Kept {
        phase: &'static str,
    },
}

/// The process that adds the jobs: this command or, if the addition is deferred, `watch` or `run`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum By {
    Add,
    /// This command; `hsched run` then continues with the jobs.
    AddForRun,
    Follower(BackendKind),
}

impl AdditionOptions<'_> {
    /// Adds the jobs to the state, all or none, or leaves a deferred command; returns the effect on each job.
    ///
    /// # Errors
    /// If Slurm or `hsched run` has one of them, if a check refuses one of them (its name, its predecessors,
    /// or `check`), or if Slurm or the state cannot be used.
    pub(crate) fn add(&self, jobs: &[Job]) -> Result<(Vec<Addition>, By), Failure> {
        let context = self.context;
        let nothing = |failure: Failure| state::undone(failure, "no job was added");
        if self.dry_run && !state::root(context)?.exists() {
            // Without a state directory, no jobs are known; a dry run does not create one.
            let queue = slurm::tagged_jobs(context);
            let queue = queue.or_else(|failure| self.waits(&failure).then(Vec::new).ok_or(failure));
            let queue = queue.map_err(nothing)?;
            return Ok((self.additions(jobs, &queue, &State::default(), BackendKind::Queue)?, By::Add));
        }
        let tell = || context.note("waiting for another hsched that adds jobs to this state directory");
        let lock = (!self.dry_run).then(|| state::root(context).map(|root| StateDir::lock_add(&root, tell)));
        let _lock = lock.transpose()?.transpose().map_err(|error| nothing(state::failure(&error)))?;
        let planned_by = self.planned_by.clone();
        let wanted = DeferredChange::Add { jobs: jobs.to_vec(), restart: self.restart, planned_by };
        let Some(directory) = state::open_at_once(context).map_err(nothing)? else {
            return self.defer(jobs, wanted).map_err(nothing);
        };
        let session = Session::anywhere(context, &directory, self.sbatch, self.dry_run);
        let looked = session.and_then(|mut session| session.look().map(|seen| (session, seen)));
        let (mut session, seen) = match looked {
            Err(failure) if self.waits(&failure) => return self.defer(jobs, wanted).map_err(nothing),
            looked => looked.map_err(nothing)?,
        };
        session.leave_untold(&seen);
        let JobsLook { at, mut events, queue, .. } = seen;
        let additions = self.additions(jobs, &queue, &session.state, session.rules.backend);
        if additions.is_ok() {
            let added = events_of(&wanted, &session.state);
            for event in &added {
                apply(&mut session.state, at, event, &session.rules);
            }
            events.extend(added);
            if let Some(words) = &self.planned_by {
                session.state.planned_by = Some(words.clone());
            }
        }
        session.keep(at, &events, &[]).map_err(|error| nothing(state::failure(&error)))?;
        let by = match session.rules.backend {
            BackendKind::Devices => By::AddForRun,
            BackendKind::Queue => By::Add,
        };
        Ok((additions?, by))
    }

    /// Stores the jobs for the next lock holder.
    fn defer(&self, jobs: &[Job], wanted: DeferredChange) -> Result<(Vec<Addition>, By), Failure> {
        let (state, backend) = deferred_commands::expected_there(self.context, &state::rules(self.context))?;
        let additions = self.additions(jobs, &[], &state, backend)?;
        if !self.dry_run && additions.iter().any(|addition| !addition.is_kept()) {
            deferred_commands::leave(self.context, wanted)?;
        }
        Ok((additions, By::Follower(backend)))
    }

    fn waits(&self, failure: &Failure) -> bool {
        self.is_patient && failure.exit == Exit::SlurmUnavailable
    }

    /// Returns the effect on each job.
    fn additions(
        &self,
        jobs: &[Job],
        queue: &[TaggedJob],
        state: &State,
        backend: BackendKind,
    ) -> Result<Vec<Addition>, Failure> {
        refuse_unknown(jobs, state)?;
        refuse_others(jobs, state)?;
        (self.check)(jobs, state)?;
        let names = new_names(jobs, state, self.restart);
        match in_queue(&names, queue, state, backend) {
            None => Ok(jobs.iter().map(|job| Addition::of(job, state, self.restart)).collect()),
            Some(twice) => {
                let message = format!("{}: {}; no job was added", backend.already(), twice.jobs);
                Err(Failure::new(Exit::Failed, message).hint(format!(
                    "wait until it ends, cancel it with {}, or rename the new job",
                    twice.cancel()
                )))
            }
        }
    }
}

/// Returns the names of the jobs that would be added or replaced.
pub(crate) fn new_names<'j>(jobs: &'j [Job], state: &State, restart: bool) -> Vec<&'j JobName> {
    jobs.iter().filter(|job| restart || !is_kept(job, state)).map(|job| &job.name).collect()
}

/// Returns the events of a deferred command for a state, without runs of a sweep that stay unchanged
/// (`is_kept`), unless these are to start over.
pub(crate) fn events_of(wanted: &DeferredChange, state: &State) -> Vec<Event> {
    let is_new = |event: &Event| match event {
        Event::Added { job, restart } => *restart || !is_kept(job, state),
        _ => true,
    };
    wanted.events().into_iter().filter(is_new).collect()
}

/// Returns whether the same run of a sweep is waiting, submitted or completed in the state, with at least as
/// many epochs and, if it waits, the same launch. A sweep that gets more runs keeps these runs and repeats
/// its failed ones.
fn is_kept(job: &Job, state: &State) -> bool {
    let Some(known) = state.find(&job.name) else { return false };
    let is_same = job.variant.is_some() && known.job.variant == job.variant && job.epochs <= known.job.epochs;
    is_same
        && match &known.phase {
            Phase::Waiting { .. } => known.job.launch == job.launch,
            Phase::Submitted(_) => true,
            Phase::Ended { outcome, .. } => *outcome == Outcome::Completed,
        }
}

impl By {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Add | Self::AddForRun => "add",
            Self::Follower(backend) => deferred_commands::word(backend),
        }
    }
}

impl Addition {
    /// Returns a job's relation to the state before it is added.
    fn of(job: &Job, state: &State, restart: bool) -> Self {
        let before = match state.find(&job.name) {
            Some(known) if !restart && is_kept(job, state) => Before::Kept { phase: known.phase.word() },
            Some(JobState { phase: Phase::Ended { outcome, .. }, .. }) => {
                Before::Ended { outcome: outcome.word() }
            }
            Some(_) => Before::Waits,
            None => Before::Nothing,
        };
        Self { job: job.name.clone(), before, beginning: ResumePoint::of(job, state, restart) }
    }

    /// Returns whether the job stays unchanged.
    pub(crate) fn is_kept(&self) -> bool {
        matches!(self.before, Before::Kept { .. })
    }

    /// Returns the addition's effect as a word for JSON.
    pub(crate) fn word(&self) -> &'static str {
        match self.before {
            Before::Nothing => "added",
            Before::Waits => "replaced",
            Before::Ended { .. } => "again",
            Before::Kept { .. } => "kept",
        }
    }

    /// Returns the addition's effect as text.
    pub(crate) fn text(&self, dry_run: bool, by: By) -> String {
        let would = match by {
            _ if dry_run => "would be ",
            By::Add | By::AddForRun => "",
            By::Follower(_) => "to be ",
        };
        let added = match self.before {
            Before::Nothing => "added".to_owned(),
            Before::Waits => "added, replacing the waiting job of the same name".to_owned(),
            Before::Ended { outcome } => format!("added again (previous run: {outcome})"),
            Before::Kept { phase } => return format!("kept ({phase})"),
        };
        format!("{would}{added}{}", self.beginning.clause())
    }

    pub(crate) fn to_json(&self) -> Value {
        json!({
            "name": self.job.as_str(), "state": self.word(), "epochs_done": self.beginning.epochs_done(),
        })
    }
}
