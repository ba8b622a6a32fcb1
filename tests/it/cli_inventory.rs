//! `hsched inventory` from cluster files and from output of `sinfo` and `squeue`.

use insta::assert_snapshot;
use serde_json::json;

use crate::sandbox::Sandbox;

/// Nodes as `sinfo` prints them: one in two partitions, a drained one and a reserved one.
const SINFO: [&str; 5] = [
    "v1|gpu*|1:00:00|mixed|gpu:v100:2(S:0-1)|gpu:v100:1(IDX:0)|2/6/0/8|64000|2048|v100,ib|none",
    "v1|long|infinite|mixed|gpu:v100:2(S:0-1)|gpu:v100:1(IDX:0)|2/6/0/8|64000|2048|v100,ib|none",
    "t2|gpu*|1:00:00|idle|gpu:t4:2|gpu:t4:0|0/8/0/8|64000|0|(null)|none",
    "t10|gpu*|1:00:00|idle+drain|gpu:t4:2|gpu:t4:0|0/8/0/8|64000|0|(null)|fan, \"left\"\nsays bob",
    "m1|gpu*|1:00:00|maint|gpu:v100:1,gpu:t4:1|gpu:0|0/8/0/8|64000|0|(null)|none",
];

/// A running job of the user on `v1`.
const SQUEUE: &str = "7|7|N/A|N/A|RUNNING|None|gpu|2026-11-21T06:13:16|2026-11-21T06:13:17|N/A|9:57|1|2|0|0|v1|\
    cpu=2,mem=2G,node=1,gres/gpu=1,gres/gpu:v100=1|gres:gpu:v100:1|N/A|mine|(null)";

fn sandbox() -> Sandbox {
    Sandbox::with_slurm().printing("sinfo", &SINFO).printing("squeue", &[SQUEUE])
}

