//! `hsched cache`: the measured speeds, shown, corrected and shared.

mod change;
mod share;
mod show;

use std::path::PathBuf;

use crate::commands::cli::Subcommand;
use crate::commands::context::{Context, Format};
use crate::error::Failure;
use crate::exit::Exit;
use crate::model::{GpuType, Precision, Speed};
use crate::spec;

/// Show, correct and share the measured speeds
///
/// Running jobs teach hsched how fast they are on each GPU type. `hsched plan` takes these speeds before those of the
/// job file. They are in `throughput.json` of the state directory, by model (the job file's key `model`), GPU
/// type and precision.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Show the measured speeds, how sure they are, and where they come from
    Show {
        /// Only this model's.
        model: Option<String>,
        /// How to print them.
        #[arg(long, value_enum, default_value_t, value_name = "FORMAT")]
        format: Format,
    },
    /// Say how fast a model is on a GPU type, until it is measured
    Set(SetArgs),
    /// Forget what is known of a model, on one GPU type or all
    Forget(ForgetArgs),
    /// Print all measured speeds, for `hsched cache import`
    Export {
        /// In which form: JSON has everything, CSV is for spreadsheets.
        #[arg(long, value_enum, default_value_t, value_name = "FORMAT")]
        format: ExportFormat,
    },
    /// Take in the speeds that somebody exported
    ///
    /// Both are kept: the later state of what each measured, and estimates over all. The order of imports does
    /// not matter, nor how often.
    Import(ImportArgs),
}

#[derive(Debug, clap::Args)]
struct SetArgs {
    /// The model, as job files have it under `model` (else the job's name).
    #[arg(value_parser = |text: &str| spec::jobs::label(text))]
    model: String,
    /// The GPU type, as the cluster spells it.
    #[arg(value_name = "GPU", value_parser = gpu_type)]
    gpu_type: GpuType,
    /// Samples per second on one GPU (644), or a step's time (`alpha_ms=80,beta_ms=4.21`).
    #[arg(value_parser = speed, allow_hyphen_values = true)]
    speed: Speed,
    /// The precision of jobs that name one.
    #[arg(long, value_name = "NAME", value_parser = precision)]
    precision: Option<Precision>,
    /// Say what would change, and change nothing.
    #[arg(long)]
    dry_run: bool,
}

#[derive(Debug, clap::Args)]
struct ForgetArgs {
    /// The model.
    model: String,
    /// The GPU type; without one all are forgotten.
    #[arg(value_name = "GPU", value_parser = gpu_type)]
    gpu_type: Option<GpuType>,
    /// Say what would be forgotten, and change nothing.
    #[arg(long)]
    dry_run: bool,
}

#[derive(Debug, clap::Args)]
struct ImportArgs {
    /// The file, JSON or CSV; - reads standard input.
    file: PathBuf,
    /// Say what would change, and change nothing.
    #[arg(long)]
    dry_run: bool,
}

/// How speeds are given to others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
enum ExportFormat {
    /// The state directory's own file.
    #[default]
    Json,
    /// A row for each batch size.
    Csv,
}

impl Subcommand for Args {
    fn wants_json(&self) -> bool {
        matches!(self.action, Action::Show { format: Format::Json, .. })
    }

    fn run(&self, context: &Context) -> Result<Exit, Failure> {
        match &self.action {
            Action::Show { model, format } => show::show(context, model.as_deref(), *format),
            Action::Set(args) => change::set(context, args),
            Action::Forget(args) => change::forget(context, args),
            Action::Export { format } => share::export(context, *format),
            Action::Import(args) => share::import(context, args),
        }
    }
}

fn gpu_type(text: &str) -> Result<GpuType, String> {
    spec::parse_type(text).map_err(|error| error.to_string())
}

fn speed(text: &str) -> Result<Speed, String> {
    spec::parse_speed(text).map_err(|error| error.to_string())
}

fn precision(text: &str) -> Result<Precision, String> {
    let known = Precision::NAMES.iter().find(|(name, _)| *name == text);
    let names = || Precision::NAMES.map(|(name, _)| name).join(", ");
    known.map(|&(_, precision)| precision).ok_or_else(|| format!("must be one of {}", names()))
}
