//! Job scripts of a batch: from the checked plan, with the paths of this user and site.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::engine::{Batch, named_ranks};
use crate::model::{Job, JobDefaults, JobName, NodeName, Seconds, Selector, Walltime};
use crate::render::{self, Facts, Template, is_constraint, render};
use crate::slurm::Tag;
use crate::store::{PlanFile, report_folder, run_folder};

/// What job scripts need to know of the user and the site.
#[derive(Clone, Debug)]
pub struct Site {
    /// What holds for jobs that do not say otherwise.
    pub defaults: JobDefaults,
    pub template: Template,
    /// The state directory, absolute.
    pub state: PathBuf,
    /// Directory of jobs that name none, absolute.
    pub directory: PathBuf,
    /// Options for sbatch on its command line, as they are.
    pub sbatch: Vec<String>,
}

/// The training helper's name beside the job scripts.
pub const HELPER: &str = "hsched_ddp.py";

/// A job's script, or why there is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Script {
    /// The job's place in the batch.
    pub job: usize,
    pub name: JobName,
    pub text: Result<String, String>,
    /// `None` where it has no GPUs.
    pub walltime: Option<Walltime>,
    /// What its owner should know, one sentence each.
    pub notes: Vec<String>,
}

/// Returns the scripts of the jobs that a batch submits. `file` is its plan as it will be on disk.
///
/// # Errors
/// When a path cannot be written into a script.
pub fn scripts(batch: &Batch, file: &PlanFile, site: &Site) -> Result<Vec<Script>, String> {
    let plan = file.id().map_err(|error| error.to_string())?;
    let mut untyped = file.untyped();
    if site.sbatch.iter().any(|word| is_constraint(word)) {
        for selector in untyped.values_mut() {
            *selector = Selector::Name;
        }
    }
    let script = |&index: &usize| {
        let job = &batch.jobs[index];
        let (workdir, notes) = workdir(job, site);
        let placed = Placed { batch, index, file, plan: &plan, untyped: &untyped };
        let (text, walltime) = (placed.text(&workdir, site)?, placed.walltime(site));
        Ok(Script { job: index, name: job.name.clone(), text, walltime, notes })
    };
    batch.submitted.iter().map(script).collect()
}

/// One job of a batch on its way to a script.
struct Placed<'a> {
    batch: &'a Batch,
    index: usize,
    file: &'a PlanFile,
    plan: &'a str,
    untyped: &'a BTreeMap<NodeName, Selector>,
}

impl Placed<'_> {
    fn walltime(&self, site: &Site) -> Option<Walltime> {
        let job = &self.batch.jobs[self.index];
        let predicted = self.batch.plan.verdicts()[self.index].placement()?.jct(job.epochs);
        let limit = partition_limit(self.file, job, site.defaults.partition.as_deref());
        Some(site.defaults.walltime(job, predicted, limit))
    }

    /// Returns the script's text; the inner error is about this job alone.
    fn text(&self, workdir: &Path, site: &Site) -> Result<Result<String, String>, String> {
        let Self { batch, index, file, plan, untyped } = *self;
        let (rest, done) = (&batch.jobs[index], batch.epochs_done[index]);
        // The plan is about the epochs that are left; ranks are told of all.
        let job = Job { epochs: rest.epochs + done, ..rest.clone() };
        let placement = batch.plan.verdicts()[index].placement();
        let Some((placement, walltime)) = placement.zip(self.walltime(site)) else {
            return Ok(Err("it has no GPUs".to_owned()));
        };
        let ranks = named_ranks(&batch.problem, placement);
        let name = job.name.as_str();
        let checkpoints = format!("checkpoints/{name}");
        let checkpoints = job.launch.checkpoint.dir.as_deref().unwrap_or(&checkpoints);
        let facts = Facts {
            run: &batch.run,
            plan,
            comment: Tag { run: batch.run.clone(), job: name.to_owned() }.to_comment(),
            ranks: &ranks,
            pinned: file.pinned,
            walltime,
            epochs_done: done,
            checkpoint_dir: utf8(&absolute(workdir, checkpoints))?,
            helper_dir: utf8(&run_folder(&site.state, &batch.run))?,
            report_dir: utf8(&report_folder(&site.state, &batch.run, name))?,
            workdir: utf8(workdir)?,
            device_order: file.device_order(),
            untyped: untyped.clone(),
        };
        let ready = render::Batch::new(&job, &site.defaults, facts);
        Ok(ready
            .map_err(|error| error.to_string())
            .and_then(|ready| render(&site.template, &ready).map_err(|error| error.to_string())))
    }
}

fn workdir(job: &Job, site: &Site) -> (PathBuf, Vec<String>) {
    let workdir = absolute(&site.directory, job.launch.workdir.as_deref().unwrap_or("."));
    let missing = !workdir.is_dir();
    let note = missing
        .then(|| format!("{}: workdir {} does not exist on this machine", job.name, workdir.display()));
    (workdir, note.into_iter().collect())
}

/// Returns the least walltime limit of the partitions that a job may go to, where all are known.
fn partition_limit(file: &PlanFile, job: &Job, setting: Option<&str>) -> Option<Seconds> {
    let partitions = &file.partitions;
    let named = job.launch.partition.as_deref().or(setting);
    let names: Vec<&str> = match named {
        Some(names) => names.split(',').map(str::trim).collect(),
        None => partitions.iter().filter(|own| own.default).map(|own| own.name.as_str()).collect(),
    };
    let limit = |name: &&str| partitions.iter().find(|own| own.name == *name)?.max_time_s;
    names.iter().filter_map(limit).min_by(f64::total_cmp).map(Seconds)
}

/// Returns the path from `base`, with a leading `./` or a lone `.` resolved.
#[must_use]
pub fn absolute(base: &Path, path: impl AsRef<Path>) -> PathBuf {
    base.join(path).components().collect()
}

fn utf8(path: &Path) -> Result<String, String> {
    path.to_str()
        .map(str::to_owned)
        .ok_or_else(|| format!("{}: paths in a job script must be UTF-8", path.display()))
}
