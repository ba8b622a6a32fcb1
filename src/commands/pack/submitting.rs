//! The submission of a pool's Slurm jobs, each on its own or as tasks of a job array.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::app::slurm::{self, NotSubmitted};
use crate::commands::pack::{NAME, PackSubmission, script_of};
use hsched_engine::clock::Clock as _;
use hsched_engine::pool::ArrayPlan;
use hsched_engine::store::StateDir;
use hsched_model::formats::counted;
use hsched_ui::Failure;

/// Times to search the queue for a submission without an answer, and the pause between them.
const LOOKS: u32 = 4;
const BETWEEN_LOOKS: Duration = Duration::from_secs(2);

/// The hint if Slurm refuses the first Slurm job: the pool does not exist.
const REFUSED: &str = "no job was added; hsched submit … --dry-run > pool.sbatch writes the script, and hsched when \
    pool.sbatch says whether it can start";

impl PackSubmission<'_> {
    /// Submits the first Slurm jobs, and returns them with their scripts. If Slurm refuses a later one, the
    /// leader of the pool tries again.
    pub(super) fn submit(&self, wanted: usize) -> Result<Vec<(String, PathBuf)>, Failure> {
        let mut allocations = Vec::new();
        for seat in (1..).take(wanted) {
            let script = script_of(&self.root, seat);
            let find = || {
                let found = slurm::pool_allocations(self.context, std::slice::from_ref(&script), None)?;
                found.first().map(|allocation| allocation.job)
            };
            let answer = slurm::submit(self.context, &script, self.sbatch);
            match answer.or_else(|error| self.recover(error, &script, find)) {
                Ok(id) => allocations.push((id.to_string(), script)),
                Err(failure) if allocations.is_empty() => return Err(failure),
                Err(failure) => {
                    let count = allocations.len();
                    self.context
                        .note(&format!("{}; the pool begins with {count} Slurm jobs", failure.message));
                    break;
                }
            }
        }
        Ok(allocations)
    }

    /// Submits the job array; returns the tasks that may run at a time with their script.
    pub(super) fn submit_array(&self, array: ArrayPlan) -> Result<Vec<(String, PathBuf)>, Failure> {
        let script = script_of(&self.root, 1);
        let find = || {
            let array = slurm::pool_arrays(self.context, &script)?.into_iter().next()?;
            Some((array.id, array.pending + array.running))
        };
        let answer = slurm::submit_array(self.context, &script, self.sbatch, array);
        let (id, tasks) = answer.or_else(|error| self.recover(error, &script, find))?;
        if tasks < array.tasks {
            self.context.note(&format!(
                "Slurm accepts {} at a time; the last one submits the array again",
                counted(tasks as usize, "task")
            ));
        }
        Ok((1..=array.at_once.min(tasks)).map(|task| (format!("{id}_{task}"), script.clone())).collect())
    }

    /// Returns what `find` finds in the queue if Slurm may have received the submission of a script; the
    /// submission is never repeated. If Slurm refused the first script of a new pool, the pool's state
    /// directory is removed.
    fn recover<T>(
        &self,
        NotSubmitted { failure, is_unclear }: NotSubmitted,
        script: &Path,
        find: impl Fn() -> Option<T>,
    ) -> Result<T, Failure> {
        if !is_unclear {
            if !self.is_new || script != script_of(&self.root, 1) {
                let (script, root) = (script.display(), self.root.display());
                return Err(failure.hint(format!(
                    "hsched when {script} says whether it can start; the jobs are in {root}"
                )));
            }
            if let Ok(directory) = StateDir::open(&self.root) {
                directory.remove_pool();
            }
            return Err(failure.hint(REFUSED));
        }
        let found = (0..LOOKS).find_map(|look| {
            if look > 0 {
                self.context.clock.sleep(BETWEEN_LOOKS);
            }
            find()
        });
        let script = shell_words::quote(&script.display().to_string()).into_owned();
        found.ok_or_else(|| {
            failure.hint(format!(
                "squeue --me --name={NAME} shows within a minute whether Slurm has the jobs; if not: sbatch {script}"
            ))
        })
    }
}
