//! `hsched import`: converts a batch script or a file of another tool to an entry of a job file.

mod foreign;

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use clap::ValueEnum;

use crate::app::context::Context;
use crate::app::{file_kind, input};
use crate::commands::cli::{Subcommand, json_text, print};
use hsched_model::ErrorId;
use hsched_slurm::batch_script;
use hsched_ui::{Exit, Failure, create_output};

/// Make a job file from a batch script, a W&B or Hydra sweep, or a SkyPilot task
///
/// Converts the #SBATCH options that have a job key, the lines that prepare the training (`setup`, `node_setup`,
/// `env`), and the command as each rank runs it, without srun or torchrun. Lists on stderr, with line numbers, what
/// it drops or changes. From the YAML files of other tools, it takes parameters, commands, metrics and GPUs. Values that the file does not contain are written as TODO, and `hsched plan` names
/// them.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The batch script or file; - reads standard input.
    #[arg(value_name = "SCRIPT")]
    script: PathBuf,
    /// Write to this file, which must not exist, instead of stdout.
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Print the job file instead of writing it.
    #[arg(long)]
    dry_run: bool,
    /// Output format; JSON has no comments.
    #[arg(long, value_enum, default_value_t, value_name = "FORMAT")]
    format: JobFormat,
}

/// Output formats of the job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum JobFormat {
    /// A job file with comments.
    #[default]
    Yaml,
    /// A job file in JSON.
    Json,
}

impl Subcommand for Args {
    fn wants_json(&self) -> bool {
        self.format == JobFormat::Json && (self.output.is_none() || self.dry_run)
    }

    fn run(&self, context: &Context) -> Result<Exit, Failure> {
        let script = input::text(&self.script)?;
        let source = input::name(&self.script);
        let stem = self.script.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
        let foreign = if file_kind::is_data(&script, &self.script) {
            foreign::read(&script, stem, &source)?
        } else {
            None
        };
        let imported = if let Some(imported) = foreign {
            imported
        } else {
            file_kind::refuse_no_script(&script, &self.script)?;
            batch_script::read(&script, stem)
        };
        let text = match self.format {
            JobFormat::Yaml => imported.to_yaml(&source),
            JobFormat::Json => json_text(&imported.to_json())?,
        };
        match &self.output {
            Some(path) if self.dry_run => {
                if path.symlink_metadata().is_ok() {
                    return Err(refused(path, &std::io::Error::from(ErrorKind::AlreadyExists)));
                }
                print(context, &text)?;
            }
            Some(path) => create_output(path, &text).map_err(|error| refused(path, &error))?,
            None => print(context, &text)?,
        }
        for remark in &imported.remarks {
            context.note(&format!("{source}:{}: {}", remark.line, remark.text));
        }
        let left: Vec<&str> = imported.unknown().collect();
        context.note(&format!("the file does not contain {}: replace each TODO", left.join(", ")));
        Ok(Exit::Done)
    }
}

fn refused(path: &Path, error: &std::io::Error) -> Failure {
    let exists = error.kind() == ErrorKind::AlreadyExists;
    let failure = Failure::new(Exit::Failed, format!("cannot write {}: {error}", path.display()))
        .id(ErrorId::FileUnwritable);
    if exists { failure.hint("choose another file, or remove this one") } else { failure }
}
