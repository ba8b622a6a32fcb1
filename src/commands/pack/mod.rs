//! `hsched submit --pack`: a few allocations for all jobs, run by `hsched run`; `--together`: a single one.

mod gpus;
mod room;
mod submitting;

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::app::after::refuse_unknown;
use crate::app::context::{Context, Format};
use crate::app::folders::{note_missing_workdirs, note_shared_checkpoints};
use crate::app::planning::PlanningArgs;
use crate::app::pool_size::{self, PoolRequest, PoolShape};
use crate::app::session::Session;
use crate::app::slurm::sbatch_options::refuse_options;
use crate::app::slurm::{self, permissions};
use crate::app::start_estimates::SearchArgs;
use crate::app::state;
use crate::app::submission::settled;
use crate::app::{file_kind, input, pools};
use crate::commands::cli::{json_text, print};
use crate::commands::pack::gpus::NodeGpus;
use crate::commands::pack::room::PoolRoom;
use crate::commands::run::{refuse_several_gpus, shared_slots};
use crate::settings::Feature;
use hsched_engine::pool::{ArrayPlan, PoolPlan};
use hsched_engine::render::Together;
use hsched_engine::store::{PoolFolder, StateDir};
use hsched_engine::{BackendKind, Event, Rules, State, apply};
use hsched_local::NOTICE_BEFORE;
use hsched_model::formats;
use hsched_model::{ErrorId, GpuType, Job, Seconds};
use hsched_ui::{Exit, Failure};

/// The allocations that all jobs share.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Pool")]
#[expect(clippy::struct_excessive_bools, reason = "each is an option of the command line")]
pub(super) struct PackArgs {
    /// Submit a few Slurm jobs in which `hsched run` runs all jobs, instead of one Slurm job for each.
    ///
    /// The jobs get their own state directory, which the command prints. Each Slurm job is a member of the pool: it takes runs from
    /// that directory until none are left. If it reaches its time limit before the jobs are done, its runs save, and another member
    /// or the next Slurm job resumes them.
    #[arg(long, group = "pool", requires_all = ["gpus", "time"], conflicts_with = "pin")]
    pub pack: bool,
    /// The same as --pack --at-most 1.
    #[arg(long, group = "pool", requires_all = ["gpus", "time"], conflicts_with_all = ["pack", "at_most", "array", "pin"])]
    pub together: bool,
    /// With --pack: the maximum number of Slurm jobs at a time. Fewer are used if the remaining runs need fewer.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000), requires = "pack")]
    at_most: u32,
    /// With --pack: submit the Slurm jobs as tasks of one job array, of which --at-most run at a time.
    ///
    /// The array has four times as many tasks, or as many as Slurm accepts. At the time limit of a task, the next one
    /// continues, so compute nodes need not submit jobs until the tasks are used up. All tasks have the same request.
    #[arg(long, requires = "pack")]
    array: bool,
    /// With --pack: the GPUs of each node, such as v100:4, or v100:2,t4:2, or 4 for any type; cpu:4 for runs without GPUs.
    #[arg(long, value_name = "GPUS", value_parser = NodeGpus::parse, requires = "pool")]
    gpus: Option<NodeGpus>,
    /// With --pack: the number of nodes of each Slurm job.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..), requires = "pool")]
    nodes: u32,
    /// With --pack: start NVIDIA's MPS daemon for jobs that share GPUs (key slots), as hsched run --mps does.
    #[arg(long, requires = "pool")]
    mps: bool,
    /// With --pack: the time limit of each Slurm job, such as 12h.
    #[arg(long, value_name = "TIME", value_parser = formats::parse_duration, requires = "pool")]
    time: Option<Seconds>,
}

/// Number of tasks of a job array for each that may run at a time.
const TASKS_EACH: u32 = 4;

/// Name of the script in the state directory, of the Slurm job, and of its output.
pub(super) const NAME: &str = "hsched-run";

/// Returns the path of the first script of a state directory.
pub(super) fn script(root: &Path) -> PathBuf {
    script_of(root, 1)
}

/// Returns the path of the script of one Slurm job of a pool.
fn script_of(root: &Path, seat: u32) -> PathBuf {
    root.join("runs").join(format!("{}.sbatch", name_of(seat)))
}

fn name_of(seat: u32) -> String {
    if seat == 1 { NAME.to_owned() } else { format!("{NAME}-{seat}") }
}

