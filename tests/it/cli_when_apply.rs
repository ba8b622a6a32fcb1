//! `hsched when SCRIPT --apply` and `--submit`: changes are applied to the script or the queue.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};

use crate::cli_when_script::{LOOK, SCRIPT, busy, changes, queue, small};
use crate::sandbox::mode;

#[test]
fn a_change_is_written_in_place_and_the_old_script_is_kept() {
    let sandbox = small();
    let script = sandbox.work("train.sh");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o750)).expect("a mode");
    let json = sandbox.run(&format!("{LOOK} --format json")).json();
    let number =
        1 + changes(&json).iter().position(|change| change == "--time=06:00:00").expect("a shorter limit");
    let diff = "--- train.sh\n+++ train.sh\n@@ line 4 @@\n-#SBATCH --time=24:00:00   # to be safe\n+#SBATCH --time=06:00:00   # to be safe\nCosts you: Slurm ends the job after 6 h; how long it runs is unknown.\n";
    assert_eq!(sandbox.run(&format!("{LOOK} --apply {number} --dry-run")).succeeds(), diff);
    let told = sandbox.run(&format!("{LOOK} --apply {number} --dry-run --format json")).exits(0).json();
    let lines = json!([{
        "line": 4, "before": "#SBATCH --time=24:00:00   # to be safe", "after": ["#SBATCH --time=06:00:00   # to be safe"],
    }]);
    assert_eq!(
        (&told["schema"], &told["kept_as"], &told["lines"]),
        (&json!("hsched.when-apply/1"), &Value::Null, &lines)
    );
    assert_eq!(fs::read_to_string(&script).expect("a script"), SCRIPT);
    assert!(!sandbox.work("train.sh.bak").exists());
    let said = sandbox.run(&format!("{LOOK} --apply {number}")).succeeds();
    assert_eq!(
        said,
        format!("{diff}Written. The old file is train.sh.bak. Submit it as before: sbatch train.sh\n")
    );
    assert_eq!(fs::read_to_string(&script).expect("a script"), SCRIPT.replace("=24:00:00", "=06:00:00"));
    assert_eq!(fs::read_to_string(sandbox.work("train.sh.bak")).expect("the old one"), SCRIPT);
    assert_eq!((mode(&script), mode(&sandbox.work("train.sh.bak"))), (0o750, 0o750));
}

#[test]
fn a_change_that_nobody_saw_is_shown_first_and_no_old_script_is_lost() {
    let sandbox = small().file("train.sh.bak", "another\n");
    let script = sandbox.work("train.sh");
    let unseen = sandbox.run(&format!("{LOOK} --apply 1"));
    assert_eq!(unseen.code, Some(2), "{}", unseen.stderr);
    assert!(
        unseen.stdout.contains("SOONER BY") && unseen.stderr.contains("--apply 1 again"),
        "{}",
        unseen.stderr
    );
    assert_eq!(fs::read_to_string(&script).expect("a script"), SCRIPT);
    let json = sandbox.run(&format!("{LOOK} --format json")).json();
    let number =
        1 + changes(&json).iter().position(|change| change == "--time=06:00:00").expect("a shorter limit");
    let said = sandbox.run(&format!("{LOOK} --apply {number}")).succeeds();
    assert!(said.contains("The old file is train.sh.bak2."), "{said}");
    assert_eq!(fs::read_to_string(sandbox.work("train.sh.bak")).expect("a file"), "another\n");
    assert_eq!(fs::read_to_string(sandbox.work("train.sh.bak2")).expect("a file"), SCRIPT);
}

#[test]
fn another_gpu_type_needs_a_word() {
    let sandbox = small();
    let json = sandbox.run(&format!("{LOOK} --format json")).json();
    let place = json["script"]["changes"]
        .as_array()
        .expect("changes")
        .iter()
        .position(|candidate| candidate["may"] == "a100");
    let number = place.expect("another type") + 1;
    let refused = sandbox.run(&format!("{LOOK} --apply {number}"));
    assert_eq!(refused.code, Some(2), "{}", refused.stderr);
    assert!(refused.stderr.contains("add --may a100"), "{}", refused.stderr);
    let diff = sandbox.run(&format!("{LOOK} --apply {number} --may a100 --dry-run")).succeeds();
    let any = sandbox.run(&format!("{LOOK} --apply {number} --may type --dry-run")).succeeds();
    assert_eq!(any, diff);
    // Quotes stay, as does the other option of the line.
    assert!(diff.contains("+#SBATCH --gres='gpu:a100:2'") && diff.contains("+#SBATCH -p big -c 4"), "{diff}");
}

