//! `hsched submit --together`: one allocation for all jobs, in which `hsched run` runs them.

use std::path::{Path, PathBuf};

use serde_json::json;

use crate::app::context::{Context, Format};
use crate::app::folders::{note_missing_workdirs, note_shared_checkpoints};
use crate::app::sbatch_options::refuse_options;
use crate::app::session::Session;
use crate::app::state;
use crate::app::submission::settled;
use crate::app::{file_kind, input, permissions, replicas, slurm};
use crate::commands::cli::{json_text, print};
use crate::error::Failure;
use crate::exit::Exit;
use crate::local::Devices;
use crate::settings::Feature;
use hsched_engine::render::Together;
use hsched_engine::store::StateDir;
use hsched_engine::{BackendKind, Event, Rules, apply};
use hsched_model::formats;
use hsched_model::{ErrorId, GpuType, Job, Seconds};

/// The allocation that all jobs share.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Together")]
pub(super) struct TogetherArgs {
    /// Submit one Slurm job in which `hsched run` runs all jobs, instead of one Slurm job for each.
    ///
    /// The jobs get a state directory of their own, which the command prints. If the time limit is reached
    /// before the jobs are done, they save, and the Slurm job submits the next one.
    #[arg(long, requires_all = ["gpus", "time"])]
    pub together: bool,
    /// With --together: the GPUs of each node, such as v100:4 or v100:2,t4:2.
    #[arg(long, value_name = "TYPE:COUNT,…", value_parser = clap::builder::ValueParser::from(Devices::parse), requires = "together")]
    gpus: Option<Counts>,
    /// With --together: the number of nodes.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..), requires = "together")]
    nodes: u32,
    /// With --together: the time limit of the allocation, such as 12h.
    #[arg(long, value_name = "TIME", value_parser = formats::parse_duration, requires = "together")]
    time: Option<Seconds>,
}

type Counts = Vec<(GpuType, u32)>;

/// The name of the script in the state directory, of the Slurm job, and of its output.
pub(super) const NAME: &str = "hsched-run";

/// How long before its end Slurm tells the script, beyond what the jobs need to save. hsched knows the end, too.
const NOTICE_S: f64 = 25.0;

/// Returns the path of the script of a state directory.
pub(super) fn script(root: &Path) -> PathBuf {
    root.join("runs").join(format!("{NAME}.sbatch"))
}

/// What is submitted.
struct Submission<'a> {
    args: &'a TogetherArgs,
    context: &'a Context,
    jobs: Vec<Job>,
    /// The state directory of these jobs.
    root: PathBuf,
    sbatch: &'a [String],
    policy: &'a str,
}

impl TogetherArgs {
    /// Submits the jobs of a file; `run` is the id of the allocation, `policy` the flags for its hsched run.
    pub(super) fn submit(
        &self,
        context: &Context,
        (path, run, sbatch): (&Path, &str, &[String]),
        policy: &str,
        (dry_run, format): (bool, Format),
    ) -> Result<Exit, Failure> {
        context.refuse_forbidden(Feature::Together)?;
        let text = input::text(path)?;
        let jobs = input::jobs(&text, path)?;
        replicas::refuse(&jobs, "hsched submit --together")?;
        if !dry_run {
            file_kind::refuse_examples(&text, path, &jobs.iter().collect::<Vec<_>>())?;
            permissions::refuse_accounts(context, &jobs.iter().collect::<Vec<_>>())?;
        }
        refuse_options(sbatch.iter().chain(&context.settings.jobs.sbatch))?;
        let jobs: Vec<Job> = jobs.iter().map(|job| settled(context, job, &[])).collect();
        note_missing_workdirs(context, &jobs);
        note_shared_checkpoints(context, &jobs.iter().collect::<Vec<_>>());
        let root = state::root(context)?.join("together").join(run);
        let submission = Submission { args: self, context, jobs, root, sbatch, policy };
        let text = submission.text()?;
        if dry_run {
            return print(context, &text).map(|()| Exit::Done);
        }
        submission.keep(&text)?;
        let id = slurm::submit(context, &submission.script(), sbatch).map_err(|failure| {
            let kept = format!("the jobs are in {}", submission.root.display());
            failure.hint(kept)
        })?;
        let place = shell_words::quote(&submission.root.display().to_string()).into_owned();
        let said = match format {
            Format::Table => {
                format!("submitted as job {id}\nfollow it with: HSCHED_STATE_DIR={place} hsched status\n")
            }
            Format::Json => json_text(&json!({
                "schema": "hsched.together/1", "run": run, "job_id": id.to_string(),
                "state_dir": submission.root, "script": submission.script(),
            }))?,
        };
        print(context, &said).map(|()| Exit::Done)
    }
}

