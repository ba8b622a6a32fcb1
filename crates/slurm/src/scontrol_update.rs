//! Updates of pending jobs in place (`scontrol update`): a job keeps its age and its place in the queue.

use crate::{CommandLine, JobId, RequestError, Runner};
use hsched_model::GpuType;

/// The new request of a pending job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct JobUpdate {
    /// The time limit.
    pub minutes: u64,
    /// `None`: the GPUs stay the same.
    pub gpus: Option<OtherGpus>,
    /// The new account, if it changes.
    pub account: Option<String>,
    /// The new partitions, separated by commas, if they change.
    pub partition: Option<String>,
}

/// Another number of GPUs of the type already requested.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OtherGpus {
    pub nodes: u32,
    pub per_node: u32,
    pub gpu_type: GpuType,
    /// CPUs per rank.
    pub cpus: u64,
    /// Memory per node in MiB, if the job states its need.
    pub memory_mib: Option<u64>,
}

/// Returns the command line that changes a pending job.
///
/// `TasksPerNode` accompanies `NumTasks`: with the value from the submission, Slurm accepts more GPUs per
/// node but never starts the job. Slurm refuses a number of nodes that is not a range.
pub(crate) fn command(id: JobId, to: &JobUpdate) -> CommandLine {
    let mut words = vec!["update".to_owned(), format!("JobId={id}"), format!("TimeLimit={}", to.minutes)];
    words.extend(to.gpus.iter().flat_map(OtherGpus::words));
    words.extend(to.account.as_ref().map(|name| format!("Account={name}")));
    words.extend(to.partition.as_ref().map(|names| format!("Partition={names}")));
    CommandLine::new("scontrol", words)
}

impl OtherGpus {
    fn words(&self) -> Vec<String> {
        let ranks = self.nodes.saturating_mul(self.per_node);
        let cpus = |ranks: u32| self.cpus.saturating_mul(ranks.into());
        let mut words = vec![
            format!("NumNodes={0}-{0}", self.nodes),
            format!("Gres=gpu:{}:{}", self.gpu_type, self.per_node),
            format!("TasksPerNode={}", self.per_node),
            format!("NumTasks={ranks}"),
            format!("NumCPUs={}", cpus(ranks)),
            format!("MinCPUsNode={}", cpus(self.per_node)),
        ];
        words.extend(self.memory_mib.map(|memory| format!("MinMemoryNode={memory}")));
        words
    }
}

/// Sends [`command`] once.
///
/// # Errors
/// If Slurm refuses it or gives no clear answer.
pub(crate) fn send(runner: &dyn Runner, command: &CommandLine) -> Result<(), RequestError> {
    let done = runner.run(command).map(|_| ());
    done.map_err(|error| RequestError::of(&command.program, error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recorded::RecordedRunner;
    use crate::{CommandError, CommandOutput};

    fn update() -> CommandLine {
        let gpu_type = GpuType::new("v100").expect("a type");
        let gpus = OtherGpus { nodes: 2, per_node: 4, gpu_type, cpus: 3, memory_mib: Some(500) };
        let to = JobUpdate {
            minutes: 90,
            gpus: Some(gpus),
            account: Some("a".to_owned()),
            partition: Some("short,day".to_owned()),
        };
        command(JobId(7), &to)
    }

    #[test]
    fn all_that_hangs_on_the_number_of_ranks_is_changed_with_it() {
        assert_eq!(
            update().to_string(),
            "scontrol update 'JobId=7' 'TimeLimit=90' 'NumNodes=2-2' 'Gres=gpu:v100:4' 'TasksPerNode=4' \
             'NumTasks=8' 'NumCPUs=24' 'MinCPUsNode=12' 'MinMemoryNode=500' \
             'Account=a' 'Partition=short,day'"
        );
    }

    #[test]
    fn a_shorter_limit_changes_nothing_else() {
        let to = JobUpdate { minutes: 15, gpus: None, account: None, partition: None };
        assert_eq!(command(JobId(7), &to).to_string(), "scontrol update 'JobId=7' 'TimeLimit=15'");
    }

    #[test]
    fn a_refusal_is_told_from_silence() {
        let answer = |stderr: &str| {
            let error = CommandError::failed(&update(), "exit status: 1", stderr);
            send(&RecordedRunner::new([(update(), Err(error))]), &update())
        };
        let done = send(&RecordedRunner::new([(update(), Ok(CommandOutput::default()))]), &update());
        assert!(matches!(done, Ok(())), "{done:?}");
        let refused = answer("slurm_update error: Job is no longer pending execution\n");
        assert!(matches!(refused, Err(RequestError::Refused { .. })), "{refused:?}");
        let silent = answer("slurm_update error: Socket timed out on send/recv operation\n");
        assert!(matches!(silent, Err(RequestError::Unclear { .. })), "{silent:?}");
    }
}