/// The submission of a pool.
struct PackSubmission<'a> {
    args: &'a PackArgs,
    context: &'a Context,
    jobs: Vec<Job>,
    /// Slots of each GPU.
    slots: u32,
    /// The state directory of these jobs.
    root: PathBuf,
    /// Whether the directory did not exist before.
    is_new: bool,
    sbatch: &'a [String],
    policy: &'a str,
}

/// The inputs of `hsched submit --pack` and `--together` that are not in [`PackArgs`].
pub(super) struct PackRequest<'a> {
    /// The job file.
    pub path: &'a Path,
    /// The id of the pool.
    pub run: &'a str,
    /// Options for sbatch.
    pub sbatch: &'a [String],
    /// The flags for `hsched run` in the allocation.
    pub planning: &'a PlanningArgs,
    /// The flags for the choice of queue requests.
    pub search: SearchArgs,
    pub dry_run: bool,
    pub format: Format,
}

impl PackArgs {
    /// Returns whether the jobs share allocations.
    pub(super) fn is_wanted(&self) -> bool {
        self.pack || self.together
    }

    /// Submits the jobs of a file.
    pub(super) fn submit(&self, context: &Context, request: &PackRequest<'_>) -> Result<Exit, Failure> {
        let &PackRequest { path, run, sbatch, planning, search, dry_run, format } = request;
        context.refuse_forbidden(Feature::Together)?;
        let text = input::text(path)?;
        let jobs = input::jobs(&text, path)?;
        // The state of a new pool has no other jobs.
        refuse_unknown(&jobs, &State::default())?;
        if !dry_run {
            file_kind::refuse_examples(&text, path, &jobs.iter().collect::<Vec<_>>())?;
            permissions::refuse_accounts(context, &jobs.iter().collect::<Vec<_>>())?;
        }
        refuse_options(sbatch.iter().chain(&context.settings.jobs.sbatch))?;
        if matches!(self.gpus, Some(NodeGpus::Cpus(_))) && self.nodes > 1 {
            let message = "--gpus cpu:N is for Slurm jobs of one node";
            return Err(Failure::new(Exit::Usage, message)
                .id(ErrorId::OptionsConflict)
                .hint("leave --nodes out, and raise --at-most"));
        }
        let slots = shared_slots(context, jobs.iter());
        if slots > 1 {
            refuse_several_gpus(&jobs)?;
        }
        let jobs: Vec<Job> = jobs.iter().map(|job| settled(context, job, &[])).collect();
        note_missing_workdirs(context, &jobs);
        note_shared_checkpoints(context, &jobs.iter().collect::<Vec<_>>());
        let root = pools::folder(&state::root(context)?).join(run);
        let (is_new, policy) = (!root.exists(), planning.policy.words());
        let submission =
            PackSubmission { args: self, context, jobs, slots, root, is_new, sbatch, policy: &policy };
        submission.check_time()?;
        submission.jobs.iter().try_for_each(|job| submission.room().check(job))?;
        if !matches!(submission.gpus(), NodeGpus::Cpus(_))
            && let Ok(there) = slurm::cluster(context)
            && let Some(lack) = submission.room().lack(&there.cluster)
        {
            context.warn(&lack);
        }
        let choices = submission.choices(planning, search);
        let text = |(seat, choice): (u32, &Option<PoolRequest>)| submission.text(seat, choice.as_ref());
        let texts = (1..).zip(&choices).map(text).collect::<Result<Vec<String>, Failure>>()?;
        if dry_run {
            return submission.show(run, &texts, format).map(|()| Exit::Done);
        }
        submission.keep(&texts)?;
        let allocations = match self.array_plan() {
            Some(array) => submission.submit_array(array)?,
            None => submission.submit(submission.wanted())?,
        };
        let place = shell_words::quote(&submission.root.display().to_string()).into_owned();
        let (first, script) = &allocations[0];
        let said = match format {
            Format::Table => {
                let ids: Vec<&str> = allocations.iter().map(|(id, _)| id.as_str()).collect();
                let what = if ids.len() == 1 { "job" } else { "jobs" };
                format!(
                    "submitted as {what} {}\nfollow it with: HSCHED_STATE_DIR={place} hsched status\n",
                    ids.join(", ")
                )
            }
            Format::Json => {
                let entry = |(id, script): &(String, PathBuf)| json!({ "job_id": id, "script": script });
                json_text(&json!({
                    "schema": "hsched.together/1", "run": run, "job_id": first,
                    "state_dir": submission.root, "script": script,
                    "allocations": allocations.iter().map(entry).collect::<Vec<_>>(),
                }))?
            }
        };
        print(context, &said).map(|()| Exit::Done)
    }
}

