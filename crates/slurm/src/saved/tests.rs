//! Texts in the formats of several versions and sites, reduced in size.

use std::fmt::Write as _;

use insta::assert_snapshot;
use proptest::prelude::*;

use super::{Columns, Saved};
use hsched_model::{Availability, Cluster, GpuStock, Node};

mod columns;
mod cut;
mod free;
mod headerless;
mod json;
mod scontrol;
mod surroundings;
mod tables;

/// Reads a text printed by Slurm.
fn read(text: &str) -> Result<(Cluster, Vec<String>), String> {
    read_as(text, None)
}

/// Reads a text printed by Slurm; `columns` are those of a table without a header line.
fn read_as(text: &str, columns: Option<&Columns>) -> Result<(Cluster, Vec<String>), String> {
    match super::read(text, columns).map_err(|error| error.to_string())? {
        Saved::Printed(cluster, notes) => Ok((cluster, notes)),
        other => Err(format!("{other:?}")),
    }
}

/// Returns a summary of the cluster with the notes, or why there is none.
fn check(text: &str) -> String {
    shown(read(text))
}

/// Returns the number of nodes, of GPUs, and of free GPUs on nodes that are up.
fn count(text: &str) -> (usize, u32, u32) {
    let (cluster, _) = read(text).expect(text);
    let up = cluster.nodes.iter().filter(|node| node.state.availability() == Availability::Up);
    let free = up.flat_map(|node| &node.gpus).map(GpuStock::free).sum();
    (cluster.nodes.len(), cluster.nodes.iter().map(Node::gpu_total).sum(), free)
}

fn shown(read: Result<(Cluster, Vec<String>), String>) -> String {
    let (cluster, notes) = match read {
        Ok(read) => read,
        Err(error) => return error,
    };
    let mut lines: Vec<String> = cluster.nodes.iter().map(show).collect();
    lines.extend(cluster.partitions.iter().map(|partition| {
        let time = partition.max_time.map_or("unlimited".to_owned(), |time| format!("{} s", time.0));
        format!("partition {}{} {time}", partition.name, if partition.default { " (default)" } else { "" })
    }));
    lines.extend(notes.iter().map(|note| format!("note: {note}")));
    lines.join("\n")
}

fn show(node: &Node) -> String {
    let gpus = node.gpus.iter().map(|stock| format!(" {}:{}/{}", stock.gpu_type, stock.used, stock.total));
    let other = node.other_gres.iter().map(|part| format!(" [{part}]"));
    let mut text = format!("{} {}{}", node.name, node.state, gpus.chain(other).collect::<String>());
    for (what, usage, shift) in [("cpus", node.cpus, 0), ("MiB", node.memory, 20)] {
        if let Some(usage) = usage {
            let _ = write!(text, " {what} {}/{}", usage.used >> shift, usage.total >> shift);
        }
    }
    for (what, words) in [("in", &node.partitions), ("with", &node.features)] {
        if !words.is_empty() {
            let _ = write!(text, " {what} {}", words.iter().cloned().collect::<Vec<_>>().join(","));
        }
    }
    if let Some(reason) = &node.reason {
        let _ = write!(text, " ({reason})");
    }
    text
}

