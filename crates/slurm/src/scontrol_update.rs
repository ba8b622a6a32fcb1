//! Updates of pending jobs in place (`scontrol update`): a job keeps its age and its place in the queue.

use crate::{CommandLine, JobId, RequestError, Runner};
use hsched_model::GpuType;

/// What a pending job asks for from now on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct JobUpdate {
    /// The time limit.
    pub minutes: u64,
    /// `None`: they stay as they are.
    pub gpus: Option<OtherGpus>,
    /// Where it goes, if that is to change; several partitions with commas between them.
    pub account: Option<String>,
    pub partition: Option<String>,
}

/// GPUs of the type that a job has asked for before, in other numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OtherGpus {
    pub nodes: u32,
    pub per_node: u32,
    pub gpu_type: GpuType,
    /// CPUs of each rank.
    pub cpus: u64,
    /// Memory on each node in MiB, where the job says how much it needs.
    pub memory_mib: Option<u64>,
}

/// Returns the command line that changes a pending job.
///
/// `TasksPerNode` goes along with `NumTasks`: with that of the submission Slurm accepts more GPUs on a node and never starts the job.
/// A number of nodes without a range is refused.
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
/// When Slurm refuses it or gives no clear answer.
pub(crate) fn send(runner: &dyn Runner, command: &CommandLine) -> Result<(), RequestError> {
    let done = runner.run(command).map(|_| ());
    done.map_err(|error| RequestError::of(&command.program, error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CommandError, CommandOutput, RecordedRunner};

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