/// If Slurm preempts by partition, it stops jobs of a preemptible partition for those of one with a higher
/// tier, even if both are of one user.
#[test]
fn what_stops_a_running_job_of_ones_own_says_so() {
    let mut queue = queue();
    let low =
        json!({ "name": "gpu", "default": true, "max_time_s": 172_800.0, "tier": 1, "preemptible": true });
    queue["partitions"] = json!([low, { "name": "high", "tier": 9 }]);
    queue["nodes"][0]["partitions"] = json!(["gpu", "high"]);
    queue["jobs"][0]["ours"] = json!(true);
    let sandbox = small().file("queue.json", queue.to_string());
    let json = sandbox.run(&format!("{LOOK} --format json")).json();
    let list = json["script"]["changes"].as_array().expect("changes");
    let change = list.iter().find(|change| change["options"] == json!(["--partition=gpu,high"]));
    let change = change.expect("a change to the partition");
    let costs = json!(["Slurm may stop (preempt) your running job 1 for it"]);
    assert_eq!((&change["costs"], &change["harmless"]), (&costs, &json!(false)));
    // Such changes come last, in a table of their own.
    assert_eq!(list.last().map(|last| &last["options"]), Some(&change["options"]));
    let shown = sandbox.run(LOOK).exits(0).stdout;
    let (_, last) = shown.split_once("At the cost of another job of yours:\n").expect("a table of their own");
    assert!(last.contains("--partition=gpu,high"), "{shown}");
    // Without permission, the change is only shown.
    let number = &change["number"];
    let refused = sandbox.run(&format!("{LOOK} --apply {number}")).fails(2);
    assert!(refused.contains("your running job 1") && refused.contains("add --may-stop"), "{refused}");
    sandbox.run(&format!("{LOOK} --apply {number} --dry-run")).succeeds();
    let diff = sandbox.run(&format!("{LOOK} --apply {number} --may-stop --dry-run")).succeeds();
    assert!(diff.contains("gpu,high"), "{diff}");
    // The note also appears if the request itself names that partition.
    let note = "As it is, Slurm may stop (preempt) your running job 1 for it.";
    let said = |more: &str| sandbox.run(&format!("{LOOK}{more}")).exits(0).stdout;
    assert!(said(" -- --partition=high").contains(note));
    assert!(!said("").contains(note));
}

#[test]
fn a_combined_change_is_written_out() {
    // Of the V100, two are free from 2 h to 9 h; of the A100, two are free for 8 h, and all from 9 h on.
    let now = 1_795_345_200;
    let running = |id: &str, (node, gpu_type): (&str, &str), hours: u32| {
        json!({ "id": id, "partitions": [if node == "v1" { "gpu" } else { "big" }], "asks": {},
            "limit_s": 3600 * (hours + 1), "running": { "since": now - 3600,
                "holds": [{ "node": node, "gpus": [{ "type": gpu_type, "count": 2 }] }] } })
    };
    let waiting = |id: &str, partition: &str, gpu_type: &str, hours: u32| {
        json!({ "id": id, "partitions": [partition], "limit_s": 3600 * hours, "priority": 1000, "submitted": now - 5000,
            "asks": { "gpus": [{ "type": gpu_type, "count": 4 }] } })
    };
    let mut queue = queue();
    queue["jobs"] = json!([
        running("1", ("v1", "v100"), 2),
        running("2", ("v1", "v100"), 9),
        waiting("3", "gpu", "v100", 10),
        running("4", ("a1", "a100"), 8),
        waiting("5", "big", "a100", 1),
    ]);
    let text = small().file("queue.json", queue.to_string()).run(LOOK).exits(0).stdout;
    let plain = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(plain.contains("--time=06:00:00 --gres=gpu:a100:2 --partition=big (changes 2 and 3)"), "{text}");
}

#[test]
fn a_number_that_the_list_lacks_is_refused_with_those_that_it_has() {
    let sandbox = small();
    for wrong in ["--apply 9", "--apply 0", "--apply -1", "--submit -1"] {
        let refused = sandbox.run(&format!("{LOOK} {wrong}")).fails(3);
        assert!(refused.contains("train.sh: there are changes 1 to "), "{wrong}: {refused}");
    }
}