#[test]
fn hscheds_own_question_to_sinfo() {
    let text = "g1|gpu*|infinite|idle|gpu:t4:1|gpu:t4:0|0/1/0/1|1|0|(null)|none^\n";
    assert_snapshot!(check(&text.replace('|', "\u{1f}").replace('^', "\u{1e}")), @r"
    g1 idle t4:0/1 cpus 0/1 MiB 0/1 in gpu
    partition gpu (default) unlimited
    ");
    assert_snapshot!(check("x\u{1f}y\u{1e}"), @r#"looks like hsched's own question to sinfo, but no node in it can be read: the output of sinfo could not be parsed; it begins with "x y""#);
}

#[test]
fn files_of_hsched_are_told_apart() {
    let kind = |text: &str| super::read(text, None).expect(text);
    assert_eq!(kind("# mine\nnetwork_gbps: 1\nnodes: []"), Saved::ClusterFile);
    assert_eq!(kind("{nodes: [{name: a, gpus: {t4: 1}}]}"), Saved::ClusterFile);
    assert_eq!(kind(r#"{"nodes": [{"name": "a", "gpus": {"t4": 1}}]}"#), Saved::ClusterFile);
    let inventory = r#"{"schema": "hsched.inventory/1", "nodes": []}"#;
    let session = format!("$ hsched inventory --format json\n{inventory}\n$ exit\n");
    assert_eq!(kind(&session), Saved::Inventory(inventory.to_owned()));
}

#[test]
fn other_texts_are_refused_by_name() {
    let refusals: Vec<String> = [
        "",
        "$ sinfo\n",
        "JobId=1 JobName=x",
        "PartitionName=p Default=YES",
        "      JOBID PARTITION     NAME     USER ST\n 1 p x y R",
        "JobID|JobName|State\n1|x|COMPLETED",
        "1|x|RUNNING|2",
        "milan,a100|gpu:a100:4\nmilan|(null)",
        "batch gpu:v100:2 gpu:v100:0(IDX:N/A)\nbatch (null) gpu:0",
        "gpu,0/640/0/640\ncpu,10/630/0/640",
        "7 gpu train root R 1:00 2 g[1-2] gpu:1",
        "281/16/1/298 25608/11524/244/37376",
        "1|alice|4|01:00:00\n1.batch||4|01:00:00",
        "gpu idle 0/8/0/8 64000",
        "serial\nparallel",
        "state,occurrences\nidle,23",
        "cluster,gpu,specifier\nFir,H100,h100",
        "GPU_GEN:VLT a1\nGPU_GEN:AMP a2",
        "REASON USER TIMESTAMP NODELIST\nx root now g1",
        "REASON USER TIMESTAMP STATE NODELIST\nx root now down g1",
        "PARTITION AVAIL TIMELIMIT\np up infinite",
        "NodeName=g[1-2] CPUs=4\nClusterName=c",
        "NodeName=g[1-2] Name=gpu Count=2",
        "%YAML 1.1\n---",
        "jobs:\n- name: a",
        "Lorem ipsum",
        r#"{"jobs": [], "meta": {}}"#,
        r#"{"schema": "hsched.plan/1"}"#,
        r#"{"a": 1}"#,
        r#"{"nodes": [{"name": "a", "gres": 1"#,
        r#"{"meta": {}, "nodes": []}"#,
        "NODELIST STATE\ng[ idle",
        "NODELIST STATE\ng[1-100000],h idle",
        "NODELIST STATE GRES\ng[1-10] idle gpu:1000000",
    ]
    .map(check)
    .into();
    assert_snapshot!(refusals.join("\n"), @r#"
    is empty
    has only commands and comments (lines that begin with a prompt or #), and no output below them
    cannot be read: it looks like jobs (scontrol show job); it begins with "JobId=1 JobName=x"
    cannot be read: it looks like partitions (scontrol show partition); it begins with "PartitionName=p Default=YES"
    cannot be read: it looks like jobs (squeue); it begins with "JOBID PARTITION NAME USER ST"
    cannot be read: it looks like jobs (sacct); it begins with "JobID|JobName|State"
    cannot be read: it looks like jobs without a header line (squeue or sacct); it begins with "1|x|RUNNING|2"
    has a table without a header line, from line 1 on; print it again with the header (without -h), or give its format, such as --columns '%N|%G|%T' or '%D %G'
    has a table without a header line, from line 1 on; print it again with the header (without -h), or give its format, such as --columns '%N|%G|%T' or '%D %G'
    has a table without a header line, from line 1 on; print it again with the header (without -h), or give its format, such as --columns '%N|%G|%T' or '%D %G'
    cannot be read: it looks like jobs without a header line (squeue or sacct); it begins with "7 gpu train root R 1:00 2 g[1-2] gpu:1"
    has a table without a header line, from line 1 on; print it again with the header (without -h), or give its format, such as --columns '%N|%G|%T' or '%D %G'
    cannot be read: it looks like jobs and their steps (sacct); it begins with "1|alice|4|01:00:00"
    has a table without a header line, from line 1 on; print it again with the header (without -h), or give its format, such as --columns '%N|%G|%T' or '%D %G'
    cannot be read: it looks like a list of words without any state or resources; it begins with "serial"
    has a table without a header line, from line 1 on; print it again with the header (without -h), or give its format, such as --columns '%N|%G|%T' or '%D %G'
    cannot be read: it looks like CSV without any column of sinfo; it begins with "cluster,gpu,specifier"
    cannot be read: its format is unknown; it begins with "GPU_GEN:VLT a1"
    cannot be read: it looks like reasons why nodes are down (sinfo -R); it begins with "REASON USER TIMESTAMP NODELIST"
    cannot be read: it looks like reasons why nodes are down (sinfo -R); it begins with "REASON USER TIMESTAMP STATE NODELIST"
    cannot be read: it looks like a table of sinfo without node names (NODELIST) or node counts (NODES); it begins with "PARTITION AVAIL TIMELIMIT"
    cannot be read: it looks like slurm.conf or gres.conf; it begins with "NodeName=g[1-2] CPUs=4"
    cannot be read: it looks like slurm.conf or gres.conf; it begins with "NodeName=g[1-2] Name=gpu Count=2"
    cannot be read: it looks like YAML of Slurm; use --json, which hsched reads; it begins with "%YAML 1.1"
    cannot be read: it looks like a job file of hsched; it begins with "jobs:"
    cannot be read: its format is unknown; it begins with "Lorem ipsum"
    cannot be read: it looks like jobs (squeue, sacct or scontrol show jobs, as JSON); it begins with "{\"jobs\": [], \"meta\": {}}"
    cannot be read: it looks like an hsched plan; it begins with "{\"schema\": \"hsched.plan/1\"}"
    cannot be read: it looks like JSON without nodes; it begins with "{\"a\": 1}"
    cannot be read: its JSON is truncated
    looks like Slurm's nodes as JSON, but no node in it can be read
    is ambiguous: NODELIST is truncated, as in "g["; `sinfo -N -O 'NodeList:|,Partition:|,StateComplete:|,Gres:|,GresUsed:|,CPUsState:|,Memory:|'` prints it in full
    names more than 100000 nodes
    names more than 1000000 GPUs
    "#);
}

const WORD: &str = "(NodeName=|PartitionName=|State=|Gres=|Reason=|CfgTRES=|NODELIST|STATE|GRES|GRES_USED|REASON|NODES|CPUS\\(A/I/O/T\\)|g\\[1-3\\]|gpu:t4:2|idle|[a-z0-9\\[\\]():=,@*/+-]{0,5}|\\PC{0,3}| |\\||\n|\n\n|\u{1f}|\u{1e})";
const JSON_TEXT: &str = "(\\{|\\}|\\[|\\]|:|,|\"nodes\"|\"sinfo\"|\"name\"|\"state\"|\"cpus\"|\"gres\"|\"gpu:t4:2\"|\"a\"|1|null|true|-1e9){0,30}";

fn value() -> impl Strategy<Value = serde_json::Value> {
    use serde_json::{Value, json};
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "(g\\[1-3\\]|a|gpu:t4:2|\\PC{0,4})".prop_map(Value::from),
    ];
    let key = "(nodes|sinfo|name|state|state_flags|cpus|memory|gres|total|used|minimum|allocated|number|set|partition|maximums|time|features|reason|tres)";
    let inner = leaf.prop_recursive(4, 40, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::btree_map(key, inner, 0..6).prop_map(|map| json!(map)),
        ]
    });
    prop::collection::btree_map("(nodes|sinfo|meta|errors)", inner, 1..4).prop_map(|map| json!(map))
}

proptest! {
    #[test]
    fn no_text_panics(words in prop::collection::vec(WORD, 0..40), json in JSON_TEXT) {
        let _ = check(&words.concat());
        let _ = check(&format!("NODELIST STATE GRES\n{}", words.concat()));
        let _ = check(&format!("NodeName={}", words.concat()));
        let _ = check(&format!("$ sinfo -h -o '{json}'\n{}", words.concat()));
        if let Ok(columns) = "%N %10G%t %E".parse() {
            let _ = read_as(&words.concat(), Some(&columns));
        }
        let _ = check(&json);
    }

    #[test]
    fn no_json_panics_or_counts_more_than_there_is(value in value()) {
        if let Ok((cluster, _)) = read(&value.to_string()) {
            let stocks = cluster.nodes.iter().flat_map(|node| &node.gpus);
            prop_assert!(stocks.clone().all(|stock| stock.used <= stock.total), "{cluster:?}");
        }
    }
}
