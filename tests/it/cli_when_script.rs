//! `hsched when SCRIPT`: when a batch script would start, which changes make it start sooner, and their
//! application to the script or the queue.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use chrono::{Local, TimeDelta};
use serde_json::{Value, json};

use crate::queue_look::{others, site};
use crate::sandbox::{Sandbox, mode};

const SCRIPT: &str = "#!/bin/bash
# Trains for a while.
#SBATCH --job-name=bert
#SBATCH --time=24:00:00   # to be safe
#SBATCH --gres='gpu:v100:2'
#SBATCH -p gpu -c 4

srun python train.py
#SBATCH --mem=200G
";

/// Returns a queue: two of four V100 are free for six hours, after which a pending job gets all four. Four
/// A100 are free in another partition.
fn queue() -> Value {
    let node = |name: &str, gpu_type: &str, partition: &str| json!({ "name": name, "partitions": [partition], "cpus": 32, "gpus": [{ "type": gpu_type, "count": 4 }] });
    json!({ "schema": "hsched.queue/1", "taken_at": 1_795_345_200, "cluster": "small",
        "nodes": [node("v1", "v100", "gpu"), node("a1", "a100", "big")],
        "partitions": [{ "name": "gpu", "default": true, "max_time_s": 172_800.0 }, { "name": "big" }],
        "jobs": [
            { "id": "1", "partitions": ["gpu"], "limit_s": 25_200.0, "asks": {},
                "running": { "since": 1_795_341_600, "holds": [{ "node": "v1", "gpus": [{ "type": "v100", "count": 2 }] }] } },
            { "id": "2", "partitions": ["gpu"], "limit_s": 36_000.0, "priority": 1000, "submitted": 1_795_340_000,
                "asks": { "gpus": [{ "type": "v100", "count": 4 }] } },
        ] })
}

fn small() -> Sandbox {
    let sandbox = Sandbox::new().variable("COLUMNS", "250");
    sandbox.file("train.sh", SCRIPT).file("queue.json", queue().to_string())
}

const LOOK: &str = "when train.sh --snapshot queue.json --futures 20 --budget 1h";

fn changes(json: &Value) -> Vec<String> {
    let list = json["script"]["changes"].as_array().expect("changes");
    let words = |value: &Value| {
        value["options"]
            .as_array()
            .expect("options")
            .iter()
            .map(|word| word.as_str().expect("text").to_owned())
            .collect::<Vec<_>>()
    };
    list.iter().map(|change| words(change).join(" ")).collect()
}

#[test]
fn a_script_at_a_limit_waits_for_the_limit() {
    let mut queue = queue();
    queue["jobs"] = json!([queue["jobs"][0]]);
    queue["jobs"][0]["account"] = json!("bio");
    queue["accounts"] = json!([{ "name": "bio" }]);
    queue["limits"] = json!([{ "holder": "a:bio", "name": "GrpTRES", "tres": "gres/gpu", "max": 3 }]);
    let sandbox = small().file("queue.json", queue.to_string());
    let text = sandbox.run(LOOK).succeeds();
    assert!(
        text.contains("The limit of account bio (3 GPUs) is reached: 2 in use by others, 0 by you."),
        "{text}"
    );
    assert!(!text.contains("it may wait for CPUs"), "{text}");
    let limits = &sandbox.run(&format!("{LOOK} --format json")).json()["queues"][0]["reached_limits"];
    assert_eq!((&limits[0]["holder"], &limits[0]["jobs"]), (&json!("a:bio"), &json!([])));
}

#[test]
fn a_start_at_once_without_known_limits_is_conditional() {
    let mut queue = queue();
    queue["jobs"] = json!([]);
    let start = |queue: &Value| small().file("queue.json", queue.to_string()).run(LOOK).succeeds();
    assert!(start(&queue).contains("It would start at once.\n"));
    queue["accounts"] = json!([{ "name": "bio" }]);
    let condition =
        "It would start at once, if no limit of an account or QOS delays it: these limits are unknown.";
    assert!(start(&queue).contains(condition), "{}", start(&queue));
    queue["limits"] = json!([]);
    assert!(start(&queue).contains("It would start at once.\n"));
}