#[test]
fn a_cluster_file_is_shown() {
    let sandbox = Sandbox::new().file(
        "cluster.yaml",
        "nodes:\n  - {name: 'gpu[01-03]', gpus: {v100: 5}, cpus: 16, memory: 192GiB}\n\
         \x20 - {name: x, gpus: {v100: 1, t4: 2}, gpus_used: {t4: 1}}\n",
    );
    assert_snapshot!(sandbox.run("inventory --cluster cluster.yaml").succeeds(), @r"
    GPU   TOTAL  FREE  STRANDED  USED  DOWN  RESERVED  MINE
    t4        2     1         0     1     0         0     0
    v100     16    16         0     0     0         0     0

    NODES       STATE  PARTITIONS  GPUS FREE/ALL     CPUS FREE  MEMORY FREE
    gpu[01-03]  idle               v100 5/5                 16      192 GiB
    x           idle               v100 1/1, t4 1/2          -            -
    ");
}

#[test]
fn slurm_is_asked_once_each() {
    let sandbox = sandbox();
    assert_snapshot!(sandbox.run("inventory").succeeds(), @r#"
    GPU   TOTAL  FREE  STRANDED  USED  DOWN  RESERVED  MINE
    t4        5     2         0     0     2         1     0
    v100      3     1         0     1     0         1     1

    NODES  STATE             PARTITIONS  GPUS FREE/ALL     CPUS FREE  MEMORY FREE
    m1     maint             gpu         v100 0/1, t4 0/1          8       62 GiB
    t2     idle              gpu         t4 2/2                    8       62 GiB
    t10    idle+drain (fan,  gpu         t4 0/2                    8       62 GiB
           "left" says bob)
    v1     mixed             gpu, long   v100 1/2                  6       60 GiB
    "#);
    assert_eq!((sandbox.calls("sinfo").len(), sandbox.calls("squeue").len()), (1, 1));
    assert_snapshot!(sandbox.calls("sinfo")[0].join(" ").replace('\u{1f}', "|").replace('\u{1e}', "^"), @"-h -N -O NodeList:|,Partition:|,Time:|,StateComplete:/,StateLong:|,Gres:|,GresUsed:|,CPUsState:|,Memory:|,AllocMem:|,features_act:|,Reason:^");
    assert_eq!(sandbox.calls("squeue")[0][..5], ["--me", "--all", "-h", "-t", "all"]);
}

#[test]
fn the_users_own_formats_do_not_reach_slurm() {
    let sandbox = sandbox()
        .variable("SQUEUE_FORMAT", "%i")
        .variable("SINFO_FORMAT", "%n")
        .variable("SQUEUE_PARTITION", "long")
        .variable("SLURM_TIME_FORMAT", "relative")
        .variable("SLURM_CLUSTERS", "north")
        .variable("LC_ALL", "de_DE.UTF-8");
    sandbox.run("inventory").succeeds();
    for program in ["sinfo", "squeue"] {
        let environment = sandbox.environment(program);
        let variables = environment.lines().filter(|line| line.starts_with('S') || line.starts_with("LC"));
        let mut variables: Vec<&str> = variables.filter(|line| !line.starts_with("SHLVL")).collect();
        variables.sort_unstable();
        assert_eq!(variables, ["LC_ALL=C", "SLURM_CLUSTERS=north", "SLURM_TIME_FORMAT=standard"]);
    }
}

#[test]
fn json_has_types_nodes_and_partitions() {
    let ran = sandbox().run("inventory --format json");
    let value = ran.json();
    assert_eq!(value["schema"], "hsched.inventory/1");
    assert_eq!(
        value["gpus"],
        json!({
            "t4": {"total": 5, "free": 2, "stranded": 0, "used": 0, "down": 2, "reserved": 1, "mine": 0, "model": "t4"},
            "v100": {"total": 3, "free": 1, "stranded": 0, "used": 1, "down": 0, "reserved": 1, "mine": 1, "model": "v100"},
        })
    );
    let names: Vec<_> = value["nodes"].as_array().expect("nodes").iter().map(|node| &node["name"]).collect();
    assert_eq!(names, ["m1", "t2", "t10", "v1"]);
    assert_eq!(
        value["nodes"][3],
        json!({
            "name": "v1", "state": "mixed", "availability": "up", "reason": null,
            "partitions": ["gpu", "long"], "features": ["ib", "v100"], "gpus_untyped": false, "other_gres": [],
            "gpus": [{"type": "v100", "total": 2, "used": 1, "free": 1, "mine": 1}],
            "cpus": {"total": 8, "used": 2},
            "memory_bytes": {"total": 64_000_u64 << 20, "used": 2048_u64 << 20},
        })
    );
    // GPUs of a node that is not up are unavailable.
    assert_eq!(value["nodes"][2]["gpus"][0]["free"], 0);
    assert_eq!(
        value["partitions"],
        json!([{"name": "gpu", "default": true, "max_time_s": 3600.0},
               {"name": "long", "default": false, "max_time_s": null}])
    );
    assert_eq!((ran.stderr.as_str(), &value["notes"]), ("", &json!([])));
}

#[test]
fn yaml_is_a_cluster_file_of_the_same_cluster() {
    let sandbox = sandbox();
    let yaml = sandbox.run("inventory --format yaml").succeeds();
    assert_eq!(sandbox.calls("squeue").len(), 0);
    assert_snapshot!(yaml, @r#"
    partitions:
      - name: gpu
        default: true
        max_time: 3600s
      - name: long
    nodes:
      - name: m1
        gpus: {v100: 1, t4: 1}
        cpus: 8
        memory: 64000MiB
        partitions: [gpu]
        state: maint
      - name: t2
        gpus: {t4: 2}
        cpus: 8
        memory: 64000MiB
        partitions: [gpu]
      - name: t10
        gpus: {t4: 2}
        cpus: 8
        memory: 64000MiB
        partitions: [gpu]
        state: idle+drain
        reason: "fan, \"left\" says bob"
      - name: v1
        gpus: {v100: 2}
        gpus_used: {v100: 1}
        cpus: 8
        cpus_used: 2
        memory: 64000MiB
        memory_used: 2GiB
        partitions: [gpu, long]
        features: [ib, v100]
        state: mixed
    "#);
    let frozen = Sandbox::new().file("frozen.yaml", &yaml);
    assert_eq!(frozen.run("inventory --cluster frozen.yaml --format yaml").succeeds(), yaml);
    let mut live = sandbox.run("inventory --format json").json();
    live["gpus"]["v100"]["mine"] = 0.into();
    live["nodes"][3]["gpus"][0]["mine"] = 0.into();
    assert_eq!(frozen.run("inventory --cluster frozen.yaml --format json").json(), live);
}

#[test]
fn odd_lines_are_noted_and_the_rest_is_shown() {
    let sandbox = sandbox().printing("sinfo", &["v1|gpu*", SINFO[2]]).printing("squeue", &["x", SQUEUE]);
    let ran = sandbox.run("inventory").exits(0);
    assert!(ran.stdout.contains("t2"), "{}", ran.stdout);
    assert_snapshot!(ran.stderr, @r#"
    note: cannot parse a line of sinfo output: "v1|gpu*"
    note: cannot parse a line of squeue output: "x"
    note: job 7: Slurm does not show which GPU types its 1 v100 on v1 are; its GPUs are not counted as free for a new plan
    "#);
}

#[test]
fn a_cluster_without_gpus_or_nodes_is_one_too() {
    let sandbox = Sandbox::with_slurm().file("cpu.yaml", "nodes: [{name: c1}]");
    assert_snapshot!(sandbox.run("inventory --cluster cpu.yaml").succeeds(), @r"
    no GPUs

    NODES  STATE  PARTITIONS  GPUS FREE/ALL  CPUS FREE  MEMORY FREE
    c1     idle                                      -            -
    ");
    let ran = sandbox.run("inventory").exits(0);
    assert_snapshot!(ran.stdout + &ran.stderr, @r"
    no GPUs

    NODES  STATE  PARTITIONS  GPUS FREE/ALL  CPUS FREE  MEMORY FREE
    note: sinfo lists no nodes: you may not have access to any partition
    ");
}

#[test]
fn long_lists_fit_the_width() {
    let names: Vec<String> = (1..200).step_by(2).map(|n| format!("compute-gpu-{n}")).collect();
    let cluster = format!(
        "nodes:\n  - {{name: 'b[{list}]', gpus: {{rtx_a6000: 4, rtx_a5000: 2}}, partitions: [interactive, gpu-long, gpu-short]}}\n\
         \x20 - {{name: '{names}', gpus: {{v100: 2}}}}\n",
        list = "1,3,5,7,9,11,13,15,17,19,21,23,25",
        names = names.join(",")
    );
    let table =
        Sandbox::new().file("cluster.yaml", cluster).run("inventory --cluster cluster.yaml").succeeds();
    let long: Vec<&str> = table.lines().filter(|line| line.chars().count() > 80).collect();
    assert!(long.is_empty(), "{table}");
}

#[test]
fn this_machine_is_a_cluster_of_one_node() {
    // The presence of a driver depends on the machine; its absence is never a failure.
    let sandbox = Sandbox::new();
    let value = sandbox.run("inventory --local --format json").exits(0).json();
    assert_eq!(
        (value["schema"].as_str(), &value["machine"]["host"].is_string()),
        (Some("hsched.inventory/1"), &true)
    );
    let seen = value["machine"]["gpus"].as_array().expect("GPUs").len();
    assert!(seen > 0 || !value["notes"].as_array().expect("notes").is_empty(), "{value}");
    let yaml = sandbox.run("inventory --local --format yaml").exits(0).stdout;
    let sandbox = sandbox.file("own.yaml", yaml);
    let again = sandbox.run("inventory --cluster own.yaml --format json").json();
    assert_eq!(again["nodes"][0]["name"], value["nodes"][0]["name"]);
    assert_eq!(
        again["gpus"].as_object().map(serde_json::Map::len),
        value["gpus"].as_object().map(serde_json::Map::len)
    );
}

#[test]
fn this_machine_and_a_file_exclude_each_other() {
    for other in ["--cluster cluster.yaml", "--from cluster.yaml"] {
        let error = Sandbox::new().run(&format!("inventory --local {other}")).fails(2);
        assert!(error.contains("cannot be used with"), "{error}");
    }
}
