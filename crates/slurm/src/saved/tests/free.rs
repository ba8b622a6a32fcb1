//! Free GPUs, which must never be overestimated.

use insta::assert_snapshot;

use super::{check, count};

#[test]
fn closed_partitions_have_no_free_gpus() {
    for state in ["down", "drain", "inact"] {
        let text = format!("PARTITION AVAIL NODELIST STATE GRES\np {state} g[1-2] idle gpu:t4:4\n");
        assert_eq!(count(&text), (2, 8, 0), "{text}");
        assert_eq!(count(&format!("{text}q up g2 idle gpu:t4:4\n")), (2, 8, 4));
    }
    let text = "PARTITION AVAIL NODELIST STATE GRES\np down g1 idle gpu:t4:4\np down g2 mix gpu:t4:4\nq up g2 mix gpu:t4:4\n";
    assert_snapshot!(check(text), @r"
    g1 idle+down t4:0/4 in p
    g2 mix t4:4/4 in p,q
    note: partition p is down: nodes in no other partition count as down
    note: g2: has jobs, but their GPUs are not shown: hsched counts none as free
    ");
    assert_eq!(count("NODELIST AVAIL GRES\ng1 down gpu:t4:4\ng2 up gpu:t4:4\n"), (2, 8, 4));
}

#[test]
fn states_are_told_by_counts_where_nothing_else_says_them() {
    let text = "\
NODELIST CPUS(A/I/O/T) GRES
g1 0/0/64/64 gpu:t4:4
g2 0/64/0/64 gpu:t4:4
g3 64/0/0/64 gpu:t4:4
g4 8/0/56/64 gpu:t4:4
g5 8/56/0/64 gpu:t4:4
g[6-7] 0/64/64/128 gpu:t4:4
";
    assert_snapshot!(check(text), @r"
    g1 down t4:0/4 cpus 0/64
    g2 idle t4:0/4 cpus 0/64
    g3 allocated t4:4/4 cpus 64/64
    g4 draining t4:0/4 cpus 8/64
    g5 mixed t4:4/4 cpus 8/64
    g6 unknown t4:0/4 cpus 0/64
    g7 unknown t4:0/4 cpus 0/64
    note: g[3,5]: has jobs, but their GPUs are not shown: hsched counts none as free
    note: g[6-7]: its line counts nodes that are not up, but does not say which: hsched counts none of them as free
    ");
    let text = "\
PARTITION NODES(A/I/O/T) NODELIST GRES
p 0/0/2/2 g[1-2] gpu:t4:4
p 0/2/0/2 g[3-4] gpu:t4:4
p 1/1/0/2 g[5-6] gpu:t4:4
p 0/1/1/2 g[7-8] gpu:t4:4
";
    assert_snapshot!(check(text), @r"
    g1 down t4:0/4 in p
    g2 down t4:0/4 in p
    g3 idle t4:0/4 in p
    g4 idle t4:0/4 in p
    g5 mixed t4:4/4 in p
    g6 mixed t4:4/4 in p
    g7 unknown t4:0/4 in p
    g8 unknown t4:0/4 in p
    note: g[5-6]: has jobs, but their GPUs are not shown: hsched counts none as free
    note: g[7-8]: its line counts nodes that are not up, but does not say which: hsched counts none of them as free
    ");
    // The number of nodes without names in each state follows from the counts.
    assert_snapshot!(check("NODES(A/I/O/T) GRES\n1/1/1/3 gpu:t4:4\n0/1/0/1 gpu:v100:2\n"), @r"
    unnamed1 allocated t4:4/4
    unnamed2 idle t4:0/4
    unnamed3 down t4:0/4
    unnamed4 idle v100:0/2
    note: the table has no node names; hsched numbers the nodes
    note: unnamed1: has jobs, but their GPUs are not shown: hsched counts none as free
    ");
    assert_eq!(count("NODES(A/I) NODES GRES\n1/1 4 gpu:t4:4\n"), (4, 16, 4));
}

#[test]
fn nodes_of_which_no_cpu_is_up_are_down_whatever_their_state() {
    for line in [
        "NODELIST STATE CPUS(A/I/O/T) GRES\ng1 idle 0/0/64/64 gpu:t4:4\n",
        "NODELIST STATE CPUS(A/I/O/T) GRES GRES_USED\ng1 mix 0/0/64/64 gpu:t4:4 gpu:t4:0\n",
        "PARTITION NODES NODES(A/I/O/T) STATE GRES\np 1 0/0/1/1 idle gpu:t4:4\n",
        "PARTITION NODES NODES(A/I/O/T) GRES\np 1 0/0/1/1 gpu:t4:4\n",
    ] {
        assert_eq!(count(line), (1, 4, 0), "{line}");
    }
    assert_snapshot!(check("NODELIST STATE CPUS(A/I/O/T) GRES\ng1 drain 0/0/64/64 gpu:t4:4\n"), @"g1 drain t4:0/4 cpus 0/64");
}

#[test]
fn what_is_not_said_to_be_free_on_a_node_with_work_is_not() {
    for state in ["alloc", "ALLOCATED", "mix", "mixed-", "comp", "MIXED+PLANNED", "IDLE+COMPLETING"] {
        assert_eq!(count(&format!("NODELIST STATE GRES\ng1 {state} gpu:t4:4\n")), (1, 4, 0), "{state}");
        let used = format!("NODELIST STATE GRES GRES_USED\ng1 {state} gpu:t4:4 gpu:t4:1(IDX:0)\n");
        // An allocated node has no idle CPU.
        let free = if state.to_lowercase().starts_with("alloc") { 0 } else { 3 };
        assert_eq!(count(&used), (1, 4, free), "{state}");
    }
    assert_eq!(count("NODELIST STATE GRES CPUS(A/I/O/T)\ng1 mix gpu:t4:4 0/8/0/8\n"), (1, 4, 4));
    let untracked =
        "NodeName=g1 CPUAlloc=2 CPUTot=8 Gres=gpu:t4:4 State=MIXED CfgTRES=cpu=8 AllocTRES=cpu=2\n";
    assert_eq!(count(untracked), (1, 4, 0));
    assert_eq!(count(&untracked.replace("cpu=8", "cpu=8,gres/gpu=4")), (1, 4, 4));
    assert_snapshot!(check("NODELIST STATE GRES\ng[1-2] mix gpu:t4:4\n"), @r"
    g1 mix t4:4/4
    g2 mix t4:4/4
    note: g[1-2]: has jobs, but their GPUs are not shown: hsched counts none as free
    ");
}

#[test]
fn of_two_that_disagree_the_one_that_leaves_less_counts() {
    let text = "\
NODELIST PARTITION STATE GRES GRES_USED
g1 p idle gpu:t4:4 gpu:t4:0
NODELIST PARTITION STATE GRES GRES_USED
g1 q mix gpu:t4:4 gpu:t4:3(IDX:0-2)
";
    assert_snapshot!(check(text), @r"
    g1 mix t4:3/4 in p,q
    note: g1: its lines show different states; hsched uses the less available one
    note: g1: its lines show different numbers of GPUs in use; hsched uses the largest
    ");
}

#[test]
fn of_two_states_the_more_severe_one_counts() {
    let state = |first: &str, second: &str| {
        let line = |partition: &str, state: &str| {
            format!("NODELIST PARTITION STATE GRES\ng1 {partition} {state} gpu:t4:4\n")
        };
        let text = check(&(line("p", first) + &line("q", second)));
        text.lines().next().expect("a node").split(' ').nth(1).expect("a state").to_owned()
    };
    let severe = ["idle", "maint", "unk", "drain", "down"];
    for pair in severe.windows(2) {
        assert_eq!([state(pair[0], pair[1]), state(pair[1], pair[0])], [pair[1]; 2]);
    }
}

#[test]
fn nodes_without_names_count_once() {
    let text = "PARTITION NODES GRES STATE\np 2 gpu:t4:4 idle\nq 2 gpu:t4:4 idle\n";
    assert_snapshot!(check(text), @"is ambiguous: gpu:t4:4 appears in several partitions, or in two identical lines, and these may be the same nodes; add the node names (%N or NodeList)");
    let text = "PARTITION NODES GRES STATE\np 2 gpu:t4:4 idle\nq 2 gpu:v100:4 idle\nq 9 (null) idle\np 1 (null) idle\n";
    assert_eq!(count(text), (14, 16, 16));
    // `-N` prints each node in each of its partitions.
    assert_snapshot!(check("NODES GRES STATE\n1 gpu:t4:4 idle\n1 gpu:t4:4 idle\n"), @"is ambiguous: gpu:t4:4 appears in several partitions, or in two identical lines, and these may be the same nodes; add the node names (%N or NodeList)");
    assert_snapshot!(check("TIMELIMIT NODES GRES\n1:00:00 2 gpu:t4:4\n2:00:00 2 gpu:t4:4\n"), @"is ambiguous: gpu:t4:4 appears in several partitions, or in two identical lines, and these may be the same nodes; add the node names (%N or NodeList)");
    assert_snapshot!(check("NODES(A/I) GRES\n1/1 gpu:t4:4\n"), @r#"cannot be read: it looks like a table of sinfo without node names (NODELIST) or node counts (NODES); it begins with "NODES(A/I) GRES""#);
    assert_snapshot!(check("NODES GRES\n2 gpu:t4:4\n$ sinfo\nNODES STATE\n2 idle\n"), @"is ambiguous: several tables count nodes without naming them; save only one of them, or add the node names (%N or NodeList)");
    let named = "NODES GRES\n2 gpu:t4:4\n$ sinfo\nNODELIST STATE GRES\ng[1-2] idle gpu:t4:4\n";
    assert_eq!(count(named), (2, 8, 8));
    let unsaid = "NODES GRES\n2 gpu:t4:4\n$ sinfo\nNODELIST STATE\ng[1-2] idle\n";
    assert_eq!(count(unsaid), (2, 8, 8));
    assert_snapshot!(check("NODELIST GRES_USED\ng1 gpu:t4:2(IDX:0-1)\n"), @"is incomplete: it shows which GPUs of g1 are in use, but not how many the node has; add GRES (%G or Gres)");
}

#[test]
fn an_allocated_node_has_no_free_gpu_whatever_its_gres_in_use_say() {
    let text = "\
NODELIST PARTITION STATE GRES GRES_USED
n1 gpu alloc gpu:a100:8 gpu:a100:0(IDX:N/A)
n2 gpu mix gpu:a100:8 gpu:a100:4(IDX:0-3)
n3 gpu allocated- gpu:a100:8 gpu:a100:2(IDX:0-1)
";
    assert_eq!(count(text), (3, 24, 4));
    assert_snapshot!(check(text), @r"
    n1 alloc a100:8/8 in gpu
    n2 mix a100:4/8 in gpu
    n3 allocated- a100:8/8 in gpu
    note: n[1,3]: is allocated, so it has no idle CPUs: hsched counts none of its GPUs as free
    ");
    // With known CPUs, GPUs held by no job are unusable if no CPU is idle.
    let json = r#"{"nodes": [
        {"name": "n1", "state": ["ALLOCATED"], "gres": "gpu:a100:8", "gres_used": "gpu:a100:0(IDX:N/A)"},
        {"name": "n2", "state": ["ALLOCATED"], "gres": "gpu:a100:8", "gres_used": "gpu:a100:0(IDX:N/A)", "cpus": 64},
        {"name": "n3", "state": ["IDLE"], "gres": "gpu:a100:8", "gres_used": "gpu:a100:0(IDX:N/A)", "cpus": 64}
    ]}"#;
    assert_snapshot!(check(json), @r"
    n1 ALLOCATED a100:8/8
    n2 ALLOCATED a100:0/8 cpus 64/64
    n3 IDLE a100:0/8 cpus 0/64
    note: n1: is allocated, so it has no idle CPUs: hsched counts none of its GPUs as free
    ");
}
