//! The Slurm jobs of a pool: the user's jobs with certain scripts.

use std::path::Path;

use crate::{CommandLine, JobId, SlurmState};

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

/// Returns the jobs of these scripts, in printed order.
pub fn parse(text: &str, scripts: &[impl AsRef<Path>]) -> Vec<PoolJob> {
    let job = |line: &str| {
        let (id, rest) = line.trim().split_once(' ')?;
        let (state, script) = rest.split_once(' ')?;
        let script = script.trim();
        let is_of_pool = scripts.iter().any(|candidate| candidate.as_ref() == Path::new(script));
        let id = JobId(id.parse().ok()?);
        is_of_pool.then(|| PoolJob { id, state: SlurmState::parse(state), script: script.to_owned() })
    };
    text.lines().filter_map(job).collect()
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
    }
}