impl Submission<'_> {
    fn script(&self) -> PathBuf {
        script(&self.root)
    }

    /// Returns the text of the script.
    fn text(&self) -> Result<String, Failure> {
        let utf8 = |path: &Path| {
            let text = path.to_str().map(str::to_owned);
            text.ok_or_else(|| {
                Failure::new(Exit::BadInput, format!("{}: is not UTF-8", path.display()))
                    .id(ErrorId::FileEncoding)
            })
        };
        let program = std::env::current_exe().map_err(|error| Failure::from_error(Exit::Internal, &error))?;
        let together = Together {
            options: self.options()?,
            state: utf8(&self.root)?,
            script: utf8(&self.script())?,
            program: utf8(&program)?,
            arguments: self.policy.split(' ').map(str::to_owned).collect(),
        };
        together.render().map_err(|error| Failure::from_error(Exit::Internal, &error))
    }

    fn options(&self) -> Result<Vec<Vec<String>>, Failure> {
        let TogetherArgs { gpus, nodes, time, .. } = self.args;
        let defaults = &self.context.settings.jobs;
        let gpus = gpus.as_deref().unwrap_or_default();
        let (time, count) = (time.unwrap_or_default(), gpus.iter().map(|(_, count)| count).sum::<u32>());
        let gres: Vec<String> =
            gpus.iter().map(|(gpu_type, count)| format!("gpu:{gpu_type}:{count}")).collect();
        let grace = self.jobs.iter().map(|job| job.launch.checkpoint.grace.unwrap_or(defaults.grace).0);
        let notice = grace.fold(0.0, f64::max) + NOTICE_S;
        if time.0 <= 2.0 * notice {
            let message = format!(
                "--time {} is too short: the jobs need {} to save before its end",
                formats::duration_text(time),
                formats::duration_text(Seconds(notice))
            );
            return Err(Failure::new(Exit::Usage, message)
                .id(ErrorId::TimeTooShort)
                .hint("increase --time, or set a shorter checkpoint.grace"));
        }
        let cpus = self.jobs.iter().map(|job| job.launch.cpus_per_gpu.unwrap_or(defaults.cpus_per_gpu)).max();
        let memory = self.jobs.iter().filter_map(|job| job.launch.memory_per_gpu.or(defaults.memory_per_gpu));
        let output = self.context.directory.join(format!("{NAME}.out"));
        let mut options = vec![
            format!("--job-name={NAME}"),
            format!("--chdir={}", self.context.directory.display()),
            format!("--output={}", output.display().to_string().replace('%', "%%")),
            "--open-mode=append".into(),
            "--requeue".into(),
            format!("--nodes={nodes}"),
            "--ntasks-per-node=1".into(),
            format!("--gres={}", gres.join(",")),
            format!("--cpus-per-task={}", cpus.unwrap_or(1).saturating_mul(count)),
            format!("--time={:.0}", (time.0 / 60.0).ceil()),
            format!("--signal=B:USR1@{notice:.0}"),
        ];
        if let Some(memory) = memory.max() {
            options.push(format!("--mem={}M", memory.0.div_ceil(1 << 20).saturating_mul(count.into())));
        }
        let named =
            [("account", &defaults.account), ("partition", &defaults.partition), ("qos", &defaults.qos)];
        options.extend(named.iter().filter_map(|(key, value)| Some(format!("--{key}={}", value.as_ref()?))));
        let extra = [&defaults.sbatch[..], self.sbatch].concat();
        let mut options: Vec<Vec<String>> = options.into_iter().map(|option| vec![option]).collect();
        options.extend((!extra.is_empty()).then_some(extra));
        Ok(options)
    }

    /// Writes the jobs and the script down.
    fn keep(&self, text: &str) -> Result<(), Failure> {
        let failure = |error| state::failure(&error);
        let directory = StateDir::open(&self.root).map_err(failure)?;
        let rules = Rules { backend: BackendKind::Devices, ..state::rules(self.context) };
        let mut session = Session::of_devices(self.context, &directory, rules, false)?;
        let (at, mut events) = (state::now(self.context), Vec::new());
        for job in &self.jobs {
            let event = Event::Added { job: Box::new(job.clone()), restart: false };
            apply(&mut session.state, at, &event, &session.rules);
            events.push(event);
        }
        session.keep(at, &events, &[]).map_err(failure)?;
        directory.write_script(&self.script(), text).map_err(failure)
    }
}
