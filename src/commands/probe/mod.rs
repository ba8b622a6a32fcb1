//! `hsched probe`: short jobs that measure speeds that are unknown.

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::app::context::{Context, Format};
use crate::app::input::{self, ClusterWithNotes};
use crate::app::offer::keep_partitions;
use crate::app::probing::{ProbeResult, Prober};
use crate::app::wanted::{MissingSpeed, wanted};
use crate::app::{file_kind, slurm, speeds, submission};
use crate::commands::cli::{Subcommand, json_text, print};
use hsched_engine::live::Interrupts;
use hsched_model::formats;
use hsched_model::formats::ValueError;
use hsched_model::{Cluster, ErrorId, GpuType, Job, Seconds};
use hsched_plan::Problem;
use hsched_plan::throughput::Cache;
use hsched_ui::{Align, Exit, Failure, Table};

/// Measure the speed of jobs on GPU types without a known speed, with short Slurm jobs
///
/// Runs the command of each job on one GPU (or one replica) of every type without a known speed, with `HSCHED_EPOCHS=1` and up to two
/// batch sizes: the global batch (or `max_batch`) and a quarter of it. Stops the command when it has reported an
/// epoch or a probe. Stores each measurement when its probe ends.
///
/// Programs that call `training.probe` of `hsched_ddp` measure both batch sizes in one run of a few seconds. Probes
/// do not touch the job's own checkpoints. Ctrl-C cancels the probes that have not ended.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Job file (YAML); - reads standard input.
    jobs: PathBuf,
    /// Probe only this job; may be given several times.
    #[arg(long = "job", short = 'j', value_name = "NAME")]
    names: Vec<String>,
    /// Also probe GPU types whose speed is known only from the job file.
    #[arg(long)]
    all: bool,
    /// Time limit of a probe, such as 5m; at least 1m.
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = minutes)]
    time: Seconds,
    /// Show what would be measured, without submitting it.
    #[arg(long)]
    dry_run: bool,
    /// Output format.
    #[arg(long, value_enum, default_value_t, value_name = "FORMAT")]
    format: Format,
}

impl Subcommand for Args {
    fn wants_json(&self) -> bool {
        self.format == Format::Json
    }

    fn run(&self, context: &Context) -> Result<Exit, Failure> {
        let interrupts = Interrupts::take().map_err(|error| Failure::from_error(Exit::Failed, &error))?;
        let jobs = self.choose(context)?;
        let ClusterWithNotes { mut cluster, mut notes } = slurm::cluster(context)?;
        keep_partitions(&mut cluster, &jobs, context, &mut notes)?;
        for note in &notes {
            context.note(note);
        }
        let cache = speeds::load(context)?.cache;
        let types = Problem::types_of(&cluster);
        let wanted = wanted(&jobs, &types, &cache, self.all);
        let is_rejected = reject(context, &jobs, &types)?;
        if self.dry_run {
            let exit = self.show(context, &wanted, &[], &cache)?;
            return Ok(if is_rejected { Exit::Unplaced } else { exit });
        }
        let found = self.measure(context, &cluster, wanted.clone(), interrupts)?;
        let cache = speeds::load(context)?.cache;
        let exit = self.show(context, &wanted, &found, &cache)?;
        Ok(if is_rejected && exit == Exit::Done { Exit::Unplaced } else { exit })
    }
}

impl Args {
    /// Returns the selected jobs, each with the options and settings of this command.
    fn choose(&self, context: &Context) -> Result<Vec<Job>, Failure> {
        let text = input::text(&self.jobs)?;
        let mut jobs = input::jobs(&text, &self.jobs)?;
        if !self.dry_run {
            file_kind::refuse_examples(&text, &self.jobs, &jobs.iter().collect::<Vec<_>>())?;
        }
        if let Some(name) = self.names.iter().find(|name| jobs.iter().all(|job| job.name.as_str() != *name)) {
            let failure = Failure::new(Exit::Usage, format!("--job {name}: no such job in the job file"))
                .id(ErrorId::UnknownJob);
            let near = formats::nearest(name, jobs.iter().map(|job| job.name.as_str()));
            return Err(match near {
                Some(near) => failure.hint(format!("did you mean {near}?")),
                None => failure,
            });
        }
        jobs.retain(|job| self.names.is_empty() || self.names.iter().any(|name| job.name.as_str() == name));
        Ok(jobs.iter().map(|job| submission::settled(context, job, &[])).collect())
    }

