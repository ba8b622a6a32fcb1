//! `hsched trace`: converts traces of clusters and other programs into job files for `hsched simulate`.

mod accounts;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::app::completions;
use crate::app::context::Context;
use crate::app::input;
use crate::commands::cli::{Subcommand, print};
use hsched_lab::trace::table::ParsedEntries;
use hsched_lab::trace::{self, Applications, GavelSpeeds, RecordedJob, TraceError};
use hsched_model::formats;
use hsched_model::{ErrorId, GpuType, Job};
use hsched_ui::{Exit, Failure, write_output};

/// Convert job records of a cluster, or a published trace, into a trace for `hsched simulate`
///
/// Writes a job file with the keys `arrival` and `gpus`. Skips lines that it cannot read, and lists them with their
/// numbers.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    source: TraceSource,
}

#[derive(Debug, clap::Subcommand)]
enum TraceSource {
    /// Convert the output of `sacct -P` or `sacct --json`, for example to simulate your own last month
    ///
    /// Each job that ran on GPUs becomes a job of fixed size. Its work is its run time on the GPU type that it had:
    /// `sacct --allusers --allocations --parsable2 --starttime=now-30days
    /// --format=JobID,JobName,State,Submit,Start,End,Elapsed,AllocTRES | hsched trace from-sacct -`
    #[command(name = "from-sacct")]
    Sacct(SacctArgs),
    /// Convert CSV with the columns `submit_s`, `duration_s` and `num_gpus`, such as the Philly trace
    #[command(name = "from-philly")]
    Philly(PhillyArgs),
    /// Convert the tasks of Alibaba's GPU clusters (CSV with `num_gpu`, `gpu_spec`, `submit_s`, `start_s` and
    /// `end_s`)
    ///
    /// A task has the same run time on each GPU type that it names; a task that names none may use all types in the
    /// file. A fraction of a GPU counts as a whole GPU.
    #[command(name = "from-alibaba")]
    Alibaba(AlibabaArgs),
    /// Convert a trace of Gavel, with its table of measured speeds
    #[command(name = "from-gavel")]
    Gavel(GavelArgs),
    /// Convert a workload of Sia, with its profiles
    #[command(name = "from-sia")]
    Sia(SiaArgs),
}

