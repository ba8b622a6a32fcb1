//! The files that the job of a script prints to.

use std::path::{Path, PathBuf};

use crate::app::permissions::user_name;
use crate::error::Failure;
use crate::exit::Exit;
use hsched_engine::ScriptJob;
use hsched_engine::live::absolute;
use hsched_slurm::{OutputFacts, OutputName};

/// Returns the files of a script's job, the output before the errors; of an array those of its tasks that are there, in the
/// order of their numbers, or only those of `task`.
///
/// # Errors
/// When it has no job yet, or only Slurm knows the names.
pub(crate) fn script_output(script: &ScriptJob, task: Option<u64>) -> Result<Vec<PathBuf>, Failure> {
    let name = &script.name;
    let Some(job_id) = script.submission.job_id else {
        return Err(Failure::new(Exit::Failed, format!("{name} has no job in Slurm: {}", script.word())));
    };
    let user = user_name();
    let facts = OutputFacts {
        job_id,
        name: &script.slurm_name,
        user: &user,
        nodes: &script.submission.facts.nodes,
        is_array: script.tasks.is_some(),
    };
    let workdir = Path::new(&script.workdir);
    let mut files = Vec::new();
    for pattern in &script.outputs {
        let unknown = || {
            let message = format!("{name} prints to {pattern}; only Slurm knows the name of that file");
            Failure::new(Exit::Failed, message).hint(format!("scontrol show job {job_id} shows it as StdOut"))
        };
        let file = OutputName::of(pattern, &facts).ok_or_else(unknown)?;
        match file.text() {
            Some(file) => files.push(absolute(workdir, file)),
            None => files.extend(of_tasks(workdir, &file, task).ok_or_else(unknown)?),
        }
    }
    Ok(files)
}

/// Returns the files of tasks that are there.
fn of_tasks(workdir: &Path, file: &OutputName, task: Option<u64>) -> Option<Vec<PathBuf>> {
    let (folder, name) = file.split()?;
    let folder = absolute(workdir, folder);
    let entries = std::fs::read_dir(&folder).into_iter().flatten().flatten();
    let mut found: Vec<(Vec<u64>, PathBuf)> = entries
        .filter_map(|entry| Some((name.numbers(entry.file_name().to_str()?)?, entry.path())))
        .filter(|(numbers, _)| task.is_none_or(|task| numbers.contains(&task)))
        .collect();
    found.sort();
    Some(found.into_iter().map(|(_, path)| path).collect())
}