    /// Measures in rounds, with at most one probe of each speed at a time. The first probe uses the largest
    /// batch; a smaller one follows only if the first did not measure two batch sizes.
    fn measure(
        &self,
        context: &Context,
        cluster: &Cluster,
        mut wanted: Vec<MissingSpeed>,
        interrupts: Interrupts,
    ) -> Result<Vec<ProbeResult>, Failure> {
        let prober = Prober { context, cluster, limit: self.time, interrupts };
        let mut all: Vec<ProbeResult> = Vec::new();
        while !wanted.is_empty() {
            let found = prober.round(&wanted)?;
            for found in &found {
                let place = wanted.iter().position(|candidate| candidate.key() == found.key);
                let Some(place) = place else { continue };
                let missing_speed = &mut wanted[place];
                missing_speed.batches.remove(0);
                if missing_speed.batches.is_empty() || found.trouble.is_some() || found.sizes() > 1 {
                    wanted.remove(place);
                }
            }
            all.extend(found);
        }
        Ok(all)
    }

    /// Prints the measurements, or with `--dry-run` the planned ones.
    fn show(
        &self,
        context: &Context,
        wanted: &[MissingSpeed],
        found: &[ProbeResult],
        cache: &Cache,
    ) -> Result<Exit, Failure> {
        let trouble = |missing_speed: &MissingSpeed| {
            found.iter().find(|found| found.key == missing_speed.key())?.trouble.as_deref()
        };
        let missed = wanted.iter().any(|candidate| trouble(candidate).is_some());
        if self.format == Format::Json {
            let probe = |missing_speed: &MissingSpeed| -> Value {
                let key = missing_speed.key();
                let known = cache.estimate(&key);
                let mut probe = json!({
                    "job": missing_speed.job.name.as_str(), "model": missing_speed.job.model, "gpu_type": missing_speed.gpu_type.as_str(),
                    "batches": missing_speed.batches, "speed": known.map(|known| known.speed.to_string()),
                    "message": trouble(missing_speed),
                });
                if key.gpus > 1 {
                    probe["gpus"] = key.gpus.into();
                }
                probe
            };
            let probes: Vec<Value> = wanted.iter().map(probe).collect();
            print(context, &json_text(&json!({ "schema": "hsched.probe/1", "probes": probes }))?)?;
        } else if wanted.is_empty() {
            print(context, "Nothing to measure: all speeds are known.\n")?;
        } else {
            let mut table = Table::new(&[
                ("JOB", Align::Left),
                ("GPU", Align::Left),
                ("BATCHES", Align::Left),
                ("SPEED", Align::Left),
            ]);
            for missing_speed in wanted {
                let batches: Vec<String> = missing_speed.batches.iter().map(u64::to_string).collect();
                let speed = match (trouble(missing_speed), cache.estimate(&missing_speed.key())) {
                    (Some(trouble), _) => trouble.to_owned(),
                    (None, Some(known)) => format!("{} ({known})", known.speed),
                    (None, None) => "to be measured".to_owned(),
                };
                table.row([
                    missing_speed.job.name.to_string(),
                    missing_speed.key().place(),
                    batches.join(", "),
                    speed,
                ]);
            }
            print(context, &table.show(context.terminal))?;
        }
        Ok(if missed { Exit::Failed } else { Exit::Done })
    }
}

/// Warns of jobs that can use no GPU type of the cluster, and returns whether there are any.
///
/// # Errors
/// If there are no other jobs.
fn reject(context: &Context, jobs: &[Job], types: &[GpuType]) -> Result<bool, Failure> {
    let rejected = jobs.iter().filter_map(|job| Some((job, job.none_here(types)?)));
    let reasons: Vec<String> = rejected.map(|(job, why)| format!("{}: {why}", job.name)).collect();
    if !reasons.is_empty() && reasons.len() == jobs.len() {
        let message = format!("cannot measure anything: {}", reasons.join("; "));
        return Err(Failure::new(Exit::Unplaced, message).id(ErrorId::NoGpu));
    }
    for reason in &reasons {
        context.warn(reason);
    }
    Ok(!reasons.is_empty())
}

fn minutes(text: &str) -> Result<Seconds, ValueError> {
    let time = formats::parse_duration(text)?;
    if time.0 >= 60.0 {
        Ok(time)
    } else {
        Err(ValueError::new("must be at least 1m").id(ErrorId::NumberRange))
    }
}