#[derive(Debug, clap::Args)]
struct WrittenTrace {
    /// Write the trace to this file [default: standard output].
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
struct SacctArgs {
    /// Output of sacct: JSON, or a table with a header and `|`, commas or tabs between the columns; - reads standard
    /// input.
    file: PathBuf,
    /// GPU type of jobs whose record names no type.
    #[arg(long = "type", value_name = "GPU", value_parser = formats::parse_type, add = completions::gpu_types())]
    gpu_type: Option<GpuType>,
    /// Let jobs use other GPU types, at speeds estimated from the table of GPUs (`hsched gpus`).
    #[arg(long)]
    estimate: bool,
    #[command(flatten)]
    written: WrittenTrace,
}

#[derive(Debug, clap::Args)]
struct PhillyArgs {
    /// The CSV file; - reads standard input.
    file: PathBuf,
    /// GPU type of the run times in the file.
    #[arg(long = "type", value_name = "GPU", value_parser = formats::parse_type, add = completions::gpu_types())]
    gpu_type: GpuType,
    /// Let jobs use other GPU types, at speeds estimated from the table of GPUs (`hsched gpus`).
    #[arg(long)]
    estimate: bool,
    #[command(flatten)]
    written: WrittenTrace,
}

#[derive(Debug, clap::Args)]
struct AlibabaArgs {
    /// The CSV file; - reads standard input.
    file: PathBuf,
    #[command(flatten)]
    written: WrittenTrace,
}

#[derive(Debug, clap::Args)]
struct GavelArgs {
    /// The trace: Gavel's tab-separated lines, or CSV with `job_type`, `scale_factor`, `total_steps` and
    /// `arrival_s`; - reads standard input.
    file: PathBuf,
    /// Steps per second by job type, scale factor and GPU type: the JSON of Gavel, or CSV.
    #[arg(long, value_name = "FILE")]
    throughputs: PathBuf,
    #[command(flatten)]
    written: WrittenTrace,
}

#[derive(Debug, clap::Args)]
struct SiaArgs {
    /// The workload: CSV with `submit_s` (or time), application, `num_gpus` and `batch_size`; - reads standard input.
    file: PathBuf,
    /// Step times on one GPU: CSV with model, gpu, `local_bsz` and `step_time_s`.
    #[arg(long, value_name = "FILE")]
    profiles: PathBuf,
    /// Size of the training of each application: CSV with application, `samples_per_epoch`, epochs and
    /// `model_size_mb`.
    #[arg(long, value_name = "FILE")]
    applications: PathBuf,
    /// Read only this workload, from a file with the columns trace and workload, such as newtrace/1.
    #[arg(long, value_name = "TRACE/N")]
    workload: Option<String>,
    #[command(flatten)]
    written: WrittenTrace,
}

impl Subcommand for Args {
    fn run(&self, context: &Context) -> Result<Exit, Failure> {
        let (file, written) = match &self.source {
            TraceSource::Sacct(args) => (&args.file, &args.written),
            TraceSource::Philly(args) => (&args.file, &args.written),
            TraceSource::Alibaba(args) => (&args.file, &args.written),
            TraceSource::Gavel(args) => (&args.file, &args.written),
            TraceSource::Sia(args) => (&args.file, &args.written),
        };
        let text = input::text(file)?;
        let read = self.source.read(&text).map_err(|error| match error {
            Wrong::Trace(error) => wrong(file, &error),
            Wrong::Other(failure) => failure,
        })?;
        let jobs = told(context, file, read)?;
        let text = formats::jobs::to_yaml(&jobs);
        write(context, written.output.as_deref(), &text)
    }
}

/// Why a source cannot be read.
enum Wrong {
    /// The trace itself is invalid.
    Trace(TraceError),
    Other(Failure),
}

impl From<TraceError> for Wrong {
    fn from(error: TraceError) -> Self {
        Self::Trace(error)
    }
}

impl From<Failure> for Wrong {
    fn from(failure: Failure) -> Self {
        Self::Other(failure)
    }
}

impl TraceSource {
    fn read(&self, text: &str) -> Result<ParsedEntries<Job>, Wrong> {
        Ok(match self {
            Self::Sacct(args) => whole(accounts::parse(text, args.gpu_type.as_ref())?, args.estimate),
            Self::Philly(args) => whole(trace::philly(text, &args.gpu_type)?, args.estimate),
            Self::Alibaba(_) => whole(trace::alibaba(text)?, false),
            Self::Gavel(args) => trace::gavel(text, &gavel_speeds(&args.throughputs)?)?,
            Self::Sia(args) => {
                let (profiles, applications) =
                    (input::text(&args.profiles)?, input::text(&args.applications)?);
                let applications = Applications::parse(&profiles, &applications)
                    .map_err(|error| wrong(&args.profiles, &error))?;
                trace::sia(text, &applications, args.workload.as_deref())?
            }
        })
    }
}

/// Returns the speeds in a file of Gavel.
///
/// # Errors
/// If it cannot be read or is invalid.
pub(super) fn gavel_speeds(path: &Path) -> Result<GavelSpeeds, Failure> {
    GavelSpeeds::parse(&input::text(path)?).map_err(|error| wrong(path, &error))
}

fn whole(read: ParsedEntries<RecordedJob>, estimate: bool) -> ParsedEntries<Job> {
    let ParsedEntries { entries, bad, skipped } = read;
    ParsedEntries { entries: trace::recorded_jobs(entries, estimate), bad, skipped }
}

pub(super) fn wrong(path: &Path, error: &TraceError) -> Failure {
    Failure::new(Exit::BadInput, format!("{}: {error}", input::name(path))).id(ErrorId::TraceFile)
}

/// Maximum number of listed lines.
const LISTED: usize = 20;

/// Reports the skipped lines and returns the jobs.
///
/// # Errors
/// If there are no jobs.
fn told(context: &Context, file: &Path, read: ParsedEntries<Job>) -> Result<Vec<Job>, Failure> {
    let say = |line: &str| context.terminal.say(line);
    for bad in read.bad.iter().take(LISTED) {
        say(&format!("{}: {bad}", input::name(file)));
    }
    if let Some(more) = read.bad.len().checked_sub(LISTED + 1) {
        say(&format!("unreadable lines beyond these: {}", more + 1));
    }
    for (reason, count) in &read.skipped {
        say(&format!("left out: {count} ({reason})"));
    }
    let jobs = read.entries;
    if jobs.is_empty() {
        let message = format!("{}: no job can be converted", input::name(file));
        return Err(Failure::new(Exit::BadInput, message).id(ErrorId::TraceFile));
    }
    let types: BTreeSet<&str> =
        jobs.iter().flat_map(|job| job.throughput.keys().map(GpuType::as_str)).collect();
    let types = types.into_iter().collect::<Vec<_>>().join(", ");
    let count = jobs.len();
    say(&format!("{count} {} on {types}", if count == 1 { "job" } else { "jobs" }));
    if jobs.iter().any(|job| job.estimate.is_some()) {
        say("Speeds on other GPU types are estimated from the table of GPUs: expect errors of about 30 %.");
    }
    Ok(jobs)
}

/// Writes a trace.
///
/// # Errors
/// If the file or standard output cannot be written.
pub(super) fn write(context: &Context, output: Option<&Path>, text: &str) -> Result<Exit, Failure> {
    match output {
        Some(path) => write_output(path, text).map_err(|error| {
            Failure::new(Exit::Failed, format!("cannot write {}: {error}", path.display()))
                .id(ErrorId::FileUnwritable)
        })?,
        None => print(context, text)?,
    }
    Ok(Exit::Done)
}
