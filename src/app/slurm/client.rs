//! Slurm's commands as a command of hsched calls them: with the user's time limit, and retries while Slurm is busy.

use std::cell::OnceCell;
use std::time::Duration;

use hsched_engine::clock::{Clock as _, SystemClock};
use hsched_model::ErrorId;
use hsched_slurm::{CommandError, CommandLine, CommandOutput, Runner, System, read, site};
use hsched_ui::{Exit, Failure};

/// Calls Slurm, and remembers its configuration.
pub(crate) struct SlurmClient {
    system: System,
    clock: SystemClock,
    /// Slurm's configuration, after it was read once.
    config: OnceCell<Option<site::Config>>,
}

impl SlurmClient {
    /// Returns a client whose commands have at most `limit` seconds each; an impossible limit becomes the
    /// default.
    pub(crate) fn new(limit: f64) -> Self {
        let limit = Duration::try_from_secs_f64(limit).unwrap_or(System::LIMIT);
        let system = System::new(crate::settings::process_environment(), limit);
        Self { system, clock: SystemClock::default(), config: OnceCell::new() }
    }

    /// Returns Slurm's configuration; `None` if it is unavailable. Calls Slurm only until it has answered.
    pub(crate) fn config(&self) -> Option<&site::Config> {
        if let Some(known) = self.config.get() {
            return known.as_ref();
        }
        match self.read(&site::config_command()) {
            // If Slurm does not answer now, the next turn calls it again.
            Err(error) if error.is_without_slurm() => None,
            answer => {
                let config = || answer.ok().map(|output| site::Config::parse(&output.stdout));
                self.config.get_or_init(config).as_ref()
            }
        }
    }

    /// Returns Slurm's name of the cluster; `None` if it is unavailable.
    pub(crate) fn cluster_name(&self) -> Option<String> {
        self.config()?.get("ClusterName").map(str::to_owned)
    }

    /// Runs a read-only command, with retries while Slurm is busy.
    ///
    /// # Errors
    /// If Slurm is missing or does not answer, or the command fails.
    pub(crate) fn read(&self, command: &CommandLine) -> Result<CommandOutput, CommandError> {
        read(&self.system, command, &|pause| self.clock.sleep(pause))
    }

    /// Runs a read-only command like [`read`](Self::read), and returns its output.
    ///
    /// # Errors
    /// If Slurm is missing or does not answer (exit 69), or the command fails.
    pub(crate) fn ask(&self, command: &CommandLine) -> Result<String, Failure> {
        self.read(command).map(|output| output.stdout).map_err(|error| slurm_failure(&error))
    }
}

impl Runner for SlurmClient {
    fn run(&self, command: &CommandLine) -> Result<CommandOutput, CommandError> {
        self.system.run(command)
    }
}

/// Converts a Slurm command's error to a failure.
pub(crate) fn slurm_failure(error: &CommandError) -> Failure {
    let exit = if error.is_without_slurm() { Exit::SlurmUnavailable } else { Exit::Failed };
    let id = match error {
        CommandError::NotFound { .. } | CommandError::Unconfigured { .. } => ErrorId::SlurmMissing,
        CommandError::Unreachable { .. } => ErrorId::SlurmUnreachable,
        CommandError::TimedOut { .. } => ErrorId::SlurmTimeout,
        CommandError::TooMuchOutput { .. } => ErrorId::SlurmOutput,
        CommandError::Start { .. } | CommandError::Failed { .. } => ErrorId::SlurmRefused,
    };
    let failure = Failure::from_error(exit, error).id(id);
    match error {
        CommandError::NotFound { .. } | CommandError::Unconfigured { .. } => failure.hint(
            "without Slurm, hsched run trains on the GPUs of this machine, and plan and \
                simulate read a cluster file (--cluster FILE) or saved Slurm output (--from FILE)",
        ),
        CommandError::TimedOut { .. } => failure
            .hint("allow more time with --set slurm_timeout=60s, or check whether `scontrol ping` answers"),
        CommandError::Unreachable { .. } => failure.hint(
            "check whether `scontrol ping` answers; without Slurm, hsched run trains on the GPUs of this \
             machine, and plan and simulate read a cluster file (--cluster FILE) or saved Slurm output \
             (--from FILE)",
        ),
        CommandError::Failed { command, .. } => failure.hint(format!("the command was: {command}")),
        _ => failure,
    }
}
