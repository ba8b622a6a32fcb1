//! Checks of GPUs, nodes and partitions.

use std::collections::BTreeMap;

use super::check::Check;
use hsched_model::catalogue::recognise;
use hsched_model::{Availability, Cluster, GpuType, Node, RankNeeds, hostlist};
use hsched_slurm::site::PartitionLimits;
use hsched_ui::duration;

/// Returns the checks of the GPUs. `notes` are the uncertainties from reading the cluster.
pub(super) fn gpus(cluster: &Cluster, notes: &[String]) -> Vec<Check> {
    let types = cluster.summary(RankNeeds { cpus: 1, memory: 0 });
    if types.is_empty() {
        let found = format!("none on the {} nodes that you can see", cluster.nodes.len());
        return vec![Check::problem("gpus", found).advise(
            "ask your administrators for access to a partition with GPUs; `sinfo -o '%P %G'` lists them",
        )];
    }
    let list: Vec<String> =
        types.iter().map(|(gpu_type, counts)| format!("{} {gpu_type}", counts.total)).collect();
    let mut checks = vec![Check::ok("gpus", list.join(", "))];
    let names: Vec<&GpuType> = types.keys().collect();
    checks.extend(untyped(cluster));
    checks.extend(spellings(&names));
    checks.extend(bare_nodes(cluster));
    checks.extend(unavailable(cluster));
    if let [first, rest @ ..] = notes {
        let more =
            if rest.is_empty() { String::new() } else { format!(" (and {} more like it)", rest.len()) };
        checks.push(Check::note("gpus", format!("{first}{more}")).advise("`hsched inventory` lists all"));
    }
    checks
}

fn untyped(cluster: &Cluster) -> Option<Check> {
    let untyped = GpuType::untyped();
    let names = named(cluster, |node| node.gpus.iter().any(|stock| stock.gpu_type == untyped));
    let found = format!("no type on {}; these GPUs count as type \"gpu\"", names?);
    Some(
        Check::note("gpu types", found)
            .advise("set their type with the setting untyped_gpus, or give jobs a throughput for gpu"),
    )
}

/// Returns a note on types that are names of the same GPU.
fn spellings(types: &[&GpuType]) -> Option<Check> {
    let mut alike: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for name in types.iter().map(|gpu_type| gpu_type.as_str()) {
        let key = recognise(name).map_or_else(|| name.to_ascii_lowercase(), |known| known.label());
        alike.entry(key).or_default().push(name);
    }
    let group = |(meant, names): (String, Vec<&str>)| format!("{} are names of {meant}", names.join(" and "));
    let groups: Vec<String> = alike.into_iter().filter(|(_, names)| names.len() > 1).map(group).collect();
    let check = Check::note("gpu types", groups.join("; "));
    (!groups.is_empty()).then(|| check.advise("give throughput for each name"))
}

/// Returns a note on nodes without GPUs in partitions that have some.
fn bare_nodes(cluster: &Cluster) -> Option<Check> {
    let with: Vec<&Node> = cluster.nodes.iter().filter(|node| node.gpu_total() > 0).collect();
    let beside = |node: &Node| with.iter().any(|other| !node.partitions.is_disjoint(&other.partitions));
    let names = named(cluster, |node| node.gpu_total() == 0 && beside(node))?;
    Some(
        Check::note("gpus", format!("none on {names}, although other nodes of the partition have GPUs"))
            .advise("fine for CPU nodes; otherwise their GRES is missing from Slurm's configuration"),
    )
}

fn unavailable(cluster: &Cluster) -> Option<Check> {
    let names = named(cluster, |node| node.gpu_total() > 0 && node.state.availability() != Availability::Up)?;
    Some(
        Check::note("nodes", format!("{names}: down, drained or reserved"))
            .advise("plans do not use them; `hsched inventory` shows why"),
    )
}

/// Returns the selected nodes as a hostlist; `None` if there are none.
fn named(cluster: &Cluster, meant: impl Fn(&Node) -> bool) -> Option<String> {
    let names: Vec<&str> =
        cluster.nodes.iter().filter(|node| meant(node)).map(|node| node.name.as_str()).collect();
    (!names.is_empty()).then(|| hostlist::compress(names))
}

