//! `hsched when SCRIPT`: when a batch script would start, and which changes make it start sooner.

use chrono::{Local, TimeDelta};
use serde_json::{Value, json};

use crate::queue_look::{others, site};
use crate::sandbox::Sandbox;

pub const SCRIPT: &str = "#!/bin/bash
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
pub fn queue() -> Value {
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

pub fn small() -> Sandbox {
    let sandbox = Sandbox::new().variable("COLUMNS", "250");
    sandbox.file("train.sh", SCRIPT).file("queue.json", queue().to_string())
}

pub const LOOK: &str = "when train.sh --snapshot queue.json --futures 20 --budget 1h";

pub fn changes(json: &Value) -> Vec<String> {
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
pub fn busy() -> Sandbox {
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
