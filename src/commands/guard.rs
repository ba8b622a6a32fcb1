//! The hidden command with which `hsched run` guards the processes of one submission.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use crate::app::context::Context;
use crate::commands::cli::Subcommand;
use hsched_local::{GuardOrder, guard};
use hsched_ui::{Exit, Failure, Terminal, TerminalKind};

/// Watch over the processes of a job (for `hsched run` alone)
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Args {
    script: PathBuf,
    workdir: PathBuf,
    mark: PathBuf,
    /// In seconds.
    farewell: u64,
    #[arg(action = clap::ArgAction::Set)]
    is_held: bool,
}

impl Subcommand for Args {
    /// Returns an error, because [`Args::guard`] runs before settings are read.
    fn run(&self, _: &Context) -> Result<Exit, Failure> {
        Err(Failure::new(Exit::Internal, "a guard has no settings"))
    }
}

impl Args {
    /// Starts the script and returns how it ended, after all of its processes have ended.
    pub(super) fn guard(&self) -> ExitCode {
        let Self { script, workdir, mark, farewell, is_held } = self.clone();
        match guard(&GuardOrder { script, workdir, mark, farewell: Duration::from_secs(farewell), is_held }) {
            Ok(status) => ExitCode::from(status),
            Err(error) => {
                // Standard error is the job's output.
                Terminal::new(Some(false), TerminalKind::default())
                    .say(&format!("hsched: error: cannot start or supervise the job's script: {error}"));
                ExitCode::FAILURE
            }
        }
    }
}
