//! Tables without a header line, or without names, in small.

use insta::assert_snapshot;

use super::check;

#[test]
fn tables_without_a_header_say_what_they_hold_by_their_values() {
    let text = "\
g1|gpu*|mix-|2/6/0/8|64000|gpu:v100:4(S:0-1),lscratch:1
g[2-3]|gpu*|idle|0/16/0/16|64000|gpu:v100:4(S:0-1),lscratch:1
c1|cpu|down*|0/0/8/8|32000|(null)
";
    assert_snapshot!(check(text), @r"
    c1 down* cpus 0/8 MiB 0/32000 in cpu
    g1 mix- v100:0/4 [lscratch:1] cpus 2/8 MiB 0/64000 in gpu
    g2 idle v100:0/4 [lscratch:1] cpus 0/8 MiB 0/64000 in gpu
    g3 idle v100:0/4 [lscratch:1] cpus 0/8 MiB 0/64000 in gpu
    partition gpu (default) unlimited
    note: line 1 begins a table without a header; its columns are taken as 1 NODELIST, 2 PARTITION, 3 STATE, 4 CPUS(A/I/O/T), 5 MEMORY, 6 GRES
    note: g1: the use of its GPUs, memory is not said; all count as free
    note: partition gpu: its time limit is not said; counted as unlimited
    ");
    // In use is no memory where no CPU is; CPUs and memory are told apart by their size.
    let text = "\
node7           0   193000 1.05 0/16/0/16   idle     gpu  gpu:a100_3g.20gb:3(S:1,3,7) gpu:a100_3g.20gb:0(IDX:N/A)
node7           0   193000 1.05 0/16/0/16   idle     long gpu:a100_3g.20gb:3(S:1,3,7) gpu:a100_3g.20gb:0(IDX:N/A)
node8       10000   193000 7.50 4/12/0/16   mixed    gpu  gpu:a100_3g.20gb:3(S:1,3,7) gpu:a100_3g.20gb:2(IDX:3,7)
";
    assert_snapshot!(check(text), @r"
    node7 idle a100_3g.20gb:0/3 cpus 0/16 MiB 0/193000 in gpu,long
    node8 mixed a100_3g.20gb:2/3 cpus 4/16 MiB 10000/193000 in gpu
    note: line 1 begins a table without a header; its columns are taken as 1 NODELIST, 2 ALLOCMEM, 3 MEMORY, 5 CPUS(A/I/O/T), 6 STATE, 7 PARTITION, 8 GRES, 9 GRES_USED; not read: 4
    ");
    assert_snapshot!(check("a1;gpu:h100:8;drng@;96;2060000\nx;;idle;64;257000\n"), @r"
    a1 drng@ h100:0/8 cpus 0/96 MiB 0/2060000
    x idle cpus 0/64 MiB 0/257000
    note: line 1 begins a table without a header; its columns are taken as 1 NODELIST, 2 GRES, 3 STATE, 4 CPUS, 5 MEMORY
    note: a1: the use of its GPUs, CPUs, memory is not said; all count as free
    ");
    // A reason has blanks; what is in use is all that is said of GPUs.
    assert_snapshot!(check("g1 drained gpu:2(IDX:0-1) a fan is broken\ng2 idle gpu:0 none\n"), @r"
    g1 drained gpu:2/2 (a fan is broken)
    g2 idle
    note: line 1 begins a table without a header; its columns are taken as 1 NODELIST, 2 STATE, 3 GRES_USED, 4 REASON
    note: g1: how many GPUs it has is not said; counted are those in use
    ");
    // Partitions with their nodes.
    assert_snapshot!(check("normal*|c[1-2]|\naccel|g[1,3]|\n"), @r"
    c1 idle in normal
    c2 idle in normal
    g1 idle in accel
    g3 idle in accel
    partition normal (default) unlimited
    note: line 1 begins a table without a header; its columns are taken as 1 PARTITION, 2 NODELIST
    note: no column GRES: its nodes have no GPUs here; `sinfo -N -O 'NodeList:|,Partition:|,StateComplete:|,Gres:|,GresUsed:|,CPUsState:|,Memory:|'` prints them
    note: c[1-2],g[1,3]: no state is said; counted as idle
    note: partition normal: its time limit is not said; counted as unlimited
    ");
    // Columns of sinfo -O, cut off at their width.
    let text = "\
g1                  gpu:nvidia_h100_80gb0/8/0/8             idle                \n\
a-node-with-a-name-1gpu:nvidia_h100_80gb8/0/0/8             alloc               \n";
    assert_snapshot!(check(text), @r#"
    a-node-with-a-name-1 alloc nvidia_h100_80gb:0/1 cpus 8/8
    g1 idle nvidia_h100_80gb:0/1 cpus 0/8
    note: line 1 begins a table without a header; its columns are taken as 1 NODELIST, 2 GRES, 3 CPUS(A/I/O/T), 4 STATE
    note: a-node-with-a-name-1,g1: GRES "gpu:nvidia_h100_80gb" fills its column and may be cut off; then what it says is too little
    note: a-node-with-a-name-1: NODELIST "a-node-with-a-name-1" fills its column and may be cut off; then what it says is too little
    note: a-node-with-a-name-1: the use of its GPUs is not said; all count as free
    "#);
}

#[test]
fn what_is_no_partition_is_noted() {
    assert_snapshot!(check("PARTITION|NODELIST|STATE\n*|g1|idle\na b|g2|idle\n"), @r#"
    g1 idle
    g2 idle
    note: "*" is no partition's name
    note: "a b" is no partition's name
    note: no column GRES: its nodes have no GPUs here; `sinfo -N -O 'NodeList:|,Partition:|,StateComplete:|,Gres:|,GresUsed:|,CPUsState:|,Memory:|'` prints them
    "#);
}

#[test]
fn tables_without_names_count_nodes() {
    assert_snapshot!(check(
        "gpu gpu:v100:4 2 mix\ngpu gpu:t4:2 1 idle\nall gpu:t4:2 1 idle\ngpu2 (null) 0 n/a\n"
    ), @r"
    unnamed1 mix v100:0/4 in gpu
    unnamed2 mix v100:0/4 in gpu
    unnamed3 idle t4:0/2 in gpu
    unnamed4 idle t4:0/2 in all
    note: line 1 begins a table without a header; its columns are taken as 1 PARTITION, 2 GRES, 3 NODES, 4 STATE
    note: the nodes have no names in this table and are numbered here; one in several partitions counts in each of them
    note: unnamed[1-2]: the use of its GPUs is not said; all count as free
    ");
    assert_snapshot!(check("2 gpu:0 gpu:0\n3 gpu:h100:1 gpu:h100:1\n"), @r"
    unnamed1 idle
    unnamed2 idle
    unnamed3 idle h100:1/1
    unnamed4 idle h100:1/1
    unnamed5 idle h100:1/1
    note: line 1 begins a table without a header; its columns are taken as 1 NODES, 2 GRES, 3 GRES_USED
    note: the nodes have no names in this table and are numbered here
    note: unnamed[1-5]: no state is said; counted as idle
    ");
    assert_snapshot!(check("PARTITION GRES NODES STATE\ngpu* gpu:t4:4 3 idle\n"), @r"
    unnamed1 idle t4:0/4 in gpu
    unnamed2 idle t4:0/4 in gpu
    unnamed3 idle t4:0/4 in gpu
    partition gpu (default) unlimited
    note: the nodes have no names in this table and are numbered here; one in several partitions counts in each of them
    note: partition gpu: its time limit is not said; counted as unlimited
    ");
    assert_snapshot!(check("100001 gpu:t4:4\n1 gpu:t4:2\n"), @"names more than 100000 nodes");
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
";
    assert_snapshot!(check(text), @r#"
    g1 mixed v100:0/2 with ib,v100
    g2 idle v100:0/2 with ib,v100
    note: line 2 was not read: it belongs to no table of nodes: "7 gpu train root R 1:00 1 g1"
    note: line 5 begins a table without a header; its columns are taken as 1 NODELIST, 2 STATE
    note: line 9 begins a table without a header; its columns are taken as 1 NODELIST, 2 GRES, 3 ACTIVE_FEATURES
    note: g1: the use of its GPUs is not said; all count as free
    "#);
}
