//! Detects files given to the wrong command, and example values that were not replaced.

use std::path::Path;

use crate::app::input::name;
use hsched_model::formats;
use hsched_model::{ErrorId, Job};
use hsched_ui::{Exit, Failure};

/// File name extensions of batch scripts.
const SCRIPTS: [&str; 6] = ["sh", "bash", "slurm", "sbatch", "job", "zsh"];

/// First lines of YAML blocks in job files, cluster files, and the sweeps and tasks that `hsched import` reads. They show that
/// standard input is YAML.
const KEYS: [&str; 7] = ["jobs:", "nodes:", "parameters:", "hydra:", "resources:", "run: |", "run: >-"];

/// Returns the failure for a script given in place of a job file; it names the right command.
pub(crate) fn of_script(text: &str, path: &Path) -> Option<Failure> {
    let file = name(path);
    let failure = |what: &str, hint: String| {
        Some(
            Failure::new(Exit::BadInput, format!("{file} is {what}, not a job file"))
                .id(ErrorId::FileKind)
                .hint(hint),
        )
    };
    if has_ending(path, &["py"]) {
        let hint = format!("`hsched init` writes a job file; its `command` runs {file}");
        return failure("a Python program", hint);
    }
    if is_script(text) || has_script_ending(path) {
        return failure("a script", format!("`hsched import {file}` makes a job file from a batch script"));
    }
    None
}

/// Returns whether a file is YAML or JSON rather than a script.
pub(crate) fn is_data(text: &str, path: &Path) -> bool {
    let looks_so = has_ending(path, &["yaml", "yml", "json"])
        || text.trim_start().starts_with('{')
        || text.lines().any(|line| KEYS.contains(&line.trim_end()));
    looks_so && !is_script(text)
}

/// Refuses YAML and JSON in place of a batch script.
///
/// # Errors
/// If the text is YAML or JSON; the message names the commands that read files of this kind.
pub(crate) fn refuse_no_script(text: &str, path: &Path) -> Result<(), Failure> {
    if !is_data(text, path) {
        return Ok(());
    }
    let file = name(path);
    Err(Failure::new(Exit::BadInput, format!("{file} is YAML or JSON, not a batch script"))
        .id(ErrorId::FileKind)
        .hint(format!(
            "`hsched plan {file}` reads a job file; `hsched plan JOBS --cluster {file}` reads a cluster file"
        )))
}

/// Returns a note on values of `hsched init` that were not replaced and that this command refuses.
pub(crate) fn note_examples(text: &str, path: &Path, command: &str) -> Option<String> {
    let keys: Vec<&str> = formats::starter::unedited(text).into_iter().map(|(_, key)| key).collect();
    let (file, names) = (name(path), keys.join(", "));
    match keys.len() {
        0 => None,
        1 => {
            Some(format!("{file}: {names} still has the example value of hsched init; {command} refuses it"))
        }
        _ => Some(format!(
            "{file}: {names} still have the example values of hsched init; {command} refuses them"
        )),
    }
}

/// Refuses jobs with values of `hsched init` that were not replaced, so that they do not reach Slurm.
///
/// # Errors
/// If there is such a value; the message names all values in the text or, for a plan, the first job with one.
pub(crate) fn refuse_examples(text: &str, path: &Path, jobs: &[&Job]) -> Result<(), Failure> {
    let file = name(path);
    let in_lines = formats::starter::unedited(text);
    let mut wrong: Vec<String> = in_lines
        .iter()
        .map(|(line, key)| format!("{file}:{line}: {key} still has the example value of hsched init"))
        .collect();
    // A plan does not contain the lines of the job file.
    if let (Some(job), true) = (jobs.iter().find(|job| formats::starter::is_example(job)), wrong.is_empty()) {
        wrong.push(format!("{file}: {} still has the example command of hsched init", job.name));
    }
    if wrong.is_empty() {
        return Ok(());
    }
    Err(Failure::new(Exit::BadInput, wrong.join("\n"))
        .id(ErrorId::ExampleValue)
        .hint("replace the example values; to keep one, remove its comment # REPLACE"))
}

/// Returns whether a file name has an extension of batch scripts.
pub(crate) fn has_script_ending(path: &Path) -> bool {
    has_ending(path, &SCRIPTS)
}

fn is_script(text: &str) -> bool {
    text.starts_with("#!") || text.lines().any(|line| line.starts_with("#SBATCH"))
}

fn has_ending(path: &Path, endings: &[&str]) -> bool {
    path.extension()
        .is_some_and(|extension| endings.iter().any(|ending| extension.eq_ignore_ascii_case(ending)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(failure: &Failure) -> String {
        format!("{} | {}", failure.message, failure.hints.join(" | "))
    }

    #[test]
    fn scripts_are_told_from_job_files() {
        let check = |text: &str, path: &str| of_script(text, Path::new(path)).map(|failure| said(&failure));
        let script = "vit.sh is a script, not a job file | `hsched import vit.sh` makes a job file from a batch script";
        assert_eq!(check("module purge\n", "vit.sh").as_deref(), Some(script));
        assert!(check("#!/bin/bash\n", "vit").is_some_and(|said| said.starts_with("vit is a script")));
        assert!(check("# x\n#SBATCH -n 1\n", "vit.yaml").is_some());
        let python = "t.py is a Python program, not a job file | `hsched init` writes a job file; its `command` runs t.py";
        assert_eq!(check("import torch\n", "t.py").as_deref(), Some(python));
        assert_eq!(check("jobs: []\n", "jobs.yaml"), None);
    }

    #[test]
    fn data_is_told_from_scripts() {
        let check = |text: &str, path: &str| {
            refuse_no_script(text, Path::new(path)).err().map(|failure| said(&failure))
        };
        let yaml = "base.yaml is YAML or JSON, not a batch script | `hsched plan base.yaml` reads a job file; \
                    `hsched plan JOBS --cluster base.yaml` reads a cluster file";
        assert_eq!(check("jobs:\n  - name: a\n", "base.yaml").as_deref(), Some(yaml));
        assert!(check("jobs:\n", "-").is_some() && check("{\"jobs\": []}", "x").is_some());
        assert_eq!(check("#!/bin/sh\ncat <<E\njobs:\nE\n", "x.sh"), None);
        assert!(check("method: grid\nparameters:\n  lr: {values: [1]}\n", "-").is_some());
        assert!(check("hydra:\n  sweeper: {params: {lr: 1}}\n", "-").is_some());
        assert!(check("resources:\n  accelerators: A100:1\nrun: |\n  python t.py\n", "-").is_some());
        assert_eq!(check("python t.py\n", "x"), None);
    }
}
