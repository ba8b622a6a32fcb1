//! Values truncated by a narrow column.

use insta::assert_snapshot;

use super::check;

#[test]
fn gpus_without_a_number_are_cut_off() {
    for gres in [
        "gpu:rtx208",
        "gpu:t4:2,g",
        "gpu:t4:2(S:0-",
        "gpu:gtx_",
        "gpu:2080",
        "gpu:t4:2,gpu:v",
        "gpu:t4:2(S:0-1),gpu:nvidia_a100",
    ] {
        for text in [
            format!("NODELIST STATE GRES\ng1 idle {gres}\n"),
            format!("NODELIST|GRES|STATE\ng1|{gres}|idle\n"),
            format!("$ sinfo -h -o '%N %t %G'\ng01 idle {gres}\ng02 idle (null)\n"),
        ] {
            assert!(check(&text).contains("truncated"), "{text}: {}", check(&text));
        }
    }
    assert_snapshot!(check("NODELIST GRES       STATE\ng1       gpu:rtx208 idle\n"), @r#"is ambiguous: GRES is truncated, as in "gpu:rtx208"; `sinfo -N -O 'NodeList:|,Partition:|,StateComplete:|,Gres:|,GresUsed:|,CPUsState:|,Memory:|'` prints it in full"#);
    // A truncated resource that is no GPU is not an error.
    assert_eq!(super::count("NODELIST STATE GRES\ng1 idle gpu:h100:1,shard:h10\n"), (1, 1, 1));
}

#[test]
fn names_that_end_in_the_middle_are_cut_off() {
    for text in [
        "NODELIST STATE\ng[1-2,4- idle\n",
        "NODELIST  STATE\ngpu-a100- idle\ngpu-a100- mix\n",
        "NODELIST NODES STATE\ngpu-a100 2 idle\n",
        "NODELIST PARTITION STATE\ngpu-h200-0 gpu idle\ngpu-h200-0 gpu idle\n",
    ] {
        assert!(check(text).contains("NODELIST is truncated"), "{text}: {}", check(text));
    }
}

#[test]
fn names_of_which_lines_say_different_things_are_cut_off() {
    for lines in [
        "NODELIST GRES STATE\ngpu-a100 gpu:a100:4 idle\ngpu-a100 gpu:a100:8 idle\n",
        "NODELIST CPUS(A/I/O/T) STATE\ngpu-a100 0/8/0/8 idle\ngpu-a100 0/16/0/16 idle\n",
    ] {
        assert!(check(lines).contains("its lines for gpu-a100 differ"), "{}", check(lines));
    }
    assert_eq!(super::count("NODELIST GRES STATE\ng1 gpu:a100:4 idle\ng1 gpu:a100:4 idle\n"), (1, 4, 4));
}

/// A width truncates several lines; an odd one costs only itself.
#[test]
fn one_odd_line_costs_only_itself() {
    let lines = (1..=50).map(|node| format!("n{node}|idle|gpu:a100:4\n")).collect::<Vec<_>>().concat();
    for odd in [
        "{\"a\":1}",
        "{",
        "n51|idle|gpu:rtx208",
        "[n51|idle|gpu:a100:4",
        "n51|idle|gpu:a100:4|x",
        "n51 n52|idle|gpu:a100:4",
    ] {
        for text in [
            format!("NODELIST|STATE|GRES\n{lines}{odd}\n"),
            format!("NODELIST|STATE|GRES\n{odd}\n{lines}"),
            format!("{odd}\nNODELIST|STATE|GRES\n{lines}"),
        ] {
            assert_eq!(super::count(&text), (50, 200, 200), "{odd}");
            assert!(check(&text).contains("note: 1 line was left out: line "), "{}", check(&text));
        }
    }
    let text = format!("NODELIST|STATE|GRES\n{lines}n51|idle|gpu:rtx208\n");
    let note = check(&text).lines().last().map(str::to_owned);
    assert_snapshot!(note.expect("a note"), @r#"note: 1 line was left out: line 52 "n51|idle|gpu:rtx208" (its GRES is truncated)"#);
    for odd in ["n51|idle|gpu:rtx208\nn52|idle|gpu:rtx308\n", "a|b|c|d\n".repeat(9).as_str()] {
        let text = format!("NODELIST|STATE|GRES\n{lines}{odd}");
        assert!(check(&text).starts_with("is ambiguous: "), "{}", check(&text));
    }
}

#[test]
fn counts_and_masks_between_separators_are_whole() {
    for (gres, gpus) in [("gpu:a100:10000", 10_000), ("gpu:10000", 10_000), ("gpu:0x3,0x2", 0)] {
        assert_eq!(
            super::count(&format!("NODELIST|STATE|GRES\nn1|idle|{gres}\n")),
            (1, gpus, gpus),
            "{gres}"
        );
    }
}

#[test]
fn use_that_is_cut_off_frees_nothing() {
    let text = "\
NODELIST            STATE               GRES                GRES_USED           
g1                  mixed               gpu:v100:2,gpu:t4:1 gpu:v100:1(IDX:0),gp
g2                  mixed               gpu:v100:2,gpu:t4:1 gpu:v100:1,gpu:t4:0 
";
    assert_snapshot!(check(text), @r#"
    g1 mixed v100:2/2 t4:1/1
    g2 mixed v100:1/2 t4:0/1
    note: g[1-2]: GRES "gpu:v100:2,gpu:t4:1" fills its column and may be truncated
    note: g1: GRES_USED "gpu:v100:1(IDX:0),gp" fills its column and may be truncated
    note: g1: has jobs, but their GPUs are not shown: hsched counts none as free
    "#);
}

#[test]
fn only_what_may_be_cut_off_is_blamed() {
    // sinfo makes its default columns of partitions and nodes as wide as the longest name.
    let tables = [
        "PARTITION AVAIL  TIMELIMIT  NODES  STATE NODELIST\nlongest_p    up   infinite      1   idle g1\n",
        "NODELIST     NODES PARTITION STATE\ngpu-node-001     1 longest_p idle\n",
        "NODELIST STATE PARTITION\ng1       idle  p\n",
        "NODELIST|GRES |STATE\ng1|gpu:4 |idle\n",
    ];
    for text in tables {
        assert!(!check(text).contains("fills"), "{text}: {}", check(text));
    }
    let asked = "\
NODELIST   PARTITION    STATE AVAIL_FEATURES REASON              \n\
g1         a_long_name_ idle  v100,t4,       a reason with blanks\n";
    assert_snapshot!(check(asked), @r#"
    g1 idle in a_long_name_ with t4,v100 (a reason with blanks)
    note: no GRES column: nodes count as having no GPUs; `sinfo -N -O 'NodeList:|,Partition:|,StateComplete:|,Gres:|,GresUsed:|,CPUsState:|,Memory:|'` prints them
    note: g1: PARTITION "a_long_name_" fills its column and may be truncated
    note: g1: AVAIL_FEATURES "v100,t4," fills its column and may be truncated
    note: g1: REASON "a reason with blanks" fills its column and may be truncated
    "#);
}

#[test]
fn whole_names_are_not_called_cut_off() {
    for (text, expected) in [
        ("NODELIST|PARTITION|STATE|GRES\nn1|gpu|idle|gpu:t4:8\nn1|gpu|idle|gpu:t4:8\n", (1, 8, 8)),
        ("NODELIST PARTITION STATE GRES\nn1 gpu idle gpu:t4:8\nn1 gpu idle gpu:t4:8\n", (1, 8, 8)),
        (
            "NODELIST PARTITION STATE GRES\ngpu-node-1 p idle gpu:t4:8\ngpu-node-1 p idle gpu:t4:8\ngpu-node-10 p idle gpu:t4:8\n",
            (2, 16, 16),
        ),
        (
            "NODELIST      PARTITION STATE GRES\ngpu-node-001  p         idle  gpu:t4:8\ngpu-node-001  p         idle  gpu:t4:8\n",
            (1, 8, 8),
        ),
        ("NODELIST|NODES|STATE|GRES\ngpu-node-1|2|idle|gpu:t4:8\n", (1, 8, 8)),
    ] {
        assert_eq!(super::count(text), expected, "{text}");
    }
    // A name as wide as its column's name may or may not be complete.
    let text = "NODELIST|PARTITION|STATE\ngpu-h200|gpu|idle\ngpu-h200|gpu|idle\n";
    assert!(check(text).contains("NODELIST is truncated"), "{}", check(text));
}
