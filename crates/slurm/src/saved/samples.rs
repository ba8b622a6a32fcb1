//! Outputs of real clusters, if they are present beside the project.

#![expect(clippy::disallowed_methods, reason = "tests use files")]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::Value;

use super::{Columns, Saved, SavedError};
use hsched_model::Cluster;

/// Parts of the names of files that contain a cluster.
const READ: [&str; 12] = [
    "scontrol_show_node",
    "scontrol_nodes",
    "scontrol-show-node",
    "scontrol-o-show-node",
    "scontrol-od-show-node",
    "slurm-node",
    "NodesResp",
    "_sinfo.json",
    "json-sinfo_json",
    "mila_sinfo_1",
    "mila_sinfo_2",
    "human.txt",
];

/// Nodes and GPUs of tables, counted by scripts that know each file's columns; and the format of tables
/// without a header line.
const TABLES: [(&str, &str, usize, u64); 13] = [
    ("bih_sinfo_na_partitions.txt", "", 4, 0),
    ("gsi_sinfo.txt", "%N,%T", 709, 0),
    ("gsi_sinfo_mem.txt", "NodeList,AllocMem,Memory,CPUsState,StateLong", 8, 0),
    ("osc_sinfo_gres_long_hostnames.txt", "NodeHost: ,Gres: ,GresUsed: ,StateLong: ", 3, 24),
    ("osc_sinfo_gres_unique.txt", "NodeHost: ,Gres: ,GresUsed: ,StateCompact: ", 22, 60),
    (
        "sckyzo_node_detail_default_partition.txt",
        "NodeList: ,AllocMem: ,Memory: ,CPUsState: ,StateLong: ,Partition: ",
        2,
        0,
    ),
    ("sckyzo_slurm-24.11.7_drain_reason.txt", "%N|%E|%H|%T", 20, 0),
    ("snoato_sinfo_shard.txt", "%N|%P|%T|%C|%m|%G", 12, 28),
    ("superdom_sinfo.txt", "%t|%e|%n|%O|%P|%m|%C|%d", 4, 0),
    ("superdom_sinfo_gres.txt", "NodeHost:|,StateCompact:|,Gres:|,GresUsed:|", 4, 4),
    ("treydock_sinfo_gpus.txt", "NodeHost: ,Gres: ,GresUsed: ", 16, 28),
    ("uchicago-dsi_sinfo.txt", "%N|%G|%T|%c|%m", 10, 56),
    ("uio-fox_partition_output.txt", "%P|%N|", 42, 0),
];

/// Parts of the names of files with other content, which the refusal names.
const NAMED: [&str; 10] = [
    "squeue",
    "sdiag",
    "sacct-",
    "sacct_",
    "slurm-job",
    "JobInfo",
    "reservation",
    "show_partition",
    "partitions.json",
    "show-job",
];

/// Parts of the names of notes in prose.
const NOTES: [&str; 1] = ["provenance"];

fn read(bytes: &[u8], columns: Option<&Columns>) -> Result<Cluster, SavedError> {
    match super::read(&String::from_utf8_lossy(bytes), columns)? {
        Saved::Printed(cluster, _) => Ok(cluster),
        other => Err(SavedError::Unknown { first_line: format!("{other:?}") }),
    }
}

/// Counts nodes and their GPUs independently of the readers.
fn count(text: &str) -> Option<(usize, u64)> {
    let mut gpus: BTreeMap<String, u64> = BTreeMap::new();
    if let Ok(value) = serde_json::from_str::<Value>(text) {
        for node in value["nodes"].as_array().into_iter().flatten() {
            gpus.insert(node["name"].to_string(), gpus_of(node["gres"].as_str()?));
        }
        for group in value["sinfo"].as_array().into_iter().flatten() {
            for name in group["nodes"]["nodes"].as_array()? {
                gpus.insert(name.to_string(), gpus_of(group["gres"]["total"].as_str()?));
            }
        }
    } else {
        for record in text.split("NodeName=").skip(1) {
            let gres = record.split_whitespace().find_map(|word| word.strip_prefix("Gres="));
            gpus.insert(record.split_whitespace().next()?.to_owned(), gpus_of(gres.unwrap_or_default()));
        }
    }
    (!gpus.is_empty()).then(|| (gpus.len(), gpus.values().sum()))
}

/// Adds up the numbers after `gpu:` and a type, up to the next comma or parenthesis.
fn gpus_of(gres: &str) -> u64 {
    let part = |rest: &str| rest.split([',', '(']).next()?.rsplit(':').next()?.parse::<u64>().ok();
    let starts = gres.match_indices("gpu:").filter(|&(at, _)| at == 0 || gres[..at].ends_with(','));
    starts.filter_map(|(at, _)| part(&gres[at..])).sum()
}

#[test]
#[expect(clippy::print_stderr, reason = "a skipped test says so")]
fn real_outputs_are_read_in_full_or_refused_by_name() {
    let shared = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared");
    for folder in ["data/slurm-samples", "slurm-lab/samples"].map(|folder| shared.join(folder)) {
        let Ok(entries) = fs::read_dir(&folder) else {
            eprintln!("skipped: no {}", folder.display());
            continue;
        };
        for path in entries.map(|entry| entry.expect("an entry").path()) {
            let name = path.file_name().expect("a name").to_string_lossy().into_owned();
            let is_one_of = |parts: &[&str]| parts.iter().any(|part| name.contains(part));
            let bytes = fs::read(&path).expect("readable");
            let result = read(&bytes, None);
            if is_one_of(&READ) {
                let cluster = result.expect(&name);
                let gpus = cluster.nodes.iter().map(|node| u64::from(node.gpu_total())).sum();
                if let Some(expected) = count(&String::from_utf8_lossy(&bytes)) {
                    assert_eq!((cluster.nodes.len(), gpus), expected, "{name}");
                }
            } else if let Some((_, columns, nodes, gpus)) = TABLES.iter().find(|(table, ..)| *table == name) {
                let cluster = if columns.is_empty() {
                    result.expect(&name)
                } else {
                    assert!(matches!(result, Err(SavedError::Headerless { .. })), "{name}: {result:?}");
                    read(&bytes, Some(&columns.parse().expect(columns))).expect(&name)
                };
                let found = cluster.nodes.iter().map(|node| u64::from(node.gpu_total())).sum();
                assert_eq!((cluster.nodes.len(), found), (*nodes, *gpus), "{name}");
            } else if is_one_of(&NAMED) || (folder.ends_with("slurm-samples") && !is_one_of(&NOTES)) {
                let named = matches!(result, Err(SavedError::Other { .. } | SavedError::Headerless { .. }));
                assert!(named, "{name}: {result:?}");
            }
        }
    }
}
