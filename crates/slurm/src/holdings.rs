//! The resources that running jobs hold on each node, as shown by the queue.

use std::collections::BTreeMap;

use crate::{Gres, QueuedJob, Tres};
use hsched_model::{Cluster, GpuType, HeldResources, Holdings, NodeName, hostlist};

/// Returns the resources that `jobs` hold by node, and notes on jobs for which they are unknown.
///
/// The result is exact for jobs on one node and for jobs with the same GPUs on every node, whose CPUs and
/// memory are assumed to be spread evenly. The queue does not show how a total over several nodes is split. A
/// job with such a total, or with an unknown GPU type, counts as holding nothing, so that a plan that may
/// reassign the GPUs of jobs does not count them as free.
pub fn holdings<'a>(
    jobs: impl IntoIterator<Item = &'a QueuedJob>,
    cluster: &Cluster,
) -> (Holdings, Vec<String>) {
    let (mut sum, mut notes) = (Holdings::new(), Vec::new());
    for job in jobs.into_iter().filter(|job| job.holds_nodes()) {
        let given = PrintedHoldings {
            nodes: &job.nodes,
            tres: &job.tres,
            cpus: job.cpus,
            per_node: &job.tres_per_node,
            per_job: &job.tres_per_job,
        };
        match held_by(&given, cluster) {
            Ok(shares) => shares.into_iter().for_each(|(name, held)| add(sum.entry(name).or_default(), held)),
            Err(why) => {
                let id = &job.shown_id;
                notes.push(format!("job {id}: {why}; its GPUs are not counted as free for a new plan"));
            }
        }
    }
    (sum, notes)
}

/// The data that squeue prints about a job's nodes and its resources on them.
pub(super) struct PrintedHoldings<'a> {
    pub nodes: &'a str,
    pub tres: &'a str,
    /// CPUs of all nodes, if the TRES do not include them.
    pub cpus: Option<u64>,
    pub per_node: &'a str,
    pub per_job: &'a str,
}

/// Returns the resources that one job holds on each of its nodes, or why they are unknown.
pub(super) fn held_by(
    job: &PrintedHoldings<'_>,
    cluster: &Cluster,
) -> Result<Vec<(NodeName, HeldResources)>, String> {
    let unreadable = |_| format!("its nodes {:?} cannot be read", job.nodes);
    let names = hostlist::expand(job.nodes).map_err(unreadable)?;
    let names = names.iter().map(|name| NodeName::new(name)).collect::<Result<Vec<_>, _>>();
    let names = names.map_err(|_| format!("its nodes {:?} cannot be read", job.nodes))?;
    let nodes = names.len() as u64;
    let tres = Tres::parse(job.tres);
    let gpus = per_node(job, &tres, nodes)?;
    let share = |total: Option<u64>| total.unwrap_or(0) / nodes.max(1);
    names
        .into_iter()
        .map(|name| {
            let gpus = typed(&gpus, &name, cluster)?;
            let cpus = share(tres.cpus.or(job.cpus));
            let memory = share(tres.memory.map(|bytes| bytes.0));
            Ok((name, HeldResources { gpus, cpus, memory }))
        })
        .collect()
}

/// Returns the GPUs that the job holds on each node; an error if Slurm shows only a total for several nodes.
fn per_node(job: &PrintedHoldings<'_>, tres: &Tres, nodes: u64) -> Result<Gres, String> {
    let asked = Gres::parse(job.per_node);
    let asked_in_total = Gres::parse(job.per_job);
    let known = |gres: &Gres| gres.gpu_total() > 0;
    let given = &tres.gres;
    if nodes <= 1 {
        // The allocated GPUs have types only if accounting tracks them; the requested ones are always
        // printed.
        let asked = if known(&asked) { asked } else { asked_in_total };
        let untyped_only = given.gpus.iter().all(|(gpu_type, _)| *gpu_type == GpuType::untyped());
        return Ok(if known(given) && !(untyped_only && known(&asked)) { given.clone() } else { asked });
    }
    if known(&asked) {
        return Ok(match (asked.gpus.as_slice(), given.gpus.as_slice()) {
            // The job has only one type, so a request without a type received it on every node.
            ([(gpu_type, count)], [(got, _)]) if *gpu_type == GpuType::untyped() => {
                Gres { gpus: vec![(got.clone(), *count)], other: Vec::new() }
            }
            _ => asked,
        });
    }
    let total = given.gpu_total().max(asked_in_total.gpu_total());
    if total == 0 {
        return Ok(Gres::default());
    }
    Err(format!("Slurm does not show how its {total} GPUs are distributed over {nodes} nodes"))
}

