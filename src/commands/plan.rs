//! `hsched plan`: who should get which GPUs, and how long everything would take.

use std::path::PathBuf;

use crate::commands::cli::print;
use crate::commands::context::{Context, Format};
use crate::commands::{input, planning};
use crate::error::Failure;
use crate::exit::Exit;
use crate::ui::{plan_table, write_output};

/// Plan which GPUs each job gets, and how its batch is split over them
///
/// Changes nothing. `hsched submit` takes the plan that `--output` or `--format json` writes, or the job
/// file itself.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The job file (YAML); - reads standard input.
    #[arg(value_name = "JOBS")]
    jobs: PathBuf,
    /// How to print the plan.
    #[arg(long, value_enum, default_value_t, value_name = "FORMAT")]
    format: Format,
    /// Also write the plan, as JSON, to this file.
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    planning: planning::PlanningArgs,
}

impl Args {
    pub(super) fn wants_json(&self) -> bool {
        self.format == Format::Json
    }
}

pub(super) fn run(args: &Args, context: &Context) -> Result<Exit, Failure> {
    let text = input::text(&args.jobs)?;
    let planned = planning::plan(&args.planning, context, &text, &args.jobs)?;
    let json = planned.file.to_json().map_err(|error| Failure::from_error(Exit::Internal, &error))?;
    if let Some(path) = &args.output {
        write_output(path, &json).map_err(|error| {
            Failure::new(Exit::Failed, format!("{}: cannot be written: {error}", path.display()))
        })?;
    }
    match args.format {
        Format::Json => print(context, &json)?,
        Format::Table => {
            let file = &planned.file;
            let terminal = context.terminal;
            print(
                context,
                &plan_table(&planned.problem, &planned.plan, &file.policy, &file.notes, terminal),
            )?;
        }
    }
    Ok(planned.exit())
}
