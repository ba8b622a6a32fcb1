//! `hsched add`: jobs for `hsched watch` to place.

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::app::after::refuse_unknown;
use crate::app::asking;
use crate::app::context::{Context, Format};
use crate::app::copies::refuse_others;
use crate::app::deferred_commands;
use crate::app::folders::{note_missing_workdirs, note_shared_checkpoints};
use crate::app::goals;
use crate::app::permissions::{note_troubles, refuse_accounts};
use crate::app::policy_args::PolicyArgs;
use crate::app::queue_args::QueueArgs;
use crate::app::sbatch_options::refuse_options;
use crate::app::session::{JobsLook, Session};
use crate::app::slurm;
use crate::app::speeds::EstimateArgs;
use crate::app::state;
use crate::app::submission::{in_queue, settled};
use crate::app::{file_kind, input, replicas};
use crate::commands::cli::{Subcommand, json_text, print};
use crate::error::Failure;
use crate::exit::Exit;
use crate::settings::Flag;
use hsched_engine::store::DeferredChange;
use hsched_engine::{BackendKind, JobState, Phase, ResumePoint, State, TaggedJob, apply};
use hsched_model::{Job, JobName};

/// Add jobs for `hsched watch` to place; submits nothing
///
/// The current directory, account, partition and quality of service are stored with the jobs, so `hsched watch` can
/// run in any directory. If a job of the same name is waiting, failed or was cancelled, the new job replaces it and
/// resumes after the last reported epoch, unless its `model`, `samples_per_epoch` or `global_batch` changed. If it
/// completed, the new job starts over. If it is in Slurm's queue, no job is added. While another hsched holds the
/// state directory, the command is deferred: `hsched watch` adds the jobs at its next turn.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Job file (YAML); - reads standard input.
    #[arg(value_name = "JOBS")]
    input: PathBuf,
    /// Show what would be added, without adding it.
    #[arg(long)]
    dry_run: bool,
    /// Start over at the first epoch. Checkpoints are not deleted: remove them, or the training program resumes from them.
    #[arg(long)]
    restart: bool,
    #[command(flatten)]
    queue: QueueArgs,
    #[command(flatten)]
    estimate: EstimateArgs,
    /// What hsched watch shall plan with: it says so when it was started with another policy.
    #[command(flatten)]
    policy: PolicyArgs,
    /// Output format.
    #[arg(long, value_enum, default_value_t, value_name = "FORMAT")]
    format: Format,
    /// Additional sbatch options for every submission of these jobs.
    #[arg(last = true, value_name = "SBATCH OPTIONS")]
    sbatch: Vec<String>,
}

/// What an added job is to the state, and where it begins.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Addition {
    job: JobName,
    before: Before,
    beginning: ResumePoint,
}

/// What the state knows by the name of an added job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Before {
    Nothing,
    Waits,
    Ended { outcome: &'static str },
}

/// Who adds the jobs: this command or, where another hsched is at work, `watch` or `run`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    Add,
    /// This command, and `hsched run` goes on with them.
    AddForRun,
    Follower(BackendKind),
}

impl Subcommand for Args {
    fn wants_json(&self) -> bool {
        self.format == Format::Json
    }

    fn flags(&self) -> Vec<Flag> {
        self.queue.flags().into_iter().chain(self.estimate.flags()).collect()
    }

    fn run(&self, context: &Context) -> Result<Exit, Failure> {
        let text = input::text(&self.input)?;
        let jobs = input::jobs(&text, &self.input)?;
        replicas::refuse_spread(&jobs)?;
        if !self.dry_run {
            file_kind::refuse_examples(&text, &self.input, &jobs.iter().collect::<Vec<_>>())?;
        }
        let own = jobs.iter().flat_map(|job| &job.launch.sbatch);
        refuse_options(self.sbatch.iter().chain(&context.settings.jobs.sbatch).chain(own))?;
        let jobs: Vec<Job> = jobs.iter().map(|job| settled(context, job, &self.sbatch)).collect();
        refuse_accounts(context, &jobs.iter().collect::<Vec<_>>())?;
        let (additions, by) = self.add(context, &jobs)?;
        if by == By::Add {
            // Slurm may be what keeps the other one waiting.
            note_troubles(context, &jobs);
        }
        for what in goals::remarks(&jobs, asking::time(&context.clock)) {
            context.note(&what);
        }
        note_missing_workdirs(context, &jobs);
        note_shared_checkpoints(context, &jobs.iter().collect::<Vec<_>>());
        match self.format {
            Format::Table => print(context, &self.table(&additions, by))?,
            Format::Json => {
                let jobs: Vec<Value> = additions.iter().map(addition_json).collect();
                let value = json!({
                    "schema": "hsched.add/1", "dry_run": self.dry_run, "carried_out_by": by.word(), "jobs": jobs,
                });
                print(context, &json_text(&value)?)?;
            }
        }
        Ok(Exit::Done)
    }
}