/// Returns the GPUs that a job holds on one node, with that node's types; an error if a type is unknown.
fn typed(gpus: &Gres, name: &NodeName, cluster: &Cluster) -> Result<BTreeMap<GpuType, u32>, String> {
    let stocks = cluster.node(name).map_or(&[][..], |node| &node.gpus);
    let mut held = BTreeMap::new();
    for (gpu_type, count) in gpus.gpus.iter().filter(|(_, count)| *count > 0) {
        let same = |stock_type: &GpuType| stock_type.as_str().eq_ignore_ascii_case(gpu_type.as_str());
        let known_type = match (stocks.iter().find(|stock| same(&stock.gpu_type)), stocks) {
            (Some(stock), _) => &stock.gpu_type,
            (None, [only]) if *gpu_type == GpuType::untyped() => &only.gpu_type,
            _ => {
                return Err(format!(
                    "Slurm does not show which GPU types its {count} {gpu_type} on \
                {name} are"
                ));
            }
        };
        *held.entry(known_type.clone()).or_insert(0) += count;
    }
    Ok(held)
}

fn add(sum: &mut HeldResources, held: HeldResources) {
    for (gpu_type, count) in held.gpus {
        let total = sum.gpus.entry(gpu_type).or_insert(0);
        *total = total.saturating_add(count);
    }
    sum.cpus = sum.cpus.saturating_add(held.cpus);
    sum.memory = sum.memory.saturating_add(held.memory);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sinfo::tests::cluster;
    use crate::squeue;

    /// Asserts the resources that a job holds, as `node type=count cpus=count MiB=count`, or the note on why
    /// they are unknown.
    fn check(nodes: &str, alloc: &str, per_node: &str, per_job: &str, expected: &str) {
        let line = |node: &str, gres: &str| format!("{node}|gpu|1:00|idle|{gres}|(null)|0/8/0/8|1|0||");
        let cluster = cluster(&[&line("v[1-3]", "gpu:v100:4"), &line("m", "gpu:v100:2,gpu:t4:2")]);
        let job =
            format!("7|7|N/A|N/A|RUNNING||gpu||||||4|0|0|{nodes}|{alloc}|{per_node}|{per_job}|job|\u{1e}");
        let (jobs, _) = squeue::parse(&job.replace('|', "\u{1f}")).expect("job");
        let (holdings, notes) = holdings(&jobs, &cluster);
        let shown = holdings.iter().map(|(name, held)| {
            let gpus: Vec<String> =
                held.gpus.iter().map(|(gpu_type, count)| format!("{gpu_type}={count}")).collect();
            format!("{name} {} cpus={} MiB={}", gpus.join(" "), held.cpus, held.memory >> 20)
        });
        assert_eq!(shown.chain(notes).collect::<Vec<_>>().join("; "), expected);
    }

    #[test]
    fn one_node_and_equal_nodes_are_exact() {
        check("v1", "cpu=2,mem=300M,node=1", "gres:gpu:v100:1", "N/A", "v1 v100=1 cpus=2 MiB=300");
        check("m", "cpu=2", "gres:gpu:v100:1,gres:gpu:t4:1", "", "m t4=1 v100=1 cpus=2 MiB=0");
        check("m", "cpu=2,gres/gpu=2,gres/gpu:t4=2", "gres/gpu:2", "", "m t4=2 cpus=2 MiB=0");
        check("m", "cpu=2,gres/gpu=2", "gres/gpu:t4:2", "", "m t4=2 cpus=2 MiB=0");
        check("v1", "", "", "gres:gpu:3", "v1 v100=3 cpus=4 MiB=0");
        let two = "v1 v100=1 cpus=2 MiB=0; v2 v100=1 cpus=2 MiB=0";
        check("v[1-2]", "cpu=4,node=2", "gres:gpu:v100:1", "", two);
        check("v[1-2]", "cpu=4,node=2", "gres:gpu:1", "", two);
        check(
            "v1,m",
            "cpu=2,gres/gpu=2,gres/gpu:v100=2",
            "gres:gpu:1",
            "",
            "m v100=1 cpus=1 MiB=0; v1 v100=1 cpus=1 MiB=0",
        );
        check("v1", "cpu=1", "N/A", "N/A", "v1  cpus=1 MiB=0");
    }

    #[test]
    fn what_is_not_known_is_noted_and_not_counted() {
        let end = "its GPUs are not counted as free for a new plan";
        check(
            "v[1-3]",
            "",
            "",
            "gres:gpu:v100:4",
            &format!("job 7: Slurm does not show how its 4 GPUs are distributed over 3 nodes; {end}"),
        );
        check(
            "m",
            "",
            "gres:gpu:1",
            "",
            &format!("job 7: Slurm does not show which GPU types its 1 gpu on m are; {end}"),
        );
        check(
            "gone",
            "",
            "gres:gpu:1",
            "",
            &format!("job 7: Slurm does not show which GPU types its 1 gpu on gone are; {end}"),
        );
        check("", "", "gres:gpu:1", "", "");
    }
}
