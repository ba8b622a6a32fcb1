//! `hsched add`: jobs for `hsched watch` to place.

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::commands::cli::{Subcommand, json_text, print};
use crate::commands::context::{Context, Format};
use crate::commands::input;
use crate::commands::queue_args::QueueArgs;
use crate::commands::state::{self, Seen};
use crate::commands::submission::{in_queue, refuse_options, settled};
use crate::engine::{Event, Keeper, Phase, State, Tracked, apply};
use crate::error::Failure;
use crate::exit::Exit;
use crate::live::SlurmWorld;
use crate::model::{Cluster, Job, JobName};
use crate::settings::Flag;
use crate::slurm::QueuedJob;

/// Add jobs for `hsched watch` to place; submits nothing
///
/// The directory of this command, the account, the partition and the quality of service are fixed now: it does not
/// matter where `hsched watch` runs. A job that waits gives way to the new one of its name and keeps the epochs that
/// it has done; one that has ended begins anew; one that Slurm has is refused, and then nothing is added.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The job file (YAML); - reads standard input.
    #[arg(value_name = "JOBS")]
    input: PathBuf,
    /// Look at everything, and add nothing.
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    queue: QueueArgs,
    /// How to print what was added.
    #[arg(long, value_enum, default_value_t, value_name = "FORMAT")]
    format: Format,
    /// Passed to sbatch as they are, whenever one of these jobs is submitted.
    #[arg(last = true, value_name = "SBATCH OPTIONS")]
    sbatch: Vec<String>,
}

/// What an added job is to the state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Addition {
    New,
    /// Takes the place of one that waits, with the epochs that this one has done.
    Replaces {
        epochs_done: u64,
    },
    /// One of its name has ended.
    Again {
        outcome: &'static str,
    },
}

impl Subcommand for Args {
    fn wants_json(&self) -> bool {
        self.format == Format::Json
    }

    fn flags(&self) -> Vec<Flag> {
        self.queue.flags()
    }

    fn run(&self, context: &Context) -> Result<Exit, Failure> {
        let jobs = input::jobs(&input::text(&self.input)?, &self.input)?;
        let own = jobs.iter().flat_map(|job| &job.launch.sbatch);
        refuse_options(self.sbatch.iter().chain(&context.settings.jobs.sbatch).chain(own))?;
        let jobs: Vec<Job> = jobs.iter().map(|job| settled(context, job, &self.sbatch)).collect();
        let additions = self.add(context, &jobs)?;
        match self.format {
            Format::Table => print(context, &self.table(&additions))?,
            Format::Json => {
                let jobs: Vec<Value> = additions.iter().map(addition_json).collect();
                let value = json!({ "schema": "hsched.add/1", "dry_run": self.dry_run, "jobs": jobs });
                print(context, &json_text(&value)?)?;
            }
        }
        Ok(Exit::Done)
    }
}

impl Args {
    /// Adds the jobs to the state, all or none, and returns what each is to it.
    fn add(&self, context: &Context, jobs: &[Job]) -> Result<Vec<(JobName, Addition)>, Failure> {
        let nothing = |failure: Failure| state::undone(failure, "nothing was added");
        if self.dry_run && !state::root(context)?.exists() {
            // Nothing is known, and nothing is made for a look.
            let (queue, _) = input::queue(context).map_err(nothing)?;
            return additions(jobs, &queue, &State::default());
        }
        let directory = state::open(context).map_err(nothing)?;
        let rules = state::rules(context);
        let (mut state, mut ledger) = state::ledger(context, &directory, &rules).map_err(nothing)?;
        let complete = |cluster: &mut Cluster| state::complete(context, cluster);
        let site = state::site(context, &self.sbatch)?;
        let world = SlurmWorld::new(&context.slurm, &context.clock, &directory, site, &complete);
        let Seen { at, mut events, queue } =
            state::catch_up(context, &world, &mut state, &rules).map_err(nothing)?;
        let additions = additions(jobs, &queue, &state);
        if additions.is_ok() {
            let added: Vec<Event> =
                jobs.iter().map(|job| Event::Added { job: Box::new(job.clone()) }).collect();
            for event in &added {
                apply(&mut state, at, event, &rules);
            }
            events.extend(added);
        }
        if !self.dry_run {
            ledger.keep(at, &state, &events, &[]).map_err(|error| nothing(state::failure(&error)))?;
        }
        additions
    }

    fn table(&self, additions: &[(JobName, Addition)]) -> String {
        let line =
            |(name, addition): &(JobName, Addition)| format!("{name}: {}\n", addition.text(self.dry_run));
        let mut text: String = additions.iter().map(line).collect();
        text.push_str(if self.dry_run {
            "nothing was added: --dry-run\n"
        } else {
            "hsched watch places what waits\n"
        });
        text
    }
}

/// Returns what each job is to the state.
///
/// # Errors
/// When Slurm has one of them.
fn additions(jobs: &[Job], queue: &[QueuedJob], state: &State) -> Result<Vec<(JobName, Addition)>, Failure> {
    let names: Vec<&JobName> = jobs.iter().map(|job| &job.name).collect();
    match in_queue(&names, queue, state) {
        None => Ok(jobs.iter().map(|job| (job.name.clone(), Addition::of(job, state))).collect()),
        Some(twice) => {
            let message = format!("in the queue already: {}; nothing was added", twice.jobs);
            Err(Failure::new(Exit::Failed, message).hint(format!(
                "wait for its end, cancel it with {}, or give the new job another name",
                twice.cancel()
            )))
        }
    }
}

impl Addition {
    /// Returns what a job is to the state before it is added.
    fn of(job: &Job, state: &State) -> Self {
        match state.find(&job.name) {
            Some(Tracked { phase: Phase::Ended { outcome, .. }, .. }) => {
                Self::Again { outcome: outcome.word() }
            }
            Some(waiting) => Self::Replaces { epochs_done: waiting.epochs_done },
            None => Self::New,
        }
    }

    fn word(self) -> &'static str {
        match self {
            Self::New => "added",
            Self::Replaces { .. } => "replaced",
            Self::Again { .. } => "again",
        }
    }

    fn text(self, dry_run: bool) -> String {
        let would = if dry_run { "would be " } else { "" };
        match self {
            Self::New => format!("{would}added"),
            Self::Replaces { epochs_done: 0 } => format!("{would}added instead of the one that waits"),
            Self::Replaces { epochs_done } => {
                format!("{would}added instead of the one that waits; goes on after epoch {epochs_done}")
            }
            Self::Again { outcome } => format!("{would}added anew: the one before is over ({outcome})"),
        }
    }
}

fn addition_json((name, addition): &(JobName, Addition)) -> Value {
    json!({ "name": name.as_str(), "state": addition.word() })
}