impl Args {
    /// Adds the jobs to the state, all or none, or leaves the deferred command; returns what each job is to the state.
    fn add(&self, context: &Context, jobs: &[Job]) -> Result<(Vec<Addition>, By), Failure> {
        let nothing = |failure: Failure| state::undone(failure, "no job was added");
        if self.dry_run && !state::root(context)?.exists() {
            // Nothing is known, and nothing is made for a look.
            let queue = slurm::tagged_jobs(context).map_err(nothing)?;
            return Ok((self.additions(jobs, &queue, &State::default(), BackendKind::Queue)?, By::Add));
        }
        let wanted = DeferredChange::Add { jobs: jobs.to_vec(), restart: self.restart };
        let Some(directory) = state::open_at_once(context).map_err(nothing)? else {
            let (state, backend) =
                deferred_commands::expected_there(context, &state::rules(context)).map_err(nothing)?;
            let additions = self.additions(jobs, &[], &state, backend)?;
            if !self.dry_run {
                deferred_commands::leave(context, wanted).map_err(nothing)?;
            }
            return Ok((additions, By::Follower(backend)));
        };
        let mut session =
            Session::anywhere(context, &directory, &self.sbatch, self.dry_run).map_err(nothing)?;
        let seen = session.look().map_err(nothing)?;
        session.leave_untold(&seen);
        let JobsLook { at, mut events, queue, .. } = seen;
        let additions = self.additions(jobs, &queue, &session.state, session.rules.backend);
        if additions.is_ok() {
            let added = wanted.events();
            for event in &added {
                apply(&mut session.state, at, event, &session.rules);
            }
            events.extend(added);
            if self.policy.says_something() {
                session.state.planned_by = Some(self.policy.words());
            }
        }
        session.keep(at, &events, &[]).map_err(|error| nothing(state::failure(&error)))?;
        let by = match session.rules.backend {
            BackendKind::Devices => By::AddForRun,
            BackendKind::Queue => By::Add,
        };
        Ok((additions?, by))
    }

    /// Returns what each job is to the state.
    ///
    /// # Errors
    /// When Slurm or `hsched run` has one of them, or one comes after a job that nobody knows.
    fn additions(
        &self,
        jobs: &[Job],
        queue: &[TaggedJob],
        state: &State,
        backend: BackendKind,
    ) -> Result<Vec<Addition>, Failure> {
        refuse_unknown(jobs, state)?;
        refuse_others(jobs, state)?;
        let names: Vec<&JobName> = jobs.iter().map(|job| &job.name).collect();
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

    fn table(&self, additions: &[Addition], by: By) -> String {
        let line = |addition: &Addition| format!("{}: {}\n", addition.job, addition.text(self.dry_run, by));
        let mut text: String = additions.iter().map(line).collect();
        text.push_str(&match by {
            _ if self.dry_run => "no job was added (--dry-run)".to_owned(),
            By::Add => "hsched watch places these jobs".to_owned(),
            By::AddForRun => "hsched run places these jobs".to_owned(),
            By::Follower(backend) => deferred_commands::left(backend),
        });
        text.push('\n');
        text
    }
}

impl By {
    fn word(self) -> &'static str {
        match self {
            Self::Add | Self::AddForRun => "add",
            Self::Follower(backend) => deferred_commands::word(backend),
        }
    }
}

impl Addition {
    /// Returns what a job is to the state before it is added.
    fn of(job: &Job, state: &State, restart: bool) -> Self {
        let before = match state.find(&job.name) {
            Some(JobState { phase: Phase::Ended { outcome, .. }, .. }) => {
                Before::Ended { outcome: outcome.word() }
            }
            Some(_) => Before::Waits,
            None => Before::Nothing,
        };
        Self { job: job.name.clone(), before, beginning: ResumePoint::of(job, state, restart) }
    }

    fn word(&self) -> &'static str {
        match self.before {
            Before::Nothing => "added",
            Before::Waits => "replaced",
            Before::Ended { .. } => "again",
        }
    }

    fn text(&self, dry_run: bool, by: By) -> String {
        let would = match by {
            _ if dry_run => "would be ",
            By::Add | By::AddForRun => "",
            By::Follower(_) => "to be ",
        };
        let added = match self.before {
            Before::Nothing => "added".to_owned(),
            Before::Waits => "added, replacing the waiting job of the same name".to_owned(),
            Before::Ended { outcome } => format!("added again (previous run: {outcome})"),
        };
        format!("{would}{added}{}", self.beginning.clause())
    }
}

fn addition_json(addition: &Addition) -> Value {
    json!({
        "name": addition.job.as_str(), "state": addition.word(), "epochs_done": addition.beginning.epochs_done(),
    })
}
