//! Job scripts of a run: the checked plan with this user's and site's paths.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::live::{LiveError, Tag};
use crate::render::{self, Launcher, RunFacts, Template, is_constraint, render};
use crate::store::{StateDir, claim_file, fence_folder, report_folder, run_folder};
use crate::{PlannedSubmission, Run, SubmissionKey, named_ranks};
use hsched_model::{Job, JobDefaults, NodeName, Selector, Walltime};

/// The data of the user and the site that job scripts need.
#[derive(Clone, Debug)]
pub struct ScriptContext {
    /// Defaults for jobs that do not set a value.
    pub defaults: JobDefaults,
    pub template: Template,
    /// The state directory, absolute.
    pub state: PathBuf,
    /// Directory of jobs that set none; absolute.
    pub directory: PathBuf,
    /// Options passed unchanged to sbatch on its command line.
    pub sbatch: Vec<String>,
    /// How ranks are started on GPUs already allocated; `None` if the script requests its GPUs from Slurm.
    pub inside: Option<Launcher>,
}

/// A job's script, or why it has none.
#[derive(Clone, Debug, PartialEq)]
pub struct JobScript {
    /// The submission for which the script was written.
    pub of: SubmissionKey,
    pub text: Result<String, String>,
    /// The directory in which the script runs.
    pub workdir: PathBuf,
    pub walltime: Walltime,
    /// Notes for the user, one sentence each.
    pub notes: Vec<String>,
}

impl JobScript {
    /// Returns the file to which the job writes.
    pub fn output(&self) -> PathBuf {
        self.workdir.join(format!("{}.out", self.of.name()))
    }
}

/// A run's scripts, on disk.
pub struct PreparedRun {
    /// The run's folder.
    pub folder: PathBuf,
    pub scripts: Vec<JobScript>,
}

impl PreparedRun {
    /// Writes the plan and the scripts of a run to disk.
    ///
    /// # Errors
    /// If a path cannot be written into a script, the run's id is taken, or a file cannot be written.
    pub fn write(run: &Run, site: &ScriptContext, directory: &StateDir) -> Result<Self, LiveError> {
        let wrong = |message: String| LiveError::Scripts { message };
        let scripts = scripts(run, site).map_err(wrong)?;
        let plan = run.file.to_json().map_err(|error| wrong(error.to_string()))?;
        let texts =
            scripts.iter().filter_map(|script| Some((script_name(&script.of), script.text.as_deref().ok()?)));
        let helpers = site.template.helpers.iter().map(|(name, text)| ((*name).to_owned(), text.as_str()));
        let files = texts.chain([("plan.json".to_owned(), plan.as_str())]).chain(helpers);
        let files: Vec<(String, &[u8])> = files.map(|(name, text)| (name, text.as_bytes())).collect();
        let folder = directory.create_run(&run.id, &files)?;
        Ok(Self { folder, scripts })
    }

    /// Returns a submission's script, if the run has one.
    pub fn script(&self, of: &SubmissionKey) -> Option<&JobScript> {
        self.scripts.iter().find(|script| script.of == *of)
    }

    /// Returns the path of a submission's script.
    pub fn path(&self, of: &SubmissionKey) -> PathBuf {
        self.folder.join(script_name(of))
    }
}

fn script_name(of: &SubmissionKey) -> String {
    format!("{}.sbatch", of.name())
}

/// Returns the scripts of the run's submissions.
///
/// # Errors
/// If a path cannot be written into a script.
pub fn scripts(run: &Run, site: &ScriptContext) -> Result<Vec<JobScript>, String> {
    let plan = run.file.id().map_err(|error| error.to_string())?;
    let mut untyped = run.file.untyped();
    if site.sbatch.iter().any(|word| is_constraint(word)) {
        for selector in untyped.values_mut() {
            *selector = Selector::Name;
        }
    }
    let script = |intent: &PlannedSubmission| {
        let (workdir, notes) = workdir(&run.jobs[intent.job], site);
        let placed = PendingScript { run, intent, plan: &plan, untyped: &untyped };
        let (text, walltime) = (placed.text(&workdir, site)?, placed.walltime(site));
        Ok(JobScript { of: run.key(intent), text, workdir, walltime, notes })
    };
    run.submissions.iter().map(script).collect()
}