impl PackArgs {
    /// Returns the size of the job array; `None` if each Slurm job is submitted on its own.
    fn array_plan(&self) -> Option<ArrayPlan> {
        let (tasks, at_once) = (self.at_most.saturating_mul(TASKS_EACH), self.at_most);
        self.array.then_some(ArrayPlan { tasks, at_once })
    }

    /// Returns whether the Slurm jobs are members of a pool.
    fn is_pool(&self) -> bool {
        self.at_most > 1 || self.array
    }
}

impl PackSubmission<'_> {
    /// Shows the planned submission.
    fn show(&self, run: &str, texts: &[String], format: Format) -> Result<(), Failure> {
        if format == Format::Table {
            return texts.iter().take(self.wanted()).try_for_each(|text| print(self.context, text));
        }
        let entry = |(seat, text): (u32, &String)| json!({ "job_id": null, "script": script_of(&self.root, seat), "text": text });
        // The tasks of an array have the same script.
        let entries: Vec<Value> = match self.args.array_plan() {
            Some(array) => {
                (0..array.at_once).filter_map(|_| texts.first()).map(|text| entry((1, text))).collect()
            }
            None => (1..).zip(texts).take(self.wanted()).map(entry).collect(),
        };
        let shown = json_text(&json!({
            "schema": "hsched.together/1", "run": run, "job_id": null, "state_dir": self.root, "script": script(&self.root),
            "allocations": entries,
        }))?;
        print(self.context, &shown)
    }

    fn gpus(&self) -> &NodeGpus {
        self.args.gpus.as_ref().unwrap_or(&NodeGpus::Any(1))
    }

    /// Returns the GPUs of each Slurm job.
    fn room(&self) -> PoolRoom<'_> {
        PoolRoom { gpus: self.gpus(), nodes: self.args.nodes }
    }

    /// Returns the number of devices of each Slurm job; a slot is a device.
    fn devices(&self) -> u32 {
        self.room().capacity().saturating_mul(self.slots)
    }

    /// Returns how many Slurm jobs the jobs can use at the same time.
    fn wanted(&self) -> usize {
        let ready: Vec<&Job> = self.jobs.iter().filter(|job| job.after.is_empty()).collect();
        pool_size::needed(0, &ready, self.devices(), self.slots, self.args.at_most) as usize
    }

    /// Returns how long before its end Slurm signals a script.
    fn notice(&self) -> f64 {
        let defaults = &self.context.settings.jobs;
        let grace = self.jobs.iter().map(|job| job.launch.checkpoint.grace.unwrap_or(defaults.grace).0);
        grace.fold(0.0, f64::max) + NOTICE_BEFORE.0
    }

    fn check_time(&self) -> Result<(), Failure> {
        let (time, notice) = (self.args.time.unwrap_or_default(), self.notice());
        if time.0 > 2.0 * notice {
            return Ok(());
        }
        let message = format!(
            "--time {} is too short: the jobs need {} to save before its end",
            formats::duration_text(time),
            formats::duration_text(Seconds(notice))
        );
        Err(Failure::new(Exit::Usage, message)
            .id(ErrorId::TimeTooShort)
            .hint("increase --time, or set a shorter checkpoint.grace"))
    }

    /// Returns the queue request of each Slurm job, chosen as by `when`; `None` if there is no choice.
    fn choices(&self, planning: &PlanningArgs, search: SearchArgs) -> Vec<Option<PoolRequest>> {
        // The tasks of an array have the same request.
        let count = if self.args.array { 1 } else { self.args.at_most };
        let none = || (0..count).map(|_| None).collect();
        let gpus = self.gpus();
        match gpus {
            NodeGpus::Cpus(_) => return none(),
            NodeGpus::Typed(counts) if counts.len() > 1 => return none(),
            NodeGpus::Typed(_) | NodeGpus::Any(_) => {}
        }
        let room = self.room();
        let wanted = gpus.only_type();
        let may_have = |gpu_type: &GpuType, types: &[GpuType]| match wanted {
            Some(wanted) => wanted == gpu_type,
            None => room.suits(&self.jobs, gpu_type, types),
        };
        let time = self.args.time.unwrap_or_default();
        let shape =
            PoolShape { gpus: room.capacity(), wanted, may_have: &may_have, time, sbatch: self.sbatch };
        match pool_size::choose(self.context, planning, search, &shape, count) {
            Ok(choices) => choices,
            Err(failure) => {
                self.context.note(&format!("{}; the request is not chosen by the queue", failure.message));
                none()
            }
        }
    }

    /// Returns the text of a script.
    fn text(&self, seat: u32, choice: Option<&PoolRequest>) -> Result<String, Failure> {
        let utf8 = |path: &Path| {
            let text = path.to_str().map(str::to_owned);
            text.ok_or_else(|| {
                Failure::new(Exit::BadInput, format!("{}: is not UTF-8", path.display()))
                    .id(ErrorId::FileEncoding)
            })
        };
        let program = std::env::current_exe().map_err(|error| Failure::from_error(Exit::Internal, &error))?;
        let mut arguments: Vec<String> = self.policy.split(' ').map(str::to_owned).collect();
        if let NodeGpus::Cpus(count) = self.gpus() {
            arguments.extend(["--devices".to_owned(), format!("cpu:{count}")]);
        }
        arguments.extend(self.args.mps.then(|| "--mps".to_owned()));
        let together = Together {
            options: self.options(seat, choice),
            state: utf8(&self.root)?,
            script: utf8(&script_of(&self.root, seat))?,
            program: utf8(&program)?,
            array: self.args.array,
            arguments,
        };
        together.render().map_err(|error| Failure::from_error(Exit::Internal, &error))
    }

    fn options(&self, seat: u32, choice: Option<&PoolRequest>) -> Vec<Vec<String>> {
        let PackArgs { nodes, time, .. } = self.args;
        let defaults = &self.context.settings.jobs;
        // Each run needs its CPUs and memory.
        let (time, count) = (time.unwrap_or_default(), self.gpus().count().saturating_mul(self.slots));
        let cpus = self.jobs.iter().map(|job| job.launch.cpus_per_gpu.unwrap_or(defaults.cpus_per_gpu)).max();
        let memory = self.jobs.iter().filter_map(|job| job.launch.memory_per_gpu.or(defaults.memory_per_gpu));
        let output = self.context.directory.join(format!("{}.out", name_of(seat)));
        let mut output = output.display().to_string().replace('%', "%%");
        let array = self.args.array_plan().map(|array| {
            output = format!("{}-%a.out", output.strip_suffix(".out").unwrap_or(&output));
            format!("--array=1-{}%{}", array.tasks, array.at_once)
        });
        let mut options = vec![
            format!("--job-name={NAME}"),
            format!("--chdir={}", self.context.directory.display()),
            format!("--output={output}"),
            "--open-mode=append".into(),
            "--requeue".into(),
            format!("--nodes={nodes}"),
            "--ntasks-per-node=1".into(),
        ];
        options.extend(array);
        let gres = self.gpus().gres(choice.and_then(|choice| choice.gpu_type.as_ref()));
        options.extend(gres.map(|gres| format!("--gres={gres}")));
        options.extend([
            format!("--cpus-per-task={}", cpus.unwrap_or(1).saturating_mul(count)),
            format!("--time={:.0}", (time.0 / 60.0).ceil()),
            format!("--signal=B:USR1@{:.0}", self.notice()),
        ]);
        if let Some(memory) = memory.max() {
            options.push(format!("--mem={}M", memory.0.div_ceil(1 << 20).saturating_mul(count.into())));
        }
        let account = choice.and_then(|choice| choice.account.as_ref()).or(defaults.account.as_ref());
        let partition = choice.and_then(|choice| choice.partition.as_ref()).or(defaults.partition.as_ref());
        let named = [("account", account), ("partition", partition), ("qos", defaults.qos.as_ref())];
        options.extend(named.iter().filter_map(|(key, value)| Some(format!("--{key}={}", value.as_ref()?))));
        let extra = [&defaults.sbatch[..], self.sbatch].concat();
        let mut options: Vec<Vec<String>> = options.into_iter().map(|option| vec![option]).collect();
        options.extend((!extra.is_empty()).then_some(extra));
        options
    }

    /// Stores the jobs and the scripts.
    fn keep(&self, texts: &[String]) -> Result<(), Failure> {
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
        let mut scripts = Vec::new();
        for (seat, text) in (1..).zip(texts) {
            let script = script_of(&self.root, seat);
            directory.write_script(&script, text).map_err(failure)?;
            scripts.push(script);
        }
        if self.args.is_pool() {
            let (capacity, slots, array) = (self.devices(), self.slots, self.args.array_plan());
            let plan = PoolPlan { capacity, slots, scripts, sbatch: self.sbatch.to_vec(), array };
            PoolFolder::create(&self.root).and_then(|pool| pool.write_plan(&plan)).map_err(failure)?;
        }
        Ok(())
    }
}
