//! The Slurm jobs of a pool: the user's jobs with certain scripts. They may be the tasks of a job array.

use std::collections::BTreeMap;
use std::path::Path;

use crate::queue::array::array;
use crate::{CommandLine, JobId, SlurmState};
use hsched_engine::pool::QueuedArray;

/// A queued job of the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolJob {
    pub id: JobId,
    pub state: SlurmState,
    /// The submitted script.
    pub script: String,
}

/// Returns the command line that prints the user's jobs in the queue.
pub fn command() -> CommandLine {
    CommandLine::new("squeue", ["--me", "--noheader", "--format=%i %T %o"])
}

/// Returns the jobs of these scripts, in printed order, without tasks of job arrays.
pub fn parse(text: &str, scripts: &[impl AsRef<Path>]) -> Vec<PoolJob> {
    let job = |line: &str| {
        let (id, state, script) = fields(line)?;
        let is_of_pool = scripts.iter().any(|candidate| candidate.as_ref() == Path::new(script));
        let id = JobId(id.parse().ok()?);
        is_of_pool.then(|| PoolJob { id, state: SlurmState::parse(state), script: script.to_owned() })
    };
    text.lines().filter_map(job).collect()
}

/// Returns whether a job that is no task of an array is among the printed ones.
pub fn has(text: &str, job: JobId) -> bool {
    text.lines().filter_map(fields).any(|(id, ..)| id.parse() == Ok(job.0))
}

/// Returns the job arrays of a script, by id.
pub fn arrays(text: &str, script: &Path) -> Vec<QueuedArray> {
    let mut arrays: BTreeMap<JobId, QueuedArray> = BTreeMap::new();
    for (shown_id, state, _) in text.lines().filter_map(fields).filter(|(.., of)| Path::new(of) == script) {
        let Some(tasks) = array(shown_id) else { continue };
        let Some(id) = tasks.id.parse().ok().map(JobId) else { continue };
        let queued = QueuedArray { id, pending: 0, running: 0, at_once: None };
        let queued = arrays.entry(id).or_insert(queued);
        let count =
            if SlurmState::parse(state).is_pending() { &mut queued.pending } else { &mut queued.running };
        *count = count.saturating_add(tasks.tasks);
        queued.at_once = queued.at_once.or(tasks.at_once);
    }
    arrays.into_values().collect()
}

/// Returns the command line that lets at most this number of tasks of an array run at a time.
pub fn throttle(array: JobId, at_once: u32) -> CommandLine {
    let (array, at_once) = (format!("JobId={array}"), format!("ArrayTaskThrottle={at_once}"));
    CommandLine::new("scontrol", ["update", &array, &at_once])
}

/// Returns the id, the state and the script in a line.
fn fields(line: &str) -> Option<(&str, &str, &str)> {
    let (id, rest) = line.trim().split_once(' ')?;
    let (state, script) = rest.split_once(' ')?;
    Some((id, state, script.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_are_known_by_their_scripts() {
        let text = "17 RUNNING /s/a b/hsched-run.sbatch\n18 PENDING /s/a b/hsched-run-2.sbatch\n\
                    19 RUNNING /s/other.sbatch\n20_[1-3] PENDING /s/a b/hsched-run.sbatch\nodd\n";
        let jobs = parse(text, &["/s/a b/hsched-run.sbatch", "/s/a b/hsched-run-2.sbatch"]);
        let seen: Vec<(u32, bool)> = jobs.iter().map(|job| (job.id.0, job.state.is_pending())).collect();
        assert_eq!(seen, [(17, false), (18, true)]);
        assert_eq!([17, 20, 21].map(|id| has(text, JobId(id))), [true, false, false]);
    }

    #[test]
    fn the_tasks_of_an_array_are_counted() {
        let text = "20_[5-8%3] PENDING /s/a b/run.sbatch\n20_1 PENDING /s/a b/run.sbatch\n20_3 RUNNING /s/a b/run.sbatch\n\
                    20_4 COMPLETING /s/a b/run.sbatch\n31_[1-2%1] PENDING /s/other.sbatch\n7_2 RUNNING /s/a b/run.sbatch\n\
                    9 RUNNING /s/a b/run.sbatch\nodd\n";
        let found: Vec<(u32, u32, u32, Option<u32>)> = arrays(text, Path::new("/s/a b/run.sbatch"))
            .iter()
            .map(|array| (array.id.0, array.pending, array.running, array.at_once))
            .collect();
        assert_eq!(found, [(7, 0, 1, None), (20, 5, 2, Some(3))]);
        assert_eq!(throttle(JobId(20), 2).to_string(), "scontrol update 'JobId=20' 'ArrayTaskThrottle=2'");
    }
}
