//! Tables whose columns the user gives.

use insta::assert_snapshot;

use super::{Columns, read_as, shown};

/// Reads lines of these columns.
fn check_as(columns: &str, text: &str) -> String {
    match columns.parse::<Columns>() {
        Ok(columns) => shown(read_as(text, Some(&columns))),
        Err(error) => error.to_string(),
    }
}

#[test]
fn a_format_says_what_the_columns_hold() {
    assert_snapshot!(check_as("%N|%G|%T|%c", "g1|gpu:t4:2|idle|8\ng2||down|8\n"), @r"
    g1 idle t4:0/2 cpus 0/8
    g2 down cpus 0/8
    ");
    assert_snapshot!(check_as("%D %c %G %t", "2 4 gpu:t4:2 idle\n1 8 (null) alloc\n"), @r"
    unnamed1 idle t4:0/2 cpus 0/4
    unnamed2 idle t4:0/2 cpus 0/4
    unnamed3 alloc cpus 8/8
    note: the table has no node names; hsched numbers the nodes
    ");
    for (columns, line) in [
        ("%N %G %t", "g1  gpu:t4:2  idle"),
        ("%10N %.10G %t", "g1           gpu:t4:2 idle"),
        ("%10N%10G%t", "g1        gpu:t4:2  idle"),
        ("%N;%G;%t", "g1;gpu:t4:2;idle"),
        ("%N | %G | %t", "g1 | gpu:t4:2 | idle"),
        ("%N,%G,%t", "g1,gpu:t4:1,gpu:t4:1,idle"),
        ("%t %N %G %E", "idle g1 gpu:t4:2 a reason with blanks"),
        ("NodeList:|,Gres:|,StateLong:|", "g1|gpu:t4:2|idle|"),
        ("nodelist,gres,statelong", "g1                  gpu:t4:2            idle                "),
        ("NodeList:.8,Gres:10 ,StateCompact:6", "g1      gpu:t4:2   idle  "),
    ] {
        let first = check_as(columns, line).lines().next().map(str::to_owned);
        assert_eq!(
            first.as_deref().map(|line| line.trim_end_matches(" (a reason with blanks)")),
            Some("g1 idle t4:0/2"),
            "{columns}"
        );
    }
    assert_snapshot!(
        check_as(
            "%N|%P|%t|%C|%m|%G",
            "g1|gpu*|mix-|2/6/0/8|64000|gpu:v100:4(S:0-1),lscratch:1\ng[2-3]|gpu*|idle|0/16/0/16|64000|gpu:v100:4(S:0-1),lscratch:1\nc1|cpu|down*|0/0/8/8|32000|(null)\n",
        ),
        @r"
    c1 down* cpus 0/8 MiB 0/32000 in cpu
    g1 mix- v100:4/4 [lscratch:1] cpus 2/8 MiB 0/64000 in gpu
    g2 idle v100:0/4 [lscratch:1] cpus 0/8 MiB 0/64000 in gpu
    g3 idle v100:0/4 [lscratch:1] cpus 0/8 MiB 0/64000 in gpu
    partition gpu (default) unlimited
    note: g1: has jobs, but their GPUs are not shown: hsched counts none as free
    note: g1: its use of memory is not given; hsched counts all as free
    note: partition gpu: no time limit is given; hsched assumes unlimited
    "
    );
    assert_snapshot!(check_as("%N %T %G %E", "g01 drained gpu:2 a fan is broken\ng02 idle gpu:2 none\nSee you tomorrow\n"), @r#"
    g01 drained gpu:0/2 (a fan is broken)
    g02 idle gpu:0/2
    note: 1 line was left out: line 3 "See you tomorrow" (it does not match the 4 columns)
    "#);
    assert_snapshot!(check_as("%P|%N|", "normal*|c[1-2]|\naccel|g[1,3]|\n"), @r"
    c1 idle in normal
    c2 idle in normal
    g1 idle in accel
    g3 idle in accel
    partition normal (default) unlimited
    note: no GRES column: nodes count as having no GPUs; `sinfo -N -O 'NodeList:|,Partition:|,StateComplete:|,Gres:|,GresUsed:|,CPUsState:|,Memory:|'` prints them
    note: c[1-2],g[1,3]: no state is given; hsched assumes idle
    note: partition normal: no time limit is given; hsched assumes unlimited
    ");
    // Widths show what may be truncated; a header line does not belong to the table.
    assert_snapshot!(check_as("%N %10G %t", "NODELIST GRES STATE\ng1 gpu:a100:1 idle\n$ exit\n"), @r#"
    g1 idle a100:0/1
    note: g1: GRES "gpu:a100:1" fills its column and may be truncated
    note: 2 lines were left out: line 1 "NODELIST GRES STATE", line 3 "$ exit"
    "#);
}

#[test]
fn what_is_no_format_is_refused() {
    let refusals = [
        "%N %y",
        "%",
        "%N%G",
        "%N|%G %t",
        "%P %G",
        "%all",
        "node %N %G",
        "",
        "Nodes,Foo",
        "NodeList,Gres:;;,State",
    ]
    .map(|columns| check_as(columns, "g1 idle\n"));
    assert_snapshot!(refusals.join("\n"), @r#"
    sinfo has no field "%y"
    sinfo has no field "%"
    nothing separates NODELIST from the next field; give the width that sinfo was given
    the same character must separate all fields, as in '%N|%G|%T'
    it has neither node names (%N, NodeList) nor node counts (%D, Nodes)
    list the fields instead of %all; a table with a header line needs no --columns
    "node" comes before the first field; remove it from the format and from the table
    sinfo has no field ""
    sinfo has no field "Foo"
    sinfo has no field "State"
    "#);
    assert_snapshot!(check_as("%G|%N|%T", "g1|gpu:t4:2|idle\ng2|gpu:t4:2|idle\n"), @"is ambiguous: only 0 of 2 lines match the 3 columns of the table; the other lines may be broken or truncated, or the table has different columns");
    assert_snapshot!(check_as("%N|%G", "g1|gpu:t4:2|idle\ng2|gpu:t4:2|idle\n"), @"is ambiguous: only 0 of 2 lines match the 2 columns of the table; the other lines may be broken or truncated, or the table has different columns");
}
