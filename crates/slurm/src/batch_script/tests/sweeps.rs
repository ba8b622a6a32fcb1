//! Job arrays and loops over values, as sweeps.

use insta::assert_snapshot;

use super::super::read;
use super::yaml;

const SWEPT: [&str; 4] = ["sweep", "command", "env", "node_setup"];

/// Returns some keys of a script's job, and its remarks.
fn made(script: &str, keys: &[&str]) -> String {
    let imported = read(&format!("#!/bin/bash\n#SBATCH -G1 {script}\n"), "job");
    let keys = keys.iter().filter_map(|key| Some(format!("{key}: {}", imported.keys.get(key)?)));
    let remarks = imported.remarks.iter().map(|remark| format!("{}: {}", remark.line, remark.text));
    keys.chain(remarks).collect::<Vec<_>>().join("\n")
}

#[test]
fn the_values_of_an_array_become_a_sweep() {
    let script = "--array=0-3%4\nLRS=(0.1 0.01 1e-3 '1e-4')\nLR=${LRS[$SLURM_ARRAY_TASK_ID]}\n\
                  echo \"task $SLURM_ARRAY_TASK_ID\"\nsrun python train.py --lr $LR --batch-size 128";
    assert_snapshot!(made(script, &SWEPT), @r#"
    sweep: {"lr":["0.1","0.01","1e-3","1e-4"]}
    command: "python train.py --lr $LR --batch-size 128"
    2: %4: hsched starts as many jobs as there are GPUs for; the setting capacity limits the GPUs
    2: --array=0-3%4: one job for each value of LRS (key sweep)
    6: --batch-size 128: the same value on every rank; use $HSCHED_LOCAL_BATCH for the local batch of each rank
    "#);
    yaml(&format!("#!/bin/bash\n#SBATCH {script}\n"));
    // Array elements: used in the command, numbered from 1, defined over several lines, and in a lower-case
    // variable.
    let direct =
        "-a 1-2\nSEEDS=(\n  7\n  8\n)\npython train.py --seed ${SEEDS[$((SLURM_ARRAY_TASK_ID - 1))]}";
    assert_snapshot!(made(direct, &SWEPT), @r#"
    sweep: {"seed":["7","8"]}
    command: "python train.py --seed ${SEED}"
    2: --array=1-2: one job for each value of SEEDS (key sweep)
    "#);
    let small = "-a 0,2\ndeclare -a lrs=(1 2 3)\nlr=\"${lrs[${SLURM_ARRAY_TASK_ID}]}\"\npython train.py --lr=$lr --lrx $lrx ${lr}";
    assert_snapshot!(made(small, &SWEPT), @r#"
    sweep: {"lr":["1","3"]}
    command: "python train.py --lr=$LR --lrx $lrx ${LR}"
    2: --array=0,2: one job for each value of lrs (key sweep)
    "#);
}

/// A name that stays in use keeps its assignment, and comments end with their lines.
#[test]
fn names_and_comments_of_an_array_do_no_harm() {
    let named = "--array=0-1\nlrs=(0.1 0.2)\nlr=${lrs[$SLURM_ARRAY_TASK_ID]}\npython train.py --name run_${lr/./_} --half $((lr*2))";
    assert_snapshot!(made(named, &SWEPT), @r#"
    sweep: {"task":[0,1]}
    command: "python train.py --name run_${lr/./_} --half $((lr*2))"
    node_setup: ["lrs=(0.1 0.2)","export lr=${lrs[$TASK]}"]
    2: --array=0-1: one job for each task (key sweep), with the number of the task as $TASK
    4: lr: exported, so that ranks see it
    "#);
    let comments = "--array=0-1\nLRS=(\n  0.1 # slow\n  '#' # fast\n) # all\nLR=${LRS[$SLURM_ARRAY_TASK_ID]}\npython train.py $LR";
    assert_snapshot!(made(comments, &SWEPT), @r##"
    sweep: {"lr":["0.1","#"]}
    command: "python train.py $LR"
    2: --array=0-1: one job for each value of LRS (key sweep)
    "##);
}

#[test]
fn the_numbers_of_tasks_become_a_sweep() {
    let two = "--array=0-1\nLRS=(1 2)\nWDS=(3 4)\nLR=${LRS[$SLURM_ARRAY_TASK_ID]}\nWD=${WDS[$SLURM_ARRAY_TASK_ID]}\npython train.py $LR $WD";
    assert_snapshot!(made(two, &SWEPT), @r#"
    sweep: {"task":[0,1]}
    command: "python train.py $LR $WD"
    node_setup: ["LRS=(1 2)","WDS=(3 4)","export LR=${LRS[$TASK]}","export WD=${WDS[$TASK]}"]
    2: --array=0-1: one job for each task (key sweep), with the number of the task as $TASK
    5: LR: exported, so that ranks see it
    6: WD: exported, so that ranks see it
    "#);
    // Arrays with fewer values than tasks, with duplicate values, and with a task number beside a value.
    for other in [
        "LRS=(1)\nLR=${LRS[$SLURM_ARRAY_TASK_ID]}\npython train.py $LR",
        "LRS=(1 1)\nLR=${LRS[$SLURM_ARRAY_TASK_ID]}\npython train.py $LR",
        "LRS=(1 2)\nLR=${LRS[$SLURM_ARRAY_TASK_ID]}\npython train.py $LR --seed $SLURM_ARRAY_TASK_ID",
    ] {
        let text = made(&format!("--array=0-1\n{other}"), &["sweep"]);
        assert!(text.starts_with("sweep: {\"task\":[0,1]}\n"), "{text}");
    }
    assert_snapshot!(made("--array=1-1000\npython train.py --seed $SLURM_ARRAY_TASK_ID", &SWEPT), @r#"
    command: "python train.py --seed $SLURM_ARRAY_TASK_ID"
    2: --array=1-1000: becomes one job, not an array; a sweep makes one job for each value (see the comment at sweep)
    3: the command has $SLURM_ARRAY_…: use a variable of a sweep instead
    "#);
}
