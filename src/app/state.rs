//! The state directory as used by commands: opened with a bounded wait, and with hints for its failures.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::app::context::Context;
use crate::app::input;
use crate::app::session::{LOCAL_CLUSTER, backend_kind};
use crate::app::slurm::client::slurm_failure;
use hsched_engine::Rules;
use hsched_engine::clock::Clock;
use hsched_engine::live::{LiveError, ScriptContext, absolute};
use hsched_engine::store::{BY_HAND, StateDir, StateError, new_run_id};
use hsched_model::{ErrorId, Time};
use hsched_ui::{Exit, Failure};

/// How long to wait for another hsched: a turn of `watch` takes seconds if Slurm answers.
const PATIENCE: Duration = Duration::from_secs(3);

/// How long to wait if a deferred command is possible instead.
const AT_ONCE: Duration = Duration::from_secs(1);

/// The pause between two attempts.
const PAUSE: Duration = Duration::from_millis(100);

/// Returns the absolute path of the state directory.
///
/// # Errors
/// If there is none because the home directory is unknown.
pub(crate) fn root(context: &Context) -> Result<PathBuf, Failure> {
    let directory = context.settings.state_dir.clone();
    directory.map(|path| absolute(&context.directory, path)).ok_or_else(|| {
        Failure::new(Exit::BadInput, "no state directory: HOME is not set")
            .id(ErrorId::StateDirectory)
            .hint("name a directory that all nodes can see: --set state_dir=DIR")
    })
}

/// Opens and locks the state directory, after a short wait if another hsched holds it.
///
/// # Errors
/// If it is still locked, or cannot be created.
pub(crate) fn open(context: &Context) -> Result<StateDir, Failure> {
    open_within(context, PATIENCE)
}

/// Opens and locks the state directory; `None` if another hsched holds it for more than a moment.
///
/// # Errors
/// If it cannot be created.
pub(crate) fn open_at_once(context: &Context) -> Result<Option<StateDir>, Failure> {
    match open_within(context, AT_ONCE) {
        Err(failure) if failure.exit == Exit::Locked => Ok(None),
        other => other.map(Some),
    }
}

fn open_within(context: &Context, patience: Duration) -> Result<StateDir, Failure> {
    let root = root(context)?;
    let begin = context.clock.elapsed();
    loop {
        match StateDir::open(&root) {
            Err(StateError::Locked { .. }) if context.clock.elapsed().saturating_sub(begin) < patience => {
                context.clock.sleep(PAUSE);
            }
            other => return other.map_err(|error| failure(&error)),
        }
    }
}

/// Returns a new run's id.
///
/// # Errors
/// If the system has no random numbers.
pub(crate) fn new_run(context: &Context) -> Result<String, Failure> {
    new_run_id(context.clock.now()).map_err(|error| failure(&error))
}

/// Returns the command that manages the jobs of a state directory, by their cluster.
pub(crate) fn follower(cluster: Option<&str>) -> &'static str {
    backend_kind(cluster).follower()
}

/// Returns the engine's rules from the settings, without moves.
pub(crate) fn rules(context: &Context) -> Rules {
    let settings = &context.settings;
    Rules {
        defaults: settings.jobs.clone(),
        capacity: settings.capacity.clone(),
        restart_cost: settings.restart_cost,
        retry_delay: settings.retry_delay,
        learning_rate: settings.learning_rate,
        ..Rules::new(settings.network, settings.intra_node)
    }
}

/// Returns the data of this user and site for job scripts.
///
/// # Errors
/// If a template cannot be read or no state directory is known.
pub(crate) fn site(context: &Context, sbatch: &[String]) -> Result<ScriptContext, Failure> {
    Ok(ScriptContext {
        defaults: context.settings.jobs.clone(),
        template: input::template(context)?,
        state: root(context)?,
        directory: context.directory.clone(),
        sbatch: sbatch.to_vec(),
        inside: None,
    })
}

/// Returns the current time.
pub(crate) fn now(context: &Context) -> Time {
    context.clock.time()
}

