//! Tables without a header line: refused, unless a prompt or the user gives their columns.

use insta::assert_snapshot;

use super::check;

const HINT: &str = "has a table without a header line, from line 1 on; print it again with the header (without -h), or give its format, such as --columns '%N|%G|%T' or '%D %G'";

#[test]
fn what_columns_hold_is_not_guessed() {
    let texts = [
        "g1|gpu*|mix-|2/6/0/8|64000|gpu:v100:4(S:0-1),lscratch:1\ng[2-3]|gpu*|idle|0/16/0/16|64000|gpu:v100:4\n",
        "node07 0 193000 1.05 0/16/0/16 idle gpu gpu:a100_3g.20gb:3(S:1,3,7) gpu:a100_3g.20gb:0(IDX:N/A)\n",
        "g01 drained gpu:2 a fan is broken\ng02 idle gpu:2 none\n",
        "normal*|c[1-2]|\naccel|g[1,3]|\n",
        // Partitions, with the number of their nodes in each state.
        "gpu1 2 gpu:a100:4 idle\ngpu2 4 gpu:v100:4 idle\ngpu3 8 (null) mix\n",
        "q1 up 1-00:00:00 4 idle\nq2 up 2-00:00:00 12 idle\nq3 up 1:00:00 0 n/a\n",
        "gpu01|2/6/0/8|gpu:v100:8(S:0)\ngpu02|1/3/0/4|gpu:a100:4(S:0)\n",
        // CPUs or nodes: ambiguous.
        "gpu up 64 idle gpu:a100:4\ngpu up 48 mix gpu:v100:4\n",
        "2 64 gpu:a100:4 idle\n1 48 (null) idle\n",
        "1 gpu:a100:4(S:0-1)\n1 gpu:v100:4\n1 (null)\n",
        // All GPUs or those in use: ambiguous.
        "n1 gpu:t4:2 mix\nn2 gpu:t4:2 mix\n",
        // Columns that may touch or be truncated.
        "64n[01-02] gpu:t4:1(S:0) idle\n64n[03-04] gpu:t4:1(S:0) mix\n",
        "n01,gpu:t4:1,gpu:v100:1,idle\nn02,gpu:t4:1,gpu:v100:1,idle\n",
        // Odd lines beside the table.
        "n01|gpu:t4:2|idle\nn02|(null)|down\nSee you tomorrow\n",
    ];
    for text in texts {
        assert_eq!(check(text), HINT, "{text}");
    }
    let asked = "$ sinfo -h -o %G\ngpu:t4:2 idle\n";
    assert_eq!(check(asked), HINT.replace("line 1 on", "line 2 on"));
}

#[test]
fn a_table_without_a_header_line_is_left_out_if_others_show_the_gpus() {
    let rows = "g2 idle gpu:t4:2\ng3 idle gpu:t4:2\n";
    let nodes = "NodeName=g1 Gres=gpu:t4:2 State=IDLE\n";
    assert_snapshot!(check(&format!("{rows}$ scontrol show node\n{nodes}")), @r#"
    g1 IDLE t4:0/2
    note: 3 lines were left out: line 1 "g2 idle gpu:t4:2", line 2 "g3 idle gpu:t4:2", line 3 "$ scontrol show node"
    "#);
    // Without GPUs, the error asks for the table that shows them.
    let table = "$ sinfo\nNODELIST STATE\ng1 idle\n";
    assert_eq!(check(&format!("{rows}{table}")), HINT);
    assert_snapshot!(check(&format!("The old nodes are down.\nThey come back.\nNobody knows when.\n{table}")), @r#"
    g1 idle
    note: no GRES column: nodes count as having no GPUs; `sinfo -N -O 'NodeList:|,Partition:|,StateComplete:|,Gres:|,GresUsed:|,CPUsState:|,Memory:|'` prints them
    note: 4 lines were left out: line 1 "The old nodes are down.", line 2 "They come back.", line 3 "Nobody knows when.", …
    "#);
}

#[test]
fn what_is_no_partition_is_noted() {
    assert_snapshot!(check("PARTITION|NODELIST|STATE\n*|g1|idle\na b|g2|idle\n"), @r#"
    g1 idle
    g2 idle
    note: no GRES column: nodes count as having no GPUs; `sinfo -N -O 'NodeList:|,Partition:|,StateComplete:|,Gres:|,GresUsed:|,CPUsState:|,Memory:|'` prints them
    note: "*" is not a partition name
    note: "a b" is not a partition name
    "#);
}

#[test]
fn a_session_with_several_outputs_gives_what_it_says_of_nodes() {
    let text = "\
$ squeue -h
7 gpu train root R 1:00 1 g1

$ sinfo -h -N -o '%N %T'
g1 mixed
g2 idle

$ sinfo -h -N -o '%N %G %f'
g1 gpu:v100:2 ib,v100
g2 gpu:v100:2 ib,v100

$ scontrol show node g3
NodeName=g3 Arch=x86_64
   CPUAlloc=0 CPUTot=8
   Gres=gpu:t4:2
   State=IDLE
";
    assert_snapshot!(check(text), @r#"
    g1 mixed v100:2/2 with ib,v100
    g2 idle v100:0/2 with ib,v100
    g3 IDLE t4:0/2 cpus 0/8
    note: 5 lines were left out: line 1 "$ squeue -h", line 2 "7 gpu train root R 1:00 1 g1", line 4 "$ sinfo -h -N -o '%N %T'", …
    note: g1: has jobs, but their GPUs are not shown: hsched counts none as free
    "#);
}
