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
        let mut command = command.split_whitespace();
        let path = command.next().unwrap_or_default();
        let bytes = input::raw_bytes(Path::new(path))
            .map_err(|_| format!("the job's script {path} cannot be read"))?;
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
        let script = std::iter::once(path).chain(command).map(str::to_owned);
        Ok(CommandLine::new("sbatch", options.into_iter().chain(script)))
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