#[test]
fn a_script_is_told_when_it_starts_and_what_would_be_sooner() {
    let text = small().run(LOOK).succeeds();
    let plain = text.split_whitespace().collect::<Vec<_>>().join(" ");
    for words in [
        "train.sh asks for 2 v100 GPUs on 1 node, partition gpu, 4 CPUs, 24 h.",
        "It would start at",
        "It waits for its turn: 2 of 4 v100 are free, but 1 job is before it, for which Slurm keeps room.",
        "STARTS SOONER BY CHANGE COSTS YOU",
        "--time=06:00:00, now 24:00:00",
        "Slurm ends the job after 6 h; how long it runs is unknown",
        "are a100 GPUs fast enough? The script asks for v100",
        "it stands after the first command",
        "Estimated. Nothing is submitted or changed. To write change 1: hsched when train.sh --apply 1",
    ] {
        assert!(plain.contains(words), "{words}: {text}");
    }
    let json = small().run(&format!("{LOOK} --format json")).json();
    assert_eq!((&json["schema"], &json["jobs"]), (&json!("hsched.when/1"), &json!([])));
    let script = &json["script"];
    assert_eq!((&script["name"], &script["refused"]), (&json!("train.sh"), &Value::Null));
    assert_eq!(
        (&script["request"]["gpus_total"], &script["as_is"]["outlook"]),
        (&json!(2), &json!("estimated"))
    );
    assert!(changes(&json).contains(&"--time=06:00:00".to_owned()), "{json}");
}

