//! Nodes in Slurm's JSON.

use insta::assert_snapshot;

use super::check;

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
    note: nodes[3] ("g9") was not read: the node appears above
    note: nodes[4] ("7") was not read: it has no state, cpus or gres: {"name":7}
    note: nodes[5] was not read: it has no name: []
    note: nodes[6] was not read: it has no name: null
    note: nodes[7] ("a b") was not read: node name "a b" contains ' '; only letters, digits, '-', '_' and '.' are allowed
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
    note: several nodes share an entry: hsched divides their CPUs in use evenly and rounds up
    note: several nodes with different CPUs or memory share an entry: hsched uses the smallest values
    note: sinfo[3] was not read: it names no nodes: {"nodes":{"total":1}}
    "#);
}

#[test]
fn nodes_come_alone_and_one_after_the_other() {
    let node = |name: &str| {
        format!(r#"{{"name": "{name}", "gres": "gpu:t4:4", "state": ["IDLE"], "partitions": ["p"]}}"#)
    };
    let (one, two) = (node("g1"), node("g2"));
    assert_snapshot!(check(&one), @"g1 IDLE t4:0/4 in p");
    for text in [
        format!("{one}\n{two}\n"),
        format!("[{one}, {two}]"),
        format!("[\n  {one},\n  {two}\n]\n"),
        format!(r#"{{"nodes": [{one}, {two}], "last_update": 1}}"#),
        format!("[user@host ~]$ sinfo --json\n{{\"nodes\": [{one},\n--More--\n{two}]}}\n[user@host ~]$ \n"),
    ] {
        assert_eq!(super::count(&text), (2, 8, 8), "{text}");
    }
    assert_eq!(super::count(&format!(r#"{{"node": {one}}}"#)), (1, 4, 4));
}

#[test]
fn nodes_without_gres_are_said_to_have_no_gpus() {
    assert_snapshot!(check(r#"{"nodes": [{"name": "g1", "state": ["IDLE"]}]}"#), @r"
    g1 IDLE
    note: no GRES: nodes count as having no GPUs; `sinfo -N -O 'NodeList:|,Partition:|,StateComplete:|,Gres:|,GresUsed:|,CPUsState:|,Memory:|'` prints them
    ");
    assert_snapshot!(check(r#"{"nodes": [{"name": "g1", "state": ["IDLE"], "gres": ""}]}"#), @"g1 IDLE");
    // Slurm's own nodes may have other keys that contain `gpu`.
    assert_snapshot!(check(r#"{"name": "g1", "state": ["IDLE"], "gres": "gpu:t4:1", "gpu_spec": ""}"#), @"g1 IDLE t4:0/1");
}

#[test]
fn nodes_of_closed_partitions_are_down() {
    let group = |state: &str| {
        format!(
            r#"{{"sinfo": [{{"node": {{"state": ["IDLE"]}}, "nodes": {{"nodes": ["g1"]}}, "gres": {{"total": "gpu:t4:2"}},
            "partition": {{"name": "p", "partition": {{"state": ["{state}"]}}}}}}]}}"#
        )
    };
    assert_eq!(super::count(&group("UP")), (1, 2, 2));
    assert_snapshot!(check(&group("DOWN")), @r"
    g1 IDLE+down t4:0/2 in p
    note: partition p is DOWN: nodes in no other partition count as down
    ");
}

#[test]
fn nodes_of_other_programs_are_refused_with_the_reason() {
    let refusals = [
        r#"{"nodes": [{"hostname": "g1", "gpu_count": 4, "gpu_model": "A100"}]}"#,
        r#"[{"host": "g1", "gpus": 4}]"#,
        r#"{"nodes": [{"name": "g1", "state": "up", "gpu_total": 4, "gpu_free": 2}]}"#,
        r#"{"nodes": [{"name": "g1", "gpus": [{"model": "A100"}]}]}"#,
        r#"{"nodes": {"n1": {"state": "free", "ngpus": 4}}, "pbs_version": "20"}"#,
        r#"{"apiVersion": "v1", "items": [{"kind": "Node"}]}"#,
        r#"{"nodes": [{"name": "g1", "state": "idle", "gres""#,
        "{}",
        "[]",
    ]
    .map(check);
    assert_snapshot!(refusals.join("\n"), @r#"
    cannot be read: it looks like JSON of another program: Slurm's nodes have name, state and gres, these have gpu_count, gpu_model, hostname; it begins with "{\"nodes\": [{\"hostname\": \"g1\", \"gpu_count\": 4, \"gpu_model\": \"A100\"}]}"
    cannot be read: it looks like JSON of another program: Slurm's nodes have name, state and gres, these have gpus, host; it begins with "[{\"host\": \"g1\", \"gpus\": 4}]"
    cannot be read: it looks like JSON of another program: Slurm's nodes have name, state and gres, these have gpu_free, gpu_total, name, state; it begins with "{\"nodes\": [{\"name\": \"g1\", \"state\": \"up\", \"gpu_total\": 4, \"gpu_free\": 2}]}"
    cannot be read: it looks like JSON of another program: Slurm's nodes have name, state and gres, these have gpus, name; it begins with "{\"nodes\": [{\"name\": \"g1\", \"gpus\": [{\"model\": \"A100\"}]}]}"
    cannot be read: it looks like nodes of PBS (pbsnodes -F json); hsched reads only Slurm; it begins with "{\"nodes\": {\"n1\": {\"state\": \"free\", \"ngpus\": 4}}, \"pbs_version\": \"20\"}"
    cannot be read: it looks like output of Kubernetes; hsched reads only Slurm; it begins with "{\"apiVersion\": \"v1\", \"items\": [{\"kind\": \"Node\"}]}"
    cannot be read: its JSON is truncated
    cannot be read: it looks like JSON without nodes; it begins with "{}"
    cannot be read: it looks like JSON without nodes; it begins with "[]"
    "#);
}