/// A submission of a run, with the data for its script.
struct PendingScript<'a> {
    run: &'a Run,
    intent: &'a PlannedSubmission,
    plan: &'a str,
    untyped: &'a BTreeMap<NodeName, Selector>,
}

impl PendingScript<'_> {
    fn walltime(&self, site: &ScriptContext) -> Walltime {
        self.run.walltime(self.intent, &site.defaults)
    }

    /// Returns the script's text; the inner error concerns this job alone.
    fn text(&self, workdir: &Path, site: &ScriptContext) -> Result<Result<String, String>, String> {
        let Self { run, intent, plan, untyped } = *self;
        let (rest, done) = (&run.jobs[intent.job], run.epochs_done[intent.job]);
        // The plan covers the remaining epochs; ranks get the total.
        let mut job = Job { epochs: rest.epochs + done, ..rest.clone() };
        if let Some(queue_choice) = &intent.queue_choice {
            let launch = &mut job.launch;
            launch.account = queue_choice.account.clone().or(launch.account.take());
            launch.partition = queue_choice.partition.clone().or(launch.partition.take());
        }
        let ranks = named_ranks(&run.problem, &intent.placement);
        let others = run
            .submissions
            .iter()
            .filter(|submission| submission.job == intent.job && submission.copy != intent.copy);
        let others = others.map(|submission| named_ranks(&run.problem, &submission.placement));
        let others: Vec<_> = others.chain(intent.spares.iter().cloned()).collect();
        let key = run.key(intent);
        let checkpoints = format!("checkpoints/{}", job.name);
        let checkpoints = job.launch.checkpoint.dir.as_deref().unwrap_or(&checkpoints);
        let facts = RunFacts {
            run: &run.id,
            plan,
            name: key.name(),
            comment: intent
                .joins
                .as_deref()
                .map_or_else(|| Tag::of(&key).to_comment(), |race| Tag::of(&key).to_comment_in_race(race)),
            ranks: &ranks,
            others: &others,
            pinned: run.file.pinned,
            inside: site.inside,
            walltime: self.walltime(site),
            epochs_done: done,
            checkpoint_dir: utf8(&absolute(workdir, checkpoints))?,
            helper_dir: utf8(&run_folder(&site.state, &run.id))?,
            fence: utf8(&fence_folder(
                &site.state,
                job.name.as_str(),
                // Submissions that race for the job count as one. Other copies train in parallel, so each has
                // its own fence: only the next submission with its number ends its remaining processes.
                Some(intent.copy).filter(|copy| *copy > 0 && !intent.race),
            ))?,
            claim: intent
                .race
                .then(|| {
                    let race = intent.joins.as_deref().unwrap_or(&run.id);
                    let after = intent.follows.as_ref().map(|piece| piece.job_id);
                    utf8(&claim_file(&site.state, race, job.name.as_str(), after))
                })
                .transpose()?,
            follows: intent
                .follows
                .as_ref()
                .map(|piece| {
                    let folder = report_folder(&site.state, &piece.of.run, &piece.of.name());
                    utf8(&folder).map(|folder| (piece.job_id, folder))
                })
                .transpose()?,
            report_dir: utf8(&report_folder(&site.state, &run.id, &key.name()))?,
            workdir: utf8(workdir)?,
            device_order: run.file.device_order(),
            untyped: untyped.clone(),
        };
        let ready = render::Batch::new(&job, &site.defaults, facts);
        Ok(ready
            .map_err(|error| error.to_string())
            .and_then(|ready| render(&site.template, &ready).map_err(|error| error.to_string())))
    }
}

fn workdir(job: &Job, site: &ScriptContext) -> (PathBuf, Vec<String>) {
    let workdir = absolute(&site.directory, job.launch.workdir.as_deref().unwrap_or("."));
    let missing = !workdir.is_dir();
    let note = missing
        .then(|| format!("{}: workdir {} does not exist on this machine", job.name, workdir.display()));
    (workdir, note.into_iter().collect())
}

/// Returns the path from `base`, with a leading `./` or a lone `.` resolved.
pub fn absolute(base: &Path, path: impl AsRef<Path>) -> PathBuf {
    base.join(path).components().collect()
}

fn utf8(path: &Path) -> Result<String, String> {
    path.to_str()
        .map(str::to_owned)
        .ok_or_else(|| format!("{}: paths in a job script must be UTF-8", path.display()))
}