#[test]
fn options_beside_the_script_win_and_no_script_is_needed() {
    let json = small().run(&format!("{LOOK} --format json -- --time=2:00:00")).json();
    assert_eq!(json["script"]["request"]["time_limit_s"], 7200);
    // With a time limit of at most six hours, it starts at once.
    assert_eq!(json["script"]["as_is"]["start"]["q90_s"], 0.0);
    let line = "when --snapshot queue.json --futures 20 --budget 1h";
    let text = small().run(&format!("{line} -- --gres=gpu:v100:2 -t 4h")).exits(0).stdout;
    assert!(text.contains("this request asks for 2 v100 GPUs on 1 node"), "{text}");
    assert!(
        text.contains("4 h") && text.contains("start at once") && text.contains("--time=4:00:00"),
        "{text}"
    );
    // A call with neither a script nor options is an error, and so are changes without a script.
    assert_eq!(small().run("when --snapshot queue.json").code, Some(2));
    assert_eq!(small().run(&format!("{line} --apply 1 -- --gres=gpu:v100:2")).code, Some(2));
    assert_eq!(small().run(&format!("{line} --submit 1 -- --gres=gpu:v100:2")).code, Some(2));
}

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
fn numbers_beyond_any_cluster_are_only_too_large() {
    for options in
        ["-N 100000 --gres=gpu:v100:100000", "-N 4000000 --mem=99999999999G", "--gres=gpu:4000000000"]
    {
        let line = "when --snapshot queue.json --futures 20 --budget 1h";
        let said = small().run(&format!("{line} -- {options}")).exits(3).stdout;
        assert!(said.contains("never start"), "{options}: {said}");
    }
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
fn notes_are_on_what_matters_for_the_start() {
    let said = |queue: &Value, script: &str, code: i32| {
        let sandbox = small().file("queue.json", queue.to_string()).file("train.sh", script);
        sandbox.run(LOOK).exits(code).stdout.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let mut queue = queue();
    queue["partitions"] = json!([
        { "name": "gpu", "default": true, "tier": 9 }, { "name": "low", "tier": 1, "preemptible": true }]);
    queue["jobs"][0]["partitions"] = json!(["low"]);
    queue["jobs"][0]["running"]["holds"][0]["gpus"][0]["count"] = json!(3);
    let growth = |weight: f64| json!({ "age": { "weight": weight, "max_s": 3600.0 } });
    queue["scheduling"] = growth(100.0);
    let (grows, others) =
        ("cluster small: priorities grow by 100 an hour", "Slurm may preempt 1 running job");
    let text = said(&queue, SCRIPT, 0);
    assert!(text.contains(grows) && text.contains(others), "{text}");
    let text = said(&queue, &SCRIPT.replace("v100:2", "v1000:2"), 3);
    assert!(text.contains("It would never start") && !text.contains("priorities grow"), "{text}");
    assert!(!text.contains(others), "{text}");
    queue["scheduling"] = growth(0.0);
    let text = said(&queue, SCRIPT, 0);
    assert!(text.contains(others) && !text.contains("priorities grow"), "{text}");
}

#[test]
fn an_unknown_gpu_type_cannot_be_allowed_and_something_must_be_asked() {
    let error = small().run(&format!("{LOOK} --apply 1 --may v1oo")).fails(2);
    assert!(error.contains("--may v1oo: this cluster has no such GPU type; it has a100, v100"), "{error}");
    let error = small().run("when --snapshot queue.json").fails(2);
    assert!(error.contains("hsched when -- --gres=gpu:1"), "{error}");
}

#[test]
fn what_slurm_refuses_and_what_is_not_known_is_said() {
    let said = |old: &str, new: &str, code: i32| {
        let sandbox = small().file("train.sh", SCRIPT.replace(old, new));
        sandbox.run(LOOK).exits(code).stdout.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let text = said("-p gpu", "-p gpus", 3);
    assert!(text.contains("sbatch would refuse train.sh: line 6, --partition=gpus: Slurm shows no partition gpus; it shows gpu, big. To fix it: look at one of these: hsched when train.sh -- --partition=NAME"), "{text}");
    let text = said("--time=24:00:00", "--tim=24:00:00", 3);
    assert!(text.contains("sbatch would refuse train.sh:") && text.contains("ambiguous"), "{text}");
    let text = said("'gpu:v100:2'", "gpu:{{gpus}}", 3);
    assert!(text.contains("line 5") && text.contains("-- --nodes=1 --gres=gpu:1"), "{text}");
    // The limit is longer than the partition allows; a shorter one makes the start possible.
    let text = said("--time=24:00:00", "--time=72:00:00", 0);
    assert!(
        text.contains("It would never start: partition gpu allows a time limit of 2 d, it asks for 3 d."),
        "{text}"
    );
    assert!(
        text.contains("as is: never --time=2-00:00:00, now 72:00:00") || text.contains("--time=18:00:00"),
        "{text}"
    );
}

#[test]
fn a_job_file_goes_on_as_before() {
    let refused = small().run("when jobs.yaml --snapshot queue.json --apply 1");
    assert_eq!(refused.code, Some(2), "{}", refused.stderr);
    assert!(refused.stderr.contains("jobs.yaml is none"), "{}", refused.stderr);
    let refused = small().run(&format!("{LOOK} --partition big"));
    assert_eq!(refused.code, Some(2), "{}", refused.stderr);
    assert!(refused.stderr.contains("after --"), "{}", refused.stderr);
}

/// Returns a sandbox with a Slurm on which one job holds two of the four V100s of the only node until its
/// limit, and a pending job requests all four. A past run of the script took one hour.
fn busy() -> Sandbox {
    let since = (Local::now() - TimeDelta::hours(6)).format("%Y-%m-%dT%H:%M:%S").to_string();
    let of_two =
        others("v1", "v100").replace("gpu:v100:4", "gpu:v100:2").replace("2026-11-22T10:00:00", &since);
    let wide = "8|PENDING|man|bio|normal|gpu|900|2026-11-22T09:00:00|N/A|10:00:00|1|4|4|cpu=4,node=1|gres:gpu:v100:4|N/A|N/A|N/A||(null)|(null)|OK|Resources";
    let past = "11|COMPLETED|3600|cpu=4,gres/gpu:v100=2,gres/gpu=2,node=1|1|v1|||gpu";
    let sacct =
        format!("case \"$*\" in *--name=bert*) printf '%s\\n' '{}';; esac", past.replace('|', "\u{1f}"));
    site("AccountingStorageType = accounting_storage/slurmdbd", &[of_two, wide.to_owned()])
        .printing(
            "sinfo",
            &["v1|gpu*|2-00:00:00|mixed|gpu:v100:4|gpu:v100:2(IDX:0-1)|4/28/0/32|64000|400||none"],
        )
        .program("sacct", &sacct)
        .file("train.sh", SCRIPT.replace(" -c 4", ""))
        .variable("COLUMNS", "250")
}

#[test]
fn past_runs_of_the_name_say_how_short_a_limit_may_be() {
    let sandbox = busy();
    let look = "when train.sh --futures 20 --budget 1h";
    for _ in 0..2 {
        let ran = sandbox.run(look).exits(0);
        let text = ran.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
        // One hour plus half an hour, the margin after one run.
        assert!(text.contains("--time=01:30:00, now 24:00:00"), "{}", ran.stdout);
        assert!(
            text.contains("Slurm ends the job after 1 h 30 min; the 1 past run took 1 h"),
            "{}",
            ran.stdout
        );
    }
    // Past runs are queried at most once an hour.
    let asked = sandbox.calls("sacct").into_iter().filter(|call| call.contains(&"--name=bert".to_owned()));
    assert_eq!(asked.count(), 1);
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
