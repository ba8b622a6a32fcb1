//! The command that applies a remedy, so that a pending job starts sooner.

use crate::amount::time_limit;
use crate::{CommandError, CommandLine};
use hsched_model::Seconds;
use hsched_model::number::to_u64;
use hsched_queue::{Change, ChangeSet, Remedy, update_id};

/// Returns the command of a remedy for the job with this id, as `squeue` shows it; `new_job` returns the command
/// for a new job, which needs the options of the job.
///
/// # Errors
/// Those of `new_job`.
pub fn remedy_command<E>(
    remedy: &Remedy,
    id: &str,
    new_job: impl FnOnce(&ChangeSet) -> Result<CommandLine, E>,
) -> Result<CommandLine, E> {
    let update = |fields: Vec<String>| update(id, fields);
    Ok(match remedy {
        Remedy::InPlace(set) => change_command(set, id),
        Remedy::NewJob(set) => return new_job(set),
        Remedy::Release => CommandLine::new("scontrol", ["release".to_owned(), update_id(id)]),
        Remedy::StartNow => update(vec!["StartTime=now".to_owned()]),
        Remedy::NoDependency => update(vec!["Dependency=".to_owned()]),
        Remedy::NoReservation => update(vec!["ReservationName=".to_owned()]),
        // Since 24.11, Slurm accepts this change only with the id of the whole array; earlier versions also
        // accept that id.
        Remedy::Throttle(count) => {
            let array = id.split_once('_').map_or(id, |(array, _)| array);
            change(array, vec![format!("ArrayTaskThrottle={count}")])
        }
        Remedy::Cancel { id, is_running: true, .. } => CommandLine::new("scancel", [update_id(id)]),
        Remedy::Cancel { id, .. } => cancel_pending(id),
    })
}

/// Returns the command that cancels the pending job with this id.
pub fn cancel_pending(id: &str) -> CommandLine {
    // Without `--state=PENDING`, the running tasks of an array would also be cancelled, as would a job that has
    // started in the meantime.
    CommandLine::new("scancel", ["--state=PENDING".to_owned(), update_id(id)])
}

/// Returns the command that changes the pending job with this id.
pub fn change_command(set: &ChangeSet, id: &str) -> CommandLine {
    update(id, set.changes.iter().map(field).collect())
}

/// Returns whether a command that failed has changed all of the job but the tasks of an array that have
/// ended, for which Slurm also reports an error.
pub fn has_changed_the_rest(error: &CommandError) -> bool {
    let CommandError::Failed { stderr, .. } = error else { return false };
    let mut lines = stderr.lines().map(str::trim).filter(|line| !line.is_empty()).peekable();
    let is_harmless =
        |line: &str| line.ends_with(": Job has already finished") || line.ends_with(": No error");
    lines.peek().is_some() && lines.all(is_harmless)
}

fn update(id: &str, fields: Vec<String>) -> CommandLine {
    change(&update_id(id), fields)
}

fn change(id: &str, fields: Vec<String>) -> CommandLine {
    let begin = ["update".to_owned(), format!("JobId={id}")];
    CommandLine::new("scontrol", begin.into_iter().chain(fields))
}

/// Returns a change in the format of `scontrol update`.
fn field(change: &Change) -> String {
    match change {
        Change::Limit(limit) => format!("TimeLimit={}", clock(*limit)),
        Change::Partition(names) => format!("Partition={names}"),
        Change::Account(name) => format!("Account={name}"),
        Change::Qos(name) => format!("QOS={name}"),
        Change::Memory(mebibytes) => format!("MinMemoryNode={mebibytes}"),
        Change::Cpus(count) => format!("MinCPUsNode={count}"),
        Change::Gpus { nodes, per_node } => format!("NumNodes={nodes}-{nodes} Gres=gpu:{per_node}"),
        Change::GpuType(gpu_type) => format!("Gres=gpu:{gpu_type}"),
    }
}

/// Returns a time limit in the format of `scontrol`: `7:30:00`, `1-12:00:00`. It is rounded down to whole
/// minutes, but is at least one minute.
fn clock(limit: Seconds) -> String {
    let minutes = to_u64((limit.0 / 60.0).floor().max(1.0));
    let text = time_limit(minutes.saturating_mul(60));
    text.strip_prefix('0').unwrap_or(&text).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use hsched_model::GpuType;
    use hsched_queue::Asks;

    fn shown(remedy: &Remedy, id: &str) -> String {
        let command = remedy_command(remedy, id, |_| Err("a new job")).expect("a command");
        format!("{} {}", command.program, command.args.join(" "))
    }

    #[test]
    fn remedies_become_commands() {
        let set = |changes: Vec<Change>| ChangeSet { changes, drawbacks: Vec::new() };
        let limit = Change::Limit(Seconds(27_000.0));
        let short = Remedy::InPlace(set(vec![limit.clone(), Change::Partition("gpu,short".to_owned())]));
        assert_eq!(shown(&short, "7"), "scontrol update JobId=7 TimeLimit=7:30:00 Partition=gpu,short");
        let tasks = Remedy::InPlace(set(vec![Change::Limit(Seconds(129_600.0))]));
        assert_eq!(shown(&tasks, "7_[2-9%3]"), "scontrol update JobId=7_[2-9] TimeLimit=1-12:00:00");
        let v100 = GpuType::new("v100").expect("a type");
        let other = Remedy::NewJob(set(vec![Change::GpuType(v100), limit]));
        assert_eq!(remedy_command(&other, "7", |_| Err("a new job")), Err("a new job"));
        assert_eq!(shown(&Remedy::Release, "7"), "scontrol release 7");
        assert_eq!(shown(&Remedy::StartNow, "7"), "scontrol update JobId=7 StartTime=now");
        assert_eq!(shown(&Remedy::NoDependency, "7"), "scontrol update JobId=7 Dependency=");
        assert_eq!(shown(&Remedy::Throttle(4), "7_[2-9%3]"), "scontrol update JobId=7 ArrayTaskThrottle=4");
        let cancel = Remedy::Cancel { id: "9_4".to_owned(), asks: Asks::default(), is_running: true };
        assert_eq!(shown(&cancel, "7"), "scancel 9_4");
        let waits = |id: &str| {
            let remedy = Remedy::Cancel { id: id.to_owned(), asks: Asks::default(), is_running: false };
            shown(&remedy, "7")
        };
        assert_eq!(waits("9_[1,3,5,...]"), "scancel --state=PENDING 9");
        assert_eq!(waits("9_[2-4%1]"), "scancel --state=PENDING 9_[2-4]");
    }

    #[test]
    fn an_error_for_ended_tasks_of_an_array_is_none_for_the_rest() {
        let check = |stderr: &str, expected: bool| {
            let command = CommandLine::new("scontrol", ["update"]);
            let (status, stderr) = ("exit status: 1".to_owned(), stderr.to_owned());
            assert_eq!(has_changed_the_rest(&CommandError::Failed { command, status, stderr }), expected);
        };
        // Messages of Slurm 22.05 and 24.11.
        check("23_1: Job has already finished\n23_2-9: No error", true);
        check("1_1: Job has already finished", true);
        check("1_1: Job has already finished\nslurm_update error: Access denied", false);
        check("", false);
    }
}