/// Converts an error of the state to a failure.
pub(crate) fn failure(error: &StateError) -> Failure {
    let exit = match error {
        StateError::Locked { .. } => Exit::Locked,
        StateError::Damaged { .. }
        | StateError::Missing { .. }
        | StateError::Lost { .. }
        | StateError::Whole { .. }
        | StateError::Open { .. }
        | StateError::OtherCluster { .. } => Exit::BadInput,
        _ => Exit::Failed,
    };
    let failure = Failure::from_error(exit, error).id(kind(error));
    match error {
        StateError::Locked { by, .. } => {
            let who = by.map_or_else(String::new, |pid| format!(" (process {pid})"));
            failure.hint(format!(
                "try again when that hsched has ended{who}; hsched add and hsched cancel \
                    work at any time"
            ))
        }
        StateError::Exists { .. } => failure.hint("choose another --run-id"),
        StateError::Write { source, .. } => failure.hint(unwritable(source)),
        StateError::Damaged { .. } => failure.hint(
            "hsched did not change it: if a newer version wrote it, update hsched; otherwise \
                correct it by hand",
        ),
        StateError::Missing { .. } => failure.hint(
            "the names state.json, state.json.old and journal mean the files in the state directory; for \
             a file elsewhere, give its path, such as ./state.json",
        ),
        StateError::Lost { path, restore, .. } => lost(failure, path, restore.as_deref()),
        StateError::Whole { .. } => failure.hint(
            "to return to an older state anyway, first move state.json, state.json.old and journal away; \
             jobs that completed since then run again",
        ),
        StateError::Open { path, .. } => failure
            .hint(format!(
                "check who owns the files in it, then: chmod go-w {}",
                shell_words::quote(&path.display().to_string())
            ))
            .hint("or use another directory: HSCHED_STATE_DIR=DIR, or the setting state_dir"),
        StateError::OtherCluster { path, saved, here } if saved == LOCAL_CLUSTER || here == LOCAL_CLUSTER => {
            let whose = if saved == LOCAL_CLUSTER { "under hsched run" } else { "in Slurm's queue" };
            let message = format!("the jobs in {} are {whose}", path.display());
            let go_on =
                if saved == LOCAL_CLUSTER { "hsched run resumes them" } else { "hsched watch follows them" };
            Failure::new(exit, message).id(ErrorId::OtherCluster).hint(format!("{go_on}; hsched cancel --all cancels them")).hint(
                "for other jobs, use another state directory: HSCHED_STATE_DIR=DIR, or the setting state_dir",
            )
        }
        StateError::OtherCluster { path, saved, .. } => failure
            .hint(format!("run hsched watch and hsched cancel for them on cluster {saved}"))
            .hint(
                "for jobs here, use another state directory: HSCHED_STATE_DIR=DIR, or the setting \
                state_dir",
            )
            .hint(format!(
                "if this is the same cluster with a new name, remove the key \"cluster\" from {} and set \
                 its \"sha256\" to {BY_HAND:?}",
                path.join("state.json").display()
            )),
        StateError::Read { .. } | StateError::Json { .. } | StateError::Random { .. } => failure,
    }
}

/// Returns the kind of refusal for an error of the state directory.
fn kind(error: &StateError) -> ErrorId {
    match error {
        StateError::Locked { .. } => ErrorId::Locked,
        StateError::Exists { .. } => ErrorId::RunExists,
        StateError::Write { .. } => ErrorId::FileUnwritable,
        StateError::Read { .. } => ErrorId::FileUnreadable,
        StateError::Damaged { .. } | StateError::Lost { .. } | StateError::Whole { .. } => {
            ErrorId::StateDamaged
        }
        StateError::Missing { .. } => ErrorId::StateDirectory,
        StateError::Open { .. } => ErrorId::StateOpen,
        StateError::OtherCluster { .. } => ErrorId::OtherCluster,
        StateError::Random { .. } | StateError::Json { .. } => ErrorId::Internal,
    }
}

/// Returns whether a failure concerns the state directory or Slurm rather than the request.
pub(crate) fn is_trouble(failure: &Failure) -> bool {
    let of_state = [
        ErrorId::Locked,
        ErrorId::FileUnwritable,
        ErrorId::FileUnreadable,
        ErrorId::StateDamaged,
        ErrorId::StateDirectory,
        ErrorId::StateOpen,
        ErrorId::OtherCluster,
        ErrorId::Internal,
    ];
    of_state.contains(&failure.id) || failure.exit == Exit::SlurmUnavailable
}

/// Returns advice for a file that cannot be written.
fn unwritable(error: &io::Error) -> &'static str {
    match error.kind() {
        ErrorKind::PermissionDenied => {
            "make the directory writable, or, if it has no jobs yet, use another one: --set state_dir=DIR"
        }
        ErrorKind::ReadOnlyFilesystem => {
            "the file system is read-only here: use a directory on another one: --set state_dir=DIR"
        }
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
            "free some space there, or, if it has no jobs yet, use another directory: --set state_dir=DIR"
        }
        _ => "check whether the directory is writable, or use another one: --set state_dir=DIR",
    }
}

/// Returns the command that restores the state in a file.
pub(crate) fn restoration(file: &Path) -> String {
    format!("hsched doctor --restore {}", shell_words::quote(&file.display().to_string()))
}

/// Adds advice for a lost state; `restore` is the best file to restore.
fn lost(mut failure: Failure, path: &Path, restore: Option<&Path>) -> Failure {
    let quoted = |name: &str| shell_words::quote(&format!("{}{name}", path.display())).into_owned();
    failure = failure.hint("nothing was changed; jobs in Slurm keep running: see squeue --me");
    failure = match restore {
        Some(file) => failure
            .hint(format!("to restore the newest of these states: {}", restoration(file)))
            .hint(
                "anything newer is lost: a job that completed since then runs again, and a job submitted \
                 since then may run twice",
            )
            .hint("if a backup has a newer state.json, restore that file instead"),
        None => failure.hint("if you have a backup: hsched doctor --restore BACKUP/state.json"),
    };
    failure.hint(format!(
        "or start with an empty state, once none of its jobs are in the queue: mv {} {}",
        quoted(""),
        quoted(".damaged")
    ))
}

/// Returns the failure with a first hint that says what was not done.
pub(crate) fn undone(mut failure: Failure, what: &str) -> Failure {
    failure.hints.insert(0, what.to_owned());
    failure
}

/// Converts an error between hsched and the cluster to a failure.
pub(crate) fn live_failure(error: &LiveError) -> Failure {
    match error {
        LiveError::System(error) => match error.downcast_ref() {
            Some(error) => slurm_failure(error),
            None => Failure::from_error(Exit::Failed, &**error).id(ErrorId::SlurmOutput),
        },
        LiveError::State(error) => failure(error),
        LiveError::Scripts { .. } => Failure::from_error(Exit::BadInput, error).id(ErrorId::Template),
        LiveError::Reports { .. } => Failure::from_error(Exit::Failed, error).id(ErrorId::FileUnreadable),
    }
}
