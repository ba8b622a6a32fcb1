//! Past runs with a job's name, from one call of `sacct`.

use chrono::{DateTime, TimeDelta, Utc};

use crate::record::{FIELD_END, value};
use crate::{CommandLine, SlurmState, Tres, amount, sacct, time};
use hsched_model::number::to_f64;
use hsched_model::{Bytes, GpuType, NodeName, Seconds, hostlist};
use hsched_queue::{PastRun, PastRuns, RunEnd, Snapshot};

/// The requested fields; Slurm 20.11 and later have them all, and none is free text.
pub(crate) const FIELDS: [&str; 9] =
    ["JobIDRaw", "State", "ElapsedRaw", "AllocTRES", "NNodes", "NodeList", "NTasks", "MaxRSS", "Partition"];

/// Number of days covered.
const DAYS: i64 = 90;

/// Returns the command line that prints a user's jobs with this name, and their steps.
pub fn past_runs_command(name: &str, user: &str, now: DateTime<Utc>) -> CommandLine {
    let mut args: Vec<String> = ["-n", "--parsable2"].map(str::to_owned).into();
    args.push(format!("--delimiter={FIELD_END}"));
    args.push(format!("--format={}", FIELDS.join(",")));
    args.push(format!("--starttime={}", time::text(now - TimeDelta::days(DAYS))));
    args.push(format!("--endtime={}", time::text(now)));
    args.push(format!("--name={name}"));
    args.extend(sacct::of_user(user));
    CommandLine::new("sacct", args)
}

/// Returns the runs that ended after at least one second; unreadable lines are skipped.
pub fn past_runs(text: &str, snapshot: &Snapshot) -> PastRuns {
    let mut runs: Vec<(String, PastRun)> = Vec::new();
    for line in text.lines() {
        let fields: Vec<&str> = line.split(FIELD_END).collect();
        let Ok(fields) = <[&str; FIELDS.len()]>::try_from(fields) else { continue };
        match fields[0].split_once('.') {
            None => runs.extend(run(&fields, snapshot).map(|run| (fields[0].to_owned(), run))),
            Some((id, _)) => {
                // The steps of a job follow it.
                if let Some((_, run)) = runs.last_mut().filter(|(run, _)| run == id) {
                    run.memory_mib = run.memory_mib.max(memory(&fields));
                }
            }
        }
    }
    PastRuns(runs.into_iter().map(|(_, run)| run).collect())
}

fn run(fields: &[&str; FIELDS.len()], snapshot: &Snapshot) -> Option<PastRun> {
    let [_, state, elapsed, tres, _, nodes, ..] = *fields;
    let state = SlurmState::parse(state);
    let ran: u64 = elapsed.trim().parse().ok().filter(|ran| *ran > 0)?;
    if !state.is_final() {
        return None;
    }
    let given = Tres::parse(value(tres).unwrap_or_default());
    let gpus: u64 = given.gres.gpus.iter().map(|(_, count)| u64::from(*count)).sum();
    let mut types = given.gres.gpus.iter().map(|(gpu_type, _)| gpu_type);
    let only = types.next().filter(|_| types.next().is_none());
    Some(PastRun {
        gpu_type: only.and_then(|gpu_type| {
            if *gpu_type == GpuType::untyped() { of_node(nodes, snapshot) } else { Some(gpu_type.clone()) }
        }),
        gpus: u32::try_from(gpus).unwrap_or(u32::MAX),
        ran: Seconds(to_f64(ran)),
        end: match state {
            SlurmState::Completed => RunEnd::Completed,
            SlurmState::Timeout => RunEnd::Cut,
            _ => RunEnd::Stopped,
        },
        memory_mib: None,
    })
}

/// Returns the GPU type of the first node, if it has only one.
fn of_node(nodes: &str, snapshot: &Snapshot) -> Option<GpuType> {
    let first = hostlist::expand(nodes).ok().and_then(|names| NodeName::new(names.first()?).ok())?;
    let node = snapshot.nodes.iter().find(|node| node.name == first)?;
    let [gpu] = node.gpus.as_slice() else { return None };
    Some(gpu.gpu_type.clone())
}

/// Returns the largest memory use of a step per node, in MiB: all tasks are assumed to use as much as the
/// largest.
fn memory(fields: &[&str; FIELDS.len()]) -> Option<u64> {
    let [_, _, _, _, nodes, _, tasks, largest, _] = *fields;
    let largest = value(largest).and_then(kilobytes)?;
    let nodes = amount::count(nodes).unwrap_or(1).max(1);
    let tasks = amount::count(tasks).unwrap_or(1).max(1).div_ceil(nodes);
    Some(Bytes(largest.saturating_mul(1024)).whole_mebibytes().saturating_mul(tasks))
}

/// Returns an amount such as `12345K`, `1.5G` or `0`, in KiB.
fn kilobytes(text: &str) -> Option<u64> {
    let has_unit = text.ends_with(|c: char| c.is_ascii_alphabetic());
    let bytes = if has_unit { amount::memory(text)?.0 } else { text.parse::<u64>().ok()? };
    Some(bytes / 1024)
}

#[cfg(test)]
mod tests {
    use super::*;
    use hsched_model::Time;

    const TEXT: &str = "\
11|COMPLETED|7200|billing=8,cpu=8,gres/gpu:a100=4,gres/gpu=4,mem=32G,node=1|1|a1||| gpu
11.batch|COMPLETED|7200|cpu=8,node=1|1|a1|1|2097152K|
11.0|COMPLETED|7100|cpu=8,node=1|1|a1|4|1048576K|
12|TIMEOUT|3600|cpu=8,gres/gpu=4,node=1|1|t1|||gpu
13|CANCELLED by 5|0|cpu=8||None assigned|||gpu
14|RUNNING|60|cpu=8,gres/gpu:a100=4|1|a1|||gpu
15|FAILED|60|cpu=8,node=1|1|a1|||gpu
odd
";

    #[test]
    fn runs_have_their_gpus_times_and_memory() {
        let node = r#"{"schema": "hsched.queue/1", "taken_at": 0, "nodes": [{"name": "t1", "gpus": [{"type": "t4", "count": 4}]}]}"#;
        let snapshot = Snapshot::parse(node).expect("a snapshot");
        let runs = past_runs(&TEXT.replace('|', "\u{1f}"), &snapshot).0;
        let told: Vec<_> = runs
            .iter()
            .map(|run| {
                let gpu_type = run.gpu_type.as_ref().map(GpuType::as_str);
                (gpu_type, run.gpus, run.ran.0, run.end, run.memory_mib)
            })
            .collect();
        let expected = [
            (Some("a100"), 4, 7200.0, RunEnd::Completed, Some(4096)),
            (Some("t4"), 4, 3600.0, RunEnd::Cut, None),
            (None, 0, 60.0, RunEnd::Stopped, None),
        ];
        assert_eq!(told, expected);
        assert_eq!(past_runs("", &Snapshot::empty(Time(0.0))), PastRuns::default());
    }
}