/// Returns the checks of the partitions. `chosen` is the setting: a partition, or several separated by
/// commas.
pub(super) fn partitions(partitions: &[PartitionLimits], chosen: Option<&str>) -> Vec<Check> {
    let list: Vec<String> = partitions.iter().map(limits).collect();
    let mut checks = vec![Check::ok("partitions", list.join("; "))];
    let known = |name: &str| partitions.iter().find(|partition| partition.name == name);
    match chosen {
        None if !partitions.iter().any(|partition| partition.default) => {
            let check =
                Check::problem("partitions", "no default partition, and the setting partition is not set");
            checks.push(check.advise("set partition"));
        }
        None => {}
        Some(chosen) => {
            let missing: Vec<&str> = chosen.split(',').filter(|name| known(name).is_none()).collect();
            if !missing.is_empty() {
                let found = format!(
                    "the setting partition is {}, which does not exist or is hidden from you",
                    missing.join(", ")
                );
                let names: Vec<&str> = partitions.iter().map(|partition| partition.name.as_str()).collect();
                checks.push(
                    Check::problem("partitions", found).advise(format!("choose one of {}", names.join(", "))),
                );
            }
        }
    }
    let used = |partition: &&PartitionLimits| match chosen {
        Some(chosen) => chosen.split(',').any(|name| name == partition.name),
        None => partition.default,
    };
    for partition in partitions.iter().filter(used).filter(|partition| partition.state != "UP") {
        let found = format!("{} is {}: jobs wait until it is UP", partition.name, partition.state);
        checks.push(Check::note("partitions", found).advise("choose another with the setting partition"));
    }
    checks
}

/// Summarises a partition's limits.
fn limits(partition: &PartitionLimits) -> String {
    let mut words = vec![partition.name.clone()];
    words.extend(partition.default.then(|| "(default)".into()));
    words.extend(partition.max_time.map(|time| format!("up to {}", duration(time))));
    words.extend(partition.max_nodes.map(|count| format!("{count} nodes")));
    words.extend((partition.state != "UP").then(|| partition.state.clone()));
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::super::check::Level;
    use super::*;
    use hsched_model::formats::cluster::parse;

    fn found(yaml: &str) -> Vec<String> {
        let cluster = parse(yaml).expect("a cluster");
        gpus(&cluster, &[]).iter().map(|check| format!("{}: {}", check.level.word(), check.found)).collect()
    }

    #[test]
    fn odd_gpus_are_noted() {
        let seen = found(
            "nodes:\n - {name: 'a[1-2]', gpus: {V100: 2}, partitions: [g]}\n - {name: b, gpus: {tesla_v100: 1}, partitions: [g], state: down}\n\
             \x20- {name: c, gpus: {gpu: 4}, partitions: [g]}\n - {name: d, partitions: [g]}\n - {name: e, partitions: [cpu]}\n",
        );
        assert_eq!(
            seen,
            [
                "ok: 4 V100, 4 gpu, 1 tesla_v100",
                "note: no type on c; these GPUs count as type \"gpu\"",
                "note: V100 and tesla_v100 are names of v100",
                "note: none on d, although other nodes of the partition have GPUs",
                "note: b: down, drained or reserved",
            ]
        );
        assert_eq!(found("nodes: [{name: a}]"), ["problem: none on the 1 nodes that you can see"]);
    }

    #[test]
    fn the_partition_of_the_settings_must_be_there() {
        let known = |default, state: &str| PartitionLimits {
            allow_accounts: Vec::new(),
            allow_qos: Vec::new(),
            limit_qos: None,
            deny_accounts: Vec::new(),
            deny_qos: Vec::new(),
            name: "gpu".into(),
            state: state.into(),
            default,
            max_time: None,
            max_nodes: Some(2),
            default_time: None,
            tier: None,
            job_factor: None,
            exclusive: false,
            preempted: false,
            suspends: false,
            billing: String::new(),
        };
        let worst = |partition, chosen| partitions(&[partition], chosen).last().expect("a check").level;
        assert_eq!(worst(known(true, "UP"), None), Level::Ok);
        assert_eq!(worst(known(false, "UP"), None), Level::Problem);
        assert_eq!(worst(known(false, "UP"), Some("gpu")), Level::Ok);
        assert_eq!(worst(known(false, "UP"), Some("gpu,long")), Level::Problem);
        assert_eq!(worst(known(true, "DOWN"), None), Level::Note);
    }
}
