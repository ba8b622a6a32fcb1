//! The submission of a pool's Slurm jobs, each on its own or as tasks of a job array.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::app::slurm;
use crate::commands::pack::{NAME, PackSubmission, script_of};
use hsched_engine::clock::Clock as _;
use hsched_engine::pool::ArrayPlan;
use hsched_model::JobId;
use hsched_slurm::RequestError;
use hsched_ui::Failure;

/// Times to search the queue for a submission without an answer, and the pause between them.
const LOOKS: u32 = 4;
const BETWEEN_LOOKS: Duration = Duration::from_secs(2);

impl PackSubmission<'_> {
    /// Submits the first Slurm jobs; returns them with their scripts. If Slurm refuses a later one, the leader of the pool tries again.
    pub(super) fn submit(&self, wanted: usize) -> Result<Vec<(String, PathBuf)>, Failure> {
        let mut allocations = Vec::new();
        for seat in (1..).take(wanted) {
            let script = script_of(&self.root, seat);
            match slurm::submit(self.context, &script, self.sbatch) {
                Ok(id) => allocations.push((id.to_string(), script)),
                Err(failure) if allocations.is_empty() => {
                    return Err(failure.hint(format!("the jobs are in {}", self.root.display())));
                }
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
        let (id, tasks) = match slurm::submit_array(self.context, &script, self.sbatch, array) {
            Ok((id, tasks)) if tasks < array.tasks => {
                self.context.note(&format!(
                    "Slurm accepts {tasks} tasks at a time; the last one submits the array again"
                ));
                (id, tasks)
            }
            Ok(submitted) => submitted,
            Err(error @ RequestError::Unclear { .. }) => match self.find_array(&script) {
                Some(found) => found,
                None => return Err(unclear(&error, &script)),
            },
            Err(error) => {
                let kept = format!("the jobs are in {}", self.root.display());
                return Err(slurm::not_submitted(&error).hint(kept));
            }
        };
        Ok((1..=array.at_once.min(tasks)).map(|task| (format!("{id}_{task}"), script.clone())).collect())
    }

    /// Returns the array that Slurm has submitted although it did not answer, and its number of tasks.
    fn find_array(&self, script: &Path) -> Option<(JobId, u32)> {
        (0..LOOKS).find_map(|look| {
            if look > 0 {
                self.context.clock.sleep(BETWEEN_LOOKS);
            }
            let found = slurm::arrays(self.context, script).ok()?;
            found.first().map(|array| (array.id, array.pending + array.running))
        })
    }
}

/// Returns the failure of a submission that Slurm may have received.
fn unclear(error: &RequestError, script: &Path) -> Failure {
    let script = shell_words::quote(&script.display().to_string()).into_owned();
    slurm::not_submitted(error).hint(format!(
        "squeue --me --name={NAME} shows within a minute whether Slurm has the jobs; if not: sbatch {script}"
    ))
}
