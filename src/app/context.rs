//! The context of every command: settings, terminal, clock and Slurm.

use std::cell::OnceCell;
use std::path::PathBuf;
use std::time::Duration;

use clap::ValueEnum;

use crate::settings::{
    ColorMode, CommandLineSetting, Feature, Settings, SettingsProblems, Sources, columns, is_ascii,
    is_dumb_terminal,
};
use hsched_engine::clock::{Clock, SystemClock};
use hsched_model::ErrorId;
use hsched_slurm::{CommandError, CommandLine, System, read, site};
use hsched_ui::{Exit, Failure, ProgressLine, Terminal, TerminalKind};

/// The environment of a command.
pub(crate) struct Context {
    pub settings: Settings,
    /// Invalid settings, which are ignored; only present for commands that accept this.
    pub wrong_settings: Option<SettingsProblems>,
    pub terminal: Terminal,
    pub clock: SystemClock,
    pub slurm: System,
    /// Directory in which the command was started.
    pub directory: PathBuf,
    /// Slurm's configuration, after it was read once.
    config: OnceCell<Option<site::Config>>,
}

/// Output format of a command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Human-readable text.
    #[default]
    Table,
    /// JSON.
    Json,
}

impl Context {
    /// Reads the settings; `lenient` ignores invalid ones.
    ///
    /// # Errors
    /// If a setting is invalid or the current directory no longer exists.
    pub(crate) fn new(flags: Vec<CommandLineSetting>, lenient: bool) -> Result<Self, Failure> {
        let sources = Sources::of_process(flags);
        let directory = sources.directory.clone();
        let directory = directory.ok_or_else(|| {
            Failure::new(Exit::Failed, "the current directory no longer exists").id(ErrorId::Directory)
        })?;
        let loaded = if lenient {
            Settings::load_valid(&sources)
        } else {
            Settings::load(&sources).map(|settings| (settings, None))
        };
        let (settings, wrong_settings) = loaded.map_err(|problems| {
            let id = problems.as_slice().first().map_or(ErrorId::Setting, |problem| problem.error.id);
            Failure::new(Exit::BadInput, format!("settings:\n{problems}")).id(id)
        })?;
        let colour = match settings.color {
            ColorMode::Always => Some(true),
            ColorMode::Never => Some(false),
            ColorMode::Auto => None,
        };
        let kind = TerminalKind { columns: columns(), is_dumb: is_dumb_terminal(), is_ascii: is_ascii() };
        if kind.is_dumb {
            ProgressLine::forbid();
        }
        let terminal = Terminal::new(colour, kind);
        for note in settings.notes() {
            terminal.say(&format!("note: {note}"));
        }
        let limit = Duration::try_from_secs_f64(settings.slurm_timeout.0).unwrap_or(System::LIMIT);
        let slurm = System::new(crate::settings::process_environment(), limit);
        let (clock, config) = (SystemClock::default(), OnceCell::new());
        Ok(Self { settings, wrong_settings, terminal, clock, slurm, directory, config })
    }

    /// Returns Slurm's configuration; `None` if it is unavailable. Calls Slurm only until it has answered.
    pub(crate) fn config(&self) -> Option<&site::Config> {
        if let Some(known) = self.config.get() {
            return known.as_ref();
        }
        let pause = |pause| self.clock.sleep(pause);
        match read(&self.slurm, &site::config_command(), &pause) {
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

    /// Runs a read-only Slurm command and returns its output, with retries while Slurm is busy.
    ///
    /// # Errors
    /// If Slurm is missing or does not answer (exit 69), or the command fails.
    pub(crate) fn ask(&self, command: &CommandLine) -> Result<String, Failure> {
        let answer = read(&self.slurm, command, &|pause| self.clock.sleep(pause));
        answer.map(|output| output.stdout).map_err(|error| slurm_failure(&error))
    }

    /// Refuses a feature that the site's administrators have disabled.
    ///
    /// # Errors
    /// If it is disabled.
    pub(crate) fn refuse_forbidden(&self, feature: Feature) -> Result<(), Failure> {
        if !self.settings.forbidden.contains(&feature) {
            return Ok(());
        }
        let origin = self.settings.origin("forbid", "");
        let message = format!(
            "this site does not allow this: {:?} is in `forbid` \
            ({origin})",
            feature.name()
        );
        Err(Failure::new(Exit::Usage, message).id(ErrorId::SiteForbids).hint("ask its administrators"))
    }

    /// Prints a warning: something is wrong, but the command continues.
    pub(crate) fn warn(&self, warning: &str) {
        self.terminal.say(&format!("warning: {warning}"));
    }

    /// Prints a note.
    pub(crate) fn note(&self, note: &str) {
        self.terminal.say(&format!("note: {note}"));
    }
}

/// Converts a Slurm command's error to a failure.
pub(crate) fn slurm_failure(error: &CommandError) -> Failure {
    let exit = if error.is_without_slurm() { Exit::SlurmUnavailable } else { Exit::Failed };
    let id = match error {
        CommandError::NotFound { .. } | CommandError::Unconfigured { .. } => ErrorId::SlurmMissing,
        CommandError::Unreachable { .. } => ErrorId::SlurmUnreachable,
        CommandError::TimedOut { .. } => ErrorId::SlurmTimeout,
        CommandError::TooMuchOutput { .. } | CommandError::Unexpected { .. } => ErrorId::SlurmOutput,
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