#[test]
fn a_number_means_the_change_that_was_shown() {
    let sandbox = small();
    let shown = changes(&sandbox.run(&format!("{LOOK} --format json")).json());
    // In the meantime, the GPUs have become free, so no change helps.
    let mut free = queue();
    free["jobs"] = json!([]);
    let sandbox = sandbox.file("queue.json", free.to_string());
    let ran = sandbox.run(&format!("{LOOK} --apply 1"));
    assert_eq!(ran.code, Some(3), "{}", ran.stderr);
    assert!(ran.stderr.contains(&format!("change 1 was {}", shown[0])), "{}", ran.stderr);
    assert_eq!(sandbox.run(&format!("{LOOK} --apply 9")).code, Some(3));
    assert!(!sandbox.work("train.sh.bak").exists());
    let error = sandbox.run(&format!("{LOOK} --submit 9")).fails(3);
    assert!(error.contains("no change brings its start forward; nothing was submitted"), "{error}");
    assert!(error.contains("to submit it as it is: sbatch train.sh"), "{error}");
}

#[test]
fn a_list_that_cannot_be_kept_invalidates_the_earlier_one() {
    let sandbox = small();
    let script = format!(
        "when=\"$2 {LOOK}\"; $when >/dev/null || exit 9; cat /dev/zero >\"$1/full\" 2>/dev/null; \
        $when >/dev/null || exit 9; $when --apply 1 >/dev/null"
    );
    let Some(ran) = sandbox.on_small_disk(&script) else { return };
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert!(ran.stderr.contains("note: the list of changes cannot be kept: "), "{ran:?}");
    assert!(ran.stderr.contains("the changes were not shown in the last hour"), "{ran:?}");
    assert!(!sandbox.work("train.sh.bak").exists());
}

#[test]
fn a_change_is_submitted_once_and_leaves_the_script_alone() {
    let sandbox = busy().variable("SBATCH_TIMELIMIT", "20:00:00");
    let look = "when train.sh --futures 20 --budget 1h";
    // Change 1 has not been displayed.
    let unseen = sandbox.run(&format!("{look} --submit 1"));
    assert_eq!((unseen.code, sandbox.calls("sbatch").len()), (Some(2), 0), "{}", unseen.stderr);
    assert!(unseen.stderr.contains("then give --submit 1 again"), "{}", unseen.stderr);
    sandbox.run(&format!("{look} -- --comment=x")).exits(0);
    let dry = sandbox.run(&format!("{look} --submit 1 --dry-run -- --comment=x")).exits(0);
    let costs = "Slurm ends the job after 1 h 30 min; the 1 past run took 1 h";
    assert_eq!(dry.stderr, format!("note: costs you: {costs}\n"));
    assert_eq!(dry.stdout, "sbatch --parsable '--time=20:00:00' '--comment=x' '--time=01:30:00' train.sh\n");
    let told = sandbox.run(&format!("{look} --submit 1 --dry-run --format json -- --comment=x")).exits(0);
    assert_eq!(told.stderr, "");
    let told = told.json();
    assert_eq!((&told["schema"], &told["job_id"]), (&json!("hsched.when-submit/1"), &Value::Null));
    assert_eq!((&told["costs"], &told["command"]), (&json!(costs), &json!(dry.stdout.trim_end())));
    assert!(sandbox.calls("sbatch").is_empty());
    let done = sandbox.run(&format!("{look} --submit 1")).succeeds();
    assert_eq!(done, format!("Submitted as job 1. Costs you: {costs}.\n"));
    assert_eq!(sandbox.calls("sbatch").len(), 1);
    assert_eq!(fs::read_to_string(sandbox.work("train.sh")).expect("a script"), SCRIPT.replace(" -c 4", ""));
    // The script cannot change options that the environment sets.
    let refused = sandbox.run(&format!("{look} --apply 1"));
    assert_eq!(refused.code, Some(3), "{}", refused.stderr);
    assert!(refused.stderr.contains("the environment sets --time (SBATCH_TIMELIMIT)"), "{}", refused.stderr);
    // After an unclear answer, the request is not repeated.
    let lost = busy().program("sbatch", "echo 'Socket timed out on send/recv operation' >&2; exit 1");
    lost.run(look).exits(0);
    let ran = lost.run(&format!("{look} --submit 1"));
    assert_eq!((ran.code, lost.calls("sbatch").len()), (Some(1), 1), "{}", ran.stderr);
}
