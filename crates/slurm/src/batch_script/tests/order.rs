//! Commands that need what an earlier line sets.

use super::super::read;

/// A command never runs before the variable or the directory that it needs.
#[test]
fn commands_follow_what_they_need_into_node_setup() {
    let keys = |body: &str| {
        let imported = read(&format!("#!/bin/bash\n#SBATCH -G1\n{body}\npython a.py --out $OUT\n"), "job");
        let list = |key: &str| imported.keys.get(key).map_or(String::new(), ToString::to_string);
        (list("setup"), list("node_setup"))
    };
    let node = |text: &str| (String::new(), text.to_owned());
    assert_eq!(
        keys("OUT=$HOME/x\nrm -rf $OUT/*\nmkdir -p \"${OUT}\""),
        node(r#"["export OUT=$HOME/x","rm -rf $OUT/*","mkdir -p \"${OUT}\""]"#)
    );
    assert_eq!(
        keys("OUT=$HOME/x\nif true; then\nrm -rf ${OUT%/}/y\nfi"),
        node("[\"export OUT=$HOME/x\",\"if true; then\\nrm -rf ${OUT%/}/y\\nfi\"]")
    );
    assert_eq!(keys("cd data\ntar xf a.tar"), node(r#"["cd data","tar xf a.tar"]"#));
    assert_eq!(
        keys("cd x || exit 1\nrm -rf y\ncd $SLURM_SUBMIT_DIR\nrm -rf z"),
        node(r#"["cd x || exit 1","rm -rf y","cd $SLURM_SUBMIT_DIR","rm -rf z"]"#)
    );
    assert_eq!(keys("cd $SLURM_SUBMIT_DIR\nrm -rf z"), (r#"["rm -rf z"]"#.to_owned(), String::new()));
    assert_eq!(
        keys("source env.sh\nrm -rf $CACHE/*\nmkdir $HOME/x"),
        (r#"["mkdir $HOME/x"]"#.to_owned(), r#"["source env.sh","rm -rf $CACHE/*"]"#.to_owned())
    );
    assert_eq!(
        keys("N=$(nproc)\nOUTER=o\nmkdir $OUTER\necho $((N*2))"),
        (r#"["mkdir $OUTER"]"#.to_owned(), r#"["export N=$(nproc)","echo $((N*2))"]"#.to_owned())
    );
    assert_eq!(keys("OUT=$HOME/x\nOUT=y"), node(r#"["export OUT=$HOME/x","export OUT=y"]"#));
    assert_eq!(keys("DIRS=(a b)\nrm -rf ${DIRS[0]}/*"), node(""));
}

/// Ranks have no arrays, so a command with one would run without these words.
#[test]
fn a_command_with_an_array_is_left_open() {
    let imported = read("#!/bin/bash\n#SBATCH -G1\nOPTS=(--lr 0.1)\npython a.py \"${OPTS[@]}\"\n", "job");
    assert_eq!(imported.keys.get("command"), None);
    assert_eq!(
        imported.hints.get("command").map(String::as_str),
        Some("line 4: it uses OPTS, which ranks do not get")
    );
}
