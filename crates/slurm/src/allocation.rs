//! The nodes and devices of a running Slurm job and its end time, from `scontrol show job -d`.

use crate::gres::Gres;
use crate::{CommandLine, time};
use hsched_model::{Bytes, GpuType, JobId, hostlist};

/// The nodes of a job, and its end time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Allocation {
    pub nodes: Vec<AllocatedNode>,
    /// When the allocation's walltime ends, in Unix seconds; `None` if it has no limit, or if Slurm does not
    /// show the end.
    pub end: Option<f64>,
}

/// The part of a node that a job holds.
#[derive(Clone, Debug, PartialEq)]
pub struct AllocatedNode {
    pub name: String,
    pub cpus: Option<u64>,
    pub memory: Option<Bytes>,
    /// The types of the node's devices, in the order of their indices.
    pub devices: Vec<GpuType>,
}

/// Returns the command line that prints a job with its resources on each node; for a heterogeneous job, all
/// components.
pub fn command(id: JobId) -> CommandLine {
    CommandLine::new("scontrol", ["-d", "show", "job", &id.to_string()])
}

/// Returns the allocation of a job. Nodes that appear twice count once.
pub fn parse(text: &str, id: JobId) -> Allocation {
    let mut allocation = Allocation::default();
    let mut is_other = false;
    let is_of_job = |line: &&str| {
        is_other = is_other_task(line, id).unwrap_or(is_other);
        !is_other
    };
    for words in text.lines().filter(is_of_job).map(|line| line.split_whitespace().collect::<Vec<&str>>()) {
        let value = |key: &str| words.iter().find_map(|word| word.strip_prefix(key)?.strip_prefix('='));
        if let Some(end) =
            value("EndTime").filter(|_| words.iter().any(|word| word.starts_with("StartTime=")))
        {
            allocation.end = time::unix(end);
        }
        let (Some(nodes), Some(gres)) = (value("Nodes"), value("GRES")) else { continue };
        let devices = devices(gres);
        for name in hostlist::expand(nodes).unwrap_or_default() {
            if allocation.nodes.iter().all(|allocated_node| allocated_node.name != name) {
                allocation.nodes.push(AllocatedNode {
                    name,
                    cpus: value("CPU_IDs").map(|ids| numbers(ids).len() as u64),
                    memory: value("Mem").and_then(|mebibytes| mebibytes.parse().ok()).map(mebibytes),
                    devices: devices.clone(),
                });
            }
        }
    }
    allocation
}

/// Returns whether a line begins the record of another task of the same job array: one task has the id of the
/// whole array, and Slurm then prints all tasks. `None` if the line does not begin a record.
fn is_other_task(line: &str, id: JobId) -> Option<bool> {
    let record = line.strip_prefix("JobId=")?.split(" JobName=").next().unwrap_or_default();
    let mut words = record.split_whitespace();
    let is_other = words.next().is_some_and(|first| first != id.to_string());
    Some(is_other && words.any(|word| word.starts_with("ArrayJobId=")))
}

fn mebibytes(count: u64) -> Bytes {
    Bytes(count.saturating_mul(1 << 20))
}

/// Returns the device types in `gpu:v100:2(IDX:0-1),gpu:t4:1(IDX:2)` in the order of their indices, or in the
/// printed order if there are none.
fn devices(gres: &str) -> Vec<GpuType> {
    let mut devices = Vec::new();
    for (place, part) in parts(gres).into_iter().enumerate() {
        let index = part.split_once("IDX:").map(|(_, rest)| numbers(rest.trim_end_matches(')')));
        for (gpu_type, count) in Gres::parse(part).gpus {
            let count = usize::try_from(count).unwrap_or(0);
            let number = |nth: usize| index.as_ref().and_then(|indices| indices.get(nth).copied());
            devices
                .extend((0..count).map(|nth| ((number(nth).unwrap_or(u64::MAX), place), gpu_type.clone())));
        }
    }
    devices.sort_by_key(|(order, _)| *order);
    devices.into_iter().map(|(_, gpu_type)| gpu_type).collect()
}

/// Splits at the commas outside parentheses, and returns the parts that are about GPUs.
fn parts(text: &str) -> Vec<&str> {
    let mut depth = 0_i32;
    let at_comma = |c: char| {
        depth += i32::from(c == '(') - i32::from(c == ')');
        c == ',' && depth == 0
    };
    text.split(at_comma).filter(|part| part.starts_with("gpu")).collect()
}

