//! Tables without a header line: read where their columns are certain, refused where they are not.

use insta::assert_snapshot;

use super::{check, count};

#[test]
fn columns_are_told_by_their_values() {
    let text = "\
g1|gpu*|mix-|2/6/0/8|64000|gpu:v100:4(S:0-1),lscratch:1
g[2-3]|gpu*|idle|0/16/0/16|64000|gpu:v100:4(S:0-1),lscratch:1
c1|cpu|down*|0/0/8/8|32000|(null)
";
    assert_snapshot!(check(text), @r"
    c1 down* cpus 0/8 in cpu
    g1 mix- v100:4/4 [lscratch:1] cpus 2/8 in gpu
    g2 idle v100:0/4 [lscratch:1] cpus 0/8 in gpu
    g3 idle v100:0/4 [lscratch:1] cpus 0/8 in gpu
    partition gpu (default) unlimited
    note: line 1 begins a table without a header line; hsched assumes these columns: 1 NODELIST, 2 PARTITION, 3 STATE, 4 CPUS(A/I/O/T), 6 GRES; ignored: 5 (name them with --columns)
    note: g1: has jobs, but their GPUs are not shown: hsched counts none as free
    note: partition gpu: no time limit is given; hsched assumes unlimited
    ");
    let text = "\
node07           0   193000 1.05 0/16/0/16   idle     gpu  gpu:a100_3g.20gb:3(S:1,3,7) gpu:a100_3g.20gb:0(IDX:N/A)
node07           0   193000 1.05 0/16/0/16   idle     long gpu:a100_3g.20gb:3(S:1,3,7) gpu:a100_3g.20gb:0(IDX:N/A)
node08       10000   193000 7.50 4/12/0/16   mixed    gpu  gpu:a100_3g.20gb:3(S:1,3,7) gpu:a100_3g.20gb:2(IDX:3,7)
";
    assert_snapshot!(check(text), @r"
    node07 idle a100_3g.20gb:0/3 cpus 0/16
    node08 mixed a100_3g.20gb:2/3 cpus 4/16
    note: line 1 begins a table without a header line; hsched assumes these columns: 1 NODELIST, 5 CPUS(A/I/O/T), 6 STATE, 8 GRES, 9 GRES_USED; ignored: 2, 3, 4, 7 (name them with --columns)
    ");
    // A reason has blanks.
    assert_snapshot!(check("g01 drained gpu:2 a fan is broken\ng02 idle gpu:2 none\n"), @r"
    g01 drained gpu:0/2 (a fan is broken)
    g02 idle gpu:0/2
    note: line 1 begins a table without a header line; hsched assumes these columns: 1 NODELIST, 2 STATE, 3 GRES, 4 REASON
    ");
    // Partitions with their nodes.
    assert_snapshot!(check("normal*|c[1-2]|\naccel|g[1,3]|\n"), @r"
    c1 idle in normal
    c2 idle in normal
    g1 idle in accel
    g3 idle in accel
    partition normal (default) unlimited
    note: no GRES column: nodes count as having no GPUs; `sinfo -N -O 'NodeList:|,Partition:|,StateComplete:|,Gres:|,GresUsed:|,CPUsState:|,Memory:|'` prints them
    note: line 1 begins a table without a header line; hsched assumes these columns: 1 PARTITION, 2 NODELIST
    note: c[1-2],g[1,3]: no state is given; hsched assumes idle
    note: partition normal: no time limit is given; hsched assumes unlimited
    ");
}

#[test]
fn names_are_in_brackets_or_numbered_in_a_row() {
    let counts = |names: &[&str]| {
        let line = |name: &&str| format!("{name} idle gpu:t4:1\n");
        let text: String = names.iter().map(line).collect();
        super::read(&text)
            .ok()
            .map(|_| count(&text))
            .map(|(nodes, gpus, free)| (nodes, gpus as usize, free as usize))
    };
    for names in [
        &["n1", "n2", "n3"][..],
        &["gpu-h200-01", "gpu-h200-02"],
        &["node01", "big"],
        &["g1.example.org", "g2.example.org"],
        &["rack-9", "rack-10", "rack-12"],
    ] {
        assert_eq!(counts(names), Some((names.len(), names.len(), names.len())));
    }
    assert_eq!(counts(&["n[1-3]", "m1"]), Some((4, 4, 4)));
    // These may be partitions or features.
    for names in [
        &["gpu1", "gpu2"][..],
        &["gpu4", "gpu24", "gpu72"],
        &["a100", "v100", "h100"],
        &["a", "b", "c"],
        &["v100,ib", "t4,ib"],
    ] {
        assert_eq!(counts(names), None, "{names:?}");
    }
}

#[test]
fn partitions_are_not_taken_for_nodes() {
    let doubts = [
        // Partitions, and how many nodes of each state they have.
        "gpu1 2 gpu:a100:4 idle\ngpu2 4 gpu:v100:4 idle\ngpu3 8 (null) mix\n",
        "part01|gpu:a100:4|12|idle\npart02|gpu:v100:8|24|idle\n",
        "q1 up 1-00:00:00 4 idle\nq2 up 2-00:00:00 12 idle\nq3 up 1:00:00 0 n/a\n",
        "q01 up idle\nq02 up idle\n",
        "gpu01|2/6/0/8|gpu:v100:8(S:0)\ngpu02|1/3/0/4|gpu:a100:4(S:0)\n",
        "gpu01|0/8/0/8|idle|gpu:v100:8\ngpu02|4/0/0/4|alloc|gpu:a100:4\n",
        "gpu1 idle gpu:a100:4\ngpu1 mix gpu:a100:4\ngpu2 idle gpu:a100:4\ngpu3 idle gpu:a100:4\n",
    ];
    for text in doubts {
        assert!(check(text).contains("its column 1 may name nodes or partitions"), "{text}{}", check(text));
    }
    let nodes = [
        // Many in a row, of a domain, beside a partition, with CPUs partly in use, or with amounts of memory.
        (
            "n01 8 gpu:t4:1 idle\nn02 8 gpu:t4:1 idle\nn03 8 gpu:t4:1 idle\nn04 8 gpu:t4:1 idle\nn05 8 gpu:t4:1 idle\n",
            5,
        ),
        ("g1.example.org 8 gpu:t4:1 idle\ng2.example.org 8 gpu:t4:1 idle\n", 2),
        ("n01 main* 8 gpu:t4:1 idle\nn02 main* 8 gpu:t4:1 idle\n", 2),
        ("n01 2/6/0/8 gpu:t4:1 mix\nn02 0/8/0/8 gpu:t4:1 idle\n", 2),
        ("n01 193000 gpu:t4:1 idle\nn02 0 gpu:t4:1 idle\n", 2),
        ("n01 1 gpu:t4:1 idle\nn02 1 gpu:t4:1 idle\n", 2),
    ];
    for (text, nodes) in nodes {
        assert_eq!(count(text).0, nodes, "{text}");
    }
}

#[test]
fn columns_that_may_touch_or_be_cut_in_two_are_asked_for() {
    let doubts = [
        // Widths that were too small leave no blank between some cells.
        "n01 idle    gpu:t4:1 a\nn02 mix         gpu:t4:1  a\nn03   alloc gpu:t4:1     a\nn04 idle  gpu:t4:1   a\n",
        "64n[01-02] gpu:t4:1(S:0) idle\n64n[03-04] gpu:t4:1(S:0) mix\n",
        "n01,gpu:t4:1,gpu:v100:1,idle\nn02,gpu:t4:1,gpu:v100:1,idle\n",
    ]
    .map(check);
    assert_snapshot!(doubts.join("\n"), @r"
    is ambiguous: it is a table without a header line, and its columns are not aligned, so some may run together; print it again with the header (without -h), or give its format, such as --columns '%N|%G|%T' or '%D %G'
    is ambiguous: it is a table without a header line, and its column 1 may be a number and names that run together; print it again with the header (without -h), or give its format, such as --columns '%N|%G|%T' or '%D %G'
    is ambiguous: it is a table without a header line, and its column 2 may have been split at a comma; print it again with the header (without -h), or give its format, such as --columns '%N|%G|%T' or '%D %G'
    ");
}

#[test]
fn what_is_not_certain_is_asked_for() {
    let doubts = [
        // CPUs or nodes.
        "gpu up 64 idle gpu:a100:4\ngpu up 48 mix gpu:v100:4\n",
        "gpu:a100:4(S:0-1) 64 idle\n(null) 48 idle\n",
        "1 gpu:a100:4(S:0-1)\n1 gpu:v100:4\n1 (null)\n",
        "2 64 gpu:a100:4 idle\n1 48 (null) idle\n",
        "up|2/6/0/8|gpu:a100:4(S:0-1)\n",
        "4 gpu:h100:8 idle\n3 gpu:v100:8 mix\n101 (null) idle\n",
        // All GPUs or those in use.
        "n1 gpu:t4:2 mix\nn2 gpu:t4:2 mix\nn3 gpu:t4:2 mix\n",
        "n1 gpu:t4:2(IDX:0-1)\nn2 gpu:0\nn3 gpu:0\n",
        // Two columns of names.
        "n01 m01 idle gpu:2\nn02 m02 idle gpu:2\n",
        "n[1-2] idle gpu:t4:2\nn3 idle x\nn4 idle y\n",
        "n[1-2] idle\nGPUs: gpu:4 and more of them here\nn[3-4] idle gpu:4\n",
    ]
    .map(check);
    assert_snapshot!(doubts.join("\n"), @r#"
    is ambiguous: it is a table without a header line, and no column can be identified as node names, and a number may count nodes or CPUs; print it again with the header (without -h), or give its format, such as --columns '%N|%G|%T' or '%D %G'
    is ambiguous: it is a table without a header line, and no column can be identified as node names, and a number may count nodes or CPUs; print it again with the header (without -h), or give its format, such as --columns '%N|%G|%T' or '%D %G'
    is ambiguous: it is a table without a header line, and no column can be identified as node names, and a number may count nodes or CPUs; print it again with the header (without -h), or give its format, such as --columns '%N|%G|%T' or '%D %G'
    is ambiguous: it is a table without a header line, and no column can be identified as node names, and a number may count nodes or CPUs; print it again with the header (without -h), or give its format, such as --columns '%N|%G|%T' or '%D %G'
    is ambiguous: it is a table without a header line, and no column can be identified as node names, and a number may count nodes or CPUs; print it again with the header (without -h), or give its format, such as --columns '%N|%G|%T' or '%D %G'
    is ambiguous: it is a table without a header line, and no column can be identified as node names, and a number may count nodes or CPUs; print it again with the header (without -h), or give its format, such as --columns '%N|%G|%T' or '%D %G'
    is ambiguous: it is a table without a header line, and its column 2 may be GRES or GRES_USED; print it again with the header (without -h), or give its format, such as --columns '%N|%G|%T' or '%D %G'
    is ambiguous: it is a table without a header line, and its column 2 shows GPUs in use, but no column shows the total (GRES); print it again with the header (without -h), or give its format, such as --columns '%N|%G|%T' or '%D %G'
    is ambiguous: it is a table without a header line, and its columns 1 and 2 may both be node names; print it again with the header (without -h), or give its format, such as --columns '%N|%G|%T' or '%D %G'
    is ambiguous: it is a table without a header line, and its column 3 names GPUs in some lines and something else in others; print it again with the header (without -h), or give its format, such as --columns '%N|%G|%T' or '%D %G'
    cannot be read: it looks like output of sinfo without a header line, node names and node counts; it begins with "n[1-2] idle"
    "#);
}

#[test]
fn odd_lines_do_not_make_columns() {
    let lines = "n01|gpu:t4:2|idle\nn02|gpu:t4:2|idle\nn03|(null)|down\n";
    for odd in ["Connection refused\n", "|\n", "[user@host ~]$\n", "--More--\n", "See you tomorrow\n"] {
        for text in
            [format!("{lines}{odd}"), format!("{odd}{lines}"), format!("{lines}{odd}").replace('|', " ")]
        {
            assert_eq!(count(&text), (3, 4, 4), "{text}");
        }
    }
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
