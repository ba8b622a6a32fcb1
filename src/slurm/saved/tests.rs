//! Texts as several versions and sites print them, in small.

use std::fmt::Write as _;

use insta::assert_snapshot;
use proptest::prelude::*;

use super::{Kind, recognise};
use crate::model::{Cluster, Node};

mod headerless;

/// Reads a text of Slurm's.
fn read(text: &str) -> Result<(Cluster, Vec<String>), String> {
    match recognise(text).map_err(|error| error.to_string())? {
        Kind::Printed(printed) => printed.parse(text).map_err(|error| error.to_string()),
        other => Err(format!("{other:?}")),
    }
}

/// Returns the cluster in short, with the notes; or why there is none.
fn check(text: &str) -> String {
    let (cluster, notes) = match read(text) {
        Ok(read) => read,
        Err(error) => return error,
    };
    let mut lines: Vec<String> = cluster.nodes.iter().map(show).collect();
    lines.extend(cluster.partitions.iter().map(|own| {
        let time = own.max_time.map_or("unlimited".to_owned(), |time| format!("{} s", time.0));
        format!("partition {}{} {time}", own.name, if own.default { " (default)" } else { "" })
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
fn scontrol_in_blocks() {
    let text = "\
$ scontrol show node
NodeName=g1 Arch=x86_64 CoresPerSocket=16
   CPUAlloc=2 CPUEfctv=60 CPUTot=64 CPULoad=1.44
   AvailableFeatures=a,b
   ActiveFeatures=a
   Gres=gpu:v100:4(S:0-1),lscratch:800G
   OS=Linux 5.14.0 #1 SMP State=x PREEMPT
   RealMemory=64000 AllocMem=1000 FreeMem=N/A Sockets=2
   State=MIXED+DRAIN ThreadsPerCore=1 TmpDisk=0
   Partitions=gpu,long
   CfgTRES=cpu=64,mem=62.50G,billing=64,gres/gpu=4,gres/gpu:v100=4
   AllocTRES=cpu=2,mem=1000M,gres/gpu=1,gres/gpu:v100=1
   Reason=fan State=IDLE [2 of 3] broken [admin@2026-01-02T03:04:05]
   Comment=Gres=gpu:9

NodeName=g2 CoresPerSocket=1
   CPUAlloc=0 CPUTot=8 CPULoad=N/A
   AvailableFeatures=(null)
   Gres=gpu:1
   State=DOWN*
   Reason=two
       lines [root@2026-01-02T03:04:05]
Node g3 not found

PartitionName=gpu
   AllowGroups=ALL Default=YES
   MaxTime=1-00:00:00
";
    assert_snapshot!(check(text), @r#"
    g1 MIXED+DRAIN v100:1/4 [lscratch:800G] cpus 2/60 MiB 1000/64000 in gpu,long with a (fan State=IDLE [2 of 3] broken)
    g2 DOWN* gpu:0/1 cpus 0/8 (two lines)
    partition gpu (default) 86400 s
    note: line 23 was not read: it belongs to no node: "Node g3 not found"
    "#);
}

#[test]
fn scontrol_in_lines() {
    let text = "\
NodeName=g1 CPUAlloc=4 CPUTot=8 ActiveFeatures=a100,ib Gres=gpu:4(S:0-1),shard:gpu:8 GresUsed=gpu:(null):3(IDX:0-2),shard:gpu:0 OS=Linux 6.1 #1 SMP RealMemory=100 AllocMem=50 State=MIXED Partitions=p  CfgTRES=cpu=8,mem=100M AllocTRES=cpu=4 Reason=a=b c [x@1] Comment=State=DOWN
NodeName=g2 CPUAlloc=8 CPUTot=8 RealMemory=? Gres=gpu:t4:2 State=ALLOCATED CfgTRES=cpu=8 AllocTRES=cpu=8
NodeName=g3 CPUAlloc=8 CPUTot=8 Gres=gpu:t4:2 State=ALLOCATED CfgTRES=cpu=8 AllocTRES=cpu=8
NodeName=g4 CPUAlloc=8 CPUTot=8 Gres=(null) State=ALLOCATED CfgTRES=cpu=8,gres/gpu:t4=2 AllocTRES=
NodeName=g4 CPUTot=8 State=IDLE
NodeName=g5 CPUTot=8
NodeName=$(g6) State=IDLE
";
    assert_snapshot!(check(text), @r#"
    g1 MIXED gpu:3/4 [shard:gpu:8] cpus 4/8 MiB 50/100 in p with a100,ib (a=b c)
    g2 ALLOCATED t4:0/2 cpus 8/8
    g3 ALLOCATED t4:0/2 cpus 8/8
    g4 ALLOCATED t4:0/2 cpus 8/8
    note: g2: its RealMemory "?" could not be read
    note: line 5 ("NodeName=g4") was not read: the node is named above
    note: line 6 ("NodeName=g5") was not read: it says no State
    note: line 7 ("NodeName=$(g6)") was not read: node name "$(g6)" holds '$'; only letters, digits, '-', '_' and '.' are allowed
    note: g[2-3]: the use of its GPUs is not said; all count as free
    note: g4: no GPU in its GRES; counted as its TRES say
    "#);
}

#[test]
fn json_of_nodes() {
    let text = r#"{"meta": {}, "errors": [{"error": "x"}], "nodes": [
{"name": "g10", "state": ["MIXED", "PLANNED"], "cpus": 64, "effective_cpus": 60, "alloc_cpus": {"set": true, "infinite": false, "number": 3},
 "real_memory": {"set": true, "number": 1000}, "alloc_memory": 10, "gres": "gpu:a:2,gpu:b:2", "gres_used": "gpu:a:1(IDX:0),gpu:b:0(IDX:N/A)",
 "partitions": ["p", "q"], "features": ["x"], "active_features": ["y"], "reason": ""},
{"name": "g9", "state": "down", "state_flags": ["NOT_RESPONDING"], "cpus": 2, "alloc_cpus": 0, "gres": "gpu:1", "features": "x,y", "reason": "no power"},
{"name": "g8", "state": ["ALLOCATED"], "cpus": 2, "alloc_cpus": 2, "gres": "gpu:t4:4", "gres_used": "", "tres": "cpu=2,gres/gpu=4", "tres_used": "cpu=2,gres/gpu=3"},
{"name": "g9", "state": "idle"}, {"name": 7}, [], null, {"name": "a b", "state": "idle"}]}"#;
    assert_snapshot!(check(text), @r#"
    g8 ALLOCATED t4:3/4 cpus 2/2
    g9 down+NOT_RESPONDING gpu:0/1 cpus 0/2 with x,y (no power)
    g10 MIXED+PLANNED a:1/2 b:0/2 cpus 3/60 MiB 10/1000 in p,q with y
    note: nodes[3] ("g9") was not read: the node is named above
    note: nodes[4] ("7") was not read: {"name":7}
    note: nodes[5] was not read: []
    note: nodes[6] was not read: null
    note: nodes[7] ("a b") was not read: node name "a b" holds ' '; only letters, digits, '-', '_' and '.' are allowed
    note: Slurm's errors: {"error":"x"}
    "#);
    assert_snapshot!(check(r#"[{"name": "a", "gres": "gpu:t4:1", "state": "idle"}]"#), @"a idle t4:0/1");
}

#[test]
fn json_of_groups() {
    let text = r#"{"sinfo": [
{"node": {"state": ["MIXED"]}, "nodes": {"total": 3, "nodes": ["g1", "g2", "g[3]"]}, "cpus": {"allocated": 10, "total": 24, "minimum": 8, "maximum": 8},
 "memory": {"minimum": 100, "maximum": 200, "allocated": 50}, "features": {"total": "x,y", "active": "x"},
 "gres": {"total": "gpu:t4:2,tmp:9G", "used": "gpu:t4:1(IDX:0),tmp:0"}, "reason": {"description": "r"},
 "partition": {"name": "p", "maximums": {"time": {"set": true, "infinite": false, "number": 1500}}}},
{"nodes": {"nodes": ["g1"]}, "partition": {"name": "q", "maximums": {"time": {"set": false, "infinite": true, "number": 0}}}},
{"nodes": {"nodes": [], "total": 0}}, {"nodes": {"total": 1}}]}"#;
    assert_snapshot!(check(text), @r#"
    g1 MIXED t4:1/2 [tmp:9G] cpus 4/8 MiB 50/100 in p,q with x (r)
    g2 MIXED t4:1/2 [tmp:9G] cpus 4/8 MiB 50/100 in p with x (r)
    g3 MIXED t4:1/2 [tmp:9G] cpus 4/8 MiB 50/100 in p with x (r)
    partition p 90000 s
    partition q unlimited
    note: several nodes share an entry: their CPUs in use are taken as evenly spread, rounded up
    note: several nodes share an entry although they differ in CPUs or memory: the least counts
    note: sinfo[3] was not read: {"nodes":{"total":1}}
    "#);
}

#[test]
fn tables_as_sinfo_prints_them() {
    let text = "\
PARTITION AVAIL  TIMELIMIT  NODES  STATE NODELIST
gpu*         up 1-00:00:00      2    mix g[1-2]
gpu*         up 1-00:00:00      1 drain* g3
none         up   infinite      0    n/a
longest_p    up   infinite      3   idle g[1-2]
wrong        up   infinite      1   idle g[4-
";
    assert_snapshot!(check(text), @r#"
    g1 mix in gpu,longest_p
    g2 mix in gpu,longest_p
    g3 drain* in gpu
    partition gpu (default) 86400 s
    partition longest_p unlimited
    partition wrong unlimited
    note: line 5 ("longest_p up infinite 3 idle g[1-2]") names 2 nodes and counts 3
    note: g[1-2]: PARTITION "longest_p" fills its column and may be cut off; then what it says is too little
    note: line 6 ("wrong up infinite 1 idle g[4-") was not read: "g[4-": brackets do not match
    note: no column GRES: its nodes have no GPUs here; `sinfo -N -O 'NodeList:|,Partition:|,StateComplete:|,Gres:|,GresUsed:|,CPUsState:|,Memory:|'` prints them
    "#);
    let text = "\
Sat Jan  3 03:13:05 2026
NODELIST   NODES PARTITION       STATE CPUS    S:C:T MEMORY TMP_DISK WEIGHT AVAIL_FE REASON
g1             1      gpu*        idle 16     16:1:1  64000        0      1 v100,t4, none
g1             1      long        idle 16     16:1:1  64000        0      1 v100,t4, none
g2             1      gpu*       down* 16     16:1:1  64000        0      1       ib a fan is broken

$ sinfo -N -o '%N|%G'
NODELIST|GRES
g1|gpu:v100:2,gpu:t4:1
g2|gpu:v100:2

$ sinfo -R
REASON               USER      TIMESTAMP           NODELIST
other                root      2026-01-02T03:04:05 g9
";
    assert_snapshot!(check(text), @r#"
    g1 idle v100:0/2 t4:0/1 cpus 0/16 MiB 0/64000 in gpu,long with t4,v100
    g2 down* v100:0/2 cpus 0/16 MiB 0/64000 in gpu with ib (a fan is broken)
    partition gpu (default) unlimited
    note: g1: AVAIL_FEATURES "v100,t4," fills its column and may be cut off; then what it says is too little
    note: line 14 ("other root 2026-01-02T03:04:05 g9") was not read: it names no node of another table
    note: g2: the use of its GPUs, CPUs, memory is not said; all count as free
    note: partition gpu: its time limit is not said; counted as unlimited
    "#);
}

#[test]
fn tables_as_asked_for() {
    let text = "\
NODELIST            STATE     GRES                GRES_USED           CPUS(A/I/O/T)  MEMORY    ALLOCMEM  REASON
g1                  mixed     gpu:v100:2,gpu:t4:1 gpu:v100:1(IDX:0),gp1/15/0/16      64000     100       none
g2                  idle      gpu:nvidia_a100_80gbgpu:nvidia_a100_80gb0/16/0/16      64000     0         none
g3-with-a-long-name-down*     (null)              gpu:0               0/0/16/16      64000     0         no power
";
    assert_snapshot!(check(text), @r#"
    g1 mixed v100:1/2 t4:0/1 cpus 1/16 MiB 100/64000
    g2 idle nvidia_a100_80gb:1/1 cpus 0/16 MiB 0/64000
    g3-with-a-long-name- down* cpus 0/16 MiB 0/64000 (no power)
    note: g1: GRES_USED "gpu:v100:1(IDX:0),gp" fills its column and may be cut off; then what it says is too little
    note: g2: GRES "gpu:nvidia_a100_80gb" fills its column and may be cut off; then what it says is too little
    note: g2: GRES_USED "gpu:nvidia_a100_80gb" fills its column and may be cut off; then what it says is too little
    note: g3-with-a-long-name-: NODELIST "g3-with-a-long-name-" fills its column and may be cut off; then what it says is too little
    "#);
    let text = "\
NODELIST|STATE|GRES|GRES_USED|CPUS(A/I/O/T)|MEMORY|ACTIVE_FEATURES|REASON
g1|mixed|gpu:4(S:0,2)|gpu:2|8/8/0/16|64000|rtx6000,ib|a|b
g2|idle|gpu:t4:1
g3|odd|gpu:t4:1,mps:100|gpu:t4:0|?|x|(null)|none
";
    assert_snapshot!(check(text), @r#"
    g1 mixed gpu:2/4 cpus 8/16 MiB 0/64000 with ib,rtx6000 (a|b)
    g3 odd t4:0/1 [mps:100]
    note: line 3 ("g2|idle|gpu:t4:1") was not read: it does not fall into 8 columns
    note: g3: its CPUS "?" could not be read
    note: g3: its MEMORY "x" could not be read
    note: g1: the use of its memory is not said; all count as free
    "#);
    let text = "\
GRES       |NODES|STATE|HOSTNAMES|CPUS|MEMORY|
gpu:a100:40|    2|mixed|g[1-2]|16+|64000+|
";
    assert_snapshot!(check(text), @r#"
    g1 mixed a100:0/40 cpus 0/16 MiB 0/64000
    g2 mixed a100:0/40 cpus 0/16 MiB 0/64000
    note: g[1-2]: GRES "gpu:a100:40" fills its column and may be cut off; then what it says is too little
    note: g[1-2]: the use of its GPUs, CPUs, memory is not said; all count as free
    "#);
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
    let kind = |text: &str| format!("{:?}", recognise(text).expect(text));
    assert_eq!(kind("# mine\nnetwork_gbps: 1\nnodes: []"), "ClusterFile");
    assert_eq!(kind("{nodes: [{name: a, gpus: {t4: 1}}]}"), "ClusterFile");
    assert_eq!(kind(r#"{"nodes": [{"name": "a", "gpus": {"t4": 1}}]}"#), "ClusterFile");
    assert_eq!(kind(r#"{"schema": "hsched.inventory/1", "nodes": []}"#), "Inventory");
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
        "NodeName=g1 CPUTot=4",
        "NODELIST STATE\ng[ idle",
        "NODELIST STATE\ng[1-100000],h idle",
        "NODELIST STATE GRES\ng[1-10] idle gpu:1000000",
    ]
    .map(check)
    .into();
    assert_snapshot!(refusals.join("\n"), @r#"
    is empty
    is empty
    cannot be read: it looks like jobs (scontrol show job); it begins with "JobId=1 JobName=x"
    cannot be read: it looks like partitions (scontrol show partition); it begins with "PartitionName=p Default=YES"
    cannot be read: it looks like jobs (squeue); it begins with "JOBID PARTITION NAME USER ST"
    cannot be read: it looks like jobs (sacct); it begins with "JobID|JobName|State"
    cannot be read: it looks like jobs without a header line (squeue or sacct); it begins with "1|x|RUNNING|2"
    cannot be read: it looks like sinfo without its header line, and nothing in it names nodes or counts them; it begins with "milan,a100|gpu:a100:4"
    cannot be read: it looks like sinfo without its header line, and nothing in it names nodes or counts them; it begins with "batch gpu:v100:2 gpu:v100:0(IDX:N/A)"
    cannot be read: it looks like a table with commas whose columns are none of sinfo's; it begins with "gpu,0/640/0/640"
    cannot be read: it looks like sinfo without its header line, and nothing in it names nodes or counts them; it begins with "7 gpu train root R 1:00 2 g[1-2] gpu:1"
    cannot be read: it looks like sums over all nodes (sinfo -o '%F %C'), which name no kind of GPU; it begins with "281/16/1/298 25608/11524/244/37376"
    cannot be read: it looks like jobs and their steps (sacct); it begins with "1|alice|4|01:00:00"
    cannot be read: it looks like sinfo without its header line, and nothing in it names nodes or counts them; it begins with "gpu idle 0/8/0/8 64000"
    cannot be read: it looks like a list of words without any state or resources; it begins with "serial"
    cannot be read: it looks like sinfo without its header line, and nothing in it names nodes or counts them; it begins with "state,occurrences"
    cannot be read: it looks like a table with commas whose columns are none of sinfo's; it begins with "cluster,gpu,specifier"
    cannot be read: it is of no known kind; it begins with "GPU_GEN:VLT a1"
    cannot be read: it looks like the reasons of nodes (sinfo -R); it begins with "REASON USER TIMESTAMP NODELIST"
    cannot be read: it looks like a table of partitions (sinfo without NODELIST); it begins with "PARTITION AVAIL TIMELIMIT"
    cannot be read: it looks like slurm.conf or gres.conf; it begins with "NodeName=g[1-2] CPUs=4"
    cannot be read: it looks like slurm.conf or gres.conf; it begins with "NodeName=g[1-2] Name=gpu Count=2"
    cannot be read: it looks like Slurm's YAML; --json says the same and is read; it begins with "%YAML 1.1"
    cannot be read: it looks like a job file of hsched; it begins with "jobs:"
    cannot be read: it is of no known kind; it begins with "Lorem ipsum"
    cannot be read: it looks like jobs (squeue, sacct or scontrol show jobs, as JSON); it begins with "{\"jobs\": [], \"meta\": {}}"
    cannot be read: it looks like a plan of hsched; it begins with "{\"schema\": \"hsched.plan/1\"}"
    cannot be read: it looks like JSON without nodes; it begins with "{\"a\": 1}"
    begins like JSON but is none: EOF while parsing an object at line 1 column 34
    looks like Slurm's nodes as JSON, but no node in it can be read
    looks like scontrol show node, but no node in it can be read: line 1 ("NodeName=g1") was not read: it says no State
    looks like a table of sinfo, but no node in it can be read: line 2 ("g[ idle") was not read: "g[": brackets do not match
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
