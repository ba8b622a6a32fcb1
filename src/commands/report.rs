//! `hsched report`: reports a rank's finished epoch, for programs in any language.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::str::FromStr;

use crate::app::context::Context;
use crate::commands::cli::Subcommand;
use crate::settings::process_environment;
use hsched_engine::store::{ReportLine, planned_samples};
use hsched_model::{Bytes, ErrorId, formats};
use hsched_ui::{Exit, Failure};

/// The equivalent in plain shell.
const WITHOUT_HSCHED: &str = r#"# The same in plain shell:
printf '{"epoch": %d, "rank": %d, "samples": %d, "compute_s": %s}\n' \
  "$epoch" "$RANK" "$samples" "$seconds" >>"$HSCHED_REPORT""#;

/// Report a finished epoch from inside a job, for training programs in any language
///
/// Run it after each epoch, in every rank or at least in rank 0: an epoch counts as done when rank 0 has reported it.
/// hsched learns the speed of the GPUs from the compute times of all ranks. The command appends one JSON line to the
/// file that `HSCHED_REPORT` names.
///
/// If hsched is not installed on the compute nodes, append the line yourself, as in the example below.
#[derive(Debug, clap::Args)]
#[command(after_help = WITHOUT_HSCHED)]
pub(super) struct Args {
    /// Number of the finished epoch, from 1.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    epoch: u64,
    /// Seconds that this rank spent computing in the epoch, without waiting for other ranks.
    #[arg(long, value_name = "S", value_parser = seconds)]
    compute_s: Option<f64>,
    /// Seconds that the epoch took.
    #[arg(long, value_name = "S", value_parser = seconds)]
    epoch_s: Option<f64>,
    /// Samples that this rank trained in the epoch [default: its share in the plan].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    samples: Option<u64>,
    /// Local batch of this rank [default: `HSCHED_LOCAL_BATCH`].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    batch: Option<u64>,
    /// Maximum GPU memory that this rank has used so far, such as 9.5GiB; in Python,
    /// `torch.cuda.max_memory_reserved()`.
    #[arg(long, value_name = "SIZE", value_parser = size)]
    max_memory: Option<Bytes>,
    /// A metric such as loss=0.7; may be given several times.
    #[arg(long = "metric", value_name = "NAME=VALUE", value_parser = metric)]
    metrics: Vec<(String, f64)>,
}

impl Subcommand for Args {
    fn bears_wrong_settings(&self) -> bool {
        true
    }

    fn run(&self, _: &Context) -> Result<Exit, Failure> {
        let job = JobEnvironment(
            process_environment()
                .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
                .collect(),
        );
        let report = PathBuf::from(job.text("HSCHED_REPORT")?);
        let rank = job.number("RANK")?;
        let batch = self.batch.map_or_else(|| job.number("HSCHED_LOCAL_BATCH"), Ok)?;
        let planned = || planned_samples(&report, job.0.get("HSCHED_JOB")?, rank);
        let line = ReportLine {
            epoch: self.epoch,
            rank,
            samples: self.samples.or_else(planned),
            compute_s: self.compute_s,
            epoch_s: self.epoch_s,
            batch: Some(batch),
            max_memory: self.max_memory.map(|size| size.0),
            metrics: self.metrics.iter().cloned().collect(),
        };
        line.append(&report).map_err(|error| {
            Failure::new(Exit::Failed, format!("cannot write {}: {error}", report.display()))
                .id(ErrorId::FileUnwritable)
                .hint("HSCHED_REPORT must name a file in a directory that this node sees")
        })?;
        Ok(Exit::Done)
    }
}

/// The environment variables of a job's rank.
struct JobEnvironment(BTreeMap<String, String>);

impl JobEnvironment {
    fn text(&self, name: &str) -> Result<&str, Failure> {
        self.0.get(name).map(String::as_str).filter(|value| !value.is_empty()).ok_or_else(|| {
            Failure::new(Exit::Usage, format!("{name} is not set: this process is not a rank of an hsched job")).id(ErrorId::NotARank)
                .hint("run it inside a job that hsched submitted: the job script sets HSCHED_REPORT, RANK and HSCHED_LOCAL_BATCH")
        })
    }

    fn number<T: FromStr>(&self, name: &str) -> Result<T, Failure> {
        let text = self.text(name)?;
        text.parse().map_err(|_| {
            Failure::new(Exit::Usage, format!("{name} is {text:?}, not a whole number"))
                .id(ErrorId::NotARank)
                .hint("the job script sets it; your program must not change it")
        })
    }
}

fn seconds(text: &str) -> Result<f64, String> {
    let number: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    if number.is_finite() && number > 0.0 { Ok(number) } else { Err("must be above 0".into()) }
}

/// Reads a size; a number alone is bytes, as programs print it.
fn size(text: &str) -> Result<Bytes, String> {
    let bytes =
        if text.bytes().all(|byte| byte.is_ascii_digit()) { format!("{text}B") } else { text.to_owned() };
    formats::parse_size(&bytes).map_err(|error| error.to_string())
}

fn metric(text: &str) -> Result<(String, f64), String> {
    let (name, value) = text.split_once('=').ok_or("write it like loss=0.7")?;
    let number: f64 = value.parse().map_err(|_| format!("{value:?} is not a number"))?;
    // JSON has no representation of NaN and infinities.
    if name.is_empty() || !number.is_finite() {
        return Err("write it like loss=0.7, with a finite number".into());
    }
    Ok((name.to_owned(), number))
}