/// Returns the numbers of `0-1,4`.
fn numbers(text: &str) -> Vec<u64> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.parse::<u64>().ok()?..=last.parse::<u64>().ok()?)
    };
    text.split(',').filter_map(range).flat_map(|range| range.take(100_000)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Output of Slurm 22.05, without unused fields.
    const JOB: &str = "\
JobId=1 JobName=j.sh
   UserId=root(0) GroupId=root(0) MCS_label=N/A
   RunTime=00:00:00 TimeLimit=00:10:00 TimeMin=N/A
   SubmitTime=2026-11-22T14:21:05 EligibleTime=2026-11-22T14:21:05
   StartTime=2026-11-22T14:21:05 EndTime=2026-11-22T14:31:05 Deadline=N/A
   NodeList=n[1-2]
   NumNodes=2 NumCPUs=8 NumTasks=2 CPUs/Task=4 ReqB:S:C:T=0:0:*:*
   TRES=cpu=8,mem=16000M,node=2,billing=8
   JOB_GRES=gpu:v100:4,gpu:t4:2
     Nodes=n[1-2] CPU_IDs=12-15 Mem=8000 GRES=gpu:v100:2(IDX:0-1),gpu:t4:1(IDX:2)
   MinCPUsNode=4 MinMemoryNode=8000M MinTmpDiskNode=0
   Command=/tmp/j.sh
";

    fn types(node: &AllocatedNode) -> String {
        node.devices.iter().map(GpuType::as_str).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn nodes_have_their_devices_in_order_and_the_job_its_end() {
        let allocation = parse(JOB, JobId(1));
        let nodes: Vec<_> =
            allocation.nodes.iter().map(|node| (node.name.as_str(), node.cpus, types(node))).collect();
        assert_eq!(nodes, [("n1", Some(4), "v100 v100 t4".into()), ("n2", Some(4), "v100 v100 t4".into())]);
        assert_eq!(allocation.nodes[0].memory, Some(Bytes(8000 << 20)));
        assert_eq!(allocation.end, time::unix("2026-11-22T14:31:05"));
    }

    #[test]
    fn devices_are_in_the_order_of_their_numbers_whatever_is_printed_first() {
        let check = |gres: &str, expected: &str| {
            let line = format!("   Nodes=a CPU_IDs=0-1,4 Mem=1 GRES={gres}");
            let allocation = parse(&line, JobId(1));
            assert_eq!(
                (types(&allocation.nodes[0]), allocation.nodes[0].cpus),
                (expected.into(), Some(3)),
                "{gres}"
            );
        };
        check("gpu:t4:2(IDX:1,3),gpu:v100:2(IDX:0,2)", "v100 t4 v100 t4");
        check("gpu:2(IDX:0-1)", "gpu gpu");
        check("gpu:a100_3g.20gb:1(IDX:5),lscratch:800G", "a100_3g.20gb");
        check("", "");
    }

    #[test]
    fn nothing_is_read_from_something_else() {
        let refused = "slurm_load_jobs error: Invalid job id specified\n";
        assert_eq!(parse(refused, JobId(1)), Allocation::default());
        let endless = JOB.replace("EndTime=2026-11-22T14:31:05", "EndTime=Unknown");
        assert_eq!(parse(&endless, JobId(1)).end, None);
    }

    #[test]
    fn of_the_tasks_of_an_array_only_the_job_itself_counts() {
        let task = |id: u32, task: u32| {
            JOB.replace(
                "JobId=1 ",
                &format!("JobId={id} ArrayJobId=1 ArrayTaskId={task} ArrayTaskThrottle=3 "),
            )
        };
        let later = task(2, 1).replace("14:31:05", "15:31:05");
        for text in [format!("{later}{}", task(1, 6)), format!("{}{later}", task(1, 6))] {
            assert_eq!(parse(&text, JobId(1)), parse(JOB, JobId(1)));
        }
        // The components of a heterogeneous job are one allocation.
        let component = JOB.replace("JobId=1 ", "JobId=3 HetJobId=1 HetJobOffset=1 ");
        assert_eq!(parse(&component, JobId(1)), parse(JOB, JobId(1)));
    }
}
