//! The command that submits a pending job again, changed, with all of its options.

use std::path::{Path, PathBuf};

use crate::app::cluster_queue::ClusterQueue;
use crate::app::input;
use crate::app::slurm::script::{Script, ScriptFile};
use crate::app::slurm::script_outlook::is_meant;
use hsched_model::Request;
use hsched_queue::Change;
use hsched_slurm::job_details::JobDetails;
use hsched_slurm::script::{ScriptReading, SlurmVersion};
use hsched_slurm::script_changes::{settings, site_request, words};
use hsched_slurm::{CommandLine, OutputFacts};

/// A pending job, and where the command is run.
pub(crate) struct JobToSubmit<'a> {
    pub details: Option<&'a JobDetails>,
    /// Its request.
    pub request: &'a Request,
    pub queue: &'a ClusterQueue,
    pub version: Option<SlurmVersion>,
    pub directory: &'a Path,
}

impl JobToSubmit<'_> {
    /// Returns the command that submits the job with changes.
    ///
    /// # Errors
    /// Why the job's options cannot be repeated or do not allow the changes.
    pub(crate) fn command(&self, changes: &[Change]) -> Result<CommandLine, String> {
        let details = self.details.ok_or("a snapshot does not show the job's options")?;
        if !details.options.unread.is_empty() {
            let fields = details.options.unread.join(", ");
            return Err(format!(
                "hsched cannot repeat some of the job's options ({fields} of scontrol show job)"
            ));
        }
        let command = details.command.as_deref().ok_or("the job was submitted without a script file")?;
        let (path, arguments, bytes) = script_of(command, |path| input::raw_bytes(path).ok())?;
        let file = ScriptFile { path: PathBuf::from(path), bytes };
        let script = Script::as_submitted(file, &[]);
        let alone = script.reading(self.version);
        let asked = details.options.beside(&alone, self.asks_for_same_gpus(&alone));
        let script = script.with_options(asked);
        let reading = script.reading(self.version);
        let unfit = || "the job's options do not allow this change".to_owned();
        let changed = settings(&reading, self.request, changes).ok_or_else(unfit)?;
        let mut meant = self.request.clone();
        for change in changes {
            change.apply(&mut meant);
        }
        // With fewer GPUs, the job keeps its CPUs and its memory, which may not depend on them.
        let per_node = |request: &Request| -> u32 { request.asks.gpus.iter().map(|ask| ask.count).sum() };
        let has_fewer = per_node(&meant) < per_node(self.request);
        let is_kept = |name: &str| has_fewer && matches!(name, "cpus-per-task" | "mem");
        let changed: Vec<_> = changed.into_iter().filter(|setting| !is_kept(&setting.name)).collect();
        let changed = words(&changed);
        let asks = &self.request.asks;
        meant.asks.cpus = meant.asks.cpus.max(asks.cpus);
        meant.asks.memory_mib = meant.asks.memory_mib.max(asks.memory_mib);
        let name = |word: &String| word.split('=').next().unwrap_or_default().to_owned();
        let is_replaced = |word: &String| changed.iter().any(|other| name(other) == name(word));
        let kept = script.words.iter().filter(|word| !is_replaced(word));
        let options: Vec<String> = kept.chain(&changed).cloned().collect();
        let submitted = script.with_options(options);
        if !is_meant(&submitted.reading(self.version), &self.queue.snapshot, &meant) {
            return Err(unfit());
        }
        let facts = OutputFacts {
            job_id: details.record.array.unwrap_or(details.record.id),
            name: &details.record.name,
            user: &details.user,
            nodes: "",
            is_array: details.record.array.is_some(),
        };
        let mut options = submitted.words;
        options.extend(details.options.files_beside(&alone, &facts));
        let folder = details.options.folder.as_deref().filter(|folder| Path::new(folder) != self.directory);
        options.extend(folder.map(|folder| format!("--chdir={folder}")));
        let arguments = arguments.split_whitespace().map(str::to_owned);
        options.push(path.to_owned());
        Ok(CommandLine::new("sbatch", options.into_iter().chain(arguments)))
    }

    /// Returns whether a script alone requests the GPUs of the job.
    fn asks_for_same_gpus(&self, alone: &ScriptReading) -> bool {
        let asked = site_request(alone, &self.queue.snapshot);
        let asks = &self.request.asks;
        asked.is_some_and(|asked| {
            matches!(asked.requests.as_slice(), [one] if (one.asks.nodes, &one.asks.gpus) == (asks.nodes, &asks.gpus))
        })
    }
}

/// Returns the path of a job's script, its arguments, and the script's content. Slurm shows all words with blanks between
/// them, so a path with blanks is recognised by its file.
///
/// # Errors
/// If no file or several files have such a path.
fn script_of(
    command: &str,
    read: impl Fn(&Path) -> Option<Vec<u8>>,
) -> Result<(&str, &str, Vec<u8>), String> {
    let ends = command.match_indices(' ').map(|(end, _)| end).chain([command.len()]);
    let mut found = ends.filter_map(|end| {
        let (path, arguments) = command.split_at(end);
        Some((path, arguments, read(Path::new(path))?))
    });
    match (found.next(), found.next()) {
        (Some(script), None) => Ok(script),
        (Some((one, ..)), Some((other, ..))) => {
            Err(format!("the job's script is {one} or {other}: Slurm does not show where its path ends"))
        }
        (None, _) => {
            let path = command.split_whitespace().next().unwrap_or_default();
            Err(format!("the job's script {path} cannot be read"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_with_blanks_is_recognised_by_its_file() {
        let script = |files: &[&str], command: &str| {
            let read = |path: &Path| files.iter().any(|file| Path::new(file) == path).then(Vec::new);
            script_of(command, read).map(|(path, arguments, _)| format!("{path}|{arguments}"))
        };
        let check = |files: &[&str], command: &str, expected: Result<&str, &str>| {
            let expected = expected.map(str::to_owned).map_err(str::to_owned);
            assert_eq!(script(files, command), expected, "{command}");
        };
        check(&["/a/b.sh"], "/a/b.sh", Ok("/a/b.sh|"));
        check(&["/a/b.sh"], "/a/b.sh --lr 3", Ok("/a/b.sh| --lr 3"));
        check(&["/my  jobs/b c.sh"], "/my  jobs/b c.sh big", Ok("/my  jobs/b c.sh| big"));
        check(&[], "/my jobs/b.sh big", Err("the job's script /my cannot be read"));
        check(
            &["/my", "/my jobs/b.sh"],
            "/my jobs/b.sh big",
            Err("the job's script is /my or /my jobs/b.sh: Slurm does not show where its path ends"),
        );
    }
}
