//! The context of every command: settings, terminal, clock and Slurm.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Mutex;

use clap::ValueEnum;

use crate::app::slurm::client::SlurmClient;
use crate::settings::{
    ColorMode, CommandLineSetting, Feature, Settings, SettingsProblems, Sources, columns, is_ascii,
    is_dumb_terminal,
};
use hsched_engine::clock::SystemClock;
use hsched_model::ErrorId;
use hsched_ui::{Exit, Failure, ProgressLine, Terminal, TerminalKind};

/// The environment of a command.
pub(crate) struct Context {
    pub settings: Settings,
    /// Invalid settings, which are ignored; only present for commands that accept this.
    pub wrong_settings: Option<SettingsProblems>,
    pub terminal: Terminal,
    pub clock: SystemClock,
    pub slurm: SlurmClient,
    /// Directory in which the command was started.
    pub directory: PathBuf,
    /// Warnings that are printed only once.
    warnings: Mutex<BTreeSet<String>>,
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
    /// If a setting is invalid (unless `lenient`), or the current directory no longer exists.
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
        let slurm = SlurmClient::new(settings.slurm_timeout.0);
        let (clock, warnings) = (SystemClock::default(), Mutex::default());
        Ok(Self { settings, wrong_settings, terminal, clock, slurm, directory, warnings })
    }

    /// Returns this context with another state directory.
    pub(crate) fn with_state_dir(&self, root: PathBuf) -> Self {
        let mut settings = self.settings.clone();
        settings.state_dir = Some(root);
        let slurm = SlurmClient::new(settings.slurm_timeout.0);
        let (terminal, directory) = (self.terminal, self.directory.clone());
        let (clock, warnings) = (SystemClock::default(), Mutex::default());
        Self { settings, wrong_settings: None, terminal, clock, slurm, directory, warnings }
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

    /// Prints a warning unless this command has printed it before.
    pub(crate) fn warn_once(&self, warning: &str) {
        let is_new = self.warnings.lock().is_ok_and(|mut warnings| warnings.insert(warning.to_owned()));
        if is_new {
            self.warn(warning);
        }
    }

    /// Prints a note.
    pub(crate) fn note(&self, note: &str) {
        self.terminal.say(&format!("note: {note}"));
    }
}
