//! Tables of sinfo with their header lines.

use insta::assert_snapshot;

use super::check;

#[test]
fn tables_as_sinfo_prints_them() {
    let text = "\
PARTITION AVAIL  TIMELIMIT  NODES  STATE NODELIST
gpu*         up 1-00:00:00      2    mix g[1-2]
gpu*         up 1-00:00:00      1 drain* g3
none         up   infinite      0    n/a
longest_p    up   infinite      3   idle g[1-2]
wrong        up   infinite      1   idle $(g4)
";
    assert_snapshot!(check(text), @r#"
    g1 mix in gpu,longest_p
    g2 mix in gpu,longest_p
    g3 drain* in gpu
    partition gpu (default) 86400 s
    partition longest_p unlimited
    note: no GRES column: nodes count as having no GPUs; `sinfo -N -O 'NodeList:|,Partition:|,StateComplete:|,Gres:|,GresUsed:|,CPUsState:|,Memory:|'` prints them
    note: g[1-2]: its lines show different states; hsched uses the less available one
    note: "longest_p up infinite 3 idle g[1-2]" names 2 nodes, but counts 3
    note: 1 line was left out: line 6 "wrong up infinite 1 idle $(g4)" (it does not match the 6 columns)
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
    note: g1: AVAIL_FEATURES "v100,t4," fills its column and may be truncated
    note: 3 lines were left out: line 14 "other root 2026-01-02T03:04:05 g9" (its node is not in another table), line 7 "$ sinfo -N -o '%N|%G'", line 12 "$ sinfo -R"
    note: partition gpu: no time limit is given; hsched assumes unlimited
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
    assert_snapshot!(check(text), @r#"is ambiguous: GRES is truncated, as in "gpu:nvidia_a100_80gb"; `sinfo -N -O 'NodeList:|,Partition:|,StateComplete:|,Gres:|,GresUsed:|,CPUsState:|,Memory:|'` prints it in full"#);
    let text = "\
NODELIST|STATE|GRES|GRES_USED|CPUS(A/I/O/T)|MEMORY|ACTIVE_FEATURES|REASON
g1|mixed|gpu:4(S:0,2)|gpu:2|8/8/0/16|64000|rtx6000,ib|a|b
g2|idle|gpu:t4:1
g3|odd|gpu:t4:1,mps:100|gpu:t4:0|?|x|(null)|none
";
    assert_snapshot!(check(text), @r#"
    g1 mixed gpu:2/4 cpus 8/16 MiB 0/64000 with ib,rtx6000 (a|b)
    g3 odd t4:0/1 [mps:100]
    note: g3: its CPUS(A/I/O/T) "?" could not be read
    note: g3: its MEMORY "x" could not be read
    note: 1 line was left out: line 3 "g2|idle|gpu:t4:1" (it does not match the 8 columns)
    note: g1: its use of memory is not given; hsched counts all as free
    "#);
    let text = "\
GRES       |NODES|STATE|HOSTNAMES|CPUS|MEMORY|
gpu:a100:40|    2|mixed|g[1-2]|16+|64000+|
";
    assert_snapshot!(check(text), @r#"
    g1 mixed a100:40/40 cpus 0/16 MiB 0/64000
    g2 mixed a100:40/40 cpus 0/16 MiB 0/64000
    note: g[1-2]: GRES "gpu:a100:40" fills its column and may be truncated
    note: g[1-2]: has jobs, but their GPUs are not shown: hsched counts none as free
    note: g[1-2]: its use of CPUs, memory is not given; hsched counts all as free
    "#);
}

#[test]
fn cells_may_be_empty_and_texts_have_blanks() {
    // The reservation of most nodes is empty.
    let text = "\
Mon Jan  5 10:00:00 2026
PARTITION AVAIL  TIMELIMIT   JOB_SIZE ROOT OVERSUBS     GROUPS  NODES       STATE RESERVATION NODELIST
gpu*         up 1-00:00:00 1-infinite   no       NO        all      2       mixed             g[1-2]
gpu*         up 1-00:00:00 1-infinite   no       NO        all      1       maint      weekly g3
none         up 1-00:00:00 1-infinite   no       NO        all      0         n/a             \n";
    assert_snapshot!(check(text), @r"
    g1 mixed in gpu
    g2 mixed in gpu
    g3 maint in gpu
    partition gpu (default) 86400 s
    note: no GRES column: nodes count as having no GPUs; `sinfo -N -O 'NodeList:|,Partition:|,StateComplete:|,Gres:|,GresUsed:|,CPUsState:|,Memory:|'` prints them
    ");
    // Without alignment the position of a word tells nothing, but its content identifies it.
    let collapsed = "STATE RESERVATION NODELIST GRES\nidle g1 gpu:t4:2\nmaint weekly g2 gpu:t4:2\n";
    assert_snapshot!(check(collapsed), @r"
    g1 idle t4:0/2
    g2 maint t4:0/2
    ");
    // Only the position distinguishes an empty cell from a text with one more word.
    let text = [
        "     NODES RESERVATION NODELIST  REASON            CPUS(A/I/O/T)",
        "         1             a3        a fan is broken    113/0/15/128",
        "         1      weekly a4        none                0/128/0/128",
    ]
    .join("\n");
    assert_snapshot!(check(&text), @r"
    a3 draining cpus 113/128 (a fan is broken)
    a4 idle cpus 0/128
    note: no GRES column: nodes count as having no GPUs; `sinfo -N -O 'NodeList:|,Partition:|,StateComplete:|,Gres:|,GresUsed:|,CPUsState:|,Memory:|'` prints them
    ");
    // Reasons in a middle column.
    let text = "\
REASON                    NODELIST   STATE GRES
a fan is broken           g1         drain gpu:t4:2
none                      g2          idle gpu:t4:2
";
    assert_snapshot!(check(text), @r"
    g1 drain t4:0/2 (a fan is broken)
    g2 idle t4:0/2
    ");
    assert_snapshot!(check("NODELIST REASON STATE\ng1 none idle\ng2 no power at all down\n"), @r"
    g1 idle
    g2 down (no power at all)
    note: no GRES column: nodes count as having no GPUs; `sinfo -N -O 'NodeList:|,Partition:|,StateComplete:|,Gres:|,GresUsed:|,CPUsState:|,Memory:|'` prints them
    ");
}

#[test]
fn marks_between_cells_may_stand_inside_of_them_and_around() {
    let text = "NODELIST,STATE,GRES,CPUS(A/I/O/T)\ng[1,3],idle,gpu:v100:2,gpu:t4:1,0/16/0/16\ng2,idle,gpu:t4:1,0/8/0/8\n";
    assert_snapshot!(check(text), @r"
    g1 idle v100:0/2 t4:0/1 cpus 0/8
    g2 idle t4:0/1 cpus 0/8
    g3 idle v100:0/2 t4:0/1 cpus 0/8
    ");
    let text =
        "| NODELIST | STATE | GRES |\n|---|---|---|\n| g1 | idle | gpu:t4:2 |\n| g2 | idle | gpu:t4:2 |\n";
    assert_snapshot!(check(text), @r"
    g1 idle t4:0/2
    g2 idle t4:0/2
    ");
}

#[test]
fn marks_inside_of_values_are_told_from_those_between() {
    // Two ways to join the parts are equally plausible.
    let unclear = "AVAIL_FEATURES,NODELIST,ACTIVE_FEATURES\na,b,n1,a,b\n";
    assert_snapshot!(check(unclear), @"is ambiguous: only 0 of 1 lines match the 3 columns of the table; the other lines may be broken or truncated, or the table has different columns");
    let text = "AVAIL_FEATURES,GRES,NODELIST,STATE\na,b,gpu:v100:2(S:0-1),gpu:t4:2(S:0-1),n[1,3],idle\n";
    assert_eq!(super::count(text), (2, 8, 8));
    let lost = "NODELIST|STATE|GRES\ng1|idle|gpu:t4:2\ng2|idle|gpu:t4:2\ng3|i|d|le|gpu:t4:2\n";
    assert_snapshot!(check(lost), @"is ambiguous: only 2 of 3 lines match the 3 columns of the table; the other lines may be broken or truncated, or the table has different columns");
    assert_eq!(super::count("| RESERVATION | NODELIST | STATE |\n| | g1 | idle |\n"), (1, 0, 0));
    assert_eq!(super::count("RESERVATION|NODELIST|STATE|\n|g1|idle|\n"), (1, 0, 0));
}

#[test]
fn names_of_nodes_are_enough() {
    assert_snapshot!(check("NODELIST AVAIL_FEATURES\ng[1-2] a100,ib\n"), @r"
    g1 idle with a100,ib
    g2 idle with a100,ib
    note: no GRES column: nodes count as having no GPUs; `sinfo -N -O 'NodeList:|,Partition:|,StateComplete:|,Gres:|,GresUsed:|,CPUsState:|,Memory:|'` prints them
    note: g[1-2]: no state is given; hsched assumes idle
    ");
    assert_snapshot!(check("NODELIST GRES\nh100-01 gpu:h100:8\ngpu-v100-02 gpu:v100:4\n"), @r"
    gpu-v100-02 idle v100:0/4
    h100-01 idle h100:0/8
    note: gpu-v100-02,h100-01: no state is given; hsched assumes idle
    ");
}

#[test]
fn every_field_of_sinfo_is_known() {
    let text = "\
AVAIL|ACTIVE_FEATURES|CPUS|TMP_DISK|FREE_MEM|AVAIL_FEATURES|GROUPS|OVERSUBSCRIBE|TIMELIMIT|MEMORY|HOSTNAMES|NODE_ADDR|PRIO_TIER|ROOT|JOB_SIZE|STATE|USER|VERSION|WEIGHT|S:C:T|NODES(A/I) |MAX_CPUS_PER_NODE |CPUS(A/I/O/T) |NODES |REASON |NODES(A/I/O/T) |GRES |TIMESTAMP |PRIO_JOB_FACTOR |DEFAULTTIME |PREEMPT_MODE |NODELIST |CPU_LOAD |PARTITION |PARTITION |ALLOCNODES |STATE |USER |CLUSTER |SOCKETS |CORES |THREADS 
up|a100|64|0|874|a100,x|all|NO|7-00:00:00|380000|h1|127.0.0.1|1|no|1-infinite|mix|Unknown|22.05.8|1|2:16:2|1/0 |UNLIMITED |20/44/0/64 |1 |none |1/0/0/1 |gpu:4 |Unknown |1 |n/a |REQUEUE |g1 |6.37 |gpu* |gpu |all |mixed |Unknown |N/A |2 |16 |2 
";
    assert_snapshot!(check(text), @r"
    g1 mix gpu:4/4 cpus 20/64 MiB 0/380000 in gpu with a100
    partition gpu (default) 604800 s
    note: g1: has jobs, but their GPUs are not shown: hsched counts none as free
    note: g1: its use of memory is not given; hsched counts all as free
    ");
}

#[test]
fn a_header_line_may_stand_among_its_lines() {
    // Lines in the order of `sort`.
    assert_eq!(super::count("gpu01,idle,gpu:t4:2\nNODELIST,STATE,GRES\n"), (1, 2, 2));
    assert_eq!(
        super::count("Hello,\n\ng1 idle gpu:t4:2\nNODELIST STATE GRES\ng2 idle gpu:t4:2\n"),
        (2, 4, 4)
    );
    // With separators between cells, columns that sinfo does not have are ignored.
    let text = "| PARTITION | WHAT FOR | NODES | NODELIST |\n|---|---|---|---|\n| fat | Fat nodes | 2 | f[01-02] |\n";
    assert_eq!(super::count(text), (2, 0, 0));
}

#[test]
fn one_cluster_is_read_at_a_time() {
    let text = "CLUSTER: a\nNODELIST STATE GRES\ng1 idle gpu:t4:2\n";
    assert_eq!(super::count(text), (1, 2, 2));
    assert_snapshot!(check(&format!("{text}\nCLUSTER: b\nNODELIST STATE GRES\ng1 idle gpu:t4:2\n")), @"shows several clusters (a, b); save each in its own file");
    let federated = "PARTITION CLUSTER AVAIL NODES STATE NODELIST\np a up 1 idle g1\np b up 1 idle g1\n";
    assert_snapshot!(check(federated), @"shows several clusters (a, b); save each in its own file");
}
