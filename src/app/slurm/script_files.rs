//! The files to which a script's job prints.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::app::input;
use crate::app::slurm::permissions::user_name;
use hsched_engine::ScriptJob;
use hsched_engine::live::absolute;
use hsched_engine::store::ScriptChain;
use hsched_model::{ErrorId, JobId};
use hsched_slurm::script::{ScriptSource, read_script};
use hsched_slurm::{OutputFacts, OutputName};
use hsched_ui::{Exit, Failure};

/// The folder in a chain's folder with the wrapper script, which has the name of the user's script.
pub(crate) const WRAPPER: &str = "wrapper";

/// Returns the files of a script's job, the output before the errors; for an array, the existing ones of its
/// tasks by number, or only those of `task`.
///
/// # Errors
/// If it has no job yet, or only Slurm knows the names.
pub(crate) fn script_output(script: &ScriptJob, task: Option<u64>) -> Result<Vec<PathBuf>, Failure> {
    let name = &script.name;
    let Some(job_id) = script.submission.job_id else {
        return Err(Failure::new(Exit::Failed, format!("{name} has no job in Slurm: {}", script.word()))
            .id(ErrorId::NotStarted));
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
            Failure::new(Exit::Failed, message)
                .id(ErrorId::NoOutput)
                .hint(format!("scontrol show job {job_id} shows it as StdOut"))
        };
        let file = OutputName::of(pattern, &facts).ok_or_else(unknown)?;
        match file.text() {
            Some(file) => files.push(absolute(workdir, file)),
            None => files.extend(of_tasks(workdir, &file, task).ok_or_else(unknown)?),
        }
    }
    Ok(files)
}

/// Returns the files of the chain piece with this Slurm job, the output before the errors.
///
/// # Errors
/// If the script of the chain cannot be read, or only Slurm knows the names.
pub(crate) fn piece_output(chain: &ScriptChain, job_id: JobId) -> Result<Vec<PathBuf>, Failure> {
    let bytes = input::raw_bytes(&chain.folder.join(WRAPPER).join(&chain.name))?;
    let environment = BTreeMap::new();
    let reading = read_script(&ScriptSource {
        script: Some(&bytes),
        file_name: &chain.name,
        command_line: &[],
        environment: &environment,
        version: None,
    });
    let value = |name: &str| {
        let option = reading.options.iter().rev().find(|option| option.name == name);
        option.and_then(|option| option.value.clone())
    };
    let job_name = reading.request.as_ref().map_or(chain.name.as_str(), |request| request.job_name.as_str());
    let unknown = || {
        Failure::new(Exit::Failed, format!("only Slurm knows the file that {} prints to", chain.name))
            .id(ErrorId::NoOutput)
            .hint(format!("scontrol show job {job_id} shows it as StdOut"))
    };
    let submitted_in = chain.workdir.as_ref().ok_or_else(unknown)?;
    let workdir = value("chdir").map_or_else(|| submitted_in.clone(), |value| absolute(submitted_in, value));
    let user = user_name();
    let facts = OutputFacts { job_id, name: job_name, user: &user, nodes: "", is_array: false };
    let output = value("output").unwrap_or_else(|| "slurm-%j.out".to_owned());
    let error = value("error").filter(|error| *error != output);
    let file = |pattern: String| {
        let name = OutputName::of(&pattern, &facts).and_then(|name| name.text());
        name.map(|name| absolute(&workdir, name)).ok_or_else(unknown)
    };
    std::iter::once(output).chain(error).map(file).collect()
}

/// Returns the existing files of tasks.
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
