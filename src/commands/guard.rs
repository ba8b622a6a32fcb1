//! The hidden command by which `hsched run` watches over what it starts: the processes of one submission.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use crate::local::{Order, guard};

/// Watch over the processes of a job (for `hsched run` alone)
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Args {
    script: PathBuf,
    workdir: PathBuf,
    mark: PathBuf,
    /// In seconds.
    farewell: u64,
}

impl Args {
    /// Starts the script and returns how it ended, once nothing of it is left.
    pub(super) fn guard(&self) -> ExitCode {
        let Self { script, workdir, mark, farewell } = self.clone();
        match guard(&Order { script, workdir, mark, farewell: Duration::from_secs(farewell) }) {
            Ok(status) => ExitCode::from(status),
            Err(error) => {
                // Standard error is the job's output.
                crate::ui::Terminal::new(Some(false), crate::ui::TerminalKind::default())
                    .say(&format!("hsched: error: cannot start the job's script: {error}"));
                ExitCode::FAILURE
            }
        }
    }
}
