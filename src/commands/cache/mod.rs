//! `hsched cache`: shows, corrects and shares the measured speeds.

mod change;
mod share;
mod show;

use std::num::NonZero;
use std::path::PathBuf;

use crate::app::completions;
use crate::app::context::{Context, Format};
use crate::commands::cli::Subcommand;
use hsched_model::formats;
use hsched_model::{GpuType, Precision, Speed};
use hsched_ui::{Exit, Failure};

/// Show, edit and share the measured speeds
///
/// While jobs run, hsched measures how fast each model trains on each GPU type. `hsched plan` prefers these speeds to
/// those of the job file. They are stored in `throughput.json` in the state directory, by model (job key `model`),
/// GPU type, precision and GPUs of a replica.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    action: CacheAction,
}

#[derive(Debug, clap::Subcommand)]
enum CacheAction {
    /// Show the measured speeds with their errors and sources
    Show {
        /// Show only this model.
        model: Option<String>,
        /// Output format.
        #[arg(long, value_enum, default_value_t, value_name = "FORMAT")]
        format: Format,
    },
    /// Set the speed of a model on a GPU type, until it is measured
    Set(SetArgs),
    /// Delete the speeds of a model, on one GPU type or all
    Forget(ForgetArgs),
    /// Print all measured speeds, for `hsched cache import`
    Export {
        /// Output format: JSON is complete, CSV is for spreadsheets.
        #[arg(long, value_enum, default_value_t, value_name = "FORMAT")]
        format: ExportFormat,
    },
    /// Import speeds from `hsched cache export`
    ///
    /// Merges both sets of measurements. For each contributor and speed, the later record wins; each speed is then
    /// fitted to the records of all contributors. The order of imports does not matter, and importing a file twice
    /// changes nothing.
    Import(ImportArgs),
}

#[derive(Debug, clap::Args)]
struct SetArgs {
    /// Model: the job key `model`, or the name of the job if that is not set.
    #[arg(value_parser = |text: &str| formats::jobs::label(text), add = completions::models())]
    model: String,
    /// GPU type, as the cluster spells it.
    #[arg(value_name = "GPU", value_parser = formats::parse_type, add = completions::gpu_types())]
    gpu_type: GpuType,
    /// Samples per second on one GPU (644), or the time of a step (`alpha_ms=80,beta_ms=4.21`).
    #[arg(value_parser = formats::parse_speed, allow_hyphen_values = true)]
    speed: Speed,
    /// Precision, for jobs that set the key `precision`.
    #[arg(long, value_name = "NAME", value_parser = precision)]
    precision: Option<Precision>,
    /// Number of GPUs of the replica that has this speed, for jobs with the key `replica` [default: 1].
    #[arg(long, value_name = "N")]
    gpus: Option<NonZero<u32>>,
    /// Show what would change, and change nothing.
    #[arg(long)]
    dry_run: bool,
    /// Output format.
    #[arg(long, value_enum, default_value_t, value_name = "FORMAT")]
    format: Format,
}

#[derive(Debug, clap::Args)]
struct ForgetArgs {
    /// Model.
    #[arg(add = completions::models())]
    model: String,
    /// GPU type [default: all].
    #[arg(value_name = "GPU", value_parser = formats::parse_type, add = completions::gpu_types())]
    gpu_type: Option<GpuType>,
    /// Show what would be deleted, and change nothing.
    #[arg(long)]
    dry_run: bool,
    /// Output format.
    #[arg(long, value_enum, default_value_t, value_name = "FORMAT")]
    format: Format,
}

#[derive(Debug, clap::Args)]
struct ImportArgs {
    /// File to import (JSON or CSV); - reads standard input.
    file: PathBuf,
    /// Show what would change, and change nothing.
    #[arg(long)]
    dry_run: bool,
    /// Output format.
    #[arg(long, value_enum, default_value_t, value_name = "FORMAT")]
    format: Format,
}

/// Export formats of speeds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
enum ExportFormat {
    /// The format of the state directory.
    #[default]
    Json,
    /// One row per batch size.
    Csv,
}

impl Subcommand for Args {
    fn wants_json(&self) -> bool {
        let format = match &self.action {
            CacheAction::Show { format, .. } => *format,
            CacheAction::Set(args) => args.format,
            CacheAction::Forget(args) => args.format,
            CacheAction::Import(args) => args.format,
            CacheAction::Export { .. } => Format::Table,
        };
        format == Format::Json
    }

    fn run(&self, context: &Context) -> Result<Exit, Failure> {
        match &self.action {
            CacheAction::Show { model, format } => show::show(context, model.as_deref(), *format),
            CacheAction::Set(args) => change::set(context, args),
            CacheAction::Forget(args) => change::forget(context, args),
            CacheAction::Export { format } => share::export(context, *format),
            CacheAction::Import(args) => share::import(context, args),
        }
    }
}

fn precision(text: &str) -> Result<Precision, String> {
    let known = Precision::NAMES.iter().find(|(name, _)| *name == text);
    let names = || Precision::NAMES.map(|(name, _)| name).join(", ");
    known.map(|&(_, precision)| precision).ok_or_else(|| format!("must be one of {}", names()))
}
