//! `hsched write-docs`: writes man pages, completions and the command reference, for packagers and for this
//! repository.

use std::path::PathBuf;

use clap::CommandFactory;

use crate::app::context::Context;
use crate::commands::cli::{Cli, Subcommand};
use crate::manual;
use hsched_model::ErrorId;
use hsched_ui::{Exit, Failure, make_folder, write_output};

/// Write man pages, shell completions and the command reference
///
/// Writes to `man`, `completions` and `docs` in a directory, and replaces the files there. In the repository: `cargo
/// run -- write-docs .`
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Directory to write to; created if needed.
    #[arg(value_name = "DIRECTORY")]
    directory: PathBuf,
}

impl Subcommand for Args {
    fn run(&self, context: &Context) -> Result<Exit, Failure> {
        for (path, text) in manual::files(&Cli::command()) {
            let path = context.directory.join(&self.directory).join(path);
            let folder = path.parent().map_or(Ok(()), make_folder);
            folder.and_then(|()| write_output(&path, &text)).map_err(|error| {
                Failure::new(Exit::Failed, format!("cannot write {}: {error}", path.display()))
                    .id(ErrorId::FileUnwritable)
            })?;
        }
        Ok(Exit::Done)
    }
}
