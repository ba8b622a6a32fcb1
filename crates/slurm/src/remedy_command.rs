//! The command that applies a remedy, so that a pending job starts sooner.

use crate::CommandLine;
use hsched_model::number::to_u64;
use hsched_model::{Request, Seconds};
use hsched_queue::{Change, ChangeSet, Remedy, update_id};

/// Facts about the job that commands need.
#[derive(Clone, Copy, Debug, Default)]
pub struct RemedyTarget<'a> {
    /// The id as `squeue` shows it.
    pub id: &'a str,
    /// The batch script with its arguments, if known.
    pub script: Option<&'a str>,
    /// Whether the job requests a total number of GPUs (`--gpus`) rather than a number per node.
    pub gpus_in_all: bool,
}

/// Placeholder for an unknown script.
const SCRIPT: &str = "SCRIPT";

/// Returns the command of a remedy; `changed` is the request after it.
pub fn remedy_command(remedy: &Remedy, changed: &Request, target: RemedyTarget<'_>) -> CommandLine {
    let id = update_id(target.id);
    let update = |fields: Vec<String>| {
        let begin = ["update".to_owned(), format!("JobId={id}")];
        CommandLine::new("scontrol", begin.into_iter().chain(fields))
    };
    match remedy {
        Remedy::InPlace(set) => update(set.changes.iter().map(field).collect()),
        Remedy::NewJob(set) => {
            let script = target.script.map_or_else(
                || vec![SCRIPT.to_owned()],
                |script| script.split_whitespace().map(str::to_owned).collect(),
            );
            CommandLine::new("sbatch", options(set, changed, target).into_iter().chain(script))
        }
        Remedy::Release => CommandLine::new("scontrol", ["release".to_owned(), id]),
        Remedy::StartNow => update(vec!["StartTime=now".to_owned()]),
        Remedy::NoDependency => update(vec!["Dependency=".to_owned()]),
        Remedy::NoReservation => update(vec!["ReservationName=".to_owned()]),
        // With the id of the array, an ended task would cause an error.
        Remedy::Throttle(count) => update(vec![format!("ArrayTaskThrottle={count}")]),
        Remedy::Cancel { id, is_running: true, .. } => CommandLine::new("scancel", [update_id(id)]),
        // With the id of an array, running tasks would also be cancelled, as would a job that has started in
        // the meantime.
        Remedy::Cancel { id, .. } => {
            CommandLine::new("scancel", ["--state=PENDING".to_owned(), update_id(id)])
        }
    }
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

/// Returns changes as options of `sbatch`.
fn options(set: &ChangeSet, changed: &Request, target: RemedyTarget<'_>) -> Vec<String> {
    let mut list = Vec::new();
    let is_of_gpus = |change: &Change| matches!(change, Change::GpuType(_) | Change::Gpus { .. });
    if set.changes.iter().any(|change| matches!(change, Change::Gpus { .. })) {
        list.push(format!("--nodes={}", changed.asks.nodes));
    }
    if set.changes.iter().any(is_of_gpus) {
        for ask in &changed.asks.gpus {
            let gpu_type = ask.gpu_type.as_ref().map_or(String::new(), |name| format!("{name}:"));
            list.push(if target.gpus_in_all {
                format!("--gpus={gpu_type}{}", u64::from(ask.count) * u64::from(changed.asks.nodes.max(1)))
            } else {
                format!("--gres=gpu:{gpu_type}{}", ask.count)
            });
        }
    }
    list.extend(set.changes.iter().filter_map(|change| match change {
        Change::Limit(limit) => Some(format!("--time={}", clock(*limit))),
        Change::Partition(names) => Some(format!("--partition={names}")),
        Change::Account(name) => Some(format!("--account={name}")),
        Change::Qos(name) => Some(format!("--qos={name}")),
        Change::Memory(mebibytes) => Some(format!("--mem={mebibytes}M")),
        Change::Cpus(_) | Change::GpuType(_) | Change::Gpus { .. } => None,
    }));
    list
}

/// Returns a time limit in Slurm's format: `7:30:00`, `1-12:00:00`.
fn clock(limit: Seconds) -> String {
    let minutes = to_u64((limit.0 / 60.0).floor().max(1.0));
    let (days, hours, minutes) = (minutes / 1440, minutes / 60 % 24, minutes % 60);
    if days > 0 { format!("{days}-{hours:02}:{minutes:02}:00") } else { format!("{hours}:{minutes:02}:00") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hsched_model::{FurtherOptions, GpuType, RequestId};
    use hsched_queue::{Asks, GpuAsk};

    fn shown(remedy: &Remedy, id: &str, gpus_in_all: bool) -> String {
        let gpus = vec![GpuAsk { gpu_type: GpuType::new("a100"), count: 4 }];
        let request = Request {
            id: RequestId(0),
            asks: Asks { nodes: 2, gpus, ..Asks::default() },
            partition: None,
            account: None,
            limit: Seconds(86_400.0),
            run: Seconds(86_400.0),
            further: FurtherOptions::default(),
        };
        let changed = match remedy {
            Remedy::InPlace(set) | Remedy::NewJob(set) => set.applied(&request),
            _ => request,
        };
        let target = RemedyTarget { id, script: Some("/home/ann/train.sh big"), gpus_in_all };
        let command = remedy_command(remedy, &changed, target);
        format!("{} {}", command.program, command.args.join(" "))
    }

    #[test]
    fn remedies_become_commands() {
        let set = |changes: Vec<Change>| ChangeSet { changes, drawbacks: Vec::new() };
        let limit = Change::Limit(Seconds(27_000.0));
        let short = Remedy::InPlace(set(vec![limit.clone(), Change::Partition("gpu,short".to_owned())]));
        assert_eq!(
            shown(&short, "7", false),
            "scontrol update JobId=7 TimeLimit=7:30:00 Partition=gpu,short"
        );
        let tasks = Remedy::InPlace(set(vec![Change::Limit(Seconds(129_600.0))]));
        assert_eq!(shown(&tasks, "7_[2-9%3]", false), "scontrol update JobId=7_[2-9] TimeLimit=1-12:00:00");
        let v100 = GpuType::new("v100").expect("a type");
        let other = Remedy::NewJob(set(vec![Change::GpuType(v100), limit]));
        assert_eq!(
            shown(&other, "7", false),
            "sbatch --gres=gpu:v100:4 --time=7:30:00 /home/ann/train.sh big"
        );
        let fewer = Remedy::NewJob(set(vec![Change::Gpus { nodes: 1, per_node: 4 }]));
        assert_eq!(shown(&fewer, "7", true), "sbatch --nodes=1 --gpus=a100:4 /home/ann/train.sh big");
        assert_eq!(shown(&Remedy::Release, "7", false), "scontrol release 7");
        assert_eq!(shown(&Remedy::StartNow, "7", false), "scontrol update JobId=7 StartTime=now");
        assert_eq!(shown(&Remedy::NoDependency, "7", false), "scontrol update JobId=7 Dependency=");
        assert_eq!(
            shown(&Remedy::Throttle(4), "7_[2-9%3]", false),
            "scontrol update JobId=7_[2-9] ArrayTaskThrottle=4"
        );
        let cancel = Remedy::Cancel { id: "9_4".to_owned(), asks: Asks::default(), is_running: true };
        assert_eq!(shown(&cancel, "7", false), "scancel 9_4");
        let waits = |id: &str| {
            let remedy = Remedy::Cancel { id: id.to_owned(), asks: Asks::default(), is_running: false };
            shown(&remedy, "7", false)
        };
        assert_eq!(waits("9_[1,3,5,...]"), "scancel --state=PENDING 9");
        assert_eq!(waits("9_[2-4%1]"), "scancel --state=PENDING 9_[2-4]");
    }
}
